/* operand_carry.c: carrying an operand: its wire, its pieces, and the host memory of staged ones. */
#include "log.h"
#include "operand_inner.h"
#include "partitioned.h"
#include "standing.h"
#include "world.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* One piece: a parcel whose buffers are parts of the operand's. */
struct piece {
    struct parcel parcel;
    struct buffer wire, stage;
    MPI_Datatype source;         /* the call's own */
    MPI_Datatype type;           /* a duplicate, where the MPI moves the piece; else MPI_DATATYPE_NULL */
};

struct carried {
    struct parcel whole;         /* the operand's buffers; its layout is the first piece's */
    bool staged;
    uintptr_t shadow;            /* staged: the user's bytes in host memory, where p->buf stands for; 0: the wire is that */
    void *block;                 /* what shadow lies in */
    void *counts, *displs;
    MPI_Datatype *types;
    int n;
    struct piece piece[];
};

/* --- making --- */

static struct carried *carried_new(const struct operands *o, const struct operand *p, const struct group *g)
{
    int most = operand_pieces(o, p, g);
    struct carried *c = calloc(1, sizeof *c + (size_t)most * sizeof *c->piece);
    struct piece_of from;
    int64_t bytes = 0;
    for (int i = 0; c && i < most; i++) {
        if (!operand_piece(o, p, g, i, &from)) continue;
        struct where w = where_of(from.layout, from.buf, from.count);
        struct piece *piece = &c->piece[c->n++];
        piece->parcel = parcel_on(from.layout, w.device, from.buf, from.count);
        piece->parcel.parts = w.parts;
        piece->source = from.type, piece->type = MPI_DATATYPE_NULL;
        layout_ref(from.layout);
        piece->wire.bytes = (size_t)from.bytes;
        bytes += from.bytes;
        if (!c->whole.device && w.device) {
            c->whole = parcel_on(from.layout, w.device, from.buf, from.count);
            layout_ref(from.layout);
        }
        if (!from.layout->tree || o->how == OPERANDS_STAGED) PMPI_Type_dup(from.type, &piece->type);
        piece->parcel.datatype = piece->type;
    }
    if (c) c->whole.bytes = bytes;
    return c;
}

/* The MPI must see host memory in a staged operand, and may see either in a packed one. */
static bool acquire(struct carried *c, bool host_only)
{
    bool odd = false;
    for (int i = 0; i < c->n; i++) odd |= !c->piece[i].parcel.layout->tree || c->piece[i].parcel.parts || !c->piece[i].parcel.device;
    struct parcel *w = &c->whole;
    w->transport = odd ? &transport_oneshot : transport_choose(w->layout, w->count, w->bytes, host_only);
    if (host_only && w->transport == &transport_device) w->transport = &transport_oneshot;   /* it was forced */
    if (device_enter(w->device)) return false;
    bool ok = w->transport->acquire(w);
    if (!ok && w->transport != &transport_oneshot) {
        buffer_put(w->wire), buffer_put(w->stage);
        w->wire = w->stage = NULL;
        w->transport = &transport_oneshot;
        ok = w->transport->acquire(w);
    }
    device_leave(w->device);
    return ok;
}

static struct buffer part_of(const struct buffer *b, int64_t at, size_t bytes)
{
    struct buffer part = *b;
    part.host = b->host ? (char *)b->host + at : NULL;
    part.address = b->address + (uint64_t)at;
    part.bytes = bytes;
    return part;
}

/* What moves a piece: the operand's transport, but for what that can't move. */
static const struct transport *mover(const struct carried *c, const struct parcel *p)
{
    if (!p->layout->tree) return &transport_shadow;
    return p->parts || !p->device ? &transport_parts : c->whole.transport;
}

static void place_pieces(struct carried *c)
{
    int64_t at = 0;
    for (int i = 0; i < c->n; i++) {
        struct piece *piece = &c->piece[i];
        struct parcel *p = &piece->parcel;
        size_t bytes = piece->wire.bytes;
        piece->wire = part_of(c->whole.wire, at, bytes);
        p->wire = &piece->wire;
        if (c->whole.stage) piece->stage = part_of(c->whole.stage, at, bytes), p->stage = &piece->stage;
        p->address = (char *)c->whole.address + at;
        p->transport = mover(c, p);
        if (!p->device) p->device = c->whole.device;
        at += (int64_t)bytes;
    }
}

/* --- what goes down --- */

