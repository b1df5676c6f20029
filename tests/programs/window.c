/* window.c: one-sided calls on a window of their own, in epochs of every kind.
 *
 * A window has one to RANKS accesses. Each has a block of its own in the window of its target, and one origin, or all ranks as
 * origins of the same sum: so no order of accesses matters. Rounds come one after another, each an epoch of its own.
 *
 * Windows over device memory on all ranks are stridec's own: what is known of the MPIs' windows does not hold for
 * them. */
#include "known.h"
#include "programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum call { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, CALLS };
static const char *const call_name[CALLS] = {"Put", "Get", "Accumulate", "Get_accumulate", "Fetch_and_op", "Compare_and_swap"};
enum epoch { FENCE, POST_START, LOCK, LOCK_ALL, EXCLUSIVE, EPOCHS };
static const char *const epoch_name[EPOCHS] = {"Win_fence", "Win_start", "Win_lock", "Win_lock_all", "Win_lock, exclusive"};
enum flush { NO_FLUSH, FLUSH, FLUSH_ALL, FLUSH_LOCAL, FLUSH_LOCAL_ALL, FLUSHES };
enum flavor { CREATE, ALLOCATE, DYNAMIC, FLAVORS };
static const char *const flavor_name[FLAVORS] = {"Win_create", "Win_allocate", "Win_create_dynamic"};
enum what { OPEN, POST, BEGIN, ACCESS, FLUSH_NOW, CLOSE, WAIT, REQUEST };
enum { ACCESSES = RANKS, ROUNDS = 2, OPERATIONS = 5 };

struct access {
    enum call call;
    bool requests, large, every;      /* by a call with a request; a large-count call; from all ranks, not from one */
    int round, from, to, kind, op;    /* ranks of the communicator */
    struct unit unit;
    int units, origin_each, there_each;
    bool absolute, equal;             /* equal: compares with what is there */
    struct layout there;
    /* At its origin. */
    struct end origin, result, compare;
    MPI_Request request;
    bool begun, over;
    /* At its target. */
    bool applied;
};

struct window {
    int comm, rounds, n, unit_bytes;
    enum flavor flavor;
    bool own;
    enum epoch epoch[ROUNDS];
    enum flush flush[ROUNDS];
    bool all_take_part[ROUNDS];
    struct access access[ACCESSES];
    int me;
    struct end memory;                /* block i of access i */
    MPI_Win win;
    MPI_Aint base[RANKS];             /* what displacements at a rank begin with */
};

static MPI_Op operation(int i)
{
    MPI_Op all[OPERATIONS] = {MPI_SUM, MPI_REPLACE, MPI_BAND, MPI_BXOR, MPI_NO_OP};
    return all[i];
}

static bool accumulates(enum call c) { return c >= ACCUMULATE; }
static bool single(enum call c) { return c >= FETCH_AND_OP; }
static bool fetches(enum call c) { return c != PUT && c != ACCUMULATE; }
static bool passive(enum epoch e) { return e >= LOCK; }

/* ---- plan ---- */

static void plan_access(struct access *a, struct chance *c, const struct window *w, int members)
{
    static const int integers[] = {0, 6, 8, 9};   /* of no other size: Open MPI 4.1's sums of short integers stop at the largest */
    enum epoch e;
    a->call = once_in(c, 2) ? (enum call)draw(c, 2) : (enum call)draw(c, CALLS);
    a->round = draw(c, w->rounds), e = w->epoch[a->round];
    if (KNOWN_FETCHES && !w->own && fetches(a->call) && (e == LOCK || e == LOCK_ALL)) a->call = PUT;
    a->from = draw(c, members), a->to = draw(c, members);
    a->unit = unit_draw(c), a->units = units_draw(c, &a->unit);
    a->kind = integers[draw(c, 4)], a->op = draw(c, OPERATIONS);
    a->large = once_in(c, 4), a->absolute = once_in(c, 8), a->equal = once_in(c, 2);
    a->requests = once_in(c, 2) && passive(e) && e != EXCLUSIVE && !single(a->call);
    a->every = once_in(c, 4) && a->call == ACCUMULATE && e != EXCLUSIVE && !a->requests;
    if (a->every && a->op == 1) a->op = 0;
    if (a->call == ACCUMULATE && a->op == OPERATIONS - 1) a->op = 0;
    if (KNOWN_ACCUMULATE_ABSOLUTE && !w->own && accumulates(a->call)) a->absolute = false;
    if (accumulates(a->call)) a->unit = (struct unit){.n = 1, .part = {{a->kind, 1}}};
    if (!w->own && a->units * unit_bytes(&a->unit) > KNOWN_ACCESS_MOST)
        a->units = KNOWN_ACCESS_MOST / unit_bytes(&a->unit);
    if (single(a->call)) a->units = 1;
    a->origin_each = draw_divisor(c, a->units ? a->units : 1), a->there_each = draw_divisor(c, a->units ? a->units : 1);
    if (KNOWN_ACCUMULATE && !w->own && accumulates(a->call)) a->there_each = 1;
}

