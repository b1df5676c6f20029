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

struct standing {
    struct peer *peer;              /* NULL: the message goes in chunks ... */
    int way;                        /* ... this way */
    struct parcel *parcel;          /* the buffer, without a transport */
    struct export allocation;       /* that it was in at the last start */
    bool promise;                   /* a slot is kept for the next start (offer_promise) */
    union {
        struct descriptor descriptor;
        union host_descriptor sent;
    };
};

static struct offer *offer(struct standing *s, struct offer_site *site)
{
    const struct parcel *p = s->parcel;
    if (!p->device) return host_offer_to(s->peer, p->layout, p->user, p->count, site->promise);
    struct offer *o = offer_to(s->peer, p->layout, p->device, p->user, p->count, site);
    if (o) s->allocation = site->allocation;
    return o;
}

/* Both ends of a pair may be waiting here: each tries what the other has put out. Once a peer, for one that refuses is
 * not told from one that is late. */
static bool accepted(struct standing *s)
{
    bool waits = !atomic_exchange(&s->peer->waited, true);
    int64_t begun = stats_now();
    do {
        import_try(s->peer, s->parcel->device);
        struct offer *o = offer(s, &(struct offer_site){0});
        if (o) return offer_withdraw(o), true;
    } while (waits && stats_now() - begun < PATIENCE_NS);
    return false;
}

static bool offers(struct standing *s, int dest, MPI_Comm comm)
{
    const struct parcel *p = s->parcel;
    bool may = node_zerocopy() && p->bytes >= OFFER_MIN && transport_offers(p->layout, p->count, p->bytes);
    s->peer = may ? node_peer(comm, dest) : NULL;
    if (s->peer && accepted(s) && offer_promise(&s->promise)) return true;
    s->peer = NULL;
    return false;
}

/* The same of host memory, where the peer has tried that already. */
static struct layout *wants_host(const void *buf, int64_t count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                                 struct peer **peer)
{
    struct layout *l = dest == MPI_PROC_NULL ? NULL : host_sends(buf, count, datatype, comm);
    *peer = l && host_offer_wants(l, count) ? node_peer(comm, dest) : NULL;
    if (*peer && !host_offer_later(*peer, l, count)) *peer = NULL;
    if (*peer && host_offer_sure(*peer)) return l;
    if (l && !host_packs_short(l)) host_left(l, count, dest, comm, true, true);
    return NULL;
}

struct standing *standing_open(const void *buf, int64_t count, MPI_Datatype datatype, int dest, MPI_Comm comm)
{
    struct where w;
    struct peer *peer = NULL;
    struct layout *l = dest == MPI_PROC_NULL ? NULL : parcel_found(buf, count, datatype, comm, &w);
    bool host = !l && (l = wants_host(buf, count, datatype, dest, comm, &peer));
    if (!l || (!host && (!l->tree || w.parts || parcel_check(l, w, datatype, comm) != MPI_SUCCESS))) return NULL;
    struct standing *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->peer = peer, s->parcel = parcel_bare(l, host ? NULL : w.device, buf, count);
    if (s->parcel && (host ? offer_promise(&s->promise) : offers(s, dest, comm))) return s;
    s->way = s->parcel && !host && !parcel_native(l, buf, count, w) ? outflow_way(l, w, count, dest, comm) : -1;
    if (s->way >= 0) return s;
    parcel_close(s->parcel);
    free(s);
    return NULL;
}

int standing_descriptor_count(const struct standing *s, MPI_Datatype *type)
{
    if (!s->parcel->device) return host_offer_count(s->peer, type);
    *type = MPI_BYTE;
    return (int)DESCRIPTOR_BYTES;
}

bool standing_flows(const struct standing *s)
{
    return !s->peer;
}

struct outflow *standing_flow(struct standing *s)
{
    const struct parcel *p = s->parcel;
    struct outflow *o = outflow_to(s->way, p->layout, (struct where){.device = p->device}, p->user, p->count);
    if (o) s->descriptor = *outflow_descriptor(o);
    return o;
}

const struct descriptor *standing_descriptor(const struct standing *s)
{
    return &s->descriptor;
}

/* Without a slot, which all others have taken that stay behind their sends: no receiver may be waited for here. */
static bool spilled(struct standing *s)
{
    uint32_t number = spill_apart(s->parcel, s->peer);
    if (number) descriptor_mark(&s->descriptor, &node_own()->cookie);
    s->descriptor.rank = (uint32_t)node_own()->rank, s->descriptor.slot = number,
    s->descriptor.bytes = s->parcel->bytes;
    return number != 0;
}

void standing_recall(struct standing *s)
{
    if (s->peer && s->descriptor.slot >= SLOTS) spill_recall(node_own()->rank, s->descriptor.slot);
}

/* Memory that was freed since the last start, and had anew at the same address, is another allocation. */
bool standing_start(struct standing *s, struct offer_site *site, struct offer **started)
{
    bool asked = site->allocation.span && site->allocation.id == s->allocation.id;
    if (s->parcel->device && !asked && export_stands(&s->allocation)) site->allocation = s->allocation;
    site->promise = &s->promise;
    struct offer *o = *started = offer(s, site);
    if (!o) return spilled(s);
    if (o) memcpy(&s->sent, offer_descriptor(o), s->parcel->device ? sizeof s->descriptor : HOST_OFFER_MIN);
    if (o && !s->parcel->device) offer_feed(o);
    return o != NULL;
}

void standing_close(struct standing *s)
{
    if (!s) return;
    offer_break_promise(&s->promise);
    parcel_close(s->parcel);
    free(s);
}
