/* exchange_later.c: nonblocking and persistent collectives among the ranks of a node go zero-copy: one
 * launch on a rank that receives, none to pack. When votes switch nonblocking ones, who waits for whom, several at a
 * time, what is freed before the end, calls that one rank's MPI refuses.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 3
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: -n 4
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 3 packed
 * run: STRIDEC_TRANSPORT=oneshot -n 3 packed
 */
#include "check.h"
#include "ends.h"
#include "persistent.h"
#include "resources.h"
#include "rows.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 60

static bool packed;
static long (*exchanges)(void);   /* stridec_exchanges; NULL without stridec */

/* One call, with this rank's buffers. */
struct op {
    enum kind kind;
    int root, round;
    struct doubles out, in;
    MPI_Request request;
};

static void op_make(struct op *o, enum kind k, enum mem_kind memory, int root, int round)
{
    *o = (struct op){.kind = k, .root = root, .round = round, .request = MPI_REQUEST_NULL};
    rows_make(&o->out, memory), rows_make(&o->in, memory);
    rows_fill(k, &o->out, &o->in, root, round);
}

static void op_fill(struct op *o, int round)
{
    o->round = round;
    rows_fill(o->kind, &o->out, &o->in, o->root, round);
}

static void op_begin(struct op *o, enum form form, MPI_Comm comm)
{
    int rc = rows_call(o->kind, form, &o->out, &o->in, o->root, comm, &o->request);
    expect_equal(rc, MPI_SUCCESS, kind_name[o->kind]);
}

static void op_check(struct op *o, const char *what)
{
    char text[100];
    snprintf(text, sizeof text, "%s, %s", kind_name[o->kind], what);
    rows_expected(o->kind, &o->in, o->root, o->round);
    doubles_check(&o->in, text);
}

static void op_free(struct op *o)
{
    doubles_free(&o->out), doubles_free(&o->in);
}

/* ---- each kind: its bytes and its launches ---- */

/* Returns the launches of a nonblocking call, or of a start. */
static int64_t once(struct op *o, enum form form, int round)
{
    struct resources before, after;
    op_fill(o, round);
    MPI_Barrier(MPI_COMM_WORLD);   /* what is sent to a rank that is late is packed after all */
    resources_now(&before);
    if (form == NONBLOCKING) op_begin(o, form, MPI_COMM_WORLD);
    else MPI_Start(&o->request);
    if (round % 2) MPI_Wait(&o->request, MPI_STATUS_IGNORE);
    else end_by_tests(&o->request);
    resources_now(&after);
    op_check(o, form == NONBLOCKING ? "nonblocking" : "persistent");
    return after.launches - before.launches;
}

/* Until the kernel of typed copies is compiled in the background, and the ranks have voted. */
static void in_one(enum kind k, enum form form, enum mem_kind memory, bool counts)
{
    double since = 0;
    int round = 0;
    bool right = false;
    struct op o;
    op_make(&o, k, memory, k % num_ranks, 0);
    if (form == PERSISTENT) op_begin(&o, form, MPI_COMM_WORLD);
    do right = everywhere(once(&o, form, round++) == rows_wanted(k, o.root));
    while (round < 6 || (counts && !right && everywhere(within(&since, SECONDS))));
    expect(right || !counts, "%s: not one launch where anything comes, and none elsewhere", kind_name[k]);
    if (form == PERSISTENT) MPI_Request_free(&o.request);
    op_free(&o);
}

static void kinds(enum form form, enum mem_kind memory, const char *what)
{
    struct resources now;
    resources_now(&now);
    bool counts = everywhere(now.simulated && !packed && memory == MEM_DEVICE && !host_mode);
    for (enum kind k = 0; k < KINDS; k++) in_one(k, form, memory, counts);
    report("%s, %s", form == NONBLOCKING ? "nonblocking" : "persistent", what);
}

/* ---- when nonblocking calls are switched ---- */

/* Expects the call to go zero-copy, or by the MPI. */
static void goes(enum kind k, enum mem_kind memory, MPI_Comm comm, bool wanted, const char *what)
{
    struct op o;
    long before = exchanges ? exchanges() : 0;
    op_make(&o, k, memory, 0, 3);
    op_begin(&o, NONBLOCKING, comm);
    MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    op_check(&o, what);
    if (exchanges && !packed) expect_equal(exchanges() - before, wanted, what);
    op_free(&o);
}

static void barriers(int n, MPI_Comm comm)
{
    while (n--) MPI_Barrier(comm);
}

