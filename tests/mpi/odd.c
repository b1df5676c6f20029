/* odd.c: what programs rarely do: calls before MPI_Init and after MPI_Finalize, error handlers of their own, wildcards
 * and empty types, a child by fork, messages from an attribute's callback, requests still under way or cancelled at
 * MPI_Finalize.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 3

static int peer;
static struct layout vector;

/* ---- outside of MPI_Init and MPI_Finalize ---- */

static int outside_errors;

static void outside(int want_initialized, int want_finalized)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int version, subversion, length, initialized = -1, finalized = -1;
    MPI_Get_version(&version, &subversion);
    MPI_Get_library_version(library, &length);
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    outside_errors += version < 3 || initialized != want_initialized || finalized != want_finalized;
}

/* ---- error handlers ---- */

static int handled, handled_class;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    handled_class = error_class(*code);
}

/* An error of the MPI's (a truncated receive) and one of stridec's (too small a buffer for packed bytes) each call the
 * handler of the communicator once; handlers of other communicators are not called. */
static void handlers(void)
{
    static char small[8];
    MPI_Errhandler h;
    MPI_Comm comm;
    struct buf in, out;
    MPI_Request r;
    int position = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &h);
    MPI_Comm_set_errhandler(comm, h);
    buf_make(&out, MEM_DEVICE, &vector, 0, 1);
    buf_make(&in, MEM_DEVICE, &vector, 0, 2);
    MPI_Isend(out.origin, COUNT, vector.type, peer, 1, comm, &r);
    int rc = MPI_Recv(in.origin, 1, vector.type, peer, 1, comm, MPI_STATUS_IGNORE);
    expect(error_class(rc) == MPI_ERR_TRUNCATE && handled_class == MPI_ERR_TRUNCATE, "truncation: %s, handler %s",
           error_name(error_class(rc)), error_name(handled_class));
    expect_equal(handled, 1, "calls of the handler by a truncated receive");
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    handled = 0;
    rc = MPI_Pack(out.origin, COUNT, vector.type, small, sizeof small, &position, comm);
    /* MPICH has no such check of its own: a handler is called for stridec's. */
    if (!host_mode) {
        expect_equal(handled, 1, "calls of the handler by MPI_Pack into too small a buffer");
        expect(rc != MPI_SUCCESS && position == 0, "MPI_Pack into too small a buffer: %s", error_name(error_class(rc)));
    }
    MPI_Errhandler_free(&h);
    buf_free(&in);
    buf_free(&out);
    MPI_Comm_free(&comm);
    report("error handlers are called once");
}

/* ---- wildcards, empty types ---- */

