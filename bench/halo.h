/* halo.h: the periodic halo of a 3-D block of floats in GPU memory and its 26 neighbours, exchanged in several ways;
 * what bench/halo and bench/stencil share. */
#ifndef STRIDEC_BENCH_HALO_H
#define STRIDEC_BENCH_HALO_H
#include "common.h"

#define NEIGHBOURS 26
/* Neighbour s is in direction (s' / 9, s' / 3 % 3, s' % 3) - 1, where s' skips the middle, 13. What fills the halo on
 * that side is what neighbour s sends in the direction opposite to s. */
#define OPPOSITE(s) (NEIGHBOURS - 1 - (s))

struct box {
    int from[3], size[3];   /* in cells of the block with its halo */
};

struct halo {
    int n, radius, side;    /* n^3 cells in a block of side^3: side = n + 2 * radius */
    int rank, ranks, gpus, dims[3], coords[3], peer[NEIGHBOURS];
    MPI_Comm grid;
    struct box send_box[NEIGHBOURS], recv_box[NEIGHBOURS];
    MPI_Datatype send[NEIGHBOURS], recv[NEIGHBOURS];
    size_t cells, leaving_bytes;   /* of the block; what this rank sends to other GPUs */
    float *block;                  /* what is exchanged */
    float *start, *want;           /* host memory: the block before and after an exchange */
    void *way;                     /* of the way in use */
};

/* halo_block.c: the geometry, and the bytes. The oracle is the MPI's own exchange of the same types in host memory,
 * which is compared with what each cell's global position says; halo_new ends the run where they differ. */
void halo_new(struct halo *h, int n, int radius);
void halo_free(struct halo *h);
size_t box_cells(const struct box *b);
unsigned box_first(const struct halo *h, const struct box *b);   /* its first cell, counted in the block */
/* Resets the block, runs an exchange, and compares the whole block on every rank. *us: of the slowest rank. */
bool halo_check(struct halo *h, void (*exchange)(void *halo), double *us);

/* One way to exchange. begin and end may be NULL; begin returns false where this way cannot be had here. */
struct way {
    const char *name;
    bool device_buffers;        /* hands device memory to the MPI, whatever the MPI is */
    bool (*begin)(struct halo *h);
    void (*exchange)(void *halo);
    void (*end)(struct halo *h);
    const char *without;        /* says why begin returned false */
    bool apart;                 /* exchanges nothing: no bytes are compared */
};
extern const struct way way_isend, way_neighbor, way_persistent;   /* halo_ways.c: subarrays, straight from the block */
extern const struct way way_stream, way_graph;   /* halo_stream.c: persistent requests in stream order */
extern const struct way way_kernel, way_kernel_graph;   /* a kernel in a graph, alone and before the exchange */
/* Enqueues that kernel, a step of Jacobi's method from the block's inner cells to `out`, memory of the block's size.
 * Returns false if it does not compile. */
bool halo_compute(const struct halo *h, float *out, cudaStream_t stream);
extern const struct way way_packed;    /* halo_packed.c: MPI_Pack, MPI_Alltoallv, MPI_Unpack */
extern const struct way way_hand;      /* halo_hand.c: fused kernels and contiguous messages */
/* halo_link.c: a kernel writes, or reads, memory of other ranks; so it does behind that kernel. */
extern const struct way way_link, way_link_read, way_kernel_link;

/* halo_run.c: the main program, of blocks of n^3 and those ways, the last of which is NULL. */
int halo_main(int argc, char **argv, const char *benchmark, int n, const struct way *const *ways);

#endif
