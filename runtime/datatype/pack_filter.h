/* pack_filter.h: a small table of types that tells stubs in a few nanoseconds whether MPI_Pack or MPI_Unpack in host
 * memory is stridec's. Entries may be lost: they are rebuilt. host_pack.h lists the order of the checks. */
#ifndef STRIDEC_PACK_FILTER_H
#define STRIDEC_PACK_FILTER_H
#include "../../gen/hash.h"
#include "device/host_range.h"
#include "known_layouts.h"
#include "layout.h"

/* Start at MPI_Init, after table_start; finish at MPI_Finalize. */
void pack_filter_start(void);
void pack_filter_finish(void);

struct pack_filter_slot {
    atomic_uint version;        /* odd while an update runs */
    _Atomic(MPI_Datatype) type;
    _Atomic int64_t size;       /* packed bytes of an element */
    _Atomic int64_t low, span;  /* an element's lowest byte; bytes from there to its end */
    _Atomic int64_t extent;     /* bytes between elements */
    _Atomic uint64_t worth;     /* worth of calls with enough elements until the type is read */
    _Atomic int64_t least[2];   /* by kernel_direction: fewer elements gain nothing */
    _Atomic(struct layout *) layout;   /* NULL: not read yet */
};
#define PACK_FILTER_BITS 8
#define PACK_FILTER_SHORT 4096   /* bytes assumed to lie in one memory */
#pragma GCC visibility push(hidden)
extern struct pack_filter_slot pack_filter_slots[1 << PACK_FILTER_BITS][2];
extern _Atomic(MPI_Datatype) pack_filter_recent[1 << PACK_FILTER_BITS][2];   /* handles used once so far */
extern _Atomic int64_t pack_filter_least;   /* packed bytes; INT64_MAX: never */
extern _Atomic uint64_t pack_filter_needed;   /* worth of calls after which a type is read (pack_filter.c) */
#pragma GCC visibility pop

HOST_INLINE size_t pack_filter_place(MPI_Datatype t)
{
    return hash_place(host_type_bits(t), PACK_FILTER_BITS);
}
HOST_INLINE struct pack_filter_slot *pack_filter_set(MPI_Datatype t)
{
    return pack_filter_slots[pack_filter_place(t)];
}
/* Returns t's slot, or a slot of another type. */
HOST_INLINE struct pack_filter_slot *pack_filter_slot(MPI_Datatype t)
{
    struct pack_filter_slot *s = pack_filter_set(t);
    return s + (atomic_load_explicit(&s->type, memory_order_relaxed) != t);
}
/* Returns what a call adds to `worth`. Calls of PACK_FILTER_WORTH bytes and more add the same. Smaller calls add a
 * sixteenth of their bytes: each gains little, and reading and compiling cost the same. */
#define PACK_FILTER_WORTH 4096
HOST_INLINE uint64_t pack_filter_worth(uint64_t bytes)
{
    return bytes >= PACK_FILTER_WORTH ? PACK_FILTER_WORTH : bytes / 16 + 1;
}
/* Adds a call's worth to the slot; concurrent calls may get lost. Returns true once the sum suffices. */
HOST_INLINE bool pack_filter_due(struct pack_filter_slot *s, uint64_t bytes)
{
    uint64_t worth = atomic_load_explicit(&s->worth, memory_order_relaxed) + pack_filter_worth(bytes);
    atomic_store_explicit(&s->worth, worth, memory_order_relaxed);
    return worth >= atomic_load_explicit(&pack_filter_needed, memory_order_relaxed);
}
/* Returns true if the typed buffer of count > 0 elements and the packed buffer surely lie in host memory. Needed only
 * in a process with a driver. Checks the first byte, and the last one of a long buffer, as locate does. Returns false
 * for types that are not in the table. */
HOST_INLINE bool pack_filter_on_host(MPI_Datatype t, const void *user, int64_t count, const void *packed)
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
    return user != MPI_BOTTOM && count > 0 && host_range_has(packed) && host_range_has(first) &&
           (span < PACK_FILTER_SHORT || host_range_has(first + span - 1));
}
/* Returns true for a new handle, unless every call is stridec's: types made for one call take no slot. The call moves
 * packed_size at most; from KNOWN_LAYOUTS_LEAST on returns false, since known_layouts.h may know the layout. */
