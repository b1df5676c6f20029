/* neighbor_blocking.c: the blocking neighbourhood collectives on communicators that have edges
 * (neighbor_topology.h). To each peer goes one message that says of every edge whether its payload is offered,
 * follows as a message of its own, or is empty; what was offered is then pulled together. */
#include "base/error.h"
#include "neighbor_exchange.h"
#include "protocol/placement.h"
#include "protocol/rndv_send.h"
#include "request/p2p.h"
#include <stdlib.h>

/* A vote is held by all ranks or by none. */
bool neighbor_topology_take(struct args_set *o)
{
    if (!node_armed() && !driver_get()) return false;
    o->edges = neighbor_topology_of(o->comm);
    return o->edges && neighbor_exchange_takes(o);
}

static void send_rest(struct neighbor_exchange *x)
{
    struct neighbor_topology *e = x->e;
    for (int i = 0; i < e->out.roads; i++) {
        struct edge_road *r = &e->out.road[i];
        for (int k = 0; k < r->n; k++) {
            struct edge *at = &r->edge[k];
            if (r->word[k].kind != EDGE_MESSAGE) continue;
            MPI_Request *request = &e->request[x->requests];
            int rc = edge_send(at, neighbor_exchange_tag(x, k), e->comm, request);
            if (rc == MPI_SUCCESS) x->requests++;
            else neighbor_exchange_fail(x, rc, "an edge of a neighbourhood can't be sent");
        }
    }
}

/* The error of a request is the call's. */
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
    if (!vain && !edge_goes_plain(e)) {
        rc = placement_open(&e->parcel, e->layout, e->where, e->buf, e->count, e->type, e->rank, x->comm);
        if (rc != MPI_SUCCESS) neighbor_exchange_note(x, rc);
        vain = !e->parcel;
    }
    MPI_Comm comm = x->e->comm;
    rc = vain ? edge_receive_in_vain(e, bytes, tag, comm, request)
         : e->parcel ? edge_receive_bytes(e, e->parcel->address, e->bytes, tag, comm, request)
         : edge_receive_plain(e, tag, comm, request);
    e->request = rc == MPI_SUCCESS ? x->requests++ : -1;
    if (rc != MPI_SUCCESS) neighbor_exchange_fail(x, rc, "an edge of a neighbourhood can't be received");
}

/* As the senders' words say. */
static void receive_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->in.roads; i++) {
        struct edge_road *r = &x->e->in.road[i];
        for (int k = 0; k < r->n; k++) {
            if (r->word[k].kind == EDGE_OFFER) neighbor_exchange_pull(x, r, &r->edge[k], &r->word[k]);
            else if (r->word[k].kind == EDGE_MESSAGE) receive(x, &r->edge[k], k, r->word[k].bytes);
        }
    }
}

/* What came as packed messages; in an exchange with an error nobody knows what that is. */
static void unpack_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->in.roads && x->rc == MPI_SUCCESS; i++) {
        struct edge_road *r = &x->e->in.road[i];
        for (int k = 0; k < r->n; k++) {
            if (r->word[k].kind != EDGE_MESSAGE || !neighbor_exchange_came(x, &r->edge[k], &r->word[k])) continue;
            if (r->edge[k].parcel) batch_unpack(&x->batch, r->edge[k].parcel, r->word[k].bytes);
        }
    }
    if (batch_wait(&x->batch)) neighbor_exchange_fail(x, MPI_ERR_OTHER, "unpacking on the GPU failed");
}

static void close_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->out.n; i++) {
        struct edge *e = &x->e->out.edge[i];
        if (e->offer && rndv_send_await(e->offer, x->e->comm))
            neighbor_exchange_fail(x, MPI_ERR_OTHER, "a peer ended before it received");
        if (!e->borrowed) typed_buffer_close(e->parcel);
    }
    for (int i = 0; i < x->e->in.n; i++) {
        typed_buffer_close(x->e->in.edge[i].parcel);
        free(x->e->in.edge[i].excess);
    }
}

/* Every rank says what it sends before it waits for anything: what all say arrives. The payloads that are offered
 * come first, and while they move the messages travel. */
int neighbor_topology_run(struct args_set *o)
{
    struct neighbor_exchange x = {.e = o->edges, .comm = o->comm, .tags = EDGE_TAGS};
    neighbor_exchange_open(&x, &x.e->out, &o->of[0]);
    neighbor_exchange_open(&x, &x.e->in, &o->of[1]);
    if (x.rc != MPI_SUCCESS) return x.rc;
    neighbor_exchange_await(&x);
    int words = x.requests;
    neighbor_exchange_say(&x);
    neighbor_exchange_pack(&x, o->of[0].flags & ARG_NEIGHBORS);
    send_rest(&x);
    wait_all(&x, 0, words);
    receive_all(&x);
    if (rndv_recvs_run(&x.pulls)) neighbor_exchange_fail(&x, MPI_ERR_OTHER, "an edge of a neighbourhood can't be read");
    wait_all(&x, words, x.requests);
    unpack_all(&x);
    close_all(&x);
    record_poll();
    return x.what ? raise_error(x.comm, x.rc, x.what) : x.rc;
}
