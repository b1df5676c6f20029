/* search_scatter.c: what words that lie far apart cost, whatever the kernel does about it: the floor of packing and
 * unpacking small blocks, which no order of visits gets below.
 *
 * A word of 4 bytes every `pitch` bytes is read into, or written from, packed words. First by pitch, in plain order;
 * then at 512 bytes by what moves a word, by words in flight and threads, by the order of blocks (one bit of a block's
 * number counts first, so that neighbouring threads take blocks 2^bit apart), and by the L2's fetch granularity; and
 * the best of all. Microseconds of GPU time, medians. Every way's bytes are checked before it is timed. */
#include "search.h"
#include <stdlib.h>
#include <string.h>

#define LOG2_BLOCKS 24
#define PITCH 512
#define PITCH_MOST 1024
#define RUNS 7

/* ORDER ways, each_of */
static const char kernels[] =
    "typedef unsigned long long u64;\n"
    "static __device__ __forceinline__ unsigned block_of(unsigned t, unsigned bit)\n"
    "{\n"
    "    const unsigned rest = t >> 1;\n"
    "    return rest >> bit << (bit + 1) | (t & 1) << bit | (rest & ((1u << bit) - 1));\n"
    "}\n"
    "static __device__ __forceinline__ void fetch(const unsigned *p)\n"
    "{\n"
    "    asm volatile(\"prefetch.global.L2 [%0];\" ::\"l\"(p));\n"
    "}\n"
    "#define KERNEL(number, each, before, move)\\\n"
    "    extern \"C\" __global__ void way##number##_##each(unsigned *packed, char *user, u64 pitch, unsigned bit)\\\n"
    "    {\\\n"
    "        const unsigned first = blockIdx.x * blockDim.x * each + threadIdx.x;\\\n"
    "        _Pragma(\"unroll\") for (int e = 0; e < each; e++) {\\\n"
    "            unsigned *w = (unsigned *)(user + block_of(first + e * blockDim.x, bit) * pitch);\\\n"
    "            before;\\\n"
    "        }\\\n"
    "        _Pragma(\"unroll\") for (int e = 0; e < each; e++) {\\\n"
    "            const unsigned i = block_of(first + e * blockDim.x, bit);\\\n"
    "            unsigned *w = (unsigned *)(user + i * pitch), *p = packed + i;\\\n"
    "            move;\\\n"
    "        }\\\n"
    "    }\n"
    "#define WAY(number, before, move) KERNEL(number, 1, before, move) KERNEL(number, 4, before, move) \\\n"
    "    KERNEL(number, 16, before, move)\n"
    "WAY(0, (void)w, *p = *w)\n"
    "WAY(1, (void)w, *p = __ldcs(w))\n"
    "WAY(2, fetch(w), *p = *w)\n"
    "WAY(3, (void)w, *w = *p)\n"
    "WAY(4, (void)w, atomicExch(w, *p))\n"
    "WAY(5, (void)w, __stcs(w, *p))\n"
    "WAY(6, (void)w, __stwt(w, *p))\n"
    "WAY(7, fetch(w), *w = *p)\n";

static const struct {
    const char *name;
    bool pack;
} ways[] = {
    { "load", true },      { "streaming load", true },   { "prefetch, load", true },       { "store", false },
    { "exchange", false }, { "streaming store", false }, { "write-through store", false }, { "prefetch, store", false },
};
static const int each_of[] = { 1, 4, 16 };
static const unsigned threads_of[] = { 128, 256, 1024 };
enum { WAYS = sizeof ways / sizeof *ways, SHAPES = 3, LOAD = 0, STORE = 3, EXCHANGE = 4 };

struct scatter {
    CUfunction kernel[WAYS][SHAPES];
    CUdeviceptr user, packed;
    unsigned blocks, *host;
    CUevent begin, end;
};

/* One launch's choices. */
struct way {
    int number, each, threads;   /* places in the tables above */
    unsigned bit;
};
static const struct way plain_load = { LOAD, 0, 2, 0 }, plain_store = { STORE, 0, 2, 0 },
                        plain_exchange = { EXCHANGE, 0, 2, 0 };

char *scatter_source(void)
{
    return strdup(kernels);
}

static void launch(struct scatter *s, const struct way *w, uint64_t pitch)
{
    void *arguments[] = { &s->packed, &s->user, &pitch, (void *)(uintptr_t)&w->bit };
    unsigned threads = threads_of[w->threads], grid = s->blocks / threads / (unsigned)each_of[w->each];
    CU(cuLaunchKernel(s->kernel[w->number][w->each], grid, 1, 1, threads, 1, 1, 0, gpu_stream(), arguments, NULL));
}

static double time_of(struct scatter *s, const struct way *w, uint64_t pitch)
{
    double us[RUNS];
    launch(s, w, pitch);
    for (int i = 0; i < RUNS; i++) {
        float ms;
        CU(cuEventRecord(s->begin, gpu_stream()));
        launch(s, w, pitch);
        CU(cuEventRecord(s->end, gpu_stream()));
        CU(cuEventSynchronize(s->end));
        CU(cuEventElapsedTime(&ms, s->begin, s->end));
        us[i] = 1e3 * ms;
    }
    return median_of(us, RUNS);
}

