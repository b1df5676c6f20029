/* search_beside.c: packing beside a kernel that fills the GPU (Jenkins §4.4, Wu §5.4), both ways round: with
 * all SMs, with the packing's grid limited to a few SMs' threads, and by the copy engine. */
#include "search.h"
#include <stdlib.h>
#include <string.h>

#define WAVES_US 20     /* how long a block of the compute kernel runs */
#define COMPUTE_US 8000
#define THREADS 256

static const char text[] =
    "extern \"C\" __global__ void __launch_bounds__(256) compute(float *to, int rounds)\n"
    "{\n"
    "    float a = threadIdx.x, b = blockIdx.x, c = 1.0f, d = 2.0f;\n"
    "    for (int i = 0; i < rounds; i++) {\n"
    "        a = a * 1.0001f + 0.5f; b = b * 0.9999f + 0.25f; c = c * 1.0002f + 0.125f; d = d * 0.9998f + 0.0625f;\n"
    "    }\n"
    "    if (a + b + c + d == 12345.0f) *to = a;\n"
    "}\n"
    "template <class W> static __device__ __forceinline__ void strided(W *packed, const char *user,\n"
    "    unsigned words, unsigned each, long long pitch)\n"
    "{\n"
    "    const unsigned n = gridDim.x * blockDim.x * 4, first = blockIdx.x * blockDim.x * 4 + threadIdx.x;\n"
    "    for (unsigned c = first; c < words; c += n) {\n"
    "        W v[4];\n"
    "#pragma unroll\n"
    "        for (int i = 0; i < 4; i++) {\n"
    "            const unsigned at = c + i * blockDim.x;\n"
    "            if (at < words) v[i] = ((const W *)(user + at / each * pitch))[at % each];\n"
    "        }\n"
    "#pragma unroll\n"
    "        for (int i = 0; i < 4; i++) {\n"
    "            const unsigned at = c + i * blockDim.x;\n"
    "            if (at < words) packed[at] = v[i];\n"
    "        }\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) pack16(uint4 *p, const char *u, unsigned n, unsigned e, long long s)\n"
    "{ strided(p, u, n, e, s); }\n"
    "extern \"C\" __global__ void __launch_bounds__(256) pack8(uint2 *p, const char *u, unsigned n, unsigned e, long long s)\n"
    "{ strided(p, u, n, e, s); }\n";

static const struct {
    const char *name;
    int64_t bytes, block, pitch;
} layouts[] = {
    { "vector 1 MiB, 8 B blocks", 1 << 20, 8, 512 },
    { "vector 4 MiB, 32 B blocks", 4 << 20, 32, 512 },
    { "vector 4 MiB, 256 B blocks", 4 << 20, 256, 512 },
    { "vector 64 MiB, 32 B blocks", 64 << 20, 32, 512 },
    { "vector 64 MiB, 256 B blocks", 64 << 20, 256, 512 },
};
/* SMs whose threads the packing's grid fills; 0: as many blocks as there is work; -1: cuMemcpy2DAsync. */
static const int limits[] = { 0, 4, 8, 16, 32, -1 };

struct beside {
    CUfunction compute, pack16, pack8;
    CUdeviceptr packed, user, to;
    CUstream computing, packing[2];   /* the second of the highest priority */
    int rounds, blocks;
    CUevent e[4];
};

static double between(CUevent from, CUevent to)
{
    float ms;
    CU(cuEventElapsedTime(&ms, from, to));
    return ms * 1e3;
}

static void start_compute(struct beside *b)
{
    void *arguments[] = { &b->to, &b->rounds };
    CU(cuEventRecord(b->e[0], b->computing));
    CU(cuLaunchKernel(b->compute, (unsigned)b->blocks, 1, 1, THREADS, 1, 1, 0, b->computing, arguments, NULL));
    CU(cuEventRecord(b->e[1], b->computing));
}

static void pack(struct beside *b, size_t l, int limit, CUstream stream)
{
    int word = layouts[l].block % 16 ? 8 : 16;
    unsigned words = (unsigned)(layouts[l].bytes / word), each = (unsigned)(layouts[l].block / word);
    unsigned grid = (words + THREADS * 4 - 1) / (THREADS * 4), most = (unsigned)limit * 2048 / THREADS;
    long long pitch = layouts[l].pitch;
    void *arguments[] = { &b->packed, &b->user, &words, &each, &pitch };
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = b->user, .srcPitch = (size_t)pitch,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b->packed, .dstPitch = (size_t)layouts[l].block,
        .WidthInBytes = (size_t)layouts[l].block, .Height = (size_t)(layouts[l].bytes / layouts[l].block),
    };
    if (limit < 0) {
        CU(cuMemcpy2DAsync(&copy, stream));
        return;
    }
    CU(cuLaunchKernel(word == 16 ? b->pack16 : b->pack8, limit && grid > most ? most : grid, 1, 1, THREADS, 1, 1, 0,
                      stream, arguments, NULL));
}