static bool is_origin(const struct access *a, int rank)
{
    return a->every || a->from == rank;
}

static bool takes_part(const struct window *w, int round, int rank, bool as_origin)
{
    for (int i = 0; i < w->n; i++)
        if (w->access[i].round == round && (as_origin ? is_origin(&w->access[i], rank) : w->access[i].to == rank)) return true;
    return w->all_take_part[round];
}

/* What a rank does at one time comes in the order of the events here. */
static void plan_round(struct op *o, struct chance *c, int round, int first, int last)
{
    struct window *w = o->own;
    const struct comm *m = &o->strand->comms[w->comm];
    enum epoch e = w->epoch[round];
    int open = draw_in(c, first, last - 1), close = draw_in(c, open, last), wait = draw_in(c, close, last), n = m->n[0];
    int at[ACCESSES];
    for (int i = 0; i < n; i++) op_event(o, open, m->world[0][i], BLOCK, OPEN, round);
    for (int i = 0; i < n && e == POST_START; i++)
        if (takes_part(w, round, i, false)) op_event(o, open, m->world[0][i], BLOCK, POST, round);
    for (int i = 0; i < n && e != FENCE && e != EXCLUSIVE; i++)
        if (takes_part(w, round, i, true)) op_event(o, open, m->world[0][i], BLOCK, BEGIN, round);
    for (int k = 0; k < w->n; k++) {
        at[k] = draw_in(c, open, close);
        for (int i = 0; i < n; i++)
            if (w->access[k].round == round && is_origin(&w->access[k], i)) op_event(o, at[k], m->world[0][i], BLOCK, ACCESS, k);
    }
    for (int i = 0; i < n && passive(e) && e != EXCLUSIVE && w->flush[round]; i++)
        if (takes_part(w, round, i, true)) op_event(o, close, m->world[0][i], BLOCK, FLUSH_NOW, round);
    for (int i = 0; i < n && e != EXCLUSIVE; i++)
        if (e == FENCE || takes_part(w, round, i, true)) op_event(o, close, m->world[0][i], BLOCK, CLOSE, round);
    for (int i = 0; i < n && e == POST_START; i++)
        if (takes_part(w, round, i, false)) op_event(o, wait, m->world[0][i], BLOCK, WAIT, round);
    for (int k = 0; k < w->n; k++)
        if (w->access[k].round == round && w->access[k].requests)
            op_event(o, draw_in(c, at[k], last), m->world[0][w->access[k].from], DONE, REQUEST, k);
}

static void plan(struct op *o, struct chance *c)
{
    static const int comms[] = {COMM_WORLD, COMM_BACKWARDS, COMM_PART}, sizes[] = {1, 1, 4, 8};
    struct window *w = o->own;
    w->comm = comms[draw(c, 3)];
    w->flavor = once_in(c, 2) ? CREATE : (enum flavor)draw(c, FLAVORS);
    w->own = once_in(c, 2) && w->flavor == CREATE && !setup.host;
    w->unit_bytes = sizes[draw(c, 4)];
    w->rounds = draw_in(c, 1, ROUNDS), w->n = draw_in(c, 1, ACCESSES);
    for (int i = 0; i < ROUNDS; i++) {
        w->epoch[i] = (enum epoch)draw(c, EPOCHS);
        if (!w->own && (KNOWN_EPOCHS || (KNOWN_WIN_WAIT && w->epoch[i] == POST_START))) w->epoch[i] = FENCE;
        w->flush[i] = (enum flush)draw(c, FLUSHES);
        if (KNOWN_FLUSH_LOCAL && !w->own && w->flush[i] >= FLUSH_LOCAL) w->flush[i] -= FLUSH_LOCAL - FLUSH;
        w->all_take_part[i] = once_in(c, 3) && w->epoch[i] != LOCK;
    }
    for (int i = 0; i < w->n; i++) plan_access(&w->access[i], c, w, o->strand->comms[w->comm].n[0]);
    if (KNOWN_WINDOW_THREADS) w->n = 0;
    for (int i = 0; i < w->rounds && w->n; i++) plan_round(o, c, i, i * TIMES / w->rounds, (i + 1) * TIMES / w->rounds - 1);
}

