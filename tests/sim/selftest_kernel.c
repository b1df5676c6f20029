/* selftest_kernel.c: compiling, loading and running kernels on the simulated GPU, and making things fail. */
#include "selftest.h"
#include "simgpu.h"
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct launch {
    uint64_t packed, user;
    int64_t extent, begin, end;
};

/* Kernels made by a macro, with the argument struct by value. */
static const char source[] =
    "struct launch { unsigned long long packed, user; long long extent, begin, end; };\n"
    "#define COPY(W, T) \\\n"
    "extern \"C\" __global__ void __launch_bounds__(256) pack_w##W(const struct launch a) \\\n"
    "{ \\\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x; \\\n"
    "    if (i < (a.end - a.begin) / W) \\\n"
    "        __stcs((T *)a.packed + i, __ldcs((const T *)(a.user + i * a.extent))); \\\n"
    "}\n"
    "COPY(16, uint4)\n"
    "COPY(1, unsigned char)\n"
    "extern \"C\" __global__ void add(int *p, int by) { atomicity: p[threadIdx.x] += by; }\n";

const char overrun_source[] = "extern \"C\" __global__ void bad(char *p) { p[100] = 1; }";
const char misaligned_source[] = "extern \"C\" __global__ void bad(char *p) { *(uint4 *)(p + 4) = uint4(); }";
const char wild_source[] = "extern \"C\" __global__ void bad(char *p) { p[1 << 20] = 1; }";

static void *compile_source(const char *text, const char *arch, nvrtcResult expected)
{
    nvrtcProgram p;
    size_t bytes;
    char *image = NULL;
    const char *options[] = {arch, "--std=c++17"};
    assert_int_equal(nvrtcCreateProgram(&p, text, "kernel.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    assert_int_equal(nvrtcCompileProgram(p, 2, options), expected);
    if (!expected) {
        assert_int_equal(nvrtcGetCUBINSize(p, &bytes), NVRTC_SUCCESS);
        image = malloc(bytes);
        assert_int_equal(nvrtcGetCUBIN(p, image), NVRTC_SUCCESS);
    }
    assert_int_equal(nvrtcDestroyProgram(&p), NVRTC_SUCCESS);
    return image;
}

CUmodule load_source(const char *text, CUresult expected)
{
    CUmodule m = NULL;
    void *image = compile_source(text, "--gpu-architecture=sm_90", NVRTC_SUCCESS);
    assert_int_equal(cuModuleLoadData(&m, image), expected);
    free(image);
    return m;
}

void scenario_kernel(const char *text)
{
    CUdeviceptr p;
    CUfunction f;
    start();
    OK(cuMemAlloc(&p, 100));
    OK(cuModuleGetFunction(&f, load_source(text, CUDA_SUCCESS), "bad"));
    OK(cuLaunchKernel(f, 1, 1, 1, 2, 1, 1, 0, 0, (void *[]){&p}, NULL));
    OK(cuCtxSynchronize());
}

void test_kernel_faults(void **state)
{
    (void)state;
    char text[512];
    assert_int_not_equal(run_scenario("overrun", NULL, 0, text, sizeof text), 0);
    assert_non_null(strstr(text, "wrote 1 bytes behind the end"));
    assert_int_not_equal(run_scenario("misaligned", NULL, 0, text, sizeof text), 0);
    assert_non_null(strstr(text, "misaligned"));
    assert_int_not_equal(run_scenario("wild", NULL, 0, text, sizeof text), 0);
    assert_non_null(strstr(text, "cannot reach"));
}

void test_kernel(void **state)
{
    (void)state;
    enum { N = 300 };
    CUfunction f;
    CUdeviceptr user, packed;
    unsigned char in[N * 32], out[N * 16];
    struct simgpu_counts counts;
    start();
    CUmodule m = load_source(source, CUDA_SUCCESS);
    OK(cuModuleGetFunction(&f, m, "pack_w16"));
    OK(cuMemAlloc(&user, sizeof in));
    OK(cuMemAlloc(&packed, sizeof out));
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(i * 7 + i / 32);
    OK(cuMemcpyHtoD(user, in, sizeof in));
    struct launch a = {packed, user, 32, 0, sizeof out};
    simgpu_reset();
    OK(cuLaunchKernel(f, 2, 1, 1, 256, 1, 1, 0, 0, (void *[]){&a}, NULL));
    simgpu_counts(&counts);
    assert_int_equal(counts.launches, 1);
    OK(cuMemcpyDtoH(out, packed, sizeof out));
    for (int i = 0; i < N; i++) assert_memory_equal(out + 16 * i, in + 32 * i, 16);
    assert_int_equal(cuModuleGetFunction(&f, m, "absent"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunction(&f, m, "pack_w1"));
    assert_int_equal(cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, 0, (void *[]){&a}, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, 0, (void *[]){&a}, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleUnload(m));
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){&a}, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(user));
    OK(cuMemFree(packed));
}

void test_kernel_arguments_are_copied(void **state)
{
    (void)state;
    CUfunction f;
    CUdeviceptr p;
    int by = 5, value;
    start();
    CUmodule m = load_source(source, CUDA_SUCCESS);
    OK(cuModuleGetFunction(&f, m, "add"));
    OK(cuMemAlloc(&p, sizeof value));
    OK(cuMemsetD8(p, 0, sizeof value));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){&p, &by}, NULL));
    by = 9;
    OK(cuMemcpyDtoH(&value, p, sizeof value));
    assert_int_equal(value, 5);
    OK(cuModuleUnload(m));
    OK(cuMemFree(p));
}