/* Ranks vote in barriers 1, 2, 4, 8, ... One rank with device memory is enough. */
static void switches(void)
{
    MPI_Comm comm;
    enum mem_kind all = host_mode ? MEM_HOST : MEM_DEVICE, one = my_rank == num_ranks - 1 ? all : MEM_HOST;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    goes(ALLTOALL, one, comm, false, "before the first vote");
    goes(ALLTOALL, one, comm, false, "before the first vote");
    barriers(1, comm);
    goes(ALLTOALL, MEM_HOST, comm, true, "after a vote for it");
    goes(ALLTOALLV, MEM_HOST, comm, false, "of another kind");
    barriers(1, comm);
    goes(ALLTOALL, all, comm, false, "after a vote since which all had host memory");
    barriers(1, comm);
    goes(ALLTOALL, all, comm, false, "before the next vote");
    barriers(1, comm);
    goes(ALLTOALL, all, comm, true, "after the next vote");
    barriers(4, comm);
    barriers(8, comm);
    goes(ALLTOALL, all, comm, true, "after a vote since which there was no other");
    MPI_Comm_free(&comm);
    report("votes in barriers");
}

/* The first blocking call of each kind votes; so does each call for a persistent request. */
static void switched_beside(void)
{
    MPI_Comm comm;
    struct op o;
    enum mem_kind memory = host_mode ? MEM_HOST : MEM_DEVICE;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    goes(GATHERV, memory, comm, false, "before a blocking call");
    op_make(&o, BCAST, MEM_HOST, 0, 1);
    rows_call(BCAST, BLOCKING, &o.out, &o.in, 0, comm, NULL);
    op_check(&o, "in host memory");
    goes(GATHERV, memory, comm, true, "after a blocking call");
    MPI_Comm_free(&comm);
#if HAVE_PERSISTENT
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    goes(SCATTER, memory, comm, false, "before a persistent call");
    op_begin(&o, PERSISTENT, comm);
    goes(SCATTER, memory, comm, true, "after a persistent call");
    MPI_Request_free(&o.request);
    MPI_Comm_free(&comm);
#endif
    op_free(&o);
    report("votes in other calls");
}

/* Contiguous device memory stays a CUDA-aware MPI's. */
static void contiguous(void)
{
    enum { EACH = 1000 };
    struct doubles out, in;
    long before = exchanges ? exchanges() : 0;
    MPI_Comm comm;
    MPI_Request q;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    doubles_make(&out, MEM_DEVICE, (size_t)num_ranks * EACH), doubles_make(&in, MEM_DEVICE, (size_t)num_ranks * EACH);
    for (int i = 0; i < num_ranks * EACH; i++) out.shadow[i] = my_rank * 1e6 + i;
    doubles_write(&out);
    for (int round = 0; round < 4; round++) {
        rows_clear(&in), doubles_write(&in);
        MPI_Ialltoall(out.at, EACH, MPI_DOUBLE, in.at, EACH, MPI_DOUBLE, comm, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        for (int i = 0; i < num_ranks * EACH; i++) in.shadow[i] = i / EACH * 1e6 + my_rank * EACH + i % EACH;
        doubles_check(&in, "contiguous doubles");
        MPI_Barrier(comm);
    }
    if (exchanges && !packed) expect_equal(exchanges() - before, cuda_aware() ? 0 : 3, "the number of exchanges");
    doubles_free(&out), doubles_free(&in);
    MPI_Comm_free(&comm);
    report("contiguous device memory");
}

/* A voting barrier ends only when all ranks have begun it. */
static void barriers_wait(void)
{
    enum { ROUNDS = 140 };
    MPI_Comm comm;
    MPI_Win win;
    int *seen, zero = 0, unit, early = 0;
    MPI_Aint size;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Win_allocate_shared(my_rank ? 0 : sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &seen, &win);
    MPI_Win_shared_query(win, 0, &size, &unit, &seen);
    if (my_rank == 0) __atomic_store_n(seen, zero, __ATOMIC_SEQ_CST);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= ROUNDS; round++) {
        __atomic_add_fetch(seen, 1, __ATOMIC_SEQ_CST);
        MPI_Barrier(comm);
        early += __atomic_load_n(seen, __ATOMIC_SEQ_CST) < round * num_ranks;
    }
    expect_equal(early, 0, "the number of barriers that ended early");
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
    report("barriers wait for all ranks");
}

/* ---- who waits for whom ---- */

/* Makes a communicator on which nonblocking calls of this kind go zero-copy, if `on`. */
static MPI_Comm comm_on(enum kind k, bool on)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (!on) return comm;
    goes(k, MEM_DEVICE, comm, false, "the first one");
    MPI_Barrier(comm);
    return comm;
}

