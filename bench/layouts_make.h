/* layouts_make.h: makers of datatypes, from a row's numbers; each returns the number of elements to pack. */
#ifndef STRIDEC_BENCH_LAYOUTS_MAKE_H
#define STRIDEC_BENCH_LAYOUTS_MAKE_H
#include <mpi.h>

typedef int layout_maker(const int a[6], MPI_Datatype *type);

/* layouts_list.c: what no stride describes. */
layout_maker irregular_blocks, irregular_bytes, gather_doubles, shuffled_doubles, lower_triangle, records,
    two_subarrays;
/* layouts_ddt.c: communication kernels of applications. */
layout_maker wrf_vec, wrf_sa, milc, lu, mg, specfem_oc, specfem_cm, specfem_mt, lammps, fft2d;

/* splitmix64: the same layouts in every run. */
unsigned long long layouts_random(unsigned long long *state);
/* Fills at[n] with increasing places: gaps of 1 to 2 * mean - 1, in elements. */
void layouts_scatter(int *at, int n, int mean, unsigned long long seed);

#endif
