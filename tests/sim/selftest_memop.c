/* selftest_memop.c: stream memory operations: what they write, wait for and refuse. */
#include "selftest.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { WORDS = 4 };

static CUstreamBatchMemOpParams write_of(CUdeviceptr at, uint32_t value)
{
    return (CUstreamBatchMemOpParams){
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = at, .value = value}};
}

static CUstreamBatchMemOpParams wait_for(CUdeviceptr at, uint32_t value)
{
    return (CUstreamBatchMemOpParams){.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = at,
                                                    .value = value, .flags = CU_STREAM_WAIT_VALUE_EQ}};
}

static CUdeviceptr zeroes(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    OK(cuMemsetD8(p, 0, bytes));
    OK(cuCtxSynchronize());
    return p;
}

static uint32_t word_at(CUdeviceptr p)
{
    uint32_t word;
    OK(cuMemcpyDtoH(&word, p, sizeof word));
    return word;
}

static CUstream stream(void)
{
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

/* Writes, then waits, in device and in pinned memory; a question never waits. */
void test_memory_operations(void **state)
{
    (void)state;
    _Atomic uint32_t *pinned;
    start();
    OK(cuMemHostAlloc((void **)&pinned, sizeof *pinned, 0));
    *pinned = 0;
    CUdeviceptr p = zeroes(WORDS * sizeof(uint32_t)), q = p + 4, host = (CUdeviceptr)(uintptr_t)pinned;
    CUstream s = stream();
    CUstreamBatchMemOpParams batch[] = {write_of(p, 5), wait_for(p, 5), write_of(q, 6), write_of(host, 7)};
    OK(cuStreamBatchMemOp(s, 4, batch, 0));
    batch[0] = write_of(p, 99);   /* what was enqueued is the driver's */
    assert_int_equal(*pinned, eager ? 7 : 0);
    OK(cuStreamSynchronize(s));
    assert_true(word_at(p) == 5 && word_at(q) == 6 && *pinned == 7);
    OK(cuStreamWaitValue32(s, host, 8, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue32(s, q, 9, CU_STREAM_WRITE_VALUE_DEFAULT));
    for (int i = 0; i < 3; i++) assert_int_equal(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    assert_int_equal(word_at(q), 6);
    *pinned = 8;
    OK(cuStreamSynchronize(s));
    assert_int_equal(word_at(q), 9);
    /* The order of values is cyclic. */
    OK(cuStreamWriteValue32(s, p, 3, 0));
    OK(cuStreamWaitValue32(s, p, 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWaitValue32(s, p, 3, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamSynchronize(s));
    OK(cuStreamWaitValue32(s, p, 4, CU_STREAM_WAIT_VALUE_GEQ));
    assert_int_equal(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    OK(cuMemcpyHtoD(p, &(uint32_t){4}, sizeof(uint32_t)));
    OK(cuStreamDestroy(s));
    OK(cuMemFree(p));
    OK(cuMemFreeHost((void *)pinned));
}

struct waiter {
    CUcontext context;
    CUstream stream;
    atomic_bool asks;
    CUresult result;
};

static void *synchronize(void *argument)
{
    struct waiter *w = argument;
    CUresult r = cuCtxSetCurrent(w->context);
    w->asks = true;
    w->result = r ? r : cuStreamSynchronize(w->stream);
    return NULL;
}

static pthread_t begin_wait(struct waiter *w)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, synchronize, w), 0);
    while (!w->asks) sched_yield();
    return t;
}

/* Two streams that wait for each other by turns, of which one is asked, by the only thread; then a thread that waits
 * while this one goes on, and waits for the same stream. A copy writes as well as a memory operation. */
void test_waits_between_streams(void **state)
{
    (void)state;
    struct waiter w = {.context = start()};
    CUdeviceptr x = zeroes(WORDS * sizeof(uint32_t)), y = x + 4, last = x + 8;
    CUstream a = stream(), b = stream();
    CUstreamBatchMemOpParams here[] = {wait_for(x, 1), write_of(y, 1), wait_for(x, 2), write_of(y, 2)};
    CUstreamBatchMemOpParams there[] = {write_of(x, 1), wait_for(y, 1), write_of(x, 2), wait_for(y, 2),
                                        write_of(last, 3)};
    OK(cuStreamBatchMemOp(a, 4, here, 0));
    OK(cuStreamBatchMemOp(b, 5, there, 0));
    OK(cuStreamSynchronize(a));
    assert_true(word_at(x) == 2 && word_at(y) == 2);
    OK(cuStreamSynchronize(b));
    assert_int_equal(word_at(last), 3);
    OK(cuStreamWaitValue32(a, x, 7, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue32(a, last, 8, 0));
    w.stream = a;
    pthread_t t = begin_wait(&w);
    assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    assert_int_equal(word_at(last), 3);
    OK(cuStreamWriteValue32(b, x, 7, 0));
    OK(cuStreamSynchronize(b));
    OK(cuStreamSynchronize(a));
    pthread_join(t, NULL);
    OK(w.result);
    assert_int_equal(word_at(last), 8);
    OK(cuStreamWaitValue32(a, x, 9, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyHtoDAsync(x, &(uint32_t){9}, sizeof(uint32_t), b));
    OK(cuStreamSynchronize(a));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFree(x));
}

struct noted {
    atomic_int go;
    int calls;
};

static void CUDA_CB notes(void *data)
{
    struct noted *n = data;
    while (!n->go) sched_yield();
    n->calls++;
}

/* A function of the host holds up its own stream alone; in a graph it is called by each launch. */
void test_host_functions(void **state)
{
    (void)state;
    struct noted n = {0};
    CUgraph graph;
    CUgraphExec exec;
    start();
    CUdeviceptr p = zeroes(WORDS * sizeof(uint32_t));
    CUstream a = stream(), b = stream();
    OK(cuLaunchHostFunc(a, notes, &n));
    OK(cuStreamWriteValue32(a, p, 1, 0));
    assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(b, p + 4, 2, 0));
    OK(cuStreamSynchronize(b));
    assert_true(word_at(p) == 0 && word_at(p + 4) == 2);
    n.go = 1;
    OK(cuStreamSynchronize(a));
    assert_true(word_at(p) == 1 && n.calls == 1);
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchHostFunc(a, notes, &n));
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++) OK(cuGraphLaunch(exec, a));
    OK(cuStreamSynchronize(a));
    assert_int_equal(n.calls, 3);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    assert_int_equal(cuLaunchHostFunc(a, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuMemFree(p));
}

/* The order of blocking streams, of events, and of the legacy stream holds behind a value that has not come. */
void test_waits_keep_order(void **state)
{
    (void)state;
    CUevent e;
    start();
    CUdeviceptr p = zeroes(WORDS * sizeof(uint32_t));
    CUstream a = stream(), b = stream(), blocking, writer = stream();
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamWaitValue32(blocking, p, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemsetD8Async(p + 4, 1, 1, 0));
    OK(cuEventRecord(e, 0));
    OK(cuStreamWaitEvent(a, e, 0));
    OK(cuMemcpyDtoDAsync(p + 8, p + 4, 1, a));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuEventQuery(e), CUDA_ERROR_NOT_READY);
        assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    }
    OK(cuMemcpyDtoDAsync(p + 12, p + 8, 1, b));   /* of no such order */
    OK(cuStreamSynchronize(b));
    OK(cuStreamWriteValue32(writer, p, 1, 0));
    OK(cuStreamSynchronize(a));
    OK(cuEventQuery(e));
    assert_true(word_at(p + 8) == 1 && word_at(p + 12) == 0);
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
    OK(cuStreamDestroy(blocking));
    OK(cuStreamDestroy(writer));
    OK(cuMemFree(p));
}

