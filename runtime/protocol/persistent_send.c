/* persistent_send.c: what a persistent send offers. */
#include "persistent_send.h"
#include "host_select.h"
#include "node/ipc_cache.h"
#include "pack/typed_buffer.h"
#include "pipeline.h"
#include "rndv_file.h"
#include "shm_send.h"
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS 2000000

struct persistent_send {
    struct peer *peer;              /* NULL: the message goes in chunks ... */
    int way;                        /* ... this way */
    struct typed_buffer *parcel;   /* the buffer, without a transport */
    struct ipc_export allocation;   /* that it was in at the last start */
    bool promise;   /* a slot is kept for the next start (rndv_send_promise) */
    union {
        struct rts descriptor;
        union shm_rts sent;
    };
};

static struct rndv_send *offer(struct persistent_send *s, struct rndv_send_site *site)
{
    const struct typed_buffer *p = s->parcel;
    if (!p->device) return shm_send_to(s->peer, p->layout, p->user, p->count, site->promise);
    struct rndv_send *o = rndv_send_to(s->peer, p->layout, p->device, p->user, p->count, site);
    if (o) s->allocation = site->allocation;
    return o;
}

/* Both ends of a pair may be waiting here: each tries what the other has put out. Once a peer, for one that refuses is
 * not told from one that is late. */
static bool accepted(struct persistent_send *s)
{
    bool waits = !atomic_exchange(&s->peer->waited, true);
    int64_t begun = stats_now();
    do {
        ipc_cache_try(s->peer, s->parcel->device);
        struct rndv_send *o = offer(s, &(struct rndv_send_site){0});
        if (o) return rndv_send_withdraw(o), true;
    } while (waits && stats_now() - begun < PATIENCE_NS);
    return false;
}

static bool offers(struct persistent_send *s, int dest, MPI_Comm comm)
{
    const struct typed_buffer *p = s->parcel;
    bool may = node_zerocopy() && p->bytes >= RNDV_MIN && transport_offers(p->layout, p->count, p->bytes);
    s->peer = may ? node_peer(comm, dest) : NULL;
    if (s->peer && accepted(s) && rndv_send_promise(&s->promise)) return true;
    s->peer = NULL;
    return false;
}

/* The same of host memory, where the peer has tried that already. */
static struct layout *wants_host(const void *buf, int64_t count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                                 struct peer **peer)
{
    struct layout *l = dest == MPI_PROC_NULL ? NULL : host_sends(buf, count, datatype, comm);
    *peer = l && shm_send_wants(l, count) ? node_peer(comm, dest) : NULL;
    if (*peer && !shm_send_later(*peer, l, count)) *peer = NULL;
    if (*peer && shm_send_sure(*peer)) return l;
    if (l && !host_packs_short(l)) host_left(l, count, dest, comm, true, true);
    return NULL;
}

struct persistent_send *persistent_send_open(const void *buf, int64_t count, MPI_Datatype datatype, int dest,
                                             MPI_Comm comm)
{
    struct location w;
    struct peer *peer = NULL;
    struct layout *l = dest == MPI_PROC_NULL ? NULL : typed_buffer_found(buf, count, datatype, comm, &w);
    bool host = !l && (l = wants_host(buf, count, datatype, dest, comm, &peer));
    if (!l || (!host && (!l->tree || w.parts || typed_buffer_check(l, w, datatype, comm) != MPI_SUCCESS))) return NULL;
    struct persistent_send *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->peer = peer, s->parcel = typed_buffer_bare(l, host ? NULL : w.device, buf, count);
    if (s->parcel && (host ? rndv_send_promise(&s->promise) : offers(s, dest, comm))) return s;
    s->way =
        s->parcel && !host && !typed_buffer_native(l, buf, count, w) ? pipeline_send_way(l, w, count, dest, comm) : -1;
    if (s->way >= 0) return s;
    typed_buffer_close(s->parcel);
    free(s);
    return NULL;
}

int persistent_send_descriptor_count(const struct persistent_send *s, MPI_Datatype *type)
{
    if (!s->parcel->device) return shm_send_count(s->peer, type);
    *type = MPI_BYTE;
    return (int)RTS_BYTES;
}

bool persistent_send_flows(const struct persistent_send *s)
{
    return !s->peer;
}

struct pipeline_send *persistent_send_flow(struct persistent_send *s)
{
    const struct typed_buffer *p = s->parcel;
    struct pipeline_send *o =
        pipeline_send_to(s->way, p->layout, (struct location){.device = p->device}, p->user, p->count);
    if (o) s->descriptor = *pipeline_send_descriptor(o);
    return o;
}

const struct rts *persistent_send_descriptor(const struct persistent_send *s)
{
    return &s->descriptor;
}

/* Without a slot, which all others have taken that stay behind their sends: no receiver may be waited for here. */
static bool spilled(struct persistent_send *s)
{
    uint32_t number = rndv_file_apart(s->parcel, s->peer);
    if (number) rts_mark(&s->descriptor, &node_own()->cookie);
    s->descriptor.rank = (uint32_t)node_own()->rank, s->descriptor.slot = number,
    s->descriptor.bytes = s->parcel->bytes;
    return number != 0;
}

void persistent_send_recall(struct persistent_send *s)
{
    if (s->peer && s->descriptor.slot >= SLOTS) rndv_file_recall(node_own()->rank, s->descriptor.slot);
}

/* Memory that was freed since the last start, and had anew at the same address, is another allocation. */
bool persistent_send_start(struct persistent_send *s, struct rndv_send_site *site, struct rndv_send **started)
{
    bool asked = site->allocation.span && site->allocation.id == s->allocation.id;
    if (s->parcel->device && !asked && ipc_export_stands(&s->allocation)) site->allocation = s->allocation;
    site->promise = &s->promise;
    struct rndv_send *o = *started = offer(s, site);
    if (!o) return spilled(s);
    if (o) memcpy(&s->sent, rndv_send_descriptor(o), s->parcel->device ? sizeof s->descriptor : SHM_SEND_MIN);
    if (o && !s->parcel->device) rndv_send_feed(o);
    return o != NULL;
}

void persistent_send_close(struct persistent_send *s)
{
    if (!s) return;
    rndv_send_break_promise(&s->promise);
    typed_buffer_close(s->parcel);
    free(s);
}