/* Unpacks known words and packs them again, one of the two by this way. */
static void check(struct scatter *s, const struct way *w)
{
    bool pack = ways[w->number].pack;
    for (unsigned i = 0; i < s->blocks; i++) s->host[i] = (i + 1) * 2654435761u;
    CU(cuMemcpyHtoDAsync(s->packed, s->host, 4ull * s->blocks, gpu_stream()));
    CU(cuMemsetD8Async(s->user, 0, (size_t)PITCH * s->blocks, gpu_stream()));
    launch(s, pack ? &plain_store : w, PITCH);
    CU(cuMemsetD8Async(s->packed, 0, 4ull * s->blocks, gpu_stream()));
    launch(s, pack ? w : &plain_load, PITCH);
    CU(cuMemcpyDtoHAsync(s->host, s->packed, 4ull * s->blocks, gpu_stream()));
    CU(cuStreamSynchronize(gpu_stream()));
    for (unsigned i = 0; i < s->blocks; i++)
        if (s->host[i] != (i + 1) * 2654435761u) gpu_check(CUDA_ERROR_UNKNOWN, ways[w->number].name);
}

/* As many blocks as there is memory for, 2^24 at most. */
static bool allocate(struct scatter *s)
{
    s->blocks = 1u << LOG2_BLOCKS;
    while (s->blocks > 1u << 16 && cu.cuMemAlloc(&s->user, (size_t)PITCH_MOST * s->blocks)) s->blocks /= 2;
    s->host = s->user ? malloc(4ull * s->blocks) : NULL;
    if (!s->host) return false;
    CU(cuMemAlloc(&s->packed, 4ull * s->blocks));
    CU(cuEventCreate(&s->begin, CU_EVENT_DEFAULT));
    CU(cuEventCreate(&s->end, CU_EVENT_DEFAULT));
    return true;
}

static bool prepare(struct scatter *s)
{
    char *text = scatter_source(), name[32];
    CUmodule module;
    compile_all(1, &text, &module);
    free(text);
    for (int i = 0; module && i < WAYS * SHAPES; i++) {
        snprintf(name, sizeof name, "way%d_%d", i / SHAPES, each_of[i % SHAPES]);
        CU(cuModuleGetFunction(&s->kernel[i / SHAPES][i % SHAPES], module, name));
    }
    return module && allocate(s);
}

static void by_pitch(struct scatter *s)
{
    printf("%-24s %8s %8s %8s\n", "pitch, bytes", "load", "store", "exchange");
    for (unsigned pitch = 4; pitch <= PITCH_MOST; pitch *= 2)
        printf("%-24u %8.0f %8.0f %8.0f\n", pitch, time_of(s, &plain_load, pitch), time_of(s, &plain_store, pitch),
               time_of(s, &plain_exchange, pitch));
}

struct best {
    double us;
    struct way way;
};

static double keep(struct scatter *s, struct best best[2], const struct way *w)
{
    struct best *b = &best[!ways[w->number].pack];
    double us = time_of(s, w, PITCH);
    if (!b->us || us < b->us) *b = (struct best){ us, *w };
    return us;
}

static void by_shape(struct scatter *s, struct best best[2])
{
    printf("at %d bytes, by words a thread x threads a block\n%-24s", PITCH, "");
    for (int i = 0; i < SHAPES * SHAPES; i++) printf(" %4dx%-4u", each_of[i / SHAPES], threads_of[i % SHAPES]);
    for (int n = 0; n < WAYS; n++) {
        printf("\n%-24s", ways[n].name);
        for (int i = 0; i < SHAPES * SHAPES; i++) {
            struct way w = { n, i / SHAPES, i % SHAPES, 0 };
            check(s, &w);
            printf(" %9.0f", keep(s, best, &w));
        }
    }
    printf("\n");
}

/* Each order by every way, in the shapes that were best. */
static void by_order(struct scatter *s, struct best best[2])
{
    const struct way shape[2] = { best[0].way, best[1].way };
    printf("at %d bytes, by the bit that counts first\n%-24s", PITCH, "");
    for (int n = 0; n < WAYS; n++) printf(" %19s", ways[n].name);
    for (unsigned bit = 0; 2u << bit <= s->blocks; bit++) {
        printf("\n%-24u", bit);
        for (int n = 0; n < WAYS; n++) {
            struct way w = shape[!ways[n].pack];
            w.number = n, w.bit = bit;
            check(s, &w);
            printf(" %19.0f", keep(s, best, &w));
        }
    }
    printf("\n");
}

static void by_granularity(struct scatter *s, struct best best[2])
{
    size_t before;
    if (!cu.cuCtxSetLimit || !cu.cuCtxGetLimit || cu.cuCtxGetLimit(&before, CU_LIMIT_MAX_L2_FETCH_GRANULARITY)) return;
    printf("at %d bytes, by the L2's fetch granularity\n", PITCH);
    for (size_t bytes = 32; bytes <= 128; bytes *= 2) {
        if (cu.cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, bytes)) continue;
        const struct way pack = best[0].way, unpack = best[1].way;
        double load = keep(s, best, &pack), store = keep(s, best, &unpack);
        printf("%-24zu %8.0f %8.0f\n", bytes, load, store);
    }
    CU(cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, before));
}

int search_scatter_main(void)
{
    struct scatter s = { 0 };
    struct best best[2] = { 0 };
    if (!gpu_open(-1)) return 0;
    if (!prepare(&s)) return 1;
    printf("%s: %u words of 4 bytes, microseconds\n", cu.gpu, s.blocks);
    by_pitch(&s);
    by_shape(&s, best);
    by_order(&s, best);
    by_granularity(&s, best);
    for (int i = 0; i < 2; i++)
        printf("best %s: %.0f, by %s, %d words a thread, %u threads, bit %u\n", i ? "unpack" : "pack", best[i].us,
               ways[best[i].way.number].name, each_of[best[i].way.each], threads_of[best[i].way.threads],
               best[i].way.bit);
    return 0;
}
