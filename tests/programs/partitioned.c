/* partitioned.c: messages whose parts are told ready one by one, where the MPI has them (MPI 4). */
#include "known.h"
#include "programs.h"

#if MPI_VERSION >= 4
#include <sched.h>
#include <stdio.h>

enum { ROUNDS = 2, PARTS = 12, NO_TAG = 32000 };
enum what { SEND_BEGIN, READY, SEND_END, RECEIVE_BEGIN, ARRIVED, RECEIVE_END };
enum way { ONE, RANGE, LIST, WAYS };

struct partitioned {
    int from, to, tag, rounds;
    struct unit unit;
    int units, each[2], parts[2];     /* units of an element, and parts: of the sender and of the receiver */
    int begin[PARTS + 1], n;          /* parts [begin[i], begin[i + 1]) become ready together */
    enum way way[PARTS];
    bool asks;                        /* for single parts, with MPI_Parrived */
    struct end s, r;
    MPI_Request request[2];
    int filled, done;                 /* rounds */
};

static void plan(struct op *o, struct chance *c)
{
    struct partitioned *p = o->own;
    p->from = draw(c, ranks), p->to = draw(c, ranks);
    p->unit = unit_draw(c);
    p->units = units_draw(c, &p->unit) / 12 * 12;
    if (!p->units) p->units = 12;
    for (int i = 0; i < 2; i++) {
        p->each[i] = draw_divisor(c, p->units);
        p->parts[i] = draw_divisor(c, p->units / p->each[i]);
        if (p->parts[i] > PARTS) p->parts[i] = 1;
    }
    o->told = KNOWN_PERSISTENT;   /* MPI_Testall without statuses takes them for errors too */
    p->asks = once_in(c, 2), p->rounds = draw_in(c, 1, ROUNDS), p->tag = 10 + o->strand->messages++;
    for (int at = 0; at < p->parts[0]; p->n++) {
        p->way[p->n] = (enum way)draw(c, WAYS), p->begin[p->n] = at;
        at = p->way[p->n] == ONE ? at + 1 : draw_in(c, at + 1, p->parts[0]);
        p->begin[p->n + 1] = at;
    }
    for (int round = 0; round < p->rounds; round++) {
        int first = round * TIMES / p->rounds, last = (round + 1) * TIMES / p->rounds - 1;
        int s = draw_in(c, first, last), r = draw_in(c, first, last), all = s > r ? s : r;
        op_event(o, s, p->from, START, SEND_BEGIN * PARTS, round);
        op_event(o, r, p->to, START, RECEIVE_BEGIN * PARTS, round);
        for (int i = 0; i < p->n; i++) {
            int time = draw_in(c, s, last);
            if (time > all) all = time;
            op_event(o, time, p->from, BLOCK, READY * PARTS + i, round);
        }
        op_event(o, draw_in(c, all, last), p->from, DONE, SEND_END * PARTS, round);
        int end = draw_in(c, all, last);
        op_event(o, end, p->to, DONE, RECEIVE_END * PARTS, round);
        if (p->asks) op_event(o, draw_in(c, all, KNOWN_PARRIVED ? end : last), p->to, BLOCK, ARRIVED * PARTS, round);
    }
}

static void prepare(struct op *o)
{
    struct partitioned *p = o->own;
    int strand = o->strand->number;
    p->request[0] = p->request[1] = MPI_REQUEST_NULL;
    tell("op %d: a partitioned message, rank %d to rank %d, tag %d, %d rounds, %d and %d parts of %d units, ready in %d calls", o->number,
         p->from, p->to, p->tag, p->rounds, p->parts[0], p->parts[1], p->units, p->n);
    for (int i = 0; i < o->n && setup.tell; i++)
        tell("    time %d, rank %d: event %d of round %d", o->event[i].time, o->event[i].rank, o->event[i].what, o->event[i].round);
    if (p->from == my_rank) {
        end_open(&p->s, strand, o->seed + 1, &p->unit, p->each[0], p->units / p->each[0], OVERLAP_NEVER, false);
        end_tell(&p->s, "sent");
    }
    if (p->to == my_rank) {
        end_open(&p->r, strand, o->seed + 2, &p->unit, p->each[1], p->units / p->each[1], OVERLAP_NEVER, false);
        end_tell(&p->r, "received");
    }
}

