/* args_move.c: packing what a call reads, and unpacking what it wrote. */
#include "args_internal.h"
#include "base/log.h"
#include "base/self_comm.h"
#include "partitioned.h"
#include <limits.h>

/* Between the packed bytes of a piece and its place in host memory, by the MPI; past its ints in several steps of whole
 * elements. */
static int move_shadow(const struct arg *p, const struct piece *piece, bool in)
{
    const struct typed_buffer *q = &piece->parcel;
    char *host = (char *)(p->carried->shadow + ((uintptr_t)q->user - (uintptr_t)p->buf)), *wire = q->address;
    int64_t size = q->layout->size, most = INT_MAX / size, left = q->count, step = left < most ? left : most;
    MPI_Comm self = world_self();
    if (most == 0) {
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

static int move_shadows(const struct arg *p, bool in)
{
    const struct carried *c = p->carried;
    int rc = 0;
    for (int i = 0; c->shadow && i < c->n && rc == 0; i++) rc = move_shadow(p, &c->piece[i], in);
    return rc;
}

/* The part of a piece that is n elements from the first. */
static struct piece *take_part(struct piece *part, const struct piece *piece, int64_t first, int64_t n)
{
    struct typed_buffer *q = &part->parcel;
    *part = *piece;
    int64_t at = first * q->layout->size;
    q->user += first * q->layout->extent;
    q->count = n, q->bytes = n * q->layout->size;
    q->address = (char *)q->address + at;
    part->wire = buffer_part(&piece->wire, at, (size_t)q->bytes), q->wire = &part->wire;
    q->stage = NULL;
    if (piece->parcel.stage == &piece->stage)
        part->stage = buffer_part(&piece->stage, at, (size_t)q->bytes), q->stage = &part->stage;
    return part;
}

int args_move_part(const struct arg *p, int64_t first, int64_t n, bool pack)
{
    struct piece part;
    struct batch b = {0};
    struct typed_buffer *q = &take_part(&part, &p->carried->piece[0], first, n)->parcel;
    bool shadow = p->carried->shadow;
    int rc = shadow && !pack ? move_shadow(p, &part, false) : 0;
    if (rc == 0 && pack) batch_pack(&b, q);
    if (rc == 0 && !pack) batch_unpack(&b, q, q->bytes);
    if (batch_wait(&b)) rc = -1;
    typed_buffer_moved(q);
    piece_drop_stage(&part);
    return shadow && pack && rc == 0 ? move_shadow(p, &part, true) : rc;
}

/* What the call reads. */
static struct carried *packs(const struct arg *p)
{
    return p->flags & ARG_IN ? p->carried : NULL;
}

void args_pack(struct args_set *o, struct batch *b)
{
    if (o->partitioned) partitioned_start(o->partitioned);
    for (int i = 0; i < o->n; i++) {
        struct carried *c = packs(&o->of[i]);
        if (c && c->packed) args_move_hosted(c, true, INT64_MAX);
        else for (int k = 0; c && k < c->n; k++) batch_pack(b, &c->piece[k].parcel);
    }
}

int args_packed(struct args_set *o)
{
    int rc = 0;
    for (int i = 0; i < o->n && rc == 0; i++) {
        struct carried *c = packs(&o->of[i]);
        for (int k = 0; c && k < c->n; k++) typed_buffer_moved(&c->piece[k].parcel);
        if (c) rc = move_shadows(&o->of[i], true);
    }
    return rc;
}

/* Of a piece of an operand that is written, where a message brought `bytes`. */
static int64_t comes(const struct args_set *o, const struct arg *p, int64_t bytes)
{
    if (o->bounded) return o->brings;
    return p->carried->staged || !(p->flags & ARG_PARTIAL) ? INT64_MAX : bytes;
}

static int unpack_operand(struct arg *p, struct batch *b, int64_t bytes)
{
    struct carried *c = p->carried;
    if (c->packed) return args_move_hosted(c, false, bytes), 0;
    int rc = move_shadows(p, false);
    for (int i = 0; i < c->n && rc == 0; i++) {
        struct typed_buffer *q = &c->piece[i].parcel;
        typed_buffer_moved(q);
        batch_unpack(b, q, q->bytes < bytes ? q->bytes : bytes);
    }
    return rc;
}

int args_unpack(struct args_set *o, struct batch *b, int64_t bytes)
{
    int rc = o->partitioned ? partitioned_complete(o->partitioned) : 0;
    for (int i = 0; i < o->n && rc == 0; i++) {
        struct arg *p = &o->of[i];
        if (p->carried && p->flags & ARG_OUT) rc = unpack_operand(p, b, comes(o, p, bytes));
    }
    return rc;
}
