/* calls_neighbor.c: the blocking neighbourhood collectives on communicators that have edges (edges.h). To each
 * peer goes one message that says of every edge whether its payload is offered, follows as a message of its own,
 * or is empty; what was offered is then pulled together. */
#include "edges.h"
#include "host.h"
#include "import.h"
#include "link.h"
#include "message.h"
#include "next.h"
#include "offer.h"
#include "operand_inner.h"
#include <stdlib.h>
#include <string.h>

#define TAG_WORDS 0
#define TAGS 32000   /* those of messages follow; what has the same keeps its order */

struct exchange {
    struct edges *e;
    MPI_Comm comm;           /* where errors are raised */
    struct memory memory;    /* the last one met */
    bool host, bottom;       /* of the side that is looked at: all of it on the host; by absolute addresses */
    struct offer_site site;
    struct batch batch;
    struct pulls pulls;
    int requests, rc;
    const char *what;        /* rc is still to be raised */
};

/* The first error is the call's. */
static void note(struct exchange *x, int rc)
{
    if (x->rc == MPI_SUCCESS) x->rc = rc;
}

/* One that nobody has raised yet: at the end, when nothing is under way. */
static void fail(struct exchange *x, int rc, const char *what)
{
    if (x->rc == MPI_SUCCESS) x->rc = rc, x->what = what;
}

/*
 * Arguments.
 */

static bool side_taken(const struct operand *p, const struct edge_side *s)
{
    if (p->buf == MPI_IN_PLACE || (!p->counts && p->count < 0)) return false;
    if (s->n && !p->types && p->type == MPI_DATATYPE_NULL) return false;
    for (int i = 0; i < s->n; i++) {
        int at = s->edge[i].number;
        if (p->counts && operand_count(p, at) < 0) return false;
        if (p->types && p->types[at] == MPI_DATATYPE_NULL) return false;
    }
    return true;
}

bool edges_take(struct operands *o)
{
    o->edges = edges_of(o->comm);
    return o->edges && side_taken(&o->of[0], &o->edges->out) && side_taken(&o->of[1], &o->edges->in);
}

/* All edges of a buffer lie in one allocation, but for absolute addresses: on the host one question tells. */
static struct where where_near(struct exchange *x, const struct edge *e)
{
    int64_t first, past;
    if (x->host || (!x->bottom && host_surely(e->buf))) return (struct where){NULL, false};
    layout_span(e->layout, e->count, &first, &past);
    uint64_t at = (uint64_t)(uintptr_t)e->buf + (uint64_t)first;
    bool all = !x->bottom && past > first && memory_run(&x->memory, at, past - first) == past - first;
    struct where w = all ? (struct where){x->memory.device, false} : where_of(e->layout, e->buf, e->count);
    x->host = !x->bottom && !w.device;
    return w;
}

/* What the call says of one edge. An operand of one piece is the same for all. */
static int edge_open(struct exchange *x, struct edge *at, const struct operand *p, struct layout *l)
{
    int i = at->number;
    bool each = p->flags & OPERAND_NEIGHBORS;
    int64_t offset = 0;
    at->type = p->types ? p->types[i] : p->type;
    at->count = p->counts ? operand_count(p, i) : p->count;
    at->layout = l && !p->types ? l : layout_of(at->type);
    at->bytes = at->layout && at->layout->size && at->count ? layout_bytes(at->layout, at->count) : 0;
    at->offer = NULL, at->parcel = NULL, at->borrowed = false, at->where = (struct where){NULL, false};
    at->excess = NULL;
    if (!at->layout) return raise_error(x->comm, MPI_ERR_NO_MEM, "out of memory");
    int64_t step = p->displs ? operand_displ(p, i) : each ? i * at->count : 0;
    if (at->bytes < 0 || __builtin_mul_overflow(step, p->types ? 1 : at->layout->extent, &offset))
        return raise_error(x->comm, MPI_ERR_COUNT, "a message passes 2^63 bytes");
    at->buf = (const char *)p->buf + offset;
    if (!at->bytes) return MPI_SUCCESS;
    at->where = where_near(x, at);
    return at->where.device ? parcel_check(at->layout, at->where, at->type, x->comm) : MPI_SUCCESS;
}

