/* test_launch.c: how kernels are launched and waited for, and STRIDEC_ENGINE and STRIDEC_SM_LIMIT: what they make of
 * the calls to the driver, counted by the simulated GPU (its folder is on LD_LIBRARY_PATH), and the bytes. Settings are
 * read once a process, so that each case is this program again. */
#include "../../runtime/kernel/kernel_internal.h"
#include "../sim/simgpu.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { SPACE = 1 << 20 };

static const struct driver *driver;
static struct device *device;
static CUdeviceptr user_memory, packed_memory;
static _Thread_local uint64_t apart;   /* of the packed bytes from their memory: other arguments */
static unsigned char user[SPACE];
static void (*counts_now)(struct simgpu_counts *);

static bool start(void)
{
    CUcontext context;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !(*(void **)&counts_now = dlsym(library, "simgpu_counts"))) return false;
    driver = driver_get();
    if (!driver || driver->cuInit(0) || driver->cuDevicePrimaryCtxRetain(&context, 0) ||
        driver->cuCtxPushCurrent(context) || driver->cuMemAlloc(&user_memory, SPACE) ||
        driver->cuMemAlloc(&packed_memory, SPACE))
        return false;
    device = device_default();
    for (int i = 0; i < SPACE; i++) user[i] = (unsigned char)(i * 31 + i / 251);
    return device && !driver->cuMemcpyHtoDAsync(user_memory, user, SPACE, NULL) && !driver->cuStreamSynchronize(CU_STREAM_LEGACY);
}

/* What one pack did. */
struct pack {
    int result;
    bool right;
    enum kernel_way way;
    struct simgpu_counts counts; /* launches and syncs of the move and the wait alone */
};

static struct pack pack_on(struct stream *s, struct kernel *k, const struct tree *t)
{
    struct pack p = {.result = -1};
    struct simgpu_counts before;
    unsigned char *got = malloc((size_t)t->size);
    CUdeviceptr packed = packed_memory + apart;
    if (!got || t->size + (int64_t)apart > SPACE) abort();
    driver->cuMemsetD8Async(packed, 0, (size_t)t->size, NULL);
    driver->cuStreamSynchronize(CU_STREAM_LEGACY);
    struct kernel_job job = {KERNEL_PACK, packed, user_memory, t->high, 1, 0, t->size};
    counts_now(&before);
    p.result = kernel_move(k, device, s, &job, NULL, &p.way);
    if (stream_wait(device, s)) p.result = -1;
    counts_now(&p.counts);
    p.counts.launches -= before.launches, p.counts.graph_launches -= before.graph_launches;
    p.counts.copies -= before.copies, p.counts.copies_2d -= before.copies_2d, p.counts.syncs -= before.syncs;
    p.counts.arguments_set -= before.arguments_set;
    p.right = !driver->cuMemcpyDtoHAsync(got, packed, (size_t)t->size, stream_use(s)) && !stream_wait(device, s);
    for (int64_t i = 0; i < t->size && p.right; i++) {
        int64_t at = 0, in = i;
        for (const struct tree *n = t; n; n = n->kind == TREE_DENSE ? NULL : n->child) {
            at += n->off + (n->kind == TREE_DENSE ? in : in / n->child->size * n->step);
            if (n->kind != TREE_DENSE) in %= n->child->size;
        }
        p.right = got[i] == user[at];
    }
    free(got);
    return p;
}

/* A pack of `count` rows of 8 bytes, by the kernel made for them. */
static struct pack pack_rows(struct stream *s, int64_t count)
{
    struct reason why;
    struct tree *t = tree_stride(0, count, 24, tree_dense(0, 8, &why), &why);
    struct kernel *k = kernel_get(t, &why);
    kernel_wait(k);
    struct pack p = pack_on(s, k, t);
    kernel_put(k);
    tree_unref(t);
    return p;
}

static bool told(struct pack p, const char *what, bool expected)
{
    if (!expected || !p.right)
        fprintf(stderr, "%s: result %d, bytes %s, launches %d (graph %d), copies %d, syncs %d\n", what, p.result,
                p.right ? "right" : "wrong", (int)p.counts.launches, (int)p.counts.graph_launches, (int)p.counts.copies,
                (int)p.counts.syncs);
    return expected && p.right && p.result == 0;
}

