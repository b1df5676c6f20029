/* standing.c: what a persistent send offers. */
#include "standing.h"
#include "import.h"
#include "parcel.h"
#include <stdlib.h>

#define PATIENCE_NS 2000000

struct standing {
    struct peer *peer;
    struct parcel *parcel;          /* the buffer, without a transport */
    struct descriptor descriptor;
};

/* Both ends of a pair may be waiting here: each tries what the other has put out. Once a peer, for one that refuses is
 * not told from one that is late. */
static bool accepted(struct standing *s)
{
    struct parcel *p = s->parcel;
    bool waits = !atomic_exchange(&s->peer->waited, true);
    int64_t begun = stats_now();
    do {
        struct offer *o = offer_to(s->peer, p->layout, p->device, p->user, p->count, &(struct offer_site){0});
        if (o) return offer_withdraw(o), true;
        import_try(s->peer, p->device);
    } while (waits && stats_now() - begun < PATIENCE_NS);
    return false;
}

struct standing *standing_open(const void *buf, int64_t count, MPI_Datatype datatype, int dest, MPI_Comm comm)
{
    struct where w;
    struct peer *peer = offer_allowed() ? node_peer(comm, dest) : NULL;
    struct layout *l = peer ? parcel_wants(buf, count, datatype, comm, &w) : NULL;
    int64_t bytes = l ? layout_bytes(l, count) : 0;
    if (!l || !l->tree || w.parts || bytes < OFFER_MIN || !transport_offers(l, count, bytes)) return NULL;
    if (parcel_check(l, w, datatype, comm)) return NULL;
    struct standing *s = calloc(1, sizeof *s);
    if (s) s->peer = peer, s->parcel = parcel_bare(l, w.device, buf, count);
    if (s && s->parcel && accepted(s)) return s;
    standing_close(s);
    return NULL;
}

const struct descriptor *standing_descriptor(const struct standing *s)
{
    return &s->descriptor;
}

/* Slots are few: those of messages that have been received come back. */
struct offer *standing_start(struct standing *s)
{
    const struct parcel *p = s->parcel;
    int64_t begun = stats_now();
    struct offer *o;
    do {
        o = offer_to(s->peer, p->layout, p->device, p->user, p->count, &(struct offer_site){0});
        if (!o) offer_poll();
    } while (!o && stats_now() - begun < PATIENCE_NS);
    if (o) s->descriptor = *offer_descriptor(o);
    return o;
}

void standing_close(struct standing *s)
{
    if (!s) return;
    parcel_close(s->parcel);
    free(s);
}
