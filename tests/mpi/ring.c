/* ring.c: messages to the next rank. */
#include "ring.h"

int ring_after(void)
{
    return (my_rank + 1) % num_ranks;
}
int ring_before(void)
{
    return (my_rank + num_ranks - 1) % num_ranks;
}

/* The layouts are there. */
static void make(struct ring *r, int tag, MPI_Comm comm)
{
    buf_make(&r->source, MEM_DEVICE, &r->sent, 0, 1), buf_make(&r->out, MEM_DEVICE, &r->sent, 0, 2);
    buf_make(&r->in, MEM_DEVICE, &r->received, 0, 3);
    MPI_Recv_init(r->in.origin, r->received.count, r->received.type, ring_before(), tag, comm, &r->request[0]);
    MPI_Send_init(r->out.origin, r->sent.count, r->sent.type, ring_after(), tag, comm, &r->request[1]);
    r->salt = 1000 * (uint64_t)tag;
}

void ring_make(struct ring *r, int sent, int received, int count, int tag, MPI_Comm comm)
{
    layout_number(&r->sent, sent, count), layout_number(&r->received, received, count);
    make(r, tag, comm);
}

static void contiguous(struct layout *l, int bytes)
{
    MPI_Datatype t;
    MPI_Type_contiguous(bytes, MPI_BYTE, &t);
    type_commit(&t);
    layout_of(l, t, 1, "bytes");
}

void ring_bytes(struct ring *r, int bytes, int tag, MPI_Comm comm)
{
    contiguous(&r->sent, bytes), contiguous(&r->received, bytes);
    make(r, tag, comm);
}

void ring_free(struct ring *r)
{
    for (int i = 0; i < 2; i++)
        if (r->request[i] != MPI_REQUEST_NULL) MPI_Request_free(&r->request[i]);
    buf_free(&r->source), buf_free(&r->out), buf_free(&r->in);
    layout_free(&r->sent), layout_free(&r->received);
}

void ring_fill(struct ring *r)
{
    r->salt += (uint64_t)num_ranks;
    buf_fill(&r->source, r->salt + (uint64_t)my_rank);
}

void ring_copy(struct ring *r, cudaStream_t stream)
{
    cudaMemcpyAsync(r->out.base, r->source.base, r->out.bytes, cudaMemcpyDeviceToDevice, stream);
}

bool ring_check(struct ring *r, int hops, const char *what)
{
    int from = ((my_rank - hops) % num_ranks + num_ranks) % num_ranks;
    buf_expect_from(&r->in, &r->received, &r->sent, r->salt + (uint64_t)from);
    return buf_check(&r->in, what);
}

cudaGraphExec_t ring_graph(cudaStream_t stream, void enqueue(void *of), void *of)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    enqueue(of);
    cudaError_t e = cudaStreamEndCapture(stream, &graph);
    if (!e) e = cudaGraphInstantiateWithFlags(&ready, graph, 0);
    expect(!e && ready, "a graph ends with %s", cudaGetErrorName(e));
    if (graph) cudaGraphDestroy(graph);
    return ready;
}
