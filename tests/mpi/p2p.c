/* p2p.c: every send mode against every way to receive: host and device on either side, layouts of one signature.
 *
 * run: -n 2
 * run: -n 4
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: STRIDEC_TRANSPORT=device -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum send_mode { SEND, SSEND, RSEND, BSEND, ISEND, ISSEND, SENDRECV, SEND_MODES };
static const char *const send_name[] = {"Send", "Ssend", "Rsend", "Bsend", "Isend", "Issend", "Sendrecv"};
enum recv_mode { RECV, IRECV, MRECV, IMRECV, PROBE_RECV, IPROBE_RECV, RECV_MODES };
static const char *const recv_name[] = {"Recv", "Irecv", "Mprobe+Mrecv", "Improbe+Imrecv", "Probe+Recv", "Iprobe+Recv"};

static MPI_Comm comm;

/* One message: who, what and how. Both sides know all of it. */
struct message {
    const struct layout *from, *to;
    struct buf *source, *target;
    enum send_mode send;
    enum recv_mode recv;
    int sender, tag;
    bool wild; /* the receiver names neither source nor tag */
};

static void send_it(const struct message *m, int to)
{
    const struct layout *l = m->from;
    MPI_Request r = MPI_REQUEST_NULL;
    int rc = MPI_SUCCESS;
    switch (m->send) {
    case SEND:
        rc = MPI_Send(m->source->origin, l->count, l->type, to, m->tag, comm);
        break;
    case SSEND:
        rc = MPI_Ssend(m->source->origin, l->count, l->type, to, m->tag, comm);
        break;
    case BSEND:
        rc = MPI_Bsend(m->source->origin, l->count, l->type, to, m->tag, comm);
        break;
    case ISEND:
        rc = MPI_Isend(m->source->origin, l->count, l->type, to, m->tag, comm, &r);
        break;
    case ISSEND:
        rc = MPI_Issend(m->source->origin, l->count, l->type, to, m->tag, comm, &r);
        break;
    case SENDRECV:
        rc = MPI_Sendrecv(m->source->origin, l->count, l->type, to, m->tag, NULL, 0, MPI_INT, MPI_PROC_NULL, 0, comm,
                          MPI_STATUS_IGNORE);
        break;
    default: /* RSEND: the receiver says that its receive is posted */
        MPI_Recv(NULL, 0, MPI_INT, to, m->tag + 1, comm, MPI_STATUS_IGNORE);
        rc = MPI_Rsend(m->source->origin, l->count, l->type, to, m->tag, comm);
    }
    expect(rc == MPI_SUCCESS, "%s returns %s", send_name[m->send], error_name(error_class(rc)));
    if (r != MPI_REQUEST_NULL) MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect(r == MPI_REQUEST_NULL, "MPI_Wait does not reset the request");
}

static void check_probed(const struct message *m, const MPI_Status *s)
{
    int n = -1;
    MPI_Get_count(s, MPI_BYTE, &n);
    expect_equal(n, m->from->bytes, "bytes of the probed message");
    expect_equal(s->MPI_SOURCE, m->sender, "source of the probed message");
    expect_equal(s->MPI_TAG, m->tag, "tag of the probed message");
}

