/* freed.c: records of requests that the application has freed. All receives are looked at each time: a message
 * that has arrived may tell the application that an earlier one has too. Sends only wait for their buffers to be given
 * back: a few are looked at, in turn. */
#include "request_internal.h"
#include "base/activity.h"
#include "base/backoff.h"
#include "protocol/pipeline_send.h"
#include <pthread.h>

#define SENDS_AT_ONCE 4

struct queue {
    struct record *first, *last;
    int count;
};
static struct queue sends, receives;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

bool record_orphan(struct record *r)
{
    r->freed = true;
    if (!r->active) {
        record_free(r);
        return false;
    }
    pthread_mutex_lock(&lock);
    push(record_brings(r) ? &receives : &sends, r);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&request_freed, 1);
    return true;
}

/* Looks at the first `most` of a queue: `done` receives those that have completed, the others go behind. */
static void collect(struct queue *q, int most, struct completion *done)
{
    for (int i = 0; i < most; i++) {
        struct record *r = pop(q);
        MPI_Status status;
        int flag = 0, rc = record_stepped(r) ? PMPI_Test(&r->request, &flag, &status) : MPI_SUCCESS;
        if (rc == MPI_SUCCESS && !flag) {
            push(q, r);
            continue;
        }
        atomic_fetch_sub(&request_freed, 1);
        completion_add(done, r, &status, rc);
    }
}

static void collect_orphans(struct completion *done)
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
    collect_orphans(&c);
    completion_end(&c);
    polling = false;
}

/* Not one that is over: Open MPI 4.1 takes what was cancelled out of its list once more. */
static void give_up(struct record *r)
{
    int over = 0;
    PMPI_Request_get_status(r->request, &over, MPI_STATUS_IGNORE);
    if (!over) PMPI_Cancel(&r->request);
}

static void finish(struct queue *q, bool cancel)
{
    for (struct record *r; (r = pop(q));) {
        if (cancel && !r->holds) give_up(r);
        for (unsigned spins = 0; !record_stepped(r); spins++) backoff(spins);
        PMPI_Wait(&r->request, MPI_STATUS_IGNORE);
        if (r->persistent) PMPI_Request_free(&r->request);
        if (r->offer) rndv_send_end(r->offer);
        r->offer = NULL;
        record_free(r);
    }
}

void orphans_finish(void)
{
    finish(&receives, true);
    finish(&sends, false);
}
