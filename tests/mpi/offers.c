/* offers.c: messages that go zero-copy: the sender's bytes arrive whatever call sends and whatever call
 * receives them, in one launch where they come together, and not at all from memory that is no longer the sender's.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 apart
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=2500,depth=2 -n 2 packed
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=1000,device=1 LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2 packed
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcGetMemHandle -n 2 packed
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 2 packed
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_PEERS=0 -n 2 packed apart
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle:2,cuIpcOpenMemHandle:3,cuIpcOpenMemHandle:5,cuIpcOpenMemHandle:8 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle:4+ -n 2 refused
 * run: STRIDEC_TRANSPORT=zerocopy FILES_FULL=131072 LD_PRELOAD=@ATTACH -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_MEMORY=64 -n 2 full
 */
#include "check.h"
#include "offers.h"
#include "resources.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 2
#define SECONDS 30
#define NEVER 4000   /* no message has this tag */

static int peer;
static MPI_Comm comm;
static struct layout layouts[LAYOUTS];
static uint64_t salt = 10;
static bool packed;   /* nothing may be offered */

/*
 * Each way to send with each way to receive.
 */

struct message {
    void *buf;
    MPI_Datatype type;
    int tag;
    bool any;         /* received by wildcards */
    MPI_Status *s;
};

static void by_send(struct message *m)
{
    MPI_Send(m->buf, COUNT, m->type, peer, m->tag, comm);
}

static void by_ssend(struct message *m)
{
    MPI_Ssend(m->buf, COUNT, m->type, peer, m->tag, comm);
}

