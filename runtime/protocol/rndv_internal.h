/* rndv_internal.h: declarations shared by rndv_send.c, rndv_slots.c, and the memory domains: rndv_cuda.c with
 * rndv_push.c, and shm_send.c with shm_fill.c. */
#ifndef STRIDEC_RNDV_INTERNAL_H
#define STRIDEC_RNDV_INTERNAL_H
#include "nontemporal.h"
#include "pack/typed_buffer.h"
#include "rndv_send.h"
#include "rts.h"
#include <stddef.h>

/* The sends of one kind of memory: device memory, or the host's. */
struct rndv_domain {
    /* Returns a new send to peer (rndv_send_new); NULL if the peer can't read such memory, or without memory. */
    struct rndv_send *(*begin)(struct peer *peer, struct device *d);
    /* Describes and publishes the payload. Returns false if the message goes another way: the caller withdraws o. */
    bool (*post)(struct rndv_send *o, struct rndv_send_site *site);
    /* Returns the count, and in *type the type, with which the MPI sends an RTS that is not short to peer. */
    int (*count)(const struct peer *peer, MPI_Datatype *type);
    /* Packs what rndv_send_feed packs. Returns 0 or -1. */
    int (*feed)(struct rndv_send *o);
    /* Packs the payload into memory of stridec's own while the slot is HELD. Returns false without memory. */
    bool (*move)(struct rndv_send *o);
    /* Notes a NACK. */
    void (*refused)(const struct rndv_send *o);
    /* Notes how the receiver has read o; or NULL. */
    void (*read)(const struct rndv_send *o);
    /* Ends the domain at MPI_Finalize, after its sends; or NULL. */
    void (*finish)(void);
};
extern const struct rndv_domain rndv_domain_cuda, rndv_domain_host;

struct rndv_send {
    struct slot *slot;   /* NULL: the payload is in a file without one (rndv_send_apart) */
    struct slot *more;   /* slots of the other parts (rndv_send_slots), linked by `next`; NULL: none */
    struct peer *peer;
    struct typed_buffer *tbuf;   /* bounce buffers only once the payload has moved */
    int64_t begun;   /* time of the start */
    bool to_late;    /* the receiver was known to be late by then */
    int64_t since;   /* when the sender began to wait for the receiver; 0: not yet */
    const struct rndv_domain *domain;
    bool short_rts;   /* a short RTS (rts_short.h) that the receiver has not taken yet */
    bool pushes;   /* rndv_send_feed must fill the bounce buffer or block */
    bool synchronous;   /* ends only after the match, which a probe of the receiver's is not */
    bool stays;   /* no memory to move the payload: it stays in place until it is read */
    bool in_file;              /* the payload is in the slot's file (SLOT_FILE) */
    int look_at;      /* the first slot to look at for a free one; 0: where one is likely */
    bool *reserved;   /* sender's flag: a slot is reserved for its next send; NULL: none */
    uint64_t pool_block;   /* shared segment block with the packed payload (shm_pool.h); 0: none */
    struct nontemporal_turn turn;   /* kind of stores into the block */
    int64_t spent;   /* nanoseconds of packing, if turn.timed */
    struct rndv_send *next;
    struct send_slab *slab;   /* the pinned memory that this struct lies in, or NULL; never changes */
    union {
        struct rts rts;
        union shm_rts sent;
    };
};

/* rndv_slots.c. Return a zeroed send, `_on` maybe in pinned memory; NULL without memory. End: rndv_send_withdraw. */
struct rndv_send *rndv_send_new(void);
struct rndv_send *rndv_send_new_on(struct device *d);
/* Takes a slot. Returns false if none is free. */
bool rndv_send_slot(struct rndv_send *o);
/* Returns the slot of the next part, or NULL. */
static inline struct slot *rndv_send_next_slot(const struct slot *s)
{
    return s->next ? &node_own()->slot[s->next - 1] : NULL;
}
/* Takes n more slots, for parts of the payload; o->slot->next begins their list. Returns false, and takes none, if too
 * few are left. */
bool rndv_send_slots(struct rndv_send *o, int n);
/* Notes that o keeps its slot after its send has ended. Reserves another slot for the sender, if one is free. */
void rndv_send_stays(struct rndv_send *o);
/* Returns the send that holds a slot if `is`, called under the lock, returns true for it; else NULL. */
struct rndv_send *rndv_send_of_slot(int slot, bool (*is)(struct rndv_send *));
/* Frees the free lists (at MPI_Finalize). */
void rndv_sends_drop(void);

/* rndv_push.c. Returns true if the sender packs; if `feeds`, maybe while the receiver reads (rndv_send_feed). */
bool rndv_send_packs_first(struct rndv_send *o, bool feeds);
/* Prepares a bounce buffer to be filled while the receiver reads, and sets `pushes`. With `in_step` only if chunk flags
 * can be used. */
void rndv_push_prepare(struct rndv_send *o, bool in_step);
/* Hooks of rndv_domain_cuda; rndv_push_read notes how to feed the next sends to that peer. */
int rndv_push_feed(struct rndv_send *o);
void rndv_push_read(const struct rndv_send *o);

/* Writes into a slot where in device memory packed bytes (layout 0) or elements of a layout lie. */
void rndv_describe(struct slot *s, struct device *d, const struct ipc_export *e, uint64_t user, uint64_t layout);
/* Writes address and layout of a payload in device memory (layout 0: packed bytes) to the slot. */
void rndv_send_describe(struct rndv_send *o, const struct ipc_export *e, uint64_t user, uint64_t layout);
/* Posts the slot, which describes the payload. */
void rndv_send_publish(struct rndv_send *o);
/* Moves the payload to memory of stridec's own or, without any, to a file if `may_file`. Returns false if the receiver
 * was quicker, or if there is no room: then it is not tried again. */
bool rndv_send_move_away(struct rndv_send *o, bool may_file);
/* Returns true if the payload lies in stridec's memory or in a file. */
static inline bool rndv_send_moved(const struct rndv_send *o)
{
    return o->tbuf->wire || o->tbuf->block || o->pool_block || o->in_file;
}

#endif
