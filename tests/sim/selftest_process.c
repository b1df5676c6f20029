/* selftest_process.c: what another process shows: accesses that kill, memory shared by IPC, forks. */
#include "selftest.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char harmless_source[] = "extern \"C\" __global__ void good(char *p) { p[0] = 1; }";

static CUresult create_context(CUcontext *out)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(out, NULL, 0, 1);
#else
    return cuCtxCreate(out, 0, 1);
#endif
}

static void scenario_touch(void)
{
    CUdeviceptr p;
    start();
    cuMemAlloc(&p, 64);
    *(volatile char *)(uintptr_t)p = 1;
}

static void scenario_touch_freed(void)
{
    CUdeviceptr p;
    start();
    cuMemAlloc(&p, 64);
    cuMemFree(p);
    *(volatile char *)(uintptr_t)p = 1;
}

/* Adds one to each of the exporter's 100 bytes. */
static void scenario_ipc(void)
{
    CUipcMemHandle h;
    CUdeviceptr p;
    unsigned char bytes[100];
    if (read(0, &h, sizeof h) != sizeof h) exit(2);
    start();
    if (cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) exit(3);
    if (cuMemcpyDtoH(bytes, p, sizeof bytes)) exit(4);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i]++;
    if (cuMemcpyHtoD(p, bytes, sizeof bytes)) exit(5);
    if (cuMemcpyHtoD(p + 1, bytes, sizeof bytes) != CUDA_ERROR_INVALID_VALUE) exit(6);
    if (cuIpcCloseMemHandle(p) || cuIpcCloseMemHandle(p) != CUDA_ERROR_INVALID_VALUE) exit(7);
    exit(0);
}

/* Allocations that had the same memory in turn: small ones open only in turn, large ones beside each other. */
static void scenario_ipc_again(void)
{
    CUipcMemHandle h[4];
    CUdeviceptr p, q;
    unsigned char byte[2];
    if (read(0, h, sizeof h) != sizeof h) exit(2);
    start();
    if (cuIpcOpenMemHandle(&p, h[0], 1) || cuIpcOpenMemHandle(&q, h[0], 1) || p != q) exit(3);
    if (cuIpcOpenMemHandle(&q, h[1], 1) != CUDA_ERROR_ALREADY_MAPPED || cuIpcCloseMemHandle(p)) exit(4);
    if (cuIpcOpenMemHandle(&q, h[1], 1) != CUDA_ERROR_ALREADY_MAPPED || cuIpcCloseMemHandle(p)) exit(5);
    if (cuIpcOpenMemHandle(&q, h[1], 1) || cuIpcOpenMemHandle(&p, h[0], 1) != CUDA_ERROR_ALREADY_MAPPED) exit(6);
    if (cuIpcCloseMemHandle(q) || cuIpcCloseMemHandle(q) != CUDA_ERROR_INVALID_VALUE) exit(7);
    if (cuIpcOpenMemHandle(&p, h[2], 1) || cuIpcOpenMemHandle(&q, h[3], 1) || p == q) exit(8);
    exit(cuMemcpyDtoH(&byte[0], p, 1) || cuMemcpyDtoH(&byte[1], q, 1) || byte[0] == 7 || byte[1] != 7 ? 9 : 0);
}

/* Contexts of two devices open the same memory; two of one device don't. */
static void scenario_ipc_contexts(void)
{
    CUipcMemHandle h;
    CUcontext second, other;
    CUdeviceptr p, q, r;
    if (read(0, &h, sizeof h) != sizeof h) exit(2);
    start();
    if (cuIpcOpenMemHandle(&p, h, 0) != CUDA_ERROR_INVALID_VALUE || cuIpcOpenMemHandle(&p, h, 1)) exit(3);
    if (cuDevicePrimaryCtxRetain(&second, 1) || cuCtxSetCurrent(second)) exit(4);
    if (cuIpcOpenMemHandle(&q, h, 1) || p == q) exit(4);
    if (create_context(&other) || cuIpcOpenMemHandle(&r, h, 1) != CUDA_ERROR_INVALID_HANDLE) exit(5);
    if (cuCtxSetCurrent(second) || cuIpcCloseMemHandle(q) || cuCtxSetCurrent(other)) exit(6);
    exit(cuIpcOpenMemHandle(&r, h, 1) || cuIpcCloseMemHandle(r) ? 7 : 0);
}

