/* neighbor_topology.h: the edges of a communicator's topology, if all its ranks are on this node and run stridec.
 * Neighborhood collectives then go edge by edge, zero-copy (neighbor_blocking.c).
 *
 * All ranks choose alike: by the node's files and, if all ranks have them, by a vote. The vote waits for all ranks.
 * It is held when the communicator is made; if no rank has loaded a driver by then, at the first blocking call or
 * MPI_Neighbor_*_init. A nonblocking call may not wait: before such a vote it passes to the MPI. */
#ifndef STRIDEC_NEIGHBOR_TOPOLOGY_H
#define STRIDEC_NEIGHBOR_TOPOLOGY_H
#include "args.h"
#include <stdatomic.h>

/* The sender's header of an edge. */
enum edge_kind {
    EDGE_EMPTY,     /* no bytes, no message */
    EDGE_EAGER,     /* a message follows */
    EDGE_RNDV,      /* the receiver reads the sender's memory, by the slot */
    EDGE_FAILED     /* the sender takes part, but can't send */
};
struct edge_header {
    int64_t bytes;
    uint32_t slot;
    uint16_t kind;
    bool plain;   /* of struct neighbor_work */
};

/* One edge, and its payload in the call under way. */
struct edge {
    int rank, key;              /* the other end; edges between two ranks match in the order of their keys */
    struct peer *peer;          /* the other end */
    int place;                  /* index among the edges between the two ranks */
    int number;                 /* index in the call's arguments */
    int request;                /* index of its message in the call's requests, or -1 */
    const void *buf;
    MPI_Datatype type;
    struct layout *layout;      /* NULL if bytes is 0 */
    struct location where;
    int64_t count, bytes;
    struct rndv_send *rndv;
    struct typed_buffer *tbuf;
    bool off;                   /* the call does not use it (exchange.c) */
    bool borrowed;              /* tbuf belongs to another edge */
    void *excess;               /* receives a message that does not fit the buffer */
};

/* All edges to one rank, or from one. Their headers are one message. */
struct edge_bundle {
    struct edge *edge;
    struct edge_header *header;
    int n;
};
struct edge_side {
    struct edge *edge;          /* in order of rank and key */
    struct edge_header *header;   /* the i-th is of the i-th edge */
    struct edge_bundle *bundle;
    int n, bundles;
};

/* The edges of a communicator. One call uses them at a time; nonblocking and persistent operations have copies. */
struct neighbor_topology {
    struct neighbor_topology *of;   /* the original if this is a copy, else NULL */
    atomic_int holders;         /* references: the communicator, and copies */
    MPI_Comm comm;              /* stridec's own, of the same ranks; MPI_COMM_NULL: the MPI does these calls */
    bool spread;                /* the ranks are on several nodes: edges have no peers */
    int rank;
    int tags;                   /* number of tags that the MPI has */
    unsigned persistent;        /* operations initialised so far, equal on all ranks */
    bool asked;                 /* the typed copy kernel is prepared */
    bool drivers;               /* at the vote all ranks had loaded a driver */
    struct edge_side in, out;
    MPI_Request *request;       /* one for each edge and bundle */
    MPI_Status *status;
};

/* Tags of stridec's communicator: 0 for headers of blocking calls, the next EDGE_TAGS for their edges, the rest for
 * neighbor_nonblocking.c. */
#define EDGE_TAGS 1000

/* Returns the edges of comm, or NULL if the MPI does the call. All ranks of comm call it together: it may hold the
 * vote. */
struct neighbor_topology *neighbor_topology_of(MPI_Comm comm);
/* Returns the edges of a topology whose ranks are on several nodes, for messages in stream order alone; NULL if there
 * is none, or where some rank does not run stridec. All ranks of comm call it together: at first it holds a vote. */
