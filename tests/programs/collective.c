/* collective.c: collectives that move data: blocking, nonblocking and persistent, in place or not, among a group, between two, and
 * among neighbours.
 *
 * Between ranks i and j travel n(i, j) units. A rank's send buffer has a block for each rank that it sends to, or one for all. */
#include "known.h"
#include "../mpi/persistent.h"
#include "programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum call { BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, BARRIER,
            NEAR_ALLGATHER, NEAR_ALLGATHERV, NEAR_ALLTOALL, NEAR_ALLTOALLV, NEAR_ALLTOALLW, CALLS };
static const char *const call_name[CALLS] = {
    "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Barrier",
    "Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"};
enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static const char *const form_name[FORMS] = {"blocking", "nonblocking", "persistent"};
static const char *const event_name[] = {"begins", "ends", "calls MPI_Barrier"};
enum { ROUNDS = 3 };

struct collective {
    enum call call;
    enum form form;
    int comm, root, rounds;
    bool in_place;
    struct unit unit;
    int base;                        /* units of an element at most; all numbers of units are multiples */
    int n[RANKS][RANKS];
    uint64_t seed[RANKS][2];
    struct end s, r;
    MPI_Request request;
    int done;
    /* This rank's. */
    int me, targets[RANKS], ntargets, sources[RANKS], nsources;
    int counts[2][RANKS], displs[2][RANKS], bytes[2][RANKS];
    MPI_Aint wide_bytes[2][RANKS];
    MPI_Datatype types[2][RANKS];
};

static bool near(enum call c) { return c >= NEAR_ALLGATHER; }
static bool of_root(enum call c) { return c <= SCATTERV; }
static bool from_root(enum call c) { return c == BCAST || c == SCATTER || c == SCATTERV; }
static bool to_root(enum call c) { return c == GATHER || c == GATHERV; }
/* A block for each target; else one for all. */
static bool by_target(enum call c)
{
    return c == SCATTER || c == SCATTERV || (c >= ALLTOALL && c <= ALLTOALLW) || c >= NEAR_ALLTOALL;
}
static bool types_differ(enum call c) { return c == ALLTOALLW || c == NEAR_ALLTOALLW; }
static bool counts_differ(enum call c)
{
    return c == GATHERV || c == SCATTERV || c == ALLGATHERV || c == ALLTOALLV || c == ALLTOALLW || c == NEAR_ALLGATHERV
           || c >= NEAR_ALLTOALLV;
}

/* ---- plan ---- */

static void plan_numbers(struct collective *k, struct chance *c)
{
    static const int bases[] = {1, 2, 4, 6, 12, 60};
    bool pairs = unit_pairs(&k->unit) || k->unit.n > 1;
    k->base = bases[draw(c, once_in(c, 4) ? 6 : 5)];
    int most = once_in(c, 6) && !(KNOWN_STRUCTS && pairs) ? 200 : once_in(c, 2) ? 12 : 4, all = draw(c, most + 1);
    if (setup.most) k->base = 1, all = all > setup.most ? setup.most : all, most = most > setup.most ? setup.most : most;
    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < RANKS; j++) {
            int a = draw(c, most + 1);
            k->n[i][j] = counts_differ(k->call) && !setup.most ? a * k->base : all * k->base;
        }
    for (int i = 0; i < RANKS; i++)   /* one block for all; in place as many both ways */
        for (int j = 0; j < RANKS; j++) {
            if (to_root(k->call) || k->call == ALLGATHERV || k->call == NEAR_ALLGATHERV) k->n[i][j] = k->n[i][i];
            if (from_root(k->call)) k->n[i][j] = k->n[j][j];
            if (k->in_place && k->call >= ALLTOALL && i > j) k->n[i][j] = k->n[j][i];
        }
}

/* Forms that the MPIs alone do wrong: blocking ones come instead. Open MPI 4.1: MPI_Ialltoallv and MPI_Ialltoallw in place, and some
 * others between two groups, don't end. MPICH 4.0: the persistent
 * Gather, Allgather and Scatter copy the own block once, MPI_Ibcast between two groups brings something else, and the small forms
 * of MPI_Neighbor_alltoallw on a graph mix up their counts (pmodels/mpich#6233). */
