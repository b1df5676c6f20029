/* message.c: a message from one rank to another, once or in rounds, by every send and every receive. */
#include "known.h"
#include "programs.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum send { SEND, SSEND, RSEND, BSEND, ISEND, ISSEND, IRSEND, IBSEND, SEND_INIT, SSEND_INIT, BSEND_INIT, FREED, SENDS };
static const char *const send_name[SENDS] = {"Send", "Ssend", "Rsend", "Bsend", "Isend", "Issend", "Irsend", "Ibsend",
                                             "Send_init", "Ssend_init", "Bsend_init", "Isend, Request_free"};
enum receive { RECV, IRECV, RECV_INIT, MPROBE_MRECV, MPROBE_IMRECV, IMPROBE_IMRECV, PROBE_RECV, IPROBE_IRECV, RECEIVES };
static const char *const receive_name[RECEIVES] = {"Recv", "Irecv", "Recv_init", "Mprobe, Mrecv", "Mprobe, Imrecv",
                                                   "Improbe, Imrecv", "Probe, Recv", "Iprobe, Irecv"};
enum what { SEND_BEGIN, SEND_END, RECEIVE_BEGIN, RECEIVE_END };
enum { ROUNDS = 4, BSEND_MOST = 32768 };

struct message {
    int comm, from, to, tag;          /* ranks of MPI_COMM_WORLD */
    struct unit unit;
    int sent, room;                   /* units */
    int send_each, receive_each;      /* units of an element */
    uint64_t send_seed, receive_seed;
    enum send send;
    enum receive receive;
    int rounds;
    bool nobody, any_source, truncates, overlaps, absolute[2], free_early[2], large;
    struct end s, r;
    MPI_Request request[2];
    int done;                         /* receives */
};

static bool send_blocks(enum send s)
{
    return s <= BSEND;
}

static bool send_persists(enum send s)
{
    return s >= SEND_INIT && s <= BSEND_INIT;
}

/* Begins with a call that waits for the message. */
static bool receive_blocks(enum receive r)
{
    return r != IRECV && r != RECV_INIT;
}

static bool receive_ends_later(enum receive r)
{
    return r == IRECV || r == RECV_INIT || r == MPROBE_IMRECV || r == IMPROBE_IMRECV || r == IPROBE_IRECV;
}

/* ---- plan ---- */

int units_draw(struct chance *c, const struct unit *u)
{
    int n = draw(c, 32), bytes = unit_bytes(u), most;
    most = n == 0 ? 0 : n < 12 ? 20 : n < 22 ? 300 : n < 29 ? 3000 : n < 31 ? 20000 : 60000;
    if (KNOWN_STRUCTS && (u->n > 1 || unit_pairs(u)) && most > 100) most = 100;
    n = draw(c, most + 1);
    if (setup.most && n > setup.most) n = n % (setup.most + 1);
    return n * (int64_t)bytes > 400000 ? 400000 / bytes : n;
}

/* Units and sizes that come again, so that layouts are known from earlier messages. */
static void known(struct message *m, struct chance *c)
{
    static const int units[] = {12, 96, 720, 4320};
    struct chance fixed = chance_of(77, (uint64_t)draw(c, 4));
    m->unit = unit_draw(&fixed);
    m->sent = m->room = units[draw(c, KNOWN_STRUCTS && (m->unit.n > 1 || unit_pairs(&m->unit)) ? 2 : 4)];
    if (setup.most && m->sent > setup.most) m->sent = m->room = setup.most;
    m->send_each = m->receive_each = m->sent;
    m->send_seed = (uint64_t)draw(c, 6), m->receive_seed = (uint64_t)draw(c, 6);
}

static void plan_content(struct message *m, struct chance *c)
{
    m->unit = unit_draw(c);
    m->sent = units_draw(c, &m->unit);
    m->truncates = m->sent > 1 && once_in(c, 16);
    m->room = m->truncates ? draw_in(c, 1, m->sent - 1) :   /* Open MPI 4.1 tells no error where there is room for nothing */
              once_in(c, 2) ? m->sent : m->sent + draw(c, 40);
    m->send_each = draw_divisor(c, m->sent ? m->sent : 1);
    m->receive_each = draw_divisor(c, m->room ? m->room : 1);
    if (once_in(c, 3)) m->send_each = m->sent;
    if (once_in(c, 3)) m->receive_each = m->room;
    m->overlaps = once_in(c, 8);
}

