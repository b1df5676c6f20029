/* rndv_slots.c: offers and the slots of the own file that they take: what is free, promised or kept for the next
 * message. */
#include "base/spinlock.h"
#include "node/shm_pool.h"
#include "rndv_internal.h"
#include "rts_short.h"
#include "shm_fill.h"
#include <stdlib.h>
#include <string.h>

#define SLAB 16   /* offers in one piece of pinned memory: 64 KiB */

static struct offer *spare[2];         /* for the next message: in memory of the process's own, and in pinned memory */
static struct buffer *slabs;           /* of the latter */
static struct offer *of_slot[SLOTS];   /* NULL: free */
static atomic_int hint;                /* the next slot that is likely to be free */
static int taken, promised;            /* slots; those promised and not taken are among the free ones */
static struct latch latch;

bool offer_slot(struct offer *o)
{
    latch_close(&latch);
    bool kept = o->promise && *o->promise, may = kept || taken + promised < SLOTS;
    int first = atomic_load_explicit(&hint, memory_order_relaxed);
    for (int i = 0; i < SLOTS && may && !o->slot; i++) {
        int at = (first + i) % SLOTS;
        if (of_slot[at]) continue;
        of_slot[at] = o;
        atomic_store_explicit(&hint, (at + 1) % SLOTS, memory_order_relaxed);
        o->slot = &node_own()->slot[at];
        taken++, promised -= kept;
        if (kept) *o->promise = false;
    }
    latch_open(&latch);
    if (o->slot) atomic_store_explicit(&o->slot->state, SLOT_FREE, memory_order_relaxed);   /* a file that was cut shows here */
    return o->slot && !node_lost();
}

void offer_next_near(void)
{
    const struct node_file *own = node_own();
    if (!own) return;
    const struct slot *s = &own->slot[atomic_load_explicit(&hint, memory_order_relaxed)];
    __builtin_prefetch(&s->state, 1), __builtin_prefetch(&s->start, 1);
}

bool offer_promise(bool *promise)
{
    latch_close(&latch);
    bool free = taken + promised < SLOTS;
    promised += free, *promise = free;
    latch_open(&latch);
    return free;
}

void offer_break_promise(bool *promise)
{
    latch_close(&latch);
    promised -= *promise, *promise = false;
    latch_open(&latch);
}

void offer_stays(struct offer *o)
{
    latch_close(&latch);
    if (o->promise && taken + promised < SLOTS) promised++, *o->promise = true;
    o->promise = NULL;
    latch_open(&latch);
}

static struct offer *take_spare(bool pinned)
{
    latch_close(&latch);
    struct offer *o = spare[pinned];
    if (o) spare[pinned] = o->next;
    latch_open(&latch);
    if (!o) return NULL;
    memset(o, 0, offsetof(struct offer, pinned));
    memset(&o->descriptor, 0, DESCRIPTOR_TOLD);
    return o;
}

struct offer *offer_new(void)
{
    struct offer *o = take_spare(false);
    return o ? o : calloc(1, sizeof *o);
}

/* All but one become spare ones. */
static struct offer *cut_slab(struct buffer *slab)
{
    struct offer *o = slab->host;
    memset(o, 0, SLAB * sizeof *o);
    latch_close(&latch);
    slab->next = slabs, slabs = slab;
    for (int i = 0; i < SLAB; i++) {
        o[i].pinned = true;
        if (i) o[i].next = spare[true], spare[true] = &o[i];
    }
    latch_open(&latch);
    return o;
}

/* A CUDA-aware MPI asks the driver where a message lies, which is quickly told of pinned memory alone: so
 * descriptors lie there. */
struct offer *offer_new_on(struct device *d)
{
    if (!mpi_cuda_aware()) return offer_new();
    struct offer *o = take_spare(true);
    if (o || device_enter(d)) return o ? o : offer_new();
    struct buffer *slab = buffer_get(d, BUFFER_PINNED, SLAB * sizeof *o);
    device_leave(d);
    return slab ? cut_slab(slab) : offer_new();
}

void offer_withdraw(struct offer *o)
{
    if (o->brief) brief_take_back(o->peer);
    parcel_close(o->parcel);
    if (o->room && atomic_load_explicit(&o->slot->state, memory_order_acquire) == SLOT_DONE) host_fill_read(o);
    if (o->room) room_put(o->room, o->descriptor.bytes);
    latch_close(&latch);
    if (o->slot) {
        atomic_store_explicit(&o->slot->state, SLOT_FREE, memory_order_relaxed);
        of_slot[o->slot - node_own()->slot] = NULL;
        taken--;
        if (o->promise) promised++, *o->promise = true;
    }
    o->next = spare[o->pinned];
    spare[o->pinned] = o;
    latch_open(&latch);
}

struct offer *offer_of_slot(int slot, bool (*is)(struct offer *))
{
    latch_close(&latch);
    struct offer *o = of_slot[slot] && is(of_slot[slot]) ? of_slot[slot] : NULL;
    latch_open(&latch);
    return o;
}

void offers_drop(void)
{
    for (struct offer *o; (o = spare[false]);) {
        spare[false] = o->next;
        free(o);
    }
    spare[true] = NULL;
    for (struct buffer *b; (b = slabs);) {
        slabs = b->next;
        b->next = NULL;
        buffer_put(b);
    }
}