static void empty(void)
{
    MPI_Datatype none;
    MPI_Status s;
    MPI_Request r[2];
    struct buf b;
    int n = -1;
    MPI_Type_vector(0, 1, 2, MPI_DOUBLE, &none);
    MPI_Type_commit(&none);
    buf_make(&b, MEM_DEVICE, &vector, 0, 3);
    MPI_Sendrecv(b.origin, 5, none, peer, 4, b.origin, 5, none, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
    MPI_Get_count(&s, MPI_BYTE, &n);
    expect(s.MPI_SOURCE == peer && s.MPI_TAG == 4 && n == 0, "an empty type's message: source %d, tag %d, %d bytes",
           s.MPI_SOURCE, s.MPI_TAG, n);
    /* Nothing is sent where room for three elements is. */
    MPI_Irecv(b.origin, COUNT, vector.type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(NULL, 0, vector.type, peer, 5, MPI_COMM_WORLD, &r[1]);
    MPI_Wait(&r[0], &s);
    MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    MPI_Get_count(&s, vector.type, &n);
    expect(s.MPI_SOURCE == peer && s.MPI_TAG == 5 && n == 0, "an empty message: source %d, tag %d, %d elements",
           s.MPI_SOURCE, s.MPI_TAG, n);
    buf_check(&b, "empty messages");
    buf_free(&b);
    MPI_Type_free(&none);
    report("wildcards, empty types and messages");
}

/* ---- requests that are not messages ---- */

static void mixed(void)
{
    MPI_Request r[4];
    struct buf in, out;
    buf_make(&out, MEM_DEVICE, &vector, 0, 10 + (uint64_t)my_rank);
    buf_make(&in, MEM_DEVICE, &vector, 0, 5);
    MPI_Irecv(in.origin, COUNT, vector.type, peer, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Grequest_start(nothing_to_tell, nothing_to_free, nothing_to_cancel, NULL, &r[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &r[2]);
    MPI_Isend(out.origin, COUNT, vector.type, peer, 1, MPI_COMM_WORLD, &r[3]);
    MPI_Grequest_complete(r[1]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    buf_expect_from(&in, &vector, &vector, 10 + (uint64_t)peer);
    buf_check(&in, "beside a generalized request and a barrier");
    buf_free(&in);
    buf_free(&out);
    report("generalized requests and barriers among messages");
}

/* ---- attributes ---- */

static int callbacks, callback_sum;

/* Sends a device buffer to the own rank. */
static int exchange_in_callback(MPI_Comm comm, int key, void *value, void *extra)
{
    struct buf in, out;
    (void)comm, (void)key, (void)extra;
    buf_make(&out, MEM_DEVICE, &vector, 0, 20);
    buf_make(&in, MEM_DEVICE, &vector, 0, 21);
    MPI_Sendrecv(out.origin, COUNT, vector.type, 0, 1, in.origin, COUNT, vector.type, 0, 1, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    buf_expect_from(&in, &vector, &vector, 20);
    callback_sum += buf_check(&in, "a message from an attribute's callback") ? *(int *)value : 0;
    buf_free(&in);
    buf_free(&out);
    callbacks++;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    static int value = 7;
    MPI_Comm comm;
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, exchange_in_callback, &key, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_attr(comm, key, &value);
    MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&key);
    expect(callbacks == 1 && callback_sum == 7, "%d callbacks, sum %d", callbacks, callback_sum);
    report("messages from an attribute's callback");
}

/* ---- fork ---- */

/* The child runs nothing at exit: Open MPI would remove the shared memory of its parent. */
static void forked(void)
{
    struct buf in, out;
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(5);
    expect(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5,
           "a child that ends with 5 gives status %#x", (unsigned)status);
    buf_make(&out, MEM_DEVICE, &vector, 0, 30 + (uint64_t)my_rank);
    buf_make(&in, MEM_DEVICE, &vector, 0, 32);
    MPI_Sendrecv(out.origin, COUNT, vector.type, peer, 1, in.origin, COUNT, vector.type, peer, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    buf_expect_from(&in, &vector, &vector, 30 + (uint64_t)peer);
    buf_check(&in, "after a fork");
    buf_free(&in);
    buf_free(&out);
    report("fork without exec");
}

/* ---- MPI_Finalize ---- */

/* A send whose request is freed, and a persistent one freed while it is active: both arrive, though nobody waits. */
static void free_pending(struct buf *first, struct buf *second, struct buf *in)
{
    MPI_Request r[2];
    buf_make(first, MEM_DEVICE, &vector, 0, 40);
    buf_make(second, MEM_DEVICE, &vector, 0, 41);
    for (int i = 0; i < 2; i++) buf_make(&in[i], MEM_DEVICE, &vector, 0, 43);
    MPI_Isend(first->origin, COUNT, vector.type, peer, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(second->origin, COUNT, vector.type, peer, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Start(&r[1]);
    for (int i = 0; i < 2; i++) MPI_Request_free(&r[i]);
    for (int i = 0; i < 2; i++) {
        expect(r[i] == MPI_REQUEST_NULL, "a freed request stays set");
        MPI_Recv(in[i].origin, COUNT, vector.type, peer, 1 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&in[i], &vector, &vector, 40 + (uint64_t)i);
        buf_check(&in[i], "sent by a freed request");
    }
    report("requests that are freed and left to MPI_Finalize");
}

/* In MPI_Finalize, after which the program makes no call. */
static int cancel_last(MPI_Comm comm, int key, void *buffer, void *extra)
{
    MPI_Request r;
    (void)comm, (void)key, (void)extra;
    for (int i = 0; i < 3; i++) {
        MPI_Irecv(buffer, COUNT, vector.type, peer, 9, MPI_COMM_WORLD, &r);
        MPI_Cancel(&r);
        MPI_Request_free(&r);
    }
    return MPI_SUCCESS;
}

static void cancelled_at_the_end(struct buf *in)
{
    int key;
    buf_make(in, MEM_DEVICE, &vector, 0, 44);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, cancel_last, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, in->origin);
    MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv)
{
    static struct buf pending[5];   /* theirs until the end of the process */
    int provided;
    outside(0, 0);
    /* Ended before MPI_Finalize, not before MPI_Init: MPICH 4.0 can't be started after that, and Open MPI 4.1 crashes
     * where it ends last. */
    outside_errors += MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS;
    check_start(&argc, &argv, -1);
    expect_equal(outside_errors, 0, "wrong answers before MPI_Init");
    report("calls before MPI_Init");
    peer = my_rank ^ 1;
    layout_number(&vector, 1, COUNT);
    handlers();
    empty();
    mixed();
    attributes();
    forked();
    free_pending(&pending[0], &pending[1], &pending[2]);
    for (int i = 2; i < 4; i++) buf_free(&pending[i]);
    cancelled_at_the_end(&pending[4]);
    expect(MPI_T_finalize() == MPI_SUCCESS, "MPI_T_finalize fails");
    report("MPI_T from before MPI_Init on");
    int failed = check_finish();
    outside_errors = 0;
    outside(1, 1);
    if (outside_errors) printf("not ok calls after MPI_Finalize\n");
    return failed || outside_errors;
}