static void packs(struct beside *b, size_t l, int limit, CUstream stream, int times)
{
    CU(cuEventRecord(b->e[2], stream));
    for (int i = 0; i < times; i++) pack(b, l, limit, stream);
    CU(cuEventRecord(b->e[3], stream));
}

static double compute_alone(struct beside *b)
{
    double us[5];
    for (int i = 0; i < 5; i++) {
        start_compute(b);
        CU(cuCtxSynchronize());
        us[i] = between(b->e[0], b->e[1]);
    }
    return median_of(us, 5);
}

static void row(struct beside *b, size_t l, int limit, int priority, double alone_compute, const char *head)
{
    double alone[5], beside[5], compute[5];
    int times = 20;
    for (int i = -1; i < 5; i++) {
        packs(b, l, limit, b->packing[priority], times);
        CU(cuCtxSynchronize());
        double us = between(b->e[2], b->e[3]) / times;
        if (i >= 0) alone[i] = us;
        else times = us > 2500 ? 1 : us * 200 < 2500 ? 200 : (int)(2500 / us);
    }
    for (int i = 0; i < 5; i++) {
        start_compute(b);
        for (double until = now_us() + 100; now_us() < until;) continue;   /* the compute kernel is running */
        packs(b, l, limit, b->packing[priority], times);
        CU(cuCtxSynchronize());
        beside[i] = between(b->e[2], b->e[3]) / times;
        compute[i] = between(b->e[0], b->e[1]);
    }
    double a = median_of(alone, 5), s = median_of(beside, 5), c = median_of(compute, 5);
    char how[40];
    snprintf(how, sizeof how, limit < 0 ? "cuMemcpy2DAsync" : limit ? "%d SMs" : "all SMs", limit);
    printf("%s{\"case\": \"%s\", \"how\": \"%s\", \"priority\": \"%s\", \"packs\": %d, \"pack_alone_us\": %.2f, "
           "\"pack_beside_us\": %.2f, \"compute_alone_us\": %.1f, \"compute_beside_us\": %.1f}", head, layouts[l].name,
           how, priority ? "high" : "same", times, a, s, alone_compute, c);
    fflush(stdout);
    fprintf(stderr, "  %-30s %-16s %-5s packs %3d  pack alone %9.2f  beside %9.2f  compute alone %8.1f  beside %8.1f  (%+.1f%%)\n",
            layouts[l].name, how, priority ? "high" : "same", times, a, s, alone_compute, c,
            100 * (c / alone_compute - 1));
}

/* Rounds for blocks of WAVES_US, and blocks for COMPUTE_US in all. */
static void calibrate(struct beside *b)
{
    b->rounds = 1000;
    b->blocks = cu.multiprocessors * (2048 / THREADS);
    double us = compute_alone(b);
    b->rounds = (int)(1000 * WAVES_US / us) + 1;
    b->blocks *= COMPUTE_US / WAVES_US;
}

int search_beside_main(void)
{
    struct beside b = { 0 };
    char *source = strdup(text);
    CUmodule module;
    int least = 0, greatest = 0;
    const char *head = "";
    if (!gpu_open(-1)) return 1;
    compile_all(1, &source, &module);
    if (!module) return 1;
    CU(cuModuleGetFunction(&b.compute, module, "compute"));
    CU(cuModuleGetFunction(&b.pack16, module, "pack16"));
    CU(cuModuleGetFunction(&b.pack8, module, "pack8"));
    CU(cuMemAlloc(&b.packed, (size_t)64 << 20));
    CU(cuMemAlloc(&b.user, (size_t)1 << 30));
    CU(cuMemAlloc(&b.to, 256));
    CU(cuMemsetD8Async(b.user, 1, (size_t)1 << 30, NULL));
    CU(cuStreamCreate(&b.computing, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&b.packing[0], CU_STREAM_NON_BLOCKING));
    if (cu.cuCtxGetStreamPriorityRange) CU(cuCtxGetStreamPriorityRange(&least, &greatest));
    if (cu.cuStreamCreateWithPriority)
        CU(cuStreamCreateWithPriority(&b.packing[1], CU_STREAM_NON_BLOCKING, greatest));
    else
        b.packing[1] = b.packing[0];
    for (int i = 0; i < 4; i++) CU(cuEventCreate(&b.e[i], 0));
    CU(cuCtxSynchronize());
    calibrate(&b);
    double alone = compute_alone(&b);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
            for (int priority = 0; priority < 2; priority++) {
                if (limits[k] < 0 && layouts[l].block < 32) continue;
                row(&b, l, limits[k], priority, alone, head);
                head = ",\n";
            }
    printf("\n");
    free(source);
    return 0;
}
