/* stream_order.c: persistent messages in the order of a CUDA stream (stridec_start_on, stridec_wait_on; ranks by turns
 * take both as stridec_exchange_on): what the stream wrote before is sent, what it reads later has arrived, in graphs
 * that are launched again too. "plain": where the MPI must carry them the calls say so, and the bytes are the same.
 * "absent": so they do without the library.
 * "posted": to other nodes so they do the first time; then a thread passes the packed bytes to the MPI when the stream
 * comes to them. "told": a sender leaves messages to the host, which tells the receiver of chunks. "launches N": so
 * many launches of a graph without any wait, by which each rank's data go round the ring. "gpus": a GPU for each rank,
 * so that kernels wait for each other (simulated ones only where all is in one stream). "pool", "managed": in memory
 * that no other process can open.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: -n 4
 * run: SIMGPU_EAGER=1 -n 3
 * run: -n 1
 * run: -n 3 launches 200
 * run: -n 1 launches 50
 * run: -n 2 gpus
 * run: -n 2 gpus launches 200
 * run: -n 2 pool
 * run: -n 2 gpus pool
 * run: -n 3 managed
 * run: -n 2 gpus pool launches 200
 * run: SIMGPU_CARD=A100 -n 2 gpus
 * run: SIMGPU_DRIVER=12020 -n 2 gpus
 * run: SIMGPU_FAIL=cuLaunchKernelEx -n 2 gpus
 * run: SIMGPU_MEM_OPS=0 -n 2 plain
 * run: NODES=2 SIMGPU_MEM_OPS=0 -n 2 plain
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2
 * run: STRIDEC_DISABLE=1 -n 2 --host plain absent
 * run: -n 2 --host plain
 * run: NODES=2 -n 2 posted
 * run: NODES=2 -n 3 posted
 * run: NODES=2 -n 3 posted launches 100
 * run: NODES=2 STRIDEC_CHUNKS=least=4096,chunk=5000 -n 2 posted told
 * run: NODES=2 SIMGPU_HOLD=1 STRIDEC_CACHE_DIR=@NEW -n 2 posted
 * run: NODES=2 SIMGPU_EAGER=1 -n 2 posted
 * run: NODES=2 -n 4 posted
 */
#include "../../runtime/api/stridec.h"
#include "check.h"
#include "resources.h"
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 30
#define LONG 3000
#define RECEIVED 5   /* of the layouts: elements of the others overlap */
#define STEPS 4
#define LAUNCHES 20

static bool plain, absent, posted, chunks;
static enum mem_kind memory = MEM_DEVICE;
static cudaStream_t stream;
static uint64_t salt = 100;
static int count = COUNT;

/* A message to the next rank and one from the rank before, of two layouts. `source` is what a step sends. */
struct ring {
    struct layout sent, received;
    struct buf source, out, in;
    MPI_Request request[2];   /* the receive, the send */
};

static enum mem_kind kind(void)
{
    return host_mode ? MEM_HOST : memory;
}

static int after(void)
{
    return (my_rank + 1) % num_ranks;
}
static int before(void)
{
    return (my_rank + num_ranks - 1) % num_ranks;
}

static void ring_make(struct ring *r, int sent, int received, int tag)
{
    layout_number(&r->sent, sent, count), layout_number(&r->received, received, count);
    buf_make(&r->source, kind(), &r->sent, 0, 1), buf_make(&r->out, kind(), &r->sent, 0, 2);
    buf_make(&r->in, kind(), &r->received, 0, 3);
    MPI_Recv_init(r->in.origin, count, r->received.type, before(), tag, MPI_COMM_WORLD, &r->request[0]);
    MPI_Send_init(r->out.origin, count, r->sent.type, after(), tag, MPI_COMM_WORLD, &r->request[1]);
}

static void ring_free(struct ring *r)
{
    MPI_Request_free(&r->request[0]), MPI_Request_free(&r->request[1]);
    buf_free(&r->source), buf_free(&r->out), buf_free(&r->in);
    layout_free(&r->sent), layout_free(&r->received);
}