/* ---- memory ---- */

static uint64_t salt_there(const struct op *o, int access) { return o->seed * 64 + (uint64_t)access; }
static uint64_t salt_origin(const struct op *o, int access, int rank) { return o->seed * 64 + 1000 + (uint64_t)(access * 16 + rank); }

static void named_layout(struct layout *l, int kind)
{
    *l = (struct layout){.type = kinds[kind].type, .named = true, .reps = 1, .extent = kinds[kind].extent, .size = kinds[kind].size};
    snprintf(l->text, sizeof l->text, "%s", kinds[kind].name);
    map_add(&l->map, 0, 1, kind, 0);
}

static int elements(int units, int each)
{
    return units / each;
}

/* Blocks of a window lie one after another, at displacements that are multiples of 64. */
static void place_blocks(struct op *o, struct window *w, struct end *e, int rank)
{
    int64_t next = 0;
    *e = (struct end){.strand = o->strand->number, .n = w->n};
    for (int i = 0; i < w->n; i++) {
        struct access *a = &w->access[i];
        int64_t low, high, reach;
        int count = elements(a->units, a->there_each);
        e->block[i] = (struct block){&a->there, a->to == rank ? count : 0, 0};
        if (a->to != rank || count == 0) continue;
        map_range(&a->there.map, &low, &high);
        reach = (count - 1) * a->there.extent;
        if (reach < 0) low += reach;
        else high += reach;
        next = (next + 63) / 64 * 64;
        e->block[i].at = ((low < 0 ? next - low : next) + 63) / 64 * 64;
        next = e->block[i].at + (high > 0 ? high : 0);
    }
}

static int64_t place_of(struct op *o, struct window *w, int access)
{
    struct end e;
    place_blocks(o, w, &e, w->access[access].to);
    return e.block[access].at;
}

static bool keeps_in(enum memory memory)
{
    return memory == HOST || memory == MANAGED || memory == PINNED || (mpi_is_aware() && !setup.near);
}

static void fill_window(struct op *o, struct window *w)
{
    end_clear(&w->memory, o->seed + 77);
    for (int i = 0; i < w->n; i++)
        if (w->access[i].to == w->me) end_put(&w->memory, i, salt_there(o, i));
    end_store(&w->memory);
}

