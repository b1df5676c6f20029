/* reduced_later.c: nonblocking and persistent reductions among the ranks of a node, by kernels: on a rank that gets a
 * result one launch brings the elements and one reduces them. When votes switch nonblocking ones, the same bits on all
 * ranks, who waits for whom, several at a time, what is freed before the end, calls that one rank's MPI refuses.
 * Results are computed here, and every byte is compared.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 3
 * run: -n 4
 * run: STRIDEC_TRANSPORT=oneshot -n 3 packed
 * run: SIMGPU_FAIL=cuIpcOpenMemHandle -n 3 packed
 * run: STRIDEC_ENGINE=copy -n 3 packed lacking
 * run: STRIDEC_TRANSPORT=zerocopy -n 3 packed lacking
 * run: -n 2 long
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 3 packed
 */
#include "check.h"
#include "ends.h"
#include "persistent.h"
#include "reduce_task.h"
#include "resources.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 60
#define BYTES 40000

static bool packed;       /* launches are not counted */
static bool lacking;      /* rank 1 has no kernels: MPI_Iallreduce is the MPI's */
static bool by_stridec;   /* once the ranks have voted for it */
static bool counted;      /* it can be told which calls these are: elsewhere a kernel may be compiled late */

/* One call, with this rank's buffers. */
struct op {
    struct task k;
    struct elements from, to;
    MPI_Request request;
    char what[120];
};

static void op_make(struct op *o, enum call c, size_t type, bool in_place, enum mem_kind from, enum mem_kind to)
{
    struct task k = {.t = number_named(task_types[type].name), .call = c, .op = task_types[type].op,
                     .root = (int)type % num_ranks, .from = from, .to = to, .in_place = in_place};
    task_counts(&k, BYTES / (c == REDUCE_SCATTER_BLOCK ? num_ranks - 1 : 1) / (int)k.t->extent + 13);
    *o = (struct op){.k = k, .request = MPI_REQUEST_NULL};
    o->k.in_place = in_place && task_mpi_can_place(&k);
    snprintf(o->what, sizeof o->what, "%s%s, %s of %s", call_name[c], in_place ? " in place" : "",
             operation_name[k.op], k.t->name);
    task_make(&o->k, &o->from, &o->to);
}

static void op_fill(struct op *o)
{
    elements_fill(&o->from, o->k.t), elements_fill(&o->to, o->k.t);
}

static void op_begin(struct op *o, enum form form, MPI_Comm comm)
{
    expect_equal(task_run(&o->k, form, o->from.at, o->to.at, comm, &o->request), MPI_SUCCESS, o->what);
}

static void op_check(struct op *o, const char *what)
{
    char text[200];
    snprintf(text, sizeof text, "%s, %s", o->what, what);
    task_check(&o->k, &o->from, &o->to, text);
}

static void op_free(struct op *o)
{
    elements_free(&o->from), elements_free(&o->to);
}

/* ---- each call: its bytes and its launches ---- */

/* Returns the launches of a nonblocking call, or of a start. */
static int64_t once(struct op *o, enum form form, MPI_Comm comm, int round)
{
    struct resources before, after;
    op_fill(o);
    MPI_Barrier(comm);   /* what is sent to a rank that is late is packed after all */
    resources_now(&before);
    if (form == NONBLOCKING) op_begin(o, form, comm);
    else MPI_Start(&o->request);
    if (round % 2) MPI_Wait(&o->request, MPI_STATUS_IGNORE);
    else end_by_tests(&o->request);
    resources_now(&after);
    op_check(o, form == NONBLOCKING ? "nonblocking" : "persistent");
    return after.launches - before.launches;
}

/* Until the kernels are compiled in the background, and the ranks have voted. Elements with gaps may be sent packed. */
static void in_two(struct op *o, enum form form, MPI_Comm comm, bool counts)
{
    double since = 0;
    int round = 0;
    bool right = false;
    counts &= (size_t)o->k.t->bytes == o->k.t->extent;
    if (form == PERSISTENT) op_begin(o, form, comm);
    do right = everywhere(once(o, form, comm, round++) == (task_gets(&o->k) && o->k.own ? 2 : 0));
    while (round < 3 || (counts && !right && everywhere(within(&since, SECONDS))));
    expect(right || !counts, "%s: not two launches where there is a result, and none elsewhere", o->what);
    if (form == PERSISTENT) MPI_Request_free(&o->request);
}

