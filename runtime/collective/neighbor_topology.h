/* neighbor_topology.h: the edges of a communicator's topology, where all its ranks are on this node and run stridec:
 * what neighbourhood collectives move edge by edge, from memory to memory (neighbor_blocking.c).
 *
 * Which communicators these are is decided alike on all ranks: by the node's files, then, where all are there, by a
 * vote. That waits for all: it is held where the communicator is made or, where no rank had loaded a driver by then,
 * at the first blocking call or MPI_Neighbor_*_init. A nonblocking call may not wait, and before such a vote it is
 * the MPI's. */
#ifndef STRIDEC_EDGES_H
#define STRIDEC_EDGES_H
#include "args.h"
#include <stdatomic.h>

/* What the sender says of an edge. */
enum edge_kind {
    EDGE_EMPTY,     /* no bytes, no message */
    EDGE_MESSAGE,   /* a message follows */
    EDGE_OFFER      /* to be read, as the slot says */
};
struct edge_word {
    int64_t bytes;
    uint32_t slot, kind;
};

/* One edge, and what it carries in the call under way. */
struct edge {
    int rank, key;              /* the other end; edges between two ranks meet in the order of their keys */
    int number;                 /* in the call's arguments */
    int request;                /* of its message, among those of the call; -1: there is none */
    const void *buf;
    MPI_Datatype type;
    struct layout *layout;      /* NULL where bytes is 0 */
    struct location where;
    int64_t count, bytes;
    struct rndv_send *offer;
    struct typed_buffer *parcel;
    bool borrowed;              /* the parcel is another edge's */
    void *excess;               /* a message that is longer than the buffer, or has no parcel */
};

/* All edges to one rank, or from it. */
struct edge_road {
    int rank;
    struct peer *peer;
    struct edge *edge;
    struct edge_word *word;
    int n;
};
struct edge_side {
    struct edge *edge;          /* by rank and key */
    struct edge_word *word;     /* of each */
    struct edge_road *road;
    int n, roads;
};

/* The edges of a communicator; used by one call at a time, as the communicator is. Those that go on after their call
 * have copies. */
struct neighbor_topology {
    struct neighbor_topology *of;   /* NULL, or this is a copy of that */
    atomic_int holders;         /* the communicator, and copies */
    MPI_Comm comm;              /* of stridec's own, of the same ranks. MPI_COMM_NULL: not to be used */
    int rank;
    int tags;                   /* that the MPI has */
    unsigned persistent;        /* operations initialised so far, the same on all ranks */
    bool asked;                 /* for the kernel that serves many edges at once */
    struct edge_side in, out;
    MPI_Request *request;       /* one for each edge and road */
    MPI_Status *status;
};

/* Tags of the communicator of stridec's own: 0 of the words of blocking calls, so many after it of their edges, the
 * others of neighbor_nonblocking.c. */
#define EDGE_TAGS 1000

/* The edges of comm, which all its ranks ask for in the same call; NULL where the MPI has to do it. */
struct neighbor_topology *neighbor_topology_of(MPI_Comm comm);
/* The same without a vote: NULL where none was held. */
struct neighbor_topology *neighbor_topology_known(MPI_Comm comm);
/* Holds the vote for a communicator that all its ranks have just made; comm may be MPI_COMM_NULL. */
void neighbor_topology_meet(MPI_Comm comm);
/* For a call of its own: NULL without memory. */
struct neighbor_topology *neighbor_topology_copy(struct neighbor_topology *e);
void neighbor_topology_put(struct neighbor_topology *e);   /* NULL is allowed */
/* At MPI_Finalize. */
void neighbor_topology_finish(void);

/* neighbor_blocking.c: whether a neighbourhood collective goes by edges, for arguments that the MPI would not refuse;
 * and the call. */
bool neighbor_topology_take(struct args_set *o);
int neighbor_topology_run(struct args_set *o);
/* neighbor_nonblocking.c: the same of nonblocking ones, ... */
bool neighbor_topology_take_later(struct args_set *o);
int neighbor_topology_begin(struct args_set *o, MPI_Request *request);
/* ... and of persistent ones. */
int neighbor_topology_init(struct args_set *o, MPI_Request *request);

#endif