static void side_open(struct exchange *x, struct edge_side *s, const struct operand *p)
{
    x->host = false, x->bottom = p->buf == MPI_BOTTOM;
    for (int i = 0; i < s->n && x->rc == MPI_SUCCESS; i++)
        note(x, edge_open(x, &s->edge[i], p, i ? s->edge[0].layout : NULL));
}

/*
 * Sending.
 */

/* The MPI takes the buffer itself. */
static bool goes_plain(const struct edge *e)
{
    const struct layout *l = e->layout;
    if (!e->bytes || !e->where.device) return true;
    return mpi_cuda_aware() && (!l->tree || (!e->where.parts && layout_contiguous(l, e->count)));
}

static void say(struct exchange *x, struct edge_road *r, struct edge *e, struct edge_word *w)
{
    bool can = e->bytes && e->where.device && !e->where.parts && e->layout->tree && offer_allowed() &&
               transport_offers(e->layout, e->count, e->bytes);
    e->offer = can ? offer_to(r->peer, e->layout, e->where.device, e->buf, e->count, &x->site) : NULL;
    *w = (struct edge_word){.bytes = e->bytes, .kind = !e->bytes ? EDGE_EMPTY : e->offer ? EDGE_OFFER : EDGE_MESSAGE};
    if (e->offer) w->slot = offer_descriptor(e->offer)->slot;
}

static struct edge_road *road_to(struct edge_side *s, int rank)
{
    for (int i = 0; i < s->roads; i++)
        if (s->road[i].rank == rank) return &s->road[i];
    return NULL;
}

/* What goes to the own rank needs no message. */
static void say_all(struct exchange *x)
{
    struct edges *e = x->e;
    for (int i = 0; i < e->out.roads; i++) {
        struct edge_road *r = &e->out.road[i], *here = r->peer->self ? road_to(&e->in, e->rank) : NULL;
        for (int k = 0; k < r->n; k++) say(x, r, &r->edge[k], &r->word[k]);
        if (here) {
            memcpy(here->word, r->word, (size_t)(r->n < here->n ? r->n : here->n) * sizeof *r->word);
            continue;
        }
        if (r->peer->self) continue;
        int rc = PMPI_Isend(r->word, r->n * (int)sizeof *r->word, MPI_BYTE, r->rank, TAG_WORDS, e->comm,
                            &e->request[x->requests++]);
        if (rc != MPI_SUCCESS) fail(x, rc, "the edges of a neighbourhood can't be sent");
    }
}

static int send_plain(const struct edge *e, int tag, MPI_Comm comm, MPI_Request *request)
{
#ifdef HAVE_Isend_c
    return PMPI_Isend_c(e->buf, e->count, e->type, e->rank, tag, comm, request);
#else
    return PMPI_Isend(e->buf, (int)e->count, e->type, e->rank, tag, comm, request);
#endif
}

static int receive_plain(const struct edge *e, int tag, MPI_Comm comm, MPI_Request *request)
{
#ifdef HAVE_Irecv_c
    return PMPI_Irecv_c((void *)(uintptr_t)e->buf, e->count, e->type, e->rank, tag, comm, request);
#else
    return PMPI_Irecv((void *)(uintptr_t)e->buf, (int)e->count, e->type, e->rank, tag, comm, request);
#endif
}

static int send_packed(struct edge *e, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct wire w;
    int rc = wire_of(e->bytes, &w);
    if (rc != MPI_SUCCESS) return rc;
    rc = PMPI_Isend(e->parcel->address, w.count, w.type, e->rank, tag, comm, request);
    wire_done(&w);
    return rc;
}

static int receive_bytes(const struct edge *e, void *to, int64_t bytes, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct wire w;
    int rc = wire_of(bytes, &w);
    if (rc != MPI_SUCCESS) return rc;
    rc = PMPI_Irecv(to, w.count, w.type, e->rank, tag, comm, request);
    wire_done(&w);
    return rc;
}