static void receive_it(const struct message *m, MPI_Status *status)
{
    const struct layout *l = m->to;
    int from = m->wild ? MPI_ANY_SOURCE : m->sender, tag = m->wild ? MPI_ANY_TAG : m->tag, flag = 0;
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status probed;
    void *at = m->target->origin;
    switch (m->recv) {
    case RECV:
        MPI_Recv(at, l->count, l->type, from, tag, comm, status);
        return;
    case IRECV:
        MPI_Irecv(at, l->count, l->type, from, tag, comm, &r);
        break;
    case MRECV:
        MPI_Mprobe(from, tag, comm, &handle, &probed);
        check_probed(m, &probed);
        MPI_Mrecv(at, l->count, l->type, &handle, status);
        break;
    case IMRECV:
        while (!flag) MPI_Improbe(from, tag, comm, &flag, &handle, &probed);
        check_probed(m, &probed);
        MPI_Imrecv(at, l->count, l->type, &handle, &r);
        break;
    default:
        if (m->recv == PROBE_RECV) MPI_Probe(from, tag, comm, &probed);
        while (m->recv == IPROBE_RECV && !flag) MPI_Iprobe(from, tag, comm, &flag, &probed);
        check_probed(m, &probed);
        MPI_Recv(at, l->count, l->type, probed.MPI_SOURCE, probed.MPI_TAG, comm, status);
    }
    expect(handle == MPI_MESSAGE_NULL, "a matched receive does not reset its message");
    if (m->send == RSEND) MPI_Send(NULL, 0, MPI_INT, m->sender, m->tag + 1, comm);
    if (r != MPI_REQUEST_NULL) MPI_Wait(&r, status);
    expect(r == MPI_REQUEST_NULL, "MPI_Wait does not reset the receive request");
}

static void check_status(const struct message *m, const MPI_Status *s)
{
    int n = -1, elements = -1;
    int want = m->from->bytes / (int)sizeof(double);
    expect_equal(s->MPI_SOURCE, m->sender, "status.MPI_SOURCE");
    expect_equal(s->MPI_TAG, m->tag, "status.MPI_TAG");
    MPI_Get_elements(s, m->to->type, &elements);
    expect_equal(elements, want, "MPI_Get_elements");
    MPI_Get_count(s, m->to->type, &n);
    expect_equal(n, want % LAYOUT_DOUBLES ? MPI_UNDEFINED : want / LAYOUT_DOUBLES, "MPI_Get_count");
}

static void deliver(const struct message *m, int receiver, const char *what)
{
    MPI_Status status;
    memset(&status, 0x55, sizeof status);
    if (my_rank == m->sender) {
        send_it(m, receiver);
        buf_check(m->source, "the send buffer");
    }
    if (my_rank == receiver) {
        receive_it(m, &status);
        check_status(m, &status);
        buf_expect_from(m->target, m->to, m->from, m->source->salt);
        buf_check(m->target, what);
    }
}

/* Rank pairs (0,1), (2,3), ... exchange in turns; the last of an odd number of ranks is idle. */
static bool pair_of(int *low, int *high)
{
    *low = my_rank & ~1;
    *high = *low + 1;
    return *high < num_ranks;
}

#define COUNT 3
static struct layout layouts[LAYOUTS];
static struct buf sources[2][LAYOUTS], targets[2][LAYOUTS]; /* host, device */

static void make_all(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        layout_number(&layouts[i], i, COUNT);
        if (layouts[i].overlaps) fail("layout %s overlaps", layouts[i].text);
        for (int k = 0; k < 2; k++) {
            buf_make(&sources[k][i], k ? MEM_DEVICE : MEM_HOST, &layouts[i], 0, 1);
            buf_make(&targets[k][i], k ? MEM_DEVICE : MEM_HOST, &layouts[i], 0, 2);
        }
    }
}

static void free_all(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        for (int k = 0; k < 2; k++) buf_free(&sources[k][i]), buf_free(&targets[k][i]);
        layout_free(&layouts[i]);
    }
}

static uint64_t next_salt = 100;

/* Every memory on both sides, every receiving layout, random sending ones; both directions. */
static void mode_pair(enum send_mode send, enum recv_mode recv)
{
    int low, high;
    char what[160];
    bool paired = pair_of(&low, &high);
    for (int turn = 0; turn < 4 * LAYOUTS; turn++) {
        int from_kind = turn & 1, to_kind = turn >> 1 & 1, to = turn / 4, from = (int)roll(LAYOUTS);
        bool wild = roll(3) == 0, back = roll(2);
        struct message m = {&layouts[from],        &layouts[to], &sources[from_kind][from],
                            &targets[to_kind][to], send,         recv,
                            back ? high : low,     10,           wild};
        uint64_t salt = next_salt++;
        if (!paired) continue;
        snprintf(what, sizeof what, "%s on the %s from %s on the %s", m.to->text, to_kind ? "device" : "host",
                 m.from->text, from_kind ? "device" : "host");
        buf_fill(m.source, salt);
        buf_fill(m.target, salt + 1000000);
        deliver(&m, back ? low : high, what);
    }
    report("%s to %s", send_name[send], recv_name[recv]);
}

