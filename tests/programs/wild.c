/* wild.c: messages of several ranks to one, which receives them from any source, by any tag, or both.
 *
 * A receive may take any message of its operation. So all receives have room for each; the status says which one
 * came, and messages of one source and tag come in the order of their sends. No two operations have the same
 * receiver. Receives that ask for more come first: then each finds a message, whatever the others took. */
#include "known.h"
#include "programs.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 6, ROUNDS = 2 };
enum send { ISEND, ISSEND, IBSEND, BSEND, SEND_INIT, SEND, SSEND, RSEND, SENDS };
static const char *const send_name[SENDS] = {"Isend", "Issend", "Ibsend", "Bsend", "Send_init", "Send", "Ssend", "Rsend"};
enum receive { IRECV, RECV_INIT, MPROBE_IMRECV, IMPROBE_IMRECV, IPROBE_IRECV, MPROBE_MRECV, PROBE_RECV, RECV, RECEIVES };
static const char *const receive_name[RECEIVES] = {"Irecv", "Recv_init", "Mprobe, Imrecv", "Improbe, Imrecv", "Iprobe, Irecv",
                                                   "Mprobe, Mrecv", "Probe, Recv", "Recv"};
enum width { EXACT, HALF, FULL };
enum what { SEND_BEGIN, SEND_END, POST, RECEIVE, RECEIVE_END };

struct wild {
    int to, n, rounds, room;
    bool posted_first;                /* all receives at once, perhaps before any message; else after all sends have begun */
    bool any_source;                  /* of receives half wild: else by any tag */
    struct unit unit;
    struct {
        int from, tag, units, each;
        enum send send;
        int begin[ROUNDS];            /* when it is sent: 2 * time, and 1 more for sends that block */
        bool taken;
        struct end end;
        MPI_Request request;
    } message[MESSAGES];
    struct {
        int from, tag, each;          /* what it asks for */
        enum width width;
        enum receive how;
        struct end end;
        MPI_Request request;
        bool done;
        MPI_Status status;
        unsigned char *seen;          /* its memory when it was complete */
    } receive[MESSAGES];
};

static bool send_blocks(enum send s) { return s >= SEND; }
static bool send_ends_later(enum send s) { return s <= SEND_INIT && s != BSEND; }
static bool receive_ends_later(enum receive r) { return r <= IPROBE_IRECV; }

/* ---- plan ---- */

static void plan_round(struct op *o, struct chance *c, int round)
{
    struct wild *w = o->own;
    int first = round * TIMES / w->rounds, last = (round + 1) * TIMES / w->rounds - 1, middle = (first + last) / 2;
    int post = draw_in(c, first, middle), all = post, time;
    for (int i = 0; i < w->n; i++) {
        bool blocks = send_blocks(w->message[i].send);
        time = !w->posted_first ? draw_in(c, first, middle) : blocks ? draw_in(c, post, last) : draw_in(c, first, last);
        if (w->message[i].send == RSEND) time = draw_in(c, TIMES / 2, last);   /* after the barrier */
        w->message[i].begin[round] = 2 * time + blocks;
        if (time > all) all = time;
        op_event(o, time, w->message[i].from, blocks ? BLOCK : START, SEND_BEGIN * MESSAGES + i, round);
    }
    if (w->posted_first) op_event(o, post, w->to, START, POST * MESSAGES, round);
    for (int i = 0; i < w->n && !w->posted_first; i++) {
        all = draw_in(c, all, last);
        op_event(o, all, w->to, BLOCK, RECEIVE * MESSAGES + i, round);
    }
    for (int i = 0; i < w->n; i++) {
        if (send_ends_later(w->message[i].send))
            op_event(o, draw_in(c, all, last), w->message[i].from, DONE, SEND_END * MESSAGES + i, round);
        if (receive_ends_later(w->receive[i].how)) op_event(o, draw_in(c, all, last), w->to, DONE, RECEIVE_END * MESSAGES + i, round);
    }
}

/* Receive i asks for no more than message i has; the more it asks for, the earlier it comes. */
static void plan_receives(struct wild *w, struct chance *c)
{
    enum width width[MESSAGES];
    int most = draw_in(c, HALF, FULL), least = once_in(c, 2) ? EXACT : most, at = 0;
    for (int i = 0; i < w->n; i++) width[i] = (enum width)draw_in(c, least, most);
    for (int k = EXACT; k <= FULL; k++)
        for (int i = 0; i < w->n; i++) {
            if (width[i] != (enum width)k) continue;
            w->receive[at].width = width[i];
            w->receive[at].from = k == FULL || (k == HALF && w->any_source) ? MPI_ANY_SOURCE : w->message[i].from;
            w->receive[at].tag = k == FULL || (k == HALF && !w->any_source) ? MPI_ANY_TAG : w->message[i].tag;
            w->receive[at].how = (enum receive)draw(c, w->posted_first ? MPROBE_IMRECV : RECEIVES);
            w->receive[at++].each = draw_divisor(c, w->room);
        }
}

