/* neighbor_exchange.c: the common part of neighborhood collectives that go edge by edge. */
#include "neighbor_exchange.h"
#include "base/mpi_workarounds.h"
#include "args_internal.h"
#include "base/error.h"
#include "datatype/byte_types.h"
#include "device/host_range.h"
#include "kernel/typed_copy.h"
#include "node/ipc_cache.h"
#include "protocol/placement.h"
#include "protocol/protocol.h"
#include "protocol/rndv_send.h"
#include "protocol/rts.h"
#include <stdlib.h>
#include <string.h>

/* Notes an error that has been raised; the first one is the call's. */
static void note(struct neighbor_exchange *x, int rc)
{
    if (x->rc == MPI_SUCCESS) x->rc = rc;
}

void neighbor_exchange_fail(struct neighbor_exchange *x, int rc, const char *what)
{
    if (x->rc == MPI_SUCCESS) x->rc = rc, x->what = what;
}

int neighbor_exchange_posted(struct neighbor_exchange *x, int rc, const char *what)
{
    if (rc == MPI_SUCCESS) return x->requests++;
    neighbor_exchange_fail(x, rc, what);
    return -1;
}

/* Returns where the request of the next message belongs. */
static MPI_Request *next_request(const struct neighbor_exchange *x)
{
    return &x->e->request[x->requests];
}

static bool side_valid(const struct arg *p, const struct edge_side *s)
{
    if (p->buf == MPI_IN_PLACE || (!p->counts && p->count < 0)) return false;
    if (s->n && !p->types && p->type == MPI_DATATYPE_NULL) return false;
    for (int i = 0; i < s->n; i++) {
        int at = s->edge[i].number;
        int64_t count = p->counts ? args_count(p, at) : p->count;
        if (s->edge[i].off) continue;
        if (count < 0) return false;
        if (p->types && p->types[at] == MPI_DATATYPE_NULL && !(NULL_EDGE_TYPES && count == 0)) return false;
    }
    return true;
}

bool neighbor_exchange_valid(const struct args_set *o)
{
    return side_valid(&o->of[0], &o->edges->out) && side_valid(&o->of[1], &o->edges->in);
}

/* Returns where the edge's buffer lies. All edges of a buffer lie in one allocation, unless addresses are absolute;
 * so on the host one query is enough. */
static struct location edge_locate(struct neighbor_exchange *x, const struct edge *e)
{
    int64_t first, past;
    if (x->host || (!x->bottom && host_range_has(e->buf))) return (struct location){0};
    layout_span(e->layout, e->count, &first, &past);
    uint64_t at = (uint64_t)(uintptr_t)e->buf + (uint64_t)first;
    bool all = !x->bottom && past > first && locate_run(&x->memory, at, past - first) == past - first;
    struct location w = all ? (struct location){.device = x->memory.device} : locate(e->layout, e->buf, e->count);
    x->host = !x->bottom && !w.device;
    return w;
}

/* Forgets what an earlier call left. */
static void edge_reset(struct edge *e)
{
    e->rndv = NULL, e->tbuf = NULL, e->borrowed = false, e->where = (struct location){0};
    e->excess = NULL;
}

/* Sets an edge from the call's argument. An argument of one piece is the same for all edges. */
static int edge_open(struct neighbor_exchange *x, struct edge *at, const struct arg *p, struct layout *l)
{
    int i = at->number;
    bool each = p->flags & ARG_NEIGHBORS;
    int64_t offset = 0;
    at->type = p->types ? p->types[i] : p->type;
    at->count = at->off ? 0 : p->counts ? args_count(p, i) : p->count;
    bool none = p->types && at->type == MPI_DATATYPE_NULL;   /* side_valid: no elements */
    at->layout = none ? NULL : l && !p->types ? l : layout_of(at->type);
    at->bytes = at->layout && at->layout->size && at->count ? layout_bytes(at->layout, at->count) : 0;
    edge_reset(at);
    if (none) return MPI_SUCCESS;
    if (!at->layout) return raise_error(x->comm, MPI_ERR_NO_MEM, "out of memory");
    int64_t step = p->displs ? args_displ(p, i) : each ? i * at->count : 0;
    if (at->bytes < 0 || __builtin_mul_overflow(step, p->types ? 1 : at->layout->extent, &offset))
        return raise_error(x->comm, MPI_ERR_COUNT, "a message passes 2^63 bytes");
    at->buf = (const char *)p->buf + offset;
    if (!at->bytes) return MPI_SUCCESS;
    at->where = edge_locate(x, at);
    return at->where.device ? typed_buffer_check(at->layout, at->where, at->type, x->comm) : MPI_SUCCESS;
}

static void open_side(struct neighbor_exchange *x, struct edge_side *s, const struct arg *p)
{
    x->host = false, x->bottom = p->buf == MPI_BOTTOM;
    for (int i = 0; i < s->n && x->rc == MPI_SUCCESS; i++)
        note(x, edge_open(x, &s->edge[i], p, i ? s->edge[0].layout : NULL));
}

