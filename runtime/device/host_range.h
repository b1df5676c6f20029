/* host_range.h: buffers that are surely nothing for stridec, told in a few nanoseconds and without asking the driver, whom host
 * memory that it does not know costs 0.8 us a question.
 *
 * Three kinds of memory are the host's whatever the driver does:
 *   the program's data    a segment of the executable: nothing unloads it
 *   the heap              from its start to the break as it is at the call: the kernel maps nothing else there, and the
 *                         driver takes its addresses from mappings
 *   the thread's stack    of the thread that calls, all of it mapped as long as it runs; of the first thread the part that
 *                         was in use at the last look, which the kernel never takes back
 * Pinned memory is host memory too. All else is asked about at each use, what malloc has mapped included (blocks of 128 KiB
 * and more, and the arenas of threads): free may unmap it and the driver map a device's memory at the same address, and
 * nobody would be told. */
#ifndef STRIDEC_HOST_H
#define STRIDEC_HOST_H
#include "../../gen/hash.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A stub that calls nothing before it goes on has nothing to save. */
#define HOST_INLINE static inline __attribute__((always_inline))

struct host_range {
    uintptr_t start;
    _Atomic uintptr_t bytes;   /* set after start */
};
#pragma GCC visibility push(hidden)   /* read without a look into the linker's table */
extern struct host_range host_data;
extern _Atomic uintptr_t host_heap;   /* where it starts; UINTPTR_MAX while that is not known */
struct host_stack {
    uintptr_t low, bytes;
    int looks;
};
extern _Thread_local struct host_stack host_stack __attribute__((tls_model("initial-exec")));
#pragma GCC visibility pop

/* What sbrk(0) reads; a library without it leaves host_heap unknown. */
extern char *__curbrk __attribute__((weak));

/* True only of host memory, never of MPI_BOTTOM. */
HOST_INLINE bool host_surely(const void *p)
{
    uintptr_t a = (uintptr_t)p, bytes = atomic_load_explicit(&host_data.bytes, memory_order_acquire);
    if (a - host_data.start < bytes || a - host_stack.low < host_stack.bytes) return true;
    return a >= atomic_load_explicit(&host_heap, memory_order_relaxed) && a < (uintptr_t)__curbrk;
}
/* The same after a look at what has not been looked at yet; slow at first. */
bool host_learn(const void *p);

/* Returns true if the process may read the byte at p. One call of the system: for where the driver does not tell. */
bool host_readable(const void *p);

/* Plain types: named ones without gaps, of which any number is one piece. Nobody frees them, so that a handle that
 * was one stays one. A small table without chains: what finds no place is found by its layout. */
#define HOST_TYPES_BITS 8
/* Of each the handle, shifted, and its size; the first that comes to a slot stays. */
extern _Atomic uint64_t host_types[1 << HOST_TYPES_BITS] __attribute__((visibility("hidden")));

/* A handle's bits, in a register of their own: under another MPI than the library's own the argument may be longer
 * than the handle, and goes down as it came. */
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
/* Its size; 0 of others. */
HOST_INLINE int64_t host_type_size(MPI_Datatype t)
{
    uint64_t entry = atomic_load_explicit(host_type_slot(t), memory_order_relaxed);
    return entry >> 16 == host_type_bits(t) ? (int64_t)(entry & UINT16_MAX) : 0;
}
HOST_INLINE bool host_type_plain(MPI_Datatype t)
{
    return atomic_load_explicit(host_type_slot(t), memory_order_relaxed) >> 16 == host_type_bits(t);   /* never 0 */
}

/* Contiguous messages are the MPI's wherever they lie: it takes device memory, and none of it goes from memory to
 * memory (node_zerocopy). Set once that is known (mpi_cuda_aware). */
extern atomic_bool host_passes __attribute__((visibility("hidden")));

/* Questions that a stub asks first: a buffer of a plain type in host memory; a message of one that is the MPI's. */
HOST_INLINE bool host_buffer(const void *buf, MPI_Datatype t)
{
    return host_type_plain(t) && host_surely(buf);
}
HOST_INLINE bool host_message(const void *buf, MPI_Datatype t)
{
    return host_type_plain(t) && (host_surely(buf) || atomic_load_explicit(&host_passes, memory_order_relaxed));
}

#endif