/* The data of the next step, which the stream copies to what is sent. */
static void ring_fill(struct ring *r)
{
    salt += (uint64_t)num_ranks;
    buf_fill(&r->source, salt + (uint64_t)my_rank);
}
static void ring_copy(struct ring *r)
{
    if (host_mode) memcpy(r->out.base, r->source.base, r->out.bytes);
    else cudaMemcpyAsync(r->out.base, r->source.base, r->out.bytes, cudaMemcpyDeviceToDevice, stream);
}
static void ring_check(struct ring *r, const char *what)
{
    if (!host_mode) cudaStreamSynchronize(stream);
    buf_expect_from(&r->in, &r->received, &r->sent, salt + (uint64_t)before());
    buf_check(&r->in, what);
}

static void expect_result(int got, int want, const char *what)
{
    expect(got == want, "%s returns %d, not %d", what, got, want);
}
/* To other nodes the first messages are the host's. */
static void expect_served(int got, int step, const char *what)
{
    if (!posted || step || got != STRIDEC_HOST) expect_result(got, plain ? STRIDEC_HOST : STRIDEC_OK, what);
}

/* The first start does not know yet whether the MPI carries a message. */
static void exchange(struct ring *r, int step)
{
    if ((step + my_rank) % 3 == 1) {
        expect_served(stridec_exchange_on(2, r->request, stream), step, "stridec_exchange_on");
        return;
    }
    int started = stridec_start_on(2, r->request, stream);
    if (step) expect_served(started, step, "stridec_start_on");
    expect_served(stridec_wait_on(2, r->request, stream), step, "stridec_wait_on");
}

static void steps(int sent, int received)
{
    struct ring r;
    ring_make(&r, sent, received, 7);
    for (int i = 0; i < STEPS; i++) {
        ring_fill(&r), ring_copy(&r);
        exchange(&r, i);
        ring_check(&r, r.sent.text);
    }
    ring_free(&r);
}

/* Returns true if the simulated GPU and its driver let a kernel begin while the one before it ends. */
static bool begins_early(void)
{
    return CUDART_VERSION >= 12030 && !getenv("SIMGPU_DRIVER") && !getenv("SIMGPU_CARD") && !getenv("SIMGPU_FAIL");
}

/* Counts kernels: a start and a wait take two, an exchange takes one. */
static void one_kernel(void)
{
    struct resources at[3];
    struct ring r;
    ring_make(&r, 1, 1, 5);
    for (int i = 0; i < 2; i++) {
        ring_fill(&r), ring_copy(&r), exchange(&r, i);
        ring_check(&r, "before kernels are counted");
    }
    ring_fill(&r), ring_copy(&r);
    cudaStreamSynchronize(stream), MPI_Barrier(check_comm);
    resources_now(&at[0]);
    expect_result(stridec_exchange_on(2, r.request, stream), STRIDEC_OK, "stridec_exchange_on");
    ring_check(&r, "one kernel");
    resources_now(&at[1]);
    stridec_start_on(2, r.request, stream), stridec_wait_on(2, r.request, stream);
    cudaStreamSynchronize(stream);
    resources_now(&at[2]);
    if (at[0].simulated) {
        expect_equal(at[1].launches - at[0].launches, 1, "kernels of stridec_exchange_on");
        expect_equal(at[2].launches - at[1].launches, 2, "kernels of a start and a wait");
        expect_equal(at[2].early - at[0].early, begins_early() ? 3 : 0, "of these, kernels that may begin early");
    }
    ring_free(&r);
}

/* Sends and receives started and completed by calls of their own, several messages at a time, on one or two streams. */
static void apart(bool two)
{
    struct ring r[3];
    cudaStream_t other = stream;
    if (two) cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    for (int k = 0; k < 3; k++) ring_make(&r[k], k, k + 1, 8);   /* of one tag: matched in order */
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < 3; k++) ring_fill(&r[k]), ring_copy(&r[k]);
        for (int k = 0; k < 3; k++) stridec_start_on(1, &r[k].request[1], stream);
        for (int k = 0; k < 3; k++) stridec_start_on(1, &r[k].request[0], other);
        for (int k = 0; k < 3; k++) stridec_wait_on(1, &r[k].request[1], stream);
        for (int k = 0; k < 3; k++) expect_served(stridec_wait_on(1, &r[k].request[0], other), i, "stridec_wait_on");
        if (!host_mode) cudaStreamSynchronize(other);
        for (int k = 3; k--; salt -= (uint64_t)num_ranks) ring_check(&r[k], "calls of their own");
        salt += 3 * (uint64_t)num_ranks;
    }
    for (int k = 0; k < 3; k++) ring_free(&r[k]);
    if (two) cudaStreamDestroy(other);
}

