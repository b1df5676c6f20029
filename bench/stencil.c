/* stencil.c: the exchange of a weakly scaled 3-D stencil (TEMPI, Pearson et al. 2021, section 6.4): 512^3 floats a
 * rank, radius 2; packed with MPI_Pack and sent by MPI_Alltoallv, by MPI_Neighbor_alltoallw, and by hand.
 *
 * usage: mpirun -n RANKS [stridec run --] stencil [--n 512] [--radius 2] [--warm SECONDS] [--limit SECONDS] [OUT.json]
 *
 * As bench/halo in all else. */
#include "halo.h"

int main(int argc, char **argv)
{
    static const struct way *const ways[] = { &way_hand, &way_packed, &way_neighbor, NULL };

    return halo_main(argc, argv, "stencil", 512, ways);
}