static void open_window(struct op *o, struct window *w)
{
    MPI_Comm comm = o->strand->comms[w->comm].comm;
    struct chance c = chance_of(o->seed, (uint64_t)my_rank + 40);
    enum memory memory = w->own ? DEVICE : w->flavor == ALLOCATE || once_in(&c, 2) ? HOST : memory_draw(&c);
    MPI_Aint at = 0;
    int code;
    place_blocks(o, w, &w->memory, w->me);
    end_place(&w->memory, o->strand->number, &c, w->own || keeps_in(memory) ? memory : HOST);
    struct region *r = &w->memory.region[0];
    while (KNOWN_WINDOW_BASE && !w->own && (uintptr_t)region_origin(r) % 16) r->lead++;
    MPI_Aint bytes = (MPI_Aint)r->bytes - (MPI_Aint)r->lead;
    unsigned char *origin = region_origin(r), *memory_of;
    if (w->flavor != ALLOCATE) fill_window(o, w);
    if (w->flavor == CREATE) {
        code = MPI_Win_create(origin, bytes, w->unit_bytes, MPI_INFO_NULL, comm, &w->win);
    } else if (w->flavor == ALLOCATE) {
        /* Whole lines: with KNOWN_WINDOW_BASE the ranks' parts follow each other. */
        code = MPI_Win_allocate((MPI_Aint)(r->bytes + 63) / 64 * 64, w->unit_bytes, MPI_INFO_NULL, comm, &memory_of, &w->win);
        if (r->fresh) free(r->base);
        r->fresh = false, r->base = memory_of, at = (MPI_Aint)r->lead;
        while (at % w->unit_bytes) at++, r->lead++;
    } else {
        code = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w->win);
        if (code == MPI_SUCCESS) code = MPI_Win_attach(w->win, origin, bytes);
        MPI_Get_address(origin, &at);
        w->unit_bytes = 1;
    }
    if (code != MPI_SUCCESS) differ("op %d: %s ends with error class %d", o->number, flavor_name[w->flavor], error_class(code));
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
    MPI_Allgather(&at, 1, MPI_AINT, w->base, 1, MPI_AINT, comm);
    if (w->flavor != ALLOCATE) return;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->me, 0, w->win);
    fill_window(o, w);
    MPI_Win_unlock(w->me, w->win);
}

static void open_origin(struct op *o, struct window *w, int i)
{
    struct access *a = &w->access[i];
    uint64_t seed = o->seed + 500 + (uint64_t)(i * 100 + w->me * 10);
    int each = a->origin_each, strand = o->strand->number;
    if (single(a->call)) {
        struct end *ends[] = {&a->origin, &a->result, &a->compare};
        struct chance c = chance_of(seed, 6);
        for (int k = 0; k < 3; k++) {
            *ends[k] = (struct end){.strand = strand, .n = 1, .layouts = 1};
            named_layout(&ends[k]->layout[0], a->kind);
            ends[k]->block[0] = (struct block){&ends[k]->layout[0], 1, 0};
            end_place(ends[k], strand, &c, memory_draw(&c));
        }
    } else {
        if (a->call != GET) end_open(&a->origin, strand, seed, &a->unit, each, elements(a->units, each), OVERLAP_NEVER, a->absolute);
        if (a->call == GET || a->call == GET_ACCUMULATE)
            end_open(&a->result, strand, seed + 1, &a->unit, each, elements(a->units, each), OVERLAP_NEVER, a->absolute);
    }
    if (a->call != GET) end_tell(&a->origin, "origin");
    if (fetches(a->call)) end_tell(&a->result, "result");
}

static void prepare(struct op *o)
{
    struct window *w = o->own;
    w->me = comm_rank(&o->strand->comms[w->comm], my_rank);
    if (w->me < 0 || !w->n) return;
    tell("op %d: %s%s, communicator %d, displacements of %d, %d rounds", o->number, flavor_name[w->flavor],
         w->own ? " over device memory" : "", w->comm, w->unit_bytes, w->rounds);
    for (int i = 0; i < w->rounds; i++) tell("    round %d: %s, flush %d", i, epoch_name[w->epoch[i]], w->flush[i]);
    for (int i = 0; i < w->n; i++) {
        struct access *a = &w->access[i];
        a->request = MPI_REQUEST_NULL;
        if (single(a->call) || (KNOWN_ACCUMULATE && !w->own && accumulates(a->call))) named_layout(&a->there, a->kind);
        else layout_draw(&a->there, o->seed + 300 + (uint64_t)i, &a->unit, a->there_each, elements(a->units, a->there_each), OVERLAP_NEVER);
        tell("    access %d, round %d: %s%s%s from %d to %d, operation %d, there: %d x %s", i, a->round, call_name[a->call],
             a->requests ? ", with a request" : "", a->every ? ", from all" : "", a->from, a->to, a->op, elements(a->units, a->there_each),
             a->there.text);
        if (is_origin(a, w->me)) open_origin(o, w, i);
    }
    for (int i = 0; i < o->n && setup.tell; i++)
        if (o->event[i].rank == my_rank)
            tell("    time %d, rank %d: event %d of %d", o->event[i].time, my_rank, o->event[i].what, o->event[i].round);
    open_window(o, w);
    end_tell(&w->memory, "window");
}

/* ---- what accesses do ---- */

