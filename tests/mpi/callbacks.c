/* callbacks.c: messages in callbacks: of attributes of MPI_COMM_SELF, which MPI_Finalize calls before all else, while other ranks
 * are not in MPI_Finalize yet, of attributes of a datatype, and of those of a communicator that is duplicated; in error handlers,
 * and after one that left the call by longjmp; and in the functions of a generalized request. What comes from a rank that goes
 * on as usual arrives, in host memory and on the device, and what lies on the device is sent.
 *
 * usage: callbacks [threads | jumps]: what a call held that was left by longjmp is lost
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host threads
 * run: STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=4096 -n 2
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on LSAN_OPTIONS=detect_leaks=0 -n 2 --host jumps
 * run: STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy LSAN_OPTIONS=detect_leaks=0 -n 2 jumps
 * run: STRIDEC_TRANSPORT=staged LSAN_OPTIONS=detect_leaks=0 -n 2 jumps
 */
#include "check.h"
#include "persistent.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 7, KNOWN = 8, N = 20000, FEW = 300, THERE = 1 };
static MPI_Datatype type, few, fewer;
static enum mem_kind kinds[] = {MEM_HOST, MEM_DEVICE};
static struct buf in[2], out[2];
static struct layout layout;
static int peer, bad, called;

/* Both ways: rank 1 sends first. */
static void send_to(int k, uint64_t salt)
{
    buf_fill(&out[k], salt);
    MPI_Send(out[k].origin, 1, type, peer, TAG + k, MPI_COMM_WORLD);
}

static bool receive_from(int k, uint64_t salt, const char *what)
{
    buf_fill(&in[k], 1);
    MPI_Recv(in[k].origin, 1, type, peer, TAG + k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    buf_expect_from(&in[k], &layout, &layout, salt);
    return buf_check(&in[k], what);
}

static void exchange(uint64_t salt, const char *what)
{
    for (int k = 0; k < 2; k++) {
        if (my_rank == 1) send_to(k, salt + (uint64_t)k);
        if (!receive_from(k, salt + (uint64_t)k, what)) bad++;
        if (my_rank == 0) send_to(k, salt + (uint64_t)k);
    }
}

static int type_goes(MPI_Datatype of, int key, void *value, void *extra)
{
    (void)of, (void)key, (void)value, (void)extra;
    exchange(100, "in a datatype's callback");
    called++;
    return MPI_SUCCESS;
}

/* Of all ranks, while a communicator is duplicated. */
static int is_copied(MPI_Comm of, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)of, (void)key, (void)extra, (void)value, (void)copy;
    exchange(150, "in a copy callback");
    *flag = 0;
    return MPI_SUCCESS;
}

static int self_goes(MPI_Comm of, int key, void *value, void *extra)
{
    (void)of, (void)key, (void)value, (void)extra;
    MPI_Send(NULL, 0, MPI_INT, peer, THERE, MPI_COMM_WORLD);
    exchange(200, "in MPI_Finalize");
    called++;
    return MPI_SUCCESS;
}

/* Wrong calls of rank 0's: one that the MPI refuses, and a receive that is too short, for what the MPI sends itself and for
 * what does not go as it stands. */
static void refused(MPI_Comm comm, int way)
{
    MPI_Status s;
    if (way == 0) MPI_Send(out[1].origin, 1, type, 99, TAG, comm);
    if (way == 1) MPI_Recv(in[0].origin, 1, MPI_INT, 0, TAG, comm, &s);
    if (way > 1) MPI_Recv(in[way - 2].origin, 1, fewer, 0, TAG, comm, &s);
}

enum { REFUSED_WAYS = 4 };

/* Under MPI_THREAD_MULTIPLE MPICH calls them with its lock held, and ends the program where they call it. */
#ifdef OPEN_MPI
static const bool calls_in_handlers = true;
#else
static const bool calls_in_handlers = false;
#endif

static void begin_refused(MPI_Comm comm, int way, MPI_Request *r)
{
    *r = MPI_REQUEST_NULL;
    if (way == 1) MPI_Isend(out[0].origin, 2, MPI_INT, 0, TAG, comm, r);
    if (way > 1) MPI_Isend(out[way - 2].origin, 1, few, 0, TAG, comm, r);
}

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    exchange(300, "in an error handler");
    called++;
}

