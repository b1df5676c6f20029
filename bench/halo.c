/* halo.c: the 26-neighbour periodic halo of a block of floats a rank, ways to exchange it side by side.
 *
 * usage: mpirun -n RANKS [stridec run --] halo [--n 256] [--radius 2] [--warm SECONDS] [--limit SECONDS] [OUT.json]
 *
 * Ranks form a 3-D grid (MPI_Dims_create), rank r on GPU r modulo their number. Each way is checked cell by cell on
 * every rank, when new and when warm; its time is the median over exchanges, each begun by all at once, of the rank
 * that took longest. "stream order" is stridec_exchange_on, "one graph" the launch of a graph that
 * holds it; both wait for their stream in the end. So do graphs of a kernel that computes, alone and with the halo.
 * "link" exchanges by kernels that write into the other ranks' memory, "link, reading" by kernels that read it, without
 * the MPI: bounds for the rest; "a kernel and the link" is the reading one behind the kernel that computes. Without
 * stridec only ways that the MPI can go are measured, and rows say "the MPI alone". "peer_GB_s" is the rate of copies
 * from one GPU to the next, in this run; 0 where there is none. Each way runs for --warm (1) before it is timed, when
 * all kernels are there: NVRTC takes some seconds for the one that moves many layouts. None is begun when --limit has
 * passed.
 * Exit status 1 where a byte was wrong. */
#include "halo.h"

int main(int argc, char **argv)
{
    /* By hand last: it receives contiguous messages of 32 bytes, and is sent no short RTS headers from then on
     * (runtime/protocol/rts_short.h). */
    static const struct way *const ways[] = { &way_isend, &way_neighbor, &way_persistent, &way_stream,
                                              &way_graph, &way_kernel, &way_kernel_graph, &way_link, &way_link_read,
                                              &way_kernel_link, &way_hand, NULL };

    return halo_main(argc, argv, "halo", 256, ways);
}