/*
 * Cases: each true if all is well.
 */

/* A grid of few blocks tells its end itself: nobody asks the driver. */
static bool graphs_and_flags(struct stream *s)
{
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        struct pack small = pack_rows(s, 100 - i), some = pack_rows(s, 10000 - i), large = pack_rows(s, 40000);
        ok = told(some, "some blocks", some.counts.graph_launches == 1 && some.counts.launches == 1 &&
                                           some.counts.syncs == 0) && ok;
        ok = told(small, "one block", small.counts.graph_launches == 1 && small.counts.launches == 1 &&
                                          small.counts.syncs == 0) && ok;
        ok = told(large, "many blocks", large.counts.graph_launches == 1 && large.counts.launches == 1 &&
                                            large.counts.syncs == 1) && ok;
    }
    s->batched = true;
    struct pack batch = pack_rows(s, 100);
    return told(batch, "batched", batch.counts.syncs == 1) && ok;
}

/* Work that has not ended by the time is the driver's to wait for. */
static bool never_told(struct stream *s)
{
    struct pack p = pack_rows(s, 100);
    return told(p, "late", p.counts.syncs == 1);
}

/* What becomes of a kernel that never tells its end is what the driver says. */
static bool failing_wait(struct stream *s)
{
    struct reason why;
    struct tree *t = tree_stride(0, 10, 24, tree_dense(0, 8, &why), &why);
    struct kernel *k = kernel_get(t, &why);
    kernel_wait(k);
    setenv("SIMGPU_FAIL", "cuStreamSynchronize", 1);
    bool ok = pack_on(s, k, t).result == -1;
    unsetenv("SIMGPU_FAIL");
    kernel_put(k);
    tree_unref(t);
    return ok;
}

static bool without_graphs(struct stream *s)
{
    static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode", "cuGraphKernelNodeSetAttribute",
                                        "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    bool ok = true;
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); i++) {
        setenv("SIMGPU_FAIL", calls[i], 1);
        struct pack p = pack_rows(s, 200 + i);
        unsetenv("SIMGPU_FAIL");
        struct pack again = pack_rows(s, 200 + i); /* for good */
        ok = told(p, calls[i], p.counts.launches == 1 && p.counts.graph_launches == 0) && ok;
        ok = told(again, calls[i], again.counts.launches == 1 && again.counts.graph_launches == 0) && ok;
    }
    return ok;
}

/* Launches with the arguments of an earlier one, among a few others, set none; more of them change those of a graph. */
static bool arguments(struct stream *s)
{
    bool ok = true;
    for (int i = 0; i < 3 * MODULE_GRAPHS; i++) {
        apart = (uint64_t)(i % MODULE_GRAPHS) * 64;
        struct pack p = pack_rows(s, 300);
        ok = told(p, "launched again", p.counts.graph_launches == 1 && !p.counts.arguments_set) && ok;
    }
    apart = (uint64_t)MODULE_GRAPHS * 64;
    struct pack other = pack_rows(s, 300), again = pack_rows(s, 300);
    apart += 64;
    setenv("SIMGPU_FAIL", "cuGraphExecKernelNodeSetParams", 1);
    struct pack refused = pack_rows(s, 300);
    unsetenv("SIMGPU_FAIL");
    return told(other, "others", other.counts.graph_launches == 1 && other.counts.arguments_set == 1) &&
           told(again, "then the same", again.counts.graph_launches == 1 && !again.counts.arguments_set) &&
           told(refused, "refused", refused.counts.launches == 1 && refused.counts.graph_launches == 0) && ok;
}

static void *pack_often(void *shared)
{
    static atomic_int threads;
    bool *ok = shared;
    apart = (uint64_t)atomic_fetch_add(&threads, 1) * SPACE / 2;
    driver->cuCtxPushCurrent(device->context);
    struct stream *s = stream_get(device);
    for (int i = 0; i < 50 && *ok; i++) *ok = told(pack_rows(s, 64), "one of two threads", true);
    stream_put(device, s);
    return NULL;
}

