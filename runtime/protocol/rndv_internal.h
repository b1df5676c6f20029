/* rndv_internal.h: what rndv_send.c, rndv_slots.c, rndv_push.c and shm_send.c share. */
#ifndef STRIDEC_OFFER_INNER_H
#define STRIDEC_OFFER_INNER_H
#include "nontemporal.h"
#include "pack/typed_buffer.h"
#include "rndv_send.h"
#include "rts.h"
#include <stddef.h>

struct offer {
    struct slot *slot;
    struct peer *peer;
    struct parcel *parcel;     /* the buffer, without a transport's buffers; its wire or block once the payload has moved */
    int64_t begun;             /* when it was offered */
    int64_t since;             /* from when on its receiver is waited for; 0: nobody waits yet */
    bool host;                 /* of host memory */
    bool brief;                /* its descriptor is one (rts_short.h), and is under way or not pulled yet */
    bool hungry;               /* the wire, or the room, is to be filled by offer_feed */
    bool stays;                /* there was no memory for the payload: it stays where it is until it is read */
    bool *promise;             /* the sender's: a slot is kept for its next offer; NULL where it wants none, and of one that stays */
    uint64_t room;             /* where the payload lies packed (shm_pool.h); 0: in no room */
    struct bypass_turn turn;   /* how it gets there; */
    int64_t spent;             /* where that is timed, the nanoseconds that it took */
    struct offer *next;
    bool pinned;               /* it lies in pinned memory; so for good */
    union {
        struct descriptor descriptor;
        union host_descriptor sent;
    };
};

/* rndv_slots.c. A new one, zeroed, in memory of the process's own or, for a message of device memory, where that is
 * best; NULL where memory is out. offer_withdraw takes either back. */
struct offer *offer_new(void);
struct offer *offer_new_on(struct device *d);
/* Takes a slot; false where none is left. */
bool offer_slot(struct offer *o);
/* It stays behind its send and keeps its slot: the sender is promised another, if one is free. */
void offer_stays(struct offer *o);
/* The offer of a slot, if that is so of it, asked while nobody gives it back; else NULL. */
struct offer *offer_of_slot(int slot, bool (*is)(struct offer *));
/* At MPI_Finalize: what is kept for other messages. */
void offers_drop(void);

/* rndv_push.c. Whether the sender packs; where it then `feeds` the receiver, with a wire that offer_feed fills
 * meanwhile. */
bool offer_packs_first(struct offer *o, bool feeds);
/* It was read: how the next ones to that peer are fed. */
void offer_followed(const struct offer *o);

/* What the slot says of packed bytes, or of the typed buffer. */
void offer_describe(struct offer *o, const struct export *e, uint64_t user, uint64_t layout);
void offer_publish(struct offer *o);
/* rndv_send.c. A turn of waiting for o's receiver at MPI_Finalize: the MPI goes on meanwhile, as what tells the
 * receiver may not be out yet, and one that will not come counts as done. */
void offer_linger(struct offer *o, unsigned spins);
/* What of an offer has left the application's buffer lies in memory of stridec's own. */
static inline bool offer_moved(const struct offer *o)
{
    return o->parcel->wire || o->parcel->block || o->room;
}

#endif