static jmp_buf back;

static void jump(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    called++;
    longjmp(back, 1);
}

static void error_handlers(MPI_Comm_errhandler_function *function, uint64_t salt, const char *what)
{
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_errhandler(function, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    for (volatile int way = 0; way < REFUSED_WAYS; way++) {
        called = 0;
        if (my_rank == 0) {
            MPI_Request r;
            begin_refused(comm, way, &r);
            if (!setjmp(back)) refused(comm, way);
            expect(called == 1, "%s, way %d: %d calls", what, way, called);
            if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
        }
        if (my_rank == 1 || function == jump) exchange(salt, what);
    }
    called = 0;
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    report("%s", what);
}

static int asked(void *extra, MPI_Status *s)
{
    exchange(400, "in a generalized request's function");
    return nothing_to_tell(extra, s);
}

static void generalized(void)
{
    MPI_Request r;
    if (my_rank == 0) {
        MPI_Grequest_start(asked, nothing_to_free, nothing_to_cancel, NULL, &r);
        MPI_Grequest_complete(r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        exchange(400, "with a generalized request");
    }
    report("messages in a generalized request's function");
}

enum { CANCELLED = 4, PLAIN = 40 };
static MPI_Request pending[CANCELLED];

static void cancel_all(MPI_Comm *comm, int *error, ...)
{
    (void)comm, (void)error;
    for (int i = 0; i < CANCELLED; i++) {
        if (pending[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&pending[i]);
        MPI_Wait(&pending[i], MPI_STATUS_IGNORE);
    }
}

/* Others have the same handles then. */
static void receive_many(int k)
{
    struct buf b[CANCELLED];
    MPI_Request r[CANCELLED + 1];
    int token = -1;
    for (int i = 0; i < CANCELLED; i++) {
        buf_make(&b[i], kinds[k], &layout, 0, 4);
        MPI_Irecv(b[i].origin, 1, type, peer, TAG + i, MPI_COMM_WORLD, &r[i]);
    }
    MPI_Irecv(&token, 1, MPI_INT, peer, PLAIN, MPI_COMM_WORLD, &r[CANCELLED]);
    buf_fill(&out[k], 70 + (uint64_t)my_rank);
    for (int i = 0; i < CANCELLED; i++) MPI_Send(out[k].origin, 1, type, peer, TAG + i, MPI_COMM_WORLD);
    MPI_Send(&my_rank, 1, MPI_INT, peer, PLAIN, MPI_COMM_WORLD);
    MPI_Waitall(CANCELLED + 1, r, MPI_STATUSES_IGNORE);
    expect_equal(token, peer, "an int");
    for (int i = 0; i < CANCELLED; i++) {
        buf_expect_from(&b[i], &layout, &layout, 70 + (uint64_t)peer);
        buf_check(&b[i], "behind an error handler");
        buf_free(&b[i]);
    }
}

static void cancelled_in_a_handler(int k)
{
    MPI_Comm comm;
    MPI_Errhandler handler;
    struct buf old[CANCELLED];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(cancel_all, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    for (int i = 0; i < CANCELLED; i++) {
        buf_make(&old[i], kinds[k], &layout, 0, 3);
        MPI_Irecv(old[i].origin, 1, type, peer, i, comm, &pending[i]);
    }
    MPI_Send(out[k].origin, 1, type, num_ranks, 0, comm);   /* there is no such rank */
    for (int i = 0; i < CANCELLED; i++) expect(pending[i] == MPI_REQUEST_NULL, "a receive pends");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) receive_many(k);
    for (int i = 0; i < CANCELLED; i++) {
        buf_check(&old[i], "cancelled in an error handler");
        buf_free(&old[i]);
    }
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    report("receives that an error handler cancels, in %s memory", mem_name[kinds[k]]);
}

static int must_not_copy(MPI_Datatype of, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)of, (void)key, (void)extra, (void)value, (void)copy;
    called++;
    *flag = 0;
    return MPI_ERR_OTHER;
}

static void persistent_neighbors(MPI_Datatype like)
{
#if HAVE_PERSISTENT
    MPI_Comm pair;
    MPI_Request r;
    int weight = 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &peer, &weight, 1, &peer, &weight, MPI_INFO_NULL, 0, &pair);
    MPI_Neighbor_alltoall_init(out[1].origin, 1, like, in[1].origin, 1, like, pair, MPI_INFO_NULL, &r);
    for (int i = 0; i < 2; i++) {
        buf_fill(&out[1], 20 + (uint64_t)my_rank), buf_fill(&in[1], 1);
        MPI_Start(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        buf_expect_from(&in[1], &layout, &layout, 20 + (uint64_t)peer);
        buf_check(&in[1], "of a persistent exchange");
    }
    MPI_Request_free(&r);
    MPI_Comm_free(&pair);
#else
    (void)like;
#endif
}

/* What stridec keeps of a type calls none of its copy functions. */
static void not_copied(void)
{
    MPI_Datatype like;
    int key;
    MPI_Aint bytes, at = 0;
    MPI_Type_dup(type, &like);
    MPI_Type_create_keyval(must_not_copy, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_set_attr(like, key, &key);
    called = 0;
    persistent_neighbors(like);
    buf_fill(&out[1], 30);
    MPI_Pack_external_size("external32", 1, like, &bytes);
    char *packed = malloc((size_t)bytes);
    MPI_Pack_external("external32", out[1].origin, 1, like, packed, bytes, &at);
    expect_equal(at, bytes, "the packed bytes");
    free(packed);
    expect_equal(called, 0, "copies of an attribute");
    MPI_Type_free_keyval(&key);
    MPI_Type_free(&like);
    report("types whose attributes refuse to be copied");
}

int main(int argc, char **argv)
{
    MPI_Datatype other;
    int key;
    bool threads = argc > 1 && !strcmp(argv[argc - 1], "threads"), jumps = argc > 1 && !strcmp(argv[argc - 1], "jumps");
    check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : -1);
    peer = 1 - my_rank;
    MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &type);
    type_commit(&type);
    layout_of(&layout, type, 1, "every second double");
    for (int k = 0; k < 2; k++) buf_make(&out[k], kinds[k], &layout, 0, 1), buf_make(&in[k], kinds[k], &layout, 0, 2);
    MPI_Type_vector(FEW, 1, 2, MPI_DOUBLE, &few), MPI_Type_vector(FEW / 2, 1, 2, MPI_DOUBLE, &fewer);
    type_commit(&few), type_commit(&fewer);
    for (uint64_t i = 0; i < KNOWN; i++) exchange(10 + i, "before");
    report("messages before");

    MPI_Type_vector(N / 2, 1, 2, MPI_DOUBLE, &other);
    type_commit(&other);
    for (int i = 0; i < KNOWN; i++)
        MPI_Sendrecv(out[0].origin, 1, other, peer, 1, in[0].origin, 1, other, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (my_rank == 0) {
        MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, type_goes, &key, NULL);
        MPI_Type_set_attr(other, key, &key);
        MPI_Type_free(&other);
        MPI_Type_free_keyval(&key);
    } else {
        exchange(100, "with a datatype's callback");
        MPI_Type_free(&other);
    }
    expect_equal(called, my_rank == 0, "callbacks");
    report("messages in a datatype's callback");

    MPI_Comm comm, twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_keyval(is_copied, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(comm, key, &key);
    MPI_Comm_dup(comm, &twin);
    MPI_Comm_free(&twin), MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&key);
    report("messages while a communicator is duplicated");

    not_copied();
    for (int k = 0; k < 2 && !threads; k++) cancelled_in_a_handler(k);   /* MPICH holds its lock there */

    called = my_rank == 0;
    generalized();
    if (calls_in_handlers || !threads) error_handlers(handle, 300, "messages in error handlers");
    if (jumps) error_handlers(jump, 500, "messages after an error handler that jumped");
    MPI_Type_free(&few), MPI_Type_free(&fewer);
    called = my_rank == 0;
    if (my_rank == 0) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, self_goes, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &key);
        MPI_Comm_free_keyval(&key);
    }
    check_end();
    if (my_rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, peer, THERE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        exchange(200, "with a rank in MPI_Finalize");
    }
    MPI_Finalize();
    if (called != (my_rank == 0 ? 2 : 0)) bad++;
    if (bad) printf("not ok messages in MPI_Finalize: %d of rank %d wrong\n", bad, my_rank);
    return bad != 0;
}
