/* stream.c: ping-pong of derived types between two ranks, driven by the host, on a stream, and in a graph.
 *
 * usage: mpirun -n 2 stridec run -- stream [--threads] [OUT.json]
 *
 * Vectors in GPU memory, rank r on GPU r. "Host": MPI_Send and MPI_Recv. "Stream": the same messages as persistent
 * requests by stridec_start_on and stridec_wait_on, enqueued for 100 round trips and waited for once. "Graph": ten
 * round trips captured, the graph launched ten times. Half round trips, medians over 20 such runs, of the slower rank.
 * "Calls": the host's time in the calls of "stream", for each message. What comes back is compared with what was sent.
 * Exit status 1 where a byte was wrong. --threads asks for MPI_THREAD_MULTIPLE: two nodes need it for "stream". */
#include "../runtime/api/stridec.h"
#include "common.h"
#include "together.h"
#include <stdlib.h>
#include <string.h>

#define TRIPS 100
#define CAPTURED 10
#define RUNS 20

static const struct shape {
    int bytes, block;
} shapes[] = { { 1 << 10, 8 }, { 64 << 10, 256 }, { 1 << 20, 256 }, { 4 << 20, 256 } };
#define SHAPES (int)(sizeof(shapes) / sizeof(shapes[0]))

struct pong {
    int rank;
    MPI_Datatype type;
    size_t span;
    char *block, *host;
    MPI_Request send, recv;
    cudaStream_t stream;
    cudaGraphExec_t graph;
    double calls_us;
};

static void by_host(struct pong *p)
{
    for (int i = 0; i < TRIPS; i++) {
        if (p->rank == 0)
            MPI_Send(p->block, 1, p->type, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(p->block, 1, p->type, 1 - p->rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (p->rank == 1)
            MPI_Send(p->block, 1, p->type, 0, 0, MPI_COMM_WORLD);
    }
}

/* Whether the stream carries it. */
static bool message(MPI_Request *request, cudaStream_t stream)
{
    int started = stridec_start_on(1, request, stream);

    return stridec_wait_on(1, request, stream) == STRIDEC_OK && started == STRIDEC_OK;
}

static bool enqueue(struct pong *p, int trips)
{
    bool all = true;

    for (int i = 0; i < trips; i++) {
        all = message(p->rank ? &p->recv : &p->send, p->stream) && all;
        all = message(p->rank ? &p->send : &p->recv, p->stream) && all;
    }
    return all;
}

static void by_stream(struct pong *p)
{
    double begin = now_us();

    enqueue(p, TRIPS);
    p->calls_us = (now_us() - begin) / (2 * TRIPS);
    CUDA(cudaStreamSynchronize(p->stream));
}

static void by_graph(struct pong *p)
{
    for (int i = 0; i < TRIPS / CAPTURED; i++)
        CUDA(cudaGraphLaunch(p->graph, p->stream));
    CUDA(cudaStreamSynchronize(p->stream));
}

/* Half round trips in microseconds; negative where a byte was wrong. */
static double measure(struct pong *p, void (*run)(struct pong *p))
{
    double us[RUNS], mine;

    for (int i = -1; i < RUNS; i++) {   /* the first warms */
        MPI_Barrier(MPI_COMM_WORLD);
        mine = now_us();
        run(p);
        mine = (now_us() - mine) / (2 * TRIPS);
        MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= 0)
            us[i] = mine;
    }
    return device_equals(p->block, p->host, p->span) ? median_of(us, RUNS) : -1;
}

static bool capture(struct pong *p)
{
    cudaGraph_t graph;

    CUDA(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal));
    bool captured = enqueue(p, CAPTURED);
    CUDA(cudaStreamEndCapture(p->stream, &graph));
    if (captured)
        CUDA(cudaGraphInstantiateWithFlags(&p->graph, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return captured;
}

/* Returns whether all bytes were right. */
static bool run_shape(FILE *f, const struct shape *s, int rank, bool last)
{
    struct pong p = { .rank = rank, .span = (size_t)s->bytes * 2 };
    double host, stream, graph = -1;

    MPI_Type_vector(s->bytes / s->block, s->block, 2 * s->block, MPI_BYTE, &p.type);
    MPI_Type_commit(&p.type);
    p.block = device_new(p.span), p.host = host_new(p.span);
    random_bytes(p.host, p.span, 5);   /* the same on both: messages must change nothing */
    device_write(p.block, p.host, p.span);
    MPI_Send_init(p.block, 1, p.type, 1 - rank, 1, MPI_COMM_WORLD, &p.send);
    MPI_Recv_init(p.block, 1, p.type, 1 - rank, 1, MPI_COMM_WORLD, &p.recv);
    CUDA(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking));
    together_ready(1, &p.type, p.block);
    host = measure(&p, by_host);
    enqueue(&p, 1);
    stream = measure(&p, by_stream);
    if (capture(&p)) {
        graph = measure(&p, by_graph);
        CUDA(cudaGraphExecDestroy(p.graph));
    }
    bool ok = host >= 0 && stream >= 0 && graph >= 0;
    if (f)
        fprintf(f, "{\"case\": \"%d KiB, blocks of %d B\", \"bytes\": %d, \"ok\": %s, \"host_us\": %.2f, \"stream_us\": %.2f, "
                "\"graph_us\": %.2f, \"calls_us\": %.2f}%s\n", s->bytes >> 10, s->block, s->bytes, ok ? "true" : "false",
                host, stream, graph, p.calls_us, last ? "" : ",");
    if (rank == 0)
        fprintf(stderr, "stream: %d KiB, blocks of %d B: host %.1f us, stream %.1f (calls %.1f), graph %.1f: %s\n",
                s->bytes >> 10, s->block, host, stream, p.calls_us, graph, ok ? "verified" : "WRONG BYTES");
    MPI_Request_free(&p.send);
    MPI_Request_free(&p.recv);
    MPI_Type_free(&p.type);
    CUDA(cudaStreamDestroy(p.stream));
    CUDA(cudaFree(p.block));
    free(p.host);
    return ok;
}

int main(int argc, char **argv)
{
    int rank, ranks, level, wrong = 0;
    bool threads = argc > 1 && !strcmp(argv[1], "--threads");
    const char *out = argc > 1 + threads ? argv[1 + threads] : NULL;
    FILE *f = NULL;

    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || !gpu_select(rank)) {
        if (rank == 0)
            printf("stream: %s\n", ranks != 2 ? "takes two ranks" : "no GPU found: nothing to measure");
        MPI_Finalize();
        return ranks != 2;
    }
    if (rank == 0)
        f = cases_open(out, argc, argv, "stream");
    for (int i = 0; i < SHAPES; i++)
        wrong += !run_shape(f, &shapes[i], rank, i == SHAPES - 1);
    cases_close(f);
    MPI_Finalize();
    return wrong != 0;
}
