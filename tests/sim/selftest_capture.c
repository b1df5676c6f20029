/* selftest_capture.c: graphs of captured work: launched often, destroyed early; and what can't be captured. */
#include "selftest.h"
#include "simgpu.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

static const char source[] = "extern \"C\" __global__ void add(unsigned char *p, int by) { p[threadIdx.x] += by; }\n";

enum { BYTES = 64, ROUNDS = 3 };

/* in, pinned, goes to `data`, whose bytes a kernel adds to, and on to out, pinned; `flag` says that all is there. */
struct fixture {
    CUmodule module;
    CUfunction add;
    CUstream stream;
    CUdeviceptr data, flag;
    unsigned char *in, *out;
};

static void open_fixture(struct fixture *f)
{
    start();
    f->module = load_source(source, CUDA_SUCCESS);
    OK(cuModuleGetFunction(&f->add, f->module, "add"));
    OK(cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&f->data, BYTES));
    OK(cuMemAlloc(&f->flag, 2 * sizeof(uint32_t)));
    OK(cuMemsetD8(f->flag, 0, 2 * sizeof(uint32_t)));
    OK(cuMemHostAlloc((void **)&f->in, BYTES, 0));
    OK(cuMemHostAlloc((void **)&f->out, BYTES, 0));
    memset(f->out, 0, BYTES);
    OK(cuCtxSynchronize());
}

static void close_fixture(struct fixture *f)
{
    OK(cuStreamDestroy(f->stream));
    OK(cuMemFree(f->data));
    OK(cuMemFree(f->flag));
    OK(cuMemFreeHost(f->in));
    OK(cuMemFreeHost(f->out));
    OK(cuModuleUnload(f->module));
}