static void plan_ranks(struct message *m, struct chance *c, struct comm *comms)
{
    static const int from[] = {COMM_WORLD, COMM_WORLD, COMM_BACKWARDS, COMM_PART, COMM_BETWEEN, COMM_GRID};
    m->comm = from[draw(c, 6)];
    struct comm *k = &comms[m->comm];
    int side = k->inter ? draw(c, 2) : 0, other = k->inter ? 1 - side : 0;
    m->from = k->world[side][draw(c, k->n[side])];
    m->to = k->world[other][draw(c, k->n[other])];
    m->nobody = once_in(c, 30);
}

static void plan_ways(struct message *m, struct chance *c)
{
    m->send = (enum send)draw(c, SENDS);
    if (once_in(c, 2)) m->send = once_in(c, 2) ? SEND : ISEND;
    m->receive = (enum receive)draw(c, RECEIVES);
    if (once_in(c, 2)) m->receive = once_in(c, 2) ? RECV : IRECV;
    if (OPEN_MPI_HAS && m->truncates && m->receive == RECV_INIT) m->receive = IRECV;   /* Open MPI 4.1 may tell no error of it */
    if (m->nobody && m->truncates) m->truncates = false, m->room = m->sent, m->receive_each = m->sent;
    m->rounds = m->send == FREED || m->truncates || m->nobody ? 1 : once_in(c, 3) ? draw_in(c, 2, ROUNDS) : 1;
    /* A buffer for Bsend has to lie in host memory, and this program's is not boundless. */
    if ((m->send == BSEND || m->send == IBSEND || m->send == BSEND_INIT)
        && (KNOWN_SHORT || m->sent * (int64_t)unit_bytes(&m->unit) > BSEND_MOST)) m->send = ISEND;
    if (KNOWN_BSEND_INIT && m->send == BSEND_INIT) m->rounds = 1;
    if (((KNOWN_SELF_TRUNCATES && m->from == m->to) || KNOWN_AWARE) && m->truncates) m->truncates = false, m->room = m->sent, m->receive_each = m->sent;
    if (m->from == m->to && m->send != BSEND && send_blocks(m->send)) m->send = ISEND;
    /* A message to nobody cannot be probed for. */
    if (m->nobody && m->receive > RECV_INIT) m->receive = IRECV;
    if (KNOWN_NOBODY && m->nobody && send_persists(m->send)) m->send = ISEND;
    if (KNOWN_NOBODY && m->nobody && m->receive == RECV_INIT) m->receive = IRECV;
    if (m->send == RSEND || m->send == IRSEND) m->rounds = 1, m->receive = IRECV;
}

/* Both begin and end within [first, last]. */
static void plan_round(struct op *o, struct message *m, struct chance *c, int round, int first, int last)
{
    bool sblocks = send_blocks(m->send), rblocks = receive_blocks(m->receive);
    int s = draw_in(c, first, last), r = draw_in(c, first, last), send_end, receive_end;
    if (m->send == RSEND || m->send == IRSEND) r = draw(c, TIMES / 2), s = TIMES / 2 + draw(c, TIMES / 2);
    else if (sblocks && rblocks) r = s;
    else if (sblocks && r > s && m->send != BSEND) r = s;
    else if (rblocks && r < s) r = s;
    if (m->send == BSEND && rblocks && r <= s) r = s;
    send_end = draw_in(c, s > r ? s : r, last > s && last > r ? last : s > r ? s : r);
    receive_end = draw_in(c, s > r ? s : r, last > s && last > r ? last : s > r ? s : r);
    op_event(o, s, m->from, sblocks ? BLOCK : START, SEND_BEGIN, round);
    if (!sblocks && m->send != FREED) op_event(o, send_end, m->from, DONE, SEND_END, round);
    op_event(o, r, m->to, rblocks ? BLOCK : START, RECEIVE_BEGIN, round);
    if (receive_ends_later(m->receive)) op_event(o, receive_end, m->to, DONE, RECEIVE_END, round);
}

