/* rndv_slots.c: rendezvous sends and the slots of this process's file: free, reserved or taken. */
#include "base/spinlock.h"
#include "node/shm_pool.h"
#include "rndv_file.h"
#include "rndv_internal.h"
#include "rts_short.h"
#include "shm_fill.h"
#include <stdlib.h>
#include <string.h>

#define SLAB 16   /* structs in one piece of pinned memory: 64 KiB */

static struct rndv_send *free_sends;   /* free list: in heap memory */
/* Pinned memory, which goes with its device's context: then nothing there is touched again. */
struct send_slab {
    struct pool_buffer *memory;
    struct rndv_send *free;
    struct send_slab *next;
};
static struct send_slab *slabs;
/* NULL: free. The progress thread looks at these alone, under the lock (rndv_send_of_slot). So a send that comes needs
 * the lock only where several threads may send, and one that goes needs it always. */
static _Atomic(struct rndv_send *) of_slot[SLOTS];
static atomic_int hint;   /* the next slot that is likely to be free */
static int taken, reservations;   /* numbers of slots taken, and reserved but not taken */
static struct spinlock spin_lock;

/* Returns true if a slot is neither taken nor reserved. Called under the lock. */
static bool any_free(void)
{
    static bool full;   /* the folder; asked again once a slot was free meanwhile */
    if (taken + reservations < node_slots()) return full = false, true;
    if (!full) full = !node_slots_grow();
    return !full;
}

static struct rndv_send *holder(int slot)
{
    return atomic_load_explicit(&of_slot[slot], memory_order_acquire);
}

/* Takes a slot that is there; sets o->slot if it is the first. Called under the lock. */
static struct slot *take_one(struct rndv_send *o)
{
    int n = node_slots(), at = o->look_at ? o->look_at : atomic_load_explicit(&hint, memory_order_relaxed);
    for (int i = 0; i < n && holder(at); i++) at = at + 1 < n ? at + 1 : 0;
    if (holder(at)) return NULL;
    struct slot *s = &node_own()->slot[at];
    if (!o->slot) o->slot = s;
    atomic_store_explicit(&of_slot[at], o, memory_order_release);
    int next = at + 1 < n ? at + 1 : 0;
    if (o->look_at) o->look_at = next;
    else atomic_store_explicit(&hint, next, memory_order_relaxed);
    taken++;
    return s;
}

/* Frees a slot. Called under the lock. */
static void give_back(struct slot *s)
{
    if (atomic_load_explicit(&s->state, memory_order_relaxed) != SLOT_FREE)   /* a part's line stays as it is */
        atomic_store_explicit(&s->state, SLOT_FREE, memory_order_relaxed);
    int at = (int)(s - node_own()->slot);
    atomic_store_explicit(&of_slot[at], NULL, memory_order_relaxed);
    taken--;
    if (at < atomic_load_explicit(&hint, memory_order_relaxed)) atomic_store_explicit(&hint, at, memory_order_relaxed);
}

static void give_back_more(struct rndv_send *o)
{
    for (struct slot *s = o->more, *next; s; s = next) next = rndv_send_next_slot(s), give_back(s);
    o->more = NULL;
}

bool rndv_send_slots(struct rndv_send *o, int n)
{
    bool all = true;
    spinlock_enter(&spin_lock);
    struct slot *last = o->slot;
    for (; n; n--) {
        struct slot *s = any_free() ? take_one(o) : NULL;
        if (!(all = s != NULL)) break;
        if (!o->more) o->more = s;
        SLOT_SET(last->next, (uint16_t)(s - node_own()->slot + 1));
        last = s;
    }
    SLOT_SET(last->next, 0);
    if (!all) o->slot->next = 0, give_back_more(o);
    spinlock_leave(&spin_lock);
    return all;
}

bool rndv_send_slot(struct rndv_send *o)
{
    spinlock_enter(&spin_lock);
    bool kept = o->reserved && *o->reserved;
    if (kept || any_free()) take_one(o);
    if (o->slot && kept) reservations--, *o->reserved = false;
    spinlock_leave(&spin_lock);
    /* This store finds a truncated file (node_lost). */
    if (o->slot) {
        o->slot->next = 0;
        atomic_store_explicit(&o->slot->state, SLOT_FREE, memory_order_relaxed);
        atomic_store_explicit(&o->slot->probed, 0, memory_order_relaxed);
    }
    return o->slot && !node_lost();
}

