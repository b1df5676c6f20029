/* selftest_process.c: what another process shows: accesses that kill, memory shared by IPC, forks. */
#include "selftest.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Two allocations that had the same memory, one after the other: both open only in turn. */
static void scenario_ipc_again(void)
{
    CUipcMemHandle h[2];
    CUdeviceptr p, q;
    if (read(0, h, sizeof h) != sizeof h) exit(2);
    start();
    if (cuIpcOpenMemHandle(&p, h[0], 1) || cuIpcOpenMemHandle(&q, h[0], 1) || p != q) exit(3);
    if (cuIpcOpenMemHandle(&q, h[1], 1) != CUDA_ERROR_ALREADY_MAPPED || cuIpcCloseMemHandle(p)) exit(4);
    if (cuIpcOpenMemHandle(&q, h[1], 1) != CUDA_ERROR_ALREADY_MAPPED || cuIpcCloseMemHandle(p)) exit(5);
    exit(cuIpcOpenMemHandle(&q, h[1], 1) || cuIpcCloseMemHandle(q) ? 6 : 0);
}

static void scenario_ipc_touch(void)
{
    CUipcMemHandle h;
    CUdeviceptr p;
    if (read(0, &h, sizeof h) != sizeof h) exit(2);
    start();
    if (!cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) *(volatile char *)(uintptr_t)p = 1;
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

void test_ipc_of_a_place_used_again(void **state)
{
    (void)state;
    size_t free_bytes, total;
    CUdeviceptr p, q;
    CUipcMemHandle h[2];
    char text[256];
    start();
    OK(cuMemGetInfo(&free_bytes, &total));
    OK(cuMemAlloc(&p, free_bytes / 4 * 3));   /* so long that the next one lies there too, in part at least */
    OK(cuIpcGetMemHandle(&h[0], p));
    OK(cuMemFree(p));
    OK(cuMemAlloc(&q, free_bytes / 4 * 3));
    OK(cuIpcGetMemHandle(&h[1], q));
    int status = run_scenario("ipc again", h, sizeof h, text, sizeof text);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    OK(cuMemFree(q));
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
