/* exchange_reduce.h: reductions on device memory among the ranks of a node, by kernels: those whose ranks have agreed
 * on it (exchange.h).
 *
 * Each rank reduces a share of the elements. All ranks send it their pieces of the share, zero-copy; they
 * become the rows of a buffer, in the order of the ranks, and one kernel reduces the rows (kernel/reduce.h). The result
 * goes to whoever gets it. So each element is computed once, in the order of the ranks: all ranks get the same bits.
 * Long vectors go in rounds, since the buffer is bounded.
 *
 * A rank without memory or whose kernel is not compiled yet says so in the headers of the first round. All ranks read
 * them before anything is written, and all leave the call to the MPI.
 *
 * Nonblocking and persistent reductions go otherwise: reduce_later.h. */
#ifndef STRIDEC_EXCHANGE_REDUCE_H
#define STRIDEC_EXCHANGE_REDUCE_H
#include "exchange.h"

/* Shorter vectors stay with the MPI, which needs one exchange where this needs two. MPI_Allreduce on two H200s: the MPI
 * on packed bytes 20 us at 1 KiB and 33 at 16; kernels 38 at 256. */
#define EXCHANGE_REDUCE_LEAST 32768

/* Return the packed bytes of all elements that are reduced; 0 if the call is the MPI's. All ranks of a call get the
 * same, on a communicator with exchange_possible. each: bytes of an integer of the list. */
int64_t exchange_reduce_bytes(int64_t count, MPI_Datatype type, MPI_Op op);
int64_t exchange_reduce_block_bytes(MPI_Comm comm, int64_t count, MPI_Datatype type, MPI_Op op);
int64_t exchange_reduce_list_bytes(MPI_Comm comm, const void *counts, size_t each, MPI_Datatype type, MPI_Op op);
/* Does a call that exchange_due has counted, or makes its request unless that is NULL; sets *rc. Returns false if the
 * MPI does it. All ranks of the communicator call it alike. */
bool exchange_reduce(const struct args_set *o, enum exchange_kind kind, MPI_Op op, MPI_Request *request, int *rc);

#endif