struct neighbor_topology *neighbor_topology_spread(MPI_Comm comm);
/* Returns true if a call that makes a persistent request may hold a vote, on all ranks of a communicator or on none. */
bool neighbor_may_vote(void);
/* Returns true if this process has so many communicators of edges that it makes no more. */
bool neighbor_topology_full(void);
/* Returns the edges without a vote; NULL if none was held. */
struct neighbor_topology *neighbor_topology_known(MPI_Comm comm);
/* Returns the complete graph of comm, the edges to the own rank included; NULL if a rank can't make it. All ranks of
 * comm call it together, an intracommunicator of which every rank has its file on this node. */
struct neighbor_topology *neighbor_topology_complete(MPI_Comm comm);
/* Does an MPI_Allreduce by which the ranks of comm agree. Returns the MPI's code. Ends the process if the MPI fails on
 * this rank though the communicator may be sound: the others may have the result, and would wait for this rank. */
int neighbor_topology_agree(const void *mine, void *all, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
/* Holds the vote for a communicator that all its ranks have just made. comm may be MPI_COMM_NULL. */
void neighbor_topology_vote(MPI_Comm comm);
/* Returns a copy for an operation of its own; NULL without memory. The caller frees it by neighbor_topology_put. */
struct neighbor_topology *neighbor_topology_copy(struct neighbor_topology *e);
void neighbor_topology_put(struct neighbor_topology *e);   /* e may be NULL */
void neighbor_topology_finish(void);

/* neighbor_nonblocking.c. Tags of one operation for the edges between two ranks: the first tag of persistent operation
 * number `operation`, from 1 on; 0: of all nonblocking ones. */
#define NEIGHBOR_TAGS 64
int neighbor_tag(const struct neighbor_topology *e, unsigned operation);
/* Keep, and free, types and layouts of edges that outlive their call: the application may free its own. */
void neighbor_keep_types(struct edge_side *s);
void neighbor_free_types(struct edge_side *s);

/* neighbor_blocking.c. Returns true if the collective goes edge by edge: it has edges, and the MPI would not refuse
 * the arguments. Then neighbor_blocking_run does the call, or neighbor_nonblocking_make makes the persistent
 * request. */
bool neighbor_blocking_take(struct args_set *o);
int neighbor_blocking_run(struct args_set *o);
/* Does a step of a collective that has several. Not `able`: takes part without data, and the peers learn it. Sets
 * *refused if this rank or a peer did so; with all edges of the complete graph all ranks then know it. Returns
 * MPI_SUCCESS or an error, which has been raised if *what is as it was. */
int neighbor_blocking_step(const struct args_set *o, bool able, bool *refused, const char **what);
/* A computation on what the edges of a nonblocking or persistent operation bring (reduce_later.c). The operation owns
 * it. Its functions wait for no rank. */
struct neighbor_work {
    /* Before each start: sets where the edges' data arrive. Returns false without memory. */
    bool (*begin)(struct neighbor_work *w, struct edge_side *in);
    /* Computes if all has arrived, and frees what `begin` got. plain: a rank on the edges is plain, maybe this one.
     * Returns MPI_SUCCESS or an error; sets *what if it is to be raised. */
    int (*end)(struct neighbor_work *w, bool arrived, bool plain, const char **what);
    void (*free)(struct neighbor_work *w);
    bool overwrites;   /* the result lies where the peers read: `end` comes once they have read */
    bool plain;        /* set by `begin`; told to the peers */
};
/* neighbor_nonblocking.c. Returns true if a nonblocking call goes edge by edge: neighbor_nonblocking_make does it. */
bool neighbor_nonblocking_take(struct args_set *o);
/* Makes a persistent request, or begins a nonblocking operation. Owns o->work, also after an error. */
int neighbor_nonblocking_make(struct args_set *o, MPI_Request *request, bool persistent);
/* Returns false if this is not possible. Call it any number of times; neighbor_nonblocking_finish at MPI_Finalize. */
bool neighbor_nonblocking_ready(void);
void neighbor_nonblocking_finish(void);

#endif