static uint64_t integer(const unsigned char *p, int size)
{
    uint64_t v = 0;
    memcpy(&v, p, (size_t)size);
    return v;
}

/* `there` becomes what an operation with `by` makes of it. */
static void combine(const struct access *a, unsigned char *there, const unsigned char *by, int64_t bytes)
{
    int size = kinds[a->kind].size;
    for (int64_t i = 0; i + size <= bytes; i += size) {
        uint64_t x = integer(there + i, size), y = integer(by + i, size);
        x = a->op == 0 ? x + y : a->op == 1 ? y : a->op == 2 ? (x & y) : a->op == 3 ? (x ^ y) : x;
        memcpy(there + i, &x, (size_t)size);
    }
}

static unsigned char *content(uint64_t salt, int64_t bytes)
{
    unsigned char *p = malloc((size_t)bytes + 1);
    for (int64_t i = 0; i < bytes; i++) p[i] = stream_at(salt, i);
    return p;
}

static int64_t bytes_of(const struct access *a)
{
    return (int64_t)a->units * unit_bytes(&a->unit);
}

/* What a block holds when its access is complete. */
static void apply(struct op *o, struct window *w, int i)
{
    struct access *a = &w->access[i];
    int64_t bytes = bytes_of(a);
    a->applied = true;
    if (a->call == GET || (a->call == COMPARE_AND_SWAP && !a->equal)) return;
    unsigned char *there = content(salt_there(o, i), bytes);
    for (int rank = 0; rank < o->strand->comms[w->comm].n[0]; rank++) {
        if (!is_origin(a, rank)) continue;
        unsigned char *by = content(salt_origin(o, i, rank) + (planted(o)), bytes);
        if (a->call == PUT || a->call == COMPARE_AND_SWAP) memcpy(there, by, (size_t)bytes);
        else combine(a, there, by, bytes);
        free(by);
    }
    end_put_bytes(&w->memory, i, there, bytes);
    free(there);
}

static void apply_rounds(struct op *o, struct window *w, int last)
{
    for (int i = 0; i < w->n; i++)
        if (w->access[i].to == w->me && w->access[i].round <= last && !w->access[i].applied) apply(o, w, i);
}

static void check_origin(struct op *o, struct window *w, int i)
{
    struct access *a = &w->access[i];
    char what[100];
    if (!a->begun || a->over) return;
    snprintf(what, sizeof what, "op %d, access %d: the origin's buffers of %s", o->number, i, call_name[a->call]);
    a->over = true;
    if (fetches(a->call)) {
        end_expect(&a->result, 0, salt_there(o, i) + (planted(o)), bytes_of(a));
        end_check(&a->result, what);
    }
    if (a->call != GET) end_check(&a->origin, what);
    if (a->call == COMPARE_AND_SWAP) end_check(&a->compare, what);
}

/* Those of a round that a synchronisation has completed. */
static void check_origins(struct op *o, struct window *w, int round)
{
    for (int i = 0; i < w->n; i++)
        if (w->access[i].round == round) check_origin(o, w, i);
}

/* ---- the calls ---- */

static void fill_origin(struct op *o, struct window *w, int i)
{
    struct access *a = &w->access[i];
    struct end *ends[] = {&a->origin, &a->result, &a->compare};
    for (int k = 0; k < 3; k++) {
        if (!ends[k]->open) continue;
        end_clear(ends[k], o->seed + (uint64_t)(3 * i + k));
        if (k == 0) end_put(ends[k], 0, salt_origin(o, i, w->me));
        if (k == 2) end_put(ends[k], 0, a->equal ? salt_there(o, i) : salt_origin(o, i, w->me) + 12345);
        end_store(ends[k]);
    }
}

