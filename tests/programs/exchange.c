/* exchange.c: MPI_Sendrecv and its like, of all ranks of a communicator at once, around a permutation; and receives that are cancelled. */
#include "known.h"
#include "programs.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- exchanges ---- */

enum way { SENDRECV, REPLACE, ISENDRECV, IREPLACE, WAYS };
static const char *const way_name[WAYS] = {"Sendrecv", "Sendrecv_replace", "Isendrecv", "Isendrecv_replace"};

struct exchange {
    int comm, to[RANKS], from[RANKS], units, tag;
    enum way way;
    struct unit unit;
    uint64_t seed[RANKS][2];
    struct end s, r;
    MPI_Request request;
    bool done;
};

static bool replaces(const struct exchange *x)
{
    return x->way == REPLACE || x->way == IREPLACE;
}

static void plan(struct op *o, struct chance *c)
{
    static const int comms[] = {COMM_WORLD, COMM_BACKWARDS, COMM_PART, COMM_GRID};
    struct exchange *x = o->own;
    x->comm = comms[draw(c, 4)];
    struct comm *m = &o->strand->comms[x->comm];
    int n = m->n[0], time = draw(c, TIMES);
    for (int i = 0; i < n; i++) x->to[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = draw(c, i + 1), k = x->to[i];
        x->to[i] = x->to[j], x->to[j] = k;
    }
    for (int i = 0; i < n; i++) x->from[x->to[i]] = i;
    if (once_in(c, 4)) {   /* one of the edges is missing */
        int i = draw(c, n);
        x->from[x->to[i]] = MPI_PROC_NULL, x->to[i] = MPI_PROC_NULL;
    }
    x->way = (enum way)draw(c, MPI_VERSION >= 4 && !KNOWN_ISENDRECV ? WAYS : ISENDRECV);
    x->unit = unit_draw(c);
    x->units = units_draw(c, &x->unit);
    if (KNOWN_STRUCTS && replaces(x) && (x->unit.n > 1 || unit_pairs(&x->unit))) x->way = SENDRECV;   /* it sends packed bytes */
    if (KNOWN_SHORT && replaces(x)) x->way = SENDRECV;
    x->tag = 10 + o->strand->messages++;
    for (int i = 0; i < RANKS; i++) x->seed[i][0] = o->seed + (uint64_t)i, x->seed[i][1] = o->seed + 10 + (uint64_t)i;
    for (int i = 0; i < n; i++) {
        op_event(o, time, m->world[0][i], x->way < ISENDRECV ? BLOCK : START, 0, 0);
        if (x->way >= ISENDRECV) op_event(o, draw_in(c, time, TIMES - 1), m->world[0][i], DONE, 1, 0);
    }
}

static void prepare(struct op *o)
{
    struct exchange *x = o->own;
    struct comm *m = &o->strand->comms[x->comm];
    x->request = MPI_REQUEST_NULL;
    if (comm_rank(m, my_rank) < 0) return;
    struct chance c = chance_of(o->seed, (uint64_t)my_rank);
    int each = draw_divisor(&c, x->units ? x->units : 1), other = draw_divisor(&c, x->units ? x->units : 1);
    tell("op %d: %s, communicator %d, time %d, rank %d from %d to %d", o->number, way_name[x->way], x->comm, o->event[0].time, my_rank,
         x->from[comm_rank(m, my_rank)], x->to[comm_rank(m, my_rank)]);
    end_open(&x->r, o->strand->number, x->seed[my_rank][1], &x->unit, other, x->units / other, OVERLAP_NEVER, once_in(&c, 8));
    end_tell(&x->r, "received");
    if (replaces(x)) return;
    end_open(&x->s, o->strand->number, x->seed[my_rank][0], &x->unit, each, x->units / each, OVERLAP_NEVER, once_in(&c, 8));
    end_tell(&x->s, "sent");
}

static void check(struct op *o, const MPI_Status *s, int code)
{
    struct exchange *x = o->own;
    struct comm *m = &o->strand->comms[x->comm];
    int from = x->from[comm_rank(m, my_rank)], n = -1;
    int64_t bytes = from == MPI_PROC_NULL ? 0 : (int64_t)x->units * unit_bytes(&x->unit);
    char what[60];
    snprintf(what, sizeof what, "op %d, %s", o->number, way_name[x->way]);
    x->done = true;
    digest_numbers(what, error_class(code), 0, 0);
    if (code != MPI_SUCCESS) {
        differ("%s: error class %d", what, error_class(code));
        return;
    }
    if (s && x->way < ISENDRECV) digest_status(what, s, x->r.layout[0].type);
    if (s) MPI_Get_count(s, MPI_BYTE, &n);
    /* MPICH 4.0: the requests of these two tell nothing of what came (runtime/README.md). */
    if (s && x->way < ISENDRECV && (n != bytes || s->MPI_SOURCE != from || s->MPI_TAG != (from == MPI_PROC_NULL ? MPI_ANY_TAG : x->tag)))
        differ("%s: status of %d bytes, source %d, tag %d, not %lld bytes from %d", what, n, s->MPI_SOURCE, s->MPI_TAG,
               (long long)bytes, from);
    end_expect(&x->r, 0, o->seed * 8 + (uint64_t)from + (planted(o)), bytes);
    end_check(&x->r, what);
    if (!replaces(x)) end_check(&x->s, what);
}