static void plan(struct op *o, struct chance *c)
{
    static const int tags[] = {0, 1, 1, 2, 30000};
    struct wild *w = o->own;
    int busy = o->strand->wild_receivers;
    w->to = draw(c, ranks);
    for (int i = 0; i < ranks && busy >> w->to & 1; i++) w->to = (w->to + 1) % ranks;
    if (busy >> w->to & 1) return;
    o->strand->wild_receivers |= 1 << w->to;
    o->told = true;
    w->n = draw_in(c, 1, MESSAGES), w->rounds = draw_in(c, 1, ROUNDS);
    w->posted_first = once_in(c, 2), w->any_source = once_in(c, 2);
    w->unit = unit_draw(c);
    for (int i = 0; i < w->n; i++) {
        int units = units_draw(c, &w->unit) / 2;
        enum send send = (enum send)draw(c, !w->posted_first ? SEND : w->rounds > 1 ? RSEND : SENDS);
        if ((send == BSEND || send == IBSEND) && (KNOWN_SHORT || units * (int64_t)unit_bytes(&w->unit) > 32768)) send = ISEND;
        w->message[i].from = draw(c, ranks), w->message[i].tag = tags[draw(c, 5)];
        w->message[i].units = units, w->message[i].send = send;
        w->message[i].each = draw_divisor(c, units ? units : 1);
        if (units > w->room) w->room = units;
    }
    w->room += once_in(c, 2) ? 0 : draw(c, 40);
    if (w->room == 0) w->room = 1;
    plan_receives(w, c);
    for (int round = 0; round < w->rounds; round++) plan_round(o, c, round);
}

/* ---- the ends ---- */

static void prepare(struct op *o)
{
    struct wild *w = o->own;
    if (!o->n) return;
    tell("op %d: %d messages to rank %d, %d rounds, %s", o->number, w->n, w->to, w->rounds,
         w->posted_first ? "receives at once" : "received when all are sent");
    for (int i = 0; i < w->n; i++) {
        w->message[i].request = w->receive[i].request = MPI_REQUEST_NULL;
        tell("    %d: rank %d sends %d units by %s, tag %d; %s from %d, tag %d", i, w->message[i].from, w->message[i].units,
             send_name[w->message[i].send], w->message[i].tag, receive_name[w->receive[i].how], w->receive[i].from, w->receive[i].tag);
        if (w->message[i].from == my_rank) {
            end_open(&w->message[i].end, o->strand->number, o->seed + 100 + (uint64_t)(10 * i), &w->unit, w->message[i].each,
                     w->message[i].units / w->message[i].each, OVERLAP_NEVER, false);
            end_tell(&w->message[i].end, "sent");
        }
        if (w->to == my_rank) {
            end_open(&w->receive[i].end, o->strand->number, o->seed + 200 + (uint64_t)(10 * i), &w->unit, w->receive[i].each,
                     w->room / w->receive[i].each, OVERLAP_NEVER, false);
            end_tell(&w->receive[i].end, "received");
        }
    }
    for (int i = 0; i < o->n && setup.tell; i++) {
        static const char *const what[] = {"sends", "has sent", "posts all", "receives", "has received"};
        tell("    time %d, rank %d: %s %d", o->event[i].time, o->event[i].rank, what[o->event[i].what / MESSAGES], o->event[i].what % MESSAGES);
    }
}

static uint64_t salt_of(const struct op *o, int round, int i)
{
    return o->seed * 32 + (uint64_t)(round * MESSAGES + i);
}

