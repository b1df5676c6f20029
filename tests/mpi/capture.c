/* capture.c: MPI calls, and what stridec does in the background (compiling and loading kernels, lists of irregular types, giving
 * modules and memory back), while the program captures streams into graphs: the graphs come about, and the bytes are right. Not
 * above a CUDA-aware MPI, which itself waits for streams of device messages (Open MPI 4.1.4 then aborts).
 *
 * run: STRIDEC_CACHE_DIR=@NEW -n 2
 * run: STRIDEC_CACHE_DIR=@NEW STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_CACHE_DIR=@NEW STRIDEC_TRANSPORT=zerocopy -n 2 apart
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 */
#include "check.h"
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, BYTES = 4096 };
static const struct {
    const char *name;
    unsigned flags;
    enum cudaStreamCaptureMode mode;
} WAYS[] = {
    {"a stream that waits for none, global", cudaStreamNonBlocking, cudaStreamCaptureModeGlobal},
    {"a stream that waits for none, of the thread", cudaStreamNonBlocking, cudaStreamCaptureModeThreadLocal},
    {"a stream that waits for the default one, global", cudaStreamDefault, cudaStreamCaptureModeGlobal},
};
static uint64_t salt = 7;
static void *memory;

/* A layout of each kind there and back, packed and unpacked too. */
static void exchange(int number)
{
    struct layout l;
    struct buf in, out;
    char *packed = malloc(1 << 20);
    int position = 0;
    layout_number(&l, number, MOST + number);   /* commits, and what was compiled for the last ones may go */
    buf_make(&out, MEM_HOST, &l, 0, salt + (uint64_t)my_rank), buf_make(&in, MEM_HOST, &l, 0, 1);
    MPI_Sendrecv(out.origin, l.count, l.type, 1 - my_rank, 1, in.origin, l.count, l.type, 1 - my_rank, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    buf_expect_from(&in, &l, &l, salt + (uint64_t)(1 - my_rank)), buf_check(&in, "in host memory");
    if (l.bytes <= 1 << 20) MPI_Pack(out.origin, l.count, l.type, packed, 1 << 20, &position, MPI_COMM_WORLD);
    buf_free(&in), buf_free(&out), layout_free(&l);
    free(packed);
    salt += 2;
}

struct ready {
    struct layout l;
    struct buf in, out;
};

/* Buffers are the program's to allocate before. */
static void ready_make(struct ready *r, int number)
{
    layout_number(&r->l, number, MOST);
    buf_make(&r->out, MEM_DEVICE, &r->l, 0, salt + (uint64_t)my_rank), buf_make(&r->in, MEM_DEVICE, &r->l, 0, 1);
    buf_expect_from(&r->in, &r->l, &r->l, salt + (uint64_t)(1 - my_rank));
    salt += 2;
}

static void capture(size_t way)
{
    static struct ready r[LAYOUTS];
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    for (int i = 0; i < LAYOUTS; i++) ready_make(&r[i], i);
    cudaStreamCreateWithFlags(&stream, WAYS[way].flags);
    MPI_Barrier(check_comm);
    cudaError_t begun = cudaStreamBeginCapture(stream, WAYS[way].mode);
    cudaMemsetAsync(memory, 1, BYTES, stream);
    for (int i = 0; i < LAYOUTS; i++) {
        const struct layout *l = &r[i].l;
        MPI_Sendrecv(r[i].out.origin, l->count, l->type, 1 - my_rank, 2, r[i].in.origin, l->count, l->type, 1 - my_rank, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < LAYOUTS; i++) exchange(i);
    cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    expect(!begun && !ended, "%s: the capture begins with %s, ends with %s", WAYS[way].name, cudaGetErrorName(begun),
           cudaGetErrorName(ended));
    if (graph) cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    for (int i = 0; i < LAYOUTS; i++) {
        buf_check(&r[i].in, WAYS[way].name);
        buf_free(&r[i].in), buf_free(&r[i].out), layout_free(&r[i].l);
    }
    report("%s", WAYS[way].name);
}

int main(int argc, char **argv)
{
    bool apart = argc > 1 && !strcmp(argv[argc - 1], "apart");
    check_start(&argc, &argv, -1);
    if (apart) cudaSetDevice(my_rank);
    cudaMalloc(&memory, BYTES);
    if (cuda_aware()) note("this MPI is CUDA-aware: nothing was captured");
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS && !cuda_aware(); i++) capture(i);
    cudaFree(memory);
    return check_finish();
}
