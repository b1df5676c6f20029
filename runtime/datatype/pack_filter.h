/* pack_filter.h: which calls of MPI_Pack and MPI_Unpack in host memory are none of stridec's: what stubs ask, in
 * some nanoseconds, of a small table of types. What the table has lost is found again. The order of the questions is
 * in host_pack.h. */
#ifndef STRIDEC_PACK_FILTER_H
#define STRIDEC_PACK_FILTER_H
#include "../../gen/hash.h"
#include "device/host_range.h"
#include "known_layouts.h"
#include "layout.h"

/* At MPI_Init, after table_start; at MPI_Finalize. */
void pack_filter_start(void);
void pack_filter_finish(void);

struct pack_filter_slot {
    atomic_uint version;        /* odd while the rest changes */
    _Atomic(MPI_Datatype) type;
    _Atomic int64_t size;       /* packed bytes of an element */
    _Atomic int64_t low, span;  /* its lowest byte, and the bytes from there to its end; */
    _Atomic int64_t extent;     /* those to the next element */
    _Atomic uint64_t worth;     /* of calls with enough elements, before the type is read */
    _Atomic int64_t least[2];   /* fewer elements have nothing to gain; by kernel_direction */
    _Atomic(struct layout *) layout;   /* NULL: not read yet */
};
#define PACK_FILTER_BITS 8
#define PACK_FILTER_NEAR 4096   /* bytes that lie in one memory where the first does */
#pragma GCC visibility push(hidden)
extern struct pack_filter_slot pack_filter_slots[1 << PACK_FILTER_BITS][2];
extern _Atomic(MPI_Datatype) host_pack_met[1 << PACK_FILTER_BITS][2];   /* once */
extern _Atomic int64_t host_pack_least;   /* packed bytes; INT64_MAX: none are enough */
extern _Atomic uint64_t host_pack_needed;   /* what calls must add up to before their type is read (pack_filter.c) */
#pragma GCC visibility pop

HOST_INLINE size_t pack_filter_place(MPI_Datatype t)
{
    return hash_place(host_type_bits(t), PACK_FILTER_BITS);
}
HOST_INLINE struct pack_filter_slot *pack_filter_set(MPI_Datatype t)
{
    return pack_filter_slots[pack_filter_place(t)];
}
/* t's, or one of another type. */
HOST_INLINE struct pack_filter_slot *pack_filter_slot(MPI_Datatype t)
{
    struct pack_filter_slot *s = pack_filter_set(t);
    return s + (atomic_load_explicit(&s->type, memory_order_relaxed) != t);
}
/* What a call adds to that: calls of 4 KiB and more the same each, smaller ones a sixteenth of their bytes, as
 * little is won by each and reading and compiling cost the same. */
#define PACK_FILTER_WORTH 4096
HOST_INLINE uint64_t pack_filter_worth(uint64_t bytes)
{
    return bytes >= PACK_FILTER_WORTH ? PACK_FILTER_WORTH : bytes / 16 + 1;
}
/* Adds it, to a count that may miss one. True once that is enough. */
HOST_INLINE bool pack_filter_due(struct pack_filter_slot *s, uint64_t bytes)
{
    uint64_t worth = atomic_load_explicit(&s->worth, memory_order_relaxed) + pack_filter_worth(bytes);
    atomic_store_explicit(&s->worth, worth, memory_order_relaxed);
    return worth >= atomic_load_explicit(&host_pack_needed, memory_order_relaxed);
}
/* True where the typed buffer, of count > 0 elements, and the packed one surely lie in host memory: all that a
 * process with a driver needs to know. Of a long one the first element's first byte is looked at and the last one's
 * last, as locate does. False of types that the table does not hold. */
