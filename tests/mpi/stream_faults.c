/* stream_faults.c: messages in stream order whose graph, stream or communicator goes while they are under way, and
 * those that begin with a rank that ends. "killed": rank 1 ends before the partners are bound; fatal.c has those that
 * are. "unmoved": no kernel can be launched, so that the first message is not moved.
 *
 * run: STRIDEC_STATS=json:/dev/null -n 2
 * run: SIMGPU_EAGER=1 -n 3
 * run: -n 1
 * run: -n 2 gpus
 * run: SIMGPU_FAIL=cuLaunchKernel,cuLaunchKernelEx,cuGraphLaunch -n 2 unmoved
 * run: OMPI_MCA_orte_enable_recovery=1 -n 2 killed
 */
#include "../../runtime/api/stridec.h"
#include "check.h"
#include "persistent.h"
#include "ring.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 30
#define STEPS 3
#ifdef OPEN_MPI
#define SURVIVES 1   /* a job may be told to go on without one of its ranks */
#else
#define SURVIVES 0
#endif

static cudaStream_t stream;

static void exchange_on(struct ring *r, cudaStream_t s, const char *what)
{
    ring_copy(r, s);
    expect_equal(stridec_start_on(2, r->request, s), STRIDEC_OK, what);
    expect_equal(stridec_wait_on(2, r->request, s), STRIDEC_OK, what);
}
static void exchange(void *of)
{
    exchange_on(of, stream, "an exchange");
}

static void steps(struct ring *r, const char *what)
{
    for (int i = 0; i < STEPS; i++) {
        ring_fill(r), exchange(r);
        cudaStreamSynchronize(stream);
        ring_check(r, 1, what);
    }
}

/* ---- graphs, streams and communicators that go ---- */

/* The graph and the communicator of a message go while it is under way; other messages of the requests follow. */
static void graph_goes(void)
{
    struct ring r;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    ring_make(&r, 1, 2, COUNT, 3, comm);
    steps(&r, "before a graph");
    cudaGraphExec_t ready = ring_graph(stream, exchange, &r);
    ring_fill(&r);
    cudaGraphLaunch(ready, stream);
    cudaGraphExecDestroy(ready);
    MPI_Comm_free(&comm);
    cudaStreamSynchronize(stream);
    ring_check(&r, 1, "a graph and a communicator that are gone");

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);   /* maybe of the same handle: its messages are others */
    struct ring fresh;
    ring_make(&fresh, 2, 1, COUNT, 3, comm);
    steps(&r, "without the communicator"), steps(&fresh, "of a new communicator");
    ready = ring_graph(stream, exchange, &r);
    for (int i = 0; i < STEPS; i++) {
        ring_fill(&r), cudaGraphLaunch(ready, stream), cudaStreamSynchronize(stream);
        ring_check(&r, 1, "a graph without the communicator");
    }
    ring_free(&r);   /* before its graph */
    cudaGraphExecDestroy(ready);
    steps(&fresh, "after others were freed");
    ring_free(&fresh);
    MPI_Comm_free(&comm);
}

/* Each message has a stream of its own, which goes while the message is under way. */
static void streams_go(void)
{
    struct ring r;
    ring_make(&r, 2, 3, COUNT, 4, MPI_COMM_WORLD);
    steps(&r, "before other streams");
    for (int i = 0; i < STEPS; i++) {
        cudaStream_t one;
        ring_fill(&r);
        cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
        exchange_on(&r, one, "an exchange of a stream that goes");
        cudaStreamDestroy(one);
        cudaDeviceSynchronize();
        ring_check(&r, 1, "a stream that is gone");
    }
    for (int i = 0; i < STEPS; i++) {
        cudaStream_t one;
        ring_fill(&r);
        cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
        ring_copy(&r, one);
        expect_equal(stridec_start_on(2, r.request, one), STRIDEC_OK, "a start on a stream that goes");
        cudaStreamDestroy(one);
        expect_equal(stridec_wait_on(2, r.request, stream), STRIDEC_OK, "a wait on another stream");
        cudaDeviceSynchronize();
        ring_check(&r, 1, "a stream that is gone between start and wait");
    }
    ring_free(&r);
}

/* ---- collectives ---- */

static void collective_make(struct ring *r, MPI_Comm comm)
{
    layout_number(&r->sent, 1, COUNT), layout_number(&r->received, 1, COUNT);
    buf_make(&r->source, MEM_DEVICE, &r->sent, 0, 1), buf_make(&r->out, MEM_DEVICE, &r->sent, 0, 2);
    buf_make(&r->in, MEM_DEVICE, &r->received, 0, 3);
    r->salt = 7000, r->request[0] = r->request[1] = MPI_REQUEST_NULL;
    PERSISTENT_INIT(Neighbor_allgather, &r->request[0], r->out.origin, COUNT, r->sent.type, r->in.origin, COUNT,
                    r->received.type, comm);
}

