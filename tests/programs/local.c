/* local.c: packing, and reductions of integers. */
#include "known.h"
#include "../mpi/persistent.h"
#include "programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- MPI_Pack, MPI_Unpack and their external forms: of one rank by itself ---- */

struct pack {
    int rank, units, room;
    bool external;
    struct unit unit, bytes;
    struct end s, p, r;
};

static void pack_plan(struct op *o, struct chance *c)
{
    struct pack *k = o->own;
    k->rank = draw(c, ranks);
    k->unit = unit_draw(c);
    k->units = units_draw(c, &k->unit);
    k->external = once_in(c, 4) && !unit_pairs(&k->unit) && k->unit.n == 1;
    k->bytes = (struct unit){.n = 1, .part = {{3, 1}}};   /* MPI_BYTE */
    if (!(KNOWN_SHORT && setup.host)) op_event(o, draw(c, TIMES), k->rank, BLOCK, 0, 0);
}

static void open_packed(struct op *o, struct end *e, uint64_t seed, const struct unit *u, int each, int units)
{
    struct chance c = chance_of(seed, 8);
    if (!KNOWN_SHORT) {
        end_open(e, o->strand->number, seed, u, each, units / each, OVERLAP_NEVER, false);
        return;
    }
    *e = (struct end){.strand = o->strand->number, .n = 1, .layouts = 1};
    layout_draw(&e->layout[0], seed, u, each, units / each, OVERLAP_NEVER);
    e->block[0] = (struct block){&e->layout[0], units / each, 0};
    end_place(e, o->strand->number, &c, once_in(&c, 2) ? DEVICE : MAPPED);
}

static void pack_prepare(struct op *o)
{
    struct pack *k = o->own;
    if (k->rank != my_rank || o->n == 0) return;
    struct chance c = chance_of(o->seed, 5);
    int each = draw_divisor(&c, k->units ? k->units : 1), other = draw_divisor(&c, k->units ? k->units : 1);
    k->room = k->units * unit_bytes(&k->unit) + draw(&c, 64);
    tell("op %d: MPI_Pack%s and MPI_Unpack of %d units, rank %d, time %d", o->number, k->external ? "_external" : "", k->units, my_rank,
         o->event[0].time);
    open_packed(o, &k->s, o->seed + 1, &k->unit, each, k->units);
    open_packed(o, &k->r, o->seed + 2, &k->unit, other, k->units);
    k->p = (struct end){.strand = o->strand->number, .n = 1, .layouts = 1};
    k->p.layout[0] = (struct layout){.type = MPI_BYTE, .named = true, .reps = 1, .extent = 1, .size = 1};
    strcpy(k->p.layout[0].text, "MPI_BYTE");
    map_add(&k->p.layout[0].map, 0, 1, 3, 0);
    k->p.block[0] = (struct block){&k->p.layout[0], k->room, 0};
    end_place(&k->p, o->strand->number, &c, memory_draw(&c));
    end_tell(&k->s, "packed"), end_tell(&k->p, "packed bytes"), end_tell(&k->r, "unpacked");
}

/* In external32 each value has its most significant byte first. */
static void turn(const struct unit *u, unsigned char *bytes, int64_t units)
{
    for (int64_t n = 0; n < units; n++)
        for (int i = 0; i < u->n; i++)
            for (int v = 0; v < u->part[i].n; v++) {
                int size = kinds[u->part[i].kind].size, each = size == 16 ? 8 : size;
                for (int at = 0; at < size; at += each, bytes += each)
                    for (int a = 0, b = each - 1; a < b; a++, b--) {
                        unsigned char swap = bytes[a];
                        bytes[a] = bytes[b], bytes[b] = swap;
                    }
            }
}