void test_module_of_another_context(void **state)
{
    (void)state;
    CUfunction f;
    CUcontext second, first = start();
    CUstream s;
    CUdeviceptr p;
    int by = 1;
    CUmodule m = load_source(source, CUDA_SUCCESS);
    OK(cuModuleGetFunction(&f, m, "add"));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    OK(cuMemAlloc(&p, 4));
    OK(cuStreamCreate(&s, 0));
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &by}, NULL), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPopCurrent(NULL));
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &by}, NULL), CUDA_ERROR_INVALID_HANDLE);
    /* A peer's memory is in reach once access is enabled; without it the launch would die. */
    OK(cuCtxEnablePeerAccess(second, 0));
    assert_int_equal(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_int_equal(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){&p, &by}, NULL));
    OK(cuCtxSynchronize());
    OK(cuCtxDisablePeerAccess(second));
    OK(cuModuleUnload(m));
    OK(cuDevicePrimaryCtxRelease(1));
}

void test_bad_images(void **state)
{
    (void)state;
    CUmodule m;
    start();
    char *image = compile_source(source, "-arch=sm_80", NVRTC_SUCCESS);
    assert_int_equal(cuModuleLoadData(&m, image), CUDA_ERROR_NO_BINARY_FOR_GPU);
    image[2000] ^= 1;
    assert_int_equal(cuModuleLoadData(&m, image), CUDA_ERROR_INVALID_IMAGE);
    image[9] = 0;   /* as a real cubin: no mark of the simulator's */
    assert_int_equal(cuModuleLoadData(&m, image), CUDA_ERROR_NO_BINARY_FOR_GPU);
    memset(image, 0, 16);
    assert_int_equal(cuModuleLoadData(&m, image), CUDA_ERROR_INVALID_IMAGE);
    free(image);
}

void test_compile_errors(void **state)
{
    (void)state;
    nvrtcProgram p;
    size_t bytes;
    const char *options[] = {"--gpu-architecture=sm_90"};
    assert_int_equal(nvrtcCreateProgram(&p, "int x = ;", "broken.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    assert_int_equal(nvrtcCompileProgram(p, 1, options), NVRTC_ERROR_COMPILATION);
    assert_int_equal(nvrtcGetProgramLogSize(p, &bytes), NVRTC_SUCCESS);
    char *log = malloc(bytes);
    assert_int_equal(nvrtcGetProgramLog(p, log), NVRTC_SUCCESS);
    assert_non_null(strstr(log, "broken.cu:1"));
    free(log);
    assert_int_equal(nvrtcGetCUBINSize(p, &bytes), NVRTC_ERROR_INVALID_PROGRAM);
    assert_int_equal(nvrtcDestroyProgram(&p), NVRTC_SUCCESS);
    compile_source(source, "--gpu-architecture=sm_12", NVRTC_ERROR_INVALID_OPTION);
    setenv("SIMGPU_NVRTC_FAIL", "1", 1);
    compile_source(source, "--gpu-architecture=sm_90", NVRTC_ERROR_COMPILATION);
    unsetenv("SIMGPU_NVRTC_FAIL");
    char log_path[] = "/tmp/simgpu-log-XXXXXX", line[64];
    FILE *file = fdopen(mkstemp(log_path), "r");
    setenv("SIMGPU_NVRTC_LOG", log_path, 1);
    setenv("SIMGPU_CXX", "/nonexistent/c++", 1);
    compile_source(source, "--gpu-architecture=sm_90", NVRTC_ERROR_COMPILATION);
    unsetenv("SIMGPU_CXX");
    unsetenv("SIMGPU_NVRTC_LOG");
    assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(strncmp(line, "kernel.cu ", 10), 0);
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
    remove(log_path);
}

void test_injected_failures(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    CUstream s;
    start();
    setenv("SIMGPU_FAIL", "cuStreamCreate,cuMemAlloc:2", 1);
    OK(cuMemAlloc(&p, 1));
    assert_int_equal(cuMemAlloc(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&q, 1));
    assert_int_equal(cuStreamCreate(&s, 0), CUDA_ERROR_OUT_OF_MEMORY);
    unsetenv("SIMGPU_FAIL");
    OK(cuStreamCreate(&s, 0));
    OK(cuStreamDestroy(s));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}
