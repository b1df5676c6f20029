/* halo_stream.c: the exchange in the order of a CUDA stream: persistent requests by stridec_exchange_on, and the same
 * captured into a graph, which is launched each time; in one graph with a kernel, and that kernel alone. */
#include "../runtime/api/stridec.h"
#include "halo.h"
#include <stdlib.h>

struct order {
    MPI_Request request[2 * NEIGHBOURS];
    cudaStream_t stream;
    cudaGraphExec_t graph;
    float *out;               /* what the kernel writes */
};

/* Whether the messages go without the host; the first exchange binds the ranks. */
static int exchange(struct order *o)
{
    return stridec_exchange_on(2 * NEIGHBOURS, o->request, o->stream);
}

static bool stream_begin(struct halo *h)
{
    struct order *o = h->way = host_new(sizeof(*o));

    o->graph = NULL, o->out = NULL;
    for (int s = 0; s < NEIGHBOURS; s++) {
        MPI_Recv_init(h->block, 1, h->recv[s], h->peer[s], OPPOSITE(s), h->grid, &o->request[s]);
        MPI_Send_init(h->block, 1, h->send[s], h->peer[s], s, h->grid, &o->request[NEIGHBOURS + s]);
    }
    CUDA(cudaStreamCreateWithFlags(&o->stream, cudaStreamNonBlocking));
    exchange(o);
    CUDA(cudaStreamSynchronize(o->stream));
    return true;
}

static void stream_end(struct halo *h)
{
    struct order *o = h->way;

    if (o->graph)
        CUDA(cudaGraphExecDestroy(o->graph));
    for (int i = 0; i < 2 * NEIGHBOURS; i++)
        MPI_Request_free(&o->request[i]);
    CUDA(cudaStreamDestroy(o->stream));
    if (o->out)
        CUDA(cudaFree(o->out));
    free(o);
}

bool halo_compute(const struct halo *h, float *out, cudaStream_t stream)
{
    static const char source[] =
        "extern \"C\" __global__ void jacobi(const float *u, float *out, int n, int side, int radius) {\n"
        "    const int x = blockIdx.x * blockDim.x + threadIdx.x + radius;\n"
        "    const int y = blockIdx.y + radius, z = blockIdx.z + radius;\n"
        "    if (x >= n + radius) return;\n"
        "    const long long row = side, plane = row * side, at = z * plane + y * row + x;\n"
        "    out[at] = (u[at - 1] + u[at + 1] + u[at - row] + u[at + row] + u[at - plane] + u[at + plane]) / 6;\n"
        "}\n";
    static CUfunction kernel;
    static __typeof__(cuLaunchKernel) *launch;
    const float *block = h->block;
    int n = h->n, side = h->side, radius = h->radius;
    void *arguments[] = { &block, &out, &n, &side, &radius };

    if (!launch)
        *(void **)&launch = driver_symbol("cuLaunchKernel");
    if (!kernel)
        kernel = source_kernel(source, "jacobi");
    if (kernel)
        launch(kernel, (unsigned)(n + 127) / 128, (unsigned)n, (unsigned)n, 128, 1, 1, 0, (CUstream)stream,
               arguments, NULL);
    return kernel != NULL;
}

static bool capture(struct halo *h, bool computes, bool exchanges)
{
    cudaGraph_t graph;
    struct order *o;

    stream_begin(h);
    o = h->way;
    if (computes) {
        o->out = device_new(h->cells * sizeof(float));
        if (!halo_compute(h, o->out, o->stream)) {   /* compiles it */
            stream_end(h);
            return false;
        }
        CUDA(cudaStreamSynchronize(o->stream));
    }
    CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
    if (computes)
        halo_compute(h, o->out, o->stream);
    bool captured = !exchanges || exchange(o) == STRIDEC_OK;
    CUDA(cudaStreamEndCapture(o->stream, &graph));
    if (captured)
        CUDA(cudaGraphInstantiateWithFlags(&o->graph, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    if (!captured)
        stream_end(h);
    return captured;
}

static bool graph_begin(struct halo *h)
{
    return capture(h, false, true);
}

static bool kernel_begin(struct halo *h)
{
    return capture(h, true, false);
}

static bool kernel_graph_begin(struct halo *h)
{
    return capture(h, true, true);
}

static void stream_exchange(void *halo)
{
    struct order *o = ((struct halo *)halo)->way;

    exchange(o);
    CUDA(cudaStreamSynchronize(o->stream));
}

static void graph_exchange(void *halo)
{
    struct order *o = ((struct halo *)halo)->way;

    CUDA(cudaGraphLaunch(o->graph, o->stream));
    CUDA(cudaStreamSynchronize(o->stream));
}

const struct way way_stream = { .name = "stream order",
                                .device_buffers = true,
                                .begin = stream_begin,
                                .exchange = stream_exchange,
                                .end = stream_end };
const struct way way_graph = { .name = "one graph",
                               .device_buffers = true,
                               .begin = graph_begin,
                               .exchange = graph_exchange,
                               .end = stream_end,
                               .without = "the MPI carries the messages" };
const struct way way_kernel = { .name = "a kernel alone, one graph",
                                .device_buffers = true,
                                .begin = kernel_begin,
                                .exchange = graph_exchange,
                                .end = stream_end,
                                .without = "its kernel did not compile",
                                .apart = true };
const struct way way_kernel_graph = { .name = "a kernel and the halo, one graph",
                                      .device_buffers = true,
                                      .begin = kernel_graph_begin,
                                      .exchange = graph_exchange,
                                      .end = stream_end,
                                      .without = "its kernel did not compile, or the MPI carries the messages" };
