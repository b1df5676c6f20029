/* progress.c: a send that waits for its receiver goes zero-copy, and the MPI has nothing to do for it. Each call that
 * looks at it lets the MPI make progress all the same: the receiver may wait first for another message of this rank.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 threads
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: -n 2 --host
 */
#include "check.h"
#include <string.h>

#define DOUBLES 8192            /* every second one of a vector: 64 KiB */
#define LONG (1 << 20)          /* bytes of a message whose sender the MPI needs twice */
enum { FIRST = 1, SECOND };     /* tags */
enum { NEVER_STARTED, WAITS, REQUESTS };

typedef bool is_over(MPI_Request requests[]);

static bool by_test(MPI_Request r[])
{
    int over;
    MPI_Test(&r[WAITS], &over, MPI_STATUS_IGNORE);
    return over;
}

static bool by_testall(MPI_Request r[])
{
    int over;
    MPI_Testall(REQUESTS, r, &over, MPI_STATUSES_IGNORE);
    return over;
}

static bool by_testany(MPI_Request r[])
{
    int over, which;
    MPI_Testany(REQUESTS, r, &which, &over, MPI_STATUS_IGNORE);
    return over;
}

static bool by_testsome(MPI_Request r[])
{
    int n, which[REQUESTS];
    MPI_Testsome(REQUESTS, r, &n, which, MPI_STATUSES_IGNORE);
    return n;
}

static bool by_status(MPI_Request r[])
{
    int over;
    MPI_Request_get_status(r[WAITS], &over, MPI_STATUS_IGNORE);
    return over;
}

static bool by_wait(MPI_Request r[])
{
    return MPI_Wait(&r[WAITS], MPI_STATUS_IGNORE), true;
}

static bool by_waitall(MPI_Request r[])
{
    return MPI_Waitall(REQUESTS, r, MPI_STATUSES_IGNORE), true;
}

static bool by_waitany(MPI_Request r[])
{
    int which;
    return MPI_Waitany(REQUESTS, r, &which, MPI_STATUS_IGNORE), true;
}

static bool by_waitsome(MPI_Request r[])
{
    int n, which[REQUESTS];
    return MPI_Waitsome(REQUESTS, r, &n, which, MPI_STATUSES_IGNORE), true;
}

static const struct {
    const char *name;
    is_over *over;
} calls[] = {
    {"MPI_Test", by_test}, {"MPI_Testall", by_testall}, {"MPI_Testany", by_testany}, {"MPI_Testsome", by_testsome},
    {"MPI_Request_get_status", by_status}, {"MPI_Wait", by_wait}, {"MPI_Waitall", by_waitall},
    {"MPI_Waitany", by_waitany}, {"MPI_Waitsome", by_waitsome},
};

/* The first message is freed at once; the second one waits until the receiver has the first. */
static void send(const struct buf *first, const struct buf *second, MPI_Datatype type, is_over *over)
{
    MPI_Request freed, r[REQUESTS] = {[WAITS] = MPI_REQUEST_NULL};
    MPI_Send_init(NULL, 0, MPI_BYTE, 1, FIRST, check_comm, &r[NEVER_STARTED]);
    MPI_Isend(first->origin, LONG, MPI_BYTE, 1, FIRST, check_comm, &freed);
    MPI_Request_free(&freed);
    MPI_Issend(second->origin, 1, type, 1, SECOND, check_comm, &r[WAITS]);
    while (!over(r));
    MPI_Wait(&r[WAITS], MPI_STATUS_IGNORE);   /* after MPI_Request_get_status */
    MPI_Request_free(&r[NEVER_STARTED]);
}

/* Finds the second message before it receives the first. */
static void receive(struct buf *first, struct buf *second, const struct layout *bytes, const struct layout *l,
                    const char *call)
{
    MPI_Probe(0, SECOND, check_comm, MPI_STATUS_IGNORE);
    MPI_Recv(first->origin, LONG, MPI_BYTE, 0, FIRST, check_comm, MPI_STATUS_IGNORE);
    MPI_Recv(second->origin, 1, l->type, 0, SECOND, check_comm, MPI_STATUS_IGNORE);
    buf_expect_from(first, bytes, bytes, 1);
    buf_expect_from(second, l, l, 2);
    expect(buf_check(first, "the first") && buf_check(second, "the second"), "%s", call);
}

int main(int argc, char **argv)
{
    bool threads = argc > 1 && !strcmp(argv[1], "threads");
    struct layout bytes, every_second;
    struct buf first, second;
    MPI_Datatype vector;
    check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Type_vector(DOUBLES, 1, 2, MPI_DOUBLE, &vector), type_commit(&vector);
    layout_of(&every_second, vector, 1, "every second double");
    layout_of(&bytes, MPI_BYTE, LONG, "bytes");
    buf_make(&first, MEM_HOST, &bytes, 0, 1);
    buf_make(&second, MEM_DEVICE, &every_second, 0, 2);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        buf_fill(&first, my_rank ? 101 : 1), buf_fill(&second, my_rank ? 102 : 2);
        if (my_rank == 0) send(&first, &second, vector, calls[i].over);
        else receive(&first, &second, &bytes, &every_second, calls[i].name);
        MPI_Barrier(check_comm);
        report("%s", calls[i].name);
    }
    buf_free(&first), buf_free(&second);
    layout_free(&bytes), layout_free(&every_second);
    return check_finish();
}