static void act(struct op *o, const struct event *e)
{
    struct exchange *x = o->own;
    struct comm *m = &o->strand->comms[x->comm];
    int me = comm_rank(m, my_rank), code = MPI_SUCCESS, to = x->to[me], from = x->from[me];
    struct block *s = &x->s.block[0], *r = &x->r.block[0];
    MPI_Status status;
    (void)e;
    end_clear(&x->r, o->seed + 1);
    if (replaces(x)) end_put(&x->r, 0, o->seed * 8 + (uint64_t)me);
    end_store(&x->r);
    if (!replaces(x)) {
        end_clear(&x->s, o->seed + 2);
        end_put(&x->s, 0, o->seed * 8 + (uint64_t)me);
        end_store(&x->s);
    }
    MPI_Datatype t = r->layout->type;
    if (x->way == SENDRECV)
        code = MPI_Sendrecv(x->s.buf, s->count, s->layout->type, to, x->tag, x->r.buf, r->count, t, from, x->tag, m->comm, &status);
    else if (x->way == REPLACE)
        code = MPI_Sendrecv_replace(x->r.buf, r->count, t, to, x->tag, from, x->tag, m->comm, &status);
#if MPI_VERSION >= 4
    else if (x->way == ISENDRECV)
        code = MPI_Isendrecv(x->s.buf, s->count, s->layout->type, to, x->tag, x->r.buf, r->count, t, from, x->tag, m->comm, &x->request);
    else
        code = MPI_Isendrecv_replace(x->r.buf, r->count, t, to, x->tag, from, x->tag, m->comm, &x->request);
#endif
    if (x->way < ISENDRECV) check(o, &status, code);
    else if (code != MPI_SUCCESS) differ("op %d: %s begins with error class %d", o->number, way_name[x->way], error_class(code));
}

static MPI_Request *request(struct op *o, const struct event *e)
{
    (void)e;
    return &((struct exchange *)o->own)->request;
}

static void done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    (void)e;
    check(o, s, code);
}

static void finish(struct op *o)
{
    struct exchange *x = o->own;
    if (comm_rank(&o->strand->comms[x->comm], my_rank) >= 0 && !x->done) differ("op %d: an exchange is not complete", o->number);
    end_close(&x->s), end_close(&x->r);
}

const struct op_row exchange_row = {"exchange", 2, sizeof(struct exchange), plan, prepare, act, request, done, finish};

/* ---- receives that nobody answers ---- */

struct cancel {
    int rank, tag;
    bool persistent;
    struct unit unit;
    struct end r;
    MPI_Request request;
};

static void cancel_plan(struct op *o, struct chance *c)
{
    struct cancel *k = o->own;
    int begin = draw(c, TIMES), stop = draw_in(c, begin, TIMES - 1);
    k->rank = draw(c, ranks), k->tag = 5000 + o->number;
    k->persistent = once_in(c, 3);
    k->unit = unit_draw(c);
    op_event(o, begin, k->rank, START, 0, 0);
    op_event(o, stop, k->rank, START, 1, 0);
    op_event(o, draw_in(c, stop, TIMES - 1), k->rank, DONE, 2, 0);
}

static void cancel_prepare(struct op *o)
{
    struct cancel *k = o->own;
    if (k->rank != my_rank) return;
    end_open(&k->r, o->strand->number, o->seed, &k->unit, 12, 3, OVERLAP_NEVER, false);
    tell("op %d: a receive of rank %d that is cancelled, times %d, %d, %d", o->number, my_rank, o->event[0].time, o->event[1].time,
         o->event[2].time);
    end_tell(&k->r, "received");
}

static void cancel_act(struct op *o, const struct event *e)
{
    struct cancel *k = o->own;
    MPI_Comm comm = o->strand->comms[COMM_WORLD].comm;
    struct block *b = &k->r.block[0];
    if (e->what == 1) {
        MPI_Cancel(&k->request);
        return;
    }
    end_clear(&k->r, o->seed);
    end_store(&k->r);
    if (!k->persistent) MPI_Irecv(k->r.buf, b->count, b->layout->type, (k->rank + 1) % ranks, k->tag, comm, &k->request);
    else MPI_Recv_init(k->r.buf, b->count, b->layout->type, (k->rank + 1) % ranks, k->tag, comm, &k->request), MPI_Start(&k->request);
}

static MPI_Request *cancel_request(struct op *o, const struct event *e)
{
    (void)e;
    return &((struct cancel *)o->own)->request;
}

static void cancel_done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    struct cancel *k = o->own;
    int gone = 1;
    (void)e;
    if (s) MPI_Test_cancelled(s, &gone);
    digest_numbers("a cancelled receive", o->number, s ? gone : -1, error_class(code));
    if (!gone || code != MPI_SUCCESS) differ("op %d: a cancelled receive ends with class %d, cancelled: %d", o->number, error_class(code), gone);
    end_check(&k->r, "a cancelled receive");
}

static void cancel_finish(struct op *o)
{
    struct cancel *k = o->own;
    if (k->rank != my_rank) return;
    if (k->persistent) MPI_Request_free(&k->request);
    end_close(&k->r);
}

const struct op_row cancel_row = {"cancel", 1, sizeof(struct cancel), cancel_plan, cancel_prepare, cancel_act, cancel_request,
                                  cancel_done, cancel_finish};
