/* get.c: the protocol `get`: the receiver reads the sender's device memory by a typed copy (rndv_send.h). */
#include "base/error.h"
#include "device/device_internal.h"
#include "pack/select.h"
#include "persistent_send.h"
#include "protocol.h"
#include "rndv_internal.h"
#include "rts_short.h"

/* The first message of an allocation up to this size is copied within the GPU, for codes that allocate at each step.
 * On two H200s: to get an IPC handle and open it in the receiver 100 us and more, a copy of 1 MiB 9. */
#define FIRST_MOST ((int64_t)8 << 20)

bool get_pays(const struct message *m)
{
    bool can = m->near && m->layout->tree && !m->where.parts && node_zerocopy();
    return can && transport_zerocopy(m->layout, m->count, m->bytes);
}

struct peer *get_peer(const struct message *m)
{
    if (!m->near || m->bytes < RTS_SHORT_MIN) return NULL;
    if (m->bytes < RNDV_MIN && !atomic_load_explicit(&m->near->file->takes_short, memory_order_relaxed)) return NULL;
    bool goes = get_pays(m) && typed_buffer_check(m->layout, m->where, m->type, m->comm) == MPI_SUCCESS;
    return goes ? m->near : NULL;
}

static bool probe(const struct message *m)
{
    struct peer *peer = m->reuse >= REUSE_BLOCKING ? get_peer(m) : NULL;
    struct device *d = m->where.device;
    struct ipc_export e;
    int64_t first, past;
    if (!peer) return false;
    if (peer->self ? device_first()->next != NULL : !ipc_export_probed(d, peer)) return false;
    if (ipc_export_readable(d, peer)) return true;   /* else packed first */
    layout_span(m->layout, m->count, &first, &past);
    bool shared = ipc_export_of(d, (uint64_t)(uintptr_t)m->buf + (uint64_t)first, past - first, &e);
    return shared && ipc_export_accepted(&e, peer) &&
           (layout_contiguous(m->layout, m->count) || ipc_export_layout(m->layout));
}

static bool start(struct send_op *op, const struct message *m, int *rc)
{
    struct rndv_send_site site = {.located = true, .as_before = m->where.as_before, .feeds = true,
                                  .synchronous = m->synchronous};
    struct peer *peer = m->reuse >= REUSE_BLOCKING ? get_peer(m) : NULL;
    bool is_short = m->bytes < RNDV_MIN;
    (void)rc;
    if (!peer || (is_short && !rts_short_begin(peer))) return false;
    bool *first = peer->self || m->bytes > FIRST_MOST ? NULL : &site.moves;
    const struct allocation *around = &m->where.around;
    if (around->span && !ipc_export_around(m->where.device, around, &site.allocation, first)) site.allocation.span = 0;
    struct rndv_send *o = rndv_send_to(peer, m->layout, m->where.device, m->buf, m->count, &site);
    if (!o && is_short) rts_short_take_back(peer);
    if (!o) return false;
    o->short_rts = is_short;
    send_op_rndv(op, o);
    return true;
}

void send_op_rndv(struct send_op *op, struct rndv_send *o)
{
    op->rndv = o;
    op->address = rndv_send_rts(o);
    op->as.count = rndv_send_rts_count(o, &op->as.type);
}

int send_op_end_rndv(struct send_op *op, MPI_Comm comm)
{
    return rndv_send_end(op->rndv) ? raise_error(comm, MPI_ERR_OTHER, "a message was not received") : MPI_SUCCESS;
}

void send_op_abort_rndv(struct send_op *op)
{
    rndv_send_withdraw(op->rndv);
}

static const char *explain(const struct message *m, char why[TUNE_WHY_MAX])
{
    select_explain(m->layout, m->count, m->bytes, true, why);
    return "zerocopy";
}

const struct protocol protocol_get = {"get", probe, start, send_op_end_rndv, send_op_abort_rndv,
                                      persistent_send_plan_get, explain};