struct freeing {
    CUcontext context;
    CUdeviceptr memory;
    const _Atomic uint32_t *behind;   /* the wait */
    uint32_t seen;
    _Atomic bool asks;
};

static void *free_memory(void *of)
{
    struct freeing *f = of;
    OK(cuCtxSetCurrent(f->context));
    f->asks = true;
    OK(cuMemFree(f->memory));
    f->seen = *f->behind;
    return NULL;
}

/* SIMGPU_HOLD: a call that frees returns when a stream that waits has gone on. What it waits for, the host sets without
 * a call. */
void test_waits_hold(void **state)
{
    (void)state;
    pthread_t t;
    CUdeviceptr word;
    _Atomic uint32_t *host;
    struct freeing f = {.context = start()};
    CUstream s = stream();
    OK(cuMemAlloc(&f.memory, 4));
    OK(cuMemHostAlloc((void **)&host, 8, 0));
    OK(cuMemHostGetDevicePointer(&word, host, 0));
    host[0] = 0;
    host[1] = 0;
    f.behind = host + 1;
    OK(cuStreamWaitValue32(s, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue32(s, word + 4, 3, 0));
    setenv("SIMGPU_HOLD", "1", 1);
    assert_int_equal(pthread_create(&t, NULL, free_memory, &f), 0);
    while (!f.asks) sched_yield();
    host[0] = 1;
    pthread_join(t, NULL);
    unsetenv("SIMGPU_HOLD");
    assert_int_equal(f.seen, 3);
    OK(cuStreamDestroy(s));
    OK(cuMemFreeHost((void *)host));
}

/* Tells the exporter, and waits for its answer. */
void scenario_ipc_words(const CUipcMemHandle *h)
{
    CUdeviceptr p;
    CUstream s;
    start();
    if (cuIpcOpenMemHandle(&p, *h, 1) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)) exit(3);
    CUstreamBatchMemOpParams batch[] = {write_of(p, 1), wait_for(p + 4, 2)};
    if (cuStreamBatchMemOp(s, 2, batch, 0) || cuStreamSynchronize(s)) exit(4);
    CUstreamBatchMemOpParams behind = wait_for(p + WORDS * sizeof(uint32_t), 0);
    if (cuStreamBatchMemOp(s, 1, &behind, 0) != CUDA_ERROR_INVALID_VALUE) exit(5);
    exit(cuIpcCloseMemHandle(p) ? 6 : 0);
}