static void pack_act(struct op *o, const struct event *e)
{
    struct pack *k = o->own;
    MPI_Comm comm = o->strand->comms[COMM_WORLD].comm;
    struct block *s = &k->s.block[0], *r = &k->r.block[0];
    int64_t bytes = end_bytes(&k->s, 0);
    int position = 0, back = 0, code;
    MPI_Aint wide = 0, wide_back = 0;
    unsigned char *packed;
    (void)e;
    end_clear(&k->s, o->seed), end_put(&k->s, 0, o->seed * 8), end_store(&k->s);
    end_clear(&k->p, o->seed + 1), end_store(&k->p);
    end_clear(&k->r, o->seed + 2), end_store(&k->r);
    if (k->external) code = MPI_Pack_external("external32", k->s.buf, s->count, s->layout->type, k->p.buf, k->room, &wide);
    else code = MPI_Pack(k->s.buf, s->count, s->layout->type, k->p.buf, k->room, &position, comm);
    if (k->external) position = (int)wide;
    digest_numbers("MPI_Pack", o->number, error_class(code), position);
    if (code != MPI_SUCCESS || position != bytes)
        differ("op %d: MPI_Pack ends with class %d at %d of %lld", o->number, error_class(code), position, (long long)bytes);
    packed = end_packed(&k->s, 0);
    if (planted(o) && bytes) packed[0] ^= 1;
    if (k->external) turn(&k->unit, packed, k->units);
    end_put_bytes(&k->p, 0, packed, bytes);
    end_check(&k->p, "the packed bytes");
    if (k->external) code = MPI_Unpack_external("external32", k->p.buf, bytes, &wide_back, k->r.buf, r->count, r->layout->type);
    else code = MPI_Unpack(k->p.buf, (int)bytes, &back, k->r.buf, r->count, r->layout->type, comm);
    if (k->external) back = (int)wide_back;
    digest_numbers("MPI_Unpack", o->number, error_class(code), back);
    if (code != MPI_SUCCESS || back != bytes)
        differ("op %d: MPI_Unpack ends with class %d at %d of %lld", o->number, error_class(code), back, (long long)bytes);
    end_expect(&k->r, 0, o->seed * 8, bytes);
    end_check(&k->r, "the unpacked buffer");
    end_check(&k->s, "the buffer that was packed");
    free(packed);
}

static void pack_finish(struct op *o)
{
    struct pack *k = o->own;
    end_close(&k->s), end_close(&k->p), end_close(&k->r);
}

const struct op_row pack_row = {"pack", 3, sizeof(struct pack), pack_plan, pack_prepare, pack_act, NULL, NULL, pack_finish};

/* ---- reductions ---- */

enum reduction { REDUCE, ALLREDUCE, SCAN, EXSCAN, REDUCE_SCATTER_BLOCK, REDUCTIONS };
static const char *const reduction_name[REDUCTIONS] = {"Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block"};
enum { OPS_OF = 6, ROUNDS = 3 };

struct reduce {
    enum reduction call;
    bool later, persistent, in_place;   /* later: not blocking, persistent ones too */
    int rounds, done;
    int kind, op, n, root;
    struct end s, r;
    MPI_Request request;
};

static MPI_Op operation(int i)
{
    MPI_Op all[OPS_OF] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR};
    return all[i];
}