static void plan(struct op *o, struct chance *c)
{
    struct message *m = o->own;
    plan_ranks(m, c, o->strand->comms);
    if (once_in(c, 3)) known(m, c);
    else {
        plan_content(m, c);
        m->send_seed = o->seed + 1, m->receive_seed = o->seed + 2;
    }
    plan_ways(m, c);
    m->any_source = once_in(c, 4);
    m->tag = 10 + o->strand->messages++;
    m->large = once_in(c, 4);
    for (int i = 0; i < 2; i++) m->free_early[i] = once_in(c, 8), m->absolute[i] = once_in(c, 6);
    if (m->absolute[0]) m->send_each = m->sent, m->overlaps = false;
    if (m->absolute[1]) m->receive_each = m->room;
    o->fails = m->truncates;
    for (int i = 0; i < m->rounds; i++)
        plan_round(o, m, c, i, i * TIMES / m->rounds, (i + 1) * TIMES / m->rounds - 1);
}

/* ---- the two ends ---- */

static int count_of(int units, int each)
{
    return each ? units / each : units ? units : 1;
}

static void open_sender(struct op *o, struct message *m, int strand)
{
    end_open(&m->s, strand, m->send_seed, &m->unit, m->send_each, count_of(m->sent, m->send_each),
             m->overlaps ? OVERLAP_MAY : OVERLAP_NEVER, m->absolute[0]);
    (void)o;
}

static void prepare(struct op *o)
{
    struct message *m = o->own;
    m->request[0] = m->request[1] = MPI_REQUEST_NULL;
    tell("op %d: %s and %s, rank %d to rank %d of MPI_COMM_WORLD%s, communicator %d, tag %d, %d rounds, room for %d of %d units%s%s%s",
         o->number, send_name[m->send], receive_name[m->receive], m->from, m->to, m->nobody ? ", both with MPI_PROC_NULL" : "",
         m->comm, m->tag, m->rounds, m->room, m->sent, m->any_source ? ", any source" : "",
         m->free_early[0] ? ", sender frees the type early" : "", m->free_early[1] ? ", receiver frees the type early" : "");
    if (setup.tell)
        for (int i = 0; i < o->n; i++) {
            static const char *const what[] = {"send", "send ends", "receive", "receive ends"};
            tell("    time %d, rank %d: %s", o->event[i].time, o->event[i].rank, what[o->event[i].what]);
        }
    if (m->from == my_rank || (m->overlaps && m->to == my_rank)) open_sender(o, m, o->strand->number);
    if (m->to == my_rank)
        end_open(&m->r, o->strand->number, m->receive_seed, &m->unit, m->receive_each, count_of(m->room, m->receive_each),
                 OVERLAP_NEVER, m->absolute[1]);
    if (m->from == my_rank) end_tell(&m->s, "sent");
    if (m->to == my_rank) end_tell(&m->r, "received");
}

static uint64_t salt_of(const struct op *o, int round)
{
    return o->seed * 16 + (uint64_t)round;
}

static void fill_sender(struct op *o, struct message *m, int round)
{
    end_clear(&m->s, salt_of(o, round) + 5);
    end_put(&m->s, 0, salt_of(o, round));
}

static void type_free_early(struct end *e)
{
    if (e->layout[0].named) return;
    MPI_Type_free(&e->layout[0].type);
    e->layout[0].type = MPI_DATATYPE_NULL;
}

static void expect_code(int code, const char *call)
{
    digest_numbers(call, error_class(code), 0, 0);
    if (code != MPI_SUCCESS) differ("%s returns error class %d", call, error_class(code));
}