static bool meets_known(const struct collective *k, bool inter)
{
    if (OPEN_MPI_HAS) return inter || (k->in_place && (k->call == ALLTOALLV || k->call == ALLTOALLW || k->call == ALLTOALL));
    return (k->form == PERSISTENT && k->call >= GATHER && k->call <= ALLGATHERV) || (k->call == BCAST && inter);
}

static void plan(struct op *o, struct chance *c)
{
    struct collective *k = o->own;
    static const int comms[] = {COMM_WORLD, COMM_WORLD, COMM_BACKWARDS, COMM_PART, COMM_BETWEEN};
    k->call = (enum call)draw(c, CALLS);
    k->comm = near(k->call) ? (once_in(c, 2) ? COMM_GRID : COMM_GRAPH) : comms[draw(c, 5)];
    if (KNOWN_SHORT && (k->call == GATHER || k->call == SCATTER)) k->call++;   /* to Gatherv, Scatterv */
    k->form = (enum form)draw(c, 3);
    struct comm *m = &o->strand->comms[k->comm];
    k->root = draw(c, RANKS * 2);
    k->in_place = !near(k->call) && !m->inter && k->call != BCAST && k->call != BARRIER && once_in(c, 4);
    if (KNOWN_SHORT && k->call >= ALLTOALL) k->in_place = false;   /* made of MPI_Sendrecv_replace */
    if (k->form == PERSISTENT && (!HAVE_PERSISTENT || k->call == BARRIER)) k->form = NONBLOCKING;
    /* Open MPI 4.1: those that are not blocking may hang where several threads are at them. */
    if (KNOWN_ALLGATHERV && k->call == ALLGATHERV && k->form != BLOCKING) k->in_place = false;
    if (meets_known(k, m->inter) || (OPEN_MPI_HAS && setup.threads > 1)) k->form = BLOCKING;
    if (MPICH_HAS && k->call == NEAR_ALLTOALLW) k->comm = COMM_GRID;
    /* Open MPI 4.1's blocking MPI_Scatterv and MPI_Gatherv between two groups end in an error. */
    if (OPEN_MPI_HAS && m->inter && (k->call == SCATTERV || k->call == GATHERV)) k->call = ALLTOALLV;
    o->alone = KNOWN_PERSISTENT && k->form == PERSISTENT;
    k->rounds = k->form != BLOCKING ? draw_in(c, 1, ROUNDS) : 1;
    bool between = k->form == NONBLOCKING && !once_in(c, 4);   /* a vote: stridec may take the next ones otherwise */
    k->unit = unit_draw(c);
    plan_numbers(k, c);
    for (int i = 0; i < RANKS; i++)
        for (int s = 0; s < 2; s++) {
            uint64_t fresh = o->seed + 10 + (uint64_t)(2 * i + s);
            k->seed[i][s] = once_in(c, 3) ? (uint64_t)draw(c, 6) : fresh;
        }
    for (int round = 0; round < k->rounds; round++) {
        int first = round * TIMES / k->rounds, last = (round + 1) * TIMES / k->rounds - 1, time = draw_in(c, first, last);
        for (int side = 0; side < (m->inter ? 2 : 1); side++)
            for (int i = 0; i < m->n[side]; i++) {
                op_event(o, time, m->world[side][i], k->form == BLOCKING ? BLOCK : START, 0, round);
                if (k->form != BLOCKING) op_event(o, draw_in(c, time, last), m->world[side][i], DONE, 1, round);
                if (between && round < k->rounds - 1) op_event(o, last, m->world[side][i], BLOCK, 2, round);
            }
    }
}

/* ---- the buffers of this rank ---- */

/* The peers are numbered as in the call: ranks of the group, or of the other one; or neighbours. */
static void find_peers(struct op *o, struct collective *k)
{
    struct comm *m = &o->strand->comms[k->comm];
    int side = comm_side(m, my_rank), other = m->inter ? 1 - side : side;
    k->me = comm_rank(m, my_rank);
    if (near(k->call)) {
        k->ntargets = m->ntargets[k->me], k->nsources = m->nsources[k->me];
        memcpy(k->targets, m->targets[k->me], sizeof k->targets);
        memcpy(k->sources, m->sources[k->me], sizeof k->sources);
        return;
    }
    k->ntargets = k->nsources = m->n[other];
    for (int i = 0; i < m->n[other]; i++) k->targets[i] = k->sources[i] = i;
    if (!of_root(k->call)) return;
    /* Between two groups the root is of the first one if the number is even. */
    int root_side = m->inter ? k->root % 2 : 0, root = k->root / 2 % m->n[root_side];
    bool is_root = side == root_side && k->me == root, takes_part = !m->inter || side != root_side;
    if (from_root(k->call)) {
        if (!is_root) k->ntargets = 0;
        k->nsources = takes_part, k->sources[0] = root;
        if (k->call == BCAST && is_root) k->nsources = 0;
    } else {
        if (!is_root) k->nsources = 0;
        k->ntargets = takes_part, k->targets[0] = root;
    }
}