static void reduce_plan(struct op *o, struct chance *c)
{
    static const int unsigned_kinds[] = {9, 7, 10};   /* MPI_UNSIGNED, MPI_UINT16_T, MPI_UINT8_T */
    struct reduce *k = o->own;
    k->call = (enum reduction)draw(c, REDUCTIONS), k->kind = unsigned_kinds[draw(c, 3)], k->op = draw(c, OPS_OF);
    k->n = draw(c, once_in(c, 4) ? 4000 : 60), k->root = draw(c, ranks);
    /* Open MPI 4.1's sums of short integers stop at the largest one; MPICH 4.0's MPI_MAX and MPI_MIN take them all for signed. */
    if (k->op == 0) k->kind = 9;
    if (MPICH_HAS && (k->op == 1 || k->op == 2)) k->op += 2;
    k->later = once_in(c, 2) && !(OPEN_MPI_HAS && (setup.threads > 1 || k->call == REDUCE_SCATTER_BLOCK)), k->in_place = once_in(c, 3);
    if (MPICH_HAS && k->call == REDUCE) k->in_place = false;   /* MPICH 4.0 reads MPI_IN_PLACE itself */
    k->persistent = HAVE_PERSISTENT && k->later && once_in(c, 2);
    k->rounds = k->persistent ? draw_in(c, 1, ROUNDS) : 1;
    o->alone = KNOWN_PERSISTENT && k->persistent;
    for (int round = 0; round < k->rounds; round++) {
        int first = round * TIMES / k->rounds, last = (round + 1) * TIMES / k->rounds - 1, time = draw_in(c, first, last);
        for (int i = 0; i < ranks; i++) {
            op_event(o, time, i, k->later ? START : BLOCK, 0, round);
            if (k->later) op_event(o, draw_in(c, time, last), i, DONE, 1, round);
        }
    }
}

static void open_values(struct op *o, struct end *e, struct chance *c, int n)
{
    struct reduce *k = o->own;
    *e = (struct end){.strand = o->strand->number, .n = 1, .layouts = 1};
    e->layout[0] = (struct layout){.type = kinds[k->kind].type, .named = true, .reps = 1, .extent = kinds[k->kind].extent,
                                   .size = kinds[k->kind].size};
    strcpy(e->layout[0].text, kinds[k->kind].name);
    map_add(&e->layout[0].map, 0, 1, k->kind, 0);
    e->block[0] = (struct block){&e->layout[0], n, 0};
    end_place(e, o->strand->number, c, memory_draw(c));
}

static int own_values(const struct reduce *k)
{
    return k->call == REDUCE_SCATTER_BLOCK ? k->n * ranks : k->n;
}

static void reduce_prepare(struct op *o)
{
    struct reduce *k = o->own;
    struct chance c = chance_of(o->seed, (uint64_t)my_rank);
    k->request = MPI_REQUEST_NULL;
    tell("op %d: %s%s%s of %d x %s, operation %d, root %d, %d rounds, time %d", o->number,
         k->persistent ? "persistent " : k->later ? "nonblocking " : "", reduction_name[k->call],
         k->in_place ? " in place" : "", k->n, kinds[k->kind].name, k->op, k->root, k->rounds, o->event[0].time);
    open_values(o, &k->s, &c, own_values(k));
    open_values(o, &k->r, &c, own_values(k));
    end_tell(&k->s, "sent"), end_tell(&k->r, "received");
}

static uint64_t value(const unsigned char *p, int size)
{
    uint64_t v = 0;
    memcpy(&v, p, (size_t)size);
    return v;
}

static uint64_t values_of(const struct op *o, int round, int rank)
{
    return o->seed * 32 + (uint64_t)(round * 8 + rank);
}

/* Adds up ranks [0, last]. */
static void reduced(const struct op *o, const struct reduce *k, int round, int last, unsigned char *out)
{
    int size = kinds[k->kind].size;
    for (int i = 0; i < own_values(k); i++) {
        uint64_t all = 0;
        for (int r = 0; r <= last; r++) {
            unsigned char bytes[8];
            for (int b = 0; b < size; b++) bytes[b] = stream_at(values_of(o, round, r), (int64_t)i * size + b);
            uint64_t v = value(bytes, size);
            if (r == 0) all = v;
            else if (k->op == 0) all += v;
            else if (k->op == 1) all = v > all ? v : all;
            else if (k->op == 2) all = v < all ? v : all;
            else all = k->op == 3 ? all & v : k->op == 4 ? all | v : all ^ v;
        }
        memcpy(out + (int64_t)i * size, &all, (size_t)size);
    }
}

