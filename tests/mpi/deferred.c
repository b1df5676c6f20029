/* deferred.c: neighbourhood collectives that go on after their call, as MPI orders them: several at a time beside other
 * requests, completed by every call there is; ranks that wait although others have only started; what is freed before the
 * end; persistent ones that each rank starts in an order of its own.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 3 threads
 * run: STRIDEC_TRANSPORT=staged -n 3
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 2
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 */
#include "check.h"
#include "persistent.h"
#include <stdlib.h>
#include <string.h>

#define LARGE 60000   /* doubles: past what MPIs buffer */
#define SEVERAL 6
#define WAYS 9

/* An exchange with both neighbours on a ring: n doubles to each, every other one of the buffer. */
struct op {
    enum mem_kind kind;
    int n;
    double *send, *recv;
    MPI_Datatype type;
    MPI_Request request;
};

static MPI_Comm ring;
static int beside[2];

static MPI_Comm ring_new(void)
{
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &(int){1}, 0, &comm);
    return comm;
}

static double value(int rank, int side, int i, int salt)
{
    return salt * 1e7 + rank * 1e6 + side * 5e5 + i;
}

static size_t bytes_of(const struct op *o)
{
    return (size_t)o->n * 4 * sizeof(double);
}

static void op_fill(struct op *o, int salt)
{
    double *all = calloc(1, bytes_of(o));
    mem_write(o->kind, o->recv, all, bytes_of(o));
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < o->n; i++) all[2 * (side * o->n + i)] = value(my_rank, side, i, salt);
    mem_write(o->kind, o->send, all, bytes_of(o));
    free(all);
}

static void op_make(struct op *o, enum mem_kind kind, int n, int salt)
{
    MPI_Datatype vector;
    *o = (struct op){.kind = kind, .n = n, .request = MPI_REQUEST_NULL};
    MPI_Type_vector(n, 1, 2, MPI_DOUBLE, &vector);
    MPI_Type_create_resized(vector, 0, 2 * n * (MPI_Aint)sizeof(double), &o->type);
    type_commit(&o->type);
    MPI_Type_free(&vector);
    o->send = mem_alloc(kind, bytes_of(o)), o->recv = mem_alloc(kind, bytes_of(o));
    op_fill(o, salt);
}

/* What went down at the neighbour below comes from above here, and between two ranks the other way about as well. */
static void op_check(const struct op *o, int salt, const char *what)
{
    double *all = malloc(bytes_of(o));
    int wrong = 0;
    mem_read(o->kind, all, o->recv, bytes_of(o));
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < o->n; i++) {
            wrong += all[2 * (side * o->n + i)] != value(beside[side], 1 - side, i, salt);
            wrong += all[2 * (side * o->n + i) + 1] != 0;
        }
    expect(!wrong, "%s: %d of %d doubles are wrong", what, wrong, 4 * o->n);
    free(all);
}

static void op_free(struct op *o)
{
    if (o->type != MPI_DATATYPE_NULL) MPI_Type_free(&o->type);
    mem_free(o->kind, o->send), mem_free(o->kind, o->recv);
}

static void op_begin(struct op *o, MPI_Comm comm)
{
    int rc = MPI_Ineighbor_alltoall(o->send, 1, o->type, o->recv, 1, o->type, comm, &o->request);
    expect_equal(rc, MPI_SUCCESS, "the return code");
}

/* ---- several at a time ---- */

/* All of q, one way or another. */
static void complete(int way, int n, MPI_Request q[])
{
    MPI_Status s[16];
    int flag = 0, index = 0, done = 0, which[16], left = n;
    if (way == 0) MPI_Waitall(n, q, s);
    while (way == 1 && !flag) MPI_Testall(n, q, &flag, MPI_STATUSES_IGNORE);
    for (; way == 2 && left; left--) MPI_Waitany(n, q, &index, s);
    while (way == 3 && left) MPI_Testany(n, q, &index, &flag, s), left -= flag && index != MPI_UNDEFINED;
    while (way == 4 && left) MPI_Waitsome(n, q, &done, which, s), left -= done;
    while (way == 5 && left) MPI_Testsome(n, q, &done, which, MPI_STATUSES_IGNORE), left -= done;
    for (; way == 6 && left; left--) MPI_Wait(&q[left - 1], s);
    for (; way == 7 && left; left--)
        for (flag = 0; !flag;) MPI_Test(&q[left - 1], &flag, s);
    for (; way == 8 && left; left--) {
        for (flag = 0; !flag;) MPI_Request_get_status(q[left - 1], &flag, s);
        MPI_Wait(&q[left - 1], s);
    }
    for (int i = 0; i < n; i++) expect(q[i] == MPI_REQUEST_NULL, "way %d leaves request %d", way, i);
}

