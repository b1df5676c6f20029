/* probed.c: messages that were probed are not received before those that their sender sent earlier, whatever tags a receive
 * names, and receives that are too short for one find it all the same. All ranks know what is sent; each receive and each probe
 * has to find the first message of its source that it matches. Synchronous sends do not end by being probed. What was probed and
 * is not received goes with its communicator, and MPI_Finalize ends whatever was matched. All that is so, too, where
 * several threads might call the MPI (`multiple`). "many": more messages wait for their receive than an MPI
 * needs to have tags. "replaced": MPI_Sendrecv_replace of more than 1 GiB finds them, too.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 3 --host
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 3 --host multiple
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 multiple
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: -n 2 many
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host replaced
 */
#include "check.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 40
#define N 10         /* messages of a rank in a round */
#define TAGS 3
#define KINDS 4
#define MOST 40      /* elements of LAYOUT_DOUBLES */
#define PEERS 8

/* What is sent: one double; 960 bytes; and two that may be offered. */
static struct layout sent[KINDS], room[2];   /* and what any of them is received into */
static MPI_Comm comm;
static uint64_t salt = 1000;
static unsigned draws;

static int pick(int n)   /* of this rank's own */
{
    draws = draws * 1103515245u + 12345u;
    return (int)(draws >> 16) % n;
}

static struct message {
    int tag, kind;
    uint64_t salt;
    bool gone;
} messages[PEERS][N];

static bool matches(const struct message *m, int tag)
{
    return !m->gone && (tag == MPI_ANY_TAG || m->tag == tag);
}

static struct message *first_of(int source, int tag)
{
    for (int i = 0; i < N; i++)
        if (matches(&messages[source][i], tag)) return &messages[source][i];
    return NULL;
}

static struct message *found(const MPI_Status *s, int tag, const char *how)
{
    int bytes = -1;
    bool known = s->MPI_SOURCE >= 0 && s->MPI_SOURCE < num_ranks && s->MPI_SOURCE != my_rank;
    struct message *m = known ? first_of(s->MPI_SOURCE, tag) : NULL;
    MPI_Get_count(s, MPI_BYTE, &bytes);
    if (!m) fail("%s: nothing of rank %d is left", how, s->MPI_SOURCE);
    else if (s->MPI_TAG != m->tag || bytes != sent[m->kind].bytes)
        fail("%s finds tag %d, %d bytes, before tag %d, %d bytes", how, s->MPI_TAG, bytes, m->tag, sent[m->kind].bytes);
    return m;
}

static void probe(int source, int tag)
{
    MPI_Status s;
    int there = pick(2);
    if (there) MPI_Probe(source, tag, comm, &s);
    else MPI_Iprobe(source, tag, comm, &there, &s);
    if (there) found(&s, tag, "a probe");
}

static const char *const ways[] = {"Recv", "Irecv", "Mprobe", "Improbe", "Recv_init", "Sendrecv"};

static void receive_by(int way, const struct buf *b, const struct layout *l, int source, int tag, MPI_Status *s)
{
    MPI_Request r;
    MPI_Message m;
    int there = 0;
    switch (way) {
    case 0:
        MPI_Recv(b->origin, l->count, l->type, source, tag, comm, s);
        return;
    case 1:
        MPI_Irecv(b->origin, l->count, l->type, source, tag, comm, &r);
        break;
    case 2:
        MPI_Mprobe(source, tag, comm, &m, MPI_STATUS_IGNORE);
        MPI_Mrecv(b->origin, l->count, l->type, &m, s);
        return;
    case 3:
        while (!there) MPI_Improbe(source, tag, comm, &there, &m, MPI_STATUS_IGNORE);
        MPI_Imrecv(b->origin, l->count, l->type, &m, &r);
        break;
    case 4:
        MPI_Recv_init(b->origin, l->count, l->type, source, tag, comm, &r);
        MPI_Start(&r);
        MPI_Wait(&r, s);
        MPI_Request_free(&r);
        return;
    default:
        MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, b->origin, l->count, l->type, source, tag, comm, s);
        return;
    }
    MPI_Wait(&r, s);
}