static void send(struct op *o, struct message *m, int round)
{
    struct comm *k = &o->strand->comms[m->comm];
    struct block *b = &m->s.block[0];
    MPI_Datatype t = b->layout->type;
    int to = m->nobody ? MPI_PROC_NULL : comm_rank(k, m->to), code = MPI_SUCCESS;
    MPI_Request *q = &m->request[0];
    fill_sender(o, m, round);
    end_store(&m->s);
#define ARGS m->s.buf, b->count, t, to, m->tag, k->comm
#if MPI_VERSION >= 4
#define CALL(small, ...) code = m->large ? small##_c(__VA_ARGS__) : small(__VA_ARGS__)
#else
#define CALL(small, ...) code = small(__VA_ARGS__)
#endif
    switch (m->send) {
    case SEND: CALL(MPI_Send, ARGS); break;
    case SSEND: CALL(MPI_Ssend, ARGS); break;
    case RSEND: CALL(MPI_Rsend, ARGS); break;
    case BSEND: CALL(MPI_Bsend, ARGS); break;
    case ISEND: case FREED: CALL(MPI_Isend, ARGS, q); break;
    case ISSEND: CALL(MPI_Issend, ARGS, q); break;
    case IRSEND: CALL(MPI_Irsend, ARGS, q); break;
    case IBSEND: CALL(MPI_Ibsend, ARGS, q); break;
    case SEND_INIT: if (!round) CALL(MPI_Send_init, ARGS, q); break;
    case SSEND_INIT: if (!round) CALL(MPI_Ssend_init, ARGS, q); break;
    default: if (!round) CALL(MPI_Bsend_init, ARGS, q); break;
    }
    expect_code(code, send_name[m->send]);
    if (m->send == FREED) MPI_Request_free(q);
    if (m->free_early[0] && (m->rounds == 1 || (send_persists(m->send) && !round))) type_free_early(&m->s);
    if (send_persists(m->send)) op_start(o, q);
}

/* ---- receiving ---- */

static void check_status(struct op *o, struct message *m, const MPI_Status *s, const char *what)
{
    struct comm *k = &o->strand->comms[m->comm];
    if (KNOWN_NOBODY && m->nobody) return;
    int source = m->nobody ? MPI_PROC_NULL : comm_rank(k, m->from), tag = m->nobody ? MPI_ANY_TAG : m->tag;
    int64_t bytes = m->nobody ? 0 : (int64_t)m->sent * unit_bytes(&m->unit);
    const struct layout *l = m->r.block[0].layout;
    int n = -1, elements = -1;
    if (s->MPI_SOURCE != source || s->MPI_TAG != tag) {
        differ("op %d: %s: status of source %d and tag %d, not %d and %d", o->number, what, s->MPI_SOURCE, s->MPI_TAG, source, tag);
        return;
    }
    digest_status(what, s, l->type);
    MPI_Get_count(s, MPI_BYTE, &n);
    if (n != bytes) differ("op %d: %s: %d bytes, not %lld", o->number, what, n, (long long)bytes);
    if (l->type == MPI_DATATYPE_NULL || l->map.bytes == 0) return;
    MPI_Get_count(s, l->type, &n);
    int whole = bytes % l->map.bytes ? MPI_UNDEFINED : (int)(bytes / l->map.bytes);
    int64_t parts = bytes / l->map.bytes * l->map.elements + map_elements(&l->map, bytes % l->map.bytes);
    if (n != whole) differ("op %d: %s: count %d, not %d", o->number, what, n, whole);
    if (KNOWN_ELEMENTS) return;
    MPI_Get_elements(s, l->type, &elements);
    if (elements != parts && !(KNOWN_PAIRS && unit_pairs(&m->unit))) differ("op %d: %s: %d elements, not %lld", o->number, what, elements, (long long)parts);
}

/* All is in place. */
static void received(struct op *o, struct message *m, int round, const MPI_Status *s, int code)
{
    char what[100];
    snprintf(what, sizeof what, "op %d, %s of round %d", o->number, receive_name[m->receive], round);
    m->done++;
    digest_numbers(what, error_class(code), 0, 0);
    if (error_class(code) != (m->truncates ? MPI_ERR_TRUNCATE : MPI_SUCCESS)) {
        differ("%s: error class %d", what, error_class(code));
        return;
    }
    if (m->truncates) {
        end_accept(&m->r, 0);   /* what came within the type is the MPI's choice */
    } else {
        int64_t bytes = m->nobody ? 0 : (int64_t)m->sent * unit_bytes(&m->unit);
        if (s) check_status(o, m, s, what);
        if (m->overlaps) {
            fill_sender(o, m, round);
            unsigned char *packed = end_packed(&m->s, 0);
            end_put_bytes(&m->r, 0, packed, bytes);
            free(packed);
        } else {
            end_expect(&m->r, 0, salt_of(o, round) + (planted(o)), bytes);
        }
    }
    end_check(&m->r, what);
}

