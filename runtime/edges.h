/* edges.h: the edges of a communicator's topology, where all its ranks are on this node and run stridec: what
 * neighbourhood collectives move edge by edge, from memory to memory (calls_neighbor.c).
 *
 * Which communicators these are is decided alike on all ranks at the first such call: by the node's files, then, where
 * all are there, by a vote. */
#ifndef STRIDEC_EDGES_H
#define STRIDEC_EDGES_H
#include "operand.h"

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
    const void *buf;
    MPI_Datatype type;
    struct layout *layout;      /* NULL where bytes is 0 */
    struct where where;
    int64_t count, bytes;
    struct offer *offer;
    struct parcel *parcel;
    bool borrowed;              /* the parcel is another edge's */
    void *excess;               /* a message that is longer than the buffer */
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

/* The edges of a communicator; used by one call at a time, as the communicator is. */
struct edges {
    MPI_Comm comm;              /* of stridec's own, of the same ranks. MPI_COMM_NULL: not to be used */
    int rank;
    bool asked;                 /* for the kernel that serves many edges at once */
    struct edge_side in, out;
    MPI_Request *request;       /* one for each edge and road */
    MPI_Status *status;
};

/* The edges of comm, which all its ranks ask for in the same call; NULL where the MPI has to do it. */
struct edges *edges_of(MPI_Comm comm);
/* At MPI_Finalize. */
void edges_finish(void);

/* calls_neighbor.c: whether a neighbourhood collective goes by edges, for arguments that the MPI would not refuse;
 * and the call. */
bool edges_take(struct operands *o);
int edges_run(struct operands *o);

#endif