void neighbor_exchange_open(struct neighbor_exchange *x, const struct args_set *o)
{
    x->each = o->of[0].flags & ARG_NEIGHBORS;
    open_side(x, &x->e->out, &o->of[0]);
    open_side(x, &x->e->in, &o->of[1]);
}

void neighbor_exchange_empty(struct neighbor_exchange *x)
{
    struct edge_side *side[] = {&x->e->out, &x->e->in};
    x->failed = true;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < side[k]->n; i++) {
            struct edge *e = &side[k]->edge[i];
            e->count = e->bytes = 0, e->layout = NULL;
            edge_reset(e);
        }
    }
}

static struct message edge_message(const struct neighbor_exchange *x, const struct edge *e)
{
    return (struct message){e->buf, e->count, e->type, e->rank, x->comm, REUSE_LATER, .located = true,
                            .layout = e->layout, .where = e->where, .bytes = e->bytes, .near = e->peer};
}

/* Returns a typed buffer for the edge's packed bytes; NULL after an error, which is noted. */
static struct typed_buffer *open_buffer(struct neighbor_exchange *x, const struct edge *e)
{
    struct typed_buffer *p = NULL;
    const struct message m = edge_message(x, e);
    note(x, placement_open(&p, &m));
    return p;
}

struct typed_buffer *edge_in_place(const struct edge *e)
{
    struct typed_buffer *p = typed_buffer_new(e->layout, e->where.device, e->buf, e->count);
    if (p && !e->layout->tree) p->datatype = type_like(e->type);
    return p;
}

bool edge_mpi_takes(const struct edge *e)
{
    if (!e->bytes || !e->where.device) return true;
    return typed_buffer_mpi_takes(e->layout, e->buf, e->count, e->where);
}

static void fill_header(struct neighbor_exchange *x, struct edge *e, struct edge_header *w)
{
    const struct message m = edge_message(x, e);
    bool goes = m.bytes && m.where.device && get_pays(&m);
    e->rndv = goes ? rndv_send_to(e->peer, e->layout, e->where.device, e->buf, e->count, &x->site) : NULL;
    *w = (struct edge_header){.bytes = e->bytes, .kind = !e->bytes ? EDGE_EMPTY : e->rndv ? EDGE_RNDV : EDGE_EAGER,
                              .plain = x->plain};
    if (e->rndv) w->slot = rndv_send_rts(e->rndv)->slot;
    if (x->failed) w->kind = EDGE_FAILED;
}

static struct edge_bundle *bundle_to(struct edge_side *s, int rank)
{
    for (int i = 0; i < s->bundles; i++)
        if (s->bundle[i].edge->rank == rank) return &s->bundle[i];
    return NULL;
}

void neighbor_exchange_announce(struct neighbor_exchange *x)
{
    struct neighbor_topology *e = x->e;
    for (int i = 0; i < e->out.bundles; i++) {
        struct edge_bundle *r = &e->out.bundle[i], *own = r->edge->peer->self ? bundle_to(&e->in, e->rank) : NULL;
        if (r->edge->off) {
            r->header->kind = EDGE_EMPTY;
            continue;
        }
        for (int k = 0; k < r->n; k++) fill_header(x, &r->edge[k], &r->header[k]);
        if (own) {
            memcpy(own->header, r->header, (size_t)(r->n < own->n ? r->n : own->n) * sizeof *r->header);
            continue;
        }
        if (r->edge->peer->self) continue;
        int rc = PMPI_Isend(r->header, r->n * (int)sizeof *r->header, MPI_BYTE, r->edge->rank, x->tag, e->comm,
                            next_request(x));
        neighbor_exchange_posted(x, rc, "the edges of a neighbourhood can't be sent");
    }
}

static int edge_tag(const struct neighbor_exchange *x, const struct edge *e)
{
    return x->tag + 1 + e->place % x->tags;
}