/* An element of as many bytes; it lives with the layout. Where a named type will do it is that. */
static MPI_Datatype plain_type(struct layout *l)
{
    switch (l->size) {
    case 1: return MPI_BYTE;
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    case 8: return MPI_UINT64_T;
    case 16: return MPI_C_DOUBLE_COMPLEX;
    default: return layout_bytes_type(l);
    }
}

static bool put_displ(void *displs, bool wide, int i, int64_t value)
{
    if (wide) ((MPI_Aint *)displs)[i] = (MPI_Aint)value;
    else if (value > INT_MAX) return false;
    else ((int *)displs)[i] = (int)value;
    return true;
}

/* Displacements of pieces that lie one behind the other; false where they don't fit the call's integers. */
static bool pack_displs(const struct operands *o, struct operand *p, const struct group *g, struct carried *c)
{
    int n = operand_pieces(o, p, g);
    int64_t at = 0;
    struct piece_of from;
    c->displs = malloc((size_t)(n ? n : 1) * (p->displs_wide ? sizeof(MPI_Aint) : sizeof(int)));
    for (int i = 0; c->displs && i < n; i++) {
        if (!put_displ(c->displs, p->displs_wide, i, at)) return false;
        if (operand_piece(o, p, g, i, &from)) at += p->types ? from.bytes : from.count;
    }
    p->use_displs = c->displs;
    return c->displs != NULL;
}

/* A message goes down as bytes: MPICH 4.0 gives a derived type back once too often after MPI_Isendrecv
 * (pmodels/mpich#7098). */
static bool pack_type(const struct operands *o, struct operand *p, const struct carried *c)
{
    if (o->message && c->whole.bytes <= INT_MAX) {
        p->use_count = c->whole.bytes, p->use_type = MPI_BYTE;
        return true;
    }
    p->use_type = plain_type(layout_of(p->type));
    return p->use_type != MPI_DATATYPE_NULL;
}

static void put_count(void *counts, bool wide, int i, int64_t value)
{
    if (wide) ((MPI_Count *)counts)[i] = (MPI_Count)value;
    else ((int *)counts)[i] = (int)value;
}

/* Pieces with a type each go down as bytes, or as elements of as many where an int can't count the bytes:
 * MPI_Ialltoallw in place of MPICH before 4.1.1 takes the size of one rank's type for another's
 * (pmodels/mpich#6404), and types of one size it gets right. What is an error stays, for the MPI to refuse. */
static bool plain_piece(const struct operand *p, const struct piece_of *from, int64_t *n, MPI_Datatype *type)
{
    bool fits = p->counts_wide || from->bytes <= INT_MAX;
    *n = from->count, *type = from->type;
    if (from->count < 0 || (from->count > 0 && from->type == MPI_DATATYPE_NULL)) return true;
    if (from->count > 0 && !from->layout) return false;
    if (fits) *n = from->bytes;
    *type = fits ? MPI_BYTE : plain_type(from->layout);
    return *type != MPI_DATATYPE_NULL;
}

static bool pack_types(const struct operands *o, struct operand *p, const struct group *g, struct carried *c)
{
    int n = operand_pieces(o, p, g);
    struct piece_of from;
    int64_t count;
    c->types = malloc((size_t)(n ? n : 1) * sizeof *c->types);
    c->counts = malloc((size_t)(n ? n : 1) * (p->counts_wide ? sizeof(MPI_Count) : sizeof(int)));
    for (int i = 0; c->types && c->counts && i < n; i++) {
        operand_piece(o, p, g, i, &from);
        if (!plain_piece(p, &from, &count, &c->types[i])) return false;
        put_count(c->counts, p->counts_wide, i, count);
    }
    p->use_types = c->types, p->use_counts = c->counts;
    return c->types && c->counts;
}

static bool pack_arguments(const struct operands *o, struct operand *p, const struct group *g, struct carried *c)
{
    p->use = c->whole.address;
    return (!p->displs || pack_displs(o, p, g, c)) && (p->types ? pack_types(o, p, g, c) : pack_type(o, p, c));
}

/* Host memory for all bytes from the first that a piece touches to the last, aligned as the operand is. Where the operand is one contiguous piece, its
 * packed bytes are just that. */