static void calls(enum form form, enum mem_kind from, enum mem_kind to, size_t types, const char *what)
{
    struct resources now;
    resources_now(&now);
    /* A CUDA-aware MPI may have opened the memory in calls before the kernels were ready: it is packed then. */
    bool own = from == MEM_DEVICE && to == MEM_DEVICE && !host_mode && !cuda_aware();
    bool counts = everywhere(now.simulated && !packed && own);
    long before = task_exchanges();
    for (enum call c = 0; c < CALLS; c++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (size_t i = 0; i < 2 * types; i++) {
            struct op o;
            op_make(&o, c, i / 2, i % 2, from, to);
            in_two(&o, form, comm, counts);
            op_free(&o);
        }
        MPI_Comm_free(&comm);
    }
    expect(task_exchanges() > before || !by_stridec, "no call goes by kernels");
    report("%s, %s", form == NONBLOCKING ? "nonblocking" : "persistent", what);
}

static void all_memories(enum form form)
{
    enum mem_kind second = my_rank % 2 ? MEM_HOST : MEM_DEVICE;
    calls(form, MEM_DEVICE, MEM_DEVICE, packed || form == PERSISTENT ? 2 : 4, "device memory");
    calls(form, second, second, 2, "host memory on every second rank");
    calls(form, MEM_DEVICE, second, 3, "results in host memory on every second rank");
    calls(form, MEM_HOST, MEM_DEVICE, 1, "from host to device memory");
    calls(form, MEM_DEVICE, MEM_HOST, 3, "from device to host memory");
    calls(form, MEM_MANAGED, MEM_MANAGED, 1, "managed memory");
}

/* Results at odd addresses, which kernels can't write: at rank 1 alone, and only once all go by kernels. */
static void not_aligned(void)
{
    struct op o;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    op_make(&o, ALLREDUCE, 0, false, MEM_DEVICE, MEM_DEVICE);
    for (int round = 0; round < 4; round++) {
        size_t skip = my_rank == 1 && round % 2;
        long before = task_exchanges();
        op_fill(&o);
        task_run(&o.k, NONBLOCKING, o.from.at, o.to.at + skip, comm, &o.request);
        MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        struct elements at = o.to;
        at.at += skip, at.base += skip, at.bytes -= o.k.t->extent;
        memmove(at.image, at.image + skip, at.bytes);
        task_check(&o.k, &o.from, &at, "at odd addresses");
        if (counted && !packed && round < 2) expect_equal(task_exchanges() - before, round, "calls by kernels");
        MPI_Barrier(comm);
    }
    op_free(&o);
    MPI_Comm_free(&comm);
    report("elements at odd addresses");
}

/* ---- bits ---- */

enum { SUMS = 20011 };
struct sums {
    double *in, *from, *to, *is, *all;
    enum mem_kind kind;
};

static void sums_make(struct sums *s)
{
    enum mem_kind own = my_rank == 1 ? MEM_HOST : MEM_DEVICE;
    size_t bytes = SUMS * sizeof(double);
    s->kind = host_mode ? MEM_HOST : packed ? own : MEM_DEVICE;
    s->in = malloc(bytes), s->is = malloc(bytes), s->all = malloc(bytes * (size_t)num_ranks);
    s->from = mem_alloc(s->kind, bytes), s->to = mem_alloc(s->kind, bytes);
    for (int i = 0; i < SUMS; i++) s->in[i] = (double)(1 + i % 100) / (3 + my_rank) * (i % 2 ? 1e10 : 1e-10);
    s->in[7] = my_rank ? -__builtin_nan("0x123") : __builtin_nan("0x456");
    mem_write(s->kind, s->from, s->in, bytes);
}

/* Sums that depend on the order, and what no numbers add up to, are the same on all ranks: also if one of them has to
 * reduce on the host. */