/* The call waits for nobody: rank 0 begins before it sends what the others begin after. */
static void begins_alone(bool on)
{
    MPI_Comm comm = comm_on(ALLGATHER, on);
    for (int round = 0; round < 5; round++) {
        struct op o;
        int word = round;
        op_make(&o, ALLGATHER, MEM_DEVICE, 0, round);
        if (my_rank) MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        op_begin(&o, NONBLOCKING, comm);
        for (int to = 1; !my_rank && to < num_ranks; to++) MPI_Send(&word, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
        MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        op_check(&o, "begun by one rank first");
        op_free(&o);
    }
    MPI_Comm_free(&comm);
    report("a call that begins while the others wait for its rank, %s", on ? "zero-copy" : "by the MPI");
}

/* Rank 0 waits, and only then sends what the others receive before they wait. */
static void waits_alone(enum kind k)
{
    MPI_Comm comm = comm_on(k, true);
    struct op o;
    int word = 7;
    op_make(&o, k, MEM_DEVICE, num_ranks - 1, 1);
    op_begin(&o, NONBLOCKING, comm);
    if (my_rank == 0) MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    for (int to = 1; my_rank == 0 && to < num_ranks; to++) MPI_Send(&word, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
    if (my_rank) MPI_Recv(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    op_check(&o, "waited for first by one rank");
    op_free(&o);
    MPI_Comm_free(&comm);
    report("%s: a rank waits while the others have only begun", kind_name[k]);
}

/* ---- several at a time ---- */

#define SEVERAL 8

/* Begins calls of all kinds on one communicator, with blocking calls between, and completes them in another order. */
static void several(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < 3 * END_WAYS; round++) {
        struct op o[SEVERAL], between;
        MPI_Request q[SEVERAL];
        for (int i = 0; i < SEVERAL; i++) {
            enum kind k = (enum kind)((round / 8 * SEVERAL + i) % KINDS);
            op_make(&o[i], k, (my_rank + i) % 3 ? MEM_DEVICE : MEM_HOST, (round + i) % num_ranks, round * 10 + i);
            op_begin(&o[i], NONBLOCKING, comm);
            q[i] = o[i].request;
            if (i % 3 || round % 2) continue;
            op_make(&between, (enum kind)((round + i) % KINDS), MEM_DEVICE, i % num_ranks, round);
            rows_call(between.kind, BLOCKING, &between.out, &between.in, between.root, comm, NULL);
            op_check(&between, "between nonblocking ones");
            op_free(&between);
        }
        MPI_Barrier(comm);
        end_all(round % END_WAYS, SEVERAL, q);
        for (int i = 0; i < SEVERAL; i++) op_check(&o[i], "one of several"), op_free(&o[i]);
    }
    MPI_Comm_free(&comm);
    report("several at a time, completed in %d ways", END_WAYS);
}

#if HAVE_PERSISTENT
/* Starts requests of all kinds on one communicator, each rank in an order of its own. */
static void any_order(void)
{
    MPI_Comm comm;
    struct op o[KINDS];
    MPI_Request q[KINDS];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < KINDS; i++) {
        op_make(&o[i], (enum kind)i, i && (my_rank + i) % 3 == 0 ? MEM_HOST : MEM_DEVICE, i % num_ranks, 0);
        op_begin(&o[i], PERSISTENT, comm);
        q[i] = o[i].request;
    }
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < KINDS; i++) op_fill(&o[i], round + i);
        if (round % 2) MPI_Startall(KINDS, q);
        for (int i = 0; i < KINDS && !(round % 2); i++) MPI_Start(&q[(i + my_rank) % KINDS]);
        if (round == 3 && exchanges) MPI_Comm_free(&comm);   /* Open MPI 4.1 alone crashes in the next start */
        if (round % 3) MPI_Waitall(KINDS, q, MPI_STATUSES_IGNORE);
        for (int flag = 0; !(round % 3) && !flag;) MPI_Testall(KINDS, q, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < KINDS; i++) op_check(&o[i], "one of several persistent ones");
    }
    for (int i = 0; i < KINDS; i++) MPI_Request_free(&q[i]), op_free(&o[i]);
    if (!exchanges) MPI_Comm_free(&comm);
    report("persistent ones, started in any order, the communicator freed between");
}
#endif

/* ---- what is freed before the end, and errors ---- */

