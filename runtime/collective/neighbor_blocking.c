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
    struct neighbor_topology *e = x->e;
    for (int i = 0; i < e->out.bundles; i++) {
        struct edge_bundle *r = &e->out.bundle[i];
        for (int k = 0; k < r->n; k++) {
            struct edge *at = &r->edge[k];
            if (r->header[k].kind != EDGE_EAGER) continue;
            MPI_Request *request = &e->request[x->requests];
            int rc = edge_send(at, neighbor_exchange_tag(x, k), e->comm, request);
            if (rc == MPI_SUCCESS) x->requests++;
            else neighbor_exchange_fail(x, rc, "an edge of a neighbourhood can't be sent");
        }
    }
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

static void receive(struct neighbor_exchange *x, struct edge *e, int k, int64_t bytes)
{
    MPI_Request *request = &x->e->request[x->requests];
    int rc, tag = neighbor_exchange_tag(x, k);
    bool vain = bytes > e->bytes;
    if (vain) neighbor_exchange_fail(x, MPI_ERR_TRUNCATE, "an edge brings more than it takes");
    if (!vain && !edge_mpi_takes(e)) {
        rc = edge_open_buffer(x, e, &e->tbuf);
        if (rc != MPI_SUCCESS) neighbor_exchange_note(x, rc);
        vain = !e->tbuf;
    }
    MPI_Comm comm = x->e->comm;
    rc = vain ? edge_receive_discard(e, bytes, tag, comm, request)
         : e->tbuf ? edge_receive_bytes(e, e->tbuf->address, e->bytes, tag, comm, request)
         : edge_receive_plain(e, tag, comm, request);
    e->request = rc == MPI_SUCCESS ? x->requests++ : -1;
    if (rc != MPI_SUCCESS) neighbor_exchange_fail(x, rc, "an edge of a neighbourhood can't be received");
}

/* Starts the receives that the headers announce. */
static void receive_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->in.bundles; i++) {
        struct edge_bundle *r = &x->e->in.bundle[i];
        for (int k = 0; k < r->n; k++) {
            if (r->header[k].kind == EDGE_RNDV) neighbor_exchange_rndv(x, r, &r->edge[k], &r->header[k]);
            else if (r->header[k].kind == EDGE_EAGER) receive(x, &r->edge[k], k, r->header[k].bytes);
        }
    }
}

/* Unpacks the eager edges; after an error it is unknown which bytes arrived. */
static void unpack_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->in.bundles && x->rc == MPI_SUCCESS; i++) {
        struct edge_bundle *r = &x->e->in.bundle[i];
        for (int k = 0; k < r->n; k++) {
            if (r->header[k].kind != EDGE_EAGER || !neighbor_exchange_arrived(x, &r->edge[k], &r->header[k])) continue;
            if (r->edge[k].tbuf) batch_unpack(&x->batch, r->edge[k].tbuf, r->header[k].bytes);
        }
    }
    if (batch_wait(&x->batch)) neighbor_exchange_fail(x, MPI_ERR_OTHER, "unpacking on the GPU failed");
}

static void close_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->out.n; i++) {
        struct edge *e = &x->e->out.edge[i];
        if (e->rndv && rndv_send_await(e->rndv, x->e->comm))
            neighbor_exchange_fail(x, MPI_ERR_OTHER, "a peer ended before it received");
        if (!e->borrowed) typed_buffer_close(e->tbuf);
    }
    for (int i = 0; i < x->e->in.n; i++) {
        typed_buffer_close(x->e->in.edge[i].tbuf);
        free(x->e->in.edge[i].excess);
    }
}

/* Sends its headers before it waits for anything, so that the headers of all ranks arrive. The rendezvous receives
 * run first; meanwhile the messages travel. */
int neighbor_blocking_run(struct args_set *o)
{
    struct neighbor_exchange x = {.e = o->edges, .comm = o->comm, .tags = EDGE_TAGS};
    neighbor_exchange_open(&x, &x.e->out, &o->of[0]);
    neighbor_exchange_open(&x, &x.e->in, &o->of[1]);
    if (x.rc != MPI_SUCCESS) return x.rc;
    neighbor_exchange_post(&x);
    int words = x.requests;
    neighbor_exchange_announce(&x);
    neighbor_exchange_pack(&x, o->of[0].flags & ARG_NEIGHBORS);
    send_eager(&x);
    wait_all(&x, 0, words);
    receive_all(&x);
    if (rndv_recvs_run(&x.recvs)) neighbor_exchange_fail(&x, MPI_ERR_OTHER, "an edge of a neighbourhood can't be read");
    wait_all(&x, words, x.requests);
    unpack_all(&x);
    close_all(&x);
    record_poll();
    return x.what ? raise_error(x.comm, x.rc, x.what) : x.rc;
}