/* Packs together what no peer reads. */
static void pack_rest(struct exchange *x, bool each)
{
    struct parcel *first = NULL;
    for (int i = 0; i < x->e->out.n; i++) {
        struct edge *e = &x->e->out.edge[i];
        if (e->offer || goes_plain(e)) continue;
        if (!each && first) {
            e->parcel = first, e->borrowed = true;
            continue;
        }
        note(x, parcel_open_on(&e->parcel, e->layout, e->where, e->buf, e->count, e->type, e->rank, x->comm));
        if (e->parcel) batch_pack(&x->batch, e->parcel);
        first = e->parcel;
    }
    if (batch_wait(&x->batch)) fail(x, MPI_ERR_OTHER, "packing on the GPU failed");
}

static void send_rest(struct exchange *x)
{
    struct edges *e = x->e;
    for (int i = 0; i < e->out.roads; i++) {
        struct edge_road *r = &e->out.road[i];
        for (int k = 0; k < r->n; k++) {
            struct edge *at = &r->edge[k];
            if (r->word[k].kind != EDGE_MESSAGE || (!at->parcel && !goes_plain(at))) continue;
            MPI_Request *request = &e->request[x->requests];
            int tag = 1 + k % TAGS;
            int rc = at->parcel ? send_packed(at, tag, e->comm, request) : send_plain(at, tag, e->comm, request);
            if (rc == MPI_SUCCESS) x->requests++;
            else fail(x, rc, "an edge of a neighbourhood can't be sent");
        }
    }
}

/*
 * Receiving.
 */

static void await_words(struct exchange *x)
{
    struct edges *e = x->e;
    struct device *d = NULL;
    memset(e->in.word, 0, (size_t)e->in.n * sizeof *e->in.word);
    for (int i = 0; i < e->in.n && !d; i++) d = e->in.edge[i].bytes ? e->in.edge[i].where.device : NULL;
    for (int i = 0; i < e->in.roads; i++) {
        struct edge_road *r = &e->in.road[i];
        if (r->peer->self) continue;
        import_try(r->peer, d);
        if (d && !e->asked) link_prepare(d, NULL, 0), e->asked = true;
        int rc = PMPI_Irecv(r->word, r->n * (int)sizeof *r->word, MPI_BYTE, r->rank, TAG_WORDS, e->comm,
                            &e->request[x->requests]);
        if (rc == MPI_SUCCESS) x->requests++;
        else fail(x, rc, "the edges of a neighbourhood can't be received");
    }
}

/* The error of a request is the call's. */
static void wait_all(struct exchange *x, int first, int past)
{
    struct edges *e = x->e;
    int rc = PMPI_Waitall(past - first, e->request + first, e->status + first);
    for (int i = first; rc == MPI_ERR_IN_STATUS && i < past; i++)
        if (e->status[i].MPI_ERROR != MPI_SUCCESS && e->status[i].MPI_ERROR != MPI_ERR_PENDING)
            fail(x, e->status[i].MPI_ERROR, "an edge of a neighbourhood failed");
    if (rc != MPI_SUCCESS) fail(x, rc, "an edge of a neighbourhood failed");
}

/* For what is read in place, the least that does. */
static struct parcel *target(struct exchange *x, struct edge *e)
{
    struct parcel *p = NULL;
    if (e->where.device && (e->where.parts || !e->layout->tree)) {
        note(x, parcel_open_on(&p, e->layout, e->where, e->buf, e->count, e->type, e->rank, x->comm));
        return p;
    }
    p = parcel_bare(e->layout, e->where.device, e->buf, e->count);
    if (p && !e->layout->tree) PMPI_Type_dup(e->type, &p->datatype);
    return p;
}

static void pull(struct exchange *x, struct edge_road *r, struct edge *e, const struct edge_word *w)
{
    struct descriptor d = {.rank = (uint32_t)r->peer->rank, .slot = w->slot, .bytes = w->bytes};
    struct parcel none = {0};
    MPI_Status status;
    if (e->bytes) e->parcel = target(x, e);
    int rc = pull_add(&x->pulls, &d, e->parcel ? e->parcel : &none, &status);
    if (rc != MPI_SUCCESS) fail(x, rc, rc == MPI_ERR_TRUNCATE ? "an edge brings more than it takes" : "out of memory");
}