static void receive(int source, int tag)
{
    const struct message *known = source == MPI_ANY_SOURCE ? NULL : first_of(source, tag);
    const struct layout *l = known && pick(2) ? &sent[known->kind] : &room[pick(2)];
    int way = pick(6);
    enum mem_kind kind = pick(2) ? MEM_HOST : MEM_DEVICE;
    struct buf b;
    MPI_Status s = {.MPI_SOURCE = -1};
    buf_make(&b, kind, l, 0, 7);
    receive_by(way, &b, l, source, tag, &s);
    struct message *m = found(&s, tag, ways[way]);
    if (m) {
        m->gone = true;
        buf_expect_from(&b, l, &sent[m->kind], m->salt);
        buf_check(&b, ways[way]);
    }
    buf_free(&b);
}

static void receive_all(void)
{
    for (int left = (num_ranks - 1) * N; left > 0;) {
        int from = pick(num_ranks), tag = pick(3) ? pick(TAGS) : MPI_ANY_TAG;
        if (from == my_rank || !first_of(from, tag)) continue;
        int source = pick(3) ? from : MPI_ANY_SOURCE;
        if (pick(2)) probe(source, tag);
        else receive(source, tag), left--;
    }
}

static void send_all(int to)
{
    MPI_Request r[N];
    struct buf b[N];
    for (int i = 0; i < N; i++) {
        const struct message *m = &messages[my_rank][i];
        const struct layout *l = &sent[m->kind];
        buf_make(&b[i], pick(2) ? MEM_HOST : MEM_DEVICE, l, 0, m->salt);
        (pick(3) ? MPI_Isend : MPI_Issend)(b[i].origin, l->count, l->type, to, m->tag, comm, &r[i]);
    }
    MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) buf_free(&b[i]);
}

static void order(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        int receiver = round % num_ranks;
        for (int k = 0; k < num_ranks; k++)
            for (int i = 0; i < N; i++)
                messages[k][i] = (struct message){(int)roll(TAGS), (int)roll(KINDS), salt++, false};
        if (my_rank == receiver) receive_all();
        else send_all(receiver);
    }
    report("the order of probed messages and others");
}

/* A message that was probed, and one of the same tag behind it; receives of one double. */
static void too_short(void)
{
    const struct layout *l = &sent[KINDS - 1];
    for (int way = 0; way < 8; way++) {
        for (int kind = 0; kind < 2; kind++) {
            struct buf b;
            double value = 42, got[2] = {0, 0};
            MPI_Status s;
            int bytes = -1;
            buf_make(&b, kind ? MEM_DEVICE : MEM_HOST, l, 0, 1);
            if (my_rank == 0) {
                MPI_Send(b.origin, l->count, l->type, 1, 5, comm);
                MPI_Send(&value, 1, MPI_DOUBLE, 1, 5, comm);
            } else if (my_rank == 1) {
                struct buf one;
                buf_make(&one, MEM_HOST, &sent[0], 0, 2);
                MPI_Probe(0, 5, comm, &s);
                MPI_Get_count(&s, MPI_BYTE, &bytes);
                expect_equal(bytes, l->bytes, "bytes of the probed message");
                MPI_Request r;
                MPI_Message m;
                int rc = MPI_SUCCESS;
                if (way == 0) rc = MPI_Recv(one.origin, 1, MPI_DOUBLE, 0, 5, comm, &s);
                if (way == 1) MPI_Irecv(one.origin, 1, MPI_DOUBLE, 0, 5, comm, &r), rc = MPI_Wait(&r, &s);
                if (way == 2) MPI_Mprobe(0, 5, comm, &m, &s), rc = MPI_Mrecv(one.origin, 1, MPI_DOUBLE, &m, &s);
                if (way == 3) rc = MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, one.origin, 1, MPI_DOUBLE, 0, 5, comm, &s);
                if (way == 4) rc = MPI_Recv(NULL, 0, MPI_DOUBLE, 0, 5, comm, &s);
                if (way >= 5) {
                    int n, index;
                    MPI_Recv_init(one.origin, 1, MPI_DOUBLE, 0, 5, comm, &r);
                    MPI_Start(&r);
                    rc = way == 5 ? MPI_Wait(&r, &s) : way == 6 ? MPI_Waitall(1, &r, &s) : MPI_Waitsome(1, &r, &n, &index, &s);
                    expect(way == 5 || error_class(rc) == MPI_ERR_IN_STATUS, "way %d gives %s", way, error_name(error_class(rc)));
                    if (way > 5) rc = s.MPI_ERROR;
                    if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);   /* Open MPI frees it where it failed */
                }
                expect(error_class(rc) == MPI_ERR_TRUNCATE, "way %d: a receive of 8 bytes of %d gives %s", way, l->bytes,
                       error_name(error_class(rc)));
                buf_expect_from(&one, &sent[0], &sent[0], 2);
                buf_check_but(&one, 0, sizeof(double), "what is around it");
                rc = MPI_Recv(got, 1, MPI_DOUBLE, 0, 5, comm, &s);
                expect(rc == MPI_SUCCESS && got[0] == value, "way %d: the message behind it", way);
                buf_free(&one);
            }
            buf_free(&b);
        }
    }
    report("receives that are too short for a probed message");
}

