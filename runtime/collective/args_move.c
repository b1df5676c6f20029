/* args_move.c: packs what a call reads, and unpacks what it wrote. */
#include "args_internal.h"
#include "base/log.h"
#include "base/self_comm.h"
#include "partitioned.h"
#include <limits.h>

/* Copies a piece's packed bytes into its host copy (in), or back, by the MPI. Beyond an int's range it takes several
 * steps of whole elements. */
static int move_host_copy(const struct arg *p, const struct piece *piece, bool in)
{
    const struct typed_buffer *q = &piece->tbuf;
    char *host = (char *)(p->bounced->host_copy + ((uintptr_t)q->user - (uintptr_t)p->buf)), *wire = q->address;
    int64_t size = q->layout->size, most = INT_MAX / size, left = q->count, step = left < most ? left : most;
    MPI_Comm self = self_comm_get();
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

static int move_host_copies(const struct arg *p, bool in)
{
    const struct bounced *c = p->bounced;
    int rc = 0;
    for (int i = 0; c->host_copy && i < c->n && rc == 0; i++) rc = move_host_copy(p, &c->piece[i], in);
    return rc;
}

/* Sets *part to n elements of a piece, from `first` on. */
static struct piece *take_part(struct piece *part, const struct piece *piece, int64_t first, int64_t n)
{
    struct typed_buffer *q = &part->tbuf;
    *part = *piece;
    int64_t at = first * q->layout->size;
    q->user += first * q->layout->extent;
    q->count = n, q->bytes = n * q->layout->size;
    q->address = (char *)q->address + at;
    part->wire = buffer_part(&piece->wire, at, (size_t)q->bytes), q->wire = &part->wire;
    q->stage = NULL;
    if (piece->tbuf.stage == &piece->stage)
        part->stage = buffer_part(&piece->stage, at, (size_t)q->bytes), q->stage = &part->stage;
    return part;
}

int args_move_part(const struct arg *p, int64_t first, int64_t n, bool pack)
{
    struct piece part;
    struct batch b = {0};
    struct typed_buffer *q = &take_part(&part, &p->bounced->piece[0], first, n)->tbuf;
    bool host_copy = p->bounced->host_copy;
    int rc = host_copy && !pack ? move_host_copy(p, &part, false) : 0;
    if (rc == 0 && pack) batch_pack(&b, q);
    if (rc == 0 && !pack) batch_unpack(&b, q, q->bytes);
    if (batch_wait(&b)) rc = -1;
    typed_buffer_end_batch(q);
    piece_drop_stage(&part);
    return host_copy && pack && rc == 0 ? move_host_copy(p, &part, true) : rc;
}

/* Returns the bounced data if the call reads the argument, else NULL. */
static struct bounced *bounced_input(const struct arg *p)
{
    return p->flags & ARG_IN ? p->bounced : NULL;
}

void args_pack(struct args_set *o, struct batch *b)
{
    if (o->partitioned) partitioned_start(o->partitioned);
    for (int i = 0; i < o->n; i++) {
        struct bounced *c = bounced_input(&o->of[i]);
        if (c && c->packed) args_host_move(c, true, INT64_MAX);
        else for (int k = 0; c && k < c->n; k++) batch_pack(b, &c->piece[k].tbuf);
    }
}

int args_packed(struct args_set *o)
{
    int rc = 0;
    for (int i = 0; i < o->n && rc == 0; i++) {
        struct bounced *c = bounced_input(&o->of[i]);
        for (int k = 0; c && k < c->n; k++) typed_buffer_end_batch(&c->piece[k].tbuf);
        if (c) rc = move_host_copies(&o->of[i], true);
    }
    return rc;
}

/* Returns the bytes to unpack of each piece, where a message brought `bytes`. */
static int64_t bytes_to_unpack(const struct args_set *o, const struct arg *p, int64_t bytes)
{
    if (o->bounded) return o->bound_bytes;
    return p->bounced->staged || o->file || !(p->flags & ARG_PARTIAL) ? INT64_MAX : bytes;
}

static int unpack_arg(struct arg *p, struct batch *b, int64_t bytes)
{
    struct bounced *c = p->bounced;
    if (c->packed) return args_host_move(c, false, bytes), 0;
    int rc = move_host_copies(p, false);
    for (int i = 0; i < c->n && rc == 0; i++) {
        struct typed_buffer *q = &c->piece[i].tbuf;
        typed_buffer_end_batch(q);
        batch_unpack(b, q, q->bytes < bytes ? q->bytes : bytes);
    }
    return rc;
}

static int unpack(struct args_set *o, struct batch *b, int64_t bytes)
{
    int rc = o->partitioned ? partitioned_complete(o->partitioned) : 0;
    for (int i = 0; i < o->n && rc == 0; i++) {
        struct arg *p = &o->of[i];
        if (p->bounced && p->flags & ARG_OUT) rc = unpack_arg(p, b, bytes_to_unpack(o, p, bytes));
    }
    return rc;
}

int args_unpack_all(struct args_set *o, struct batch *b)
{
    return unpack(o, b, INT64_MAX);
}

int args_unpack(void *set, struct batch *b, int64_t bytes)
{
    return args_read_begin(set) ? unpack(set, b, bytes) : 0;
}
