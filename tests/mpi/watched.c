/* watched.c: receives in host memory by types that stridec leaves to the MPI (long runs): what comes is an offer all the
 * same where the sender's type has short ones. By every call that completes them, with the type freed before, many at once,
 * and such as are too short. Every byte is compared.
 *
 * usage: watched [ordinary]: nothing is offered
 *
 * run: STRIDEC_HOST=on -n 2
 * run: STRIDEC_HOST=off -n 2 --host ordinary
 */
#include "check.h"
#include <dlfcn.h>
#include <string.h>

enum { TAG = 3, AT_ONCE = 40, TURNS = 3, THREADS = 3, BYTES = 64 << 10 };
enum way { RECV, SENDRECV, REPLACED, WAIT, TEST, WAITANY, TESTANY, WAITSOME, TESTSOME, STATUS, WAYS };
static const char *const names[WAYS] = {"Recv",    "Sendrecv", "Sendrecv_replace", "Wait",     "Test",
                                        "Waitany", "Testany",  "Waitsome",         "Testsome", "Request_get_status"};

static struct layout cells, rows, fewer;   /* the same bytes in short and in long runs; too few of them */
static int peer;
static long (*offers)(int in_place);
static bool ordinary;

static void complete(enum way way, MPI_Request *r, MPI_Status *s)
{
    int done = 0, at = 0;
    if (way == WAIT) MPI_Wait(r, s);
    if (way == WAITANY) MPI_Waitany(1, r, &at, s);
    if (way == WAITSOME) MPI_Waitsome(1, r, &done, &at, s);
    while (way == STATUS && !done) MPI_Request_get_status(*r, &done, s);
    if (way == STATUS) MPI_Wait(r, s);
    while (way == TEST && !done) MPI_Test(r, &done, s);
    while (way == TESTANY && !done) MPI_Testany(1, r, &at, &done, s);
    while (way == TESTSOME && !done) MPI_Testsome(1, r, &done, &at, s);
}

/* Others are made where a freed one was. */
static void free_type(MPI_Datatype type)
{
    MPI_Datatype other[4];
    MPI_Type_free(&type);
    for (int i = 0; i < 4; i++) MPI_Type_vector(3, 5, 7 + i, MPI_BYTE, &other[i]), MPI_Type_commit(&other[i]);
    for (int i = 0; i < 4; i++) MPI_Type_free(&other[i]);
}

/* Of `type`, which is freed before a request is completed where `frees`. */
static void receive(enum way way, void *to, MPI_Datatype type, bool frees, MPI_Comm comm, MPI_Status *s)
{
    MPI_Request r;
    if (way == RECV) MPI_Recv(to, rows.count, type, peer, TAG, comm, s);
    else if (way == SENDRECV)
        MPI_Sendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, TAG, to, rows.count, type, peer, TAG, comm, s);
    else if (way == REPLACED) MPI_Sendrecv_replace(to, rows.count, type, MPI_PROC_NULL, TAG, peer, TAG, comm, s);
    else {
        MPI_Irecv(to, rows.count, type, peer, TAG, comm, &r);
        if (frees) free_type(type);
        complete(way, &r, s);
        return;
    }
    if (frees) free_type(type);
}

/* From rank 0 to rank 1, the type known to stridec from the second message on. */
static void each(enum way way, bool frees, MPI_Comm comm)
{
    MPI_Datatype type;
    MPI_Type_dup(rows.type, &type);
    for (int turn = 0; turn < TURNS; turn++) {
        struct buf out, in;
        MPI_Status s;
        int n = -1;
        buf_make(&out, MEM_HOST, &cells, turn, 10 + (uint64_t)turn);
        buf_make(&in, MEM_HOST, &rows, 0, 20);
        if (my_rank == 0) MPI_Send(out.origin, cells.count, cells.type, peer, TAG, comm);
        else {
            receive(way, in.origin, type, frees && turn + 1 == TURNS, comm, &s);
            buf_expect_from(&in, &rows, &cells, 10 + (uint64_t)turn);
            MPI_Get_elements(&s, MPI_BYTE, &n);
            expect_equal(n, cells.bytes, "the bytes received");
            expect_equal(s.MPI_SOURCE, peer, "the source");
        }
        buf_check(&in, names[way]);
        buf_free(&out), buf_free(&in);
    }
    if (!frees || my_rank == 0) MPI_Type_free(&type);
}