/* Messages of one tag, of which some partners are bound and others are not yet, in calls that list them by turns. */
static void mixed(void)
{
    struct ring r[4];
    MPI_Request all[8];
    for (int k = 0; k < 4; k++) ring_make(&r[k], k, k + 1, 12);
    for (int k = 1; k < 4; k += 2)
        stridec_start_on(2, r[k].request, stream), stridec_wait_on(2, r[k].request, stream);
    if (!host_mode) cudaStreamSynchronize(stream);
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < 4; k++) ring_fill(&r[k]), ring_copy(&r[k]);
        for (int k = 0; k < 4; k++) all[2 * k] = r[k].request[1], all[2 * k + 1] = r[posted ? k : k ^ 1].request[0];
        stridec_start_on(8, all, stream);
        for (int k = 0; k < 4; k++) all[2 * k] = r[3 - k].request[1];   /* sends in another order than receives */
        expect_served(stridec_wait_on(8, all, stream), i, "stridec_wait_on");
        for (int k = 4; k--; salt -= (uint64_t)num_ranks) ring_check(&r[k], "by turns");
        salt += 4 * (uint64_t)num_ranks;
    }
    for (int k = 0; k < 4; k++) ring_free(&r[k]);
}

/* The graph holds the copy to what is sent and two exchanges, one behind the other. */
static void graphs(void)
{
    struct ring r[2];
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    for (int k = 0; k < 2; k++) {
        ring_make(&r[k], 1 + k, 2 - k, 9 + k);
        ring_fill(&r[k]), ring_copy(&r[k]);
    }
    cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    expect_result(stridec_start_on(2, r[0].request, stream), STRIDEC_UNABLE, "a captured first start");
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph), graph = NULL;
    for (int k = 0; k < 2; k++)
        stridec_start_on(2, r[k].request, stream), stridec_wait_on(2, r[k].request, stream);
    cudaStreamSynchronize(stream);

    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int k = 0; k < 2; k++) {
        ring_copy(&r[k]);
        exchange(&r[k], 1 + k);
    }
    cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    expect(!begun && !ended && graph, "captures end with %s, %s", cudaGetErrorName(begun), cudaGetErrorName(ended));
    cudaError_t made = graph ? cudaGraphInstantiateWithFlags(&ready, graph, 0) : cudaErrorInvalidValue;
    expect(!made, "the graph is instantiated with %s", cudaGetErrorName(made));
    for (int i = 0; i < LAUNCHES && ready; i++) {
        for (int k = 0; k < 2; k++) ring_fill(&r[k]);
        cudaGraphLaunch(ready, stream);
        cudaStreamSynchronize(stream);
        ring_check(&r[1], "a graph"), salt -= (uint64_t)num_ranks, ring_check(&r[0], "a graph");
        salt += (uint64_t)num_ranks;
    }
    for (int i = 0; i < 3 && ready; i++) cudaGraphLaunch(ready, stream);   /* three in a row, of the same data */
    if (ready) cudaGraphExecDestroy(ready);   /* in flight */
    if (graph) cudaGraphDestroy(graph);
    ring_check(&r[1], "graphs in a row");
    for (int k = 0; k < 2; k++) ring_free(&r[k]);
}