HOST_INLINE bool pack_filter_is_new(MPI_Datatype t, int64_t packed_size)
{
    _Atomic(MPI_Datatype) *met = pack_filter_recent[pack_filter_place(t)];
    MPI_Datatype last = atomic_load_explicit(met, memory_order_relaxed);
    if (last == t || atomic_load_explicit(met + 1, memory_order_relaxed) == t ||
        !atomic_load_explicit(&pack_filter_needed, memory_order_relaxed))
        return false;
    atomic_store_explicit(met + 1, last, memory_order_relaxed);
    atomic_store_explicit(met, t, memory_order_relaxed);
    return packed_size < KNOWN_LAYOUTS_LEAST;
}
HOST_INLINE void pack_filter_unrecent(MPI_Datatype t)
{
    _Atomic(MPI_Datatype) *met = pack_filter_recent[pack_filter_place(t)];
    for (int i = 0; i < 2; i++)
        if (atomic_load_explicit(met + i, memory_order_relaxed) == t)
            atomic_store_explicit(met + i, (MPI_Datatype)0, memory_order_relaxed);
}
/* Returns true if the table holds a handle that is about to be freed; else nothing more is known of it. Reads no handle
 * under another MPI than the library's own. */
HOST_INLINE bool pack_filter_holds(const MPI_Datatype *handle)
{
    if (!handle || atomic_load_explicit(&pack_filter_least, memory_order_relaxed) == INT64_MAX) return false;
    const MPI_Datatype t = *handle;
    const struct pack_filter_slot *s = pack_filter_set(t);
    pack_filter_unrecent(t);
    return atomic_load_explicit(&s[0].type, memory_order_relaxed) == t
           || atomic_load_explicit(&s[1].type, memory_order_relaxed) == t;
}
/* The verdict on a call whose buffers lie in host memory: pass to the MPI, serve by known code, or check further. */
enum pack_filter_verdict { PACK_FILTER_PASS, PACK_FILTER_KNOWN, PACK_FILTER_ASK };
/* Judges a call. packed_size is the size of the packed buffer. Sets *known to the layout for PACK_FILTER_KNOWN. A slot
 * that changes its type meanwhile can only pass the call to the MPI. */
HOST_INLINE enum pack_filter_verdict pack_filter_judge(enum kernel_direction d, MPI_Datatype t, int64_t count,
                                                       int64_t packed_size, struct layout **known)
{
    if (packed_size < atomic_load_explicit(&pack_filter_least, memory_order_relaxed)) return PACK_FILTER_PASS;
    struct pack_filter_slot *s = pack_filter_slot(t);
    unsigned version = atomic_load_explicit(&s->version, memory_order_acquire);
    if (atomic_load_explicit(&s->type, memory_order_acquire) != t)
        return pack_filter_is_new(t, packed_size) ? PACK_FILTER_PASS : PACK_FILTER_ASK;
    if (count < atomic_load_explicit(&s->least[d], memory_order_relaxed)) return PACK_FILTER_PASS;
    struct layout *l = *known = atomic_load_explicit(&s->layout, memory_order_acquire);
    if (!l) {
        uint64_t size = (uint64_t)atomic_load_explicit(&s->size, memory_order_relaxed);
        return pack_filter_due(s, (uint64_t)count * size) ? PACK_FILTER_ASK : PACK_FILTER_PASS;
    }
    if (version & 1 || version != atomic_load_explicit(&s->version, memory_order_relaxed)) return PACK_FILTER_ASK;
    uint64_t wins = atomic_load_explicit(&l->quick.wins[d], memory_order_acquire);
    if (!wins || count <= 0 || count >= l->quick.most) return PACK_FILTER_ASK;
    return wins >> host_pack_size_log(count * l->size) & 1 ? PACK_FILTER_KNOWN : PACK_FILTER_ASK;
}
/* Forgets a handle that is about to be freed. */
void pack_filter_forget(MPI_Datatype t);
/* Returns the type's layout if the calls so far justify reading it; else NULL. For a process without a driver. */
struct layout *pack_filter_layout(enum kernel_direction d, MPI_Datatype t, int64_t count);
/* Returns true if stridec serves a call of `bytes` packed bytes between buffers found in host memory; false: the MPI
 * serves. Adds t to the table for pack_filter_on_host. For a process with a driver. */
bool pack_filter_admit(MPI_Datatype t, struct layout *l, int64_t bytes);
/* Reads a type at once, since it will be used often. */
void pack_filter_learn(MPI_Datatype t);
/* Passes calls of t with fewer than `least` elements to the MPI from now on. */
void pack_filter_raise(MPI_Datatype t, enum kernel_direction d, int64_t least);
/* Notes the end of a layout that pack_filter_layout read. */
void pack_filter_layout_end(const struct layout *l);

#endif
