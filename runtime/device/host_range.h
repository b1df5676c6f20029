/* host_range.h: recognizes host memory in a few nanoseconds. A driver query about host memory costs 0.8 us.
 *
 * Three kinds of memory are always the host's:
 *   the program's data    a segment of the executable, never unloaded
 *   the heap              from its start to the break; the kernel maps nothing else there, and the driver uses mappings
 *   the thread's stack    mapped as long as the thread runs; for the first thread the part in use at the last look
 * Pinned memory is host memory. The driver is asked about other memory at each use, also about malloc's mappings (128
 * KiB and more, and threads' arenas). free may unmap one, and the driver may then map device memory there. */
#ifndef STRIDEC_HOST_RANGE_H
#define STRIDEC_HOST_RANGE_H
#include "../../gen/hash.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Inlined: a stub that calls nothing need not save registers. */
#define HOST_INLINE static inline __attribute__((always_inline))

struct host_range {
    uintptr_t start;
    _Atomic uintptr_t bytes;   /* set after start */
};
#pragma GCC visibility push(hidden)   /* read without the linker's table */
extern struct host_range host_data;
extern _Atomic uintptr_t host_heap;   /* its start; UINTPTR_MAX if not known */
struct host_stack {
    uintptr_t low, bytes;
    int looks;
};
extern _Thread_local struct host_stack host_stack __attribute__((tls_model("initial-exec")));
#pragma GCC visibility pop

/* The break, as sbrk(0) reads it. Without this symbol host_heap stays unknown. */
extern char *__curbrk __attribute__((weak));

/* Returns true only for host memory, never for MPI_BOTTOM. */
HOST_INLINE bool host_range_has(const void *p)
{
    uintptr_t a = (uintptr_t)p, bytes = atomic_load_explicit(&host_data.bytes, memory_order_acquire);
    if (a - host_data.start < bytes || a - host_stack.low < host_stack.bytes) return true;
    return a >= atomic_load_explicit(&host_heap, memory_order_relaxed) && a < (uintptr_t)__curbrk;
}
/* Returns host_range_has(p) after it has found ranges not yet known; the first call is slow. */
bool host_range_learn(const void *p);

/* Returns true if the process can read the byte at p, by one system call. For use after a driver error. */
bool host_readable(const void *p);

/* Plain types: predefined types without gaps, contiguous in any number. They are never freed, so their handles stay
 * valid. The table is small and has no chains; other types are found by their layout. */
#define HOST_TYPES_BITS 8
/* The handle, shifted, and the size; the first type of a slot stays. */
extern _Atomic uint64_t host_types[1 << HOST_TYPES_BITS] __attribute__((visibility("hidden")));

/* Returns the handle's bits, copied: under a foreign MPI the argument may be wider, and must pass unchanged. */
HOST_INLINE uint64_t host_type_bits(MPI_Datatype t)
{
    uint64_t bits = (uint64_t)(uintptr_t)t;
    __asm__("" : "+r"(bits));
    return bits;
}
HOST_INLINE _Atomic uint64_t *host_type_slot(MPI_Datatype t)
{
    return &host_types[hash_place(host_type_bits(t), HOST_TYPES_BITS)];
}
static inline void host_type_add(MPI_Datatype t, int64_t size)
{
    uint64_t none = 0, handle = host_type_bits(t), entry = handle << 16 | (uint64_t)size;
    if (handle >> 48 || size > UINT16_MAX || atomic_load_explicit(host_type_slot(t), memory_order_relaxed)) return;
    atomic_compare_exchange_strong(host_type_slot(t), &none, entry);
}
/* Returns the size of a plain type, 0 for others. */
HOST_INLINE int64_t host_type_size(MPI_Datatype t)
{
    uint64_t entry = atomic_load_explicit(host_type_slot(t), memory_order_relaxed);
    return entry >> 16 == host_type_bits(t) ? (int64_t)(entry & UINT16_MAX) : 0;
}
HOST_INLINE bool host_type_plain(MPI_Datatype t)
{
    return atomic_load_explicit(host_type_slot(t), memory_order_relaxed) >> 16 == host_type_bits(t);   /* never 0 */
}

/* Set if contiguous messages always pass: the MPI is CUDA-aware and node_zerocopy is false (mpi_cuda_aware). */
extern atomic_bool host_contig_passes __attribute__((visibility("hidden")));

/* Return true for a plain type in host memory; for a plain message that passes to the MPI. */
HOST_INLINE bool host_buffer(const void *buf, MPI_Datatype t)
{
    return host_type_plain(t) && host_range_has(buf);
}
HOST_INLINE bool host_message(const void *buf, MPI_Datatype t)
{
    return host_type_plain(t) &&
           (host_range_has(buf) || atomic_load_explicit(&host_contig_passes, memory_order_relaxed));
}

#endif
