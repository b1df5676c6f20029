/* neighbor_nonblocking.c: nonblocking and persistent neighbourhood collectives that go edge by edge. */
#include "neighbor_nonblocking.h"
#include "base/error.h"
#include "base/log.h"
#include "base/reserve.h"
#include "base/self_comm.h"
#include "neighbor_exchange.h"
#include "protocol/placement.h"
#include "protocol/rndv_send.h"
#include "request/request_ops.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

/* Of the edges between two ranks, in one operation. Operations that begin in one order everywhere share tags;
 * persistent ones, which each rank starts as it likes, have tags of their own, until those begin anew. */
#define TAGS_EACH 64
#define TAGS_FIRST (EDGE_TAGS + 1)

enum phase {
    IDLE,
    TRAVELS,   /* the MPI has messages under way */
    OFFERED,   /* peers have not read all yet */
    COMPLETE
};

struct deferred {
    struct neighbor_exchange x;
    enum phase phase;
    int done;            /* of the MPI's requests */
    int token;           /* the tag of its message to the own rank */
    bool each;           /* the edges' buffers to send differ */
    bool persistent;     /* the edges' types are its own */
    struct deferred *next;
};

static MPI_Comm self = MPI_COMM_NULL;
static struct deferred *spare;   /* with their tokens */
static int tokens;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool neighbor_nonblocking_ready(void)
{
    pthread_mutex_lock(&lock);
    if (self == MPI_COMM_NULL && PMPI_Comm_dup(world_self(), &self) != MPI_SUCCESS) self = MPI_COMM_NULL;
    pthread_mutex_unlock(&lock);
    return self != MPI_COMM_NULL;
}

void neighbor_nonblocking_finish(void)
{
    for (struct deferred *d; (d = spare);) spare = d->next, free(d);
    tokens = 0;
    if (self != MPI_COMM_NULL) PMPI_Comm_free(&self);
}

static struct deferred *take_spare(void)
{
    pthread_mutex_lock(&lock);
    struct deferred *d = spare;
    if (d) spare = d->next;
    else if ((d = malloc(sizeof *d))) d->token = tokens++;
    pthread_mutex_unlock(&lock);
    return d;
}

static void put_spare(struct deferred *d)
{
    pthread_mutex_lock(&lock);
    d->next = spare;
    spare = d;
    pthread_mutex_unlock(&lock);
}

/*
 * Making.
 */

static int tag_of(const struct neighbor_topology *e, unsigned operation)
{
    unsigned sets = (unsigned)(e->tags - TAGS_FIRST) / TAGS_EACH;
    return TAGS_FIRST + (int)(operation ? 1 + (operation - 1) % (sets - 1) : 0) * TAGS_EACH;
}

/* NULL without memory: an error that has been raised. The call may be made again: the tags of persistent ones count
 * those made. */
static struct deferred *neighbor_nonblocking_new(struct args_set *o, bool persistent)
{
    struct deferred *d = reserve_low() ? NULL : take_spare();
    struct neighbor_topology *e = d ? neighbor_topology_copy(o->edges) : NULL;
    if (!e) {
        if (d) put_spare(d);
        raise_error(o->comm, MPI_ERR_NO_MEM, "no memory for a neighbourhood collective");
        return NULL;
    }
    int tag = tag_of(e, persistent ? ++o->edges->persistent : 0);
    *d = (struct deferred){.x = {.e = e, .comm = o->comm, .tag = tag, .tags = TAGS_EACH - 1}, .token = d->token,
                           .each = o->of[0].flags & ARG_NEIGHBORS};
    neighbor_exchange_open(&d->x, &e->out, &o->of[0]);
    neighbor_exchange_open(&d->x, &e->in, &o->of[1]);
    return d;
}

/* The application may free its types before the request. */
static void keep_types(struct edge_side *s)
{
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        if (!e->bytes) continue;
        layout_ref(e->layout);
        e->type = type_like(e->type);
    }
}

static void free_types(struct edge_side *s)
{
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        if (!e->bytes) continue;
        PMPI_Type_free(&e->type);
        layout_unref(e->layout);
    }
}

