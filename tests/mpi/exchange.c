/* exchange.c: collectives among the ranks of a node go zero-copy once the ranks have agreed: one launch on
 * a rank that receives, none to pack. Host memory on some ranks, in place, many communicators, phases with and without
 * device memory.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 3
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: -n 4
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 3 packed
 * run: STRIDEC_TRANSPORT=oneshot -n 3 packed
 * run: -n 2 --host packed
 */
#include "check.h"
#include "resources.h"
#include "rows.h"
#include <stdlib.h>
#include <string.h>

#define EDGE 24          /* of a cube of doubles, divisible by 2, 3 and 4 */
#define SECONDS 60
#define CELLS (EDGE * EDGE * EDGE)

static bool packed;

/* ---- a cube turned from planes of x to planes of y: MPI_Alltoallw of subarrays ---- */

struct turn {
    MPI_Datatype send[8], recv[8];
    int counts[8], displs[8];
    struct doubles from, to;
};

/* The cell x, y, z of the cube, in a round. */
static double cell(int x, int y, int z, int round)
{
    return ((double)round * EDGE + x) * EDGE * EDGE + y * EDGE + z;
}

static void turn_make(struct turn *t, enum mem_kind kind)
{
    int part = EDGE / num_ranks;
    int thin[3] = {part, EDGE, EDGE}, flat[3] = {EDGE, part, EDGE}, piece[3] = {part, part, EDGE};
    for (int i = 0; i < num_ranks; i++) {
        int from[3] = {0, i * part, 0}, to[3] = {i * part, 0, 0};
        MPI_Type_create_subarray(3, thin, piece, from, MPI_ORDER_C, MPI_DOUBLE, &t->send[i]);
        MPI_Type_create_subarray(3, flat, piece, to, MPI_ORDER_C, MPI_DOUBLE, &t->recv[i]);
        MPI_Type_commit(&t->send[i]), MPI_Type_commit(&t->recv[i]);
        t->counts[i] = 1, t->displs[i] = 0;
    }
    doubles_make(&t->from, kind, CELLS / (size_t)num_ranks), doubles_make(&t->to, kind, CELLS / (size_t)num_ranks);
}

static void turn_free(struct turn *t)
{
    for (int i = 0; i < num_ranks; i++) MPI_Type_free(&t->send[i]), MPI_Type_free(&t->recv[i]);
    doubles_free(&t->from), doubles_free(&t->to);
}

static void turn_check(struct turn *t, int round)
{
    int part = EDGE / num_ranks, at = 0;
    for (int x = 0; x < EDGE; x++)
        for (int y = my_rank * part; y < (my_rank + 1) * part; y++)
            for (int z = 0; z < EDGE; z++) t->to.shadow[at++] = cell(x, y, z, round);
    doubles_check(&t->to, "the turned cube");
}

/* Returns the launches that it took. */
static int64_t turn_once(struct turn *t, MPI_Comm comm, int round)
{
    struct resources before, after;
    int part = EDGE / num_ranks, at = 0;
    for (int x = my_rank * part; x < (my_rank + 1) * part; x++)
        for (int y = 0; y < EDGE; y++)
            for (int z = 0; z < EDGE; z++) t->from.shadow[at++] = cell(x, y, z, round);
    doubles_write(&t->from);
    for (size_t i = 0; i < t->to.n; i++) t->to.shadow[i] = -1;
    doubles_write(&t->to);
    MPI_Barrier(comm);   /* what is sent to a rank that is late is packed after all */
    resources_now(&before);
    int rc = MPI_Alltoallw(t->from.at, t->counts, t->displs, t->send, t->to.at, t->counts, t->displs, t->recv, comm);
    resources_now(&after);
    expect_equal(rc, MPI_SUCCESS, "the return code");
    turn_check(t, round);
    return after.launches - before.launches;
}

/* Repeats it until all ranks have one launch each, if all have device memory: the kernel of typed copies is compiled in
 * the background meanwhile. What comes from host memory is unpacked by a launch of its own, or read with the rest. */
