/* bench_hooks.h: what benchmarks may ask of a preloaded libstridec.so: which kernel serves a datatype, and to try
 * others. Not public: may change with any version. Programs find these by dlsym(RTLD_DEFAULT, NAME), which gives
 * NULL without stridec. One thread at a time, and not while another packs.
 *
 * `user` is any address in the GPU's memory. Types that stridec can't read, and contiguous ones, have no kernels: 0
 * or NULL. */
#ifndef STRIDEC_BENCH_HOOKS_H
#define STRIDEC_BENCH_HOOKS_H
#include <mpi.h>

/* Lists the settings worth a try for a committed type: at most `most` for each direction, the model's choice first.
 * Compiles them into the disk cache in `threads` threads. Returns the number of variants; variant i has the i-th
 * settings of each direction. The list is valid until the next call. */
typedef int stridec_variants_function(MPI_Datatype type, const void *user, int most, int threads);
/* Returns the settings of variant i of that list; NULL if the direction has fewer. direction: 0 packs, 1 unpacks. */
typedef const char *stridec_variant_name_function(int i, int direction);
/* Makes the type use variant i of the list made for it; -1: the production choice. Waits for the module. Returns 0,
 * or -1 if there is none. */
typedef int stridec_variant_use_function(MPI_Datatype type, const void *user, int i);
/* Returns 1 if the kernel made for the type would serve a call now, 0 if not yet, -1 if it never will. */
typedef int stridec_kernel_ready_function(MPI_Datatype type, const void *user);
/* Returns where that kernel is from: "compiled", "cache", "aot", "shared", "copy", "failed", "pending"; "none" without
 * one. */
typedef const char *stridec_kernel_state_function(MPI_Datatype type);

/* Returns 1 if host code for a committed type is ready, 0 if not yet, -1 if it never will be. With `wait` never 0. */
typedef int stridec_host_ready_function(MPI_Datatype type, int wait);
/* Returns the number of calls of MPI_Pack and MPI_Unpack with the type that stridec served in host memory. */
typedef long stridec_host_served_function(MPI_Datatype type);

#endif
