/* native.h: packing and unpacking data in host memory by code made for its layout (gen/host.lua), compiled and
 * loaded in the background like kernels: a module without a device. Until that is there, and where there is no
 * compiler, a walk over the tree serves (gen/pack.h).
 *
 * Whether a call of MPI_Pack or MPI_Unpack is served so is decided in this order:
 *   - STRIDEC_HOST=off: never. Contiguous data, and fewer bytes than the tuned table says (`host`, 256 without
 *     one): never. Such calls go straight down, without a look at the type: NATIVE_DOWN.
 *   - Where the process has no CUDA driver, a type is read only once its handle has been packed from some times (16, of
 *     4 KiB and more; small ones more often), so that types that are made for one short message cost nothing; of 32 KiB and
 *     more its layout may be known (again.h). Else each layout's first call is the MPI's: it knows about types that were not
 *     committed.
 *   - Then the MPI's way and this one take turns, a few times each for each layout, direction and power of two of
 *     bytes, and what was quicker in its best call stays; once more when the compiled code has come. From then on, in
 *     a process without a driver, or of buffers that surely are the host's (host.h), such calls are served by some ninety
 *     instructions beside the code: NATIVE_KNOWN.
 * STRIDEC_HOST=on serves all but contiguous data, without turns. */
#ifndef STRIDEC_NATIVE_H
#define STRIDEC_NATIVE_H
#include "../gen/hash.h"
#include "again.h"
#include "host.h"
#include "layout.h"

/* At MPI_Init, after choose_start; at MPI_Finalize. */
void native_start(void);
void native_finish(void);

/* Packed bytes [begin, end) of `count` elements at `user` (MPI_BOTTOM is allowed): `packed` is where byte `begin`
 * goes or is; 0 <= begin <= end <= count * size. By compiled code where that is ready; asks for it where the layout comes
 * again, never waits. False, and nothing is moved, where stridec can't read the type or STRIDEC_HOST is off: the MPI must.
 * Any thread. */
bool native_pack(struct layout *l, int64_t count, const void *user, void *packed, int64_t begin, int64_t end);
bool native_unpack(struct layout *l, int64_t count, void *user, const void *packed, int64_t begin, int64_t end);
/* Packed bytes [0, bytes) of one buffer into another, at the same place in that one's. As both of these. */
bool native_copy(struct layout *from, int64_t from_count, const void *source, struct layout *to, int64_t to_count, void *target,
                 int64_t bytes);
/* Nanoseconds that native_pack saves beside MPI_Pack on so many elements at `user`, in host memory: found out by turns that
 * are taken here and now, once for each layout and power of two of bytes; `packed` has room for them. INT64_MIN where there
 * is no code yet, or nothing to be saved; INT64_MAX where STRIDEC_HOST is on. */
int64_t native_saves(struct layout *l, MPI_Datatype type, int64_t count, const void *user, void *packed, MPI_Comm comm);
/* From now on messages of about so many bytes are packed by code that is there, without more questions (native_trusts). */
void native_trust(struct layout *l, int64_t bytes);

/* One call of MPI_Pack or MPI_Unpack, which begin and end enclose; begin returns true if native_move serves it. */
struct native_race;
struct native_call {
    struct layout *layout;
    struct native_race *race;   /* a turn, to be timed; else NULL */
    enum kernel_direction direction;
    bool ours;
    MPI_Datatype type;
    int64_t count;
    int64_t start;              /* 0: nobody asks for the time */
    int64_t bytes;
};
bool native_begin(struct native_call *c, struct layout *l, enum kernel_direction direction, MPI_Datatype type,
                  int64_t count, int64_t bytes);
void native_end(struct native_call *c, int rc);

/* What stubs ask: calls for which there is nothing to do are told by a small table of types, in some nanoseconds.
 * What the table has lost is found again. */
struct native_slot {
    atomic_uint version;        /* odd while the rest changes */
    _Atomic(MPI_Datatype) type;
    _Atomic int64_t size;       /* packed bytes of an element */
    _Atomic int64_t low, span;  /* its lowest byte, and the bytes from there to its end; */
    _Atomic int64_t extent;     /* those to the next element */
    _Atomic uint64_t worth;     /* of calls with enough elements, before the type is read */
    _Atomic int64_t least[2];   /* fewer elements have nothing to gain; by kernel_direction */
    _Atomic(struct layout *) layout;   /* NULL: not read yet */
};
#define NATIVE_BITS 8
#define NATIVE_NEAR 4096        /* bytes that lie in one memory where the first does */
#pragma GCC visibility push(hidden)
extern struct native_slot native_slots[1 << NATIVE_BITS][2];
extern _Atomic(MPI_Datatype) native_met[1 << NATIVE_BITS][2];   /* once */
extern _Atomic int64_t native_least;   /* packed bytes; INT64_MAX: none are enough */
extern _Atomic uint64_t native_needed; /* what calls must add up to before their type is read (native_slots.c) */
#pragma GCC visibility pop