static int root_argument(struct op *o, const struct collective *k)
{
    struct comm *m = &o->strand->comms[k->comm];
    int side = comm_side(m, my_rank), root_side = m->inter ? k->root % 2 : 0, root = k->root / 2 % m->n[root_side];
    if (!m->inter || side != root_side) return root;
    return k->me == root ? MPI_ROOT : MPI_PROC_NULL;
}

static int units_between(const struct collective *k, int i, int j)
{
    return i == MPI_PROC_NULL || j == MPI_PROC_NULL ? k->n[0][0] : k->n[i][j];
}

/* Blocks lie in an order of their own, with gaps. Each has whole elements of a layout. */
static void lay(struct op *o, struct collective *k, struct end *e, bool receives)
{
    struct chance c = chance_of(k->seed[my_rank][receives] + o->seed, 17);
    int peers = receives ? k->nsources : k->ntargets, all = 0, order[RANKS];
    bool wide = types_differ(k->call), placed = counts_differ(k->call) && (receives ? !from_root(k->call) : by_target(k->call));
    int each = draw_divisor(&c, k->base), blocks = !receives && !by_target(k->call) ? peers > 0 : peers, at = 0;
    /* Open MPI 4.1's ranks choose how MPI_Allgatherv goes by the size of the type that they send, each for itself. */
    if (OPEN_MPI_HAS && k->call == ALLGATHERV) each = k->base;
    *e = (struct end){.strand = o->strand->number, .n = blocks};
    for (int i = 0; i < blocks; i++) {
        int peer = receives ? k->sources[i] : k->targets[i];
        int units = receives ? units_between(k, peer, k->me) : by_target(k->call) ? units_between(k, k->me, peer) : k->n[k->me][k->me];
        if (k->call == BCAST) units = k->n[0][0];
        k->counts[receives][i] = e->block[i].count = units / each;
        all += e->block[i].count + 1, order[i] = i;
    }
    for (int i = blocks - 1; i > 0 && placed; i--) {
        int j = draw(&c, i + 1), swap = order[i];
        order[i] = order[j], order[j] = swap;
    }
    e->layouts = wide ? blocks : 1;
    if (blocks == 0) e->layouts = 1;
    for (int i = 0; i < e->layouts; i++)
        layout_draw(&e->layout[i], k->seed[my_rank][receives] + (uint64_t)i, &k->unit, each, wide && blocks ? e->block[i].count : all + 3 * RANKS,
                    OVERLAP_NEVER);
    int64_t next = 0;
    for (int i = 0; i < blocks; i++) {
        int b = order[i], gap = placed ? draw(&c, 3) : 0;
        struct block *block = &e->block[b];
        block->layout = &e->layout[wide ? b : 0];
        k->types[receives][b] = block->layout->type;
        if (wide) {
            int64_t low, high, reach = block->count > 0 ? (block->count - 1) * block->layout->extent : 0;
            map_range(&block->layout->map, &low, &high);
            if (reach < 0) low += reach;
            else high += reach;
            block->at = next - low + gap * 8, next = block->at + high;
            if (block->count == 0) block->at = next;
            k->bytes[receives][b] = (int)block->at, k->wide_bytes[receives][b] = block->at;
        } else {
            k->displs[receives][b] = at + gap;
            block->at = (at + gap) * block->layout->extent;
            at += gap + block->count;
        }
    }
    end_place(e, o->strand->number, &c, memory_draw(&c));
    end_tell(e, receives ? "received" : "sent");
}