/* The receiver tells by the other communicator that it will receive from now on. */
static void synchronous(void)
{
    const struct layout *l = &sent[KINDS - 1];
    for (int way = 0; way < 3; way++) {
        for (int kind = 0; kind < 2; kind++) {
            struct buf b;
            MPI_Status s;
            int there = 0;
            buf_make(&b, kind ? MEM_DEVICE : MEM_HOST, l, 0, my_rank ? 4 : 3);
            if (my_rank == 0) {
                MPI_Request r;
                double since = 0;
                MPI_Issend(b.origin, l->count, l->type, 1, 6, comm, &r);
                while (within(&since, 0.2)) {
                    MPI_Test(&r, &there, MPI_STATUS_IGNORE);
                    expect(!there, "a synchronous send ends before its receive");
                    if (there) break;
                }
                MPI_Send(NULL, 0, MPI_INT, 1, 1, check_comm);
                MPI_Wait(&r, MPI_STATUS_IGNORE);
            } else if (my_rank == 1) {
                MPI_Message m;
                if (way == 0) MPI_Probe(0, 6, comm, &s);
                while (way == 1 && !there) MPI_Iprobe(0, 6, comm, &there, &s);
                if (way == 2) MPI_Mprobe(0, 6, comm, &m, &s);
                MPI_Recv(NULL, 0, MPI_INT, 0, 1, check_comm, MPI_STATUS_IGNORE);
                if (way == 2) MPI_Mrecv(b.origin, l->count, l->type, &m, &s);
                else MPI_Recv(b.origin, l->count, l->type, 0, 6, comm, &s);
                buf_expect_from(&b, l, l, 3);
                buf_check(&b, "a synchronous send that was probed");
            }
            buf_free(&b);
        }
    }
    report("synchronous sends that are probed");
}

/* MPICH itself finds it in the next communicator. */
static void unreceived(void)
{
    const struct layout *l = &sent[1];
    struct buf b;
    MPI_Comm own;
    MPI_Message m;
    MPI_Status s;
    int there = 0;
    buf_make(&b, MEM_DEVICE, l, 0, 5);
    MPI_Comm_dup(comm, &own);
    if (my_rank == 0) {
        MPI_Send(b.origin, l->count, l->type, 1, 7, comm);
        MPI_Send(b.origin, l->count, l->type, 1, 8, own);
    } else if (my_rank == 1) {
        MPI_Mprobe(0, 7, comm, &m, &s);
        MPI_Probe(0, 8, own, &s);
    }
    MPI_Comm_free(&own);
    MPI_Comm_dup(comm, &own);   /* mostly the same handle */
#ifdef OPEN_MPI
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, own, &there, &s);
#endif
    expect(!there, "a message of a communicator that is gone is found in the next one");
    MPI_Comm_free(&own);
    buf_free(&b);
    report("messages that are probed, and not received");
}

