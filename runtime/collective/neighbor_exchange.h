/* neighbor_exchange.h: one neighborhood collective, edge by edge (neighbor_topology.h): the parts that blocking
 * (neighbor_blocking.c) and nonblocking or persistent ones (neighbor_nonblocking.c) share. */
#ifndef STRIDEC_NEIGHBOR_EXCHANGE_H
#define STRIDEC_NEIGHBOR_EXCHANGE_H
#include "neighbor_topology.h"
#include "protocol/rndv_recv.h"
#include "protocol/rndv_send.h"

struct neighbor_exchange {
    struct neighbor_topology *e;
    MPI_Comm comm;           /* errors are raised here */
    int tag, tags;           /* of the headers; the next `tags` are for edges; equal tags keep their order */
    struct memory memory;    /* where the last buffer lay */
    bool host, bottom;       /* of the side in edge_locate: all on the host; absolute addresses */
    struct rndv_send_site site;
    struct batch batch;
    struct rndv_recvs recvs;
    bool each;               /* the edges have different send buffers */
    bool failed;             /* neighbor_exchange_empty */
    bool plain;              /* told to the peers (struct neighbor_work) */
    bool refused;            /* a peer has failed so: its headers say it */
    int requests, rc;
    const char *what;        /* if set, rc is still to be raised */
};

/* Notes an error that is raised at the end, when nothing is under way. The first one is the call's. */
void neighbor_exchange_fail(struct neighbor_exchange *x, int rc, const char *what);
/* Counts a message that a function below has posted with this rc. Returns the index of its request; -1 after an
 * error, which is noted as `what`. */
int neighbor_exchange_posted(struct neighbor_exchange *x, int rc, const char *what);

/* Returns true if the MPI would not refuse the arguments. */
bool neighbor_exchange_valid(const struct args_set *o);
/* Sets the edges from the call's arguments; x->rc says if they are right. */
void neighbor_exchange_open(struct neighbor_exchange *x, const struct args_set *o);
/* Empties all edges after a failed open, so that the call takes part all the same: the peers get an error. */
void neighbor_exchange_empty(struct neighbor_exchange *x);
/* Posts the receives of all peers' headers; neighbor_exchange_announce sends the own ones, or copies them within the
 * own rank. */
void neighbor_exchange_post(struct neighbor_exchange *x);
void neighbor_exchange_announce(struct neighbor_exchange *x);
/* Packs the eager edges in one batch, and waits. */
void neighbor_exchange_pack(struct neighbor_exchange *x);
/* Returns true if a message of the announced size arrived. Else its sender could not pack it, or the receive failed. */
bool neighbor_exchange_arrived(struct neighbor_exchange *x, const struct edge *e, const struct edge_header *w);
/* Adds the rendezvous receive that an edge's header announces. */
void neighbor_exchange_rndv(struct neighbor_exchange *x, struct edge *e, const struct edge_header *w);
/* Closes the edges' buffers; no message is under way. */
void neighbor_exchange_close(struct neighbor_exchange *x);

/* Returns true if the MPI takes the buffer as it is. */
bool edge_mpi_takes(const struct edge *e);
/* Returns a typed buffer that describes the edge's data and has no bounce buffer; NULL without memory. */
struct typed_buffer *edge_in_place(const struct edge *e);

/* The functions below post an edge's message: the caller calls neighbor_exchange_posted. */

/* Sends an edge. The message is empty if the edge is, if it is a rendezvous send, or if packing failed: the peer waits
 * for one. */
int edge_send(struct neighbor_exchange *x, const struct edge *e);
/* Receives into the buffer itself; an empty message if the edge is empty. */
int edge_receive_plain(struct neighbor_exchange *x, const struct edge *e);
/* Receives into a bounce buffer, or discards the message if there is no memory for one. */
int edge_receive_packed(struct neighbor_exchange *x, struct edge *e);
/* Receives a message that does not fit the buffer, so that no later call receives it. */
int edge_receive_discard(struct neighbor_exchange *x, struct edge *e, int64_t bytes);

#endif