static void by_isend(struct message *m)
{
    MPI_Request r;
    MPI_Isend(m->buf, COUNT, m->type, peer, m->tag, comm, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void by_issend_tested(struct message *m)
{
    MPI_Request r;
    int done = 0;
    MPI_Issend(m->buf, COUNT, m->type, peer, m->tag, comm, &r);
    while (!done) MPI_Test(&r, &done, MPI_STATUS_IGNORE);
}

static void by_isend_seen(struct message *m)
{
    MPI_Request r;
    int done = 0;
    MPI_Isend(m->buf, COUNT, m->type, peer, m->tag, comm, &r);
    while (!done) MPI_Request_get_status(r, &done, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* The receiver's word, after every message, is what tells that the buffer is free. */
static void by_isend_freed(struct message *m)
{
    MPI_Request r;
    MPI_Isend(m->buf, COUNT, m->type, peer, m->tag, comm, &r);
    MPI_Request_free(&r);
}

static void by_persistent_send(struct message *m)
{
    MPI_Request r;
    MPI_Send_init(m->buf, COUNT, m->type, peer, m->tag, comm, &r);
    MPI_Start(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Request_free(&r);
}

static void by_sendrecv_send(struct message *m)
{
    MPI_Sendrecv(m->buf, COUNT, m->type, peer, m->tag, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE);
}

static int source(const struct message *m)
{
    return m->any ? MPI_ANY_SOURCE : peer;
}

static int tag(const struct message *m)
{
    return m->any ? MPI_ANY_TAG : m->tag;
}

static void by_recv(struct message *m)
{
    MPI_Recv(m->buf, COUNT, m->type, source(m), tag(m), comm, m->s);
}

static void by_irecv(struct message *m)
{
    MPI_Request r;
    MPI_Irecv(m->buf, COUNT, m->type, source(m), tag(m), comm, &r);
    MPI_Wait(&r, m->s);
}

static void by_irecv_tested(struct message *m)
{
    MPI_Request r[2] = {MPI_REQUEST_NULL};
    int done = 0, which;
    MPI_Irecv(m->buf, COUNT, m->type, source(m), tag(m), comm, &r[1]);
    while (!done) MPI_Testany(2, r, &which, &done, m->s);
}

static void by_irecv_seen(struct message *m)
{
    MPI_Request r;
    MPI_Status seen;
    int done = 0, n = -1;
    MPI_Irecv(m->buf, COUNT, m->type, source(m), tag(m), comm, &r);
    while (!done) MPI_Request_get_status(r, &done, &seen);
    MPI_Get_count(&seen, m->type, &n);
    expect_equal(n, COUNT, "the count that MPI_Request_get_status tells");
    MPI_Wait(&r, m->s);
}

static void by_irecv_some(struct message *m)
{
    MPI_Request r[2] = {MPI_REQUEST_NULL};
    int n = 0, which[2];
    MPI_Irecv(m->buf, COUNT, m->type, source(m), tag(m), comm, &r[1]);
    MPI_Waitsome(2, r, &n, which, m->s);
    expect(n == 1 && which[0] == 1, "MPI_Waitsome completes %d requests", n);
}

static void by_persistent_recv(struct message *m)
{
    MPI_Request r;
    MPI_Recv_init(m->buf, COUNT, m->type, source(m), tag(m), comm, &r);
    MPI_Start(&r);
    MPI_Wait(&r, m->s);
    MPI_Request_free(&r);
}

static void by_sendrecv_recv(struct message *m)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, m->buf, COUNT, m->type, source(m), tag(m), comm, m->s);
}

/* The length that a probe tells is the payload's. */
static void told(const MPI_Status *s, const struct message *m)
{
    int n = -1;
    MPI_Get_count(s, m->type, &n);
    expect_equal(n, COUNT, "the count that a probe tells");
    expect(s->MPI_SOURCE == peer && s->MPI_TAG == m->tag, "a probe tells source %d, tag %d", s->MPI_SOURCE, s->MPI_TAG);
}

static void by_probe_recv(struct message *m)
{
    MPI_Status s;
    MPI_Probe(source(m), tag(m), comm, &s);
    told(&s, m);
    MPI_Probe(peer, m->tag, comm, &s);   /* it is still there */
    told(&s, m);
    MPI_Recv(m->buf, COUNT, m->type, s.MPI_SOURCE, s.MPI_TAG, comm, m->s);
}

static void by_iprobe_irecv(struct message *m)
{
    MPI_Status s;
    int there = 0;
    while (!there) MPI_Iprobe(source(m), tag(m), comm, &there, &s);
    told(&s, m);
    by_irecv(m);
}

static void by_probe_sendrecv(struct message *m)
{
    MPI_Status s;
    MPI_Probe(source(m), tag(m), comm, &s);
    told(&s, m);
    by_sendrecv_recv(m);
}

/* A persistent receive, started when the message has been probed; beside one that never
 * completes. */
static void by_probe_persistent(struct message *m)
{
    static int turn;
    MPI_Request r[2], *own = &r[1];
    MPI_Status s, all[2];
    int which[2] = {-1}, done = 0, n = 0, never;
    MPI_Recv_init(m->buf, COUNT, m->type, source(m), tag(m), comm, own);
    MPI_Recv_init(&never, 1, MPI_INT, peer, NEVER, comm, &r[0]);
    MPI_Probe(source(m), tag(m), comm, &s);
    told(&s, m);
    MPI_Startall(2, r);
    MPI_Cancel(own);   /* too late */
    switch (turn++ % 6) {
    case 0: MPI_Waitany(2, r, which, m->s); break;
    case 1: while (!done) MPI_Testany(2, r, which, &done, m->s); break;
    case 2: MPI_Waitsome(2, r, &n, which, all), *m->s = all[0]; break;
    case 3:
        while (!n) MPI_Testsome(2, r, &n, which, all);
        *m->s = all[0];
        break;
    case 4:
        while (!done) MPI_Request_get_status(*own, &done, &s);
        told(&s, m);
        MPI_Wait(own, m->s), which[0] = 1;
        break;
    default:
        while (!done) MPI_Test(own, &done, m->s);
        which[0] = 1;
    }
    expect_equal(which[0], 1, "the receive of several that completes");
    MPI_Cancel(&r[0]), MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    MPI_Request_free(own), MPI_Request_free(&r[0]);
}

/* Seen to be complete, then freed. */
static void by_probe_persistent_freed(struct message *m)
{
    MPI_Request r;
    MPI_Status s;
    int done = 0;
    MPI_Recv_init(m->buf, COUNT, m->type, source(m), tag(m), comm, &r);
    MPI_Probe(source(m), tag(m), comm, &s);
    MPI_Start(&r);
    while (!done) MPI_Request_get_status(r, &done, m->s);
    MPI_Request_free(&r);
}

static void by_mprobe_mrecv(struct message *m)
{
    MPI_Status s;
    MPI_Message message;
    MPI_Mprobe(source(m), tag(m), comm, &message, &s);
    told(&s, m);
    MPI_Mrecv(m->buf, COUNT, m->type, &message, m->s);
}

/* A probe without a match comes first. */
static void by_improbe_imrecv(struct message *m)
{
    MPI_Status s;
    MPI_Message message;
    MPI_Request r;
    int there = 0;
    MPI_Probe(source(m), tag(m), comm, &s);
    while (!there) MPI_Improbe(source(m), tag(m), comm, &there, &message, &s);
    told(&s, m);
    MPI_Imrecv(m->buf, COUNT, m->type, &message, &r);
    MPI_Wait(&r, m->s);
}

typedef void way(struct message *m);
static const struct { const char *name; way *go; } SENDS[] = {
    {"Send", by_send}, {"Ssend", by_ssend}, {"Isend", by_isend}, {"Issend and Test", by_issend_tested},
    {"Isend and Request_get_status", by_isend_seen}, {"Isend and Request_free", by_isend_freed},
    {"Send_init", by_persistent_send}, {"Sendrecv", by_sendrecv_send}};
static const struct { const char *name; way *go; } RECEIVES[] = {
    {"Recv", by_recv}, {"Irecv", by_irecv}, {"Irecv and Testany", by_irecv_tested},
    {"Irecv and Request_get_status", by_irecv_seen}, {"Irecv and Waitsome", by_irecv_some},
    {"Recv_init", by_persistent_recv}, {"Sendrecv", by_sendrecv_recv}, {"Probe and Recv", by_probe_recv},
    {"Iprobe and Irecv", by_iprobe_irecv}, {"Probe and Sendrecv", by_probe_sendrecv},
    {"Probe and Recv_init", by_probe_persistent}, {"Probe, Recv_init and Request_free", by_probe_persistent_freed},
    {"Mprobe and Mrecv", by_mprobe_mrecv},
    {"Probe, Improbe and Imrecv", by_improbe_imrecv}};

static void arrived(struct message *m, struct buf *b, const struct layout *to, const struct layout *from, const char *how)
{
    int n = -1;
    MPI_Get_count(m->s, m->type, &n);
    expect_equal(n, COUNT, how);
    expect(m->s->MPI_SOURCE == peer && m->s->MPI_TAG == m->tag, "%s: source %d, tag %d", how, m->s->MPI_SOURCE, m->s->MPI_TAG);
    buf_expect_from(b, to, from, salt);
    buf_check(b, how);
}

/* From one rank to the other, between two layouts and kinds of memory that chance chooses. */
static void pass(int sender, way *send, way *receive, const char *how)
{
    struct layout *from = &layouts[roll(LAYOUTS)], *to = &layouts[roll(LAYOUTS)];
    enum mem_kind from_kind = roll(4) ? MEM_DEVICE : (enum mem_kind)roll(MEM_KINDS);
    enum mem_kind to_kind = roll(2) ? MEM_DEVICE : (enum mem_kind)roll(MEM_KINDS);
    MPI_Status s;
    struct buf b;
    bool any = roll(2);
    struct message m = {.tag = 5 + (int)roll(1000), .any = any, .s = &s};
    salt++;
    if (my_rank == sender) {
        buf_make(&b, from_kind, from, 0, salt);
        m.buf = b.origin, m.type = from->type;
        send(&m);
    } else {
        buf_make(&b, to_kind, to, 0, salt + 5);
        m.buf = b.origin, m.type = to->type;
        receive(&m);
        arrived(&m, &b, to, from, how);
    }
    MPI_Barrier(comm);
    buf_free(&b);
}

static void each_with_each(void)
{
    for (size_t i = 0; i < sizeof SENDS / sizeof *SENDS; i++) {
        for (size_t j = 0; j < sizeof RECEIVES / sizeof *RECEIVES; j++)
            for (int sender = 0; sender < 2; sender++) pass(sender, SENDS[i].go, RECEIVES[j].go, RECEIVES[j].name);
        report("%s to each receive", SENDS[i].name);
    }
}

/*
 * Until both ranks read the other's memory, or SECONDS are over.
 */

static bool both(bool yes)
{
    int mine = yes, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    return all;
}

static bool until_shared(void)
{
    double since = 0;
    const struct node_file *own;
    do {
        pass(0, by_send, by_recv, "the first messages");
        pass(1, by_send, by_recv, "the first messages");
        own = offers_file(my_rank);
    } while (!both(own && offers_accepted(own, peer)) && both(within(&since, packed ? 1 : SECONDS)));
    return both(own && offers_accepted(own, peer));
}

/*
 * No memory is left for what its receiver does not read at once: the receiver sends the same rank a long message
 * first, or waits for a word from it, which comes when a test has told that the send is not complete.
 */

static void full(void)
{
    enum { LONG = 1 << 20, BLOCKS = 1 << 12, COPIES = 32, LEAST = 1 << 12, WARM = 3 };
    char *message = calloc(LONG, 1);
    void *taken;
    struct layout l;
    struct buf b, more;
    MPI_Datatype row, strided;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Type_vector(BLOCKS, 2, 4, MPI_INT, &row);
    MPI_Type_create_resized(row, 0, BLOCKS * 16, &strided);
    MPI_Type_free(&row);
    type_commit(&strided);
    layout_of(&l, strided, COPIES, "pairs of ints");
    buf_make(&b, MEM_DEVICE, &l, 0, 40 + (uint64_t)my_rank);
    buf_make(&more, MEM_DEVICE, &l, 0, 50 + (uint64_t)my_rank);
    for (int round = 0; round <= WARM; round++) {
        bool now = round == WARM;
        int count = now ? COPIES : 1;
        for (size_t bytes = LONG; now && bytes >= LEAST; bytes /= 2)
            while (cudaMalloc(&taken, bytes) == cudaSuccess) continue;   /* until the end of the process */
        MPI_Barrier(comm);
        if (my_rank == 0) {
            if (now) MPI_Irecv(message, LONG, MPI_CHAR, peer, 1, comm, &request);
            MPI_Send(b.origin, count, strided, peer, 2, comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            if (now) MPI_Send(message, LONG, MPI_CHAR, peer, 1, comm);
            MPI_Recv(b.origin, count, strided, peer, 2, comm, MPI_STATUS_IGNORE);
        }
    }
    if (my_rank == 0) {
        int done = 0;
        MPI_Isend(b.origin, COPIES, strided, peer, 3, comm, &request);
        for (double since = MPI_Wtime(); !done && MPI_Wtime() - since < 0.002;)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_CHAR, peer, 4, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_CHAR, peer, 4, comm, MPI_STATUS_IGNORE);
        MPI_Recv(b.origin, COPIES, strided, peer, 3, comm, MPI_STATUS_IGNORE);
    }
    cudaGetLastError();
    if (my_rank == 1) buf_expect_from(&b, &l, &l, 40);
    buf_check(&b, "sent without memory");
    report("a send that waits for its receiver receives from it, when no memory is left");

    /* The first receive is read when the MPI has completed both, so the first send may not wait for that. */
    if (my_rank == 0) {
        MPI_Send(b.origin, COPIES, strided, peer, 5, comm);
        MPI_Send(more.origin, COPIES, strided, peer, 6, comm);
    } else {
        MPI_Request both[2];
        buf_fill(&b, 41);
        MPI_Irecv(b.origin, COPIES, strided, peer, 5, comm, &both[0]);
        MPI_Irecv(more.origin, COPIES, strided, peer, 6, comm, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        buf_expect_from(&b, &l, &l, 40), buf_expect_from(&more, &l, &l, 50);
    }
    cudaGetLastError();
    buf_check(&b, "the first of two sent without memory"), buf_check(&more, "the second of two sent without memory");
    report("two sends to a receiver that waits for both, when no memory is left");
    buf_free(&b), buf_free(&more), layout_free(&l);
    free(message);
}

int main(int argc, char **argv)
{
    bool apart = false, refused = false;
    for (int i = 1; i < argc; i++) {
        packed |= !strcmp(argv[i], "packed"), apart |= !strcmp(argv[i], "apart");
        refused |= !strcmp(argv[i], "refused");
    }
    check_start(&argc, &argv, -1);
    peer = 1 - my_rank;
    if (apart && !host_mode) cudaSetDevice(my_rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (!strcmp(argv[argc - 1], "full")) {
        full();
        MPI_Comm_free(&comm);
        return check_finish();
    }
    for (int i = 0; i < LAYOUTS; i++) layout_number(&layouts[i], i, COUNT);
    if (!host_mode) {
        bool shared = until_shared();
        expect(shared != packed, "the ranks %s each other's memory", shared ? "read" : "don't read");
        report("memory is %sshared", packed ? "not " : "");
    }
    each_with_each();
    struct offers o = {.comm = comm, .peer = peer, .layouts = layouts, .packed = packed, .refused = refused};
    offers_rest(&o);
    for (int i = 0; i < LAYOUTS; i++) layout_free(&layouts[i]);
    MPI_Comm_free(&comm);
    return check_finish();
}
