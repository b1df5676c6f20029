/* fatal.c: a job that is to end in the middle of messages of device buffers ends, on all ranks and soon: by
 * MPI_Abort, and by errors of the MPI's and of stridec's where nobody has set an error handler. Every run has one
 * way to end; the other rank waits for a message that nobody sends.
 *
 * run: -n 2 abort => ends 7
 * run: -n 2 receive => ends
 * run: -n 2 wait => ends
 * run: -n 2 waitall => ends
 * run: -n 2 collective => ends
 * run: -n 2 pack => ends
 * run: STRIDEC_TRANSPORT=staged -n 2 receive => ends
 * run: LD_PRELOAD=@VOTE -n 2 vote => ends 9
 * run: -n 2 stream => ends
 * run: -n 2 stream graph => ends
 * run: -n 2 stream exit => ends
 * run: -n 2 stream graph exit => ends
 */
#include "../../runtime/api/stridec.h"
#include "check.h"
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 3

static struct layout vector;
static struct buf out, in;

static void by_abort(void)
{
    MPI_Abort(MPI_COMM_WORLD, 7);
}

/* To the own rank, so that the other can wait. */
static void send_too_much(void)
{
    static MPI_Request r;
    MPI_Isend(out.origin, COUNT, vector.type, my_rank, 1, MPI_COMM_WORLD, &r);
}

static void by_receive(void)
{
    send_too_much();
    MPI_Recv(in.origin, 1, vector.type, my_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_wait(void)
{
    MPI_Request r;
    MPI_Irecv(in.origin, 1, vector.type, my_rank, 1, MPI_COMM_WORLD, &r);
    send_too_much();
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void by_waitall(void)
{
    MPI_Request r[2];
    MPI_Irecv(in.origin, 1, vector.type, my_rank, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(in.origin, 1, vector.type, my_rank, 2, MPI_COMM_WORLD, &r[1]);
    send_too_much();
    MPI_Send(out.origin, 0, vector.type, my_rank, 2, MPI_COMM_WORLD);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void by_collective(void)
{
    MPI_Allgather(out.origin, 1, MPI_DATATYPE_NULL, in.origin, 1, vector.type, MPI_COMM_WORLD);
}

/* An error of stridec's, which the MPI does not know of. */
static void by_pack(void)
{
    char small[8];
    int position = 0;
    MPI_Pack(out.origin, COUNT, vector.type, small, sizeof small, &position, MPI_COMM_WORLD);
    if (host_mode) MPI_Abort(MPI_COMM_WORLD, 1);   /* MPICH has no such check */
}

static const struct {
    const char *name;
    void (*end)(void);
} ways[] = {{"abort", by_abort},     {"receive", by_receive},       {"wait", by_wait},
            {"waitall", by_waitall}, {"collective", by_collective}, {"pack", by_pack}};

static void aborted(int number)
{
    (void)number;
    _exit(9);
}

/* A vote of the ranks fails on rank 1 alone: it ends the job, since the other rank may wait for it from here on. */
static void vote(void)
{
    MPI_Comm comm;
    int *fails = dlsym(RTLD_DEFAULT, "vote_fails");
    signal(SIGABRT, aborted);
    *fails = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
}

/* A message each way in stream order. */
static void exchange(MPI_Request request[2], cudaStream_t s)
{
    int started = stridec_start_on(2, request, s), waited = stridec_wait_on(2, request, s);
    expect(started == STRIDEC_OK && waited == STRIDEC_OK, "a message in stream order: %d, %d", started, waited);
}

/* Rank 0 ends while the streams of both wait for a message of the other's: `by_exit`, with all that a process does at
 * its end. */
static void stream(bool graph, bool by_exit)
{
    MPI_Request r[2];
    cudaStream_t s;
    cudaGraph_t captured;
    cudaGraphExec_t ready;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    MPI_Recv_init(in.origin, COUNT, vector.type, my_rank ^ 1, 3, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(out.origin, COUNT, vector.type, my_rank ^ 1, 3, MPI_COMM_WORLD, &r[1]);
    exchange(r, s);
    cudaStreamSynchronize(s);
    if (graph) {
        cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        exchange(r, s);
        cudaStreamEndCapture(s, &captured);
        expect(cudaGraphInstantiateWithFlags(&ready, captured, 0) == cudaSuccess, "a graph");
        cudaGraphLaunch(ready, s), cudaStreamSynchronize(s);
    }
    report("messages in stream order");
    /* Rank 0 sends none, and receives one that is sent, and one that is not. */
    for (int i = 0; i < 2 && my_rank == 0; i++) stridec_start_on(1, r, s), stridec_wait_on(1, r, s);
    if (my_rank == 1 && !graph) exchange(r, s);
    if (my_rank == 1 && graph) cudaGraphLaunch(ready, s);
    if (my_rank == 0 && by_exit) exit(7);
    if (my_rank == 0) MPI_Abort(MPI_COMM_WORLD, 7);
    cudaStreamSynchronize(s);
}

int main(int argc, char **argv)
{
    struct buf waiting;
    MPI_Request r;
    bool graph = false, exits = false;
    check_start(&argc, &argv, -1);
    layout_number(&vector, 1, COUNT);
    buf_make(&out, MEM_DEVICE, &vector, 0, 1);
    buf_make(&in, MEM_DEVICE, &vector, 0, 2);
    buf_make(&waiting, MEM_DEVICE, &vector, 0, 3);
    MPI_Irecv(waiting.origin, COUNT, vector.type, my_rank ^ 1, 9, MPI_COMM_WORLD, &r);
    report("messages are under way");
    bool votes = argc > 1 && !strcmp(argv[argc - 1], "vote");
    if (votes) vote();
    for (int a = 1; a < argc; a++) graph |= !strcmp(argv[a], "graph"), exits |= !strcmp(argv[a], "exit");
    if (argc > 1 && !strcmp(argv[1], "stream")) stream(graph, exits);
    for (size_t i = 0; i < sizeof ways / sizeof *ways && my_rank == 0; i++)
        for (int a = 1; a < argc; a++)
            if (!strcmp(argv[a], ways[i].name)) ways[i].end();
    if (my_rank == !votes) MPI_Wait(&r, MPI_STATUS_IGNORE);
    printf("not ok the job goes on\n");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 125);
}
