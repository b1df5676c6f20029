/* neighbor_exchange.h: one neighborhood collective, edge by edge (neighbor_topology.h): the parts that blocking
 * (neighbor_blocking.c) and nonblocking or persistent ones (neighbor_nonblocking.h) share. */
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
    int requests, rc;
    const char *what;        /* if set, rc is still to be raised */
};

/* Returns the tag of the k-th edge between two ranks. */
static inline int neighbor_exchange_tag(const struct neighbor_exchange *x, int k)
{
    return x->tag + 1 + k % x->tags;
}
/* Notes an error; the first one is the call's. */
void neighbor_exchange_note(struct neighbor_exchange *x, int rc);
/* Notes an error that is raised at the end, when nothing is under way. */
void neighbor_exchange_fail(struct neighbor_exchange *x, int rc, const char *what);

/* Returns true if the MPI would not refuse the arguments. */
bool neighbor_exchange_valid(const struct args_set *o);
/* Sets the edges of a side from the call's argument. */
void neighbor_exchange_open(struct neighbor_exchange *x, struct edge_side *s, const struct arg *p);
/* Posts the receives of all peers' headers; neighbor_exchange_announce sends the own ones, or copies them within the
 * own rank. */
void neighbor_exchange_post(struct neighbor_exchange *x);
void neighbor_exchange_announce(struct neighbor_exchange *x);
/* Packs the eager edges in one batch, and waits. each: the edges have different buffers. */
void neighbor_exchange_pack(struct neighbor_exchange *x, bool each);
/* Returns true if a message of the announced size arrived. Else its sender could not pack it, or the receive failed. */
bool neighbor_exchange_arrived(struct neighbor_exchange *x, const struct edge *e, const struct edge_header *w);
/* Adds the rendezvous receive that an edge's header announces. */
void neighbor_exchange_rndv(struct neighbor_exchange *x, struct edge_bundle *r, struct edge *e,
                            const struct edge_header *w);

/* Returns true if the MPI takes the buffer as it is. */
bool edge_mpi_takes(const struct edge *e);
/* Opens a typed buffer for the edge's packed bytes. Returns MPI_SUCCESS, or an error raised on x's communicator. */
int edge_open_buffer(const struct neighbor_exchange *x, const struct edge *e, struct typed_buffer **p);
/* Starts the send of an edge; an empty message if packing failed, since the peer waits for one. */
int edge_send(struct edge *e, int tag, MPI_Comm comm, MPI_Request *request);
int edge_receive_plain(const struct edge *e, int tag, MPI_Comm comm, MPI_Request *request);
/* Receives a message that does not fit the buffer, so that no later call receives it. */
int edge_receive_discard(struct edge *e, int64_t bytes, int tag, MPI_Comm comm, MPI_Request *request);
int edge_receive_bytes(const struct edge *e, void *to, int64_t bytes, int tag, MPI_Comm comm, MPI_Request *request);

#endif
