/* stencil_graph.c: a stencil in GPU memory whose time steps, with the messages between the ranks, are a CUDA
 * graph: the host launches it again and again, and has no part in the steps. Uses stridec.h.
 *
 * build: mpicc stencil_graph.c -o stencil_graph -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart -lnvrtc -ldl
 * usage: mpirun -n RANKS stridec run -- stencil_graph [rows [columns [steps]]]      (512 512 100)
 * run: mpirun -n 2 stridec run -- build/examples/stencil_graph 64 64 20
 * run: mpirun -n 3 stridec run -- build/examples/stencil_graph 64 64 20
 *
 * The field is a ring of strips of columns, one a rank; its first and last row stay as they are. A step makes of
 * each other cell the mean of its four neighbours, from field 0 to field 1 or back, and sends the edge columns to
 * the halo of both neighbours. The graph holds two steps, there and back. Where it can't hold the messages (no
 * stridec, ranks on several nodes), a loop makes the same calls: stridec_exchange_on. At the end every cell is
 * compared with what each rank computes alone on the host. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <stridec.h>
#include <string.h>

/* For calls of the runtime and of the driver: their numbers mean the same. */
#define CUDA(call)                                                                           \
    do {                                                                                     \
        cudaError_t e_ = (cudaError_t)(call);                                                \
        if (e_ != cudaSuccess) {                                                             \
            fprintf(stderr, "stencil_graph: %s: %s\n", #call, cudaGetErrorString(e_));       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                    \
    } while (0)

struct strip {
    int rank, ranks, left, right;
    int rows, columns, pitch;          /* pitch: of a row, with a halo column on both sides */
    double *field[2];
    MPI_Datatype column;
    MPI_Request request[2][4];         /* of each field */
    cudaStream_t stream;
    CUfunction kernel;
    __typeof__(cuLaunchKernel) *launch;
};

static void fail(const char *what, int code)
{
    fprintf(stderr, "stencil_graph: %s (%d)\n", what, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Compiled at run time, so that mpicc is enough. With nvcc it would be a function, and <<<>>>. */
static const char source[] =
    "extern \"C\" __global__ void mean(const double *from, double *to, int rows, int columns)\n"
    "{\n"
    "    int r = blockIdx.y * blockDim.y + threadIdx.y + 1;\n"
    "    int c = blockIdx.x * blockDim.x + threadIdx.x + 1;\n"
    "    long long pitch = columns + 2, i = r * pitch + c;\n"
    "    if (r < rows - 1 && c <= columns)\n"
    "        to[i] = (from[i - 1] + from[i + 1] + from[i - pitch] + from[i + pitch]) * 0.25;\n"
    "}\n";

static void make_kernel(struct strip *s, int device)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);   /* not linked: not every machine has it */
    __typeof__(cuModuleLoadData) *load;
    __typeof__(cuModuleGetFunction) *find;
    int major, minor;
    char arch[40], *code = NULL;
    const char *options[] = { arch };
    nvrtcProgram program;
    nvrtcResult result;
    CUmodule module;
    size_t bytes;

    CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", major, minor);
    if ((result = nvrtcCreateProgram(&program, source, "mean.cu", 0, NULL, NULL)) != NVRTC_SUCCESS ||
        (result = nvrtcCompileProgram(program, 1, options)) != NVRTC_SUCCESS ||
        (result = nvrtcGetCUBINSize(program, &bytes)) != NVRTC_SUCCESS ||
        !(code = malloc(bytes)) || (result = nvrtcGetCUBIN(program, code)) != NVRTC_SUCCESS)
        fail(nvrtcGetErrorString(result), result);
    nvrtcDestroyProgram(&program);
    *(void **)&load = dlsym(driver, "cuModuleLoadData");
    *(void **)&find = dlsym(driver, "cuModuleGetFunction");
    *(void **)&s->launch = dlsym(driver, "cuLaunchKernel");
    CUDA(load(&module, code));
    CUDA(find(&s->kernel, module, "mean"));
    free(code);
}

static void compute(struct strip *s, int from, int to)
{
    void *arguments[] = { &s->field[from], &s->field[to], &s->rows, &s->columns };
    unsigned across = (unsigned)s->columns / 32 + 1, down = (unsigned)s->rows / 8 + 1;

    CUDA(s->launch(s->kernel, across, down, 1, 32, 8, 1, 0, s->stream, arguments, NULL));
}

/* Makes the requests that fill a field's halo and send its edges: tag 0 to the right, tag 1 to the left. */
static void make_requests(struct strip *s, double *field, MPI_Request request[4])
{
    MPI_Recv_init(field, 1, s->column, s->left, 0, MPI_COMM_WORLD, &request[0]);
    MPI_Recv_init(field + s->columns + 1, 1, s->column, s->right, 1, MPI_COMM_WORLD, &request[1]);
    MPI_Send_init(field + s->columns, 1, s->column, s->right, 0, MPI_COMM_WORLD, &request[2]);
    MPI_Send_init(field + 1, 1, s->column, s->left, 1, MPI_COMM_WORLD, &request[3]);
}

/* In stream order: sends what the kernel before wrote; the kernel behind finds the halo filled. */
static int exchange(struct strip *s, MPI_Request request[4])
{
    int result = stridec_exchange_on(4, request, s->stream);

    if (result != STRIDEC_OK && result != STRIDEC_HOST && result != STRIDEC_UNABLE)
        fail("an exchange failed", result);
    return result;
}

static int two_steps(struct strip *s)
{
    int there, back;

    compute(s, 0, 1);
    there = exchange(s, s->request[1]);
    compute(s, 1, 0);
    back = exchange(s, s->request[0]);
    return there == STRIDEC_OK ? back : there;
}

/* Two steps as a graph; NULL where it can't hold the messages. Nothing is computed or sent yet. */
static cudaGraphExec_t capture(struct strip *s)
{
    cudaGraphExec_t graph = NULL;
    cudaGraph_t captured;
    int result;

    CUDA(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
    result = two_steps(s);
    CUDA(cudaStreamEndCapture(s->stream, &captured));
#if CUDART_VERSION >= 12000
    if (result == STRIDEC_OK) CUDA(cudaGraphInstantiate(&graph, captured, 0));
#else
    if (result == STRIDEC_OK) CUDA(cudaGraphInstantiate(&graph, captured, NULL, NULL, 0));
#endif
    CUDA(cudaGraphDestroy(captured));
    return graph;
}

/* Sums in the same order give the same bits; the product is last, so nothing can be fused. */
static void serial_step(const double *from, double *to, int rows, int columns)
{
    size_t pitch = (size_t)columns + 2;

    for (int r = 1; r < rows - 1; r++) {
        double *out = to + r * pitch;

        for (size_t i = r * pitch + 1; i <= r * pitch + columns; i++)
            to[i] = (from[i - 1] + from[i + 1] + from[i - pitch] + from[i + pitch]) * 0.25;
        out[0] = out[columns], out[columns + 1] = out[1];
    }
}

static int mpi_takes_device_memory(void)
{
    int (*query)(void);

    *(void **)&query = dlsym((void *)0 /* RTLD_DEFAULT */, "MPIX_Query_cuda_support");
    return stridec_present() || (query && query() == 1);
}

int main(int argc, char **argv)
{
    struct strip s = { .rows = 512, .columns = 512 };
    int steps = 100, devices, graphs, wrong = 0;
    double *whole[2], *got, seconds;   /* whole: computed on the host */
    cudaGraphExec_t graph = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
    if (!mpi_takes_device_memory()) {
        if (s.rank == 0)
            printf("stencil_graph: needs `stridec run`, or an MPI that takes GPU memory\n");
        MPI_Finalize();
        return 0;
    }
    if (argc > 1) s.rows = atoi(argv[1]);
    if (argc > 2) s.columns = atoi(argv[2]);
    if (argc > 3) steps = atoi(argv[3]) / 2 * 2;
    if (s.rows < 1 || s.columns < 1 || steps < 2)
        fail("usage: stencil_graph [rows [columns [steps]]]", 2);
    s.left = (s.rank + s.ranks - 1) % s.ranks, s.right = (s.rank + 1) % s.ranks;
    s.pitch = s.columns + 2;

    long long all = (long long)s.columns * s.ranks;
    size_t width = s.pitch * sizeof(double), wide = (all + 2) * sizeof(double);
    got = malloc(s.rows * width);
    for (int k = 0; k < 2; k++) {
        whole[k] = malloc(s.rows * wide);
        for (int r = 0; r < s.rows; r++)
            for (int c = 0; c < all + 2; c++)
                whole[k][r * (all + 2) + c] = (r * 7919ll + (c + all - 1) % all * 104729) % 1000003;
    }

    CUDA(cudaGetDeviceCount(&devices));
    CUDA(cudaSetDevice(s.rank % devices));
    CUDA(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    make_kernel(&s, s.rank % devices);
    MPI_Type_vector(s.rows, 1, s.pitch, MPI_DOUBLE, &s.column);
    MPI_Type_commit(&s.column);
    for (int k = 0; k < 2; k++) {   /* this rank's columns of the whole field, with their halo */
        CUDA(cudaMalloc((void **)&s.field[k], s.rows * width));
        CUDA(cudaMemcpy2D(s.field[k], width, whole[k] + s.rank * s.columns, wide, width, s.rows,
                          cudaMemcpyHostToDevice));
        make_requests(&s, s.field[k], s.request[k]);
    }
    CUDA(cudaDeviceSynchronize());   /* the copies above are not in the order of the stream */

    /* The first steps bind the requests to their partners, which no capture can. */
    if (two_steps(&s) == STRIDEC_OK)
        graph = capture(&s);
    CUDA(cudaStreamSynchronize(s.stream));
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = MPI_Wtime();
    for (int i = 0; i < steps; i += 2)
        if (graph)
            CUDA(cudaGraphLaunch(graph, s.stream));
        else
            two_steps(&s);
    CUDA(cudaStreamSynchronize(s.stream));
    seconds = MPI_Wtime() - seconds;

    for (int i = 0; i < 2 + steps; i++)
        serial_step(whole[i % 2], whole[1 - i % 2], s.rows, (int)all);
    CUDA(cudaMemcpy(got, s.field[0], s.rows * width, cudaMemcpyDeviceToHost));
    for (int r = 0; r < s.rows; r++)
        wrong |= memcmp(got + (size_t)r * s.pitch, whole[0] + r * (all + 2) + s.rank * s.columns,
                        width) != 0;
    graphs = graph != NULL;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &graphs, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (s.rank == 0) {
        printf("stencil_graph: %d x %d cells a rank; %d of %d ranks launch a graph of two steps%s\n",
               s.rows, s.columns, graphs, s.ranks,
               graphs < s.ranks ? ", the others loop over the calls" : "");
        printf("stencil_graph: %d steps of %.1f us\n", steps, seconds * 1e6 / steps);
        printf("stencil_graph: %s\n", wrong ? "WRONG" : "verified");
    }

    if (graph)
        CUDA(cudaGraphExecDestroy(graph));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 4; i++)
            MPI_Request_free(&s.request[k][i]);
        CUDA(cudaFree(s.field[k]));
        free(whole[k]);
    }
    free(got);
    MPI_Type_free(&s.column);
    CUDA(cudaStreamDestroy(s.stream));
    MPI_Finalize();
    return wrong;
}