static int send_plain(struct neighbor_exchange *x, const struct edge *e)
{
#ifdef HAVE_Isend_c
    return PMPI_Isend_c(e->buf, e->count, e->type, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
#else
    return PMPI_Isend(e->buf, (int)e->count, e->type, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
#endif
}

static int send_packed(struct neighbor_exchange *x, const struct edge *e)
{
    struct wire w;
    int rc = mpi_bytes_of(e->bytes, &w);
    if (rc != MPI_SUCCESS) return rc;
    rc = PMPI_Isend(e->tbuf->address, w.count, w.type, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
    mpi_bytes_free(&w);
    return rc;
}

int edge_send(struct neighbor_exchange *x, const struct edge *e)
{
    if (e->tbuf) return send_packed(x, e);
    if (e->bytes && !e->rndv && edge_mpi_takes(e)) return send_plain(x, e);
    return PMPI_Isend(NULL, 0, MPI_BYTE, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
}

int edge_receive_plain(struct neighbor_exchange *x, const struct edge *e)
{
    void *to = (void *)(uintptr_t)e->buf;
    if (!e->bytes) return PMPI_Irecv(NULL, 0, MPI_BYTE, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
    MPI_Datatype type = type_to_receive(e->type, x->e->comm);
#ifdef HAVE_Irecv_c
    return PMPI_Irecv_c(to, e->count, type, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
#else
    return PMPI_Irecv(to, (int)e->count, type, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
#endif
}

static int receive_bytes(struct neighbor_exchange *x, const struct edge *e, void *to, int64_t bytes)
{
    struct wire w;
    int rc = mpi_bytes_of(bytes, &w);
    if (rc != MPI_SUCCESS) return rc;
    rc = PMPI_Irecv(to, w.count, w.type, e->rank, edge_tag(x, e), x->e->comm, next_request(x));
    mpi_bytes_free(&w);
    return rc;
}

int edge_receive_discard(struct neighbor_exchange *x, struct edge *e, int64_t bytes)
{
    e->excess = malloc((size_t)bytes);
    return receive_bytes(x, e, e->excess, e->excess ? bytes : 0);   /* truncates if no memory */
}

int edge_receive_packed(struct neighbor_exchange *x, struct edge *e)
{
    e->tbuf = open_buffer(x, e);
    return e->tbuf ? receive_bytes(x, e, e->tbuf->address, e->bytes) : edge_receive_discard(x, e, e->bytes);
}

static void close_side(struct edge_side *s)
{
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        if (!e->borrowed) typed_buffer_close(e->tbuf);
        free(e->excess);
        e->tbuf = NULL, e->excess = NULL, e->borrowed = false;
    }
}

void neighbor_exchange_close(struct neighbor_exchange *x)
{
    close_side(&x->e->in), close_side(&x->e->out);
}

void neighbor_exchange_pack(struct neighbor_exchange *x)
{
    struct typed_buffer *first = NULL;
    for (int i = 0; i < x->e->out.n; i++) {
        struct edge *e = &x->e->out.edge[i];
        if (e->rndv || edge_mpi_takes(e)) continue;
        if (!x->each && first) {
            e->tbuf = first, e->borrowed = true;
            continue;
        }
        e->tbuf = open_buffer(x, e);
        if (e->tbuf) batch_pack(&x->batch, e->tbuf);
        first = e->tbuf;
    }
    if (!batch_wait(&x->batch)) return;
    neighbor_exchange_fail(x, MPI_ERR_OTHER, "packing on the GPU failed");
    close_side(&x->e->out);   /* edge_send then sends empty messages */
}

void neighbor_exchange_post(struct neighbor_exchange *x)
{
    struct neighbor_topology *e = x->e;
    struct device *d = NULL;
    bool *asked = e->of ? &e->of->asked : &e->asked;
    memset(e->in.header, 0, (size_t)e->in.n * sizeof *e->in.header);
    for (int i = 0; i < e->in.n && !d; i++) d = e->in.edge[i].bytes ? e->in.edge[i].where.device : NULL;
    for (int i = 0; i < e->in.bundles; i++) {
        struct edge_bundle *r = &e->in.bundle[i];
        if (r->edge->peer->self || r->edge->off) continue;
        ipc_cache_probe(r->edge->peer, d);
        if (d && !*asked) typed_copy_prepare(d, NULL, 0), *asked = true;
        int rc = PMPI_Irecv(r->header, r->n * (int)sizeof *r->header, MPI_BYTE, r->edge->rank, x->tag, e->comm,
                            next_request(x));
        neighbor_exchange_posted(x, rc, "the edges of a neighbourhood can't be received");
    }
}

bool neighbor_exchange_arrived(struct neighbor_exchange *x, const struct edge *e, const struct edge_header *w)
{
    if (e->request >= 0 && mpi_bytes_received(&x->e->status[e->request]) == w->bytes) return true;
    neighbor_exchange_fail(x, MPI_ERR_OTHER, "an edge of a neighbourhood can't be sent");
    return false;
}

/* Returns a typed buffer for a rendezvous receive, without bounce buffers if possible; NULL after an error. */
static struct typed_buffer *target(struct neighbor_exchange *x, struct edge *e)
{
    bool bounces = e->where.device && (e->where.parts || !e->layout->tree);
    return bounces ? open_buffer(x, e) : edge_in_place(e);
}

void neighbor_exchange_rndv(struct neighbor_exchange *x, struct edge *e, const struct edge_header *w)
{
    struct rts d = {.rank = (uint32_t)e->peer->rank, .slot = w->slot, .bytes = w->bytes};
    struct typed_buffer none = {0};
    MPI_Status status;
    if (e->bytes && !e->tbuf) e->tbuf = target(x, e);
    int rc = rndv_recv_add_told(&x->recvs, &d, NULL, e->tbuf ? e->tbuf : &none, &status);
    if (rc != MPI_SUCCESS)
        neighbor_exchange_fail(x, rc, rc == MPI_ERR_TRUNCATE ? "an edge brings more than it takes" : "out of memory");
}

