/* threads.c: MPI_THREAD_MULTIPLE: eight threads a rank, each with a communicator and types of its own, send and receive
 * derived types on device buffers at the same time.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define THREADS 8
#define ROUNDS 6
#define COUNT 2

static int peer;

/* What a thread works with: every round makes its types anew, so that commits and frees fall among messages. */
struct thread {
    int number;
    MPI_Comm comm;
    struct layout mine, theirs;
    struct buf out, in;
    uint64_t salt;
};

typedef void way(struct thread *t);

static uint64_t salt_of(const struct thread *t, int rank)
{
    return t->salt + (uint64_t)rank;
}

static void blocking(struct thread *t)
{
    MPI_Sendrecv(t->out.origin, COUNT, t->mine.type, peer, 1, t->in.origin, COUNT, t->theirs.type, peer, 1, t->comm,
                 MPI_STATUS_IGNORE);
}

static void in_turn(struct thread *t)
{
    if (my_rank % 2)
        MPI_Recv(t->in.origin, COUNT, t->theirs.type, MPI_ANY_SOURCE, MPI_ANY_TAG, t->comm, MPI_STATUS_IGNORE);
    MPI_Send(t->out.origin, COUNT, t->mine.type, peer, 2, t->comm);
    if (my_rank % 2 == 0) MPI_Recv(t->in.origin, COUNT, t->theirs.type, peer, 2, t->comm, MPI_STATUS_IGNORE);
}

