/* neighbor_nonblocking.c: nonblocking and persistent neighborhood collectives, edge by edge (neighbor_topology.h), and
 * those of exchange.h, whose edges may be off.
 *
 * The start posts everything and waits for no rank. Each peer gets one message of headers, which say for every edge
 * whether its payload is a rendezvous send. Each edge gets a message too: the payload, or empty. Memory for all
 * receives is acquired before. When the MPI has completed these messages, one launch of the receiver reads the
 * rendezvous sends. If the receiver is late, the sender moves their payload into memory of stridec (rndv_send.h). So
 * a waiting rank depends only on the other ranks' starts of the same operation, as MPI requires.
 *
 * The application's request is a receive from the own rank. Its message is sent when all data are in place. */
#include "base/error.h"
#include "base/log.h"
#include "base/reserve.h"
#include "base/self_comm.h"
#include "neighbor_exchange.h"
#include "neighbor_spread.h"
#include "protocol/placement.h"
#include "protocol/rndv_send.h"
#include "request/request_ops.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#define TAGS_FIRST (EDGE_TAGS + 1)

enum phase {
    IDLE,
    MESSAGING,    /* MPI messages are under way */
    RENDEZVOUS,   /* peers have not read all rendezvous sends yet */
    COMPLETE
};

struct nb_exchange {
    struct neighbor_exchange x;
    enum phase phase;
    int done;
    int token;           /* tag of the message to the own rank */
    bool persistent;     /* the edges own their types */
    struct neighbor_work *work;   /* or NULL */
    struct neighbor_messages *messages;   /* of neighbor_stream_of, or NULL */
    struct nb_exchange *next;
};

static MPI_Comm self = MPI_COMM_NULL;
static struct nb_exchange *freelist;   /* entries keep their tokens */
static int tokens;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int with_messages;   /* operations with messages of neighbor_stream.h */

bool neighbor_nonblocking_ready(void)
{
    pthread_mutex_lock(&lock);
    if (self == MPI_COMM_NULL && PMPI_Comm_dup(self_comm_get(), &self) != MPI_SUCCESS) self = MPI_COMM_NULL;
    pthread_mutex_unlock(&lock);
    return self != MPI_COMM_NULL;
}

void neighbor_nonblocking_finish(void)
{
    for (struct nb_exchange *d; (d = freelist);) freelist = d->next, free(d);
    tokens = 0;
    if (self != MPI_COMM_NULL) PMPI_Comm_free(&self);
}

static struct nb_exchange *exchange_get(void)
{
    pthread_mutex_lock(&lock);
    struct nb_exchange *d = freelist;
    if (d) freelist = d->next;
    else if ((d = malloc(sizeof *d))) d->token = tokens++;
    pthread_mutex_unlock(&lock);
    return d;
}

static void exchange_put(struct nb_exchange *d)
{
    pthread_mutex_lock(&lock);
    d->next = freelist;
    freelist = d;
    pthread_mutex_unlock(&lock);
}

/* Nonblocking operations begin in one order on all ranks and share tags. Persistent ones start in any order and have
 * their own tags, reused when all are taken. */
int neighbor_tag(const struct neighbor_topology *e, unsigned operation)
{
    unsigned sets = (unsigned)(e->tags - TAGS_FIRST) / NEIGHBOR_TAGS;
    return TAGS_FIRST + (int)(operation ? 1 + (operation - 1) % (sets - 1) : 0) * NEIGHBOR_TAGS;
}

/* Returns NULL without memory, which has been raised; the call may then be repeated. Sets d->x.rc for wrong
 * arguments. */
static struct nb_exchange *neighbor_nonblocking_new(struct args_set *o, bool persistent)
{
    struct nb_exchange *d = reserve_low() ? NULL : exchange_get();
    struct neighbor_topology *e = d ? neighbor_topology_copy(o->edges) : NULL;
    if (!e) {
        if (d) exchange_put(d);
        if (o->work) o->work->free(o->work);
        raise_error(o->comm, MPI_ERR_NO_MEM, "no memory for a neighbourhood collective");
        return NULL;
    }
    int tag = neighbor_tag(e, persistent ? o->edges->persistent + 1 : 0);
    *d = (struct nb_exchange){.x = {.e = e, .comm = o->comm, .tag = tag, .tags = NEIGHBOR_TAGS - 1}, .token = d->token,
                             .work = o->work};
    neighbor_exchange_open(&d->x, o);
    return d;
}

void neighbor_keep_types(struct edge_side *s)
{
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        if (!e->bytes) continue;
        layout_ref(e->layout);
        e->type = type_like(e->type);
    }
}