static void send(struct op *o, struct wild *w, int i, int round)
{
    struct end *e = &w->message[i].end;
    MPI_Comm comm = o->strand->comms[COMM_WILD].comm;
    MPI_Request *q = &w->message[i].request;
    int code = MPI_SUCCESS;
    end_clear(e, salt_of(o, round, i) + 5), end_put(e, 0, salt_of(o, round, i)), end_store(e);
#define ARGS e->buf, e->block[0].count, e->layout[0].type, w->to, w->message[i].tag, comm
    switch (w->message[i].send) {
    case ISEND: code = MPI_Isend(ARGS, q); break;
    case ISSEND: code = MPI_Issend(ARGS, q); break;
    case IBSEND: code = MPI_Ibsend(ARGS, q); break;
    case BSEND: code = MPI_Bsend(ARGS); break;
    case SEND: code = MPI_Send(ARGS); break;
    case SSEND: code = MPI_Ssend(ARGS); break;
    case RSEND: code = MPI_Rsend(ARGS); break;
    default:
        if (!round) code = MPI_Send_init(ARGS, q);
        if (code == MPI_SUCCESS) code = MPI_Start(q);
    }
    op_must(o, code, send_name[w->message[i].send]);
}

/* ---- receiving ---- */

static void received(struct op *o, struct wild *w, int i, const MPI_Status *s, int code)
{
    const struct region *r = &w->receive[i].end.region[0];
    op_must(o, code, "a receive");
    if (code != MPI_SUCCESS) return;
    w->receive[i].status = *s, w->receive[i].done = true;
    w->receive[i].seen = malloc(r->bytes);
    region_load(r, w->receive[i].seen);
}

/* The first of those that match and are not taken; -1: none. */
static int message_of(struct wild *w, int i, int round)
{
    int best = -1;
    const MPI_Status *s = &w->receive[i].status;
    for (int k = 0; k < w->n; k++) {
        if (w->message[k].taken || w->message[k].from != s->MPI_SOURCE || w->message[k].tag != s->MPI_TAG) continue;
        if (best < 0 || w->message[k].begin[round] < w->message[best].begin[round]) best = k;
    }
    return best;
}

static void check(struct op *o, struct wild *w, int i, int round)
{
    struct end *e = &w->receive[i].end;
    const MPI_Status *s = &w->receive[i].status;
    char what[100];
    int k = message_of(w, i, round), n = -1;
    int64_t bytes;
    snprintf(what, sizeof what, "op %d, receive %d of round %d", o->number, i, round);
    if (k < 0 || (w->receive[i].from >= 0 && w->receive[i].from != s->MPI_SOURCE) || (w->receive[i].tag >= 0 && w->receive[i].tag != s->MPI_TAG)) {
        differ("%s: a message from %d with tag %d, which is none of those", what, s->MPI_SOURCE, s->MPI_TAG);
        return;
    }
    w->message[k].taken = true;
    bytes = (int64_t)w->message[k].units * unit_bytes(&w->unit);
    MPI_Get_count(s, MPI_BYTE, &n);
    if (n != bytes) differ("%s, message %d: %d bytes, not %lld", what, k, n, (long long)bytes);
    end_expect(e, 0, salt_of(o, round, k) + planted(o), bytes);
    e->region[0].any = true;   /* another run may receive it elsewhere */
    if (end_check(e, what) && memcmp(w->receive[i].seen, e->region[0].shadow, e->region[0].bytes))
        differ("%s, message %d: was not in place when it was complete", what, k);
    snprintf(what, sizeof what, "op %d, message %d of round %d", o->number, k, round);
    digest_numbers(what, s->MPI_SOURCE, s->MPI_TAG, n);
    unsigned char *packed = end_packed(e, 0);
    digest_bytes(what, packed, (size_t)bytes);
    free(packed);
}

static void check_round(struct op *o, struct wild *w, int round)
{
    for (int i = 0; i < w->n; i++) w->message[i].taken = false;
    for (int i = 0; i < w->n; i++) {
        if (w->receive[i].done) check(o, w, i, round);
        else differ("op %d: receive %d of round %d is not complete", o->number, i, round);
        free(w->receive[i].seen);
        w->receive[i].seen = NULL, w->receive[i].done = false;
    }
}

static void clear(struct op *o, struct wild *w, int round)
{
    if (round) check_round(o, w, round - 1);
    for (int i = 0; i < w->n; i++) end_clear(&w->receive[i].end, o->seed + (uint64_t)(round * MESSAGES + i)), end_store(&w->receive[i].end);
}

#undef ARGS
#define ARGS e->buf, e->block[0].count, e->layout[0].type
static int receive_init(struct op *o, struct wild *w, int i, int round)
{
    struct end *e = &w->receive[i].end;
    if (round) return MPI_SUCCESS;
    return MPI_Recv_init(ARGS, w->receive[i].from, w->receive[i].tag, o->strand->comms[COMM_WILD].comm, &w->receive[i].request);
}