static void receive(struct op *o, struct message *m, int round)
{
    struct comm *k = &o->strand->comms[m->comm];
    struct block *b = &m->r.block[0];
    int from = m->nobody ? MPI_PROC_NULL : m->any_source ? MPI_ANY_SOURCE : comm_rank(k, m->from);
    int code = MPI_SUCCESS, flag = 0;
    MPI_Datatype t = b->layout->type;
    MPI_Request *q = &m->request[1];
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status s;
    memset(&s, 0, sizeof s);   /* MPICH 4.0's probes leave be what MPI_Test_cancelled tells */
    end_clear(&m->r, salt_of(o, round) + 9);
    end_store(&m->r);
#undef ARGS
#define ARGS m->r.buf, b->count, t
    switch (m->receive) {
    case RECV: CALL(MPI_Recv, ARGS, from, m->tag, k->comm, &s); break;
    case IRECV: CALL(MPI_Irecv, ARGS, from, m->tag, k->comm, q); break;
    case RECV_INIT: if (!round) CALL(MPI_Recv_init, ARGS, from, m->tag, k->comm, q); break;
    case MPROBE_MRECV: case MPROBE_IMRECV: code = MPI_Mprobe(from, m->tag, k->comm, &message, &s); break;
    case IMPROBE_IMRECV:
        while (!flag && code == MPI_SUCCESS) {
            code = MPI_Improbe(from, m->tag, k->comm, &flag, &message, &s);
            if (!flag) sched_yield();
        }
        break;
    case PROBE_RECV: code = MPI_Probe(from, m->tag, k->comm, &s); break;
    default:
        while (!flag && code == MPI_SUCCESS) {
            code = MPI_Iprobe(from, m->tag, k->comm, &flag, &s);
            if (!flag) sched_yield();
        }
    }
    if (m->receive >= MPROBE_MRECV) {
        expect_code(code, "a probe");
        check_status(o, m, &s, "a probe");
    }
    if (m->receive == MPROBE_MRECV) CALL(MPI_Mrecv, ARGS, &message, &s);
    if (m->receive == MPROBE_IMRECV || m->receive == IMPROBE_IMRECV) CALL(MPI_Imrecv, ARGS, &message, q);
    if (m->receive == PROBE_RECV) CALL(MPI_Recv, ARGS, s.MPI_SOURCE, s.MPI_TAG, k->comm, &s);
    if (m->receive == IPROBE_IRECV) CALL(MPI_Irecv, ARGS, s.MPI_SOURCE, s.MPI_TAG, k->comm, q);
    if (m->receive == RECV_INIT) op_start(o, q);
    if (receive_ends_later(m->receive)) {
        expect_code(code, receive_name[m->receive]);
        if (m->free_early[1] && (m->rounds == 1 || (m->receive == RECV_INIT && !round))) type_free_early(&m->r);
        return;
    }
    received(o, m, round, &s, code);
}

static void act(struct op *o, const struct event *e)
{
    if (e->what == SEND_BEGIN) send(o, o->own, e->round);
    else receive(o, o->own, e->round);
}

static MPI_Request *request(struct op *o, const struct event *e)
{
    struct message *m = o->own;
    return &m->request[e->what == RECEIVE_END];
}

static void done(struct op *o, const struct event *e, const MPI_Status *s, int code)
{
    struct message *m = o->own;
    if (e->what == RECEIVE_END) received(o, m, e->round, s, code);
    else expect_code(code, "the end of a send");
}

static void finish(struct op *o)
{
    struct message *m = o->own;
    char what[60];
    snprintf(what, sizeof what, "op %d, the sent buffer", o->number);
    if (m->from == my_rank) {
        fill_sender(o, m, m->rounds - 1);
        end_check(&m->s, what);
        if (send_persists(m->send)) MPI_Request_free(&m->request[0]);
    }
    if (m->to == my_rank) {
        if (m->done != m->rounds) differ("op %d: %d receives of %d are complete", o->number, m->done, m->rounds);
        if (m->receive == RECV_INIT) MPI_Request_free(&m->request[1]);
    }
    end_close(&m->s), end_close(&m->r);
}

const struct op_row message_row = {"message", 12, sizeof(struct message), plan, prepare, act, request, done, finish};