void neighbor_free_types(struct edge_side *s)
{
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        if (!e->bytes) continue;
        PMPI_Type_free(&e->type);
        layout_unref(e->layout);
    }
}

static void release(void *of)
{
    struct nb_exchange *d = of;
    if (d->work) d->work->free(d->work);
    if (d->messages) atomic_fetch_sub(&with_messages, 1);
    neighbor_messages_free(d->messages);
    if (d->persistent) neighbor_free_types(&d->x.e->in), neighbor_free_types(&d->x.e->out);
    neighbor_topology_put(d->x.e);
    exchange_put(d);
}

/* Posts the receive of an edge's message: into the buffer, or into a bounce buffer. No kernel writes a type that can't
 * be read, so that what comes by rendezvous needs the bounce buffer, too. */
static int receive(struct neighbor_exchange *x, struct edge *e)
{
    bool unread = e->bytes && e->where.device && !e->layout->tree;
    if (unread || !edge_mpi_takes(e)) return edge_receive_packed(x, e);
    if (e->bytes && !(e->tbuf = edge_in_place(e))) log_fatal("no memory for what a neighbour is about to send");
    return edge_receive_plain(x, e);
}

static void post_side(struct neighbor_exchange *x, struct edge_side *s, bool receives)
{
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        e->request = -1;
        if (e->off) continue;
        int rc = receives ? receive(x, e) : edge_send(x, e);
        e->request = neighbor_exchange_posted(x, rc, "an edge of a neighbourhood can't be posted");
    }
}

/* Returns false without memory. */
static bool begin_work(struct nb_exchange *d)
{
    if (!d->work) return true;
    bool begun = d->work->begin(d->work, &d->x.e->in);
    d->x.plain = d->work->plain;
    return begun;
}

static void end_work(struct nb_exchange *d)
{
    struct neighbor_exchange *x = &d->x;
    const char *what = NULL;
    bool plain = x->plain;
    for (int i = 0; i < x->e->in.n; i++) plain |= x->e->in.header[i].plain;
    int rc = d->work->end(d->work, x->rc == MPI_SUCCESS, plain, &what);
    if (rc != MPI_SUCCESS) neighbor_exchange_fail(x, rc, what);
}

/* Starts the operation. An error is reported at completion, since the other ranks are about to take part. */
static void post(struct nb_exchange *d)
{
    struct neighbor_exchange *x = &d->x;
    x->requests = d->done = 0, x->rc = MPI_SUCCESS, x->what = NULL;
    x->site = (struct rndv_send_site){0};
    neighbor_exchange_post(x);
    post_side(x, &x->e->in, true);
    neighbor_exchange_announce(x);
    neighbor_exchange_pack(x);
    post_side(x, &x->e->out, false);
    d->phase = MESSAGING;
}

static bool messages_done(struct nb_exchange *d)
{
    struct neighbor_exchange *x = &d->x;
    for (int flag = 0; d->done < x->requests; d->done++) {
        int rc = PMPI_Test(&x->e->request[d->done], &flag, &x->e->status[d->done]);
        if (rc != MPI_SUCCESS) neighbor_exchange_fail(x, rc, "an edge of a neighbourhood failed");
        else if (!flag) return false;
    }
    return true;
}

static void receive_edge(struct neighbor_exchange *x, struct edge *e, const struct edge_header *w)
{
    if (w->kind == EDGE_RNDV) neighbor_exchange_rndv(x, e, w);
    if (w->kind != EDGE_EAGER || x->rc != MPI_SUCCESS || !neighbor_exchange_arrived(x, e, w)) return;
    if (e->tbuf && e->tbuf->transport) batch_unpack(&x->batch, e->tbuf, w->bytes);
}

/* Receives all payloads as the headers announce, waits, and frees the buffers. */
static void receive_edges(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->in.n; i++) receive_edge(x, &x->e->in.edge[i], &x->e->in.header[i]);
    bool failed = batch_run(&x->batch) != 0;   /* runs during the rendezvous receives */
    if (rndv_recvs_run(&x->recvs)) failed = true;
    if (batch_wait(&x->batch) || failed)
        neighbor_exchange_fail(x, MPI_ERR_OTHER, "an edge of a neighbourhood can't be read");
    neighbor_exchange_close(x);
}

/* Returns true if all rendezvous sends have ended, or will soon. */
static bool rndv_done(const struct neighbor_exchange *x)
{
    bool all = true;
    for (int i = 0; i < x->e->out.n && all; i++)
        all = !x->e->out.edge[i].rndv || rndv_send_ended(x->e->out.edge[i].rndv);
    return all;
}