/* The exporter's event comes after its writing of fives; the own one after that of sixes. */
static void scenario_ipc_event(void)
{
    struct {
        CUipcMemHandle memory;
        CUipcEventHandle event;
    } h;
    CUdeviceptr p;
    CUevent e, again;
    CUstream s;
    unsigned char byte;
    if (read(0, &h, sizeof h) != sizeof h) exit(2);
    start();
    if (cuIpcOpenMemHandle(&p, h.memory, 1) || cuIpcOpenEventHandle(&e, h.event)) exit(3);
    if (cuIpcOpenEventHandle(&again, h.event)) exit(3);
    if (cuIpcGetEventHandle(&h.event, e) != CUDA_ERROR_INVALID_HANDLE) exit(4);
    if (cuEventQuery(e) != (eager ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY) || cuEventQuery(e)) exit(5);
    if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuStreamWaitEvent(s, again, 0) || cuEventDestroy(again)) exit(6);
    if (cuMemcpyDtoHAsync(&byte, p, 1, s) || cuStreamSynchronize(s) || byte != 5) exit(7);
    exit(cuMemsetD8Async(p, 6, 100, s) || cuEventRecord(e, s) || cuEventSynchronize(e) || cuEventDestroy(e) ? 8 : 0);
}

/* After a kernel's fault: what asks for nothing of the context still answers. */
static void scenario_fault(void)
{
    CUdeviceptr p;
    CUfunction f;
    CUevent e;
    CUcontext second, now;
    CUdevice device;
    unsigned type;
    setenv("SIMGPU_FAULT", "2", 1);
    CUcontext first = start();
    OK(cuMemAlloc(&p, 100));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuModuleGetFunction(&f, load_source(harmless_source, CUDA_SUCCESS), "good"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){&p}, NULL));
    OK(cuCtxSynchronize());
    CUresult launched = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){&p}, NULL);
    assert_int_equal(launched, CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemFree(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventSynchronize(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventDestroy(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    OK(cuPointerSetAttribute(&type, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    OK(cuCtxGetDevice(&device));
    OK(cuCtxSetCurrent(second));
    assert_int_equal(cuMemAlloc(&p, 100), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxRetain(&now, 0));
    assert_ptr_equal(now, first);
    OK(cuCtxSetCurrent(now));
    OK(cuMemAlloc(&p, 100));
    exit(0);
}

static void scenario_ipc_touch(void)
{
    CUipcMemHandle h;
    CUdeviceptr p;
    if (read(0, &h, sizeof h) != sizeof h) exit(2);
    start();
    if (!cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) *(volatile char *)(uintptr_t)p = 1;
}

static void scenario_words(void)
{
    CUipcMemHandle h;
    if (read(0, &h, sizeof h) != sizeof h) exit(2);
    scenario_ipc_words(&h);
}

static void scenario_overrun(void)
{
    scenario_kernel(overrun_source);
}

static void scenario_misaligned(void)
{
    scenario_kernel(misaligned_source);
}

static void scenario_wild(void)
{
    scenario_kernel(wild_source);
}

static void scenario_divergent(void)
{
    scenario_kernel(divergent_source);
}

static void scenario_stuck_warp(void)
{
    scenario_kernel(stuck_warp_source);
}

static void scenario_wild_after_barrier(void)
{
    scenario_kernel(wild_after_barrier_source);
}

static void scenario_misaligned_after_barrier(void)
{
    scenario_kernel(misaligned_after_barrier_source);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"touch", scenario_touch},     {"touch freed", scenario_touch_freed},
    {"ipc", scenario_ipc},         {"ipc touch", scenario_ipc_touch},
    {"ipc again", scenario_ipc_again},
    {"ipc contexts", scenario_ipc_contexts},
    {"ipc event", scenario_ipc_event},
    {"ipc words", scenario_words},
    {"fault", scenario_fault},
    {"overrun", scenario_overrun}, {"misaligned", scenario_misaligned},
    {"wild", scenario_wild},
    {"divergent", scenario_divergent},
    {"stuck warp", scenario_stuck_warp},
    {"wild after barrier", scenario_wild_after_barrier},
    {"misaligned after barrier", scenario_misaligned_after_barrier},
};

int scenario(const char *name)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp(name, scenarios[i].name)) scenarios[i].run();
    return 9;
}

int run_scenario(const char *name, const void *input, size_t bytes, char *text, size_t text_bytes)
{
    int in[2], err[2], status;
    assert_int_equal(pipe(in) | pipe(err), 0);
    pid_t pid = fork();
    if (!pid) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(in[0], 0);
        dup2(err[1], 2);
        close(in[1]);
        close(err[0]);
        execl(program, "selftest", name, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(err[1]);
    assert_int_equal(write(in[1], bytes ? input : "", bytes), bytes);
    close(in[1]);
    size_t got = 0;
    ssize_t n;
    while (got + 1 < text_bytes && (n = read(err[0], text + got, text_bytes - 1 - got)) > 0) got += (size_t)n;
    text[got] = '\0';
    close(err[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_exits(const char *name, const void *input, size_t bytes)
{
    char text[256];
    int status = run_scenario(name, input, bytes, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s: status %x: %s", name, status, text);
}

void test_host_access_dies(void **state)
{
    (void)state;
    char text[256];
    assert_int_not_equal(run_scenario("touch", NULL, 0, text, sizeof text), 0);
    assert_non_null(strstr(text, "the host touched device memory at"));
    assert_int_not_equal(run_scenario("touch freed", NULL, 0, text, sizeof text), 0);
    assert_non_null(strstr(text, "the host touched device memory at"));
}

void test_ipc(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    CUipcMemHandle h;
    unsigned char bytes[100], text[256];
    start();
    OK(cuMemAlloc(&p, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)i;
    OK(cuMemcpyHtoD(p, bytes, sizeof bytes));
    OK(cuCtxSynchronize());
    OK(cuIpcGetMemHandle(&h, p + 50));
    assert_int_equal(cuIpcOpenMemHandle(&q, h, 1), CUDA_ERROR_INVALID_CONTEXT);
    int status = run_scenario("ipc", &h, sizeof h, (char *)text, sizeof text);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    OK(cuMemcpyDtoH(bytes, p, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++) assert_int_equal(bytes[i], i + 1);
    assert_int_not_equal(run_scenario("ipc touch", &h, sizeof h, (char *)text, sizeof text), 0);
    assert_non_null(strstr((char *)text, "the host touched device memory at"));
    OK(cuMemFree(p));
}

/* Allocates memory, for its handle, and frees it. */
static CUdeviceptr allocate_once(size_t bytes, CUipcMemHandle *h)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    OK(cuIpcGetMemHandle(h, p));
    OK(cuMemFree(p));
    return p;
}

void test_ipc_of_a_place_used_again(void **state)
{
    (void)state;
    enum { SMALL = 64 << 10, LARGE = 4 << 20, BESIDE = 64 };
    CUdeviceptr beside[BESIDE], p, q;
    CUipcMemHandle h[4], again;
    int n = 0;
    start();
    setenv("SIMGPU_REUSE", "1", 1);
    /* Until the small ones lie beside another that keeps their block: then they have one handle. */
    do {
        OK(cuMemAlloc(&beside[n++], SMALL));
        p = allocate_once(SMALL, &h[0]), q = allocate_once(2 * SMALL, &h[1]);
        allocate_once(SMALL, &again);
    } while ((p != q || memcmp(&h[0], &again, sizeof again)) && n < BESIDE);
    assert_memory_equal(&h[0], &again, sizeof again);
    p = allocate_once(LARGE, &h[2]);
    OK(cuMemAlloc(&q, LARGE));
    assert_int_equal(p, q);
    OK(cuIpcGetMemHandle(&h[3], q + LARGE - 1));
    OK(cuMemsetD8(q, 7, LARGE));
    OK(cuCtxSynchronize());
    unsetenv("SIMGPU_REUSE");
    assert_exits("ipc again", h, sizeof h);
    OK(cuMemFree(q));
    while (n) OK(cuMemFree(beside[--n]));
}

void test_ipc_contexts(void **state)
{
    (void)state;
    CUdeviceptr p;
    CUipcMemHandle h;
    start();
    OK(cuMemAlloc(&p, 100));
    OK(cuIpcGetMemHandle(&h, p));
    assert_exits("ipc contexts", &h, sizeof h);
    OK(cuMemFree(p));
}

void test_ipc_events(void **state)
{
    (void)state;
    struct {
        CUipcMemHandle memory;
        CUipcEventHandle event;
    } h;
    CUdeviceptr p;
    CUevent e, plain;
    CUstream s;
    unsigned char byte;
    start();
    assert_int_equal(cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(cuIpcGetEventHandle(&h.event, plain), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(plain));
    OK(cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&h.event, e));
    OK(cuEventQuery(e));
    assert_int_equal(cuIpcOpenEventHandle(&plain, h.event), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemAlloc(&p, 100));
    OK(cuIpcGetMemHandle(&h.memory, p));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemsetD8Async(p, 5, 100, s));
    OK(cuEventRecord(e, s));
    assert_exits("ipc event", &h, sizeof h);
    assert_int_equal(cuEventQuery(e), eager ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(e));
    OK(cuMemcpyDtoH(&byte, p, 1));
    assert_int_equal(byte, 6);
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(s));
    OK(cuMemFree(p));
}

void test_fault_is_sticky(void **state)
{
    (void)state;
    assert_exits("fault", NULL, 0);
}

void test_forked_child_has_no_driver(void **state)
{
    (void)state;
    int status;
    start();
    pid_t pid = fork();
    if (!pid) {
        CUdeviceptr p;
        _exit(cuMemAlloc(&p, 1) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}
