/* halo_stream.c: the exchange in the order of a CUDA stream: persistent requests that stridec_start_on starts, and the
 * same captured into a graph, which is launched each time. */
#include "../runtime/api/stridec.h"
#include "halo.h"
#include <stdlib.h>

struct order {
    MPI_Request request[2 * NEIGHBOURS];
    cudaStream_t stream;
    cudaGraphExec_t graph;
};

/* Whether the messages go without the host; the first exchange binds the ranks. */
static int exchange(struct order *o)
{
    int started = stridec_start_on(2 * NEIGHBOURS, o->request, o->stream);
    int waited = stridec_wait_on(2 * NEIGHBOURS, o->request, o->stream);

    return started != STRIDEC_OK ? started : waited;
}

static bool stream_begin(struct halo *h)
{
    struct order *o = h->way = host_new(sizeof(*o));

    o->graph = NULL;
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
    free(o);
}

static bool graph_begin(struct halo *h)
{
    cudaGraph_t graph;
    struct order *o;

    stream_begin(h);
    o = h->way;
    CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
    bool captured = exchange(o) == STRIDEC_OK;
    CUDA(cudaStreamEndCapture(o->stream, &graph));
    if (captured)
        CUDA(cudaGraphInstantiateWithFlags(&o->graph, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    if (!captured)
        stream_end(h);
    return captured;
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

const struct way way_stream = { "stream order", true, stream_begin, stream_exchange, stream_end, NULL };
const struct way way_graph = { "one graph", true, graph_begin, graph_exchange, stream_end,
                               "the MPI carries the messages" };
