/* args_host.c: chooses the arguments in host memory that stridec packs (host_pack.h), and packs them.
 *
 * For types with short runs the MPI's engine is the slower part of a collective; with packed bytes it is quickest.
 * Each rank chooses for itself: the MPI sees the same counts and sizes. Nothing is packed where the MPI may end a
 * piece within an element that a typed receive can't take (byte_types.h).
 *
 * A call in place passes to the MPI: all would be packed for a part that is read. A partitioned message does too,
 * since its partitions are packed one by one (args_move_part). */
#include "args_internal.h"
#include "base/env.h"
#include "datatype/type_filter.h"
#include "hostpack/host_pack.h"
#include "protocol/host_select.h"

static int64_t elements(const struct arg *p, int i)
{
    return args_lists(p) ? args_count(p, i) : (int64_t)p->count;
}

/* Returns true if the argument is only read, or only written. */
static bool one_way(const struct arg *p)
{
    int ways = p->flags & ARG_INOUT;
    return ways == ARG_IN || ways == ARG_OUT;
}

/* Returns true if packing may gain time for some piece. Reads no type. */
static bool any_gains(const struct arg *p, int n)
{
    for (int i = 0; i < n; i++)
        if (filter_gains(p->types ? p->types[i] : p->type, elements(p, i))) return true;
    return false;
}

/* Returns true if every type was used in such calls before. Counts the uses; a run of equal types counts once. */
static bool all_counted(const struct arg *p, int n)
{
    bool all = true, any = false;
    MPI_Datatype last = MPI_DATATYPE_NULL;
    for (int i = 0; i < n; i++) {
        MPI_Datatype type = p->types ? p->types[i] : p->type;
        if (elements(p, i) < 0) return false;
        if (!elements(p, i) || (any && type == last)) continue;
        all = filter_collects(type, elements(p, i)) && all;
        last = type, any = true;
    }
    return all;
}

/* Packed bytes of all pieces, and of those that gain. */
struct gain {
    int64_t all, gaining;
};

static bool add(struct gain *s, const struct args_set *o, const struct arg *p, const struct group *g, int i)
{
    struct arg_piece piece;
    if (!elements(p, i)) return true;
    if (!args_piece(o, p, g, i, &piece)) return piece.count <= 0 || (piece.layout && !piece.layout->size);
    const struct layout *l = piece.layout;
    bool dense = layout_contiguous(l, piece.count);
    if (!l->tree || (!dense && !host_matches_types(l))) return false;
    if (__builtin_add_overflow(s->all, piece.bytes, &s->all)) return false;
    if (!dense && host_collects(l)) s->gaining += piece.bytes;
    return true;
}

/* Returns true for a persistent send that is packed like MPI_Send's and is no rendezvous send (host_select.h). */
static bool message_host_packed(const struct args_set *o, const struct arg *p)
{
    const struct layout *l = o->sends && p->flags & ARG_IN ? host_sends(p->buf, p->count, p->type, o->comm) : NULL;
    return l && host_packs_short(l);
}

bool args_host_packed(const struct args_set *o, const struct arg *p, const struct group *g)
{
    struct gain s = {0, 0};
    if (o->message) return o->how == ARGS_PACKED && message_host_packed(o, p);
    if (o->how != ARGS_PACKED || o->comm == MPI_COMM_NULL || filter_collectives_are_ignored()) return false;
    int n = args_pieces(o, p, g);
    if (!one_way(p) || !any_gains(p, n) || group_alone(o, g) || !all_counted(p, n)) return false;
    for (int i = 0; i < n; i++)
        if (!add(&s, o, p, g, i)) return false;
    return s.gaining > 0 && s.gaining >= s.all / 2 && host_collects_bytes(s.all);
}

void args_host_move(struct bounced *c, bool pack, int64_t bytes)
{
    for (int i = 0; i < c->n; i++) {
        struct typed_buffer *q = &c->piece[i].tbuf;
        int64_t start = env_get()->timed ? stats_now() : 0, end = q->bytes < bytes ? q->bytes : bytes;
        if (pack) host_pack_pack(q->layout, q->count, q->user, q->address, 0, end);
        else host_pack_unpack(q->layout, q->count, q->user, q->address, 0, end);
        if (start) typed_buffer_stats(q, "host", end, start);
    }
    host_note_packed();
}
