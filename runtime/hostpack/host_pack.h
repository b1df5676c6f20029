/* host_pack.h: packs and unpacks in host memory by code compiled for the layout (gen/host.lua). The code is a
 * module without a device, compiled in the background. Until it is ready, or without a compiler, a walk over the
 * tree does the work (gen/pack.h).
 *
 * The path of a call of MPI_Pack or MPI_Unpack is decided in this order:
 * - STRIDEC_HOST=off, contiguous data, or fewer bytes than the tuned table says (`host`, default 256): the MPI's,
 *   without reading the type (FILTER_PASS).
 * - Without a CUDA driver, a type is read only after 16 packs of 4 KiB or more; of smaller ones, after more. So
 *   types for one short message cost nothing. From 32 KiB on its layout may be known (known_layouts.h). With a
 *   driver, the first call of each layout is the MPI's, which detects types that were not committed.
 * - Then trials: the MPI and stridec alternate a few times for each layout, direction and power of two of bytes.
 *   The best time wins; trials repeat once when compiled code is ready. After that a call costs about ninety
 *   instructions without a driver, or with a buffer surely in host memory (host_range.h): FILTER_SERVE.
 * STRIDEC_HOST=on: stridec packs all but contiguous data, without trials. */
#ifndef STRIDEC_HOST_PACK_H
#define STRIDEC_HOST_PACK_H
#include "datatype/type_filter.h"

/* Pack and unpack bytes [begin, end) of `count` elements at `user` (may be MPI_BOTTOM); `packed` is the place of
 * byte `begin`; 0 <= begin <= end <= count * size. Request compiled code for repeated layouts, never wait. Return
 * false, and move nothing, if stridec can't read the type or STRIDEC_HOST is off: then the MPI must. Any thread. */
bool host_pack_pack(struct layout *l, int64_t count, const void *user, void *packed, int64_t begin, int64_t end);
bool host_pack_unpack(struct layout *l, int64_t count, void *user, const void *packed, int64_t begin, int64_t end);
/* Copies packed bytes [0, bytes) of one buffer to those of another. Else like host_pack_pack. */
bool host_pack_copy(struct layout *from, int64_t from_count, const void *source, struct layout *to, int64_t to_count,
                    void *target, int64_t bytes);
/* Returns the nanoseconds that host_pack_pack saves over MPI_Pack for `count` elements at `user` in host memory.
 * Measures once for each layout and power of two of bytes; `packed` has room for the bytes. Returns INT64_MIN
 * without code or gain, INT64_MAX if STRIDEC_HOST is on. */
int64_t host_pack_saved_ns(struct layout *l, MPI_Datatype type, int64_t count, const void *user, void *packed,
                           MPI_Comm comm);
/* Makes messages of about this size use ready code without further checks (host_pack_fast_bytes). */
void host_pack_set_fast(struct layout *l, int64_t bytes);

/* One call of MPI_Pack or MPI_Unpack. host_pack_begin returns true if stridec packs; host_pack_end ends the call. */
struct host_pack_timing;
struct host_pack_call {
    struct layout *layout;
    struct host_pack_timing *timing;   /* of a trial, which is timed; else NULL */
    enum kernel_direction direction;
    bool ours;
    MPI_Datatype type;
    int64_t count;
    int64_t start;              /* 0: not timed */
    int64_t bytes;
};
bool host_pack_begin(struct host_pack_call *c, struct layout *l, enum kernel_direction direction, MPI_Datatype type,
                     int64_t count, int64_t bytes);
void host_pack_end(struct host_pack_call *c, int rc);

/* May miss a call. */
HOST_INLINE void host_pack_count(struct layout *l)
{
    unsigned n = atomic_load_explicit(&l->host_served, memory_order_relaxed);
    atomic_store_explicit(&l->host_served, n + 1, memory_order_relaxed);
}
/* Runs ready code on packed bytes [0, bytes) of `count` elements. */
HOST_INLINE void host_pack_run(const struct layout *l, enum kernel_direction d, const void *user, int64_t count,
                               const void *packed, int64_t bytes)
{
    const struct host_pack_quick *q = &l->quick;
    q->code[d](&(struct stridec_host){.packed = (char *)(uintptr_t)packed,
                                      .user = (uint64_t)(uintptr_t)user + q->origin,
                                      .extent = l->extent, .end = bytes, .wrap = count > 1 && !q->continues,
                                      .list = q->lists});
}
/* Returns the packed bytes of a message of a size set by host_pack_set_fast, else 0. */
static inline int64_t host_pack_fast_bytes(const struct layout *l, int64_t count)
{
    uint64_t messages = atomic_load_explicit(&l->quick.messages, memory_order_acquire);
    if (!messages || count <= 0 || count >= l->quick.most) return 0;
    int64_t bytes = count * l->size;
    return messages >> host_pack_size_log(bytes) & 1 ? bytes : 0;
}

/* Packs or unpacks; returns MPI_SUCCESS. A separate function, so that a stub that ends with it saves no registers. */
int host_pack_serve(struct layout *l, enum kernel_direction d, const void *user, int64_t count, const void *packed);
/* Returns 1 if l's code is ready, 0 if it may come, -1 if never. Requests it after enough uses. */
int host_pack_code_state(struct layout *l);
/* Returns where l's code came from, as kernel_state has it; NULL if there is none. Requests nothing. */
const char *host_pack_origin(const struct layout *l);
/* Returns the value of stridec_host_ready (bench_hooks.h). Requests the code at once. */
int host_pack_ready(struct layout *l, bool wait);

#endif
