/* hand_kernels.c: the way by hand of hand.c: kernels, their arguments, and the messages. */
#include "hand.h"
#include <stdlib.h>

#define THREADS 256
#define EACH 4            /* words of a thread */
#define HEADER 64
#define LOOKS (1 << 20)

/* WORD, ROW and STRIDES (words of a row, from one row to the next), FIELDS and EACH are defined before it. */
static const char source[] =
    "typedef unsigned u32;\n"
    "struct argument {\n"
    "    struct { const WORD *from; WORD *to; u32 first, words; } field[FIELDS];\n"
    "    u32 *ran, *told, *flags; u32 fields;\n"
    "};\n"
    "#if defined(__CUDACC_VER_MAJOR__)\n"
    "#define READ(flag, at) \\\n"
    "    asm volatile(\"ld.acquire.sys.global.u32 %0, [%1];\" : \"=r\"(flag) : \"l\"(at) : \"memory\")\n"
    "#define WRITE(at, flag) \\\n"
    "    asm volatile(\"st.release.sys.global.u32 [%0], %1;\" ::\"l\"(at), \"r\"(flag) : \"memory\")\n"
    "#else\n"
    "#define READ(flag, at) (flag = *(const volatile u32 *)(at), __threadfence_system())\n"
    "#define WRITE(at, flag) (__threadfence_system(), *(volatile u32 *)(at) = (flag))\n"
    "#endif\n"
    "template <bool WAITS, bool TELLS, u32 FROM, u32 TO>\n"
    "static __device__ __forceinline__ void move(const argument &a)\n"
    "{\n"
    "    const u32 epoch = *(const volatile u32 *)(a.ran + 1) + 1;\n"
    "    u32 k = 0, flag;\n"
    "    while (k + 1 < a.fields && a.field[k + 1].first <= blockIdx.x) k++;\n"
    "    const WORD *const from = a.field[k].from;\n"
    "    WORD *const to = a.field[k].to, word[EACH];\n"
    "    const u32 base = (blockIdx.x - a.field[k].first) * EACH * blockDim.x + threadIdx.x;\n"
    "    if (WAITS) {\n"
    "        if (threadIdx.x == 0) do READ(flag, a.flags + blockIdx.x); while (flag != epoch);\n"
    "        __syncthreads();\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (u32 j = 0; j < EACH; j++) {\n"
    "        const u32 w = base + j * blockDim.x;\n"
    "        if (w < a.field[k].words) word[j] = from[w / ROW * FROM + w % ROW];\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (u32 j = 0; j < EACH; j++) {\n"
    "        const u32 w = base + j * blockDim.x;\n"
    "        if (w < a.field[k].words) to[w / ROW * TO + w % ROW] = word[j];\n"
    "    }\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x) return;\n"
    "    if (TELLS) WRITE(a.flags + blockIdx.x, epoch);\n"
    "    __threadfence_system();\n"
    "    if (atomicAdd(a.ran, 1u) != gridDim.x - 1) return;\n"
    "    *(volatile u32 *)a.ran = 0;\n"
    "    *(volatile u32 *)(a.ran + 1) = epoch;\n"
    "    WRITE(a.told, epoch);\n"
    "}\n"
    "extern \"C\" __global__ void hand_one(const __grid_constant__ argument a)\n"
    "{\n"
    "    move<false, false, STRIDES, STRIDES>(a);\n"
    "}\n"
    "extern \"C\" __global__ void hand_pack(const __grid_constant__ argument a)\n"
    "{\n"
    "    move<false, true, STRIDES, ROW>(a);\n"
    "}\n"
    "extern \"C\" __global__ void hand_unpack(const __grid_constant__ argument a)\n"
    "{\n"
    "    move<true, false, ROW, STRIDES>(a);\n"
    "}\n";

static unsigned word_of(const struct shape *s)
{
    return s->row % 16 == 0 ? 16 : s->row % 8 == 0 ? 8 : 4;
}