static void nonblocking(struct thread *t)
{
    MPI_Request r[2];
    MPI_Irecv(t->in.origin, COUNT, t->theirs.type, peer, 3, t->comm, &r[0]);
    MPI_Isend(t->out.origin, COUNT, t->mine.type, peer, 3, t->comm, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void tested(struct thread *t)
{
    MPI_Request r[2];
    int done = 0;
    MPI_Irecv(t->in.origin, COUNT, t->theirs.type, peer, 4, t->comm, &r[0]);
    MPI_Issend(t->out.origin, COUNT, t->mine.type, peer, 4, t->comm, &r[1]);
    while (!done) MPI_Testall(2, r, &done, MPI_STATUSES_IGNORE);
}

static void persistent(struct thread *t)
{
    MPI_Request r[2];
    MPI_Recv_init(t->in.origin, COUNT, t->theirs.type, peer, 5, t->comm, &r[0]);
    MPI_Send_init(t->out.origin, COUNT, t->mine.type, peer, 5, t->comm, &r[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void probed(struct thread *t)
{
    MPI_Request r;
    MPI_Message message;
    MPI_Status s;
    int n = -1;
    MPI_Isend(t->out.origin, COUNT, t->mine.type, peer, 6, t->comm, &r);
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, t->comm, &message, &s);
    MPI_Get_count(&s, t->theirs.type, &n);
    expect(n == COUNT, "thread %d: a probe tells of %d elements", t->number, n);
    MPI_Mrecv(t->in.origin, COUNT, t->theirs.type, &message, &s);
    expect(s.MPI_SOURCE == peer && s.MPI_TAG == 6, "thread %d: source %d, tag %d", t->number, s.MPI_SOURCE, s.MPI_TAG);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* To the peer alone. */
static void collective(struct thread *t)
{
    int counts[2] = {0, 0}, displs[2] = {0, 0};
    counts[peer] = COUNT;
    MPI_Alltoallv(t->out.origin, counts, displs, t->mine.type, t->in.origin, counts, displs, t->theirs.type, t->comm);
}

static const struct {
    const char *name;
    way *run;
} ways[] = {{"Sendrecv", blocking},      {"Send and Recv", in_turn}, {"Isend and Irecv", nonblocking},
            {"Issend and Testall", tested}, {"persistent", persistent}, {"Mprobe and Mrecv", probed},
            {"Alltoallv", collective}};

/* Threads use different layouts at a time, the ranks the same two: what arrives is laid out otherwise than as sent. */
static void once(struct thread *t, int round, size_t w)
{
    int from = (t->number + round) % LAYOUT_FAMILY_B, to = (from + 2) % LAYOUT_FAMILY_B;
    char what[80];
    t->salt = 1000 * ((uint64_t)t->number + 1) + 10 * (uint64_t)round + 100 * w;
    layout_number(&t->mine, from, COUNT);
    layout_number(&t->theirs, to, COUNT);
    buf_make(&t->out, MEM_DEVICE, &t->mine, 0, salt_of(t, my_rank));
    buf_make(&t->in, MEM_DEVICE, &t->theirs, 0, t->salt + 7);
    buf_expect_from(&t->in, &t->theirs, &t->mine, salt_of(t, peer));
    ways[w].run(t);
    snprintf(what, sizeof what, "%s by one of %d threads", ways[w].name, THREADS);
    buf_check(&t->in, what);
    buf_check(&t->out, what);
    buf_free(&t->in);
    buf_free(&t->out);
    layout_free(&t->mine);
    layout_free(&t->theirs);
}

/* Each thread begins with another way, so that different calls meet. */
static void *work(void *arg)
{
    const size_t n = sizeof ways / sizeof *ways;
    struct thread *t = arg;
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++) once(t, round, (i + (size_t)t->number) % n);
    return NULL;
}

/* One thread reads from a window and flushes it, while another does nothing but flush: what it reads is there when its own
 * call returns, whichever of the two has it to unpack. */
#define READS 40      /* rounds of so many: */
#define AT_ONCE 24
#define READ_COUNT 60

static MPI_Win window;
static atomic_bool flushing;

static void *flush(void *arg)
{
    while (atomic_load(&flushing)) MPI_Win_flush(peer, window);
    return arg;
}

static void flushes(void)
{
    struct layout l, plain;
    struct buf memory, in[AT_ONCE];
    pthread_t id;
    void *base;
    layout_number(&l, 1, READ_COUNT), layout_number(&plain, 0, READ_COUNT);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate(plain.span, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window) != MPI_SUCCESS) {
        note("this MPI has no windows for threads here (Open MPI's pt2pt)");
        layout_free(&l), layout_free(&plain);
        return;
    }
    buf_make(&memory, MEM_HOST, &plain, 0, (uint64_t)my_rank);
    memcpy(base, memory.origin, (size_t)plain.span);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    atomic_store(&flushing, true);
    pthread_create(&id, NULL, flush, NULL);
    for (int i = 0; i < READS; i++) {
        for (int k = 0; k < AT_ONCE; k++) {
            buf_make(&in[k], MEM_DEVICE, &l, 0, (uint64_t)i + 10);
            buf_expect_from(&in[k], &l, &plain, (uint64_t)peer);
        }
        for (int k = 0; k < AT_ONCE; k++)
            MPI_Get(in[k].origin, READ_COUNT, l.type, peer, 0, READ_COUNT, plain.type, window);
        MPI_Win_flush(peer, window);
        for (int k = AT_ONCE - 1; k >= 0; k--) buf_check(&in[k], "flushed while another thread flushes"), buf_free(&in[k]);
    }
    atomic_store(&flushing, false);
    pthread_join(id, NULL);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    buf_free(&memory), layout_free(&l), layout_free(&plain);
    report("a window flushed by two threads");
}

int main(int argc, char **argv)
{
    struct thread t[THREADS];
    pthread_t id[THREADS];
    int provided = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    peer = my_rank ^ 1;
    if (provided < MPI_THREAD_MULTIPLE) {
        note("this MPI gives no MPI_THREAD_MULTIPLE");
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    for (int i = 0; i < THREADS; i++) {
        t[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &t[i].comm);
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&id[i], NULL, work, &t[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&t[i].comm);
    report("%d threads a rank, %d rounds of every way", THREADS, ROUNDS);
    flushes();
    return check_finish();
}
