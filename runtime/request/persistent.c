/* persistent.c: starts persistent requests. */
#include "request_internal.h"
#include "base/activity.h"
#include "base/spinlock.h"
#include "protocol/pipeline_send.h"

atomic_int record_helds;

void record_hold(struct record *r, const MPI_Status *status, int error)
{
    r->found = *status;
    r->found.MPI_ERROR = error;
    r->held = true;
    spinlock_count(&record_helds, 1);
    if (r->dormant) spinlock_count(&request_records, 1);
}

void record_unhold(struct record *r)
{
    if (!r->held) return;
    r->held = false;
    spinlock_count(&record_helds, -1);
    if (r->dormant) spinlock_count(&request_records, -1);
}

void record_send_rndv(struct record *r, struct rndv_send *o)
{
    r->kind = &kind_rndv, r->rndv = o;
    spinlock_count(&record_rndvs, 1);
}

void record_send_pipelined(struct record *r, struct pipeline_send *o)
{
    r->kind = &kind_pipelined, r->pipelined = o;
}

bool record_start(struct starts *s, struct record *r)
{
    if (!r->persistent) return record_keep(r), true;   /* the MPI will refuse it */
    r->state = RECORD_ACTIVE;
    r->next = s->first;
    s->first = r;
    return r->ops->start(r, r->of, s);
}

void record_stop(struct record *r)
{
    if (!r->persistent) return;
    r->state = RECORD_INACTIVE;
    if (r->kind->recall) r->kind->recall(r);
    record_unhold(r);
}

const struct record *record_feed(struct starts *s)
{
    const struct record *failed = NULL;
    for (struct record *r = s->first; r; r = r->next) {
        if (r->kind != &kind_pipelined) continue;
        if (pipeline_send_feed(r->pipelined)) failed = r;
        pipeline_send_leave(r->pipelined);
        r->kind = &kind_operation;
    }
    return failed;
}

bool record_started(struct starts *s, bool ok)
{
    ok = !batch_wait(&s->batch) && ok;
    for (struct record *r = s->first; r; r = r->next)
        if (r->ops->packed && r->ops->packed(r->of)) ok = false;
    for (struct record *r = s->first, *next; r; r = next) {
        next = r->next;
        if (!ok) record_stop(r);
        record_keep(r);
    }
    return ok;
}