static void turn_in_one(struct turn *t, MPI_Comm comm, const char *what)
{
    struct resources now;
    double since = 0;
    int64_t launches;
    int round = 0;
    bool one;
    resources_now(&now);
    bool counts = everywhere(now.simulated && !packed && t->from.kind == MEM_DEVICE);
    do {
        launches = turn_once(t, comm, round++);
        one = everywhere(launches == 1);
    } while (round < 3 || (counts && !one && everywhere(within(&since, SECONDS))));
    if (counts) expect_equal(launches, 1, "the number of launches");
    report("a cube turned, %s", what);
}

static int64_t once(enum kind k, struct doubles *out, struct doubles *in, int root, int round)
{
    struct resources before, after;
    rows_fill(k, out, in, root, round);
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&before);
    expect_equal(rows_call(k, BLOCKING, out, in, root, MPI_COMM_WORLD, NULL), MPI_SUCCESS, kind_name[k]);
    resources_now(&after);
    rows_expected(k, in, root, round);
    doubles_check(in, kind_name[k]);
    return after.launches - before.launches;
}

static void kinds(enum mem_kind kind, const char *what)
{
    struct doubles out, in;
    struct resources now;
    resources_now(&now);
    rows_make(&out, kind), rows_make(&in, kind);
    bool all = everywhere(out.kind == MEM_DEVICE), counts = now.simulated && !packed && all;
    for (enum kind k = 0; k < KINDS; k++) {
        double since = 0;
        bool right = false;
        int round = 0, root = 0;
        int64_t launches = 0;
        do {
            root = round % num_ranks;
            launches = once(k, &out, &in, root, round++);
            right = everywhere(launches == rows_wanted(k, root));
        } while (round < 6 || (counts && !right && everywhere(within(&since, SECONDS))));
        if (counts) expect_equal(launches, rows_wanted(k, root), "the number of launches");
        report("MPI_%s, %s", kind_name[k], what);
    }
    doubles_free(&out), doubles_free(&in);
}

/* Host memory for a while, then device memory: the ranks find it out, and forget it again. */
static void phases(void)
{
    enum { CALLS = 150 };
    struct doubles out, in;
    for (int phase = 0; phase < 4; phase++) {
        enum mem_kind kind = phase % 2 ? MEM_DEVICE : MEM_HOST;
        rows_make(&out, kind), rows_make(&in, kind);
        for (int i = 0; i < CALLS; i++) {
            enum kind k = i % 3 == 0 ? ALLTOALLV : i % 3 == 1 ? BCAST : GATHERV;
            rows_fill(k, &out, &in, 0, i);
            expect_equal(rows_call(k, BLOCKING, &out, &in, 0, MPI_COMM_WORLD, NULL), MPI_SUCCESS, kind_name[k]);
            rows_expected(k, &in, 0, i);
            doubles_check(&in, kind_name[k]);
        }
        doubles_free(&out), doubles_free(&in);
    }
    report("phases with host and with device memory, %d calls each", CALLS);
}

/* A communicator for each call, as many as an MPI has at a time: what is made for them goes with them. */
static void communicators(void)
{
    enum { MANY = 2500 };
    struct doubles out, in;
    MPI_Comm comm;
    rows_make(&out, MEM_DEVICE), rows_make(&in, MEM_DEVICE);
    for (int i = 0; i < MANY; i++) {
        enum kind k = i % 2 ? BCAST : ALLTOALL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (i % 50 < 2) rows_fill(k, &out, &in, 0, i);
        expect_equal(rows_call(k, BLOCKING, &out, &in, 0, comm, NULL), MPI_SUCCESS, kind_name[k]);
        if (i % 50 < 2) rows_expected(k, &in, 0, i), doubles_check(&in, kind_name[k]);
        MPI_Comm_free(&comm);
    }
    doubles_free(&out), doubles_free(&in);
    report("%d communicators", MANY);
}

