/* freed.c: records of requests that the application has freed. Each poll looks at all receives: a message that arrived
 * may tell the application that an earlier one did too. Sends only wait to return their buffers: a poll looks at a
 * few, in turn. */
#include "request_internal.h"
#include "base/activity.h"
#include "base/self_comm.h"
#include "protocol/pipeline_send.h"
#include <pthread.h>

#define SENDS_AT_ONCE 4

struct queue {
    struct record *first, *last;
    int count;
};
static struct queue sends, receives;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;   /* an error handler may free requests, too */

static void push(struct queue *q, struct record *r)
{
    r->next = NULL;
    if (q->first) q->last->next = r;
    else q->first = r;
    q->last = r;
    q->count++;
}

static struct record *pop(struct queue *q)
{
    struct record *r = q->first;
    if (!r) return NULL;
    q->first = r->next;
    q->count--;
    return r;
}

bool record_freed(struct record *r)
{
    if (r->state == RECORD_INACTIVE) {
        record_free(r);
        return false;
    }
    r->freed = true;
    if (r->kind == &kind_rndv) rndv_send_unmatch(r->rndv);
    pthread_mutex_lock(&lock);
    push(record_receives(r) ? &receives : &sends, r);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&request_freed, 1);
    return true;
}

/* Tests the first `most` records of a queue. Completed ones go to `done`, the others to the end. */
static void collect(struct queue *q, int most, struct completion *done)
{
    for (int i = 0; i < most; i++) {
        struct record *r = pop(q);
        MPI_Status status;
        int flag = 0, rc = record_step_taken(r) ? PMPI_Test(&r->request, &flag, &status) : MPI_SUCCESS;
        int class = rc;
        if (rc != MPI_SUCCESS) PMPI_Error_class(rc, &class);
        if (rc == MPI_SUCCESS ? !flag : STAYS_ACTIVE(class)) {
            push(q, r);
            continue;
        }
        atomic_fetch_sub(&request_freed, 1);
        completion_add(done, r, &status, rc);
    }
}

static void collect_all(struct completion *done)
{
    pthread_mutex_lock(&lock);
    collect(&receives, receives.count, done);
    collect(&sends, sends.count < SENDS_AT_ONCE ? sends.count : SENDS_AT_ONCE, done);
    pthread_mutex_unlock(&lock);
}

void record_poll(void)
{
    static _Thread_local bool polling;
    if (!atomic_load(&request_freed) || polling) return;
    polling = true;
    rndv_send_poll(), pipeline_send_poll();
    struct completion c = {0};
    collect_all(&c);
    completion_end(&c);
    polling = false;
}

/* Workaround (Open MPI 4.1): cancelling a completed request takes it out of a list twice. */
static void cancel_active(struct record *r)
{
    int complete = 0;
    PMPI_Request_get_status(r->request, &complete, MPI_STATUS_IGNORE);
    if (!complete) PMPI_Cancel(&r->request);
}

static void finish(struct queue *q, bool cancel)
{
    for (struct record *r; (r = pop(q));) {
        if (cancel && !r->held) cancel_active(r);
        for (unsigned spins = 1; !record_step_taken(r); spins++) comm_backoff(MPI_COMM_WORLD, spins);
        PMPI_Wait(&r->request, MPI_STATUS_IGNORE);
        if (r->persistent) PMPI_Request_free(&r->request);
        if (r->kind->end) r->kind->end(r);
        record_free(r);
    }
}

void record_freed_finish(void)
{
    finish(&receives, true);
    finish(&sends, false);
}
