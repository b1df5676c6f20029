/* args_stage.c: bounces an argument: its pieces, its bounce buffers, and the host copy of a staged one. */
#include "args_internal.h"
#include "base/mpi_workarounds.h"
#include "base/self_comm.h"
#include "partitioned.h"
#include "protocol/persistent_send.h"
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>

static struct bounced *bounced_new(const struct args_set *o, const struct arg *p, const struct group *g)
{
    int most = args_pieces(o, p, g);
    struct bounced *c = calloc(1, sizeof *c + (size_t)most * sizeof *c->piece);
    struct arg_piece from;
    int64_t bytes = 0;
    for (int i = 0; c && i < most; i++) {
        if (!args_piece(o, p, g, i, &from)) continue;
        struct location w = p->host_packed ? (struct location){0} : locate(from.layout, from.buf, from.count);
        struct piece *piece = &c->piece[c->n++];
        piece->tbuf = typed_buffer_on(from.layout, w.device, from.buf, from.count);
        piece->tbuf.parts = w.parts;
        piece->source = from.type, piece->type = MPI_DATATYPE_NULL;
        layout_ref(from.layout);
        piece->wire.bytes = (size_t)from.bytes;
        bytes += from.bytes;
        if (!c->whole.device && w.device) {
            c->whole = typed_buffer_on(from.layout, w.device, from.buf, from.count);
            layout_ref(from.layout);
        }
        if (!from.layout->tree || o->how == ARGS_STAGED) piece->type = type_like(from.type);
        piece->tbuf.datatype = piece->type;
    }
    if (c) c->whole.bytes = bytes;
    return c;
}

/* Gets the bounce buffers: host memory for a staged argument, any memory for a packed one. */
static bool acquire(struct bounced *c, bool host_only)
{
    bool odd = false;
    struct typed_buffer *w = &c->whole;
    for (int i = 0; i < c->n; i++) {
        const struct typed_buffer *p = &c->piece[i].tbuf;
        odd |= !p->layout->tree || p->parts || p->device != w->device;   /* host memory, or another device's */
    }
    w->transport = odd ? &transport_oneshot : transport_choose(w->layout, w->count, w->bytes, host_only);
    if (host_only && w->transport == &transport_device) w->transport = &transport_oneshot;   /* forced */
    if (device_enter(w->device)) return false;
    bool ok = w->transport->acquire(w);
    if (!ok && w->transport != &transport_oneshot) {
        mempool_put(w->wire), mempool_put(w->stage);
        w->wire = w->stage = NULL;
        w->transport = &transport_oneshot;
        ok = w->transport->acquire(w);
    }
    device_leave(w->device);
    return ok;
}

/* Returns the argument's transport, or another one if that can't move the piece. */
static const struct transport *piece_transport(const struct bounced *c, const struct typed_buffer *p)
{
    if (!p->layout->tree) return &transport_by_mpi;
    return p->parts || !p->device ? &transport_parts : c->whole.transport;
}

/* Gets host memory for the packed bytes; no transport is used. */
static bool place_host_packed(struct bounced *c)
{
    int64_t at = 0;
    c->packed = bounce_get(c->whole.bytes ? c->whole.bytes : 1);
    if (!c->packed) return false;
    c->whole.address = c->packed->memory;
    for (int i = 0; i < c->n; at += c->piece[i++].tbuf.bytes)
        c->piece[i].tbuf.address = (char *)c->whole.address + at;
    return true;
}

static void place_pieces(struct bounced *c)
{
    int64_t at = 0;
    for (int i = 0; i < c->n; i++) {
        struct piece *piece = &c->piece[i];
        struct typed_buffer *p = &piece->tbuf;
        size_t bytes = piece->wire.bytes;
        piece->wire = buffer_part(c->whole.wire, at, bytes);
        p->wire = &piece->wire;
        if (c->whole.stage) piece->stage = buffer_part(c->whole.stage, at, bytes), p->stage = &piece->stage;
        p->address = (char *)c->whole.address + at;
        p->transport = piece_transport(c, p);
        if (!p->device) p->device = c->whole.device;
        at += (int64_t)bytes;
    }
}

