/* selftest_graph.c: graphs of one kernel, and copies of three dimensions. */
#include "selftest.h"
#include "simgpu.h"
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "extern \"C\" __global__ void push(int *p, int digit) { if (!threadIdx.x) *p = *p * 10 + digit; }\n";

struct fixture {
    CUmodule module;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr p;
    int digit;
    void *arguments[2];
    CUDA_KERNEL_NODE_PARAMS parameters;
};

static void open_graph(struct fixture *f)
{
    start();
    memset(f, 0, sizeof *f);
    f->module = load_source(source, CUDA_SUCCESS);
    f->digit = 1;
    f->arguments[0] = &f->p;
    f->arguments[1] = &f->digit;
    f->parameters = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32,
                                              .blockDimY = 1, .blockDimZ = 1, .kernelParams = f->arguments};
    OK(cuModuleGetFunction(&f->parameters.func, f->module, "push"));
    OK(cuMemAlloc(&f->p, sizeof(int)));
    OK(cuMemsetD8(f->p, 0, sizeof(int)));
    OK(cuCtxSynchronize());
    OK(cuGraphCreate(&f->graph, 0));
    OK(cuGraphAddKernelNode(&f->node, f->graph, NULL, 0, &f->parameters));
    OK(cuGraphInstantiateWithFlags(&f->exec, f->graph, 0));
}

static void close_graph(struct fixture *f)
{
    OK(cuGraphExecDestroy(f->exec));
    OK(cuGraphDestroy(f->graph));
    OK(cuMemFree(f->p));
    OK(cuModuleUnload(f->module));
}

/* Launches in two streams that keep what they were given, in the order in which they were made. */
void test_graph_launches(void **state)
{
    (void)state;
    struct fixture f;
    struct simgpu_counts counts;
    CUstream a, b;
    int got;
    open_graph(&f);
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    simgpu_reset();
    for (f.digit = 2; f.digit <= 5; f.digit++) {
        OK(cuGraphLaunch(f.exec, f.digit & 1 ? a : b));
        OK(cuGraphExecKernelNodeSetParams(f.exec, f.node, &f.parameters));
    }
    simgpu_counts(&counts);
    assert_true(counts.launches == 4 && counts.graph_launches == 4);
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH(&got, f.p, sizeof got));
    assert_int_equal(got, 1234);
    OK(cuGraphLaunch(f.exec, b));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemcpyDtoH(&got, f.p, sizeof got));
    assert_int_equal(got, 12345);
    close_graph(&f);
}