static void same_bits(void)
{
    struct sums s;
    size_t bytes = SUMS * sizeof(double);
    MPI_Request q;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    sums_make(&s);
    for (int round = 0; round < 4; round++) {
        long before = task_exchanges();
        bool persistent = HAVE_PERSISTENT && round % 2;
        int rc = persistent ? PERSISTENT_INIT(Allreduce, &q, s.from, s.to, SUMS, MPI_DOUBLE, MPI_SUM, comm)
                 : MPI_Iallreduce(s.from, s.to, SUMS, MPI_DOUBLE, MPI_SUM, comm, &q);
        expect_equal(rc, MPI_SUCCESS, "the return code");
        if (persistent) MPI_Start(&q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        if (persistent) MPI_Request_free(&q);
        bool went = task_exchanges() > before;
        mem_read(s.kind, s.is, s.to, bytes);
        MPI_Allgather(s.is, SUMS, MPI_DOUBLE, s.all, SUMS, MPI_DOUBLE, MPI_COMM_WORLD);
        for (int r = 1; went && r < num_ranks; r++)
            expect(!memcmp(s.all, s.all + (size_t)r * SUMS, bytes), "ranks 0 and %d have other bits", r);
        MPI_Allgather(s.in, SUMS, MPI_DOUBLE, s.all, SUMS, MPI_DOUBLE, MPI_COMM_WORLD);
        for (int i = 0; went && i < SUMS; i++) {
            double sum = s.all[i];
            for (int r = 1; r < num_ranks; r++) sum += s.all[(size_t)r * SUMS + (size_t)i];
            expect(i == 7 || sum == s.is[i], "sum %d is %g, not %g", i, s.is[i], sum);
        }
        expect(went || !counted || packed || !round, "a call after a vote is the MPI's");
        expect(went || !counted || !persistent, "a persistent call is the MPI's");
        MPI_Barrier(comm);
    }
    mem_free(s.kind, s.from), mem_free(s.kind, s.to);
    free(s.in), free(s.is), free(s.all);
    MPI_Comm_free(&comm);
    report("the same bits on all ranks");
}

/* ---- when calls are switched, and which are not ---- */

/* Expects the call to go by kernels, or by the MPI. */
static void goes(enum call c, enum mem_kind memory, MPI_Comm comm, bool wanted, const char *what)
{
    struct op o;
    long before = task_exchanges();
    op_make(&o, c, 0, false, memory, memory);
    op_fill(&o);
    op_begin(&o, NONBLOCKING, comm);
    MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    op_check(&o, what);
    if (counted) expect_equal(task_exchanges() - before, wanted, what);
    op_free(&o);
}

static void switches(void)
{
    MPI_Comm comm;
    enum mem_kind all = host_mode ? MEM_HOST : MEM_DEVICE, one = my_rank == num_ranks - 1 ? all : MEM_HOST;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    goes(REDUCE, one, comm, false, "before the first vote");
    goes(ALLREDUCE, one, comm, false, "before the first vote");
    MPI_Barrier(comm);
    goes(REDUCE, MEM_HOST, comm, true, "after a vote for it");
    goes(SCAN, MEM_HOST, comm, false, "of another kind");
    goes(ALLREDUCE, all, comm, false, "all reduced, one rank's result in host memory before");
    MPI_Barrier(comm);
    goes(REDUCE, all, comm, false, "after a vote since which all had host memory");
    goes(ALLREDUCE, MEM_HOST, comm, !lacking, "all reduced, after a vote since which all had device memory");
    MPI_Barrier(comm), MPI_Barrier(comm);
    goes(REDUCE, all, comm, true, "after the next vote");
    MPI_Comm_free(&comm);
    report("votes in barriers");
}

/* The MPI does longer ones than have room for rows. */
static void long_one(void)
{
    int n = 40 << 20, *from = mem_alloc(MEM_DEVICE, (size_t)n * sizeof *from), part = 4096, got[4096];
    int *to = mem_alloc(MEM_DEVICE, (size_t)n * sizeof *to);
    MPI_Request q;
    for (int i = 0; i < part; i++) got[i] = my_rank + i;
    mem_write(MEM_DEVICE, from + n - part, got, sizeof got);
    for (int round = 0; round < 2; round++) {
        long before = task_exchanges();
        MPI_Iallreduce(from, to, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        mem_read(MEM_DEVICE, got, to + n - part, sizeof got);
        for (int i = 0; i < part; i++) expect_equal(got[i], num_ranks * (num_ranks - 1) / 2 + num_ranks * i, "a sum");
        expect_equal(task_exchanges() - before, 0, "a long one by kernels");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    mem_free(MEM_DEVICE, from), mem_free(MEM_DEVICE, to);
    report("a long one");
}

/* ---- who waits for whom ---- */

/* Makes a communicator on which nonblocking calls of this kind go by kernels. */
static MPI_Comm comm_on(enum call c)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    goes(c, MEM_DEVICE, comm, false, "the first one");
    MPI_Barrier(comm);
    return comm;
}

/* A call waits for nobody, and a rank that waits only for the others' calls: the others begin, and then receive what
 * rank 0 sends after its wait. */
static void waits_alone(enum call c, bool in_place)
{
    MPI_Comm comm = comm_on(c);
    struct op o;
    int word = 7;
    op_make(&o, c, 0, in_place, MEM_DEVICE, MEM_DEVICE);
    op_fill(&o);
    op_begin(&o, NONBLOCKING, comm);
    if (my_rank == 0) MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    for (int to = 1; my_rank == 0 && to < num_ranks; to++) MPI_Send(&word, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
    if (my_rank) MPI_Recv(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    op_check(&o, "waited for first by one rank");
    op_free(&o);
    MPI_Comm_free(&comm);
    report("%s: a rank waits while the others have only begun", o.what);
}

/* ---- several at a time ---- */

#define SEVERAL 6

static void several(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < 2 * END_WAYS; round++) {
        struct op o[SEVERAL], between;
        MPI_Request q[SEVERAL];
        for (int i = 0; i < SEVERAL; i++) {
            enum mem_kind memory = (my_rank + i) % 3 ? MEM_DEVICE : MEM_HOST;
            op_make(&o[i], (enum call)((round + i) % CALLS), (size_t)(i % 4), false, memory, memory);
            op_fill(&o[i]);
            op_begin(&o[i], NONBLOCKING, comm);
            q[i] = o[i].request;
        }
        op_make(&between, (enum call)(round % CALLS), 0, false, MEM_DEVICE, MEM_DEVICE);
        op_fill(&between), op_begin(&between, BLOCKING, comm), op_check(&between, "between nonblocking ones");
        op_free(&between);
        MPI_Barrier(comm);
        end_all(round % END_WAYS, SEVERAL, q);
        for (int i = 0; i < SEVERAL; i++) op_check(&o[i], "one of several"), op_free(&o[i]);
    }
    MPI_Comm_free(&comm);
    report("several at a time, completed in %d ways", END_WAYS);
}

#if HAVE_PERSISTENT
/* Starts requests of all calls, each rank in an order of its own. */
static void any_order(void)
{
    MPI_Comm comm;
    struct op o[CALLS];
    MPI_Request q[CALLS];
#ifdef MPICH_VERSION   /* MPICH 4.0 alone ends some of these with an error */
    if (!by_stridec) return;
#endif
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < CALLS; i++) {
        op_make(&o[i], (enum call)i, 1, i == ALLREDUCE, MEM_DEVICE, MEM_DEVICE);
        op_begin(&o[i], PERSISTENT, comm);
        q[i] = o[i].request;
    }
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < CALLS; i++) op_fill(&o[i]);
        if (round % 2) MPI_Startall(CALLS, q);
        for (int i = 0; i < CALLS && !(round % 2); i++) MPI_Start(&q[(i + my_rank) % CALLS]);
        if (round == 3 && by_stridec) MPI_Comm_free(&comm);
        if (round % 3) MPI_Waitall(CALLS, q, MPI_STATUSES_IGNORE);
        for (int flag = 0; !(round % 3) && !flag;) MPI_Testall(CALLS, q, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < CALLS; i++) op_check(&o[i], "one of several persistent ones");
    }
    for (int i = 0; i < CALLS; i++) MPI_Request_free(&q[i]), op_free(&o[i]);
    if (!by_stridec) MPI_Comm_free(&comm);
    report("persistent ones, started in any order, the communicator freed between");
}
#endif

