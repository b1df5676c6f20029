/* offer_inner.h: what offer.c and host_offer.c share. */
#ifndef STRIDEC_OFFER_INNER_H
#define STRIDEC_OFFER_INNER_H
#include "offer.h"
#include "parcel.h"
#include <stddef.h>

struct offer {
    struct slot *slot;
    struct peer *peer;
    struct parcel *parcel;     /* the buffer, without a transport's buffers; its wire or block once the payload has moved */
    int64_t begun;
    bool host;                 /* of host memory */
    bool brief;                /* its descriptor is one (brief.h), and is under way or not pulled yet */
    bool hungry;               /* the wire, or the room, is to be filled by offer_feed */
    bool promised;             /* the slot is one that was promised, and is so again */
    uint64_t room;             /* where the payload lies packed (room.h); 0: in no room */
    struct offer *next;
    bool pinned;               /* it lies in pinned memory; so for good */
    struct descriptor descriptor;
    unsigned char padding[HOST_OFFER_MIN - sizeof(struct descriptor)];   /* zeros */
};

struct offer *offer_new(void);
bool offer_slot(struct offer *o);
void offer_publish(struct offer *o);
/* What of an offer has left the application's buffer lies in memory of stridec's own. */
static inline bool offer_moved(const struct offer *o)
{
    return o->parcel->wire || o->parcel->block || o->room;
}

#endif