/* A message that is lost, or moved twice, leaves all data one rank behind. */
static void launches(int n)
{
    struct ring r;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    ring_make(&r, 1, 1, 6);
    ring_fill(&r), ring_copy(&r);
    stridec_start_on(2, r.request, stream), stridec_wait_on(2, r.request, stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemcpyAsync(r.out.base, r.in.base, r.out.bytes, cudaMemcpyDeviceToDevice, stream);
    exchange(&r, 1);
    cudaStreamEndCapture(stream, &graph);
    cudaError_t made = graph ? cudaGraphInstantiateWithFlags(&ready, graph, 0) : cudaErrorInvalidValue;
    expect(!made, "the graph is instantiated with %s", cudaGetErrorName(made));
    MPI_Barrier(check_comm);
    double begun = MPI_Wtime();
    for (int i = 0; i < n && ready; i++) {
        cudaGraphLaunch(ready, stream);
        if (i % 500 == 499) cudaStreamSynchronize(stream);
    }
    cudaStreamSynchronize(stream);
    note("%d launches of an exchange: %.1f us each", n, (MPI_Wtime() - begun) * 1e6 / n);
    int from = ((my_rank - 1 - n) % num_ranks + num_ranks) % num_ranks;
    buf_expect_from(&r.in, &r.received, &r.sent, salt + (uint64_t)from);
    buf_check(&r.in, "after all launches");
    if (ready) cudaGraphExecDestroy(ready);
    if (graph) cudaGraphDestroy(graph);
    ring_free(&r);
    report("%d launches", n);
}

/* Messages of host memory, which the MPI carries; and to ranks that are none. */
static void others(void)
{
    int out[4] = {my_rank, 2, 3, 4}, in[4] = {0};
    MPI_Request request[4];
    MPI_Recv_init(in, 4, MPI_INT, my_rank, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Send_init(out, 4, MPI_INT, my_rank, 3, MPI_COMM_WORLD, &request[1]);
    MPI_Send_init(out, 4, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &request[2]);
    request[3] = MPI_REQUEST_NULL;
    for (int i = 0; i < 2; i++) {
        memset(in, 0, sizeof in);
        int started = stridec_start_on(4, request, stream);
        if (i) expect_result(started, STRIDEC_HOST, "a start of the own rank's");
        expect_result(stridec_wait_on(4, request, stream), STRIDEC_HOST, "a wait for the own rank's");
        expect(!memcmp(in, out, sizeof in), "the own rank's message");
    }
    for (int i = 0; i < 3; i++) MPI_Request_free(&request[i]);
    MPI_Recv_init(in, 4, MPI_INT, before(), 4, MPI_COMM_WORLD, &request[0]);
    MPI_Send_init(out, 4, MPI_INT, after(), 4, MPI_COMM_WORLD, &request[1]);
    for (int i = 0; i < 2; i++) {
        stridec_start_on(2, request, stream);
        expect_result(stridec_wait_on(2, request, stream), STRIDEC_HOST, "a wait for host memory's");
        expect(in[0] == before() && in[3] == 4, "the message of host memory");
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&request[i]);

    /* Two of one tag, the second begun before it is known that the MPI carries the first. */
    int sent[2][4] = {{my_rank, 5, 6, 7}, {my_rank, 8, 9, 10}}, got[2][4];
    for (int k = 0; k < 2; k++) {
        MPI_Recv_init(got[k], 4, MPI_INT, before(), 4, MPI_COMM_WORLD, &request[k]);
        MPI_Send_init(sent[k], 4, MPI_INT, after(), 4, MPI_COMM_WORLD, &request[2 + k]);
    }
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) stridec_start_on(1, &request[2 + k], stream);
        for (int k = 0; k < 2; k++) {
            stridec_start_on(1, &request[k], stream);
            expect_result(stridec_wait_on(1, &request[k], stream), STRIDEC_HOST, "a wait for one of two");
        }
        stridec_wait_on(2, &request[2], stream);
        expect(got[0][0] == before() && got[0][1] == 5 && got[1][1] == 8, "two messages of a tag: %d %d", got[0][1],
               got[1][1]);
    }
    for (int i = 0; i < 4; i++) MPI_Request_free(&request[i]);
}

/* Starts, waits, and frees memory before the stream is done: that waits for the messages, and holds up all of CUDA. */
static void held(void)
{
    struct ring r;
    void *freed;
    ring_make(&r, 1, 2, 6);
    for (int i = 0; i < STEPS; i++) {
        ring_fill(&r), ring_copy(&r);
        cudaMalloc(&freed, 64);
        stridec_start_on(2, r.request, stream);
        stridec_wait_on(2, r.request, stream);
        cudaFree(freed);
        ring_check(&r, "a message while memory is freed");
    }
    ring_free(&r);
}