static void prepare(struct op *o)
{
    struct collective *k = o->own;
    struct comm *m = &o->strand->comms[k->comm];
    k->request = MPI_REQUEST_NULL;
    if (comm_rank(m, my_rank) < 0) return;
    find_peers(o, k);
    tell("op %d: %s, %s%s, communicator %d, root %d, %d rounds", o->number, call_name[k->call], form_name[k->form],
         k->in_place ? ", in place" : "", k->comm, k->root, k->rounds);
    for (int i = 0; i < o->n && setup.tell; i++)
        if (o->event[i].rank == my_rank)
            tell("    time %d, rank %d: %s", o->event[i].time, my_rank, event_name[o->event[i].what]);
    if (k->call == BARRIER) return;
    lay(o, k, &k->s, false);
    lay(o, k, &k->r, true);
}

/* ---- the calls ---- */

/* Between two groups both may have a rank of the same number: the side of the sender tells them apart. */
static uint64_t salt_of(const struct op *o, const struct collective *k, int round, int from, int to, bool receives)
{
    struct comm *m = &o->strand->comms[k->comm];
    int side = m->inter ? comm_side(m, my_rank) : 0;
    if (m->inter && receives) side = 1 - side;
    return o->seed * 64 + (uint64_t)(side * 7777777 + round * 500 + from * 20 + (by_target(k->call) ? to : 0));
}

/* The place of what a rank sends to itself, and the part of the receive buffer that the call reads. */
static void fill(struct op *o, struct collective *k, int round)
{
    end_clear(&k->s, o->seed + 3 + (uint64_t)round);
    end_clear(&k->r, o->seed + 4 + (uint64_t)round);
    for (int i = 0; i < k->s.n; i++)
        if (k->targets[i] != MPI_PROC_NULL || !by_target(k->call)) end_put(&k->s, i, salt_of(o, k, round, k->me, k->targets[i], false));
    if (!k->in_place) return;
    for (int i = 0; i < k->r.n; i++) {
        if (k->call >= ALLTOALL && k->call <= ALLTOALLW) end_put(&k->r, i, salt_of(o, k, round, k->me, k->sources[i], false));
        else if (k->sources[i] == k->me && !from_root(k->call)) end_put(&k->r, i, salt_of(o, k, round, k->me, k->me, false));
    }
}

static int call(struct op *o, struct collective *k)
{
    MPI_Comm comm = o->strand->comms[k->comm].comm;
    struct comm *m = &o->strand->comms[k->comm];
    struct end *se = &k->s, *re = &k->r;
    bool root = of_root(k->call) && !m->inter && k->me == k->root / 2 % m->n[0];
    void *s = se->buf, *r = re->buf;
    int at = root_argument(o, k), sn = k->counts[0][0], rn = k->counts[1][0];
    MPI_Datatype st = se->open ? se->layout[0].type : MPI_BYTE, rt = re->open ? re->layout[0].type : MPI_BYTE;
    int *sc = k->counts[0], *rc = k->counts[1], *sd = k->displs[0], *rd = k->displs[1], *sb = k->bytes[0], *rb = k->bytes[1];
    MPI_Datatype *sts = k->types[0], *rts = k->types[1];
    MPI_Request *q = &k->request;
    if (!se->n) sn = 0;
    if (!re->n) rn = 0;
    if (k->call == BCAST) r = se->n ? s : r, rn = se->n ? sn : rn, rt = se->n ? st : rt;
    if (k->in_place && (root || !of_root(k->call))) {
        if (from_root(k->call)) r = MPI_IN_PLACE;
        else s = MPI_IN_PLACE;
    }
#define ALL(N, I, ...)                                                                                                       \
    return k->form == BLOCKING ? MPI_##N(__VA_ARGS__) \
         : k->form == NONBLOCKING ? MPI_##I(__VA_ARGS__, q) : PERSISTENT_INIT(N, q, __VA_ARGS__)
    switch (k->call) {
    case BCAST: ALL(Bcast, Ibcast, r, rn, rt, at, comm);
    case GATHER: ALL(Gather, Igather, s, sn, st, r, rn, rt, at, comm);
    case GATHERV: ALL(Gatherv, Igatherv, s, sn, st, r, rc, rd, rt, at, comm);
    case SCATTER: ALL(Scatter, Iscatter, s, sn, st, r, rn, rt, at, comm);
    case SCATTERV: ALL(Scatterv, Iscatterv, s, sc, sd, st, r, rn, rt, at, comm);
    case ALLGATHER: ALL(Allgather, Iallgather, s, sn, st, r, rn, rt, comm);
    case ALLGATHERV: ALL(Allgatherv, Iallgatherv, s, sn, st, r, rc, rd, rt, comm);
    case ALLTOALL: ALL(Alltoall, Ialltoall, s, sn, st, r, rn, rt, comm);
    case ALLTOALLV: ALL(Alltoallv, Ialltoallv, s, sc, sd, st, r, rc, rd, rt, comm);
    case ALLTOALLW: ALL(Alltoallw, Ialltoallw, s, sc, sb, sts, r, rc, rb, rts, comm);
    case NEAR_ALLGATHER: ALL(Neighbor_allgather, Ineighbor_allgather, s, sn, st, r, rn, rt, comm);
    case NEAR_ALLGATHERV: ALL(Neighbor_allgatherv, Ineighbor_allgatherv, s, sn, st, r, rc, rd, rt, comm);
    case NEAR_ALLTOALL: ALL(Neighbor_alltoall, Ineighbor_alltoall, s, sn, st, r, rn, rt, comm);
    case NEAR_ALLTOALLV: ALL(Neighbor_alltoallv, Ineighbor_alltoallv, s, sc, sd, st, r, rc, rd, rt, comm);
    case NEAR_ALLTOALLW:
        ALL(Neighbor_alltoallw, Ineighbor_alltoallw, s, sc, k->wide_bytes[0], sts, r, rc, k->wide_bytes[1], rts, comm);
    default: break;
    }
    if (k->form == BLOCKING) return MPI_Barrier(comm);
#if HAVE_PERSISTENT && MPI_VERSION >= 4
    if (k->form == PERSISTENT) return MPI_Barrier_init(comm, MPI_INFO_NULL, q);
#endif
    return MPI_Ibarrier(comm, q);
}