HOST_INLINE size_t native_place(MPI_Datatype t)
{
    return hash_place(host_type_bits(t), NATIVE_BITS);
}
HOST_INLINE struct native_slot *native_set(MPI_Datatype t)
{
    return native_slots[native_place(t)];
}
/* t's, or one of another type. */
HOST_INLINE struct native_slot *native_slot(MPI_Datatype t)
{
    struct native_slot *s = native_set(t);
    return s + (atomic_load_explicit(&s->type, memory_order_relaxed) != t);
}
/* What a call adds to that: calls of 4 KiB and more the same each, smaller ones a sixteenth of their bytes, as little is
 * won by each and reading and compiling cost the same. */
#define NATIVE_WORTH 4096
HOST_INLINE uint64_t native_worth(uint64_t bytes)
{
    return bytes >= NATIVE_WORTH ? NATIVE_WORTH : bytes / 16 + 1;
}
/* Adds it, to a count that may miss one. True once that is enough. */
HOST_INLINE bool native_due(struct native_slot *s, uint64_t bytes)
{
    uint64_t worth = atomic_load_explicit(&s->worth, memory_order_relaxed) + native_worth(bytes);
    atomic_store_explicit(&s->worth, worth, memory_order_relaxed);
    return worth >= atomic_load_explicit(&native_needed, memory_order_relaxed);
}
/* True where the typed buffer, of count > 0 elements, and the packed one surely lie in host memory: all that a process with
 * a driver needs to know. Of a long one the first element's first byte is looked at and the last one's last, as where_of
 * does. False of types that the table does not hold. */