/* Allocates host memory from the first byte of any piece to the last, aligned like the buffer. The packed bytes of
 * one contiguous piece serve as they are. */
#define ALIGNED 64
#define MMAP_LEAST ((size_t)64 << 20)   /* pieces may lie far apart: mmap, where untouched pages cost nothing */
static bool host_copy_alloc(struct bounced *c, size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *wide = bytes < MMAP_LEAST ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (wide != MAP_FAILED) c->block = wide, c->mapped = bytes;
    else c->block = malloc(bytes);
    return c->block != NULL;
}

/* Passes the packed bytes as elements of the one basic type. Returns false if that is not possible. */
static bool flatten(struct arg *p, const struct bounced *c)
{
    const struct layout *l = p->flags & ARG_FLAT && c->n == 1 ? c->piece[0].tbuf.layout : NULL;
    if (!l || l->basic == MPI_DATATYPE_NULL || c->whole.bytes / l->grain > INT_MAX) return false;
    p->use = c->whole.address, p->use_type = l->basic, p->use_count = c->whole.bytes / l->grain;
    return true;
}

static bool host_copy_make(struct arg *p, struct bounced *c)
{
    int64_t low = INT64_MAX, high = INT64_MIN, first, past;
    for (int i = 0; i < c->n; i++) {
        const struct typed_buffer *q = &c->piece[i].tbuf;
        layout_span(q->layout, q->count, &first, &past);
        first += q->user - (char *)p->buf, past += q->user - (char *)p->buf;
        low = first < low ? first : low;
        high = past > high ? past : high;
    }
    if (c->n == 1 && layout_contiguous(c->piece[0].tbuf.layout, c->piece[0].tbuf.count)) {
        p->use = (void *)((uintptr_t)c->whole.address - (uintptr_t)low);
        return true;
    }
    size_t bytes = (size_t)(high - low) + ALIGNED;
    if (bytes >= MMAP_LEAST && flatten(p, c)) return true;
    if (!host_copy_alloc(c, bytes)) return false;
    uintptr_t host_copy = (uintptr_t)c->block - (uintptr_t)low;
    c->host_copy = host_copy + ((uintptr_t)p->buf - host_copy) % ALIGNED;
    p->use = (void *)c->host_copy;
    return true;
}

void piece_drop_stage(struct piece *piece)
{
    if (piece->tbuf.stage != &piece->stage) mempool_put(piece->tbuf.stage);
    piece->tbuf.stage = NULL;
}

static void bounced_free(struct bounced *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++) {
        typed_buffer_end_batch(&c->piece[i].tbuf);
        piece_drop_stage(&c->piece[i]);
        if (c->piece[i].type != MPI_DATATYPE_NULL) PMPI_Type_free(&c->piece[i].type);
        layout_unref(c->piece[i].tbuf.layout);
    }
    mempool_put(c->whole.wire), mempool_put(c->whole.stage);
    if (c->whole.layout) layout_unref(c->whole.layout);
    bounce_put(c->packed);
    if (c->mapped) munmap(c->block, c->mapped);
    else free(c->block);
    free(c->counts), free(c->displs), free(c->types);
    free(c);
}

/* Returns true if a peer of the node sends: mostly RTS headers arrive, which the host must be able to read. */
static bool expects_rts(const struct args_set *o)
{
    return o->receives && o->source >= 0 && node_zerocopy() && node_peer(o->comm, o->source);
}

/* Bounces the argument. Returns MPI_SUCCESS, an error that has been raised, OUT_OF_MEMORY, or NOT_PACKED: this way
 * is not possible. */
