/* request.c: side records of requests. */
#include "request.h"
#include "interpose.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct record {
    MPI_Request request;
    struct parcel *parcel;
    bool receive;
    struct record *next;     /* in a completion, or among the orphans */
    UT_hash_handle hh;
};

atomic_int request_records, request_orphans;
static struct record *records, *orphans;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void record_keep(struct record *r)
{
    pthread_mutex_lock(&lock);
    HASH_ADD(hh, records, request, sizeof r->request, r);
    pthread_mutex_unlock(&lock);
}

void record_add(MPI_Request request, struct parcel *p, bool receive)
{
    struct record *r = calloc(1, sizeof *r);
    if (!r) abort();   /* the MPI is already writing into the parcel: there is no way back */
    *r = (struct record){.request = request, .parcel = p, .receive = receive};
    atomic_fetch_add_explicit(&request_records, 1, memory_order_release);
    record_keep(r);
}

struct record *record_take(MPI_Request request)
{
    struct record *r = NULL;
    if (request == MPI_REQUEST_NULL) return NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, records, &request, sizeof request, r);
    if (r) HASH_DEL(records, r);
    pthread_mutex_unlock(&lock);
    return r;
}

static void record_free(struct record *r)
{
    parcel_close(r->parcel);
    free(r);
    atomic_fetch_sub_explicit(&request_records, 1, memory_order_release);
}

/* The packed bytes to unpack: 0 for what failed, was cancelled, or was cut short. Open MPI's status of a truncated
 * receive has the whole message's size, and MPI_Request_get_status reports no error with it. */
static int64_t brought(const struct record *r, const MPI_Status *status, int error)
{
    int cancelled = 0;
    if (!r->receive || error != MPI_SUCCESS) return 0;
    PMPI_Test_cancelled(status, &cancelled);
    int64_t bytes = cancelled ? 0 : wire_received(status);
    return bytes <= r->parcel->bytes ? bytes : 0;
}

void completion_add(struct completion *c, struct record *r, const MPI_Status *status, int error)
{
    if (batch_unpack(&c->batch, r->parcel, brought(r, status, error)))
        c->rc = raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "unpacking on the GPU failed");
    r->next = c->done;
    c->done = r;
}

int completion_end(struct completion *c)
{
    if (batch_wait(&c->batch) && c->rc == MPI_SUCCESS)
        c->rc = raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "unpacking on the GPU failed");
    for (struct record *r = c->done, *next; r; r = next) {
        next = r->next;
        record_free(r);
    }
    c->done = NULL;
    record_poll();
    return c->rc;
}

void record_orphan(struct record *r)
{
    pthread_mutex_lock(&lock);
    r->next = orphans;
    orphans = r;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&request_orphans, 1);
}

/* Takes out of the list the orphans that have completed; `done` receives them. */
static void collect_orphans(struct completion *done)
{
    pthread_mutex_lock(&lock);
    for (struct record **at = &orphans; *at;) {
        struct record *r = *at;
        MPI_Status status;
        int flag = 0, rc = PMPI_Test(&r->request, &flag, &status);
        if (rc == MPI_SUCCESS && !flag) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        atomic_fetch_sub(&request_orphans, 1);
        completion_add(done, r, &status, rc);
    }
    pthread_mutex_unlock(&lock);
}

void record_poll(void)
{
    static _Thread_local bool polling;
    if (polling || !atomic_load(&request_orphans)) return;
    polling = true;
    struct completion c = {0};
    collect_orphans(&c);
    completion_end(&c);
    polling = false;
}

void record_finish(void)
{
    for (struct record *r = orphans, *next; r; r = next) {
        next = r->next;
        if (r->receive) PMPI_Cancel(&r->request);
        PMPI_Wait(&r->request, MPI_STATUS_IGNORE);
        record_free(r);
    }
    orphans = NULL;
}
