/* failing.c: what one rank can't do, its peers hear of or do without: no wrong byte, and nobody waits for ever.
 *
 * "packs": a rank can't pack what a neighbourhood collective sends: all that its peers get of it is an error. "alone":
 * one rank has loaded a CUDA driver before MPI_Init: such collectives are the MPI's. With a CUDA-aware MPI an RTS
 * header may come into device memory: "head": it can't be read from there: an error; "deep": into a type that stridec
 * can't read; in host memory too. "others": errors of files and windows come to their handlers.
 *
 * run: STRIDEC_TRANSPORT=oneshot -n 2 packs
 * run: STRIDEC_TRANSPORT=staged -n 3 packs
 * run: MPI_TEST_SIM=0 -n 2 --host alone
 * run: -n 2 others
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2 head
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2 deep
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host deep
 */
#include "check.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t salt = 1;

/* For the calls in between. */
static void driver_fails(const char *calls)
{
    if (calls) setenv("SIMGPU_FAIL", calls, 1);
    else unsetenv("SIMGPU_FAIL");
}

/* ---- packs ---- */

enum how { BLOCKING, NONBLOCKING, LISTED, HOWS };
static const char *const hows[HOWS] = {"blocking", "nonblocking", "in a list"};

/* Returns the error. A call on a list has it in the status. */
static int exchange(const struct layout *l, const struct buf *out, const struct buf *in, MPI_Comm ring, enum how later)
{
    MPI_Request r, list[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status s[2];
    if (!later) return MPI_Neighbor_alltoall(out->origin, 1, l->type, in->origin, 1, l->type, ring);
    int rc = MPI_Ineighbor_alltoall(out->origin, 1, l->type, in->origin, 1, l->type, ring, &r);
    if (later == NONBLOCKING || rc != MPI_SUCCESS) return rc == MPI_SUCCESS ? MPI_Wait(&r, MPI_STATUS_IGNORE) : rc;
    list[1] = r;
    s[0].MPI_ERROR = MPI_SUCCESS, s[1].MPI_ERROR = MPI_SUCCESS;
    rc = MPI_Waitall(2, list, s);
    expect(rc == MPI_SUCCESS || rc == MPI_ERR_IN_STATUS, "MPI_Waitall returns %s", error_name(error_class(rc)));
    bool told = (rc == MPI_SUCCESS) == (s[1].MPI_ERROR == MPI_SUCCESS);
    expect(told && s[0].MPI_ERROR == MPI_SUCCESS, "statuses %d and %d", s[0].MPI_ERROR, s[1].MPI_ERROR);
    return s[1].MPI_ERROR;
}

/* The last rank's calls fail. In a ring of two or three all are its neighbours, and hear of it, where it did need them. */
static void one_round(MPI_Comm ring, const char *calls, bool needed, enum how later)
{
    struct layout l;
    struct buf in, out;
    int breaks = num_ranks - 1, beside[2] = {(my_rank + num_ranks - 1) % num_ranks, (my_rank + 1) % num_ranks}, failed, all_failed;
    layout_number(&l, 1, 2);
    salt += 10;
    buf_make(&in, MEM_DEVICE, &l, 0, salt + 9), buf_make(&out, MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank);
    driver_fails(my_rank == breaks ? calls : NULL);
    int rc = exchange(&l, &out, &in, ring, later);
    driver_fails(NULL);
    failed = rc != MPI_SUCCESS;
    MPI_Allreduce(&failed, &all_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(all_failed == num_ranks * failed && (calls || !failed) && (failed || !needed), "%s: %s here, %d ranks failed",
           calls ? calls : "nothing fails", error_name(error_class(rc)), all_failed);
    unsigned char *all = malloc((size_t)l.bytes);
    for (int side = 0; side < 2; side++) {
        unsigned char *theirs = layout_packed(&l, salt + (uint64_t)beside[side]);
        int half = l.bytes / 2;
        memcpy(all + side * half, theirs + (1 - side) * half, (size_t)half);
        free(theirs);
    }
    if (rc == MPI_SUCCESS) buf_expect(&in, &l, all, l.bytes), buf_check(&in, "an exchange");
    free(all);
    buf_free(&in), buf_free(&out);
    layout_free(&l);
}

/* While such a collective is under way. */
static void cancel_nothing(MPI_Comm ring)
{
    int own = my_rank, got[2];
    MPI_Request none = MPI_REQUEST_NULL, r;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Ineighbor_allgather(&own, 1, MPI_INT, got, 1, MPI_INT, ring, &r);
    expect_equal(error_class(MPI_Cancel(&none)), MPI_ERR_REQUEST, "MPI_Cancel of no request");
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void packs(void)
{
    static const char *const calls[] = {"cuMemHostAlloc,cuMemAlloc", NULL, "cuStreamSynchronize", NULL,
                                        "cuLaunchKernel,cuGraphLaunch,cuMemcpyAsync,cuMemcpy2DAsync", NULL};
    int period = 1;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &period, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    cancel_nothing(ring);
    for (enum how later = 0; later < HOWS; later++) {
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) one_round(ring, calls[i], calls[i] && i, later);   /* memory may be in the pools */
        report("a rank that can't pack, %s", hows[later]);
    }
    MPI_Comm_free(&ring);
}

/* ---- alone ---- */

/* The simulated one, which lies beside the tests. */
static void load_driver(const char *program)
{
    char path[PATH_MAX];
    const char *name = strrchr(program, '/');
    int (*init)(unsigned);
    snprintf(path, sizeof path, "%.*s/../../sim/libcuda.so.1", name ? (int)(name - program) : 1, name ? program : ".");
    void *driver = dlopen(path, RTLD_NOW);
    *(void **)&init = driver ? dlsym(driver, "cuInit") : NULL;
    if (!init || init(0)) fprintf(stderr, "%s is no driver: %s\n", path, dlerror()), exit(2);
}

static void alone(void)
{
    int period = 1, own = my_rank + 10, got[2] = {0, 0};
    MPI_Comm ring;
    MPI_Request r;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &period, 0, &ring);
    MPI_Neighbor_allgather(&own, 1, MPI_INT, got, 1, MPI_INT, ring);
    expect(got[0] == (my_rank + num_ranks - 1) % num_ranks + 10 && got[1] == (my_rank + 1) % num_ranks + 10, "%d and %d", got[0],
           got[1]);
    MPI_Ineighbor_allgather(&own, 1, MPI_INT, got, 1, MPI_INT, ring, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Comm_free(&ring);
    report("neighbours of whom one has a driver");
}

/* ---- RTS headers in device memory ---- */

static void send_once(const struct layout *sent, int tag)
{
    struct buf out;
    buf_make(&out, MEM_DEVICE, sent, 0, salt);
    MPI_Send(out.origin, sent->count, sent->type, 1, tag, MPI_COMM_WORLD);
    buf_free(&out);
}

/* `way`: by MPI_Recv, MPI_Irecv or MPI_Recv_init. */
static int receive_once(const struct layout *l, const struct buf *in, int way, int tag)
{
    MPI_Request r;
    MPI_Status s;
    if (way == 0) return MPI_Recv(in->origin, l->count, l->type, 0, tag, MPI_COMM_WORLD, &s);
    if (way == 1) MPI_Irecv(in->origin, l->count, l->type, 0, tag, MPI_COMM_WORLD, &r);
    if (way == 2) MPI_Recv_init(in->origin, l->count, l->type, 0, tag, MPI_COMM_WORLD, &r), MPI_Start(&r);
    int rc = MPI_Wait(&r, &s);
    if (way == 2) MPI_Request_free(&r);
    return rc;
}

static void once(const struct layout *sent, const struct layout *l, int way, const char *calls, const char *what)
{
    struct buf in;
    salt += 10;
    if (my_rank == 0) send_once(sent, 3);
    if (my_rank == 1) {
        buf_make(&in, MEM_DEVICE, l, 0, salt + 1);
        driver_fails(calls);
        int rc = receive_once(l, &in, way, 3);
        driver_fails(NULL);
        expect(!calls == (rc == MPI_SUCCESS), "%s, %s: %s", what, calls ? calls : "nothing fails", error_name(error_class(rc)));
        if (rc == MPI_SUCCESS) buf_expect_from(&in, l, sent, salt), buf_check(&in, what);
        buf_free(&in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Until the receiver has shown that it can read. */
static void meet(const struct layout *l)
{
    for (int i = 0; i < 4; i++) once(l, l, 0, NULL, "strided to strided");
}

/* More than 128 blocks of threads: a shorter kernel signals its end by a flag, and no stream is waited for. */
#define HEAD_COUNT 4000

/* The error is that of the request's communicator: MPI_COMM_WORLD's handler would end the job. */
static void on_its_communicator(const struct layout *l)
{
    MPI_Comm own;
    MPI_Request r;
    struct buf b;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    buf_make(&b, MEM_DEVICE, l, 0, salt);
    if (my_rank == 0) MPI_Send(b.origin, l->count, l->type, 1, 4, own);
    if (my_rank == 1) {
        MPI_Irecv(b.origin, l->count, l->type, 0, 4, own, &r);
        driver_fails("cuStreamSynchronize");
        int rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
        driver_fails(NULL);
        expect_equal(error_class(rc), MPI_ERR_OTHER, "the class of the error");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    buf_free(&b);
    MPI_Comm_free(&own);
    report("an error of a communicator of the program's");
}

static void head(void)
{
    struct layout strided, plain;
    layout_number(&strided, 1, HEAD_COUNT), layout_number(&plain, 0, HEAD_COUNT);
    meet(&strided);
    on_its_communicator(&strided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int way = 0; way < 3; way++) {
        once(&strided, &plain, way, NULL, "to contiguous memory");
        once(&strided, &plain, way, "cuStreamSynchronize", "to contiguous memory");
        once(&strided, &plain, way, "cuStreamCreateWithPriority,cuLaunchKernel,cuGraphLaunch,cuMemcpyAsync", "to contiguous memory");
        once(&strided, &plain, way, NULL, "to contiguous memory, again");
    }
    layout_free(&strided), layout_free(&plain);
    report("an RTS header that can't be read");
}

/* From both neighbours, which are one rank. */
static void from_neighbours(const struct layout *sent, const struct layout *received)
{
    int period = 1, ones[2] = {1, 1};
    MPI_Aint none[2] = {0, 0};
    struct buf out, in[2];
    MPI_Comm ring;
    MPI_Request r;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &period, 0, &ring);
    buf_make(&out, MEM_DEVICE, sent, 0, salt + (uint64_t)my_rank);
    for (int i = 0; i < 2; i++) buf_make(&in[i], MEM_DEVICE, received, 0, 1);
    MPI_Aint at[2];
    for (int i = 0; i < 2; i++) MPI_Get_address(in[i].origin, &at[i]);
    MPI_Datatype from[2] = {sent->type, sent->type}, to[2] = {received->type, received->type};
    MPI_Ineighbor_alltoallw(out.origin, ones, none, from, MPI_BOTTOM, ones, at, to, ring, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        buf_expect_from(&in[i], received, sent, salt + (uint64_t)(1 - my_rank));
        buf_check(&in[i], "from a neighbour"), buf_free(&in[i]);
    }
    buf_free(&out);
    MPI_Comm_free(&ring);
}

#define DEPTH 23   /* each type holds two of the one below: more than stridec reads */

static void deep(void)
{
    struct layout l, sent, small;
    MPI_Datatype t, v;
    MPI_Type_contiguous(1, MPI_BYTE, &t);
    for (int i = 0; i < DEPTH; i++) {
        MPI_Datatype two[2] = {t, t}, above;
        int length[2] = {1, 1};
        MPI_Aint at[2] = {0, (MPI_Aint)1 << i};
        MPI_Type_create_struct(2, length, at, two, &above);
        MPI_Type_free(&t);
        t = above;
    }
    MPI_Type_vector(1 << (DEPTH - 6), 64, 128, MPI_BYTE, &v);
    type_commit(&t), type_commit(&v);
    layout_of(&l, t, 1, "a deep type"), layout_of(&sent, v, 1, "a vector"), layout_number(&small, 1, 40);
    meet(&small);
    for (int i = 0; i < 3; i++) once(&sent, &l, i < 2 ? 0 : 2, NULL, "to a type that can't be read");   /* the second one is known */
    from_neighbours(&sent, &l);
    layout_free(&l), layout_free(&sent), layout_free(&small);
    report("an RTS header for a type that can't be read");
}

/* MPI_COMM_SELF's handler would end the job; that of files returns unless another is set. */
static void others(void)
{
    static const char kernels[] = "cuLaunchKernel,cuGraphLaunch,cuMemcpyAsync,cuMemcpy2DAsync";
    const char *folder = getenv("TMPDIR");
    char path[PATH_MAX];
    struct layout l;
    struct buf b;
    MPI_File file;
    MPI_Win win;
    void *memory;
    layout_number(&l, 1, 40);
    buf_make(&b, MEM_DEVICE, &l, 0, salt);
    snprintf(path, sizeof path, "%s/stridec-failing.%d.%d", folder ? folder : "/tmp", (int)getpid(), my_rank);
    const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_File_open(MPI_COMM_SELF, path, mode, MPI_INFO_NULL, &file);
    for (int i = 0; i < 2; i++) {
        driver_fails(i ? NULL : kernels);
        int rc = MPI_File_write(file, b.origin, l.count, l.type, MPI_STATUS_IGNORE);
        driver_fails(NULL);
        expect_equal(error_class(rc), i ? MPI_SUCCESS : MPI_ERR_OTHER, "the class of a file's error");
    }
    MPI_Request r;
    MPI_File_iread_at(file, 0, b.origin, l.count, l.type, &r);
    driver_fails(kernels);
    int later = MPI_Wait(&r, MPI_STATUS_IGNORE);
    driver_fails(NULL);
    expect_equal(error_class(later), MPI_ERR_OTHER, "the class of a file's later error");
    MPI_File_close(&file);
    report("an error of a file");
    MPI_Win_allocate(l.bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    driver_fails(kernels);
    int rc = MPI_Put(b.origin, l.count, l.type, 1 - my_rank, 0, (int)l.bytes, MPI_BYTE, win);
    driver_fails(NULL);
    expect_equal(error_class(rc), MPI_ERR_OTHER, "the class of a window's error");
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    buf_free(&b);
    layout_free(&l);
    report("an error of a window");
}

int main(int argc, char **argv)
{
    const char *what = argv[argc - 1];
    if (!strcmp(what, "alone") && rank_given() == 0) load_driver(argv[0]);
    check_start(&argc, &argv, -1);
    if (!strcmp(what, "packs")) packs();
    if (!strcmp(what, "alone")) alone();
    if (!strcmp(what, "others")) others();
    if (!strcmp(what, "head")) head();
    if (!strcmp(what, "deep")) deep();
    return check_finish();
}
