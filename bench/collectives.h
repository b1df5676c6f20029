/* collectives.h: the collective calls that bench/collectives times. */
#ifndef STRIDEC_BENCH_COLLECTIVES_H
#define STRIDEC_BENCH_COLLECTIVES_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#define RANKS_MAX 64

/* One call of a case on this rank: what it sends and receives, by derived types. Counts and displacements are there a
 * rank, in elements of the types; alltoallw's displacements are 0. */
struct exchange {
    int rank, ranks, n;                  /* n: cells of a side of the global array */
    size_t in_bytes, out_bytes;          /* spans of the buffers */
    size_t leaving_bytes;                /* from this rank to others */
    MPI_Datatype send[RANKS_MAX], recv[RANKS_MAX];
    int counts[RANKS_MAX], displs[RANKS_MAX], ones[RANKS_MAX], zeros[RANKS_MAX];
    size_t share_bytes[RANKS_MAX];       /* packed bytes that pass between this rank and each */
};

/* A case. `call` makes it from `in` to `out`, by the MPI below all that is preloaded where `alone`; `contiguous` moves
 * as many bytes between the same ranks, without gaps. Both return an MPI error code. */
struct collective {
    const char *name;
    void (*make)(struct exchange *e);
    int (*call)(const struct exchange *e, const void *in, void *out, bool alone);
    int (*contiguous)(const struct exchange *e, const void *in, void *out);
};
extern const struct collective collectives[];   /* ends with a name of NULL */

/* Frees the types of `make`. */
void exchange_free(struct exchange *e);

#endif
