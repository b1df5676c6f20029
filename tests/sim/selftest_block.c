/* selftest_block.c: threads that meet: barriers, shared memory, atomics. */
#include "selftest.h"
#include <string.h>

enum { TILE = 16, BLOCKS = 3, THREADS = 200 };

/* transpose: a tile of each block, twice, the second barrier keeping the tile until all have read it.
 * sums: a sum of each block's numbers, the last thirds of its threads gone before the barriers.
 * neighbour: through shared memory and the warp's barrier. fresh: shared memory when a block starts. */
static const char source[] =
    "struct alignas(16) cell { unsigned value; };\n"
    "template <class T> static __device__ void turn(T *to, const T *from)\n"
    "{\n"
    "    __shared__ alignas(16) cell tile[16][17];\n"
    "    for (int round = 0; round < 2; round++) {\n"
    "        const T *in = from + (2 * blockIdx.x + round) * 256;\n"
    "        tile[threadIdx.y][threadIdx.x].value = in[threadIdx.y * 16 + threadIdx.x];\n"
    "        __syncthreads();\n"
    "        to[(2 * blockIdx.x + round) * 256 + threadIdx.y * 16 + threadIdx.x] =\n"
    "            tile[threadIdx.x][threadIdx.y].value;\n"
    "        __syncthreads();\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void transpose(unsigned *to, const unsigned *from) { turn<unsigned>(to, from); }\n"
    "extern \"C\" __global__ void sums(unsigned long long *out, unsigned *arrived, int n)\n"
    "{\n"
    "    __shared__ unsigned long long part[256];\n"
    "    const int i = threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    part[i] = 1000 * blockIdx.x + i;\n"
    "    for (int half = 128; half; half /= 2) {\n"
    "        __syncthreads();\n"
    "        if (i < half && i + half < n) part[i] += part[i + half];\n"
    "    }\n"
    "    __threadfence();\n"
    "    if (!i) atomicAdd(out, part[0]);\n"
    "    atomicCAS(arrived + 1, 0u, 7u);\n"
    "    if (atomicAdd(arrived, 1u) + 1 == n * gridDim.x) atomicExch(arrived + 2, __CUDA_ARCH__);\n"
    "}\n"
    "extern \"C\" __global__ void neighbour(unsigned *out)\n"
    "{\n"
    "    __shared__ unsigned at[64];\n"
    "    at[threadIdx.x] = threadIdx.x * 3;\n"
    "    __syncwarp();\n"
    "    const unsigned next = at[threadIdx.x ^ 31];\n"
    "    __syncthreads();\n"
    "    out[threadIdx.x] = next + at[63 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void fresh(unsigned *out)\n"
    "{\n"
    "    __shared__ unsigned word;\n"
    "    out[blockIdx.x] = word;\n"
    "    word = 0;\n"
    "}\n";

const char divergent_source[] =
    "extern \"C\" __global__ void bad(char *p)\n"
    "{\n"
    "    if (threadIdx.x & 1)\n"
    "        __syncthreads();\n"
    "    else\n"
    "        __syncthreads();\n"
    "}\n";
const char stuck_warp_source[] =
    "extern \"C\" __global__ void bad(char *p) { if (threadIdx.x & 1) __syncthreads(); else __syncwarp(); }";
const char wild_after_barrier_source[] =
    "extern \"C\" __global__ void bad(char *p) { __syncthreads(); p[threadIdx.x << 20] = 1; }";
const char misaligned_after_barrier_source[] =
    "extern \"C\" __global__ void bad(char *p) { __syncthreads(); *(int *)(p + threadIdx.x) = 1; }";

static CUfunction get(CUmodule m, const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, m, name));
    return f;
}

static void test_transpose(CUmodule m)
{
    enum { N = 2 * BLOCKS * TILE * TILE };
    static unsigned in[N], out[N];
    CUdeviceptr from, to;
    for (unsigned i = 0; i < N; i++) in[i] = i * 2654435761u;
    OK(cuMemAlloc(&from, sizeof in));
    OK(cuMemAlloc(&to, sizeof in));
    OK(cuMemcpyHtoD(from, in, sizeof in));
    OK(cuLaunchKernel(get(m, "transpose"), BLOCKS, 1, 1, TILE, TILE, 1, 0, 0, (void *[]){&to, &from}, NULL));
    OK(cuMemcpyDtoH(out, to, sizeof in));
    for (int i = 0; i < N; i++) {
        int tile = i / 256, y = i % 256 / 16, x = i % 16;
        assert_int_equal(out[i], in[tile * 256 + x * 16 + y]);
    }
    OK(cuMemFree(from));
    OK(cuMemFree(to));
}

static void test_sums(CUmodule m, int n)
{
    unsigned long long sum = 0, expected = 0;
    unsigned arrived[3];
    CUdeviceptr out, words;
    OK(cuMemAlloc(&out, sizeof sum));
    OK(cuMemAlloc(&words, sizeof arrived));
    OK(cuMemsetD8(out, 0, sizeof sum));
    OK(cuMemsetD8(words, 0, sizeof arrived));
    OK(cuLaunchKernel(get(m, "sums"), BLOCKS, 1, 1, 256, 1, 1, 0, 0, (void *[]){&out, &words, &n}, NULL));
    OK(cuMemcpyDtoH(&sum, out, sizeof sum));
    OK(cuMemcpyDtoH(arrived, words, sizeof arrived));
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < n; i++) expected += (unsigned long long)(1000 * b + i);
    assert_int_equal(sum, expected);
    assert_int_equal(arrived[0], BLOCKS * n);
    assert_int_equal(arrived[1], 7);
    assert_int_equal(arrived[2], 800);   /* though compiled for sm_90 */
    OK(cuMemFree(out));
    OK(cuMemFree(words));
}

static void test_neighbours(CUmodule m)
{
    unsigned got[64];
    CUdeviceptr out;
    OK(cuMemAlloc(&out, sizeof got));
    OK(cuLaunchKernel(get(m, "neighbour"), 1, 1, 1, 64, 1, 1, 0, 0, (void *[]){&out}, NULL));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (unsigned i = 0; i < 64; i++) assert_int_equal(got[i], 3 * (i ^ 31) + 3 * (63 - i));
    OK(cuLaunchKernel(get(m, "fresh"), BLOCKS, 1, 1, 1, 1, 1, 0, 0, (void *[]){&out}, NULL));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (int i = 0; i < BLOCKS; i++) assert_int_equal(got[i], 0xA5A5A5A5);
    OK(cuMemFree(out));
}

void test_barriers(void **state)
{
    (void)state;
    start();
    CUmodule m = load_source(source, CUDA_SUCCESS);
    test_transpose(m);
    test_sums(m, 256);
    test_sums(m, THREADS);
    test_sums(m, 1);
    test_neighbours(m);
    OK(cuModuleUnload(m));
}

void test_barrier_faults(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"divergent", "a divergent barrier: thread 0 of a block waits for its block at line 6, "
                      "thread 1 for its block at line 4"},
        {"stuck warp", "a divergent barrier: thread 0 of a block waits for its warp"},
        {"wild after barrier", "cannot reach"},
        {"misaligned after barrier", "misaligned"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_not_equal(run_scenario(expected[i][0], NULL, 0, text, sizeof text), 0);
        assert_non_null(strstr(text, expected[i][1]));
    }
}