static void reduce_check(struct op *o, int round, int code)
{
    struct reduce *k = o->own;
    int size = kinds[k->kind].size, last = k->call == SCAN ? my_rank : k->call == EXSCAN ? my_rank - 1 : ranks - 1;
    unsigned char *out = malloc((size_t)own_values(k) * (size_t)size + 1);
    k->done++;
    digest_numbers(reduction_name[k->call], o->number, error_class(code), 0);
    if (code != MPI_SUCCESS) differ("op %d, %s: error class %d", o->number, reduction_name[k->call], error_class(code));
    bool has = k->call == REDUCE ? my_rank == k->root : k->call == EXSCAN ? my_rank > 0 : true;
    if (has) {
        reduced(o, k, round, last, out);
        if (planted(o) && k->n) out[0] ^= 1;
        int first = k->call == REDUCE_SCATTER_BLOCK ? k->n * my_rank : 0;
        if (k->call == REDUCE_SCATTER_BLOCK && k->in_place) end_accept(&k->r, 0);   /* the rest may be anything */
        end_put_bytes(&k->r, 0, out + (int64_t)first * size, (int64_t)k->n * size);
    } else if (k->call == EXSCAN) {
        end_accept(&k->r, 0);   /* of the first rank nothing is said */
    }
    end_check(&k->r, reduction_name[k->call]);
    end_check(&k->s, reduction_name[k->call]);
    free(out);
}

static void reduce_act(struct op *o, const struct event *e)
{
    struct reduce *k = o->own;
    MPI_Comm comm = o->strand->comms[COMM_WORLD].comm;
    MPI_Datatype t = kinds[k->kind].type;
    MPI_Op op = operation(k->op);
    bool place = k->in_place && (k->call != REDUCE || my_rank == k->root);
    void *s = place ? MPI_IN_PLACE : k->s.buf, *r = k->r.buf;
    MPI_Request *q = &k->request;
    int code;
    end_clear(&k->s, o->seed), end_put(&k->s, 0, values_of(o, e->round, my_rank)), end_store(&k->s);
    end_clear(&k->r, o->seed + 1);
    if (place) end_put(&k->r, 0, values_of(o, e->round, my_rank));
    end_store(&k->r);
#define CALL(N, I, ...)                                                                                                         \
    code = !k->later ? MPI_##N(__VA_ARGS__) : !k->persistent ? MPI_##I(__VA_ARGS__, q) \
         : e->round ? MPI_SUCCESS : PERSISTENT_INIT(N, q, __VA_ARGS__)
    switch (k->call) {
    case REDUCE: CALL(Reduce, Ireduce, s, r, k->n, t, op, k->root, comm); break;
    case ALLREDUCE: CALL(Allreduce, Iallreduce, s, r, k->n, t, op, comm); break;
    case SCAN: CALL(Scan, Iscan, s, r, k->n, t, op, comm); break;
    case EXSCAN: CALL(Exscan, Iexscan, s, r, k->n, t, op, comm); break;
    default: CALL(Reduce_scatter_block, Ireduce_scatter_block, s, r, k->n, t, op, comm);
    }
    if (!k->later) reduce_check(o, e->round, code);
    else if (code != MPI_SUCCESS) differ("op %d: %s begins with class %d", o->number, reduction_name[k->call], error_class(code));
    else if (k->persistent) op_start(o, q);
}

static MPI_Request *reduce_request(struct op *o, const struct event *e)
{
    (void)e;
    return &((struct reduce *)o->own)->request;
}

static void reduce_done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    (void)s;
    reduce_check(o, e->round, code);
}

static void reduce_finish(struct op *o)
{
    struct reduce *k = o->own;
    if (k->done != k->rounds) differ("op %d: %d reductions of %d are complete", o->number, k->done, k->rounds);
    if (k->persistent && k->request != MPI_REQUEST_NULL) MPI_Request_free(&k->request);
    end_close(&k->s), end_close(&k->r);
}

const struct op_row reduction_row = {"reduction", 2, sizeof(struct reduce), reduce_plan, reduce_prepare, reduce_act, reduce_request,
                                     reduce_done, reduce_finish};