void rndv_send_next_near(void)
{
    const struct node_file *own = node_own();
    if (!own) return;
    const struct slot *s = &own->slot[atomic_load_explicit(&hint, memory_order_relaxed)];
    __builtin_prefetch(&s->state, 1), __builtin_prefetch(&s->start, 1);
}

bool rndv_send_reserve(bool *reserved)
{
    spinlock_enter(&spin_lock);
    bool free = any_free();
    reservations += free, *reserved = free;
    spinlock_leave(&spin_lock);
    return free;
}

void rndv_send_unreserve(bool *reserved)
{
    spinlock_enter(&spin_lock);
    reservations -= *reserved, *reserved = false;
    spinlock_leave(&spin_lock);
}

void rndv_send_stays(struct rndv_send *o)
{
    spinlock_enter(&spin_lock);
    if (o->reserved && any_free()) reservations++, *o->reserved = true;
    o->reserved = NULL;
    spinlock_leave(&spin_lock);
}

static struct rndv_send *cleared(struct rndv_send *o)
{
    memset(o, 0, offsetof(struct rndv_send, slab));
    memset(&o->rts, 0, RTS_TOLD);
    return o;
}

static struct rndv_send *take_send(struct rndv_send **list)
{
    struct rndv_send *o = *list;
    if (o) *list = o->next;
    return o;
}

struct rndv_send *rndv_send_new(void)
{
    spinlock_enter(&spin_lock);
    struct rndv_send *o = take_send(&free_sends);
    spinlock_leave(&spin_lock);
    return o ? cleared(o) : calloc(1, sizeof *o);
}

/* Returns a send in pinned memory of d's; NULL if none is free. */
static struct rndv_send *take_pinned(const struct device *d)
{
    struct rndv_send *o = NULL;
    spinlock_enter(&spin_lock);
    for (struct send_slab *slab = slabs; slab && !o; slab = slab->next)
        if (slab->memory->device == d) o = take_send(&slab->free);
    spinlock_leave(&spin_lock);
    return o ? cleared(o) : NULL;
}

/* Returns the first send of new pinned memory of d's; NULL without memory. */
static struct rndv_send *cut_slab(struct device *d)
{
    struct send_slab *slab = calloc(1, sizeof *slab);
    if (slab) slab->memory = mempool_get(d, BUFFER_PINNED, SLAB * sizeof *slab->free);
    if (!slab || !slab->memory) return free(slab), NULL;
    struct rndv_send *o = slab->memory->host;
    memset(o, 0, SLAB * sizeof *o);
    for (int i = 0; i < SLAB; i++) {
        o[i].slab = slab;
        if (i) o[i].next = slab->free, slab->free = &o[i];
    }
    spinlock_enter(&spin_lock);
    slab->next = slabs, slabs = slab;
    spinlock_leave(&spin_lock);
    return o;
}

/* A CUDA-aware MPI asks the driver where a message lies; the answer is quick for pinned memory only. */
struct rndv_send *rndv_send_new_on(struct device *d)
{
    struct rndv_send *o = mpi_cuda_aware() ? take_pinned(d) : NULL;
    if (!o && mpi_cuda_aware()) o = cut_slab(d);
    return o ? o : rndv_send_new();
}

void rndv_send_withdraw(struct rndv_send *o)
{
    if (o->short_rts) rts_short_take_back(o->peer);
    typed_buffer_close(o->tbuf);
    if (o->pool_block && atomic_load_explicit(&o->slot->state, memory_order_acquire) == SLOT_DONE) shm_fill_read(o);
    if (o->pool_block) shm_pool_put(o->pool_block, o->rts.bytes);
    if (o->in_file) rndv_file_recall(node_self()->rank, o->rts.slot);
    spinlock_lock(&spin_lock);
    if (o->slot) {
        give_back(o->slot), give_back_more(o);
        if (o->reserved) reservations++, *o->reserved = true;
    }
    struct rndv_send **list = o->slab ? &o->slab->free : &free_sends;
    o->next = *list;
    *list = o;
    spinlock_unlock(&spin_lock);
}

struct rndv_send *rndv_send_of_slot(int slot, bool (*is)(struct rndv_send *))
{
    spinlock_lock(&spin_lock);
    struct rndv_send *o = holder(slot);
    if (o && !is(o)) o = NULL;
    spinlock_unlock(&spin_lock);
    return o;
}

void rndv_sends_drop(void)
{
    for (struct rndv_send *o; (o = take_send(&free_sends));) free(o);
    for (struct send_slab *slab; (slab = slabs);) {
        slabs = slab->next;
        mempool_put(slab->memory);
        free(slab);
    }
}