/* Sends that the host starts, since a message of host memory is started with them, in chunks: the thread receives. */
static void told(void)
{
    struct ring r;
    MPI_Request own[2], sends[2];
    int out = my_rank, in;
    count = LONG;
    ring_make(&r, 1, 2, 6);
    count = COUNT;
    MPI_Recv_init(&in, 1, MPI_INT, my_rank, 9, MPI_COMM_WORLD, &own[0]);
    MPI_Send_init(&out, 1, MPI_INT, my_rank, 9, MPI_COMM_WORLD, &own[1]);
    sends[0] = r.request[1], sends[1] = own[1];
    for (int i = 0; i < STEPS; i++) {
        ring_fill(&r), ring_copy(&r);
        expect_served(stridec_start_on(1, &r.request[0], stream), i, "a start of a receive");
        MPI_Start(&own[0]);
        expect_result(stridec_start_on(2, sends, stream), STRIDEC_HOST, "a start with host memory");
        expect_served(stridec_wait_on(1, &r.request[0], stream), i, "a wait for a receive");
        expect_result(stridec_wait_on(2, sends, stream), STRIDEC_HOST, "a wait with host memory");
        MPI_Wait(&own[0], MPI_STATUS_IGNORE);
        ring_check(&r, "a message in chunks");
    }
    MPI_Request_free(&own[0]), MPI_Request_free(&own[1]);
    ring_free(&r);
}

/* Another message than the first ones of a request comes to a posted receive: a later call says so. */
static void resized(void)
{
    struct ring r;
    MPI_Request fewer;
    int said = STRIDEC_OK;
    ring_make(&r, 1, 2, 6);
    MPI_Send_init(r.out.origin, COUNT - 1, r.sent.type, after(), 6, MPI_COMM_WORLD, &fewer);
    for (int i = 0; i < 3; i++) {
        MPI_Request *send = i < 2 ? &r.request[1] : &fewer;
        ring_fill(&r), ring_copy(&r);
        stridec_start_on(1, &r.request[0], stream), stridec_start_on(1, send, stream);
        said = stridec_wait_on(1, &r.request[0], stream);
        stridec_wait_on(1, send, stream);
    }
    cudaStreamSynchronize(stream);
    if (said != STRIDEC_FAILED) said = stridec_start_on(1, &r.request[0], stream);
    expect_result(said, STRIDEC_FAILED, "a wait for a shorter message, or the next start");
    MPI_Request_free(&fewer);
    ring_free(&r);
}

/* A stream of another device than the requests' is refused, and they can still be started. */
static void elsewhere(struct ring *r)
{
    int devices = 0, here = 0;
    cudaStream_t away;
    cudaGetDeviceCount(&devices), cudaGetDevice(&here);
    if (devices < 2) return;
    cudaSetDevice((here + 1) % devices);
    cudaStreamCreateWithFlags(&away, cudaStreamNonBlocking);
    cudaSetDevice(here);
    expect_result(stridec_start_on(2, r->request, away), STRIDEC_INVALID, "a start on another device's stream");
    expect_result(stridec_start_on(2, r->request, stream), STRIDEC_OK, "a start after it");
    expect_result(stridec_wait_on(2, r->request, away), STRIDEC_INVALID, "a wait on another device's stream");
    expect_result(stridec_wait_on(2, r->request, stream), STRIDEC_OK, "a wait after it");
    cudaStreamDestroy(away);
}

