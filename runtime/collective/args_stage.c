/* args_stage.c: carrying an operand: its wire, its pieces, and the host memory of staged ones. */
#include "args_internal.h"
#include "base/error.h"
#include "base/reserve.h"
#include "base/self_comm.h"
#include "partitioned.h"
#include "protocol/persistent_send.h"
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>

static struct carried *carried_new(const struct args_set *o, const struct arg *p, const struct group *g)
{
    int most = args_pieces(o, p, g);
    struct carried *c = calloc(1, sizeof *c + (size_t)most * sizeof *c->piece);
    struct piece_of from;
    int64_t bytes = 0;
    for (int i = 0; c && i < most; i++) {
        if (!args_piece(o, p, g, i, &from)) continue;
        struct location w = p->hosted ? (struct location){0} : locate(from.layout, from.buf, from.count);
        struct piece *piece = &c->piece[c->n++];
        piece->parcel = typed_buffer_on(from.layout, w.device, from.buf, from.count);
        piece->parcel.parts = w.parts;
        piece->source = from.type, piece->type = MPI_DATATYPE_NULL;
        layout_ref(from.layout);
        piece->wire.bytes = (size_t)from.bytes;
        bytes += from.bytes;
        if (!c->whole.device && w.device) {
            c->whole = typed_buffer_on(from.layout, w.device, from.buf, from.count);
            layout_ref(from.layout);
        }
        if (!from.layout->tree || o->how == ARGS_STAGED) piece->type = type_like(from.type);
        piece->parcel.datatype = piece->type;
    }
    if (c) c->whole.bytes = bytes;
    return c;
}

/* The MPI must see host memory in a staged operand, and may see either in a packed one. */
static bool acquire(struct carried *c, bool host_only)
{
    bool odd = false;
    for (int i = 0; i < c->n; i++)
        odd |= !c->piece[i].parcel.layout->tree || c->piece[i].parcel.parts || !c->piece[i].parcel.device;
    struct typed_buffer *w = &c->whole;
    w->transport = odd ? &transport_oneshot : transport_choose(w->layout, w->count, w->bytes, host_only);
    if (host_only && w->transport == &transport_device) w->transport = &transport_oneshot;   /* it was forced */
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

/* What moves a piece: the operand's transport, but for what that can't move. */
static const struct transport *mover(const struct carried *c, const struct typed_buffer *p)
{
    if (!p->layout->tree) return &transport_shadow;
    return p->parts || !p->device ? &transport_parts : c->whole.transport;
}

/* The bytes of one that is hosted: no transport has a part in it. */
static bool place_hosted(struct carried *c)
{
    int64_t at = 0;
    c->packed = bounce_get(c->whole.bytes ? c->whole.bytes : 1);
    if (!c->packed) return false;
    c->whole.address = c->packed->memory;
    for (int i = 0; i < c->n; at += c->piece[i++].parcel.bytes)
        c->piece[i].parcel.address = (char *)c->whole.address + at;
    return true;
}

static void place_pieces(struct carried *c)
{
    int64_t at = 0;
    for (int i = 0; i < c->n; i++) {
        struct piece *piece = &c->piece[i];
        struct typed_buffer *p = &piece->parcel;
        size_t bytes = piece->wire.bytes;
        piece->wire = buffer_part(c->whole.wire, at, bytes);
        p->wire = &piece->wire;
        if (c->whole.stage) piece->stage = buffer_part(c->whole.stage, at, bytes), p->stage = &piece->stage;
        p->address = (char *)c->whole.address + at;
        p->transport = mover(c, p);
        if (!p->device) p->device = c->whole.device;
        at += (int64_t)bytes;
    }
}

/* Host memory for all bytes from the first that a piece touches to the last, aligned as the operand is. Where the
 * operand is one contiguous piece, its packed bytes are just that. */
#define ALIGNED 64
#define WIDE ((size_t)64 << 20)   /* may be most of the address space, between memories; what is not touched takes nothing */
static bool shadow_room(struct carried *c, size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *wide = bytes < WIDE ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (wide != MAP_FAILED) c->block = wide, c->mapped = bytes;
    else c->block = malloc(bytes);
    return c->block != NULL;
}

/* Passes the packed bytes as elements of the one basic type. False where there is not one, or the type must stay. */
static bool flatten(struct arg *p, const struct carried *c)
{
    const struct layout *l = p->flags & ARG_FLAT && c->n == 1 ? c->piece[0].parcel.layout : NULL;
    if (!l || l->basic == MPI_DATATYPE_NULL || c->whole.bytes / l->grain > INT_MAX) return false;
    p->use = c->whole.address, p->use_type = l->basic, p->use_count = c->whole.bytes / l->grain;
    return true;
}

static bool shadow_make(struct arg *p, struct carried *c)
{
    int64_t low = INT64_MAX, high = INT64_MIN, first, past;
    for (int i = 0; i < c->n; i++) {
        const struct typed_buffer *q = &c->piece[i].parcel;
        layout_span(q->layout, q->count, &first, &past);
        first += q->user - (char *)p->buf, past += q->user - (char *)p->buf;
        low = first < low ? first : low;
        high = past > high ? past : high;
    }
    if (c->n == 1 && layout_contiguous(c->piece[0].parcel.layout, c->piece[0].parcel.count)) {
        p->use = (void *)((uintptr_t)c->whole.address - (uintptr_t)low);
        return true;
    }
    size_t bytes = (size_t)(high - low) + ALIGNED;
    if (bytes >= WIDE && flatten(p, c)) return true;
    if (!shadow_room(c, bytes)) return false;
    uintptr_t shadow = (uintptr_t)c->block - (uintptr_t)low;
    c->shadow = shadow + ((uintptr_t)p->buf - shadow) % ALIGNED;
    p->use = (void *)c->shadow;
    return true;
}

void piece_drop_stage(struct piece *piece)
{
    if (piece->parcel.stage != &piece->stage) mempool_put(piece->parcel.stage);
    piece->parcel.stage = NULL;
}

static void carried_free(struct carried *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++) {
        typed_buffer_moved(&c->piece[i].parcel);
        piece_drop_stage(&c->piece[i]);
        if (c->piece[i].type != MPI_DATATYPE_NULL) PMPI_Type_free(&c->piece[i].type);
        layout_unref(c->piece[i].parcel.layout);
    }
    mempool_put(c->whole.wire), mempool_put(c->whole.stage);
    if (c->whole.layout) layout_unref(c->whole.layout);
    bounce_put(c->packed);
    if (c->mapped) munmap(c->block, c->mapped);
    else free(c->block);
    free(c->counts), free(c->displs), free(c->types);
    free(c);
}

