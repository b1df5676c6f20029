/* reduce_call.h: the arguments of one reduction among the ranks of a node: what exchange_reduce.c (blocking) and
 * reduce_later.c (nonblocking, persistent) share. */
#ifndef STRIDEC_REDUCE_CALL_H
#define STRIDEC_REDUCE_CALL_H
#include "exchange.h"
#include "reduction.h"

struct reduce_call {
    const struct args_set *o;    /* input, then output */
    enum exchange_kind kind;
    MPI_Op op;
    MPI_Datatype type;
    struct reduction reduction;
    int ranks, rank;
    bool scatters, scans;
    bool in_place;
    const char *from;
    bool gets;                   /* this rank gets a result, */
    char *to;                    /* here; else NULL */
    int64_t total;               /* elements that each rank brings */
    int64_t most;                /* of the ranks' pieces of them, the longest one */
    int64_t own;                 /* elements of the result at this rank, if it gets any */
    int64_t bytes;               /* between two elements */
};

/* Opens a call of a communicator with the complete graph `e`. Returns false for arguments that the MPI refuses on all
 * ranks; all ranks get the same total and most. */
bool reduce_call_open(struct reduce_call *c, const struct args_set *o, enum exchange_kind kind, MPI_Op op,
                      const struct neighbor_topology *e);
/* Returns false if the MPI refuses this rank's buffers. */
bool reduce_call_right(const struct reduce_call *c);
/* Returns the sum of the counts, and sets *most to the largest; 0 if one is negative or the sum overflows. */
int64_t reduce_call_sum(const struct arg *p, int ranks, int64_t *most);
/* Rounds up to a multiple of REDUCE_CALL_TOGETHER elements, so that rows and shares are aligned. */
#define REDUCE_CALL_TOGETHER 64
int64_t reduce_call_rounded(int64_t elements);
/* Reduces rows in host memory, `step` bytes apart, to the last one; each row becomes the result up to it. Returns the
 * MPI's code. */
int reduce_call_rows(const struct reduce_call *c, char *rows, int64_t step, int n, int64_t count);

#endif
