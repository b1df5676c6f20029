/* pipe.c: messages that go in chunks: every byte arrives, both ends' memory is free when MPI says so, and nobody waits for a
 * call that another rank makes only later. offers.c and soak.c send them in all ways as well.
 *
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=4096,depth=3 -n 4
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=40000,depth=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=4096,device=1 LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2
 * run: STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=least=4096,chunk=5000 SIMGPU_FAIL=cuIpcGetMemHandle -n 3
 * run: STRIDEC_PIPELINE=1 SIMGPU_FAIL=cuIpcGetMemHandle SIMGPU_EAGER=1 -n 2 staged
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=4096 -n 2 broken
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=4096 -n 3 no => warns
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=4096 -n 3 disabled => warns
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_CHUNKS=chunk=4096 -n 2 unasked => warns
 * run: NODES=2 STRIDEC_CHUNKS=least=4096,chunk=5000 -n 2
 * run: NODES=2 STRIDEC_TRANSPORT=pipelined STRIDEC_CHUNKS=chunk=4096 OMPI_MCA_pmix_base_collect_data=0 -n 3
 * run: NODES=2 SIMGPU_OPEN=1 STRIDEC_TRANSPORT=pipelined STRIDEC_CHUNKS=chunk=4096 -n 3 stranger => warns
 * run: NODES=2 STRIDEC_TRANSPORT=pipelined STRIDEC_CHUNKS=chunk=4096 -n 3 disabled => warns
 * run: NODES=2 STRIDEC_TRANSPORT=pipelined STRIDEC_CHUNKS=chunk=4096 OMPI_MCA_async_mpi_finalize=1 -n 2 unasked => warns
 * run: NODES=2 LD_PRELOAD=@TWICE SIMGPU_OPEN=1 STRIDEC_CHUNKS=least=4096,chunk=5000 -n 2 => warns
 * run: NODES=2 STRIDEC_PIPELINE=0 STRIDEC_CHUNKS=least=4096,chunk=5000 -n 2 unasked
 */
#include "check.h"
#include "resources.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ELEMENTS 80       /* of LAYOUT_DOUBLES: 75 KiB, past what MPIs send without a receiver */
#define TAG 11
#define SECONDS 30

static MPI_Comm comm;
static struct layout layouts[LAYOUTS];
static uint64_t salt = 100;
static bool chunked = true;

/* A tuned table by which all goes staged, in chunks that it names. */
static void write_table(char *path)
{
    static const char *const curves[] = {"pack_mapped", "unpack_mapped", "pack_staged", "unpack_staged", "message_host"};
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) exit(2);
    fprintf(f, "stridec tune 1\nmachine Simulated GPU\nmpi any\ndate 2026-01-01\npipeline chunk=5000 depth=2 least=600\n");
    for (int i = 0; i < 5; i++) fprintf(f, "curve %s\nbytes 1\nany %d\n", curves[i], i < 2 ? 9 : 1);
    if (fclose(f)) exit(2);
    setenv("STRIDEC_TUNE", path, 1);
}

static int right(void)
{
    return (my_rank + 1) % num_ranks;
}

static int left(void)
{
    return (my_rank + num_ranks - 1) % num_ranks;
}

/* Some may only be sent: so many elements of them lie one in the other. */
static const struct layout *receivable(int number)
{
    const struct layout *l = &layouts[number % LAYOUTS];
    return l->overlaps ? &layouts[2] : l;
}

/* What one rank sends to the right and gets from the left. */
struct pair {
    const struct layout *to_send, *to_receive, *sent;   /* sent: by the left */
    struct buf out, in;
};

static void pair_make(struct pair *p, int layout, enum mem_kind receiver)
{
    salt += 100;
    p->to_send = &layouts[(layout + my_rank) % LAYOUTS];
    p->to_receive = receivable(layout + 3 * my_rank + 1);
    p->sent = &layouts[(layout + left()) % LAYOUTS];
    buf_make(&p->out, MEM_DEVICE, p->to_send, 0, salt + (uint64_t)my_rank);
    buf_make(&p->in, receiver, p->to_receive, 0, salt + 50);
}

static void pair_check(struct pair *p, const char *what)
{
    buf_expect_from(&p->in, p->to_receive, p->sent, salt + (uint64_t)left());
    buf_check(&p->in, what);
    buf_check(&p->out, what);
    buf_free(&p->in), buf_free(&p->out);
}

static void send(struct pair *p)
{
    MPI_Send(p->out.origin, ELEMENTS, p->to_send->type, right(), TAG, comm);
}

static void isend(struct pair *p, MPI_Request *r)
{
    MPI_Isend(p->out.origin, ELEMENTS, p->to_send->type, right(), TAG, comm, r);
}