/* Bytes that could be an RTS header's: a probe looks at all that come before what it is for. */
static void many(void)
{
    enum { MANY = 32769, BYTES = 512 };
    int is[BYTES / sizeof(int)] = {0};
    MPI_Status s;
    for (int i = 0; i <= MANY && my_rank == 0; i++) {
        is[0] = i;
        MPI_Send(is, BYTES, MPI_BYTE, 1, i < MANY ? 7 : 8, comm);
    }
    if (my_rank == 1) {
        MPI_Probe(0, 8, comm, &s);
        MPI_Recv(is, BYTES, MPI_BYTE, 0, 8, comm, &s);
        expect_equal(is[0], MANY, "what the probed message says");
        int wrong = 0;
        for (int i = 0; i < MANY; i++) MPI_Recv(is, BYTES, MPI_BYTE, 0, 7, comm, &s), wrong += is[0] != i;
        expect_equal(wrong, 0, "messages that came before it, and say what others do");
    }
    report("many messages");
}

static unsigned char sent_byte(size_t i)
{
    return (unsigned char)(i * 0x9e3779b97f4a7c15u >> 56);
}

/* Rank 0 has probed past a message of BYTES (SHM_SEND_MIN in runtime/datatype/type_filter.h), and receives it in place
 * of the first of `bytes` of `type`, which it sends. */
static void replace(const char *what, int count, MPI_Datatype type, size_t bytes, int to)
{
    enum { BYTES = 3968, COMES = 7, LAST, GOES };
    unsigned char head[BYTES], *all = malloc(bytes);
    MPI_Status s;
    size_t wrong = 0;
    if (!all) exit(2);
    memset(head, 'h', sizeof head);
    for (size_t i = 0; i < bytes; i++) all[i] = my_rank ? 0 : sent_byte(i);
    if (my_rank == 1) {
        MPI_Send(head, BYTES, MPI_BYTE, 0, COMES, comm);
        MPI_Send(head, BYTES, MPI_BYTE, 0, LAST, comm);
        if (to == 1) MPI_Recv(all, count, type, 0, GOES, comm, &s);
        for (size_t i = 0; i < bytes && to == 1; i++) wrong += all[i] != sent_byte(i);
    } else {
        int came = 0;
        MPI_Probe(1, LAST, comm, &s);
        MPI_Sendrecv_replace(all, count, type, to, GOES, 1, COMES, comm, &s);
        MPI_Get_count(&s, MPI_BYTE, &came);
        expect_equal(came, BYTES, "bytes that came");
        for (size_t i = 0; i < bytes; i++) wrong += all[i] != (i < BYTES ? 'h' : sent_byte(i));
        MPI_Recv(head, BYTES, MPI_BYTE, 1, LAST, comm, &s);
    }
    expect(!wrong, "%zu bytes are wrong", wrong);
    free(all);
    report("Sendrecv_replace finds what was probed: %s", what);
}

static void replaced(void)
{
    enum { MANY = (1 << 18) + 64, CHUNK = 4096 };
    MPI_Datatype chunk, whole;
    MPI_Type_contiguous(CHUNK, MPI_BYTE, &chunk), MPI_Type_commit(&chunk);
    MPI_Type_contiguous(MANY, chunk, &whole), MPI_Type_commit(&whole);
    size_t bytes = (size_t)MANY * CHUNK;
    replace("many elements", MANY, chunk, bytes, 1);
    replace("one element", 1, whole, bytes, 1);
    replace("sent to nobody", 1, whole, bytes, MPI_PROC_NULL);
    MPI_Type_free(&chunk), MPI_Type_free(&whole);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, strcmp(argv[argc - 1], "multiple") ? -1 : MPI_THREAD_MULTIPLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);   /* where MPICH 4.0 raises those of MPI_Wait */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    bool counts = !strcmp(argv[argc - 1], "many");
    if (counts || !strcmp(argv[argc - 1], "replaced")) {
        counts ? many() : replaced();
        MPI_Comm_free(&comm);
        return check_finish();
    }
    draws = (unsigned)test_seed + (unsigned)my_rank;
    layout_of(&sent[0], MPI_DOUBLE, 1, "double");
    layout_number(&sent[1], 1, 1);
    layout_number(&sent[2], 2, 6);
    layout_number(&sent[3], 4, MOST);
    layout_number(&room[0], 0, MOST);
    layout_number(&room[1], 3, MOST);
    order();
    too_short();
    synchronous();
    unreceived();
    for (int i = 0; i < KINDS; i++) layout_free(&sent[i]);
    layout_free(&room[0]), layout_free(&room[1]);
    MPI_Comm_free(&comm);
    return check_finish();
}
