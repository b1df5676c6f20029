/* shm_fill.c: packs into shared segment blocks. */
#include "shm_fill.h"
#include "base/backoff.h"
#include "hostpack/host_pack.h"
#include "node/shm_pool.h"
#include "rts.h"
#include <string.h>

#define PIECE_FIRST ((int64_t)16 << 10)   /* packed before the RTS header is sent */
#define PIECE_MOST ((int64_t)64 << 10)    /* largest piece after it */
#define PIECE_SHORT ((int64_t)8 << 10)    /* first piece of a short payload, packed after the RTS header is sent */
#define PATIENCE_NS 100000                /* longest wait for a receiver that has begun, and does not go on */
#define SPINS_PER_LOOK 64

/* Waits until the receiver has read `past` bytes. Returns false if the receiver has not begun, or does not go on. */
static bool await_bytes_read(const struct slot *s, int64_t past)
{
    int64_t bytes_read, last = -1, since = 0;
    for (unsigned spins = 0; (bytes_read = atomic_load_explicit(&s->bytes_read, memory_order_acquire)) < past;
         spins++) {
        if (atomic_load_explicit(&s->state, memory_order_relaxed) != SLOT_TAKEN) return false;
        if (bytes_read != last) last = bytes_read, since = stats_now();
        else if (spins % SPINS_PER_LOOK == 0 && stats_now() - since > PATIENCE_NS) return false;
        backoff(spins);
    }
    return true;
}

/* Returns the end of the piece at `at`; the payload's end if little of the payload would remain. */
static int64_t end_of(const struct typed_buffer *p, int64_t at, int64_t piece)
{
    return p->bytes - at < piece + piece / 2 ? p->bytes : at + piece;
}

/* Runs that are no multiple of 16 bytes make some stores cross cache lines. If the receiver's cache holds these
 * lines, it is quicker to pack elsewhere and copy: 16 KiB of 72 B runs 21 and 13 us, 64 KiB of 12 B runs 66 and 47.
 * For other runs, words and longer messages the copy costs up to a fifth. */
#define STAGED_RUN 9
#define STAGED_RUN_MOST 512
#define STAGED_MOST ((int64_t)512 << 10)
#define STAGED_PIECE 4096
static bool needs_staging(const struct typed_buffer *p)
{
    int64_t run = p->layout->run;
    return run % 16 && run >= STAGED_RUN && run < STAGED_RUN_MOST && p->bytes <= STAGED_MOST;
}

/* `room` is a multiple of 16: pieces begin at multiples of 64 bytes. */
static void pack_into(const struct typed_buffer *p, char *room, int64_t at, int64_t end, bool past_caches)
{
    _Alignas(64) char aside[STAGED_PIECE];
    if (!past_caches && !needs_staging(p)) {
        host_pack_pack(p->layout, p->count, p->user, room, at, end);
        return;
    }
    for (int64_t past; at < end; at = past, room += STAGED_PIECE) {
        past = end - at < STAGED_PIECE ? end : at + STAGED_PIECE;
        host_pack_pack(p->layout, p->count, p->user, aside, at, past);
        if (past_caches) nontemporal_copy(room, aside, (size_t)(past - at));
        else memcpy(room, aside, (size_t)(past - at));
    }
    if (past_caches) nontemporal_end();
}

/* Packs one piece from byte `at` on. Returns where the piece ends. */
static int64_t fill(struct rndv_send *o, int64_t at, int64_t piece)
{
    const struct typed_buffer *p = o->tbuf;
    struct slot *s = o->slot;
    int64_t run, turn = atomic_load_explicit(&s->turn, memory_order_relaxed);
    int64_t end = end_of(p, at, piece);
    int64_t place = shm_pool_offset(at, turn, end, &run);
    if (place < at && !await_bytes_read(s, at + run - SHM_POOL_RING)) {
        atomic_store_explicit(&s->turn, turn = at, memory_order_relaxed);
        place = shm_pool_offset(at, turn, end, &run);
    }
    int64_t start = o->turn.timed ? stats_now() : 0;
    pack_into(p, shm_pool_address(o->pool_block) + place, at, at + run, o->turn.past);
    if (o->turn.timed) o->spent += stats_now() - start;
    atomic_store_explicit(&s->ready, at + run, memory_order_release);
    return at + run;
}

static struct nontemporal_turn turn_of(const struct rndv_send *o)
{
    const struct typed_buffer *p = o->tbuf;
    uint32_t size = (uint32_t)host_pack_class(p->bytes);
    uint64_t key = (uint64_t)(uintptr_t)p->layout * 4096 + (uint64_t)o->peer->rank * 64 + size + 1;
    return nontemporal_next(
        nontemporal_row(key, atomic_load_explicit(&o->peer->past, memory_order_relaxed) >> size & 1));
}

void shm_fill_begin(struct rndv_send *o)
{
    const struct typed_buffer *p = o->tbuf;
    o->turn = turn_of(o);
    o->slot->timed = o->turn.timed;
    atomic_store_explicit(&o->slot->spent, 0, memory_order_relaxed);
    atomic_store_explicit(&o->slot->bytes_read, 0, memory_order_relaxed);
    atomic_store_explicit(&o->slot->turn, INT64_MAX, memory_order_relaxed);
    host_pack_pack(p->layout, p->count, p->user, o->sent.bytes + HEAD_AT, 0, HEAD_BYTES);
    if (end_of(p, HEAD_BYTES, PIECE_FIRST) < p->bytes) fill(o, HEAD_BYTES, PIECE_FIRST);
    o->pushes = true;
}

void shm_fill_rest(struct rndv_send *o)
{
    int64_t at = atomic_load_explicit(&o->slot->ready, memory_order_relaxed);
    for (int64_t piece = at > HEAD_BYTES ? PIECE_FIRST : PIECE_SHORT; at < o->tbuf->bytes;) {
        at = fill(o, at, piece);
        if (piece < PIECE_MOST) piece *= 2;
    }
    o->pushes = false;
}

void shm_fill_read(const struct rndv_send *o)
{
    int64_t spent = o->turn.timed ? atomic_load_explicit(&o->slot->spent, memory_order_relaxed) : 0,
            bytes = o->rts.bytes;
    if (spent <= 0) return;
    nontemporal_learn(o->turn, o->spent + spent, bytes - HEAD_BYTES);
    uint32_t bit = (uint32_t)1 << host_pack_class(bytes),
             past = atomic_load_explicit(&o->peer->past, memory_order_relaxed);
    past = nontemporal_stays(o->turn.of) ? past | bit : past & ~bit;
    atomic_store_explicit(&o->peer->past, past, memory_order_relaxed);
}