static void irecv(struct pair *p, MPI_Request *r)
{
    MPI_Irecv(p->in.origin, ELEMENTS, p->to_receive->type, left(), TAG, comm, r);
}

static void recv(struct pair *p)
{
    MPI_Recv(p->in.origin, ELEMENTS, p->to_receive->type, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
}

/*
 * Rings, in which every rank sends and receives at the same time.
 */

static void by_sendrecv(struct pair *p)
{
    MPI_Sendrecv(p->out.origin, ELEMENTS, p->to_send->type, right(), TAG, p->in.origin, ELEMENTS, p->to_receive->type,
                 left(), TAG, comm, MPI_STATUS_IGNORE);
}

static void by_isend_recv(struct pair *p)
{
    MPI_Request r;
    isend(p, &r);
    recv(p);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void by_irecv_send(struct pair *p)
{
    MPI_Request r;
    irecv(p, &r);
    send(p);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void by_waitall(struct pair *p)
{
    MPI_Request r[2];
    irecv(p, &r[0]);
    isend(p, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void by_issend(struct pair *p)
{
    MPI_Request r[2];
    irecv(p, &r[0]);
    MPI_Issend(p->out.origin, ELEMENTS, p->to_send->type, right(), TAG, comm, &r[1]);
    for (int done = 0; !done;) MPI_Testall(2, r, &done, MPI_STATUSES_IGNORE);
}

/* The send is the receiver's barrier, and the barrier the sender's. */
static void by_barriers(struct pair *p)
{
    MPI_Request r;
    irecv(p, &r);
    send(p);
    MPI_Barrier(comm);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
}

static void by_freed(struct pair *p)
{
    MPI_Request r;
    isend(p, &r);
    MPI_Request_free(&r);
    recv(p);
    MPI_Barrier(comm);
}

/* Each start sends what the buffer holds then; in chunks the second one comes before the first is received. */
static void by_persistent(struct pair *p)
{
    MPI_Request r[2];
    uint64_t mine = p->out.salt, before = p->in.salt;
    MPI_Send_init(p->out.origin, ELEMENTS, p->to_send->type, right(), TAG, comm, &r[0]);
    MPI_Recv_init(p->in.origin, ELEMENTS, p->to_receive->type, left(), TAG, comm, &r[1]);
    buf_fill(&p->out, mine + 7);
    MPI_Start(&r[0]);
    if (!chunked) recv(p);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    buf_fill(&p->out, mine);
    MPI_Start(&r[0]);
    if (chunked) recv(p);
    buf_expect_from(&p->in, p->to_receive, p->sent, salt + (uint64_t)left() + 7);
    buf_check(&p->in, "the first start");
    buf_fill(&p->in, before);
    MPI_Start(&r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    buf_expect_from(&p->in, p->to_receive, p->sent, salt + (uint64_t)left());
    buf_check(&p->in, "the second start");
    buf_fill(&p->in, before);
    MPI_Startall(2, r);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) MPI_Request_free(&r[i]);
}

static const struct { const char *name; void (*go)(struct pair *p); } RINGS[] = {
    {"Sendrecv", by_sendrecv}, {"Isend, Recv", by_isend_recv}, {"Irecv, Send", by_irecv_send},
    {"Irecv, Isend, Waitall", by_waitall}, {"Irecv, Issend, Testall", by_issend}, {"Irecv, Send, Barrier", by_barriers},
    {"Isend, Request_free", by_freed}, {"Send_init, Recv_init", by_persistent}};

static void rings(void)
{
    struct pair p;
    for (size_t i = 0; i < sizeof RINGS / sizeof *RINGS; i++) {
        for (int n = (int)i % 2; n < LAYOUTS; n += 2) {
            pair_make(&p, n, n % 3 ? MEM_DEVICE : (enum mem_kind)roll(MEM_KINDS));
            RINGS[i].go(&p);
            pair_check(&p, RINGS[i].name);
        }
        report("rings by %s", RINGS[i].name);
    }
}

/* Rank 0 exchanges: it can't get anything before what it sends has gone round. */
static void relay(void)
{
    struct pair p;
    for (int n = 0; n < LAYOUTS; n++) {
        pair_make(&p, n, MEM_DEVICE);
        if (my_rank == 0) by_sendrecv(&p);
        else recv(&p), send(&p);
        pair_check(&p, "a message that goes round");
    }
    report("an exchange whose two messages need each other");
}

/* One rank is inside the MPI, where nothing of stridec's is called, while the other needs its message, or its receive. */
static void inside(void)
{
    struct pair p;
    MPI_Request r = MPI_REQUEST_NULL;
    for (int receives = 0; receives < 2; receives++) {
        pair_make(&p, 1 + receives, MEM_DEVICE);
        if (my_rank == 1 && receives) irecv(&p, &r);
        if (my_rank == 0 && !receives) isend(&p, &r);
        MPI_Barrier(comm);
        if (my_rank == 0 && receives) send(&p);
        if (my_rank == 1 && !receives) recv(&p);
        MPI_Barrier(comm);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (my_rank != 1) {
            buf_check(&p.out, "sent by a rank inside the MPI");
            buf_free(&p.in), buf_free(&p.out);
        } else {
            pair_check(&p, "received by a rank inside the MPI");
        }
    }
    report("the other end is inside the MPI");
}

/* Types of all kinds, and the buffer written again as soon as it is free. */
static void any_types(void)
{
    enum { N = 20 };
    for (int i = 0; i < N; i++) {
        struct layout l;
        struct buf b;
        MPI_Request r;
        layout_random(&l, roll(3) ? FAMILY_A : FAMILY_B, 1 + (int)roll(64), true);
        salt += 10;
        /* MPICH 4.0 itself cuts messages short that it receives as bytes into many small structs. */
        enum mem_kind any = (enum mem_kind)roll(MEM_KINDS), receiver = l.bytes > 512 ? any : MEM_DEVICE;
        buf_make(&b, my_rank ? receiver : MEM_DEVICE, &l, (int)roll(2) * 8, salt);
        if (my_rank == 0) {
            if (i % 2) {
                MPI_Send(b.origin, l.count, l.type, 1, TAG, comm);
            } else {
                MPI_Isend(b.origin, l.count, l.type, 1, TAG, comm, &r);
                MPI_Wait(&r, MPI_STATUS_IGNORE);
            }
            buf_fill(&b, salt + 1);
        } else if (my_rank == 1) {
            buf_fill(&b, salt + 2);
            MPI_Irecv(b.origin, l.count, l.type, 0, TAG, comm, &r);
            if (i % 3) MPI_Wait(&r, MPI_STATUS_IGNORE);
            else for (int done = 0; !done;) MPI_Test(&r, &done, MPI_STATUS_IGNORE);
            buf_expect_from(&b, &l, &l, salt);
        }
        buf_check(&b, l.text);
        MPI_Barrier(comm);
        buf_free(&b), layout_free(&l);
    }
    report("%d types", N);
}

/* More than may be under way at a time, no receive of them being there: to the last rank. */
static void outstanding(void)
{
    enum { N = 40 };
    static struct buf b[N];
    static MPI_Request r[N];
    const struct layout *l = &layouts[2];
    int last = num_ranks - 1, n = 0;
    salt += 100;
    for (int i = 0; i < N; i++) {
        buf_make(&b[i], MEM_DEVICE, l, 0, salt + (uint64_t)(my_rank == 0 ? i : N));
        if (my_rank == 0) MPI_Isend(b[i].origin, ELEMENTS, l->type, last, TAG + i % 3, comm, &r[n++]);
    }
    MPI_Barrier(comm);
    for (int tag = 2; tag >= 0 && my_rank == last; tag--)
        for (int i = tag; i < N; i += 3) MPI_Irecv(b[i].origin, ELEMENTS, l->type, 0, TAG + tag, comm, &r[n++]);
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) {
        if (my_rank == last) buf_expect_from(&b[i], l, l, salt + (uint64_t)i);
        buf_check(&b[i], "one of many");
        buf_free(&b[i]);
    }
    report("%d messages under way", N);
}

/*
 * How they go.
 */

/* Launches and copies of this rank for a message from rank 0 to rank 1. */
static int64_t work(struct buf *b, bool persistent)
{
    struct resources before, after;
    MPI_Request r;
    if (persistent && my_rank == 0) MPI_Send_init(b->origin, ELEMENTS, layouts[1].type, 1, TAG, comm, &r);
    resources_now(&before);
    if (persistent && my_rank == 0) MPI_Start(&r), MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_Request_free(&r);
    else if (my_rank == 0) MPI_Send(b->origin, ELEMENTS, layouts[1].type, 1, TAG, comm);
    if (my_rank == 1) MPI_Recv(b->origin, ELEMENTS, layouts[1].type, 0, TAG, comm, MPI_STATUS_IGNORE);
    resources_now(&after);
    return after.launches - before.launches + after.copies - before.copies;
}

/* Each chunk is packed and unpacked by itself; a whole message takes 2 launches and copies at most, once its kernel is
 * compiled. */
static void counts(void)
{
    struct resources now;
    struct buf b;
    double since = 0;
    int most = 0, few;
    resources_now(&now);
    if (!now.simulated) return;
    buf_make(&b, MEM_DEVICE, &layouts[1], 0, salt + (uint64_t)my_rank);
    do {
        int took = (int)work(&b, chunked && num_ranks > 2);
        MPI_Allreduce(&took, &most, 1, MPI_INT, MPI_MAX, comm);
        few = most <= 2;
        if (chunked && most < 3) break;
    } while (!chunked && !few && within(&since, SECONDS));
    if (my_rank < 2) expect(few != chunked, "%d launches and copies for a message that goes %s", most, chunked ? "in chunks" : "whole");
    buf_free(&b);
    report("messages go %s", chunked ? "in chunks" : "whole");
}

/* A GPU that fails between two chunks: whoever waits for the rest is told. */
static void broken(void)
{
    enum { N = 6 };
    const struct layout *l = &layouts[1];
    struct buf b;
    int failed = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    buf_make(&b, MEM_DEVICE, l, 0, salt);
    for (int i = 0; i < N; i++) {
        int sent = my_rank ? MPI_SUCCESS : MPI_Send(b.origin, ELEMENTS, l->type, 1, TAG, comm);
        int got = my_rank ? MPI_Recv(b.origin, ELEMENTS, l->type, 0, TAG, comm, MPI_STATUS_IGNORE) : MPI_SUCCESS;
        MPI_Bcast(&sent, 1, MPI_INT, 0, comm);
        failed += sent != MPI_SUCCESS;
        if (my_rank) expect((sent == MPI_SUCCESS) == (got == MPI_SUCCESS), "sent: %d, received: %d", sent, got);
    }
    expect(failed > 0 && failed < N, "%d of %d messages fail", failed, N);
    report("a GPU that fails");
    buf_free(&b);
}

/* A rank on which stridec is disabled gets plain bytes. Under the promise it takes part in the vote. */
static void to_disabled(void)
{
    const struct layout *l = &layouts[2];
    struct buf b;
    buf_make(&b, my_rank == 1 ? MEM_HOST : MEM_DEVICE, l, 0, salt + (uint64_t)my_rank);
    if (my_rank == 0) MPI_Send(b.origin, ELEMENTS, l->type, 1, TAG, comm);
    if (my_rank == 1) {
        MPI_Recv(b.origin, ELEMENTS, l->type, 0, TAG, comm, MPI_STATUS_IGNORE);
        buf_expect_from(&b, l, l, salt);
    }
    buf_check(&b, "to a rank without stridec");
    buf_free(&b);
    report("to a rank without stridec");
}

/* Receives that are too short leave nothing behind that the others would wait for: the last test. */
static void too_short(void)
{
    const struct layout *l = &layouts[2];
    char room[600];
    struct buf b;
    salt += 10;
    buf_make(&b, MEM_DEVICE, l, 0, salt);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int bytes = 600; bytes > 0; bytes -= 500) {
        MPI_Request r;
        if (my_rank == 0) MPI_Isend(b.origin, ELEMENTS, l->type, 1, TAG, comm, &r);
        if (my_rank == 1) {
            int rc = MPI_Recv(room, bytes, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE);
            expect(error_class(rc) == MPI_ERR_TRUNCATE, "a receive of %d bytes: %s", bytes, error_name(error_class(rc)));
        }
        MPI_Barrier(comm);
        if (my_rank == 0) MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    buf_check(&b, "sent to receives that are too short");
    buf_free(&b);
    report("receives that are too short");
}

/* Rank 1 begins anew without stridec. */
static void become_stranger(char **argv)
{
    if (rank_given() == 1 && getenv("LD_PRELOAD") && !unsetenv("LD_PRELOAD")) execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/stridec-table.XXXXXX";
    bool disabled = false, breaks = false, stranger = false;
    for (int i = 1; i < argc; i++) {
        bool no = !strcmp(argv[i], "no");
        if (!strcmp(argv[i], "staged")) write_table(path);
        disabled |= !strcmp(argv[i], "disabled"), stranger |= !strcmp(argv[i], "stranger");
        if (stranger) become_stranger(argv);
        if (no && rank_given() == 1) setenv("STRIDEC_PIPELINE", "0", 1);
        if (disabled && rank_given() == 1) setenv("STRIDEC_DISABLE", "1", 1);
        breaks |= !strcmp(argv[i], "broken");
        if (breaks && rank_given() != 1) setenv("SIMGPU_FAIL", "cuStreamSynchronize:40", 1);
        if (no || disabled || stranger || !strcmp(argv[i], "unasked")) chunked = false;
    }
    check_start(&argc, &argv, -1);
    unlink(path);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < LAYOUTS; i++) layout_number(&layouts[i], i, ELEMENTS);
    if (disabled || breaks) (breaks ? broken : to_disabled)();
    else counts(), rings(), relay();
    if (stranger) to_disabled();
    if (chunked && !breaks) inside(), any_types(), outstanding(), too_short();
    for (int i = 0; i < LAYOUTS; i++) layout_free(&layouts[i]);
    MPI_Comm_free(&comm);
    return check_finish();
}