static MPI_Comm one_way(void)
{
    MPI_Comm comm;
    int from = ring_before(), to = ring_after(), weight = 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, &weight, 1, &to, &weight, MPI_INFO_NULL, 0, &comm);
    return comm;
}

/* The communicator goes before the first start, or behind the first steps (`late`), and with a graph under way. */
static void collective_goes(bool late)
{
    struct ring r;
    MPI_Comm comm = one_way();
    collective_make(&r, comm);
    if (!late) MPI_Comm_free(&comm);
    steps(&r, "a collective");
    cudaGraphExec_t ready = ring_graph(stream, exchange, &r);
    ring_fill(&r);
    cudaGraphLaunch(ready, stream);
    cudaGraphExecDestroy(ready);
    if (late) MPI_Comm_free(&comm);
    cudaStreamSynchronize(stream);
    ring_check(&r, 1, "a collective whose graph is gone");
    steps(&r, "a collective without the communicator");
    ring_free(&r);
}

/* ---- a first message that can't be moved ---- */

/* The receive fails; the stream of the send goes on. */
static void unmoved(void)
{
    struct ring r;
    ring_make(&r, 1, 2, COUNT, 3, MPI_COMM_WORLD);
    int started = stridec_start_on(2, r.request, stream);
    int received = stridec_wait_on(1, &r.request[0], stream), sent = stridec_wait_on(1, &r.request[1], stream);
    expect_equal(started, STRIDEC_OK, "the start");
    expect_equal(received, STRIDEC_FAILED, "the receive");
    expect_equal(sent, STRIDEC_OK, "the send");
    expect_equal(cudaStreamSynchronize(stream), cudaSuccess, "the stream");
    ring_free(&r);
}

/* ---- a rank that ends before its partner has bound ---- */

/* Starts messages that rank 1 never takes part in: the second receive waits for the first. */
static void begin(MPI_Request request[4], struct ring *r)
{
    MPI_Recv_init(r->in.origin, COUNT, r->received.type, 1, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Recv_init(r->in.origin, COUNT, r->received.type, 1, 3, MPI_COMM_WORLD, &request[1]);
    MPI_Send_init(r->out.origin, COUNT, r->sent.type, 1, 4, MPI_COMM_WORLD, &request[2]);
    request[3] = r->request[0];   /* a collective */
    for (int i = 0; i < 4; i++) stridec_start_on(1, &request[i], stream);
}

static int killed(void)
{
    struct ring r;
    MPI_Comm comm = one_way();
    MPI_Request request[4];
    int pid = (int)getpid(), failed = 0, order[] = {1, 0, 2, 3};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    collective_make(&r, comm);
    if (my_rank == 0) begin(request, &r);
    if (my_rank == 1) {
        MPI_Send(&pid, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    MPI_Recv(&pid, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!kill(pid, 0) || errno != ESRCH) {}
    for (int i = 0; i < 4; i++) {
        bool found = request[order[i]] == MPI_REQUEST_NULL ||
                     stridec_wait_on(1, &request[order[i]], stream) == STRIDEC_FAILED;
        printf("%s a wait for a rank that has ended, %d\n", found ? "ok" : "not ok", order[i]);
        failed += !found;
    }
    printf("# %d passed, %d failed\n", 4 - failed, failed);
    fflush(stdout);
    _exit(failed != 0);   /* the MPI would wait for the other rank */
}

int main(int argc, char **argv)
{
    bool gpus = false, kills = false, unmoves = false;
    for (int i = 1; i < argc; i++)
        gpus |= !strcmp(argv[i], "gpus"), kills |= !strcmp(argv[i], "killed"), unmoves |= !strcmp(argv[i], "unmoved");
    check_start(&argc, &argv, -1);
    if (gpus) cudaSetDevice(my_rank);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    MPI_Barrier(MPI_COMM_WORLD);   /* from here on collectives may go zero-copy */
    if (kills && SURVIVES) return killed();
    if (unmoves) {
        unmoved();
        report("a first message that can't be moved");
        return check_finish();
    }
    graph_goes();
    report("graphs and communicators that go");
    streams_go();
    report("streams that go");
    for (int late = 0; HAVE_PERSISTENT && late < 2; late++) collective_goes(late);
    report("collectives whose communicator goes");
    cudaStreamDestroy(stream);
    return check_finish();
}