/* What a peer of the node sends will come as descriptors, most of the time: they are to arrive where the host can read
 * them. */
static bool brings_descriptors(const struct args_set *o)
{
    return o->receives && o->source >= 0 && node_zerocopy() && node_peer(o->comm, o->source);
}

/* MPI_SUCCESS, an error that has been raised, or CANT: not so; SCARCE: for want of memory. */
#define CANT (-1)
#define SCARCE (-2)
static int carry(const struct args_set *o, struct arg *p, const struct group *g)
{
    struct carried *c = carried_new(o, p, g);
    bool staged = o->how == ARGS_STAGED;
    int rc = c ? MPI_SUCCESS : SCARCE;
    for (int i = 0; c && i < c->n && rc == MPI_SUCCESS; i++) {
        const struct typed_buffer *q = &c->piece[i].parcel;
        rc = typed_buffer_check(q->layout, (struct location){.device = q->device, .parts = q->parts},
                                c->piece[i].source, args_comm(o));
    }
    bool host_only = staged || !takes_devices(o) || brings_descriptors(o) || group_alone(o, g);
    if (rc == MPI_SUCCESS && !(p->hosted ? place_hosted(c) : acquire(c, host_only))) rc = SCARCE;
    if (rc == MPI_SUCCESS) {
        if (!p->hosted) place_pieces(c);
        if (o->sends && !p->hosted)
            typed_copy_prepare(c->whole.device, NULL, 0);   /* MPI_Startall packs many in one launch */
        c->staged = staged;
        p->carried = c;
        rc = (staged ? shadow_make(p, c) : args_arguments(o, p, g, c)) ? MPI_SUCCESS : CANT;
    }
    if (rc == MPI_SUCCESS) return rc;
    p->carried = NULL;
    carried_free(c);
    return rc;
}

/* Asked quietly. */
static bool is_committed(struct layout *l, MPI_Datatype type)
{
    MPI_Comm quiet;
    if (atomic_load_explicit(&l->committed, memory_order_relaxed)) return true;
    if (PMPI_Comm_split(world_self(), 0, 0, &quiet) != MPI_SUCCESS) return true;
    PMPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
    bool is = layout_committed(l, type, quiet) == MPI_SUCCESS;
    PMPI_Comm_free(&quiet);
    return is;
}

/* Of types that are not committed the MPI is to complain where the file's or the window's own handler hears it. */
static bool refused(const struct args_set *o, const struct arg *p, const struct group *g)
{
    struct piece_of piece;
    return o->comm == MPI_COMM_NULL && args_piece(o, p, g, 0, &piece) && !is_committed(piece.layout, piece.type);
}

#ifdef OPEN_MPI
enum { CUTS_BY_EXTENT = 0 };
#else
enum { CUTS_BY_EXTENT = 1 };
#endif

/* What MPI_Allgatherv brings goes from rank to rank, and MPICH has each cut it by the extent of its own type: that
 * stays. */
static bool extent_decides(const struct args_set *o, const struct arg *p)
{
    const struct arg *from = &o->of[0];
    bool lists = p != from && p->counts && !p->types && p->flags & ARG_RANKS && !(p->flags & ARG_AT_ROOT);
    const struct layout *l = CUTS_BY_EXTENT && lists && !from->counts ? layout_of(p->type) : NULL;
    return l && l->extent != l->size;
}

int args_carry(const struct args_set *o, struct arg *p, const struct group *g)
{
    struct args_set staged = *o;
    if (refused(o, p, g)) return MPI_SUCCESS;
    int rc = extent_decides(o, p) ? CANT : carry(o, p, g);
    if (rc != CANT && rc != SCARCE) return rc;
    staged.how = ARGS_STAGED;
    args_as_is(p);
    if (p->hosted) return p->hosted = false, MPI_SUCCESS;   /* the MPI takes it as it is */
    /* A descriptor is looked for where the packed bytes arrive. */
    bool stages = o->how == ARGS_PACKED && !(rc == SCARCE && o->receives);
    if (stages) args_by_runs(o, p, g), rc = carry(&staged, p, g);
    return rc != CANT && rc != SCARCE ? rc
                                      : raise_error(args_comm(o), MPI_ERR_NO_MEM, "no memory for a call's buffers");
}

void args_free(struct args_set *o)
{
    args_have_read(o);
    partitioned_free(o->partitioned);
    typed_buffer_close(o->watch);
    persistent_send_close(o->standing);
    o->partitioned = NULL, o->watch = NULL, o->standing = NULL;
    for (int i = 0; i < o->n; i++) {
        carried_free(o->of[i].carried);
        free(o->of[i].runs);
        o->of[i].carried = NULL, o->of[i].runs = NULL;
    }
}

struct args_set *args_move(const struct args_set *o)
{
    struct args_set *copy = reserve_get(sizeof *copy);
    *copy = *o;
    return copy;
}