#define ALIGNED 64
static bool shadow_make(struct operand *p, struct carried *c)
{
    int64_t low = INT64_MAX, high = INT64_MIN, first, past;
    for (int i = 0; i < c->n; i++) {
        const struct parcel *q = &c->piece[i].parcel;
        layout_span(q->layout, q->count, &first, &past);
        first += q->user - (char *)p->buf, past += q->user - (char *)p->buf;
        low = first < low ? first : low;
        high = past > high ? past : high;
    }
    if (c->n == 1 && layout_contiguous(c->piece[0].parcel.layout, c->piece[0].parcel.count)) {
        p->use = (void *)((uintptr_t)c->whole.address - (uintptr_t)low);
        return true;
    }
    c->block = malloc((size_t)(high - low) + ALIGNED);
    if (!c->block) return false;
    uintptr_t shadow = (uintptr_t)c->block - (uintptr_t)low;
    c->shadow = shadow + ((uintptr_t)p->buf - shadow) % ALIGNED;
    p->use = (void *)c->shadow;
    return true;
}

/* Of parts in several memories the transport may have taken a stage by itself. */
static void stage_drop(struct piece *piece)
{
    if (piece->parcel.stage != &piece->stage) buffer_put(piece->parcel.stage);
    piece->parcel.stage = NULL;
}

static void carried_free(struct carried *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++) {
        parcel_moved(&c->piece[i].parcel);
        stage_drop(&c->piece[i]);
        if (c->piece[i].type != MPI_DATATYPE_NULL) PMPI_Type_free(&c->piece[i].type);
        layout_unref(c->piece[i].parcel.layout);
    }
    buffer_put(c->whole.wire), buffer_put(c->whole.stage);
    if (c->whole.layout) layout_unref(c->whole.layout);
    free(c->block), free(c->counts), free(c->displs), free(c->types);
    free(c);
}

/* What a peer of the node sends will come as descriptors, most of the time: they are to arrive where the host can read
 * them. */
static bool brings_descriptors(const struct operands *o)
{
    return o->receives && o->source >= 0 && offer_allowed() && node_peer(o->comm, o->source);
}

/* Open MPI is slow with device memory sent to the own rank: the 26 neighbours of 512^3 on one H200 take 21 ms. */
static bool alone(const struct operands *o, const struct group *g)
{
    return o->comm != MPI_COMM_NULL && g->ranks == 1 && g->peers == 1;
}

/* MPI_SUCCESS, an error that has been raised, or CANT: not so. */
#define CANT (-1)
static int carry(const struct operands *o, struct operand *p, const struct group *g)
{
    struct carried *c = carried_new(o, p, g);
    bool staged = o->how == OPERANDS_STAGED;
    int rc = c ? MPI_SUCCESS : CANT;
    for (int i = 0; c && i < c->n && rc == MPI_SUCCESS; i++) {
        const struct parcel *q = &c->piece[i].parcel;
        rc = parcel_check(q->layout, (struct where){q->device, q->parts}, c->piece[i].source, operands_comm(o));
    }
    if (rc == MPI_SUCCESS && !acquire(c, staged || !takes_devices(o) || brings_descriptors(o) || alone(o, g))) rc = CANT;
    if (rc == MPI_SUCCESS) {
        place_pieces(c);
        if (o->sends) link_prepare(c->whole.device, NULL, 0);   /* MPI_Startall packs many in one launch */
        c->staged = staged;
        p->carried = c;
        rc = (staged ? shadow_make(p, c) : pack_arguments(o, p, g, c)) ? MPI_SUCCESS : CANT;
    }
    if (rc == MPI_SUCCESS) return rc;
    p->carried = NULL;
    carried_free(c);
    return rc;
}

int operand_carry(const struct operands *o, struct operand *p, const struct group *g)
{
    struct operands staged = *o;
    int rc = carry(o, p, g);
    if (rc != CANT) return rc;
    staged.how = OPERANDS_STAGED;
    operand_as_is(p);
    if (o->how == OPERANDS_PACKED) rc = carry(&staged, p, g);
    return rc != CANT ? rc : raise_error(operands_comm(o), MPI_ERR_NO_MEM, "no memory for a call's buffers");
}

/* --- moving --- */

/* Between the packed bytes of a piece and its place in host memory, by the MPI; past its ints in several steps of whole
 * elements. */
static int move_shadow(const struct operand *p, const struct piece *piece, bool in)
{
    const struct parcel *q = &piece->parcel;
    char *host = (char *)(p->carried->shadow + ((uintptr_t)q->user - (uintptr_t)p->buf)), *wire = q->address;
    int64_t size = q->layout->size, step = INT_MAX / size, left = q->count;
    MPI_Comm self = world_self();
    if (step == 0) {
        log_once(LOG_ERROR, "staged", "one element of %lld bytes is too large for the MPI to copy", (long long)size);
        return -1;
    }
    for (; left > 0; left -= step, host += step * q->layout->extent, wire += step * size) {
        int n = (int)(left < step ? left : step), position = 0, bytes = (int)(n * size);
        int rc = in ? PMPI_Unpack(wire, bytes, &position, host, n, piece->type, self)
                    : PMPI_Pack(host, n, piece->type, wire, bytes, &position, self);
        if (rc != MPI_SUCCESS) return -1;
    }
    return 0;
}

