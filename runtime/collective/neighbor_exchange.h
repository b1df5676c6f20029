/* neighbor_exchange.h: one neighbourhood collective that goes edge by edge (neighbor_topology.h): what blocking ones
 * (neighbor_blocking.c) and those that go on after their call (neighbor_nonblocking.h) have in common. */
#ifndef STRIDEC_EXCHANGE_H
#define STRIDEC_EXCHANGE_H
#include "neighbor_topology.h"
#include "protocol/rndv_recv.h"
#include "protocol/rndv_send.h"

struct neighbor_exchange {
    struct neighbor_topology *e;
    MPI_Comm comm;           /* where errors are raised */
    int tag, tags;           /* of the words; so many that follow are the edges': what has the same keeps its order */
    struct memory memory;    /* the last one met */
    bool host, bottom;       /* of the side that is looked at: all of it on the host; by absolute addresses */
    struct rndv_send_site site;
    struct batch batch;
    struct rndv_recvs pulls;
    int requests, rc;
    const char *what;        /* rc is still to be raised */
};

/* Of the k-th edge between two ranks. */
static inline int neighbor_exchange_tag(const struct neighbor_exchange *x, int k)
{
    return x->tag + 1 + k % x->tags;
}
/* The first error is the call's. */
void neighbor_exchange_note(struct neighbor_exchange *x, int rc);
/* One that nobody has raised yet: at the end, when nothing is under way. */
void neighbor_exchange_fail(struct neighbor_exchange *x, int rc, const char *what);

/* True of arguments that the MPI would not refuse. */
bool neighbor_exchange_takes(const struct args_set *o);
/* What the call says of the edges of a side. */
void neighbor_exchange_open(struct neighbor_exchange *x, struct edge_side *s, const struct arg *p);
/* Makes ready to hear from all peers what they send, and tells them what is sent; what goes to the own rank needs no
 * message. */
void neighbor_exchange_await(struct neighbor_exchange *x);
void neighbor_exchange_say(struct neighbor_exchange *x);
/* Packs together what no peer reads; `each`: the edges' buffers differ. */
void neighbor_exchange_pack(struct neighbor_exchange *x, bool each);
/* True of a message that came as its word says; else its sender could not pack it, or it was not received. */
bool neighbor_exchange_came(struct neighbor_exchange *x, const struct edge *e, const struct edge_word *w);
/* What the word of an edge offers is to be pulled. */
void neighbor_exchange_pull(struct neighbor_exchange *x, struct edge_road *r, struct edge *e,
                            const struct edge_word *w);

/* The MPI takes the buffer itself. */
bool edge_goes_plain(const struct edge *e);
/* What was not packed is sent empty: the peer waits for a message. */
int edge_send(struct edge *e, int tag, MPI_Comm comm, MPI_Request *request);
int edge_receive_plain(const struct edge *e, int tag, MPI_Comm comm, MPI_Request *request);
/* A message that has no place in the buffer is received all the same, or a later call would meet it. */
int edge_receive_in_vain(struct edge *e, int64_t bytes, int tag, MPI_Comm comm, MPI_Request *request);
int edge_receive_bytes(const struct edge *e, void *to, int64_t bytes, int tag, MPI_Comm comm, MPI_Request *request);

#endif