static void receive(struct op *o, struct wild *w, int i, int round)
{
    struct end *e = &w->receive[i].end;
    MPI_Comm comm = o->strand->comms[COMM_WILD].comm;
    MPI_Request *q = &w->receive[i].request;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status s;
    int from = w->receive[i].from, tag = w->receive[i].tag, flag = 0, code = MPI_SUCCESS;
    if (i == 0) clear(o, w, round);
    switch (w->receive[i].how) {
    case RECV: code = MPI_Recv(ARGS, from, tag, comm, &s); break;
    case IRECV: code = MPI_Irecv(ARGS, from, tag, comm, q); break;
    case RECV_INIT:
        code = receive_init(o, w, i, round);
        if (code == MPI_SUCCESS) code = MPI_Start(q);
        break;
    case MPROBE_IMRECV: case MPROBE_MRECV: code = MPI_Mprobe(from, tag, comm, &message, &s); break;
    case IMPROBE_IMRECV:
        while (!flag && code == MPI_SUCCESS) {
            code = MPI_Improbe(from, tag, comm, &flag, &message, &s);
            if (!flag) sched_yield();
        }
        break;
    case PROBE_RECV: code = MPI_Probe(from, tag, comm, &s); break;
    default:
        while (!flag && code == MPI_SUCCESS) {
            code = MPI_Iprobe(from, tag, comm, &flag, &s);
            if (!flag) sched_yield();
        }
    }
    op_must(o, code, receive_name[w->receive[i].how]);
    if (code != MPI_SUCCESS) return;
    switch (w->receive[i].how) {
    case MPROBE_MRECV: code = MPI_Mrecv(ARGS, &message, &s); break;
    case MPROBE_IMRECV: case IMPROBE_IMRECV: code = MPI_Imrecv(ARGS, &message, q); break;
    case PROBE_RECV: code = MPI_Recv(ARGS, s.MPI_SOURCE, s.MPI_TAG, comm, &s); break;
    case IPROBE_IRECV: code = MPI_Irecv(ARGS, s.MPI_SOURCE, s.MPI_TAG, comm, q); break;
    default: break;
    }
    if (!receive_ends_later(w->receive[i].how)) received(o, w, i, &s, code);
    else op_must(o, code, receive_name[w->receive[i].how]);
}

/* Begins all receives in their order, persistent ones that follow each other at the same time. */
static void post(struct op *o, struct wild *w, int round)
{
    MPI_Request list[MESSAGES];
    for (int i = 0; i < w->n;) {
        int n = 0;
        if (w->receive[i].how != RECV_INIT) {
            receive(o, w, i++, round);
            continue;
        }
        if (i == 0) clear(o, w, round);
        for (; i + n < w->n && w->receive[i + n].how == RECV_INIT; n++) {
            op_must(o, receive_init(o, w, i + n, round), "MPI_Recv_init");
            list[n] = w->receive[i + n].request;
        }
        op_must(o, MPI_Startall(n, list), "MPI_Startall");
        for (int k = 0; k < n; k++) w->receive[i + k].request = list[k];
        i += n;
    }
}

static void act(struct op *o, const struct event *e)
{
    struct wild *w = o->own;
    switch ((enum what)(e->what / MESSAGES)) {
    case SEND_BEGIN: send(o, w, e->what % MESSAGES, e->round); break;
    case POST: post(o, w, e->round); break;
    default: receive(o, w, e->what % MESSAGES, e->round);
    }
}

static MPI_Request *request(struct op *o, const struct event *e)
{
    struct wild *w = o->own;
    int i = e->what % MESSAGES;
    return e->what / MESSAGES == SEND_END ? &w->message[i].request : &w->receive[i].request;
}

static void done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    if (e->what / MESSAGES == SEND_END) op_must(o, code, "the end of a send");
    else received(o, o->own, e->what % MESSAGES, s, code);
}

static void finish(struct op *o)
{
    struct wild *w = o->own;
    if (!o->n) return;
    if (w->to == my_rank) check_round(o, w, w->rounds - 1);
    for (int i = 0; i < w->n; i++) {
        if (w->message[i].from == my_rank) {
            end_check(&w->message[i].end, "a sent buffer");
            if (w->message[i].send == SEND_INIT) MPI_Request_free(&w->message[i].request);
        }
        if (w->to == my_rank && w->receive[i].how == RECV_INIT) MPI_Request_free(&w->receive[i].request);
        end_close(&w->message[i].end), end_close(&w->receive[i].end);
    }
}

const struct op_row wild_row = {"wild", 3, sizeof(struct wild), plan, prepare, act, request, done, finish};
