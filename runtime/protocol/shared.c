/* shared.c: the protocols of host memory within a node: `shared`, by shared memory (shm_send.h), and `packed`. */
#include "base/env.h"
#include "host_select.h"
#include "node/peer_access.h"
#include "persistent_send.h"
#include "protocol.h"
#include "shm_send.h"
#include <stdio.h>

static bool may_share(const struct message *m)
{
    return m->layout && m->reuse >= REUSE_BLOCKING;
}

struct peer *shared_peer(const struct message *m)
{
    if (!m->near || !shm_send_wants(m)) return NULL;
    return m->reuse != REUSE_LATER || shm_send_later(m) ? m->near : NULL;
}

static bool probe(const struct message *m)
{
    const struct peer *peer = may_share(m) ? shared_peer(m) : NULL;
    if (!peer || peer->self) return peer != NULL;
    unsigned reached = peer_access_known(peer);
    return shm_send_memory(reached) != SLOT_POOL || reached & REACH_POOL;
}

static bool start(struct send_op *op, const struct message *m, int *rc)
{
    struct peer *peer = may_share(m) ? shared_peer(m) : NULL;
    struct rndv_send_site site = {.synchronous = m->synchronous};
    struct rndv_send *o = peer ? rndv_send_to(peer, m->layout, NULL, m->buf, m->count, &site) : NULL;
    (void)rc;
    if (o) send_op_rndv(op, o);
    return o != NULL;
}

static const char *explain(const struct message *m, char why[TUNE_WHY_MAX])
{
    const struct peer *peer = m->near;
    bool placed = shm_send_memory(peer_access_known(peer)) != SLOT_POOL;
    snprintf(why, TUNE_WHY_MAX, "host memory, %s",
             peer->self ? "to the rank itself"
             : placed   ? "that the receiver reads, under STRIDEC_TRANSPORT=zerocopy"
                        : "to a rank of the node");
    return peer->self || placed ? "zerocopy" : "shared";
}

const struct protocol protocol_shared = {"shared", probe, start, send_op_end_rndv, send_op_abort_rndv,
                                         persistent_send_plan_shared, explain};

static bool is_short(const struct message *m)
{
    int64_t bytes;
    return host_sends_short(m->buf, m->count, m->type, m->peer, &bytes) != NULL;
}

static bool probe_packed(const struct message *m)
{
    return is_short(m) || (m->layout && host_packs_short(m->layout));
}

static bool start_packed(struct send_op *op, const struct message *m, int *rc)
{
    struct typed_buffer *p = NULL;
    if (m->layout) p = host_packs(m->layout, m->buf, m->count);
    else if (m->reuse != REUSE_BUFFERED) p = host_packs_tried(m->buf, m->count, m->type, m->comm);
    return p && send_op_packed(op, p, rc);
}

static const char *explain_packed(const struct message *m, char why[TUNE_WHY_MAX])
{
    snprintf(why, TUNE_WHY_MAX, "host memory, %s", is_short(m) ? "a brief message" : "in short runs");
    return "packed";
}

const struct protocol protocol_packed = {"packed", probe_packed, start_packed, send_op_end_packed,
                                         send_op_abort_packed, NULL, explain_packed};
