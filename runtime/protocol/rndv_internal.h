/* rndv_internal.h: what rndv_send.c, rndv_slots.c, rndv_push.c and shm_send.c share. */
#ifndef STRIDEC_OFFER_INNER_H
#define STRIDEC_OFFER_INNER_H
#include "nontemporal.h"
#include "pack/typed_buffer.h"
#include "rndv_send.h"
#include "rts.h"
#include <stddef.h>

struct rndv_send {
    struct slot *slot;
    struct peer *peer;
    struct typed_buffer
        *parcel; /* the buffer, without a transport's buffers; its wire or block once the payload has moved */
    int64_t begun;             /* when it was offered */
    int64_t since;             /* from when on its receiver is waited for; 0: nobody waits yet */
    bool host;                 /* of host memory */
    bool brief;                /* its descriptor is one (rts_short.h), and is under way or not pulled yet */
    bool hungry;   /* the wire, or the room, is to be filled by rndv_send_feed */
    bool stays;                /* there was no memory for the payload: it stays where it is until it is read */
    bool in_file;   /* the payload is in the slot's file (SLOT_FILE) */
    bool *promise;             /* the sender's: a slot is kept for its next offer; NULL where it wants none, and of one that stays */
    uint64_t room;             /* where the payload lies packed (shm_pool.h); 0: in no room */
    struct nontemporal_turn turn;   /* how it gets there; */
    int64_t spent;             /* where that is timed, the nanoseconds that it took */
    struct rndv_send *next;
    bool pinned;               /* it lies in pinned memory; so for good */
    union {
        struct rts descriptor;
        union shm_rts sent;
    };
};

/* rndv_slots.c. A new one, zeroed, in memory of the process's own or, for a message of device memory, where that is
 * best; NULL where memory is out. rndv_send_withdraw takes either back. */
struct rndv_send *rndv_send_new(void);
struct rndv_send *rndv_send_new_on(struct device *d);
/* Takes a slot; false where none is left. */
bool rndv_send_slot(struct rndv_send *o);
/* It stays behind its send and keeps its slot: the sender is promised another, if one is free. */
void rndv_send_stays(struct rndv_send *o);
/* The offer of a slot, if that is so of it, asked while nobody gives it back; else NULL. */
struct rndv_send *rndv_send_of_slot(int slot, bool (*is)(struct rndv_send *));
/* At MPI_Finalize: what is kept for other messages. */
void rndv_sends_drop(void);

/* rndv_push.c. Whether the sender packs; where it then `feeds` the receiver, with a wire that rndv_send_feed fills
 * meanwhile. */
bool rndv_send_packs_first(struct rndv_send *o, bool feeds);
/* It was read: how the next ones to that peer are fed. */
void rndv_send_followed(const struct rndv_send *o);

/* What the slot says of packed bytes, or of the typed buffer. */
void rndv_send_describe(struct rndv_send *o, const struct ipc_export *e, uint64_t user, uint64_t layout);
void rndv_send_publish(struct rndv_send *o);
/* rndv_send.c. A turn of waiting for o's receiver at MPI_Finalize: the MPI goes on meanwhile, as what tells the
 * receiver may not be out yet, and one that will not come counts as done. */
void rndv_send_linger(struct rndv_send *o, unsigned spins);
/* What of an offer has left the application's buffer lies in memory of stridec's own. */
static inline bool rndv_send_moved(const struct rndv_send *o)
{
    return o->parcel->wire || o->parcel->block || o->room || o->in_file;
}

#endif