/* More than the edge takes: received all the same, or a later call would meet it. */
static int receive_excess(struct edge *e, int64_t bytes, int tag, MPI_Comm comm, MPI_Request *request)
{
    e->excess = malloc((size_t)bytes);
    return e->excess ? receive_bytes(e, e->excess, bytes, tag, comm, request) : MPI_ERR_NO_MEM;
}

static void receive(struct exchange *x, struct edge *e, int k, int64_t bytes)
{
    MPI_Request *request = &x->e->request[x->requests];
    int rc, tag = 1 + k % TAGS;
    bool excess = bytes > e->bytes;
    if (excess) fail(x, MPI_ERR_TRUNCATE, "an edge brings more than it takes");
    if (!excess && !goes_plain(e)) {
        rc = parcel_open_on(&e->parcel, e->layout, e->where, e->buf, e->count, e->type, e->rank, x->comm);
        if (rc != MPI_SUCCESS) note(x, rc);
        if (!e->parcel) return;
    }
    MPI_Comm comm = x->e->comm;
    rc = excess ? receive_excess(e, bytes, tag, comm, request)
         : e->parcel ? receive_bytes(e, e->parcel->address, e->bytes, tag, comm, request) : receive_plain(e, tag, comm, request);
    if (rc == MPI_SUCCESS) x->requests++;
    else fail(x, rc, "an edge of a neighbourhood can't be received");
}

/* As the senders' words say. */
static void receive_all(struct exchange *x)
{
    for (int i = 0; i < x->e->in.roads; i++) {
        struct edge_road *r = &x->e->in.road[i];
        for (int k = 0; k < r->n; k++) {
            if (r->word[k].kind == EDGE_OFFER) pull(x, r, &r->edge[k], &r->word[k]);
            else if (r->word[k].kind == EDGE_MESSAGE) receive(x, &r->edge[k], k, r->word[k].bytes);
        }
    }
}

/* What came as packed messages; in an exchange with an error nobody knows what that is. */
static void unpack_all(struct exchange *x)
{
    for (int i = 0; i < x->e->in.roads && x->rc == MPI_SUCCESS; i++) {
        struct edge_road *r = &x->e->in.road[i];
        for (int k = 0; k < r->n; k++) {
            struct parcel *p = r->word[k].kind == EDGE_MESSAGE ? r->edge[k].parcel : NULL;
            if (p) batch_unpack(&x->batch, p, r->word[k].bytes);
        }
    }
    if (batch_wait(&x->batch)) fail(x, MPI_ERR_OTHER, "unpacking on the GPU failed");
}

static void close_all(struct exchange *x)
{
    for (int i = 0; i < x->e->out.n; i++) {
        struct edge *e = &x->e->out.edge[i];
        if (e->offer && offer_await(e->offer, x->e->comm)) fail(x, MPI_ERR_OTHER, "a peer ended before it received");
        if (!e->borrowed) parcel_close(e->parcel);
    }
    for (int i = 0; i < x->e->in.n; i++) {
        parcel_close(x->e->in.edge[i].parcel);
        free(x->e->in.edge[i].excess);
    }
}

/* Every rank says what it sends before it waits for anything: what all say arrives. The payloads that are offered
 * come first, and while they move the messages travel. */
int edges_run(struct operands *o)
{
    struct exchange x = {.e = o->edges, .comm = o->comm};
    side_open(&x, &x.e->out, &o->of[0]);
    side_open(&x, &x.e->in, &o->of[1]);
    if (x.rc != MPI_SUCCESS) return x.rc;
    await_words(&x);
    int words = x.requests;
    say_all(&x);
    pack_rest(&x, o->of[0].flags & OPERAND_NEIGHBORS);
    send_rest(&x);
    wait_all(&x, 0, words);
    receive_all(&x);
    if (pulls_run(&x.pulls)) fail(&x, MPI_ERR_OTHER, "an edge of a neighbourhood can't be read");
    wait_all(&x, words, x.requests);
    unpack_all(&x);
    close_all(&x);
    record_poll();
    return x.what ? raise_error(x.comm, x.rc, x.what) : x.rc;
}