static bool two_threads(struct stream *s)
{
    pthread_t thread[2];
    bool ok[2] = {true, true};
    (void)s;
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, pack_often, &ok[i]);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    return ok[0] && ok[1];
}

/* Whatever needs many blocks otherwise has one, and so tells its end. */
static bool one_multiprocessor(struct stream *s)
{
    struct pack p = pack_rows(s, 40000);
    return told(p, "limited", p.way == KERNEL_SPECIAL && p.counts.launches == 1 && p.counts.syncs == 0);
}

static bool by_copies(struct stream *s)
{
    struct reason why;
    struct tree *rows = tree_stride(0, 20, 64, tree_dense(0, 16, &why), &why);
    struct tree *cuboid = tree_stride(0, 30, 64 * 50, rows, &why);
    struct kernel *k = kernel_get(cuboid, &why);
    kernel_wait(k);
    struct pack one = pack_on(s, k, cuboid);
    kernel_put(k);
    tree_unref(cuboid);
    rows = tree_stride(0, 2, 64, tree_dense(0, 16, &why), &why);
    cuboid = tree_stride(0, 5000, 200, rows, &why); /* no whole rows from plane to plane: too many copies */
    k = kernel_get(cuboid, &why);
    kernel_wait(k);
    struct pack many = pack_on(s, k, cuboid);
    kernel_put(k);
    tree_unref(cuboid);
    return told(one, "cuboid", one.way == KERNEL_COPIES && one.counts.copies == 1 && one.counts.copies_2d == 1 &&
                                   one.counts.launches == 0) &&
           told(many, "many", many.way == KERNEL_SPECIAL && many.counts.launches == 1 && many.counts.copies == 0);
}

/* Contiguous bytes are a copy, but where kernels are asked for. */
static bool by_kernels(struct stream *s)
{
    struct reason why;
    struct tree *t = tree_dense(0, 3000, &why);
    struct kernel *k = kernel_get(t, &why);
    module_request(module_of(k, device));
    kernel_wait(k);
    struct pack p = pack_on(s, k, t);
    kernel_put(k);
    tree_unref(t);
    return told(p, "contiguous", p.way == KERNEL_SPECIAL && p.counts.launches == 1 && p.counts.copies == 0);
}

static const struct {
    const char *name;
    bool (*run)(struct stream *);
    const char *setting, *value; /* beside SIMGPU_EAGER=1 */
} cases[] = {
    {"graphs and flags", graphs_and_flags, "SIMGPU_EAGER", "1"},
    {"never told", never_told, "SIMGPU_EAGER", "0"},
    {"failing wait", failing_wait, "SIMGPU_EAGER", "0"},
    {"without graphs", without_graphs, "SIMGPU_EAGER", "1"},
    {"arguments", arguments, "SIMGPU_EAGER", "1"},
    {"two threads", two_threads, "SIMGPU_EAGER", "0"},
    {"one multiprocessor", one_multiprocessor, "STRIDEC_SM_LIMIT", "1"},
    {"by copies", by_copies, "STRIDEC_ENGINE", "copy"},
    {"by kernels", by_kernels, "STRIDEC_ENGINE", "kernel"},
};

static int run_case(const char *name)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, name)) continue;
        if (!start()) return 2;
        struct stream *s = stream_get(device);
        bool ok = s && cases[i].run(s);
        stream_put(device, s);
        kernel_finish();
        device_finish();
        return ok ? 0 : 1;
    }
    return 3;
}

static void in_process(void **state)
{
    size_t i = (size_t)(uintptr_t)*state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("SIMGPU_EAGER", "1", 1);
        setenv(cases[i].setting, cases[i].value, 1);
        execl("/proc/self/exe", "test_launch", cases[i].name, NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    enum { CASES = sizeof cases / sizeof *cases };
    struct CMUnitTest tests[CASES];
    char folder[] = "/tmp/stridec-launch-XXXXXX", command[64];
    if (argc > 1) return run_case(argv[1]);
    if (!mkdtemp(folder)) return 1;
    setenv("STRIDEC_CACHE_DIR", folder, 1);
    for (size_t i = 0; i < CASES; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, in_process, NULL, NULL, (void *)(uintptr_t)i};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