HOST_INLINE bool pack_filter_hosted(MPI_Datatype t, const void *user, int64_t count, const void *packed)
{
    const struct pack_filter_slot *s = pack_filter_slot(t);
    unsigned version = atomic_load_explicit(&s->version, memory_order_acquire);
    bool same = atomic_load_explicit(&s->type, memory_order_relaxed) == t;
    uint64_t low = (uint64_t)atomic_load_explicit(&s->low, memory_order_relaxed);
    uint64_t span = (uint64_t)atomic_load_explicit(&s->span, memory_order_relaxed);
    const char *first = (const char *)((uintptr_t)user + low);
    if (count != 1) span += (uint64_t)(count - 1) * (uint64_t)atomic_load_explicit(&s->extent, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (!same || version & 1 || version != atomic_load_explicit(&s->version, memory_order_relaxed)) return false;
    return user != MPI_BOTTOM && count > 0 && host_surely(packed) && host_surely(first) &&
           (span < PACK_FILTER_NEAR || host_surely(first + span - 1));
}
/* True of a handle that is met first, but where every call is stridec's: types that are made for one call take no slot,
 * unless their layout may be known (known_layouts.h): `room` is the most that the call moves. */
HOST_INLINE bool pack_filter_first(MPI_Datatype t, int64_t room)
{
    _Atomic(MPI_Datatype) *met = host_pack_met[pack_filter_place(t)];
    MPI_Datatype last = atomic_load_explicit(met, memory_order_relaxed);
    if (last == t || atomic_load_explicit(met + 1, memory_order_relaxed) == t ||
        !atomic_load_explicit(&host_pack_needed, memory_order_relaxed))
        return false;
    atomic_store_explicit(met + 1, last, memory_order_relaxed);
    atomic_store_explicit(met, t, memory_order_relaxed);
    return room < AGAIN_LEAST;
}
HOST_INLINE void pack_filter_unmeet(MPI_Datatype t)
{
    _Atomic(MPI_Datatype) *met = host_pack_met[pack_filter_place(t)];
    for (int i = 0; i < 2; i++)
        if (atomic_load_explicit(met + i, memory_order_relaxed) == t)
            atomic_store_explicit(met + i, (MPI_Datatype)0, memory_order_relaxed);
}
/* Of a handle that is about to be freed: true where the table holds it; else nothing more is known of it. Under
 * another MPI than the library's own none is looked at. */
HOST_INLINE bool pack_filter_keeps(const MPI_Datatype *handle)
{
    if (!handle || atomic_load_explicit(&host_pack_least, memory_order_relaxed) == INT64_MAX) return false;
    const MPI_Datatype t = *handle;
    const struct pack_filter_slot *s = pack_filter_set(t);
    pack_filter_unmeet(t);
    return atomic_load_explicit(&s[0].type, memory_order_relaxed) == t
           || atomic_load_explicit(&s[1].type, memory_order_relaxed) == t;
}
/* What a stub asks of a call whose buffers lie in host memory: whether it is nothing for stridec; or may be served
 * by code of which all is known; or has more to be asked. */
enum pack_filter_verdict { PACK_FILTER_DOWN, PACK_FILTER_KNOWN, PACK_FILTER_ASK };
/* `room` is the size of the packed buffer. Of a call that is known, *known is its layout. A slot that another type
 * takes meanwhile may only send a call down. */
HOST_INLINE enum pack_filter_verdict pack_filter_judge(enum kernel_direction d, MPI_Datatype t, int64_t count,
                                                       int64_t room, struct layout **known)
{
    if (room < atomic_load_explicit(&host_pack_least, memory_order_relaxed)) return PACK_FILTER_DOWN;
    struct pack_filter_slot *s = pack_filter_slot(t);
    unsigned version = atomic_load_explicit(&s->version, memory_order_acquire);
    if (atomic_load_explicit(&s->type, memory_order_acquire) != t)
        return pack_filter_first(t, room) ? PACK_FILTER_DOWN : PACK_FILTER_ASK;
    if (count < atomic_load_explicit(&s->least[d], memory_order_relaxed)) return PACK_FILTER_DOWN;
    struct layout *l = *known = atomic_load_explicit(&s->layout, memory_order_acquire);
    if (!l) {
        uint64_t size = (uint64_t)atomic_load_explicit(&s->size, memory_order_relaxed);
        return pack_filter_due(s, (uint64_t)count * size) ? PACK_FILTER_ASK : PACK_FILTER_DOWN;
    }
    if (version & 1 || version != atomic_load_explicit(&s->version, memory_order_relaxed)) return PACK_FILTER_ASK;
    uint64_t wins = atomic_load_explicit(&l->quick.wins[d], memory_order_acquire);
    if (!wins || count <= 0 || count >= l->quick.most) return PACK_FILTER_ASK;
    return wins >> host_pack_size_log(count * l->size) & 1 ? PACK_FILTER_KNOWN : PACK_FILTER_ASK;
}
/* The handle is about to be freed. */
void pack_filter_forget(MPI_Datatype t);
/* In a process without a driver: the type's layout if the calls so far are worth that it is read; else NULL. */
struct layout *pack_filter_layout(enum kernel_direction d, MPI_Datatype t, int64_t count);
/* In a process with one, of so many packed bytes between buffers that were found to lie in host memory: the same,
 * and the table holds what pack_filter_hosted asks for. False: the MPI serves. */
bool pack_filter_meet(MPI_Datatype t, struct layout *l, int64_t bytes);
/* Reads a type at once: it will be used often. */
void pack_filter_learn(MPI_Datatype t);
/* From now on calls of t with fewer elements go straight down. */
void pack_filter_raise(MPI_Datatype t, enum kernel_direction d, int64_t least);
/* The end of a layout that pack_filter_layout read. */
void pack_filter_gone(const struct layout *l);

#endif