void test_graph_errors(void **state)
{
    (void)state;
    struct fixture f;
    CUgraphNode node;
    CUgraphExec exec;
    CUcontext second;
    CUkernelNodeAttrValue value = {.priority = -3};
    open_graph(&f);
    CUgraphExec bad = (CUgraphExec)(void *)&f;
    OK(cuGraphKernelNodeSetAttribute(f.node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value));
    value.priority = 0;
    OK(cuGraphKernelNodeGetAttribute(f.node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(value.priority, -3);
    assert_int_equal(cuGraphKernelNodeSetAttribute(NULL, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddKernelNode(&node, f.graph, NULL, 0, &f.parameters), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, f.graph, 1 << 20), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphLaunch(bad, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphExecDestroy(bad), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphLaunch(f.exec, (CUstream)(void *)&f), CUDA_ERROR_INVALID_HANDLE);
    f.parameters.blockDimX = 2048;
    assert_int_equal(cuGraphExecKernelNodeSetParams(f.exec, f.node, &f.parameters), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphExecKernelNodeSetParams(f.exec, NULL, &f.parameters), CUDA_ERROR_INVALID_VALUE);
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    assert_int_equal(cuGraphLaunch(f.exec, 0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(1));
    setenv("SIMGPU_FAIL", "cuGraphLaunch:1,cuGraphInstantiateWithFlags,cuGraphExecKernelNodeSetParams", 1);
    assert_int_equal(cuGraphLaunch(f.exec, 0), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    OK(cuGraphLaunch(f.exec, 0));
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, f.graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuGraphExecKernelNodeSetParams(f.exec, f.node, &f.parameters), CUDA_ERROR_UNKNOWN);
    unsetenv("SIMGPU_FAIL");
    close_graph(&f);
    assert_int_equal(cuGraphDestroy(f.graph), CUDA_ERROR_INVALID_VALUE);
}

enum { W = 5, H = 3, D = 4, PITCH = 12, ROWS = 6, SLICES = 7, BOX = PITCH * ROWS * SLICES };

static CUDA_MEMCPY3D box_copy(CUmemorytype from_type, void *from, CUmemorytype to_type, void *to)
{
    CUDA_MEMCPY3D d = {.srcXInBytes = 2, .srcY = 1, .srcZ = 3, .srcPitch = PITCH, .srcHeight = ROWS, .dstXInBytes = 1,
                       .dstY = 3, .dstZ = 2, .dstPitch = PITCH, .dstHeight = ROWS, .WidthInBytes = W, .Height = H,
                       .Depth = D, .srcMemoryType = from_type, .dstMemoryType = to_type};
    d.srcHost = from_type == CU_MEMORYTYPE_HOST ? from : NULL;
    d.srcDevice = from_type == CU_MEMORYTYPE_HOST ? 0 : (CUdeviceptr)(uintptr_t)from;
    d.dstHost = to_type == CU_MEMORYTYPE_HOST ? to : NULL;
    d.dstDevice = to_type == CU_MEMORYTYPE_HOST ? 0 : (CUdeviceptr)(uintptr_t)to;
    return d;
}

static void check_box(CUmemorytype from_type, void *from, CUmemorytype to_type, void *to)
{
    unsigned char in[BOX], expected[BOX], out[BOX];
    struct simgpu_counts counts;
    for (int i = 0; i < BOX; i++) in[i] = (unsigned char)(i * 7 + 1);
    memset(expected, 0x55, BOX);
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                expected[((2 + z) * ROWS + 3 + y) * PITCH + 1 + x] = in[((3 + z) * ROWS + 1 + y) * PITCH + 2 + x];
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)from, (CUdeviceptr)(uintptr_t)in, BOX));
    memset(out, 0x55, BOX);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)out, BOX));
    simgpu_reset();
    CUDA_MEMCPY3D d = box_copy(from_type, from, to_type, to);
    OK(cuMemcpy3DAsync(&d, 0));
    simgpu_counts(&counts);
    assert_true(counts.copies == 1 && counts.copies_2d == 1);
    OK(cuCtxSynchronize());
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)out, (CUdeviceptr)(uintptr_t)to, BOX));
    assert_memory_equal(out, expected, BOX);
}

void test_copies_3d(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    static unsigned char host[BOX];
    start();
    OK(cuMemAlloc(&p, BOX));
    OK(cuMemAlloc(&q, BOX));
    void *device = (void *)(uintptr_t)p, *other = (void *)(uintptr_t)q;
    check_box(CU_MEMORYTYPE_DEVICE, device, CU_MEMORYTYPE_HOST, host);
    check_box(CU_MEMORYTYPE_HOST, host, CU_MEMORYTYPE_DEVICE, device);
    check_box(CU_MEMORYTYPE_UNIFIED, device, CU_MEMORYTYPE_UNIFIED, other);
    check_box(CU_MEMORYTYPE_UNIFIED, host, CU_MEMORYTYPE_UNIFIED, device);
    const CUDA_MEMCPY3D good = box_copy(CU_MEMORYTYPE_UNIFIED, device, CU_MEMORYTYPE_UNIFIED, other);
    CUDA_MEMCPY3D bad[8] = {good, good, good, good, good, good, good, good};
    bad[0].srcPitch = W + 1;         /* X offset and width do not fit */
    bad[1].dstHeight = H + 2;
    bad[2].Depth = SLICES;           /* reaches behind the allocation */
    bad[3].srcHeight = 0;
    bad[4].dstMemoryType = CU_MEMORYTYPE_ARRAY;
    bad[5].srcZ = (size_t)1 << 62;   /* overflows */
    bad[6].reserved0 = host;
    bad[7].dstMemoryType = CU_MEMORYTYPE_DEVICE;
    bad[7].dstDevice = (CUdeviceptr)(uintptr_t)host;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(cuMemcpy3DAsync(&bad[i], 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}