/* The MPI does short and wrong calls, calls of one rank alone, and calls between two groups. */
static void left_alone(void)
{
    struct doubles out, in;
    MPI_Comm apart, inter = MPI_COMM_NULL;
    rows_make(&out, MEM_DEVICE), rows_make(&in, MEM_DEVICE);
    rows_fill(BCAST, &out, &in, 0, 1);
    for (int i = 0; i < 3; i++)
        expect_equal(MPI_Bcast(in.at, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD), MPI_SUCCESS, "a short Bcast");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rc = MPI_Bcast(in.at, 1, row, num_ranks, MPI_COMM_WORLD);
    expect_equal(error_class(rc), MPI_ERR_ROOT, "the class of a wrong root");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    expect_equal(MPI_Bcast(in.at, 1, row, 0, MPI_COMM_SELF), MPI_SUCCESS, "a Bcast to oneself");
    MPI_Comm_split(MPI_COMM_WORLD, my_rank == 0, 0, &apart);
    MPI_Intercomm_create(apart, 0, MPI_COMM_WORLD, my_rank == 0, 9, &inter);
    if (my_rank == 0) rows_fill(BCAST, &out, &in, 0, 2);
    rc = MPI_Bcast(in.at, 1, row, my_rank ? 0 : MPI_ROOT, inter);
    expect_equal(rc, MPI_SUCCESS, "a Bcast between groups");
    rows_clear(&in), rows_put(&in, 0, 0, 0, 2);
    if (my_rank) doubles_check(&in, "a Bcast between groups");
    MPI_Comm_free(&inter), MPI_Comm_free(&apart);
    doubles_free(&out), doubles_free(&in);
    report("short ones, a wrong root, one rank, two groups");
}

/* A call that one rank's MPI refuses and that is made again counts once: the votes go on. */
static void refused(enum kind k)
{
    enum { CALLS = 70 };
    struct doubles out, in;
    MPI_Comm comm;
    rows_make(&out, MEM_DEVICE), rows_make(&in, MEM_DEVICE);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < CALLS; i++) {
        rows_fill(k, &out, &in, 0, i);
        if (my_rank == 1 && i % 5 == 2) {
            int rc = rows_call(k, BLOCKING, &out, &in, num_ranks, comm, NULL);
            expect_equal(error_class(rc), MPI_ERR_ROOT, "a wrong root's class");
        }
        expect_equal(rows_call(k, BLOCKING, &out, &in, 0, comm, NULL), MPI_SUCCESS, kind_name[k]);
        rows_expected(k, &in, 0, i);
        doubles_check(&in, kind_name[k]);
    }
    MPI_Comm_free(&comm);
    doubles_free(&out), doubles_free(&in);
    report("calls of %s that one rank's MPI refuses first", kind_name[k]);
}

static void *threaded(void *comm)
{
    struct turn t;
    turn_make(&t, MEM_DEVICE);
    for (int i = 0; i < 20; i++) turn_once(&t, *(MPI_Comm *)comm, i);
    turn_free(&t);
    return NULL;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) packed |= !strcmp(argv[i], "packed");
    int level = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    struct turn t;
    rows_begin();
    turn_make(&t, MEM_DEVICE);
    turn_in_one(&t, MPI_COMM_WORLD, "device memory");
    turn_free(&t);
    kinds(MEM_DEVICE, "device memory");
    turn_make(&t, my_rank % 2 ? MEM_HOST : MEM_DEVICE);
    turn_in_one(&t, MPI_COMM_WORLD, "host memory on every second rank");
    turn_free(&t);
    kinds(my_rank % 2 ? MEM_HOST : MEM_DEVICE, "host memory on every second rank");
    kinds(MEM_MANAGED, "managed memory");
    phases(), communicators(), left_alone(), refused(BCAST), refused(GATHERV);
    if (level == MPI_THREAD_MULTIPLE) in_threads(3, threaded), report("three threads");
    rows_end();
    return check_finish();
}
