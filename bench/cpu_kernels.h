/* cpu_kernels.h: communication kernels in host memory at many sizes: a datatype, and the loops that a programmer
 * would write by hand in its place. */
#ifndef STRIDEC_BENCH_CPU_KERNELS_H
#define STRIDEC_BENCH_CPU_KERNELS_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

struct cpu_kernel {
    const char *name;
    int a[6];               /* numbers of its arrays; what they mean is the kernel's */
    int *list;              /* of irregular ones, malloc'd */
    MPI_Datatype type;      /* committed */
    size_t packed_bytes, span_bytes;
    void (*hand)(const struct cpu_kernel *k, bool unpack, void *packed, void *user);
};

size_t cpu_kernel_total(void);
/* Kernel i with about so many packed bytes. */
struct cpu_kernel cpu_kernel_make(size_t i, size_t bytes);
/* Calls that are none of stridec's: small ones, and contiguous data. */
size_t cpu_down_total(void);
struct cpu_kernel cpu_down_make(size_t i);
void cpu_kernel_free(struct cpu_kernel *k);

#endif