static void all_modes(void)
{
    static char space[1 << 18];
    char *detached;
    int n;
    MPI_Buffer_attach(space, sizeof space);
    for (int s = 0; s < SEND_MODES; s++)
        for (int r = 0; r < RECV_MODES; r++)
            if (s != RSEND || r == IRECV) mode_pair(s, r);
    MPI_Buffer_detach(&detached, &n);
    expect(detached == space && n == (int)sizeof space, "MPI_Buffer_detach gives another buffer back");
    report("MPI_Buffer_detach");
}

/* Messages shorter than the receive, also by less than an element; `doubles` sent from contiguous memory. */
static void partial(void)
{
    static const int doubles[] = {0, 1, 7, 119, 120, 121, 240, 250, 359};
    int low, high;
    bool paired = pair_of(&low, &high);
    for (int i = 0; i < 9; i++) {
        struct layout sent;
        struct buf source;
        layout_of(&sent, MPI_DOUBLE, doubles[i], "double");
        for (int turn = 0; turn < 2 * LAYOUTS; turn++) {
            int to = turn / 2, kind = turn % 2, recv = (int)roll(RECV_MODES);
            buf_make(&source, roll(2) ? MEM_DEVICE : MEM_HOST, &sent, 0, next_salt);
            struct message m = {&sent, &layouts[to], &source, &targets[kind][to], SEND, recv, low, 20, roll(2)};
            if (paired) {
                buf_fill(m.target, next_salt + 1000000);
                deliver(&m, high, m.to->text);
            }
            next_salt++;
            buf_free(&source);
        }
        layout_free(&sent);
    }
    report("receives of shorter messages");
}

/* Elements of unlike sizes: a struct of int and double, cut anywhere between its members. */
static void elements_of_struct(void)
{
    int low, high, lengths[3] = {1, 2, 1};
    bool paired = pair_of(&low, &high);
    MPI_Aint at[3] = {0, 8, 32};
    MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, t, part;
    struct layout whole, sent;
    struct buf source, target;
    MPI_Type_create_struct(3, lengths, at, types, &t);
    type_commit(&t);
    layout_of(&whole, t, 4, "struct{int,double,double,char}");
    for (int sent_elements = 0; sent_elements <= 9; sent_elements++) {
        int whole_ones = sent_elements / 4, members[4] = {whole_ones, sent_elements % 4 > 0, sent_elements % 4 > 1, 0};
        int n[4] = {members[0], members[1], sent_elements % 4 > 2 ? 2 : members[2], 0};
        MPI_Aint where[3] = {0, 200, 208};
        MPI_Datatype parts[3] = {t, MPI_INT, MPI_DOUBLE};
        MPI_Type_create_struct(3, n, where, parts, &part);
        type_commit(&part);
        layout_of(&sent, part, 1, "part of the struct");
        buf_make(&source, MEM_DEVICE, &sent, 0, 1);
        buf_make(&target, MEM_DEVICE, &whole, 0, 2);
        if (paired && my_rank == low) MPI_Send(source.origin, 1, part, high, 3, comm);
        if (paired && my_rank == high) {
            MPI_Status s;
            int count = -1, elements = -1;
            MPI_Recv(target.origin, 4, t, low, 3, comm, &s);
            MPI_Get_count(&s, t, &count);
            MPI_Get_elements(&s, t, &elements);
            expect_equal(elements, sent_elements, "MPI_Get_elements of a struct");
            expect_equal(count, sent_elements % 4 ? MPI_UNDEFINED : whole_ones, "MPI_Get_count of a struct");
            buf_expect_from(&target, &whole, &sent, 1);
            buf_check(&target, "part of a struct");
        }
        buf_free(&source);
        buf_free(&target);
        layout_free(&sent);
    }
    layout_free(&whole);
    report("elements of a struct cut short");
}

