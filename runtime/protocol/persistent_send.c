/* persistent_send.c: persistent sends. */
#include "persistent_send.h"
#include "host_select.h"
#include "node/ipc_cache.h"
#include "pack/typed_buffer.h"
#include "pipeline_send.h"
#include "protocol.h"
#include "shm_send.h"
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS 2000000

struct persistent_send {
    struct peer *peer;   /* NULL: the message goes in chunks */
    int way;   /* of the chunks (pipeline_send_way) */
    int world;   /* the receiver in MPI_COMM_WORLD, for the statistics: the communicator may go before the request */
    struct typed_buffer *tbuf;   /* the buffer, without a transport */
    struct ipc_export allocation;   /* of the buffer, at the last start */
    bool synchronous;   /* each start ends only after the match */
    bool reserved;   /* a slot is reserved for the next start (rndv_send_reserve) */
    union {
        struct rts rts;
        union shm_rts sent;
    };
};

static struct rndv_send *offer(struct persistent_send *s, struct rndv_send_site *site)
{
    const struct typed_buffer *p = s->tbuf;
    site->synchronous = s->synchronous;
    struct rndv_send *o = rndv_send_to(s->peer, p->layout, p->device, p->user, p->count, site);
    if (o && p->device) s->allocation = site->allocation;
    return o;
}

/* Returns true if the peer can read the memory. Two ranks may wait here for each other, so each also probes the other's
 * memory. Waits only once for a peer: one that can't read looks the same as one that is late. */
static bool accepted(struct persistent_send *s)
{
    bool waits = !atomic_exchange(&s->peer->waited, true);
    int64_t begun = stats_now();
    do {
        ipc_cache_probe(s->peer, s->tbuf->device);
        struct rndv_send *o = offer(s, &(struct rndv_send_site){0});
        if (o) return rndv_send_withdraw(o), true;
    } while (waits && stats_now() - begun < PATIENCE_NS);
    return false;
}

/* Sets the peer of a message of device memory, and reserves a slot. */
bool persistent_send_plan_get(struct persistent_send *s, const struct message *m)
{
    s->peer = m->bytes >= RNDV_MIN ? get_peer(m) : NULL;
    if (s->peer && accepted(s) && rndv_send_reserve(&s->reserved)) return true;
    s->peer = NULL;
    return false;
}

/* Sets the peer of a message of host memory, if the peer can read that memory, and reserves a slot. */
bool persistent_send_plan_shared(struct persistent_send *s, const struct message *m)
{
    struct peer *peer = shared_peer(m);
    if (peer && shm_send_sure(peer)) return s->peer = peer, rndv_send_reserve(&s->reserved);
    if (!host_packs_short(m->layout)) host_count_passed(m);
    return false;
}

bool persistent_send_plan_pipelined(struct persistent_send *s, const struct message *m)
{
    s->way = pipeline_send_way(m);
    return s->way >= 0;
}

struct persistent_send *persistent_send_new(const struct message *m)
{
    struct persistent_send *s = calloc(1, sizeof *s);
    if (s) s->synchronous = m->synchronous, s->world = world_rank(m->comm, m->peer);
    if (s && !(s->tbuf = typed_buffer_new(m->layout, m->where.device, m->buf, m->count))) free(s), s = NULL;
    return s;
}

int persistent_send_rts_count(const struct persistent_send *s, MPI_Datatype *type)
{
    return rndv_send_count(s->peer, s->tbuf->device, type);
}

bool persistent_send_flows(const struct persistent_send *s)
{
    return !s->peer;
}

struct pipeline_send *persistent_send_flow(struct persistent_send *s)
{
    const struct typed_buffer *p = s->tbuf;
    struct pipeline_send *o =
        pipeline_send_to(s->way, p->layout, (struct location){.device = p->device}, p->user, p->count);
    if (o) s->rts = *pipeline_send_rts(o);
    return o;
}

const struct rts *persistent_send_rts(const struct persistent_send *s)
{
    return &s->rts;
}

void persistent_send_count(const struct persistent_send *s)
{
    if (stats_sent) stats_add_sent_to(s->world, s->tbuf->bytes);
}

/* Writes the payload to a file. Earlier sends hold all slots, and no start may wait for a receiver. */
static struct rndv_send *spilled(struct persistent_send *s, const struct rndv_send_site *site)
{
    const struct typed_buffer *p = s->tbuf;
    return rndv_send_apart(s->peer, p->layout, p->device, p->user, p->count, site);
}

/* Memory that was freed and allocated again at the same address is another allocation: hence the check. */
struct rndv_send *persistent_send_start(struct persistent_send *s, struct rndv_send_site *site)
{
    bool asked = site->allocation.span && site->allocation.id == s->allocation.id;
    if (s->tbuf->device && !asked && ipc_export_valid(&s->allocation)) site->allocation = s->allocation;
    site->reserved = &s->reserved;
    struct rndv_send *o = offer(s, site);
    if (!o) o = spilled(s, site);
    if (!o) return NULL;
    memcpy(&s->sent, rndv_send_rts(o), s->tbuf->device ? RTS_BYTES : SHM_SEND_MIN);
    rndv_send_feed(o);   /* only host memory */
    return o;
}

void persistent_send_close(struct persistent_send *s)
{
    if (!s) return;
    rndv_send_unreserve(&s->reserved);
    typed_buffer_close(s->tbuf);
    free(s);
}