static int move_shadows(const struct operand *p, bool in)
{
    const struct carried *c = p->carried;
    int rc = 0;
    for (int i = 0; c->shadow && i < c->n && rc == 0; i++) rc = move_shadow(p, &c->piece[i], in);
    return rc;
}

/* The part of a piece that is n elements from the first. */
static struct piece *take_part(struct piece *part, const struct piece *piece, int64_t first, int64_t n)
{
    struct parcel *q = &part->parcel;
    *part = *piece;
    int64_t at = first * q->layout->size;
    q->user += first * q->layout->extent;
    q->count = n, q->bytes = n * q->layout->size;
    q->address = (char *)q->address + at;
    part->wire = part_of(&piece->wire, at, (size_t)q->bytes), q->wire = &part->wire;
    q->stage = NULL;
    if (piece->parcel.stage == &piece->stage)
        part->stage = part_of(&piece->stage, at, (size_t)q->bytes), q->stage = &part->stage;
    return part;
}

int operand_move_part(const struct operand *p, int64_t first, int64_t n, bool pack)
{
    struct piece part;
    struct batch b = {0};
    struct parcel *q = &take_part(&part, &p->carried->piece[0], first, n)->parcel;
    bool shadow = p->carried->shadow;
    int rc = shadow && !pack ? move_shadow(p, &part, false) : 0;
    if (rc == 0 && pack) batch_pack(&b, q);
    if (rc == 0 && !pack) batch_unpack(&b, q, q->bytes);
    if (batch_wait(&b)) rc = -1;
    parcel_moved(q);
    stage_drop(&part);
    return shadow && pack && rc == 0 ? move_shadow(p, &part, true) : rc;
}

/* What the call reads. */
static struct carried *packs(const struct operand *p)
{
    return p->flags & OPERAND_IN ? p->carried : NULL;
}

void operands_pack(struct operands *o, struct batch *b)
{
    if (o->partitioned) partitioned_start(o->partitioned);
    for (int i = 0; i < o->n; i++) {
        struct carried *c = packs(&o->of[i]);
        for (int k = 0; c && k < c->n; k++) batch_pack(b, &c->piece[k].parcel);
    }
}

int operands_packed(struct operands *o)
{
    int rc = 0;
    for (int i = 0; i < o->n && rc == 0; i++) {
        struct carried *c = packs(&o->of[i]);
        for (int k = 0; c && k < c->n; k++) parcel_moved(&c->piece[k].parcel);
        if (c) rc = move_shadows(&o->of[i], true);
    }
    return rc;
}

static int unpack_operand(struct operand *p, struct batch *b, int64_t bytes)
{
    struct carried *c = p->carried;
    int rc = move_shadows(p, false);
    bool all = c->staged || !(p->flags & OPERAND_PARTIAL);
    for (int i = 0; i < c->n && rc == 0; i++) {
        struct parcel *q = &c->piece[i].parcel;
        parcel_moved(q);
        batch_unpack(b, q, all || q->bytes < bytes ? q->bytes : bytes);
    }
    return rc;
}

int operands_unpack(struct operands *o, struct batch *b, int64_t bytes)
{
    int rc = o->partitioned ? partitioned_complete(o->partitioned) : 0;
    for (int i = 0; i < o->n && rc == 0; i++)
        if (o->of[i].carried && o->of[i].flags & OPERAND_OUT) rc = unpack_operand(&o->of[i], b, bytes);
    return rc;
}

void operands_free(struct operands *o)
{
    partitioned_free(o->partitioned);
    parcel_close(o->watch);
    standing_close(o->standing);
    o->partitioned = NULL, o->watch = NULL, o->standing = NULL;
    for (int i = 0; i < o->n; i++) {
        carried_free(o->of[i].carried);
        free(o->of[i].runs);
        o->of[i].carried = NULL, o->of[i].runs = NULL;
    }
}

struct operands *operands_move(const struct operands *o)
{
    struct operands *copy = malloc(sizeof *copy);
    if (copy) *copy = *o;
    return copy;
}