static void launch(struct pong *p, int kernel)
{
    CUDA(cudaGraphLaunch(p->graph[kernel], p->stream));
    p->launched[kernel]++;
}

/* The driver is asked in the end: simulated kernels run when they are waited for. */
static void await_kernel(struct pong *p, int kernel)
{
    for (unsigned looks = 1; p->told[kernel] != p->launched[kernel]; looks++)
        if (looks % LOOKS == 0)
            CUDA(cudaStreamSynchronize(p->stream));
}

void hand_send(struct pong *p)
{
    char header[HEADER] = { 0 };

    MPI_Send(header, HEADER, MPI_BYTE, 1 - p->rank, 1, MPI_COMM_WORLD);
    if (p->s->pool)
        launch(p, PACK), await_kernel(p, PACK);
    for (p->sent++; !p->s->pool && *p->others != p->sent;)
        continue;
}

void hand_recv(struct pong *p)
{
    char header[HEADER];

    MPI_Recv(header, HEADER, MPI_BYTE, 1 - p->rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    launch(p, p->s->pool ? UNPACK : ONE);
    await_kernel(p, p->s->pool ? UNPACK : ONE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    ++*p->mine;
}

static void arguments_make(struct pong *p)
{
    const struct shape *s = p->s;
    size_t packed = 0, flags = STAGED(p->bytes);
    unsigned word = word_of(s);

    p->blocks = 0;
    for (int i = 0; i < s->fields; i++) {
        size_t bytes = (size_t)s->rows[i] * (size_t)s->row;
        const void *from[] = { s->pool ? NULL : p->theirs[i], p->from[i], p->staging + packed };
        void *to[] = { p->to[i], p->their_staging + packed, p->to[i] };

        for (int k = 0; k < KERNELS; k++) {
            p->argument[k].field[i].from = from[k], p->argument[k].field[i].to = to[k];
            p->argument[k].field[i].first = p->blocks, p->argument[k].field[i].words = (unsigned)(bytes / word);
        }
        p->blocks += (unsigned)((bytes / word + THREADS * EACH - 1) / (THREADS * EACH));
        packed += bytes;
    }
    for (int k = 0; k < KERNELS; k++) {
        p->argument[k].fields = (unsigned)s->fields;
        p->argument[k].ran = p->ran + 2 * k, p->argument[k].told = (unsigned *)p->told + k;
        p->argument[k].flags = (unsigned *)((k == PACK ? p->their_staging : p->staging) + flags);
    }
}

static bool kernel_make(struct pong *p, int kernel, const char *text, const char *name)
{
    CUfunction f = source_kernel(text, name);
    __typeof__(cuLaunchKernel) *enqueue;
    void *arguments[] = { &p->argument[kernel] };
    cudaGraph_t graph;
    CUresult r;

    if (!f)
        return false;
    *(void **)&enqueue = driver_symbol("cuLaunchKernel");
    CUDA(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal));
    r = enqueue(f, p->blocks, 1, 1, THREADS, 1, 1, 0, (CUstream)p->stream, arguments, NULL);
    CUDA(cudaStreamEndCapture(p->stream, &graph));
    if (r == CUDA_SUCCESS)
        CUDA(cudaGraphInstantiateWithFlags(&p->graph[kernel], graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return r == CUDA_SUCCESS;
}

bool hand_make(struct pong *p)
{
    static const char *const words[] = { [4] = "unsigned", [8] = "uint2", [16] = "uint4" };
    int word = (int)word_of(p->s);
    char text[sizeof(source) + 128];

    arguments_make(p);
    snprintf(text, sizeof(text),
             "#define WORD %s\n#define ROW %du\n#define STRIDES %du\n#define FIELDS %d\n#define EACH %d\n%s",
             words[word], p->s->row / word, p->s->stride / word, FIELDS, EACH, source);
    return kernel_make(p, ONE, text, "hand_one") && kernel_make(p, PACK, text, "hand_pack") &&
           kernel_make(p, UNPACK, text, "hand_unpack");
}