#define NOT_PACKED (-1)
#define OUT_OF_MEMORY (-2)
static int carry(const struct args_set *o, struct arg *p, const struct group *g)
{
    struct bounced *c = bounced_new(o, p, g);
    bool staged = o->how == ARGS_STAGED;
    int rc = c ? MPI_SUCCESS : OUT_OF_MEMORY;
    for (int i = 0; c && i < c->n && rc == MPI_SUCCESS; i++) {
        const struct typed_buffer *q = &c->piece[i].tbuf;
        bool other = o->comm == MPI_COMM_NULL && q->parts && !q->layout->tree;   /* a file's, or a window's */
        rc = other ? args_raise(o, MPI_ERR_BUFFER, TYPED_BUFFER_UNABLE)
                   : typed_buffer_check(q->layout, (struct location){.device = q->device, .parts = q->parts},
                                        c->piece[i].source, args_comm(o));
    }
    bool host_only = staged || !args_device_aware(o) || expects_rts(o) || group_alone(o, g);
    if (rc == MPI_SUCCESS && !(p->host_packed ? place_host_packed(c) : acquire(c, host_only))) rc = OUT_OF_MEMORY;
    if (rc == MPI_SUCCESS) {
        if (!p->host_packed) place_pieces(c);
        if (o->sends && !p->host_packed)
            typed_copy_prepare(c->whole.device, NULL, 0);   /* MPI_Startall packs many in one launch */
        c->staged = staged;
        p->bounced = c;
        rc = (staged ? host_copy_make(p, c) : args_arguments(o, p, g, c)) ? MPI_SUCCESS : NOT_PACKED;
    }
    if (rc == MPI_SUCCESS) return rc;
    p->bounced = NULL;
    bounced_free(c);
    return rc;
}

bool args_committed(struct layout *l, MPI_Datatype type)
{
    MPI_Comm quiet;
    if (atomic_load_explicit(&l->committed, memory_order_relaxed)) return true;
    if (PMPI_Comm_split(self_comm_get(), 0, 0, &quiet) != MPI_SUCCESS) return true;
    PMPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
    bool is = layout_committed(l, type, quiet) == MPI_SUCCESS;
    PMPI_Comm_free(&quiet);
    return is;
}

/* Returns true for an uncommitted type of a file or window: the MPI reports it to that handle's error handler. */
static bool uncommitted(const struct args_set *o, const struct arg *p, const struct group *g)
{
    struct arg_piece piece;
    return o->comm == MPI_COMM_NULL && args_piece(o, p, g, 0, &piece) && !args_committed(piece.layout, piece.type);
}

/* Returns true if the type's extent decides how data travel.
 * Workaround (MPICH): MPI_Allgatherv forwards data from rank to rank, and each rank cuts them by its type's extent. */
static bool extent_decides(const struct args_set *o, const struct arg *p)
{
    const struct arg *from = &o->of[0];
    bool lists = p != from && p->counts && !p->types && p->flags & ARG_RANKS && !(p->flags & ARG_AT_ROOT);
    const struct layout *l = ALLGATHERV_CUTS_BY_EXTENT && lists && !from->counts ? layout_of(p->type) : NULL;
    return l && l->extent != l->size;
}

int args_bounce(const struct args_set *o, struct arg *p, const struct group *g)
{
    struct args_set staged = *o;
    if (uncommitted(o, p, g)) return MPI_SUCCESS;
    int rc = extent_decides(o, p) ? NOT_PACKED : carry(o, p, g);
    if (rc != NOT_PACKED && rc != OUT_OF_MEMORY) return rc;
    staged.how = ARGS_STAGED;
    args_as_is(p);
    if (p->host_packed) return p->host_packed = false, MPI_SUCCESS;   /* the MPI takes it as it is */
    /* An RTS header is looked for where the packed bytes arrive. */
    bool stages = o->how == ARGS_PACKED && !(rc == OUT_OF_MEMORY && o->receives);
    if (stages) args_byte_types(o, p, g), rc = carry(&staged, p, g);
    return rc != NOT_PACKED && rc != OUT_OF_MEMORY ? rc
                                      : args_raise(o, MPI_ERR_NO_MEM, "no memory for a call's buffers");
}

void args_free(struct args_set *o)
{
    args_read_done(o);
    partitioned_free(o->partitioned);
    typed_buffer_close(o->recv_buffer);
    persistent_send_close(o->persist_send);
    o->partitioned = NULL, o->recv_buffer = NULL, o->persist_send = NULL;
    for (int i = 0; i < o->n; i++) {
        bounced_free(o->of[i].bounced);
        free(o->of[i].byte_types);
        o->of[i].bounced = NULL, o->of[i].byte_types = NULL;
    }
}