static int start(struct op *o, struct window *w, int i)
{
    struct access *a = &w->access[i];
    struct block *b = &a->origin.block[0], *r = &a->result.block[0];
    MPI_Op op = operation(a->op);
    MPI_Datatype t = a->there.type, kind = kinds[a->kind].type;
    MPI_Aint at = w->base[a->to];
    int n = elements(a->units, a->there_each);
    at = w->flavor == DYNAMIC ? MPI_Aint_add(at, place_of(o, w, i)) : (at + place_of(o, w, i)) / w->unit_bytes;
#define FROM a->origin.buf, b->count, b->layout->type
#define INTO a->result.buf, r->count, r->layout->type
#define THERE a->to, at, n, t
#if MPI_VERSION >= 4
#define CALL(small, ...) return a->large ? small##_c(__VA_ARGS__) : small(__VA_ARGS__)
#else
#define CALL(small, ...) return small(__VA_ARGS__)
#endif
    switch (a->call) {
    case PUT:
        if (a->requests) CALL(MPI_Rput, FROM, THERE, w->win, &a->request);
        CALL(MPI_Put, FROM, THERE, w->win);
    case GET:
        if (a->requests) CALL(MPI_Rget, INTO, THERE, w->win, &a->request);
        CALL(MPI_Get, INTO, THERE, w->win);
    case ACCUMULATE:
        if (a->requests) CALL(MPI_Raccumulate, FROM, THERE, op, w->win, &a->request);
        CALL(MPI_Accumulate, FROM, THERE, op, w->win);
    case GET_ACCUMULATE:
        if (a->requests) CALL(MPI_Rget_accumulate, FROM, INTO, THERE, op, w->win, &a->request);
        CALL(MPI_Get_accumulate, FROM, INTO, THERE, op, w->win);
    case FETCH_AND_OP: return MPI_Fetch_and_op(a->origin.buf, a->result.buf, kind, a->to, at, op, w->win);
    default: return MPI_Compare_and_swap(a->origin.buf, a->compare.buf, a->result.buf, kind, a->to, at, w->win);
    }
}

static void access(struct op *o, struct window *w, int i)
{
    struct access *a = &w->access[i];
    bool exclusive = w->epoch[a->round] == EXCLUSIVE;
    enum flush flush = w->flush[a->round];
    fill_origin(o, w, i);
    if (exclusive) op_must(o, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, a->to, 0, w->win), "MPI_Win_lock");
    op_must(o, start(o, w, i), call_name[a->call]);
    a->begun = true;
    if (!exclusive) return;
    if (flush) op_must(o, flush == FLUSH ? MPI_Win_flush(a->to, w->win) : MPI_Win_flush_local(a->to, w->win), "MPI_Win_flush");
    if (flush) check_origin(o, w, i);
    op_must(o, MPI_Win_unlock(a->to, w->win), "MPI_Win_unlock");
    check_origin(o, w, i);
}

/* Of those that access this rank in a round, or that it accesses. */
static MPI_Group peers(struct op *o, struct window *w, int round, bool origins)
{
    MPI_Group all, group;
    int list[RANKS], n = 0;
    for (int rank = 0; rank < o->strand->comms[w->comm].n[0]; rank++) {
        bool in = w->all_take_part[round];
        for (int i = 0; i < w->n; i++) {
            struct access *a = &w->access[i];
            if (a->round == round && (origins ? a->to == w->me && is_origin(a, rank) : a->to == rank && is_origin(a, w->me))) in = true;
        }
        if (in) list[n++] = rank;
    }
    MPI_Win_get_group(w->win, &all);
    MPI_Group_incl(all, n, list, &group);
    MPI_Group_free(&all);
    return group;
}

/* Once for each target of this rank's accesses. */
static void each_target(struct op *o, struct window *w, int round, int call(int, MPI_Win), const char *name)
{
    bool seen[RANKS] = {false};
    for (int i = 0; i < w->n; i++) {
        struct access *a = &w->access[i];
        if (a->round != round || !is_origin(a, w->me) || seen[a->to]) continue;
        seen[a->to] = true;
        op_must(o, call(a->to, w->win), name);
    }
}

static int lock_shared(int rank, MPI_Win win)
{
    return MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
}

static void open_epoch(struct op *o, struct window *w, int round)
{
    if (round) apply_rounds(o, w, round - 1);
    MPI_Barrier(o->strand->comms[w->comm].comm);
    if (w->epoch[round] == FENCE) op_must(o, MPI_Win_fence(o->seed % 2 ? MPI_MODE_NOPRECEDE : 0, w->win), "MPI_Win_fence");
}

