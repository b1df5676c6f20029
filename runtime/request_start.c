/* request_start.c: starting persistent requests. */
#include "request_inner.h"
#include "activity.h"
#include "aside.h"
#include "deferred.h"
#include "latch.h"
#include "operand.h"
#include "outflow.h"
#include "standing.h"
#include <limits.h>

atomic_int request_holding;

/* Receives what was put aside for such a receive, as the MPI's own request would. */
static bool hold(struct record *r)
{
    const struct operands *o = r->operands;
    const struct operand *p = &o->of[0];
    struct aside_at at;
    if (!o->receives || !aside_take(o->source, o->tag, o->comm, &at)) return false;
    int rc = aside_receive(&at, p->use, p->use_count, p->use_type, &r->found);
    r->found.MPI_ERROR = rc;
    r->holds = true;
    latch_count(&request_holding, 1);
    if (r->dormant) latch_count(&request_records, 1);
    return true;
}

void record_drop_held(struct record *r)
{
    if (r->holds) latch_count(&request_holding, -1);
    if (r->holds && r->dormant) latch_count(&request_records, -1);
    r->holds = false;
}

bool record_start(struct starts *s, struct record *r)
{
    struct operands *o = r->operands;
    if (!r->persistent) return record_keep(r), true;   /* the MPI will refuse it */
    r->active = true;
    r->next = s->first;
    s->first = r;
    if (r->deferred) return deferred_start(r->deferred);
    if (hold(r)) return true;
    if (!o->standing) return operands_pack(o, &s->batch), true;
    if (standing_flows(o->standing)) return (r->outflow = standing_flow(o->standing)) != NULL;
    bool ok = standing_start(o->standing, &s->site, &r->offer);
    if (r->offer) latch_count(&request_offers, 1);
    return ok;
}

void record_drop_offer(struct record *r)
{
    if (!r->offer) return;
    offer_withdraw(r->offer);
    r->offer = NULL;
    latch_count(&request_offers, -1);
}

void record_stop(struct record *r)
{
    r->active = false;
    if (!r->offer && r->operands && r->operands->standing) standing_recall(r->operands->standing);
    record_drop_offer(r), record_drop_held(r);
    if (r->outflow) outflow_withdraw(r->outflow), r->outflow = NULL;
}

bool record_feed(struct starts *s)
{
    bool ok = true;
    for (struct record *r = s->first; r; r = r->next) {
        if (!r->outflow) continue;
        if (outflow_feed(r->outflow)) ok = false;
        outflow_leave(r->outflow);
        r->outflow = NULL;
    }
    return ok;
}

bool record_started(struct starts *s, bool ok)
{
    ok = !batch_wait(&s->batch) && ok;
    for (struct record *r = s->first; r; r = r->next)
        if (r->operands && !r->operands->standing && operands_packed(r->operands)) ok = false;
    for (struct record *r = s->first, *next; r; r = next) {
        next = r->next;
        if (!ok) record_stop(r);
        record_keep(r);
    }
    return ok;
}
