/* selftest_order.c: when work runs: deferral, events, the legacy stream; pitched copies. */
#include "selftest.h"
#include "simgpu.h"
#include <string.h>

void test_work_is_deferred(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUstream s;
    unsigned char *pinned, pageable[64];
    start();
    OK(cuMemAlloc(&p, 64));
    OK(cuMemHostAlloc((void **)&pinned, 64, 0));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    memset(pinned, 0, 64);
    OK(cuMemsetD8Async(p, 7, 64, s));
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, p, 64, s));
    assert_int_equal(pinned[63], eager ? 7 : 0);
    assert_int_equal(cuStreamQuery(s), eager ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
    OK(cuStreamQuery(s));
    assert_int_equal(pinned[63], 7);
    memset(pageable, 1, 64);
    OK(cuMemcpyHtoDAsync(p, pageable, 64, s));   /* pageable: read at once */
    memset(pageable, 2, 64);
    OK(cuMemcpyDtoHAsync(pageable, p, 64, s));   /* pageable: there at once */
    assert_int_equal(pageable[0], 1);
    memset(pinned, 3, 64);
    OK(cuMemcpyHtoDAsync(p, pinned, 64, s));     /* pinned: read when it runs */
    memset(pinned, 4, 64);
    OK(cuMemcpyDtoHAsync(pageable, p, 64, s));
    assert_int_equal(pageable[0], eager ? 3 : 4);
    OK(cuStreamDestroy(s));
    assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemFree(p));
    OK(cuMemFreeHost(pinned));
}

void test_events_order_streams(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUstream a, b;
    CUevent e, f;
    unsigned char byte;
    float ms;
    start();
    OK(cuMemAlloc(&p, 1));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
    OK(cuEventQuery(e));
    OK(cuMemsetD8Async(p, 1, 1, a));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemsetD8Async(p, 2, 1, b));
    OK(cuEventRecord(f, b));
    OK(cuStreamDestroy(a));
    OK(cuEventSynchronize(f));
    OK(cuMemcpyDtoH(&byte, p, 1));
    assert_int_equal(byte, 2);
    OK(cuEventElapsedTime(&ms, e, e));
    assert_int_equal(cuEventElapsedTime(&ms, e, f), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(e));
    OK(cuEventDestroy(f));
    assert_int_equal(cuEventDestroy(f), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamDestroy(b));
    OK(cuMemFree(p));
}

/* A synchronous copy waits for blocking streams and not for the others. */
void test_legacy_stream(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    CUstream blocking, other;
    unsigned char byte;
    start();
    OK(cuMemAlloc(&p, 1));
    OK(cuMemAlloc(&q, 1));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD8Async(p, 1, 1, blocking));
    OK(cuMemsetD8Async(q, 1, 1, other));
    OK(cuMemcpyDtoH(&byte, p, 1));
    assert_int_equal(byte, 1);
    OK(cuMemcpyDtoH(&byte, q, 1));
    assert_int_equal(byte, eager ? 1 : 0xCD);
    OK(cuMemsetD8(p, 5, 1));   /* asynchronous, but before later work of blocking streams */
    OK(cuMemcpyDtoDAsync(q, p, 1, blocking));
    OK(cuStreamSynchronize(blocking));
    OK(cuMemcpyDtoH(&byte, q, 1));
    assert_int_equal(byte, 5);
    OK(cuStreamDestroy(blocking));
    OK(cuStreamDestroy(other));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}

void test_copies_2d(void **state)
{
    (void)state;
    enum { ROWS = 5, WIDTH = 3, PITCH = 16 };
    CUdeviceptr p;
    unsigned char in[ROWS * PITCH], out[ROWS * WIDTH];
    struct simgpu_counts counts;
    start();
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)i;
    OK(cuMemAlloc(&p, sizeof in));
    OK(cuMemcpyHtoD(p, in, sizeof in));
    simgpu_reset();
    CUDA_MEMCPY2D d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .srcPitch = PITCH, .srcXInBytes = 2,
                       .srcY = 1, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out, .dstPitch = WIDTH,
                       .WidthInBytes = WIDTH, .Height = ROWS - 1};
    OK(cuMemcpy2D(&d));
    for (int y = 0; y < ROWS - 1; y++)
        for (int x = 0; x < WIDTH; x++) assert_int_equal(out[y * WIDTH + x], (y + 1) * PITCH + 2 + x);
    simgpu_counts(&counts);
    assert_true(counts.copies == 1 && counts.copies_2d == 1 && counts.bytes_d2h == WIDTH * (ROWS - 1));
    d.Height = ROWS;   /* one row too many */
    assert_int_equal(cuMemcpy2DAsync(&d, 0), CUDA_ERROR_INVALID_VALUE);
    d.Height = 1;
    d.dstPitch = WIDTH - 1;
    assert_int_equal(cuMemcpy2DAsync(&d, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
}