HOST_INLINE bool native_hosted(MPI_Datatype t, const void *user, int64_t count, const void *packed)
{
    const struct native_slot *s = native_slot(t);
    unsigned version = atomic_load_explicit(&s->version, memory_order_acquire);
    bool same = atomic_load_explicit(&s->type, memory_order_relaxed) == t;
    uint64_t low = (uint64_t)atomic_load_explicit(&s->low, memory_order_relaxed);
    uint64_t span = (uint64_t)atomic_load_explicit(&s->span, memory_order_relaxed);
    const char *first = (const char *)((uintptr_t)user + low);
    if (count != 1) span += (uint64_t)(count - 1) * (uint64_t)atomic_load_explicit(&s->extent, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (!same || version & 1 || version != atomic_load_explicit(&s->version, memory_order_relaxed)) return false;
    return user != MPI_BOTTOM && count > 0 && host_surely(packed) && host_surely(first)
           && (span < NATIVE_NEAR || host_surely(first + span - 1));
}
/* True of a handle that is met first, but where every call is stridec's: types that are made for one call take no slot,
 * unless their layout may be known (again.h): `room` is the most that the call moves. */
HOST_INLINE bool native_first(MPI_Datatype t, int64_t room)
{
    _Atomic(MPI_Datatype) *met = native_met[native_place(t)];
    MPI_Datatype last = atomic_load_explicit(met, memory_order_relaxed);
    if (last == t || atomic_load_explicit(met + 1, memory_order_relaxed) == t
        || !atomic_load_explicit(&native_needed, memory_order_relaxed))
        return false;
    atomic_store_explicit(met + 1, last, memory_order_relaxed);
    atomic_store_explicit(met, t, memory_order_relaxed);
    return room < AGAIN_LEAST;
}
HOST_INLINE void native_unmeet(MPI_Datatype t)
{
    _Atomic(MPI_Datatype) *met = native_met[native_place(t)];
    for (int i = 0; i < 2; i++)
        if (atomic_load_explicit(met + i, memory_order_relaxed) == t)
            atomic_store_explicit(met + i, (MPI_Datatype)0, memory_order_relaxed);
}
/* Of a handle that is about to be freed: true where the table holds it; else nothing more is known of it. Under another MPI
 * than the library's own none is looked at. */
HOST_INLINE bool native_keeps(const MPI_Datatype *handle)
{
    if (!handle || atomic_load_explicit(&native_least, memory_order_relaxed) == INT64_MAX) return false;
    const MPI_Datatype t = *handle;
    const struct native_slot *s = native_set(t);
    native_unmeet(t);
    return atomic_load_explicit(&s[0].type, memory_order_relaxed) == t
           || atomic_load_explicit(&s[1].type, memory_order_relaxed) == t;
}
/* May miss one. */
HOST_INLINE void native_count(struct layout *l)
{
    unsigned n = atomic_load_explicit(&l->host_served, memory_order_relaxed);
    atomic_store_explicit(&l->host_served, n + 1, memory_order_relaxed);
}
/* By code that is known to be there, packed bytes [0, bytes) of count elements. */
HOST_INLINE void native_run(const struct layout *l, enum kernel_direction d, const void *user, int64_t count, const void *packed,
                            int64_t bytes)
{
    const struct native_quick *q = &l->quick;
    q->code[d](&(struct stridec_host){.packed = (char *)(uintptr_t)packed,
                                      .user = (uint64_t)(uintptr_t)user + q->origin,
                                      .extent = l->extent, .end = bytes, .wrap = count > 1 && !q->continues,
                                      .list = q->lists});
}
/* The packed bytes of a message that native_trust has been told of; 0 of others. */
static inline int64_t native_trusts(const struct layout *l, int64_t count)
{
    uint64_t messages = atomic_load_explicit(&l->quick.messages, memory_order_acquire);
    if (!messages || count <= 0 || count >= l->quick.most) return 0;
    int64_t bytes = count * l->size;
    return messages >> native_size_log(bytes) & 1 ? bytes : 0;
}

/* What a stub asks of a call whose buffers lie in host memory: whether it is nothing for stridec; or may be served by code of
 * which all is known; or has more to be asked. */
enum native_verdict { NATIVE_DOWN, NATIVE_KNOWN, NATIVE_ASK };
/* `room` is the size of the packed buffer. Of a call that is known, *known is its layout. A slot that another type takes
 * meanwhile may only send a call down. */
HOST_INLINE enum native_verdict native_judge(enum kernel_direction d, MPI_Datatype t, int64_t count, int64_t room,
                                             struct layout **known)
{
    if (room < atomic_load_explicit(&native_least, memory_order_relaxed)) return NATIVE_DOWN;
    struct native_slot *s = native_slot(t);
    unsigned version = atomic_load_explicit(&s->version, memory_order_acquire);
    if (atomic_load_explicit(&s->type, memory_order_acquire) != t)
        return native_first(t, room) ? NATIVE_DOWN : NATIVE_ASK;
    if (count < atomic_load_explicit(&s->least[d], memory_order_relaxed)) return NATIVE_DOWN;
    struct layout *l = *known = atomic_load_explicit(&s->layout, memory_order_acquire);
    if (!l) {
        uint64_t size = (uint64_t)atomic_load_explicit(&s->size, memory_order_relaxed);
        return native_due(s, (uint64_t)count * size) ? NATIVE_ASK : NATIVE_DOWN;
    }
    if (version & 1 || version != atomic_load_explicit(&s->version, memory_order_relaxed)) return NATIVE_ASK;
    uint64_t wins = atomic_load_explicit(&l->quick.wins[d], memory_order_acquire);
    if (!wins || count <= 0 || count >= l->quick.most) return NATIVE_ASK;
    return wins >> native_size_log(count * l->size) & 1 ? NATIVE_KNOWN : NATIVE_ASK;
}
/* Serves it; MPI_SUCCESS. A function of its own: a stub that ends with it saves no registers. */
int native_serve(struct layout *l, enum kernel_direction d, const void *user, int64_t count, const void *packed);
/* The handle is about to be freed. */
void native_forget(MPI_Datatype t);
/* In a process without a driver: the type's layout if the calls so far are worth that it is read; else NULL. */
struct layout *native_layout(enum kernel_direction d, MPI_Datatype t, int64_t count);
/* In a process with one, of so many packed bytes between buffers that were found to lie in host memory: the same, and the
 * table holds what native_hosted asks for. False: the MPI serves. */
bool native_meet(MPI_Datatype t, struct layout *l, int64_t bytes);
/* Reads a type at once: it will be used often. */
void native_learn(MPI_Datatype t);
/* From now on calls of t with fewer elements go straight down. */
void native_raise(MPI_Datatype t, enum kernel_direction d, int64_t least);
/* The end of a layout that native_layout read. */
void native_gone(const struct layout *l);

/* 1 if l's code is there, 0 if it may come, -1 if it never will; asks for it once that has been wanted often enough. */
int native_comes(struct layout *l);
/* Returns what stridec_host_ready of variant.h does; asks for the code at once. */
int native_ready(struct layout *l, bool wait);

#endif
