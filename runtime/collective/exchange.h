/* exchange.h: collectives among the ranks of a node, zero-copy: edge by edge, as neighborhoods go
 * (neighbor_exchange.h), in a communicator's complete graph.
 *
 * All ranks of a call must choose alike, and one that passes host memory can't know that another one passes device
 * memory, for which the call gains (`gains` in exchange.c). So the ranks vote. On MPI_COMM_WORLD all of this begins
 * after the first MPI_Barrier.
 *
 * Blocking calls on a communicator are counted, by kind and by size where all ranks know it. In calls number 1, 2, 4,
 * 8, ... 64, 128, 192, ... the ranks vote: if one of them gains, or has since the vote before, this and the next calls
 * go zero-copy, until the next vote. Each call that makes a persistent request votes.
 *
 * A nonblocking call may not wait, so it can't vote. The votes of the other calls, and of MPI_Barrier number 1, 2, 4,
 * 8, ... 64, 128, 192, ..., decide on nonblocking calls too: by what the ranks passed to those since the last vote.
 * Collectives on a communicator have one order on all ranks, so each nonblocking call goes alike on all of them. */
#ifndef STRIDEC_EXCHANGE_H
#define STRIDEC_EXCHANGE_H
#include "args.h"

enum exchange_kind {
    EXCHANGE_ALLTOALL,
    EXCHANGE_ALLTOALLV,
    EXCHANGE_ALLTOALLW,
    EXCHANGE_ALLGATHER,
    EXCHANGE_ALLGATHERV,
    EXCHANGE_BCAST,
    EXCHANGE_GATHER,
    EXCHANGE_GATHERV,
    EXCHANGE_SCATTER,
    EXCHANGE_SCATTERV,
    EXCHANGE_REDUCE,   /* this and the next: reductions (exchange_reduce.h) */
    EXCHANGE_ALLREDUCE,
    EXCHANGE_REDUCE_SCATTER_BLOCK,
    EXCHANGE_REDUCE_SCATTER,
    EXCHANGE_SCAN,
    EXCHANGE_EXSCAN,
    EXCHANGE_KINDS
};
enum exchange_form { EXCHANGE_BLOCKING, EXCHANGE_PERSISTENT, EXCHANGE_NONBLOCKING };

/* Shorter pieces are left to the MPI, packed. Calls with lists of counts have no size that all ranks know. */
#define EXCHANGE_LEAST 512
#define EXCHANGE_LISTS INT64_MAX

/* Return the packed bytes of a piece; 0 if the arguments are wrong. exchange_bytes_at: of the first pair at the root,
 * of the second one elsewhere. */
int64_t exchange_bytes(MPI_Count count, MPI_Datatype type);
int64_t exchange_bytes_at(int root, MPI_Comm comm, MPI_Count count, MPI_Datatype type, MPI_Count leaf_count,
                          MPI_Datatype leaf_type);
/* Returns true if all ranks of comm are on the node and run stridec, as far as all ranks know it. */
bool exchange_possible(MPI_Comm comm);
/* Counts a call of the program on such a communicator, with pieces of at least EXCHANGE_LEAST bytes. Returns true if
 * exchange_take is to be called: the ranks vote, or the call goes zero-copy. */
bool exchange_due(enum exchange_kind kind, enum exchange_form form, MPI_Comm comm, int64_t bytes);
/* Does an MPI_Barrier, by a vote if it is time and the program's, else by `barrier`. */
int exchange_barrier(MPI_Comm comm, bool is_mpis, int (*barrier)(MPI_Comm comm));
/* Votes if it is time. Returns true if exchange_run does the call. All ranks of the communicator call it alike where
 * exchange_due has returned true. */
bool exchange_take(struct args_set *o);
/* Does the call, or makes its request: NULL if it is blocking. */
int exchange_run(struct args_set *o, MPI_Request *request);

/* Parts of exchange_take and exchange_run, for reductions. */

/* Votes if it is time. Returns the complete graph if the call goes zero-copy, else NULL. */
struct neighbor_topology *exchange_agreed(const struct args_set *o);
#define EXCHANGE_NONE (-1)
#define EXCHANGE_ALL (-2)
struct edge_side;
/* Leaves one edge of a side, all of them or none; without the own rank's if `apart`. */
void exchange_choose(struct edge_side *s, int which, int rank, bool apart);
/* Notes the end of the call, alike on all ranks. `refused`: the MPI does it, and the next ones: an eighth of those so
 * far, at most up to a vote. */
void exchange_went(const struct args_set *o, bool refused);

/* Notes that this rank can do its part of the MPI_Iallreduce that exchange_due has counted by a kernel. All ranks must,
 * as all do the same; one with host memory says nothing. */
void exchange_ready(MPI_Comm comm);

/* Set by exchange_due if it has counted the thread's call; the stub clears it before. */
extern _Thread_local bool exchange_counted;
/* Return rc. exchange_unbegun: of a call that has not begun. exchange_ended: of the MPI's call, which may have refused
 * the arguments. The program may make such a call again, which is not counted. */
int exchange_unbegun(MPI_Comm comm, int rc);
int exchange_ended(MPI_Comm comm, int rc);
/* Returns the number of calls so far that went zero-copy (for tests). */
long stridec_exchanges(void);
/* Frees what is known of communicators, at MPI_Finalize. */
void exchange_finish(void);

#endif