static void all_ways(void)
{
    for (int way = 0; way < WAYS; way++) {
        each((enum way)way, false, MPI_COMM_WORLD);
        each((enum way)way, true, MPI_COMM_WORLD);
        report("%s", names[way]);
    }
}

/* More than one call takes to its stack, every fifth of them too short; both ranks send. */
static void at_once(int n)
{
    MPI_Request r[2 * AT_ONCE];
    MPI_Status s[2 * AT_ONCE];
    struct buf out, in[AT_ONCE];
    bool fail_some = n > 4;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    buf_make(&out, MEM_HOST, &cells, 0, 5);
    for (int i = 0; i < n; i++) {
        const struct layout *l = i % 5 == 4 ? &fewer : &rows;
        buf_make(&in[i], MEM_HOST, l, 0, 30 + (uint64_t)i);
        MPI_Irecv(in[i].origin, l->count, l->type, peer, TAG + i, MPI_COMM_WORLD, &r[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) MPI_Isend(out.origin, cells.count, cells.type, peer, TAG + i, MPI_COMM_WORLD, &r[n + i]);
    int class = error_class(MPI_Waitall(2 * n, r, s));
    expect(class == (fail_some ? MPI_ERR_IN_STATUS : MPI_SUCCESS), "Waitall gives %s", error_name(class));
    for (int i = 0; i < n; i++) {
        const struct layout *l = i % 5 == 4 ? &fewer : &rows;
        int error = fail_some ? error_class(s[i].MPI_ERROR) : MPI_SUCCESS;
        for (int tries = 0; error == MPI_ERR_PENDING && tries < 1; tries++) error = error_class(MPI_Wait(&r[i], &s[i]));
        expect(error == (l == &fewer ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "receive %d: %s", i, error_name(error));
        if (l == &rows) buf_expect_from(&in[i], l, &cells, 5), buf_check(&in[i], "one of many");
        buf_free(&in[i]);
    }
    for (int i = n; i < 2 * n; i++)
        if (r[i] != MPI_REQUEST_NULL) MPI_Wait(&r[i], MPI_STATUS_IGNORE);
    buf_free(&out);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    report("%d at once", n);
}

static void *one_thread(void *comm)
{
    for (int i = 0; i < 3 * WAYS; i++) each((enum way)(i % WAYS), i % 2, *(MPI_Comm *)comm);
    return NULL;
}

/* That there were offers: nothing above would have shown it. */
static void took_the_way(void)
{
    long sent = offers ? offers(0) + offers(1) : 0;
    if (!offers) {
        note("stridec is not there");
        return;
    }
    expect(my_rank || (ordinary ? !sent : sent > 2 * WAYS * TURNS), "%ld messages were offered", sent);
    report("they went the way that they should");
}

int main(int argc, char **argv)
{
    MPI_Datatype type;
    for (int i = 1; i < argc; i++) ordinary |= !strcmp(argv[i], "ordinary");
    int level = check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    peer = 1 - my_rank;
    MPI_Type_vector(BYTES / 8, 8, 16, MPI_BYTE, &type);
    type_commit(&type), layout_of(&cells, type, 1, "runs of 8 B");
    MPI_Type_vector(BYTES / 2048, 2048, 3000, MPI_BYTE, &type);
    type_commit(&type), layout_of(&rows, type, 1, "runs of 2 KiB");
    MPI_Type_vector(BYTES / 4096, 2048, 3000, MPI_BYTE, &type);
    type_commit(&type), layout_of(&fewer, type, 1, "half as many runs of 2 KiB");
    all_ways();
    at_once(4), at_once(15), at_once(AT_ONCE);
    if (level == MPI_THREAD_MULTIPLE) {
        in_threads(THREADS, one_thread);
        report("threads");
    }
    took_the_way();
    layout_free(&cells), layout_free(&rows), layout_free(&fewer);
    return check_finish();
}