static void rndv_end_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->out.n; i++) {
        struct edge *e = &x->e->out.edge[i];
        if (e->rndv && rndv_send_end(e->rndv))
            neighbor_exchange_fail(x, MPI_ERR_OTHER, "a peer ended before it received");
        e->rndv = NULL;
    }
}

/* Advances the operation without waiting for other ranks; returns true if it is complete. At completion it sends the
 * message that completes the request. One thread at a time. */
static bool step(void *of)
{
    struct nb_exchange *d = of;
    struct neighbor_exchange *x = &d->x;
    if (d->phase == MESSAGING && messages_done(d)) {
        receive_edges(x);
        if (d->work && !d->work->overwrites) end_work(d);
        d->phase = RENDEZVOUS;
    }
    if (d->phase == RENDEZVOUS && rndv_done(x)) {
        rndv_end_all(x);
        if (d->work && d->work->overwrites) end_work(d);
        PMPI_Send(NULL, 0, MPI_BYTE, 0, d->token, self);
        d->phase = COMPLETE;
    }
    return d->phase == COMPLETE || d->phase == IDLE;
}

static int end(void *of, const char **what)
{
    struct nb_exchange *d = of;
    d->phase = IDLE;
    *what = d->x.what;
    return d->x.rc;
}

static bool start(struct record *r, void *of, struct starts *s)
{
    struct nb_exchange *d = of;
    (void)r, (void)s;
    d->x.comm = MPI_COMM_WORLD;   /* the call's own may be freed */
    if (!begin_work(d)) log_fatal("no memory for a reduction that the other ranks are about to begin");
    post(d);
    return true;
}

static const struct request_ops ops = {.free = release, .start = start, .step = step, .end = end};

/* ---- in stream order ---- */

bool neighbor_stream_of(MPI_Request request, struct neighbor_messages **m)
{
    struct nb_exchange *d = record_any_steps() ? record_object(request, &ops) : NULL;
    if (!d) return neighbor_spread_of(request, m);
    bool goes = d->persistent && !d->work && d->phase == IDLE && d->x.e->drivers;
    *m = NULL;
    if (!goes) return true;
    if (!d->messages && (d->messages = neighbor_messages_new(d->x.e, d->x.tag + 1, d->x.tags)))
        atomic_fetch_add(&with_messages, 1);
    *m = d->messages;
    return *m != NULL;
}

/* Returns the operation of a request if some have messages, else NULL. */
static struct nb_exchange *find(MPI_Request request)
{
    return atomic_load_explicit(&with_messages, memory_order_relaxed) ? record_object(request, &ops) : NULL;
}

struct neighbor_messages *neighbor_stream_started(MPI_Request request)
{
    const struct nb_exchange *d = find(request);
    if (!d) return neighbor_spread_started(request);
    return d->messages && d->messages->started ? d->messages : NULL;
}

struct neighbor_messages *neighbor_stream_take(MPI_Request request)
{
    struct nb_exchange *d = find(request);
    if (!d) return neighbor_spread_remove(request);
    struct neighbor_messages *m = d->messages;
    if (m) d->messages = NULL, atomic_fetch_sub(&with_messages, 1);
    return m;
}

bool neighbor_nonblocking_take(struct args_set *o)
{
    o->edges = neighbor_topology_known(o->comm);
    return o->edges && neighbor_exchange_valid(o);
}

int neighbor_nonblocking_make(struct args_set *o, MPI_Request *request, bool persistent)
{
    struct nb_exchange *d = neighbor_nonblocking_new(o, persistent);
    if (!d) return MPI_ERR_NO_MEM;
    int rc = d->x.rc;
    if (rc == MPI_SUCCESS && !persistent && !begin_work(d))
        rc = raise_error(o->comm, MPI_ERR_NO_MEM, "no memory for a reduction");
    if (rc != MPI_SUCCESS) return release(d), rc;
    o->edges->persistent += persistent;   /* on all ranks: a call that fails before does not count */
    rc = persistent ? PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, d->token, self, request)
                    : PMPI_Irecv(NULL, 0, MPI_BYTE, 0, d->token, self, request);
    if (rc != MPI_SUCCESS)
        log_fatal("%s failed in a neighbourhood collective that the other ranks have begun",
                  persistent ? "MPI_Recv_init" : "MPI_Irecv");
    d->persistent = persistent;
    if (persistent) neighbor_keep_types(&d->x.e->in), neighbor_keep_types(&d->x.e->out);
    else post(d);
    record_add_of(*request, &ops, d, o->comm, persistent);
    return MPI_SUCCESS;
}
