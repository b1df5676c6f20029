/* persistent.c: starting persistent requests. */
#include "request_internal.h"
#include "base/activity.h"
#include "base/spinlock.h"
#include "protocol/pipeline_send.h"
#include <limits.h>

atomic_int request_holding;

void record_hold(struct record *r, const MPI_Status *status, int error)
{
    r->found = *status;
    r->found.MPI_ERROR = error;
    r->holds = true;
    spinlock_count(&request_holding, 1);
    if (r->dormant) spinlock_count(&request_records, 1);
}

void record_offer(struct record *r, struct rndv_send *o)
{
    r->offer = o;
    spinlock_count(&request_offers, 1);
}

void record_flow(struct record *r, struct pipeline_send *o)
{
    r->outflow = o;
}

void record_drop_held(struct record *r)
{
    if (r->holds) spinlock_count(&request_holding, -1);
    if (r->holds && r->dormant) spinlock_count(&request_records, -1);
    r->holds = false;
}

bool record_start(struct starts *s, struct record *r)
{
    if (!r->persistent) return record_keep(r), true;   /* the MPI will refuse it */
    r->active = true;
    r->next = s->first;
    s->first = r;
    return r->ops->start(r, r->of, s);
}

void record_drop_offer(struct record *r)
{
    if (!r->offer) return;
    rndv_send_withdraw(r->offer);
    r->offer = NULL;
    spinlock_count(&request_offers, -1);
}

void record_stop(struct record *r)
{
    r->active = false;
    if (!r->offer && r->ops && r->ops->recall) r->ops->recall(r->of);
    record_drop_offer(r), record_drop_held(r);
    if (r->outflow) pipeline_send_withdraw(r->outflow), r->outflow = NULL;
}

bool record_feed(struct starts *s)
{
    bool ok = true;
    for (struct record *r = s->first; r; r = r->next) {
        if (!r->outflow) continue;
        if (pipeline_send_feed(r->outflow)) ok = false;
        pipeline_send_leave(r->outflow);
        r->outflow = NULL;
    }
    return ok;
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
