/* bench_hooks.h: what benchmarks may ask of a preloaded libstridec.so beside MPI: which kernel serves a datatype, and
 * others in its place. No public interface: programs find these by dlsym(RTLD_DEFAULT, NAME), none where stridec is
 * not there, and they may change with any version. One thread at a time, and not while another packs.
 *
 * `user` is any address in the memory of the GPU in question. Types that stridec does not read, and contiguous ones,
 * have no kernels: 0 or NULL. */
#ifndef STRIDEC_VARIANT_H
#define STRIDEC_VARIANT_H
#include <mpi.h>

/* Lists the settings worth a try for a committed type, at most `most` a direction, the model's own choice first, and
 * compiles them ahead in so many threads into the disk cache. Returns how many variants there are: variant i goes by
 * the i-th settings of each direction. The list is valid until the next call. */
typedef int stridec_variants_function(MPI_Datatype type, const void *user, int most, int threads);
/* The settings of variant i of that list, direction 0 for packing, 1 for unpacking; NULL where that one has fewer. */
typedef const char *stridec_variant_name_function(int i, int direction);
/* From now on the type moves by variant i of the list made for it; -1: by what production takes. Waits for the
 * module. 0, or -1 where there is none. */
typedef int stridec_variant_use_function(MPI_Datatype type, const void *user, int i);
/* 1 if a call would now be served by the kernel made for the type, 0 if not yet, -1 if it never will. */
typedef int stridec_kernel_ready_function(MPI_Datatype type, const void *user);
/* How that came to be: "compiled", "cache", "aot", "copy", "failed", "pending"; "none" without one. */
typedef const char *stridec_kernel_state_function(MPI_Datatype type);

/* Data in host memory. 1 if code made for a committed type is there, 0 if not yet, -1 if it never will be; with
 * `wait`, 0 is no answer. */
typedef int stridec_host_ready_function(MPI_Datatype type, int wait);
/* Calls of MPI_Pack and MPI_Unpack with the type that stridec served in host memory. */
typedef long stridec_host_served_function(MPI_Datatype type);

#endif