/* MPI_PROC_NULL, zero counts and MPI_STATUS_IGNORE. */
static void nothing(void)
{
    struct buf *b = &targets[1][1];
    struct layout *l = &layouts[1];
    MPI_Status s;
    MPI_Request r;
    int low, high, n = -1;
    buf_fill(b, next_salt++);
    MPI_Send(b->origin, COUNT, l->type, MPI_PROC_NULL, 0, comm);
    MPI_Recv(b->origin, COUNT, l->type, MPI_PROC_NULL, 0, comm, &s);
    MPI_Get_count(&s, l->type, &n);
    expect(s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG && n == 0,
           "status of a receive from MPI_PROC_NULL");
    MPI_Irecv(b->origin, COUNT, l->type, MPI_PROC_NULL, 0, comm, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Isend(b->origin, COUNT, l->type, MPI_PROC_NULL, 0, comm, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    buf_check(b, "buffer of messages with MPI_PROC_NULL");
    if (pair_of(&low, &high)) {
        if (my_rank == low) MPI_Send(b->origin, 0, l->type, high, 5, comm);
        if (my_rank == low) MPI_Send(NULL, 0, MPI_INT, high, 6, comm);
        if (my_rank == high) {
            MPI_Recv(b->origin, COUNT, l->type, low, 5, comm, &s);
            MPI_Get_count(&s, l->type, &n);
            expect_equal(n, 0, "count of an empty message");
            MPI_Recv(b->origin, COUNT, l->type, low, 6, comm, MPI_STATUS_IGNORE);
            buf_check(b, "buffer of empty messages");
        }
    }
    report("MPI_PROC_NULL and empty messages");
}

/* A message to oneself; Sendrecv of derived types both ways at once around a ring. */
static void self_and_ring(void)
{
    int right = (my_rank + 1) % num_ranks, left = (my_rank + num_ranks - 1) % num_ranks;
    for (int turn = 0; turn < LAYOUTS * LAYOUTS; turn++) {
        struct layout *from = &layouts[turn / LAYOUTS], *to = &layouts[turn % LAYOUTS];
        struct buf *a = &sources[turn % 3 != 0][turn / LAYOUTS], *b = &targets[turn % 3 != 1][turn % LAYOUTS];
        MPI_Request r;
        MPI_Status s;
        int n = -1;
        buf_fill(a, next_salt + (uint64_t)my_rank);
        buf_fill(b, next_salt + 5000);
        MPI_Irecv(b->origin, COUNT, to->type, my_rank, 1, comm, &r);
        MPI_Send(a->origin, COUNT, from->type, my_rank, 1, comm);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        buf_expect_from(b, to, from, next_salt + (uint64_t)my_rank);
        buf_check(b, "a message to oneself");
        buf_fill(b, next_salt + 6000);
        MPI_Sendrecv(a->origin, COUNT, from->type, right, 2, b->origin, COUNT, to->type, left, MPI_ANY_TAG, comm, &s);
        buf_expect_from(b, to, from, next_salt + (uint64_t)left);
        buf_check(b, "Sendrecv around the ring");
        MPI_Get_count(&s, to->type, &n);
        expect(s.MPI_SOURCE == left && s.MPI_TAG == 2 && n == COUNT, "status of Sendrecv");
        next_salt += 10;
    }
    report("messages to oneself, Sendrecv both ways");
}

/* What MPI_Pack made may travel as MPI_PACKED and arrive as the type, and the other way. */
static void packed_on_the_way(void)
{
    int low, high, position = 0;
    struct buf packed;
    for (int i = 0; i < LAYOUTS; i++) {
        struct layout *l = &layouts[i];
        buf_bytes(&packed, MEM_DEVICE, (size_t)l->bytes, 0, 3);
        buf_fill(&sources[1][i], next_salt);
        buf_fill(&targets[1][i], next_salt + 1);
        if (pair_of(&low, &high) && my_rank == low) {
            position = 0;
            MPI_Pack(sources[1][i].origin, COUNT, l->type, packed.origin, l->bytes, &position, comm);
            MPI_Send(packed.origin, position, MPI_PACKED, high, 1, comm);
            MPI_Send(sources[1][i].origin, COUNT, l->type, high, 2, comm);
        } else if (pair_of(&low, &high)) {
            MPI_Recv(targets[1][i].origin, COUNT, l->type, low, 1, comm, MPI_STATUS_IGNORE);
            buf_expect_from(&targets[1][i], l, l, next_salt);
            buf_check(&targets[1][i], "received from MPI_PACKED");
            MPI_Recv(packed.origin, l->bytes, MPI_PACKED, low, 2, comm, MPI_STATUS_IGNORE);
            position = 0;
            buf_fill(&targets[1][i], next_salt + 2);
            MPI_Unpack(packed.origin, l->bytes, &position, targets[1][i].origin, COUNT, l->type, comm);
            buf_expect_from(&targets[1][i], l, l, next_salt);
            buf_check(&targets[1][i], "received as MPI_PACKED, then unpacked");
        }
        next_salt += 3;
        buf_free(&packed);
    }
    report("MPI_PACKED");
}

/* Random types of both families, any memory, sent as the type and received as it. */
static void random_types(enum family family)
{
    int low, high;
    bool paired = pair_of(&low, &high);
    for (int i = 0; i < 60; i++) {
        struct layout l;
        struct buf source, target;
        MPI_Status s;
        layout_random(&l, family, (int)roll(4), true);
        buf_make(&source, (enum mem_kind)roll(MEM_KINDS), &l, (int)roll(16), next_salt);
        buf_make(&target, (enum mem_kind)roll(MEM_KINDS), &l, (int)roll(16), next_salt + 1);
        if (paired && my_rank == low) MPI_Send(source.origin, l.count, l.type, high, 1, comm);
        if (paired && my_rank == high) {
            int n = -1;
            MPI_Recv(target.origin, l.count, l.type, low, 1, comm, &s);
            MPI_Get_count(&s, l.type, &n);
            expect(n == l.count, "MPI_Get_count is %d for %s", n, l.text);
            buf_expect_from(&target, &l, &l, next_salt);
            buf_check(&target, l.text);
        }
        next_salt += 2;
        buf_free(&source);
        buf_free(&target);
        layout_free(&l);
    }
    report("random types of family %c", "AB"[family]);
}

/* Order between two ranks: messages of one tag arrive in the order they were sent, whatever their sizes. */
static void order(void)
{
    enum { N = 24 };
    int low, high;
    struct layout l[2];
    struct buf b[N];
    MPI_Request r[N];
    layout_number(&l[0], 1, 1);
    layout_number(&l[1], 4, 20);
    for (int i = 0; i < N; i++) buf_make(&b[i], i % 3 ? MEM_DEVICE : MEM_HOST, &l[i % 2], 0, 7);
    if (pair_of(&low, &high)) {
        for (int i = 0; i < N; i++) {
            if (my_rank == low) {
                buf_fill(&b[i], 900 + (uint64_t)i);
                MPI_Isend(b[i].origin, l[i % 2].count, l[i % 2].type, high, 1, comm, &r[i]);
            } else {
                MPI_Irecv(b[i].origin, l[i % 2].count, l[i % 2].type, low, 1, comm, &r[i]);
                buf_expect_from(&b[i], &l[i % 2], &l[i % 2], 900 + (uint64_t)i);
            }
        }
        MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++) buf_check(&b[i], "messages of one tag, small and large in turn");
    }
    for (int i = 0; i < N; i++) buf_free(&b[i]);
    layout_free(&l[0]);
    layout_free(&l[1]);
    report("messages of one tag keep their order");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    make_all();
    all_modes();
    partial();
    elements_of_struct();
    nothing();
    self_and_ring();
    packed_on_the_way();
    random_types(FAMILY_A);
    random_types(FAMILY_B);
    order();
    free_all();
    MPI_Comm_free(&comm);
    return check_finish();
}