static void release(struct deferred *d)
{
    if (!d) return;
    if (d->persistent) free_types(&d->x.e->in), free_types(&d->x.e->out);
    neighbor_topology_put(d->x.e);
    put_spare(d);
}

/*
 * Starting.
 */

/* Where the edge's payload lands, if it is no offer: the buffer itself, or that of a parcel. */
static int receive(struct neighbor_exchange *x, struct edge *e, int tag, MPI_Request *request)
{
    MPI_Comm comm = x->e->comm;
    if (!e->bytes) return PMPI_Irecv(NULL, 0, MPI_BYTE, e->rank, tag, comm, request);
    if (!edge_goes_plain(e)) {
        neighbor_exchange_note(
            x, placement_open(&e->parcel, e->layout, e->where, e->buf, e->count, e->type, e->rank, x->comm));
        if (e->parcel) return edge_receive_bytes(e, e->parcel->address, e->bytes, tag, comm, request);
        return edge_receive_in_vain(e, e->bytes, tag, comm, request);
    }
    e->parcel = typed_buffer_bare(e->layout, e->where.device, e->buf, e->count);
    if (!e->parcel) log_fatal("no memory for what a neighbour is about to send");
    if (!e->layout->tree) e->parcel->datatype = type_like(e->type);
    return edge_receive_plain(e, tag, comm, request);
}

static int send(struct neighbor_exchange *x, struct edge *e, const struct edge_word *w, int tag, MPI_Request *request)
{
    if (w->kind == EDGE_MESSAGE) return edge_send(e, tag, x->e->comm, request);
    return PMPI_Isend(NULL, 0, MPI_BYTE, e->rank, tag, x->e->comm, request);
}

static void post_side(struct neighbor_exchange *x, struct edge_side *s, bool receives)
{
    for (int i = 0; i < s->roads; i++) {
        struct edge_road *r = &s->road[i];
        for (int k = 0; k < r->n; k++) {
            struct edge *e = &r->edge[k];
            MPI_Request *request = &x->e->request[e->request = x->requests];
            int tag = neighbor_exchange_tag(x, k);
            int rc = receives ? receive(x, e, tag, request) : send(x, e, &r->word[k], tag, request);
            if (rc == MPI_SUCCESS) x->requests++;
            else neighbor_exchange_fail(x, rc, "an edge of a neighbourhood can't be posted"), e->request = -1;
        }
    }
}

/* An error is told when the operation completes: the others are about to take part. */
static bool post(struct deferred *d)
{
    struct neighbor_exchange *x = &d->x;
    x->requests = d->done = 0, x->rc = MPI_SUCCESS, x->what = NULL;
    x->site = (struct rndv_send_site){0};
    neighbor_exchange_await(x);
    post_side(x, &x->e->in, true);
    neighbor_exchange_say(x);
    neighbor_exchange_pack(x, d->each);
    post_side(x, &x->e->out, false);
    d->phase = TRAVELS;
    return true;
}

/*
 * Going on.
 */

static bool travelled(struct deferred *d)
{
    struct neighbor_exchange *x = &d->x;
    for (int flag = 0; d->done < x->requests; d->done++) {
        int rc = PMPI_Test(&x->e->request[d->done], &flag, &x->e->status[d->done]);
        if (rc != MPI_SUCCESS) neighbor_exchange_fail(x, rc, "an edge of a neighbourhood failed");
        else if (!flag) return false;
    }
    return true;
}

static void take_in(struct neighbor_exchange *x, struct edge_road *r, struct edge *e, const struct edge_word *w)
{
    if (w->kind == EDGE_OFFER) neighbor_exchange_pull(x, r, e, w);
    if (w->kind != EDGE_MESSAGE || x->rc != MPI_SUCCESS || !neighbor_exchange_came(x, e, w)) return;
    if (e->parcel && e->parcel->transport) batch_unpack(&x->batch, e->parcel, w->bytes);
}

