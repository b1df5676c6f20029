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
    args_free(of);
    reserve_put(of);
}

/* Receives what was put aside for such a receive, as the MPI's own request would. */
static bool hold(struct record *r, const struct args_set *o)
{
    const struct arg *p = &o->of[0];
    struct probed_at at;
    MPI_Status found;
    if (!o->receives || !probed_take(o->source, o->tag, o->comm, &at)) return false;
    int rc = probed_receive(&at, p->use, p->use_count, p->use_type, &found);
    record_hold(r, &found, rc);
    return true;
}

static bool start(struct record *r, void *of, struct starts *s)
{
    struct args_set *o = of;
    if (hold(r, o)) return true;
    if (!o->standing) return args_pack(o, &s->batch), true;
    if (persistent_send_flows(o->standing)) {
        struct pipeline_send *flow = persistent_send_flow(o->standing);
        record_flow(r, flow);
        return flow != NULL;
    }
    struct rndv_send *offer = NULL;
    bool ok = persistent_send_start(o->standing, &s->site, &offer);
    if (offer) record_offer(r, offer);
    return ok;
}

static int packed(void *of)
{
    struct args_set *o = of;
    return o->standing ? 0 : args_packed(o);
}

static void recall(void *of)
{
    struct args_set *o = of;
    if (o->standing) persistent_send_recall(o->standing);
}

static bool partial(const void *of)
{
    return args_partial(of);
}

static struct typed_buffer *awaited(const void *of, const void **packed_at)
{
    return args_awaited(of, packed_at);
}

static int unpack(void *of, struct batch *b, int64_t bytes)
{
    return args_unpack(of, b, bytes);
}

const struct request_ops args_ops = {
    .free = drop,
    .start = start,
    .packed = packed,
    .recall = recall,
    .partial = partial,
    .awaited = awaited,
    .unpack = unpack,
};