/* Waits for the flag to be 1, and sets it to 0 at the end. What the launch is given is gone when it runs. */
static CUgraph capture(struct fixture *f)
{
    CUgraph graph;
    CUdeviceptr data = f->data;
    CUstreamCaptureStatus status;
    int by = 5;
    CUstreamBatchMemOpParams end = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = f->flag}};
    OK(cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamIsCapturing(f->stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamWaitValue32(f->stream, f->flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyHtoDAsync(f->data, f->in, BYTES, f->stream));
    OK(cuLaunchKernel(f->add, 1, 1, 1, BYTES - 1, 1, 1, 0, f->stream, (void *[]){&data, &by}, NULL));
    OK(cuMemsetD8Async(f->data + BYTES - 1, 9, 1, f->stream));
    OK(cuMemcpyDtoHAsync(f->out, f->data, BYTES, f->stream));
    OK(cuStreamBatchMemOp(f->stream, 1, &end, 0));
    OK(cuStreamEndCapture(f->stream, &graph));
    data = 0, by = 0, end.writeValue.address = 0;
    return graph;
}

static void check_out(const struct fixture *f, int from)
{
    for (int i = 0; i < BYTES - 1; i++) assert_int_equal(f->out[i], (unsigned char)(from + 5));
    assert_int_equal(f->out[BYTES - 1], 9);
}

void test_captured_work(void **state)
{
    (void)state;
    struct fixture f;
    struct simgpu_counts counts;
    CUgraphExec exec;
    CUstream other;
    open_fixture(&f);
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUgraph graph = capture(&f);
    OK(cuStreamSynchronize(f.stream));
    assert_int_equal(f.out[0], 0);   /* capturing runs nothing */
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    simgpu_reset();
    for (int round = 0; round < ROUNDS; round++) {
        OK(cuGraphLaunch(exec, round == 1 ? other : f.stream));
        memset(f.in, round * 10, BYTES);
        assert_int_equal(cuStreamQuery(round == 1 ? other : f.stream), CUDA_ERROR_NOT_READY);
        OK(cuStreamWriteValue32(round == 1 ? f.stream : other, f.flag, 1, 0));
        OK(cuCtxSynchronize());
        check_out(&f, round * 10);
    }
    simgpu_counts(&counts);
    assert_true(counts.launches == ROUNDS && counts.graph_launches == ROUNDS && !counts.copies);
    /* Two launches, of which the second waits for a flag that the first clears: it has not run twice at once. */
    memset(f.in, 70, BYTES);
    OK(cuGraphLaunch(exec, f.stream));
    OK(cuGraphLaunch(exec, other));
    OK(cuGraphExecDestroy(exec));
    assert_int_equal(cuGraphLaunch(exec, f.stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8(f.flag, 0, 4));
    OK(cuMemcpyHtoD(f.flag, &(uint32_t){1}, sizeof(uint32_t)));
    OK(cuStreamSynchronize(f.stream));
    check_out(&f, 70);
    memset(f.in, 80, BYTES);
    assert_int_equal(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    OK(cuMemcpyHtoD(f.flag, &(uint32_t){1}, sizeof(uint32_t)));
    OK(cuStreamDestroy(other));
    check_out(&f, 80);
    close_fixture(&f);
}

/* Captures by the runtime, whose handles are the driver's; an empty graph, and a stream destroyed while captured. */
void test_capture_by_the_runtime(void **state)
{
    (void)state;
    struct fixture f;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    enum cudaStreamCaptureStatus status;
    open_fixture(&f);
    memset(f.in, 3, BYTES);
    assert_int_equal(cudaStreamBeginCapture(f.stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    assert_int_equal(cudaStreamIsCapturing(f.stream, &status), cudaSuccess);
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    void *data = (void *)(uintptr_t)f.data;
    assert_int_equal(cudaMemcpyAsync(data, f.in, BYTES, cudaMemcpyHostToDevice, f.stream), cudaSuccess);
    assert_int_equal(cudaMemcpy2DAsync(f.out, 8, data, 16, 8, 4, cudaMemcpyDeviceToHost, f.stream), cudaSuccess);
    assert_int_equal(cudaStreamEndCapture(f.stream, &graph), cudaSuccess);
#if CUDART_VERSION >= 12000
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
#else
    assert_int_equal(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0), cudaSuccess);
#endif
    for (int round = 0; round < ROUNDS; round++) {
        memset(f.in, round + 1, BYTES);
        assert_int_equal(cudaGraphLaunch(exec, f.stream), cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(f.stream), cudaSuccess);
        assert_true(f.out[0] == round + 1 && f.out[31] == round + 1 && !f.out[32]);
    }
    assert_int_equal(cudaGraphExecDestroy(exec), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    OK(cuStreamBeginCapture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamEndCapture(f.stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, f.stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemcpyHtoDAsync(f.data, f.in, BYTES, f.stream));
    OK(cuStreamDestroy(f.stream));
    OK(cuStreamCreate(&f.stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamEndCapture(f.stream, &graph));
    OK(cuGraphDestroy(graph));
    close_fixture(&f);
}

static struct fixture *at;
static CUevent event;
static CUgraphExec of_before;
static unsigned char pageable[BYTES];

static CUresult by_record(void)
{
    return cuEventRecord(event, at->stream);
}

static CUresult by_wait(void)
{
    return cuStreamWaitEvent(at->stream, event, 0);
}

static CUresult by_graph(void)
{
    return cuGraphLaunch(of_before, at->stream);
}

static CUresult by_reading(void)
{
    return cuMemcpyHtoDAsync(at->data, pageable, BYTES, at->stream);
}

static CUresult by_writing(void)
{
    return cuMemcpyDtoHAsync(pageable, at->data, BYTES, at->stream);
}

static CUresult by_allocating(void)
{
    CUdeviceptr p;
    return cuMemAllocAsync(&p, 1, at->stream);
}

static CUresult by_freeing(void)
{
    return cuMemFreeAsync(at->data, at->stream);
}

static CUresult by_waiting(void)
{
    return cuStreamSynchronize(at->stream);
}

static CUresult by_asking(void)
{
    return cuStreamQuery(at->stream);
}

void test_what_is_not_captured(void **state)
{
    (void)state;
    static CUresult (*const call[])(void) = {by_record,     by_wait,    by_graph,   by_reading, by_writing,
                                             by_allocating, by_freeing, by_waiting, by_asking};
    struct fixture f;
    CUgraph graph, last;
    CUgraphNode node;
    CUcontext second;
    CUstreamCaptureStatus status;
    open_fixture(at = &f);
    OK(cuEventCreate(&event, 0));
    graph = capture(&f);
    OK(cuGraphInstantiateWithFlags(&of_before, graph, 0));
    assert_int_equal(cuGraphAddKernelNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_NOT_SUPPORTED);
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        OK(cuStreamBeginCapture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuMemcpyHtoDAsync(f.data, f.in, BYTES, f.stream));
        assert_int_equal(call[i](), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        OK(cuStreamIsCapturing(f.stream, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(cuStreamEndCapture(f.stream, &last), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_null(last);
    }
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    assert_int_equal(cuGraphLaunch(of_before, 0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cuGraphExecDestroy(of_before));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(event));
    close_fixture(&f);
}
