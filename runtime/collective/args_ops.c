/* args_ops.c: the operands of a nonblocking or persistent operation, as what stands behind its record
 * (request_ops.h). */
#include "args.h"
#include "base/reserve.h"
#include "protocol/persistent_send.h"
#include "protocol/pipeline_send.h"
#include "request/probed.h"
#include "request/request_ops.h"

static void drop(void *of)
{
    operands_free(of);
    reserve_put(of);
}

/* Receives what was put aside for such a receive, as the MPI's own request would. */
static bool hold(struct record *r, const struct operands *o)
{
    const struct operand *p = &o->of[0];
    struct aside_at at;
    MPI_Status found;
    if (!o->receives || !aside_take(o->source, o->tag, o->comm, &at)) return false;
    int rc = aside_receive(&at, p->use, p->use_count, p->use_type, &found);
    record_hold(r, &found, rc);
    return true;
}

static bool start(struct record *r, void *of, struct starts *s)
{
    struct operands *o = of;
    if (hold(r, o)) return true;
    if (!o->standing) return operands_pack(o, &s->batch), true;
    if (standing_flows(o->standing)) {
        struct outflow *flow = standing_flow(o->standing);
        record_flow(r, flow);
        return flow != NULL;
    }
    struct offer *offer = NULL;
    bool ok = standing_start(o->standing, &s->site, &offer);
    if (offer) record_offer(r, offer);
    return ok;
}

static int packed(void *of)
{
    struct operands *o = of;
    return o->standing ? 0 : operands_packed(o);
}

static void recall(void *of)
{
    struct operands *o = of;
    if (o->standing) standing_recall(o->standing);
}

static bool partial(const void *of)
{
    return operands_partial(of);
}

static struct parcel *awaited(const void *of, const void **packed_at)
{
    return operands_awaited(of, packed_at);
}

static int unpack(void *of, struct batch *b, int64_t bytes)
{
    return operands_unpack(of, b, bytes);
}

const struct request_ops operands_ops = {
    .free = drop,
    .start = start,
    .packed = packed,
    .recall = recall,
    .partial = partial,
    .awaited = awaited,
    .unpack = unpack,
};