/* Without memory to pack into, the host carries the message. Others hold the slots that earlier messages had. */
static void unpacked(void)
{
    enum { HELD = 2, BYTES = 1 << 16 };
    struct ring r;
    MPI_Request held[HELD];
    int few = count;
    void *out = mem_alloc(MEM_DEVICE, BYTES), *in = mem_alloc(MEM_DEVICE, BYTES);
    for (int i = 0; i < HELD; i++) MPI_Isend(out, BYTES, MPI_BYTE, after(), 33, MPI_COMM_WORLD, &held[i]);
    count = LONG;   /* as long as no other: nothing is left of one that was freed */
    ring_make(&r, 1, 2, 15);
    count = few;
    ring_fill(&r), ring_copy(&r);
    setenv("SIMGPU_FAIL", "cuMemAlloc", 1);
    stridec_start_on(2, r.request, stream);
    expect_result(stridec_wait_on(2, r.request, stream), STRIDEC_HOST, "a message that can't be packed");
    unsetenv("SIMGPU_FAIL");
    ring_check(&r, "a message that can't be packed");
    ring_free(&r);
    for (int i = 0; i < HELD; i++)
        MPI_Recv(in, BYTES, MPI_BYTE, before(), 33, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(HELD, held, MPI_STATUSES_IGNORE);
    mem_free(MEM_DEVICE, out), mem_free(MEM_DEVICE, in);
    report("no memory to pack into");
}

static void refused(void)
{
    struct ring r;
    MPI_Request any;
    ring_make(&r, 1, 2, 5);
    MPI_Recv_init(r.in.origin, COUNT, r.received.type, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &any);
    expect_result(stridec_start_on(1, &any, stream), STRIDEC_INVALID, "a start from any source");
    MPI_Request twice[2] = {r.request[0], r.request[0]};
    expect_result(stridec_start_on(2, twice, stream), STRIDEC_INVALID, "a start of a request listed twice");
    expect_result(stridec_start_on(-1, r.request, stream), STRIDEC_INVALID, "a start of -1 requests");
    expect_result(stridec_exchange_on(-1, r.request, stream), STRIDEC_INVALID, "an exchange of -1 requests");
    expect_result(stridec_wait_on(2, r.request, stream), STRIDEC_OK, "a wait for nothing");
    if (posted) stridec_start_on(2, r.request, stream), stridec_wait_on(2, r.request, stream);
    ring_fill(&r), ring_copy(&r);
    expect_result(stridec_start_on(2, r.request, stream), STRIDEC_OK, "a start");
    expect_result(stridec_start_on(2, r.request, stream), STRIDEC_INVALID, "a second start");
    expect_result(stridec_wait_on(2, r.request, stream), STRIDEC_OK, "a wait");
    elsewhere(&r);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!posted) expect_equal(error_class(MPI_Startall(2, r.request)), MPI_ERR_REQUEST, "the error of MPI_Startall");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    ring_check(&r, "a message after what was refused");
    MPI_Request_free(&any);
    ring_free(&r);
}

int main(int argc, char **argv)
{
    bool gpus = false;
    for (int i = 1; i < argc; i++) {
        plain |= !strcmp(argv[i], "plain"), absent |= !strcmp(argv[i], "absent");
        posted |= !strcmp(argv[i], "posted"), chunks |= !strcmp(argv[i], "told");
        gpus |= !strcmp(argv[i], "gpus");
        if (!strcmp(argv[i], "pool")) memory = MEM_POOL;
        if (!strcmp(argv[i], "managed")) memory = MEM_MANAGED;
    }
    check_start(&argc, &argv, posted || plain ? MPI_THREAD_MULTIPLE : -1);
    if (gpus) cudaSetDevice(my_rank);
    if (!host_mode) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    expect(!absent || !stridec_present(), "the library is there");
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "launches")) continue;
        launches(atoi(argv[i + 1]));
        return check_finish();
    }
    for (int sent = 0; sent < LAYOUTS; sent++) steps(sent, (sent + 3) % RECEIVED);
    report("steps of all layouts");
    if (gpus && memory == MEM_DEVICE) one_kernel();
    report("a kernel fewer");
    struct resources now;
    resources_now(&now);
    if (memory != MEM_DEVICE && now.simulated) unpacked();
    apart(false);
    report("calls of their own");
    if (!host_mode && num_ranks > 1 && !gpus) apart(true);
    report("two streams");
    if (!plain) mixed();
    report("some bound, some not");
    if (!plain) graphs();
    report("graphs");
    others();
    report("what the MPI carries");
    if (posted) held();
    if (posted && num_ranks == 2) resized();   /* partners in a node would not change */
    report("messages while memory is freed, and of another length");
    if (chunks) told();
    report("what the host sends in chunks");
    if (!plain) refused();
    report("what is refused");
    if (stream) cudaStreamDestroy(stream);
    return check_finish();
}