static void freed_before_the_end(void)
{
    for (int round = 0; round < 20; round++) {
        enum kind k = (enum kind)(round % KINDS);
        MPI_Comm comm = comm_on(k, true);
        struct op o[2];
        for (int i = 0; i < 2; i++) {
            op_make(&o[i], k, i ? MEM_HOST : MEM_DEVICE, 0, i);
            op_begin(&o[i], NONBLOCKING, comm);
        }
        if (exchanges) MPI_Comm_free(&comm);   /* Open MPI 4.1 alone crashes in the wait */
        for (int i = 1; i >= 0; i--) {
            MPI_Wait(&o[i].request, MPI_STATUS_IGNORE);
            op_check(&o[i], "after its communicator");
            op_free(&o[i]);
        }
        if (!exchanges) MPI_Comm_free(&comm);
    }
    report("communicators freed before the end");
}

/* Calls that one rank's MPI refuses and that are made again: votes go on alike. */
static void refused(void)
{
    MPI_Comm comm;
    struct op o;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    op_make(&o, BCAST, MEM_DEVICE, 0, 0);
    for (int round = 0; round < 40; round++) {
        enum form form = HAVE_PERSISTENT && round % 2 ? PERSISTENT : NONBLOCKING;
        op_fill(&o, round);
        if (my_rank == 1 && round % 5 < 2) {
            int rc = rows_call(BCAST, form, &o.out, &o.in, num_ranks, comm, &o.request);
            expect_equal(error_class(rc), MPI_ERR_ROOT, "a wrong root's class");
        }
        op_begin(&o, form, comm);
        if (form == PERSISTENT) MPI_Start(&o.request);
        MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        if (form == PERSISTENT) MPI_Request_free(&o.request);
        op_check(&o, "made again");
        if (round % 3 == 0) MPI_Barrier(comm);
    }
    op_free(&o);
    MPI_Comm_free(&comm);
    report("calls that one rank's MPI refuses first");
}

/* The MPI does calls and barriers between two groups. */
static void between_groups(void)
{
#ifndef MPICH_VERSION   /* MPICH 4.0's MPI_Ibcast between two groups brings something else */
    struct op o;
    MPI_Comm apart, inter;
    MPI_Comm_split(MPI_COMM_WORLD, my_rank == 0, 0, &apart);
    MPI_Intercomm_create(apart, 0, MPI_COMM_WORLD, my_rank == 0, 9, &inter);
    op_make(&o, BCAST, MEM_DEVICE, 0, 2);
    for (int i = 0; i < 3; i++) {
        int rc = MPI_Ibcast(o.in.at, 1, row, my_rank ? 0 : MPI_ROOT, inter, &o.request);
        expect_equal(rc, MPI_SUCCESS, "the return code");
        MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        MPI_Barrier(inter);
    }
    op_check(&o, "between two groups");
    op_free(&o);
    MPI_Comm_free(&inter), MPI_Comm_free(&apart);
    report("between two groups");
#endif
}

static void *threaded(void *comm)
{
    for (int i = 0; i < 40; i++) {
        struct op o;
        op_make(&o, ALLTOALLV, MEM_DEVICE, 0, i);
        op_begin(&o, NONBLOCKING, *(MPI_Comm *)comm);
        if (i % 2) MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        else end_by_tests(&o.request);
        op_check(&o, "in a thread");
        op_free(&o);
        MPI_Barrier(*(MPI_Comm *)comm);
    }
    return NULL;
}

/* Open MPI 4.1's own nonblocking collectives may hang where several threads are at them: none is left to it. */
static void in_three_threads(void)
{
    MPI_Comm comm[3];
    pthread_t thread[3];
    if (!exchanges) return;
    for (int i = 0; i < 3; i++) comm[i] = comm_on(ALLTOALLV, true);
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, threaded, &comm[i]);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) MPI_Comm_free(&comm[i]);
    report("three threads");
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) packed |= !strcmp(argv[i], "packed");
    int level = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    *(void **)&exchanges = dlsym(RTLD_DEFAULT, "stridec_exchanges");
    rows_begin();
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));   /* the driver is loaded */
    kinds(NONBLOCKING, MEM_DEVICE, "device memory");
    kinds(NONBLOCKING, my_rank % 2 ? MEM_HOST : MEM_DEVICE, "host memory on every second rank");
#if HAVE_PERSISTENT
    kinds(PERSISTENT, MEM_DEVICE, "device memory");
    kinds(PERSISTENT, my_rank % 2 ? MEM_HOST : MEM_DEVICE, "host memory on every second rank");
#endif
    switches(), switched_beside(), contiguous(), barriers_wait();
    begins_alone(false), begins_alone(true);
    waits_alone(ALLTOALLW), waits_alone(BCAST), waits_alone(GATHER);
    several();
#if HAVE_PERSISTENT
    any_order();
#endif
    freed_before_the_end(), refused(), between_groups();
    if (level == MPI_THREAD_MULTIPLE) in_three_threads();
    rows_end();
    return check_finish();
}