/* ---- what is freed before the end, and errors ---- */

static void freed_before_the_end(void)
{
    for (int round = 0; round < CALLS; round++) {
        MPI_Comm comm = comm_on((enum call)round);
        struct op o;
        op_make(&o, (enum call)round, 0, false, MEM_DEVICE, MEM_DEVICE);
        op_fill(&o);
        long before = task_exchanges();
        op_begin(&o, NONBLOCKING, comm);
        bool went = task_exchanges() > before;
        if (went) MPI_Comm_free(&comm);   /* Open MPI 4.1 alone crashes in the wait */
        MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        op_check(&o, "after its communicator");
        op_free(&o);
        if (!went) MPI_Comm_free(&comm);
    }
    report("communicators freed before the end");
}

/* Requests that are freed at once still bring their results. */
static void freed_requests(void)
{
    if (!by_stridec) return;   /* Open MPI 4.1 refuses to free them */
    MPI_Comm comm = comm_on(SCAN);
    struct op o;
    double since = 0;
    op_make(&o, SCAN, 0, false, MEM_DEVICE, MEM_DEVICE);
    op_fill(&o);
    size_t skip = ELEMENTS_GUARD * o.k.t->extent;
    int last = o.k.all - 1, sum = 0, mine = ((int *)(o.from.image + skip))[last], is = 0;
    MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ((int *)(o.to.image + skip))[last] = sum + 1;
    mem_write(o.to.kind, o.to.base, o.to.image, o.to.bytes);
    op_begin(&o, NONBLOCKING, comm);
    MPI_Request_free(&o.request);
    do {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 99, comm, &flag, MPI_STATUS_IGNORE);
        mem_read(o.to.kind, &is, o.to.at + (size_t)last * sizeof is, sizeof is);
    } while (is != sum && within(&since, SECONDS));
    MPI_Barrier(comm);
    op_check(&o, "after a freed request");
    op_free(&o);
    MPI_Comm_free(&comm);
    report("a freed request");
}