/* What the words say. */
static void take_all(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->in.roads; i++) {
        struct edge_road *r = &x->e->in.road[i];
        for (int k = 0; k < r->n; k++) take_in(x, r, &r->edge[k], &r->word[k]);
    }
    bool failed = batch_run(&x->batch) != 0;   /* it goes on while the others are pulled */
    if (rndv_recvs_run(&x->pulls)) failed = true;
    if (batch_wait(&x->batch) || failed)
        neighbor_exchange_fail(x, MPI_ERR_OTHER, "an edge of a neighbourhood can't be read");
    for (int i = 0; i < x->e->in.n; i++) typed_buffer_close(x->e->in.edge[i].parcel), free(x->e->in.edge[i].excess);
    for (int i = 0; i < x->e->out.n; i++)
        if (!x->e->out.edge[i].borrowed) typed_buffer_close(x->e->out.edge[i].parcel);
}

/* All offers have ended, or would soon. */
static bool read(const struct neighbor_exchange *x)
{
    bool all = true;
    for (int i = 0; i < x->e->out.n && all; i++)
        all = !x->e->out.edge[i].offer || rndv_send_ended(x->e->out.edge[i].offer);
    return all;
}

static void end_offers(struct neighbor_exchange *x)
{
    for (int i = 0; i < x->e->out.n; i++) {
        struct rndv_send *o = x->e->out.edge[i].offer;
        if (o && rndv_send_end(o)) neighbor_exchange_fail(x, MPI_ERR_OTHER, "a peer ended before it received");
    }
}

static void forget_buffers(struct edge_side *s)
{
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        e->parcel = NULL, e->offer = NULL, e->excess = NULL, e->borrowed = false;
    }
}

/* Goes on without waiting for other ranks. Once it is complete, the MPI's next look at the request finds it so. One
 * thread at a time. */
static bool step(void *of)
{
    struct deferred *d = of;
    struct neighbor_exchange *x = &d->x;
    if (d->phase == TRAVELS && travelled(d)) {
        take_all(x);
        d->phase = OFFERED;
    }
    if (d->phase == OFFERED && read(x)) {
        end_offers(x);
        forget_buffers(&x->e->in), forget_buffers(&x->e->out);
        PMPI_Send(NULL, 0, MPI_BYTE, 0, d->token, self);
        d->phase = COMPLETE;
    }
    return d->phase == COMPLETE || d->phase == IDLE;
}

static int end(void *of, const char **what)
{
    struct deferred *d = of;
    d->phase = IDLE;
    *what = d->x.what;
    return d->x.rc;
}

static bool start(struct record *r, void *of, struct starts *s)
{
    (void)r, (void)s;
    return post(of);
}

static void drop(void *of)
{
    release(of);
}

static const struct request_ops ops = {.free = drop, .start = start, .step = step, .end = end};

/*
 * Calls.
 */

bool neighbor_topology_take_later(struct args_set *o)
{
    o->edges = neighbor_topology_known(o->comm);
    return o->edges && neighbor_exchange_takes(o);
}

/* What can't be told of the arguments is the call's error. */
static int refused(struct deferred *d)
{
    int rc = d->x.rc;
    release(d);
    return rc;
}

int neighbor_topology_begin(struct args_set *o, MPI_Request *request)
{
    struct deferred *d = neighbor_nonblocking_new(o, false);
    if (!d) return MPI_ERR_NO_MEM;
    if (d->x.rc != MPI_SUCCESS) return refused(d);
    int rc = PMPI_Irecv(NULL, 0, MPI_BYTE, 0, d->token, self, request);
    if (rc != MPI_SUCCESS)
        log_fatal("MPI_Irecv failed in a neighbourhood collective, which the other ranks have begun");
    post(d);
    record_add_of(*request, &ops, d, MPI_COMM_NULL, false);
    return MPI_SUCCESS;
}

int neighbor_topology_init(struct args_set *o, MPI_Request *request)
{
    struct deferred *d = neighbor_nonblocking_new(o, true);
    if (!d) return MPI_ERR_NO_MEM;
    if (d->x.rc != MPI_SUCCESS) return refused(d);
    int rc = PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, d->token, self, request);
    if (rc != MPI_SUCCESS)
        log_fatal("MPI_Recv_init failed in a neighbourhood collective that the other ranks have made");
    d->persistent = true;
    keep_types(&d->x.e->in), keep_types(&d->x.e->out);
    record_add_of(*request, &ops, d, MPI_COMM_NULL, true);
    return MPI_SUCCESS;
}