void test_waits_between_processes(void **state)
{
    (void)state;
    struct waiter w = {.context = start(), .stream = stream()};
    CUdeviceptr p = zeroes(WORDS * sizeof(uint32_t));
    CUipcMemHandle h;
    char text[256];
    OK(cuIpcGetMemHandle(&h, p));
    CUstreamBatchMemOpParams batch[] = {wait_for(p, 1), write_of(p + 4, 2), write_of(p + 8, 3)};
    OK(cuStreamBatchMemOp(w.stream, 3, batch, 0));
    pthread_t t = begin_wait(&w);
    int status = run_scenario("ipc words", &h, sizeof h, text, sizeof text);
    pthread_join(t, NULL);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("status %x: %s", status, text);
    OK(w.result);
    assert_int_equal(word_at(p + 8), 3);
    OK(cuStreamDestroy(w.stream));
    OK(cuMemFree(p));
}

void test_memory_operations_refused(void **state)
{
    (void)state;
    enum { MOST = 256 };
    static uint32_t pageable;
    CUstreamBatchMemOpParams batch[MOST + 1];
    CUdeviceptr managed, freed;
    int able;
    start();
    CUdeviceptr p = zeroes(MOST * sizeof(uint32_t));
    CUstream s = stream();
    OK(cuMemAllocManaged(&managed, 4, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&freed, 4));
    OK(cuMemFree(freed));
    for (uint32_t i = 0; i <= MOST; i++) batch[i] = write_of(p + i % MOST * 4, i);
    assert_int_equal(cuStreamBatchMemOp(s, MOST + 1, batch, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp(s, 1, batch, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp(s, 1, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp((CUstream)(void *)&s, 1, batch, 0), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamBatchMemOp(s, MOST, batch, 0));
    OK(cuStreamSynchronize(s));
    assert_int_equal(word_at(p + 255 * 4), 255);
    const CUdeviceptr bad[] = {0, p + 1, p + 2, p + MOST * 4, managed, freed, (CUdeviceptr)(uintptr_t)&pageable};
    batch[0] = write_of(p, 77);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(cuStreamWriteValue32(s, bad[i], 0, 0), CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(cuStreamWaitValue32(s, bad[i], 0, 0), CUDA_ERROR_INVALID_VALUE);
        batch[1] = write_of(bad[i], 0);
        assert_int_equal(cuStreamBatchMemOp(s, 2, batch, 0), CUDA_ERROR_INVALID_VALUE);
    }
    batch[1].operation = CU_STREAM_MEM_OP_BARRIER;
    assert_int_equal(cuStreamBatchMemOp(s, 2, batch, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuStreamWaitValue32(s, p, 0, CU_STREAM_WAIT_VALUE_AND), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuStreamSynchronize(s));
    assert_int_equal(word_at(p), 0);   /* all of a call, or nothing */
    OK(cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
    assert_int_equal(able, 1);
    setenv("SIMGPU_MEM_OPS", "0", 1);
    OK(cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
    assert_int_equal(able, 0);
    assert_int_equal(cuStreamBatchMemOp(s, 1, batch, 0), CUDA_ERROR_NOT_SUPPORTED);
    unsetenv("SIMGPU_MEM_OPS");
    OK(cuStreamDestroy(s));
    OK(cuMemFree(managed));
    OK(cuMemFree(p));
}