/* Beside messages around the ring, contiguous in host memory and of a layout on the device. */
static void several(void)
{
    struct op o[SEVERAL], around;
    for (int way = 0; way < WAYS; way++) {
        MPI_Request q[SEVERAL + 4];
        int out[2] = {my_rank + 100 * way, 0}, in = -1, n = 0;
        op_make(&around, MEM_DEVICE, 700, way + 50);
        MPI_Irecv(around.recv, 1, around.type, beside[0], 1, ring, &q[n++]);
        for (int i = 0; i < SEVERAL; i++) {
            op_make(&o[i], (my_rank + i + way) % 3 ? MEM_DEVICE : MEM_HOST, i % 2 ? 40 * i : 900 * i + 3, way * 10 + i);
            op_begin(&o[i], ring);
            if (i == 1) MPI_Irecv(&in, 1, MPI_INT, beside[0], 2, ring, &q[n++]);
            if (i == 2) MPI_Isend(around.send, 1, around.type, beside[1], 1, ring, &q[n++]);
            if (i == 4) MPI_Isend(out, 1, MPI_INT, beside[1], 2, ring, &q[n++]);
            q[n++] = o[i].request;
        }
        complete(way, n, q);
        expect_equal(in, beside[0] + 100 * way, "what came around");
        for (int i = 0; i < SEVERAL; i++) op_check(&o[i], way * 10 + i, "one of several"), op_free(&o[i]);
        op_free(&around);
    }
    report("several at a time, completed in %d ways", WAYS);
}

/* ---- who waits for whom ---- */