static void begin(struct op *o, struct window *w, int round)
{
    if (w->epoch[round] == LOCK) each_target(o, w, round, lock_shared, "MPI_Win_lock");
    if (w->epoch[round] == LOCK_ALL) op_must(o, MPI_Win_lock_all(0, w->win), "MPI_Win_lock_all");
    if (w->epoch[round] != POST_START) return;
    MPI_Group to = peers(o, w, round, false);
    op_must(o, MPI_Win_start(to, 0, w->win), "MPI_Win_start");
    MPI_Group_free(&to);
}

static void flush(struct op *o, struct window *w, int round)
{
    switch (w->flush[round]) {
    case FLUSH: each_target(o, w, round, MPI_Win_flush, "MPI_Win_flush"); break;
    case FLUSH_LOCAL: each_target(o, w, round, MPI_Win_flush_local, "MPI_Win_flush_local"); break;
    case FLUSH_ALL: op_must(o, MPI_Win_flush_all(w->win), "MPI_Win_flush_all"); break;
    default: op_must(o, MPI_Win_flush_local_all(w->win), "MPI_Win_flush_local_all");
    }
    check_origins(o, w, round);
}

static void check_window(struct op *o, struct window *w, int round)
{
    char what[60];
    snprintf(what, sizeof what, "op %d: the window after round %d", o->number, round);
    apply_rounds(o, w, round);
    end_check(&w->memory, what);
}

static void close_epoch(struct op *o, struct window *w, int round)
{
    switch (w->epoch[round]) {
    case FENCE: op_must(o, MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win), "MPI_Win_fence"); break;
    case POST_START: op_must(o, MPI_Win_complete(w->win), "MPI_Win_complete"); break;
    case LOCK: each_target(o, w, round, MPI_Win_unlock, "MPI_Win_unlock"); break;
    default: op_must(o, MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
    }
    check_origins(o, w, round);
    if (w->epoch[round] == FENCE) check_window(o, w, round);
}

static void post(struct op *o, struct window *w, int round)
{
    MPI_Group from = peers(o, w, round, true);
    op_must(o, MPI_Win_post(from, 0, w->win), "MPI_Win_post");
    MPI_Group_free(&from);
}

static void act(struct op *o, const struct event *e)
{
    struct window *w = o->own;
    switch ((enum what)e->what) {
    case OPEN: open_epoch(o, w, e->round); break;
    case POST: post(o, w, e->round); break;
    case BEGIN: begin(o, w, e->round); break;
    case ACCESS: access(o, w, e->round); break;
    case FLUSH_NOW: flush(o, w, e->round); break;
    case CLOSE: close_epoch(o, w, e->round); break;
    default:
        op_must(o, MPI_Win_wait(w->win), "MPI_Win_wait");
        check_window(o, w, e->round);
    }
}

static MPI_Request *request(struct op *o, const struct event *e)
{
    return &((struct window *)o->own)->access[e->round].request;
}

static void done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    (void)s;
    op_must(o, code, "the end of a one-sided request");
    if (!KNOWN_RGET || ((struct window *)o->own)->own) check_origin(o, o->own, e->round);
}

static void finish(struct op *o)
{
    struct window *w = o->own;
    if (w->me < 0 || !w->n) return;
    MPI_Barrier(o->strand->comms[w->comm].comm);
    op_must(o, MPI_Win_lock(MPI_LOCK_SHARED, w->me, 0, w->win), "MPI_Win_lock");
    check_window(o, w, w->rounds);
    op_must(o, MPI_Win_unlock(w->me, w->win), "MPI_Win_unlock");
    if (w->flavor == DYNAMIC) {
        MPI_Barrier(o->strand->comms[w->comm].comm);
        MPI_Win_detach(w->win, region_origin(&w->memory.region[0]));
    }
    MPI_Win_free(&w->win);
    for (int i = 0; i < w->n; i++) {
        struct access *a = &w->access[i];
        if (is_origin(a, w->me) && !a->over) differ("op %d: access %d is not complete", o->number, i);
        end_close(&a->origin), end_close(&a->result), end_close(&a->compare);
        layout_free(&a->there);
    }
    w->memory.layouts = 0;
    end_close(&w->memory);
}

const struct op_row window_row = {"window", 2, sizeof(struct window), plan, prepare, act, request, done, finish};