/* ---- what it must bring ---- */

static void check(struct op *o, struct collective *k, int round, int code)
{
    char what[100];
    snprintf(what, sizeof what, "op %d, %s, round %d", o->number, call_name[k->call], round);
    k->done++;
    digest_numbers(what, error_class(code), 0, 0);
    if (code != MPI_SUCCESS) {
        differ("%s: error class %d", what, error_class(code));
        return;
    }
    if (k->call == BARRIER) return;
    bool root = of_root(k->call) && !o->strand->comms[k->comm].inter && k->me == k->root / 2 % o->strand->comms[k->comm].n[0];
    for (int i = 0; i < k->r.n; i++) {
        if (k->sources[i] == MPI_PROC_NULL) continue;
        if (k->in_place && root && from_root(k->call)) continue;   /* the receive buffer is no argument */
        end_expect(&k->r, i, salt_of(o, k, round, k->sources[i], k->me, true) + (planted(o)), end_bytes(&k->r, i));
    }
    end_check(&k->r, what);
    end_check(&k->s, what);
}

static void act(struct op *o, const struct event *e)
{
    struct collective *k = o->own;
    int code = MPI_SUCCESS;
    if (e->what == 2) {
        op_must(o, MPI_Barrier(o->strand->comms[k->comm].comm), "MPI_Barrier");
        return;
    }
    if (k->call != BARRIER) {
        fill(o, k, e->round);
        end_store(&k->s), end_store(&k->r);
    }
    if (k->form != PERSISTENT || e->round == 0) code = call(o, k);
    if (k->form == BLOCKING) {
        check(o, k, e->round, code);
        return;
    }
    if (code != MPI_SUCCESS) differ("op %d: %s begins with error class %d", o->number, call_name[k->call], error_class(code));
    else if (k->form == PERSISTENT) op_start(o, &k->request);
}

static MPI_Request *request(struct op *o, const struct event *e)
{
    (void)e;
    return &((struct collective *)o->own)->request;
}

static void done(struct op *o, const struct event *e, const MPI_Status *status, int code)
{
    (void)status;
    check(o, o->own, e->round, code);
}

static void finish(struct op *o)
{
    struct collective *k = o->own;
    if (comm_rank(&o->strand->comms[k->comm], my_rank) >= 0 && k->done != k->rounds)
        differ("op %d: %d rounds of %d are complete", o->number, k->done, k->rounds);
    if (k->form == PERSISTENT && k->request != MPI_REQUEST_NULL) MPI_Request_free(&k->request);
    end_close(&k->s), end_close(&k->r);
}

const struct op_row collective_row = {"collective", 6, sizeof(struct collective), plan, prepare, act, request, done, finish};