/* The first rank waits, and only then sends what the others receive before they wait. */
static void waits_alone(enum mem_kind kind)
{
    struct op o;
    int word = 7;
    op_make(&o, kind, LARGE, 1);
    op_begin(&o, ring);
    if (my_rank == 0) MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    for (int to = 1; my_rank == 0 && to < num_ranks; to++) MPI_Send(&word, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
    if (my_rank) MPI_Recv(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    op_check(&o, 1, "an exchange");
    op_free(&o);
    report("a rank that waits, %s memory, while the others have only started", mem_name[kind]);
}

/* The others start only when the first rank has had the message that it waits for beside. */
static void waits_for_any(bool some)
{
    struct op o;
    int word = 0, index = -1, n = 1;
    op_make(&o, MEM_DEVICE, LARGE, 2);
    if (my_rank == 0) {
        MPI_Request q[2];
        op_begin(&o, ring);
        q[0] = o.request;
        MPI_Irecv(&word, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &q[1]);
        if (some) MPI_Waitsome(2, q, &n, &index, MPI_STATUSES_IGNORE);
        else MPI_Waitany(2, q, &index, MPI_STATUS_IGNORE);
        expect(n == 1 && index == 1, "request %d is complete, not the receive", index);
        for (int to = 1; to < num_ranks; to++) MPI_Send(&word, 1, MPI_INT, to, 5, MPI_COMM_WORLD);
        o.request = q[0];
    } else {
        if (my_rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        op_begin(&o, ring);
    }
    MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    op_check(&o, 2, "an exchange");
    op_free(&o);
    report("a receive that ends before an exchange: %s", some ? "MPI_Waitsome" : "MPI_Waitany");
}

/* A test tells of no end before the others have begun. */
static void tests_early(void)
{
    struct op o;
    int flag = 0, early = 0;
    op_make(&o, MEM_DEVICE, 100, 3);
    if (my_rank == 0) {
        op_begin(&o, ring);
        for (int i = 0; i < 20 && !flag; i++) MPI_Test(&o.request, &flag, MPI_STATUS_IGNORE), early += flag;
        expect(!early, "a test tells of an end before the others have begun");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank) op_begin(&o, ring);
    while (!flag) MPI_Test(&o.request, &flag, MPI_STATUS_IGNORE);
    op_check(&o, 3, "an exchange");
    op_free(&o);
    report("tests before the others have begun");
}

/* ---- what is freed, and errors ---- */

static void freed_before_the_end(void)
{
    struct op o[2];
    MPI_Comm comm = ring_new();
    for (int i = 0; i < 2; i++) {
        op_make(&o[i], i ? MEM_HOST : MEM_DEVICE, 3000, 4 + i);
        op_begin(&o[i], comm);
        MPI_Type_free(&o[i].type);
    }
    MPI_Comm_free(&comm);
    for (int i = 0; i < 2; i++) {
        MPI_Wait(&o[i].request, MPI_STATUS_IGNORE);
        op_check(&o[i], 4 + i, "after its communicator and type");
        op_free(&o[i]);
    }
    report("communicator and types freed before the end");
}

/* More comes than there is room for; the next one is as it should be. */
static void too_long(void)
{
    struct op o;
    MPI_Errhandler before;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    op_make(&o, MEM_DEVICE, 2000, 6);
    MPI_Ineighbor_alltoall(o.send, 2, MPI_INT, o.recv, 1, MPI_INT, ring, &o.request);
    int rc = MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    expect_equal(error_class(rc), MPI_ERR_TRUNCATE, "the class of a receive that is too small");
    rc = MPI_Ineighbor_alltoall(o.send, -1, o.type, o.recv, -1, o.type, ring, &o.request);
    expect_equal(error_class(rc), MPI_ERR_COUNT, "the class of a negative count");
    op_fill(&o, 6);
    op_begin(&o, ring);
    rc = MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    expect_equal(rc, MPI_SUCCESS, "the return code");
    op_check(&o, 6, "the next one");
    op_free(&o);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before), MPI_Comm_set_errhandler(ring, before);
    MPI_Errhandler_free(&before);
    report("errors");
}

/* Upwards alone: what an edge carries nothing by may have no type, at one end or at both. */
static void absent_types(void)
{
#ifdef MPICH_VERSION   /* others refuse it */
    struct op o;
    op_make(&o, MEM_DEVICE, 3000, 8);
    MPI_Datatype none = my_rank ? o.type : MPI_DATATYPE_NULL, out[] = {none, o.type}, in[] = {o.type, MPI_DATATYPE_NULL};
    int sent[] = {0, 1}, taken[] = {1, 0};
    MPI_Aint at[] = {0, (MPI_Aint)bytes_of(&o) / 2};
    for (int form = 0; form < 2; form++) {
        op_fill(&o, 8 + form);
        int rc = form ? MPI_Ineighbor_alltoallw(o.send, sent, at, out, o.recv, taken, at, in, ring, &o.request)
                      : MPI_Neighbor_alltoallw(o.send, sent, at, out, o.recv, taken, at, in, ring);
        if (form) rc |= MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        expect_equal(rc, MPI_SUCCESS, "the return code");
        double *all = malloc(bytes_of(&o));
        int wrong = 0;
        mem_read(o.kind, all, o.recv, bytes_of(&o));
        for (int i = 0; i < o.n; i++) {
            wrong += all[2 * i] != value(beside[0], 1, i, 8 + form);
            wrong += all[2 * (o.n + i)] != 0;
        }
        expect(!wrong, "%d doubles are wrong", wrong);
        free(all);
    }
    op_free(&o);
    report("edges without a type");
#endif
}

/* ---- persistent ones ---- */

#if HAVE_PERSISTENT
#define STANDING 3
static void any_order(void)
{
    struct op o[STANDING];
    MPI_Request q[STANDING];
    for (int i = 0; i < STANDING; i++) {
        op_make(&o[i], (my_rank + i) % 3 ? MEM_DEVICE : MEM_HOST, 500 * i + 30, 0);
        MPI_Neighbor_alltoall_init(o[i].send, 1, o[i].type, o[i].recv, 1, o[i].type, ring, MPI_INFO_NULL, &q[i]);
        MPI_Type_free(&o[i].type);
    }
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < STANDING; i++) op_fill(&o[i], round + i);
        if (round % 2) MPI_Startall(STANDING, q);
        for (int i = 0; i < STANDING && !(round % 2); i++) MPI_Start(&q[(i * (1 + my_rank % 2) + round) % STANDING]);
        if (round % 3) MPI_Waitall(STANDING, q, MPI_STATUSES_IGNORE);
        for (int flag = 0; !(round % 3) && !flag;) MPI_Testall(STANDING, q, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < STANDING; i++) op_check(&o[i], round + i, "a persistent one");
        MPI_Waitall(STANDING, q, MPI_STATUSES_IGNORE);   /* of inactive ones: nothing */
    }
    for (int i = 0; i < STANDING; i++) MPI_Request_free(&q[i]), op_free(&o[i]);
    report("persistent ones, started in any order");
}
#endif

int main(int argc, char **argv)
{
    bool threads = argc > 1 && !strcmp(argv[argc - 1], "threads");
    check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : -1);
    /* Load the driver before the communicator is made: else its nonblocking collectives stay the MPI's, and Open MPI
     * 4.1 itself swaps the neighbours of a ring of two. */
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));
    ring = ring_new();
    MPI_Cart_shift(ring, 0, 1, &beside[0], &beside[1]);
    several();
    waits_alone(MEM_DEVICE);
    waits_alone(MEM_HOST);
    waits_for_any(false);
    waits_for_any(true);
    tests_early();
    freed_before_the_end();
    too_long();
    absent_types();
#if HAVE_PERSISTENT
    any_order();
#endif
    MPI_Comm_free(&ring);
    return check_finish();
}
