/* neighbor_blocking.c: blocking neighborhood collectives, edge by edge (neighbor_topology.h). Each peer gets one
 * message of headers. They say for every edge if its payload is a rendezvous send, follows as a message, or is
 * empty. The receiver then reads the rendezvous sends together. */
#include "base/error.h"
#include "neighbor_exchange.h"
#include "protocol/placement.h"
#include "protocol/rndv_send.h"
#include "request/p2p.h"
#include <stdlib.h>

/* All ranks hold the vote, or none. */
bool neighbor_blocking_take(struct args_set *o)
{
    if (!node_armed() && !driver_get()) return false;
    o->edges = neighbor_topology_of(o->comm);
    return o->edges && neighbor_exchange_valid(o);
}

static void send_eager(struct neighbor_exchange *x)
{
    const struct edge_side *s = &x->e->out;
    for (int i = 0; i < s->n; i++)
        if (s->header[i].kind == EDGE_EAGER)
            neighbor_exchange_posted(x, edge_send(x, &s->edge[i]), "an edge of a neighbourhood can't be sent");
}

/* Waits for requests [first, past); notes their errors. */
static void wait_all(struct neighbor_exchange *x, int first, int past)
{
    struct neighbor_topology *e = x->e;
    int rc = PMPI_Waitall(past - first, e->request + first, e->status + first);
    for (int i = first; rc == MPI_ERR_IN_STATUS && i < past; i++)
        if (e->status[i].MPI_ERROR != MPI_SUCCESS && e->status[i].MPI_ERROR != MPI_ERR_PENDING)
            neighbor_exchange_fail(x, e->status[i].MPI_ERROR, "an edge of a neighbourhood failed");
    if (rc != MPI_SUCCESS) neighbor_exchange_fail(x, rc, "an edge of a neighbourhood failed");
}

static void receive(struct neighbor_exchange *x, struct edge *e, int64_t bytes)
{
    bool fits = bytes <= e->bytes;
    if (!fits) neighbor_exchange_fail(x, MPI_ERR_TRUNCATE, "an edge brings more than it takes");
    int rc = !fits ? edge_receive_discard(x, e, bytes)
             : edge_mpi_takes(e) ? edge_receive_plain(x, e)
             : edge_receive_packed(x, e);
    e->request = neighbor_exchange_posted(x, rc, "an edge of a neighbourhood can't be received");
}

/* Starts the receives that the headers announce. */
static void receive_all(struct neighbor_exchange *x)
{
    const struct edge_side *s = &x->e->in;
    for (int i = 0; i < s->n; i++) {
        const struct edge_header *w = &s->header[i];
        if (w->kind == EDGE_RNDV) neighbor_exchange_rndv(x, &s->edge[i], w);
        else if (w->kind == EDGE_EAGER) receive(x, &s->edge[i], w->bytes);
        else if (w->kind == EDGE_FAILED) x->refused = true;
    }
    if (x->refused) neighbor_exchange_fail(x, MPI_ERR_OTHER, "another rank can't send");
}

/* Unpacks the eager edges; after an error it is unknown which bytes arrived. */
static void unpack_all(struct neighbor_exchange *x)
{
    const struct edge_side *s = &x->e->in;
    for (int i = 0; i < s->n && x->rc == MPI_SUCCESS; i++) {
        struct edge *e = &s->edge[i];
        if (s->header[i].kind != EDGE_EAGER || !neighbor_exchange_arrived(x, e, &s->header[i])) continue;
        if (e->tbuf) batch_unpack(&x->batch, e->tbuf, s->header[i].bytes);
    }
    if (batch_wait(&x->batch)) neighbor_exchange_fail(x, MPI_ERR_OTHER, "unpacking on the GPU failed");
}

/* Waits until the peers have read the rendezvous sends. */
static void await_sends(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->out.n; i++) {
        struct edge *e = &x->e->out.edge[i];
        if (e->rndv && rndv_send_await(e->rndv, x->e->comm))
            neighbor_exchange_fail(x, MPI_ERR_OTHER, "a peer ended before it received");
    }
}

/* Sends its headers before it waits for anything, so that the headers of all ranks arrive. The rendezvous receives
 * run first; meanwhile the messages travel. */
static void run(struct neighbor_exchange *x, const struct args_set *o, bool able)
{
    if (able) neighbor_exchange_open(x, o);
    if (!able || x->rc != MPI_SUCCESS) neighbor_exchange_empty(x);
    neighbor_exchange_post(x);
    int words = x->requests;
    neighbor_exchange_announce(x);
    neighbor_exchange_pack(x);
    send_eager(x);
    wait_all(x, 0, words);
    receive_all(x);
    if (rndv_recvs_run(&x->recvs)) neighbor_exchange_fail(x, MPI_ERR_OTHER, "an edge of a neighbourhood can't be read");
    wait_all(x, words, x->requests);
    unpack_all(x);
    await_sends(x);
    neighbor_exchange_close(x);
    record_poll();
    if (x->rc == MPI_ERR_NO_MEM) x->rc = MPI_ERR_OTHER;   /* the others are through: it can't be made again */
}

int neighbor_blocking_run(struct args_set *o)
{
    struct neighbor_exchange x = {.e = o->edges, .comm = o->comm, .tags = EDGE_TAGS};
    run(&x, o, true);
    return x.what ? raise_error(x.comm, x.rc, x.what) : x.rc;
}

int neighbor_blocking_step(const struct args_set *o, bool able, bool *refused, const char **what)
{
    struct neighbor_exchange x = {.e = o->edges, .comm = o->comm, .tags = EDGE_TAGS};
    run(&x, o, able);
    *refused = x.failed || x.refused;
    if (x.what) *what = x.what;
    return x.rc;
}
