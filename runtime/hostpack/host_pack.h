/* host_pack.h: packing and unpacking data in host memory by code made for its layout (gen/host.lua), compiled and
 * loaded in the background like kernels: a module without a device. Until that is there, and where there is no
 * compiler, a walk over the tree serves (gen/pack.h).
 *
 * Whether a call of MPI_Pack or MPI_Unpack is served so is decided in this order:
 *   - STRIDEC_HOST=off: never. Contiguous data, and fewer bytes than the tuned table says (`host`, 256 without
 *     one): never. Such calls go straight down, without a look at the type: PACK_FILTER_PASS.
 *   - Where the process has no CUDA driver, a type is read only once its handle has been packed from some times (16, of
 *     4 KiB and more; small ones more often), so that types that are made for one short message cost nothing; of 32 KiB and
 *     more its layout may be known (known_layouts.h). Else each layout's first call is the MPI's: it knows about types that were not
 *     committed.
 *   - Then the MPI's way and this one take turns, a few times each for each layout, direction and power of two of
 *     bytes, and what was quicker in its best call stays; once more when the compiled code has come. From then on, in
 *     a process without a driver, or of buffers that surely are the host's (host_range.h), such calls are served by some ninety
 *     instructions beside the code: PACK_FILTER_KNOWN.
 * STRIDEC_HOST=on serves all but contiguous data, without turns. */
#ifndef STRIDEC_NATIVE_H
#define STRIDEC_NATIVE_H
#include "datatype/pack_filter.h"

/* Packed bytes [begin, end) of `count` elements at `user` (MPI_BOTTOM is allowed): `packed` is where byte `begin`
 * goes or is; 0 <= begin <= end <= count * size. By compiled code where that is ready; asks for it where the layout
 * comes again, never waits. False, and nothing is moved, where stridec can't read the type or STRIDEC_HOST is off:
 * the MPI must. Any thread. */
bool host_pack_pack(struct layout *l, int64_t count, const void *user, void *packed, int64_t begin, int64_t end);
bool host_pack_unpack(struct layout *l, int64_t count, void *user, const void *packed, int64_t begin, int64_t end);
/* Packed bytes [0, bytes) of one buffer into another, at the same place in that one's. As both of these. */
bool host_pack_copy(struct layout *from, int64_t from_count, const void *source, struct layout *to, int64_t to_count,
                    void *target, int64_t bytes);
/* Nanoseconds that host_pack_pack saves beside MPI_Pack on so many elements at `user`, in host memory: found out by
 * turns that are taken here and now, once for each layout and power of two of bytes; `packed` has room for them.
 * INT64_MIN where there is no code yet, or nothing to be saved; INT64_MAX where STRIDEC_HOST is on. */
int64_t host_pack_saves(struct layout *l, MPI_Datatype type, int64_t count, const void *user, void *packed,
                        MPI_Comm comm);
/* From now on messages of about so many bytes are packed by code that is there, without more questions
 * (host_pack_trusts). */
void host_pack_trust(struct layout *l, int64_t bytes);

/* One call of MPI_Pack or MPI_Unpack, which begin and end enclose; begin returns true if native_move serves it. */
struct host_pack_race;
struct host_pack_call {
    struct layout *layout;
    struct host_pack_race *race;   /* a turn, to be timed; else NULL */
    enum kernel_direction direction;
    bool ours;
    MPI_Datatype type;
    int64_t count;
    int64_t start;              /* 0: nobody asks for the time */
    int64_t bytes;
};
bool host_pack_begin(struct host_pack_call *c, struct layout *l, enum kernel_direction direction, MPI_Datatype type,
                     int64_t count, int64_t bytes);
void host_pack_end(struct host_pack_call *c, int rc);

/* May miss one. */
HOST_INLINE void host_pack_count(struct layout *l)
{
    unsigned n = atomic_load_explicit(&l->host_served, memory_order_relaxed);
    atomic_store_explicit(&l->host_served, n + 1, memory_order_relaxed);
}
/* By code that is known to be there, packed bytes [0, bytes) of count elements. */
HOST_INLINE void host_pack_run(const struct layout *l, enum kernel_direction d, const void *user, int64_t count,
                               const void *packed, int64_t bytes)
{
    const struct host_pack_quick *q = &l->quick;
    q->code[d](&(struct stridec_host){.packed = (char *)(uintptr_t)packed,
                                      .user = (uint64_t)(uintptr_t)user + q->origin,
                                      .extent = l->extent, .end = bytes, .wrap = count > 1 && !q->continues,
                                      .list = q->lists});
}
/* The packed bytes of a message that host_pack_trust has been told of; 0 of others. */
static inline int64_t host_pack_trusts(const struct layout *l, int64_t count)
{
    uint64_t messages = atomic_load_explicit(&l->quick.messages, memory_order_acquire);
    if (!messages || count <= 0 || count >= l->quick.most) return 0;
    int64_t bytes = count * l->size;
    return messages >> host_pack_size_log(bytes) & 1 ? bytes : 0;
}

/* Serves it; MPI_SUCCESS. A function of its own: a stub that ends with it saves no registers. */
int host_pack_serve(struct layout *l, enum kernel_direction d, const void *user, int64_t count, const void *packed);
/* 1 if l's code is there, 0 if it may come, -1 if it never will; asks for it once that has been wanted often enough. */
int host_pack_comes(struct layout *l);
/* Returns what stridec_host_ready of bench_hooks.h does; asks for the code at once. */
int host_pack_ready(struct layout *l, bool wait);

#endif
