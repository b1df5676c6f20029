/* args_ops.c: a record's operations (request_ops.h) for nonblocking and persistent calls with bounced arguments. */
#include "args_internal.h"
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

/* Receives a probed message in place of the MPI's request, if one matches. */
static bool receive_probed(struct record *r, const struct args_set *o)
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
    if (receive_probed(r, o)) return true;
    if (!o->persist_send) return args_pack(o, &s->batch), true;
    persistent_send_count(o->persist_send);
    if (persistent_send_flows(o->persist_send)) {
        struct pipeline_send *flow = persistent_send_flow(o->persist_send);
        if (flow) record_send_pipelined(r, flow);
        return flow != NULL;
    }
    struct rndv_send *rndv = persistent_send_start(o->persist_send, &s->site);
    if (rndv) record_send_rndv(r, rndv);
    return rndv != NULL;
}

static int packed(void *of)
{
    struct args_set *o = of;
    return o->persist_send ? 0 : args_packed(o);
}

static bool raise(const void *of, int code, const char *what)
{
    const struct args_set *o = of;
    if (o->file || o->one_sided) args_raise(o, code, what);
    return o->file || o->one_sided;
}

const struct request_ops args_ops = {
    .free = drop,
    .start = start,
    .packed = packed,
    .partial = args_partial,
    .recv_buffer = args_recv_buffer,
    .unpack = args_unpack,
    .unpacked = args_read_done,
    .raise = raise,
};