static uint64_t salt_of(const struct op *o, int round)
{
    return o->seed * 16 + (uint64_t)round;
}

static void begin(struct op *o, bool sends, int round)
{
    struct partitioned *p = o->own;
    struct end *e = sends ? &p->s : &p->r;
    MPI_Request *q = &p->request[!sends];
    MPI_Comm comm = o->strand->comms[COMM_WORLD].comm;
    int parts = p->parts[!sends], code = MPI_SUCCESS;
    MPI_Count count = e->block[0].count / parts;
    MPI_Datatype t = e->layout[0].type;
    end_clear(e, salt_of(o, round) + 5 + sends);
    end_store(e);
    if (round == 0 && sends) code = MPI_Psend_init(e->buf, parts, count, t, p->to, p->tag, comm, MPI_INFO_NULL, q);
    if (round == 0 && !sends) code = MPI_Precv_init(e->buf, parts, count, t, p->from, p->tag, comm, MPI_INFO_NULL, q);
    op_must(o, code, sends ? "MPI_Psend_init" : "MPI_Precv_init");
    if (code == MPI_SUCCESS) op_start(o, q);
}

static void ready(struct op *o, int i, int round)
{
    struct partitioned *p = o->own;
    MPI_Request q = p->request[0];
    int low = p->begin[i], high = p->begin[i + 1] - 1, list[PARTS], n = 0, code;
    if (p->filled == round) {   /* no part changes after it was told ready */
        end_put(&p->s, 0, salt_of(o, round));
        end_store(&p->s);
        p->filled++;
    }
    for (int k = high; k >= low; k--) list[n++] = k;
    code = p->way[i] == ONE ? MPI_Pready(low, q) : p->way[i] == RANGE ? MPI_Pready_range(low, high, q) : MPI_Pready_list(n, list, q);
    op_must(o, code, "MPI_Pready");
}

/* Waits for each part by itself. */
static void arrived(struct op *o)
{
    struct partitioned *p = o->own;
    for (int i = p->parts[1] - 1; i >= 0; i--) {
        int flag = 0, other, code = MPI_SUCCESS;
        while (!flag && code == MPI_SUCCESS) {
            code = MPI_Parrived(p->request[1], i, &flag);
            if (!flag && KNOWN_PARRIVED) MPI_Iprobe(0, NO_TAG, o->strand->comms[COMM_WORLD].comm, &other, MPI_STATUS_IGNORE);
            if (!flag) sched_yield();
        }
        op_must(o, code, "MPI_Parrived");
    }
}

static void check(struct op *o, int round)
{
    struct partitioned *p = o->own;
    char what[60];
    snprintf(what, sizeof what, "op %d, the parts of round %d", o->number, round);
    end_expect(&p->r, 0, salt_of(o, round) + planted(o), end_bytes(&p->r, 0));
    end_check(&p->r, what);
}

static void act(struct op *o, const struct event *e)
{
    switch ((enum what)(e->what / PARTS)) {
    case SEND_BEGIN: begin(o, true, e->round); break;
    case RECEIVE_BEGIN: begin(o, false, e->round); break;
    case READY: ready(o, e->what % PARTS, e->round); break;
    default:
        arrived(o);
        check(o, e->round);
    }
}

static MPI_Request *request(struct op *o, const struct event *e)
{
    return &((struct partitioned *)o->own)->request[e->what / PARTS == RECEIVE_END];
}

static void done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    struct partitioned *p = o->own;
    (void)s;
    op_must(o, code, "the end of a partitioned message");
    if (e->what / PARTS != RECEIVE_END) return;
    p->done++;
    check(o, e->round);
}

static void finish(struct op *o)
{
    struct partitioned *p = o->own;
    if (p->to == my_rank && p->done != p->rounds) differ("op %d: %d rounds of %d are complete", o->number, p->done, p->rounds);
    if (p->from == my_rank) end_check(&p->s, "the parts that were sent"), MPI_Request_free(&p->request[0]);
    if (p->to == my_rank) MPI_Request_free(&p->request[1]);
    end_close(&p->s), end_close(&p->r);
}

const struct op_row partitioned_row = {"partitioned", 2, sizeof(struct partitioned), plan, prepare, act, request, done, finish};
#endif