/* Calls that one rank's MPI refuses and that are made again: votes go on alike. */
static void refused(void)
{
    MPI_Comm comm;
    struct op o;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    op_make(&o, REDUCE, 0, false, MEM_DEVICE, MEM_DEVICE);
    for (int round = 0; round < 20; round++) {
        enum form form = HAVE_PERSISTENT && round % 2 ? PERSISTENT : NONBLOCKING;
        op_fill(&o);
        if (my_rank == 1 && round % 5 < 2) {
            struct task wrong = o.k;
            wrong.root = num_ranks;
            int rc = task_run(&wrong, form, o.from.at, o.to.at, comm, &o.request);
            expect_equal(error_class(rc), MPI_ERR_ROOT, "a wrong root's class");
        }
        op_begin(&o, form, comm);
        if (form == PERSISTENT) MPI_Start(&o.request);
        MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        if (form == PERSISTENT) MPI_Request_free(&o.request);
        op_check(&o, "made again");
        if (my_rank == 1 && by_stridec && round > 2 && form == NONBLOCKING) {
            int rc = task_run(&o.k, form, NULL, o.to.at, comm, &o.request);
            expect_equal(error_class(rc), MPI_ERR_BUFFER, "a missing buffer's class");
        }
        if (round % 3 == 0) MPI_Barrier(comm);
    }
    op_free(&o);
    MPI_Comm_free(&comm);
    report("calls that one rank's MPI refuses first");
}

static void *threaded(void *of)
{
    struct op *o = of;
    for (int i = 0; i < 30; i++) {
        task_run(&o->k, NONBLOCKING, o->from.at, o->to.at, *(MPI_Comm *)o->what, &o->request);
        if (i % 2) MPI_Wait(&o->request, MPI_STATUS_IGNORE);
        else end_by_tests(&o->request);
    }
    return NULL;
}

/* Open MPI 4.1's own nonblocking collectives may hang where several threads are at them: none is left to it. */
static void in_three_threads(void)
{
    MPI_Comm comm[3];
    pthread_t thread[3];
    struct op o[3];
    if (!by_stridec) return;
    for (int i = 0; i < 3; i++) {
        enum call c = i && !lacking ? ALLREDUCE : SCAN;
        comm[i] = comm_on(c);
        op_make(&o[i], c, (size_t)i, false, MEM_DEVICE, MEM_DEVICE);
        op_fill(&o[i]);
        memcpy(o[i].what, &comm[i], sizeof comm[i]);
    }
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, threaded, &o[i]);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) {
        task_check(&o[i].k, &o[i].from, &o[i].to, "in a thread");
        op_free(&o[i]), MPI_Comm_free(&comm[i]);
    }
    report("three threads");
}

int main(int argc, char **argv)
{
    bool is_long = false;
    struct resources now;
    for (int i = 1; i < argc; i++) {
        packed |= !strcmp(argv[i], "packed"), lacking |= !strcmp(argv[i], "lacking");
        is_long |= !strcmp(argv[i], "long");
    }
    if (lacking && rank_given() == 1) setenv("STRIDEC_ENGINE", "copy", 1);
    int level = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    by_stridec = dlsym(RTLD_DEFAULT, "stridec_exchanges") && !host_mode;
#ifdef MPICH_VERSION   /* a CUDA-aware one reduces device memory itself, also later */
    by_stridec &= !cuda_aware();
#endif
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));   /* the driver is loaded */
    resources_now(&now);
    counted = by_stridec && now.simulated;
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_long) return long_one(), check_finish();
    all_memories(NONBLOCKING);
#if HAVE_PERSISTENT
    all_memories(PERSISTENT);
#endif
    not_aligned(), same_bits(), switches();
    for (enum call c = 0; c < CALLS; c++) waits_alone(c, false);
    waits_alone(ALLREDUCE, true), waits_alone(REDUCE_SCATTER, true);
    several();
#if HAVE_PERSISTENT
    any_order();
#endif
    freed_before_the_end(), freed_requests(), refused();
    /* A CUDA-aware MPI needs a context in each thread. */
    if (level == MPI_THREAD_MULTIPLE && !cuda_aware()) in_three_threads();
    return check_finish();
}
