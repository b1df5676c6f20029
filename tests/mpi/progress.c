/* progress.c: a send that waits for its receiver goes zero-copy, and the MPI has nothing to do for it. Each call that
 * looks at it lets the MPI make progress all the same: the receiver may wait first for another message of this rank.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 threads
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: -n 2 --host
 */
#include "check.h"
#include "ends.h"
#include <string.h>

#define DOUBLES 8192            /* every second one of a vector: 64 KiB */
#define LONG (1 << 20)          /* bytes of a message whose sender the MPI needs twice */
enum { FIRST = 1, SECOND };     /* tags */

/* Ways beside those of end_all. */
enum { TESTANY = END_WAYS, GET_STATUS, WAYS };
static const char *const calls[WAYS] = {"MPI_Waitall", "MPI_Testall", "MPI_Waitany", "MPI_Waitsome", "MPI_Testsome",
                                        "MPI_Wait", "MPI_Test", "MPI_Wait, again", "MPI_Testany",
                                        "MPI_Request_get_status"};

static void end(int way, MPI_Request *r)
{
    int over = 0, which;
    while (way == TESTANY && !over) MPI_Testany(1, r, &which, &over, MPI_STATUS_IGNORE);
    while (way == GET_STATUS && !over) MPI_Request_get_status(*r, &over, MPI_STATUS_IGNORE);
    end_all(way < END_WAYS ? way : 0, 1, r);   /* MPI_Request_get_status frees nothing */
}

/* The first message is freed at once; the second one waits until the receiver has the first. */
static void send(const struct buf *first, const struct buf *second, MPI_Datatype type, int way)
{
    MPI_Request freed, r;
    MPI_Isend(first->origin, LONG, MPI_BYTE, 1, FIRST, check_comm, &freed);
    MPI_Request_free(&freed);
    MPI_Issend(second->origin, 1, type, 1, SECOND, check_comm, &r);
    end(way, &r);
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
    for (int way = 0; way < WAYS; way++) {
        buf_fill(&first, my_rank ? 101 : 1), buf_fill(&second, my_rank ? 102 : 2);
        if (my_rank == 0) send(&first, &second, vector, way);
        else receive(&first, &second, &bytes, &every_second, calls[way]);
        MPI_Barrier(check_comm);
        report("%s", calls[way]);
    }
    buf_free(&first), buf_free(&second);
    layout_free(&bytes), layout_free(&every_second);
    return check_finish();
}
