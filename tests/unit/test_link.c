/* test_link.c: bytes from layouts into layouts, many at once and in pairs, against a naive enumeration, on the
 * simulated GPU (its folder is on LD_LIBRARY_PATH), and the launches that it takes. TEST_SEED=N tries other layouts. */
#include "trees.h"
#include "../../runtime/base/spinlock.h"
#include "../../runtime/kernel/typed_copy_internal.h"
#include "../sim/simgpu.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGION = 1 << 15, JOBS = 60, SPACE = REGION * JOBS, MARGIN = 32, TYPES = 24 };

static const struct driver *driver;
static struct device *device;
static struct stream *stream;
static CUdeviceptr memory[2];   /* where jobs read, which is another device's, and where they write */
static unsigned char held[2][SPACE], result[SPACE];
static void (*counts_now)(struct simgpu_counts *);
static bool compiles = true;

/* Memory of device `ordinal`, whose context is made current. */
static CUdeviceptr memory_of(CUdevice ordinal, CUcontext *context)
{
    CUdeviceptr p = 0;
    assert_int_equal(driver->cuDevicePrimaryCtxRetain(context, ordinal), CUDA_SUCCESS);
    assert_int_equal(driver->cuCtxPushCurrent(*context), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemAlloc(&p, SPACE), CUDA_SUCCESS);
    return p;
}

static int setup(void **state)
{
    CUcontext context[2];
    __typeof__(cuCtxEnablePeerAccess) *enable;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    (void)state;
    if (!library || !(*(void **)&counts_now = dlsym(library, "simgpu_counts")) || !(driver = driver_get())) return -1;
    *(void **)&enable = dlsym(library, "cuCtxEnablePeerAccess");
    if (driver->cuInit(0)) return -1;
    memory[0] = memory_of(1, &context[0]);
    memory[1] = memory_of(0, &context[1]);
    device = device_default();
    stream = device && enable && !enable(context[0], 0) ? stream_get(device) : NULL;
    return stream ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    stream_put(device, stream);
    for (int i = 0; i < 2; i++) driver->cuMemFree(memory[i]);
    typed_copy_finish();
    kernel_finish();
    device_finish();
    return 0;
}

/*
 * Layouts.
 */

/* A side, and the offset of each of its bytes from the origin. */
struct end {
    struct tree *tree;
    struct kernel *kernel;
    int64_t extent, count, low, high;
    struct bytes at;
    bool overlaps;
};

static void survey(struct end *e)
{
    static unsigned char seen[4 * REGION];
    e->low = e->high = e->at.count ? e->at.at[0] : 0;
    for (int64_t i = 0; i < e->at.count; i++) {
        e->low = e->at.at[i] < e->low ? e->at.at[i] : e->low;
        e->high = e->at.at[i] >= e->high ? e->at.at[i] + 1 : e->high;
    }
    e->overlaps = false;
    if (e->high - e->low > (int64_t)sizeof seen) return;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < e->at.count; i++) e->overlaps |= seen[e->at.at[i] - e->low]++ > 0;
}

static void lay_out(struct end *e)
{
    struct bytes one = {0};
    e->at.count = 0;
    if (e->tree) one = bytes_of_tree(e->tree);
    for (int64_t i = 0; i < e->count; i++)
        for (int64_t j = 0; j < (e->tree ? one.count : 1); j++)
            bytes_add(&e->at, e->tree ? i * e->extent + one.at[j] : i);
    free(one.at);
    survey(e);
}

/* Types live through a test: their kernels are made in the background. */
static struct tree *types[TYPES];
static struct kernel *kernels[TYPES];

static void type_set(int i, struct tree *built)
{
    types[i] = made(tree_canonical(built, &trees_why));
    kernels[i] = kernel_get(types[i], &trees_why);
    assert_non_null(kernels[i]);
    tree_unref(built);
}

static void types_free(void)
{
    for (int i = 0; i < TYPES; i++) {
        tree_unref(types[i]);
        kernel_put(kernels[i]);
        types[i] = NULL, kernels[i] = NULL;
    }
}

static struct tree *random_strides(int depth, int64_t unit)
{
    if (!depth) return made(tree_dense(0, unit * random_from(1, 6), &trees_why));
    struct tree *child = random_strides(depth - 1, unit);
    int64_t span = child->high - child->low, step = span + unit * random_from(0, 5);
    return made(tree_stride(0, random_from(1, 5), random_from(0, 3) ? step : -step, child, &trees_why));
}

/* The same counts and blocks, whatever the seed: what an exchange has on both sides. */
static struct tree *cuboid(int64_t unit, int64_t row, int64_t plane)
{
    struct tree *rows = made(tree_stride(0, 5, row * unit, made(tree_dense(0, 3 * unit, &trees_why)), &trees_why));
    return made(tree_stride(unit * random_from(0, 3), 4, plane * unit, rows, &trees_why));
}

static struct tree *random_list(int64_t unit)
{
    struct tree *part[40];
    int64_t at = 0, n = random_from(2, 40), lengths = random_from(1, 3);
    for (int64_t i = 0; i < n; i++) {
        part[i] = made(tree_dense(at, unit * random_from(1, lengths), &trees_why));
        at += part[i]->size + unit * random_from(0, 4);
    }
    return made(tree_seq(0, n, part, &trees_why));
}

static void random_types(bool strided)
{
    for (int i = 0; i < TYPES; i++) {
        int64_t unit = (int64_t)1 << random_from(0, 4);
        int kind = (int)random_from(0, strided ? 1 : 3);
        type_set(i, kind == 0 ? cuboid(unit, random_from(4, 7), random_from(40, 50))
                    : kind == 1 ? random_strides((int)random_from(0, 3), unit)
                    : kind == 2 ? random_list(unit) : random_tree(3));
    }
}

static bool fits(const struct end *e)
{
    return e->at.count == 0 || (e->high - e->low < REGION - 2 * MARGIN && !e->overlaps);
}

/* Type number `type`, or -1 for packed bytes; count elements, or any. */
static struct end end_of(int type, int64_t count)
{
    struct end e = {.count = count ? count : random_from(1, 6)};
    if (type < 0) {
        e.count = count ? count : random_from(1, 600);
        lay_out(&e);
        return e;
    }
    const struct tree *t = types[type];
    int64_t span = t->high - t->low, going = t->kind == TREE_STRIDE ? t->count * t->step : t->size;
    int64_t extents[] = {span, span + random_from(0, 40), -span - 8, going, span + 16};
    e.tree = types[type], e.kernel = kernels[type];
    e.extent = extents[random_from(0, 4)];
    lay_out(&e);
    while (!fits(&e)) {
        e.extent = span ? span : 1;
        if (e.count == 1) e.at.count = 0;   /* overlaps by itself */
        else e.count--;
        if (e.at.count) lay_out(&e);
    }
    return e;
}

/*
 * Jobs.
 */

struct work {
    struct typed_copy_job job[JOBS];
    struct end end[JOBS][2];
    int64_t origin[JOBS][2];
    int n;
};

/* A job in region number w->n of both memories: all bytes that both have, or a part. */
static void add(struct work *w, struct end from, struct end to, bool whole)
{
    struct typed_copy_job *job = &w->job[w->n];
    struct end *end = w->end[w->n];
    int64_t all = from.at.count < to.at.count ? from.at.count : to.at.count;
    end[0] = from, end[1] = to;
    struct typed_copy_side *side[2] = {&job->from, &job->to};
    for (int i = 0; i < 2; i++) {
        const struct tree *t = end[i].tree;
        int64_t shift = random_from(0, 2) ? 0 : random_from(0, 15);
        int64_t origin = w->n * REGION + MARGIN + (end[i].at.count ? -end[i].low : 0) + shift;
        if (random_from(0, 2)) origin += (16 - origin % 16) % 16 - (origin % 16 ? 16 : 0) + shift / 8 * 8;
        if (origin + end[i].low < w->n * REGION) origin += 16;
        w->origin[w->n][i] = origin;
        *side[i] = (struct typed_copy_side){t, end[i].kernel, memory[i] + (uint64_t)(origin + (t ? t->off : 0)),
                                      end[i].extent, end[i].count};
    }
    job->bytes = whole || all == 0 ? all : random_from(0, all);
    w->n++;
}

static void work_free(struct work *w)
{
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < 2; j++) free(w->end[i][j].at.at);
    w->n = 0;
}

static void fill_both(void)
{
    for (int m = 0; m < 2; m++) {
        for (int i = 0; i < SPACE; i += 8) {
            int64_t v = random_from(INT64_MIN / 2, INT64_MAX / 2 - 1);
            memcpy(&held[m][i], &v, 8);
        }
        assert_int_equal(driver->cuMemcpyHtoDAsync(memory[m], held[m], SPACE, stream_use(stream)), CUDA_SUCCESS);
    }
    assert_int_equal(stream_wait(device, stream), 0);
}

/* Moves it, looks at every byte, and returns what the driver was asked for. */
static struct simgpu_counts check(struct work *w)
{
    struct typed_copy_batch batch = {0};
    struct simgpu_counts before, after;
    int launches = 0;
    fill_both();
    counts_now(&before);
    assert_int_equal(typed_copy_move(&batch, device, stream, w->job, w->n, &launches), 0);
    assert_int_equal(stream_wait(device, stream), 0);
    counts_now(&after);
    typed_copy_end(&batch);
    for (int i = 0; i < w->n; i++)
        for (int64_t b = 0; b < w->job[i].bytes; b++)
            held[1][w->origin[i][1] + w->end[i][1].at.at[b]] = held[0][w->origin[i][0] + w->end[i][0].at.at[b]];
    for (int m = 0; m < 2; m++) {
        assert_int_equal(driver->cuMemcpyDtoHAsync(result, memory[m], SPACE, stream_use(stream)), CUDA_SUCCESS);
        assert_int_equal(stream_wait(device, stream), 0);
        assert_memory_equal(result, held[m], SPACE);
    }
    after.launches -= before.launches, after.copies -= before.copies, after.syncs -= before.syncs;
    /* Beside what was told: what layouts keep on the device, once. */
    assert_in_range(after.launches + after.copies, launches, launches + 2 * w->n);
    return after;
}

static struct typed_copy_job any_job(void)
{
    return (struct typed_copy_job){.bytes = 0};
}

/*
 * Tests.
 */

enum { N = 18, R = 2, SIDE = N + 2 * R };   /* of a cube: its inside, its halo, both */

/* A face, as a cuboid of 4-byte cells at `at`. */
static struct end face(const int64_t size[3])
{
    struct tree *row = made(tree_dense(0, 4 * size[2], &trees_why));
    struct tree *plane = made(tree_stride(0, size[1], SIDE * 4, row, &trees_why));
    struct tree *built = made(tree_stride(0, size[0], SIDE * SIDE * 4, plane, &trees_why));
    struct end e = {.tree = made(tree_canonical(built, &trees_why)), .count = 1};
    tree_unref(built);
    e.kernel = kernel_get(e.tree, &trees_why);
    lay_out(&e);
    return e;
}

static void add_face(struct work *w, const int64_t where[3])
{
    struct typed_copy_job *job = &w->job[w->n];
    int64_t size[3], at[2] = {0, 0};
    for (int d = 0; d < 3; d++) {
        size[d] = where[d] ? R : N;
        at[0] = at[0] * SIDE + (where[d] > 0 ? N : R);
        at[1] = at[1] * SIDE + (where[d] < 0 ? 0 : where[d] > 0 ? N + R : R);
    }
    for (int i = 0; i < 2; i++) {
        struct end e = w->end[w->n][i] = face(size);
        w->origin[w->n][i] = at[i] * 4;
        *(i ? &job->to : &job->from) = (struct typed_copy_side){e.tree, e.kernel, memory[i] + (uint64_t)at[i] * 4, 0, 1};
    }
    job->bytes = w->end[w->n++][0].at.count;
}

/* The 26 faces, edges and corners, from a cube's inside into the halo of another. */
static void faces(void **state)
{
    static struct work w;
    struct typed_copy_job none = any_job();
    (void)state;
    typed_copy_wait(device, &none, 1);
    for (int f = 0; f < 27; f++)
        if (f != 13) add_face(&w, (const int64_t[]){f / 9 - 1, f / 3 % 3 - 1, f % 3 - 1});
    for (int i = 0; i < 3; i++) {
        struct simgpu_counts did = check(&w);
        assert_int_equal(did.launches, 1);
        assert_int_equal(did.copies, 0);
    }
    for (int i = 0; i < w.n; i++) {
        for (int j = 0; j < 2; j++) {
            kernel_put(w.end[i][j].kernel);
            tree_unref(w.end[i][j].tree);
        }
    }
    work_free(&w);
}

/* Chains of strides of one shape, with steps, places and counts of their own, and packed bytes: one launch, and where
 * they are more than its argument holds, one copy. */
static void lists(void **state)
{
    static struct work w;
    struct typed_copy_job none = any_job();
    (void)state;
    typed_copy_wait(device, &none, 1);
    for (int round = 0; round < 30; round++) {
        int n = round % 3 ? (int)random_from(2, 26) : (int)random_from(2, JOBS);
        int64_t unit = (int64_t)1 << random_from(0, 4);
        for (int i = 0; i < TYPES; i++) type_set(i, cuboid(unit, random_from(4, 7), random_from(40, 50)));
        while (w.n < n) {
            int from = (int)random_from(-8, TYPES - 1), to = (int)random_from(-8, TYPES - 1);
            int64_t all = 60 * unit * random_from(1, 3);
            add(&w, end_of(from < 0 ? -1 : from, from < 0 ? all : all / (60 * unit)),
                end_of(to < 0 ? -1 : to, to < 0 ? all : all / (60 * unit)), random_from(0, 2) > 0);
            if (w.job[w.n - 1].bytes == 0) w.job[w.n - 1].bytes = 1;
        }
        struct simgpu_counts did = check(&w);
        assert_int_equal(did.launches, 1);
        assert_in_range(did.copies, 0, n > 19);
        work_free(&w);
        types_free();
    }
}

/* Whatever there is, while its kernels are being made: more than one are one launch. */
static void anything(void **state)
{
    static struct work w;
    struct typed_copy_job none = any_job();
    (void)state;
    typed_copy_wait(device, &none, 1);
    for (int round = 0; round < 12; round++) {
        random_types(round % 3 == 0);
        for (int again = 0; again < 4; again++) {
            int n = (int)random_from(1, JOBS);
            while (w.n < n)
                add(&w, end_of((int)random_from(-3, TYPES - 1), 0), end_of((int)random_from(-3, TYPES - 1), 0),
                    random_from(0, 1));
            int some = 0;
            for (int i = 0; i < w.n; i++) some += w.job[i].bytes > 0;
            uint64_t launches = check(&w).launches;
            if (compiles && some > 1) assert_int_equal(launches, 1);
            work_free(&w);
        }
        types_free();
    }
}

static bool served_by_pair(const struct typed_copy_job *job)
{
    struct kernel *k = typed_copy_pair_get(job);
    bool ready = k && module_stage(module_of(k, device)) == STAGE_READY;
    kernel_put(k);
    return ready;
}

/* Two layouts that are both irregular, or chains: a launch of their own, or two where words leave a rest. */
static void pairs(void **state)
{
    static struct work w;
    (void)state;
    for (int round = 0; round < 3; round++) {
        random_types(false);
        for (int i = 0; i < 10; i++) {
            int from = (int)random_from(0, TYPES - 1), to = i % 3 ? (int)random_from(0, TYPES - 1) : from;
            if (typed_copy_is_plain(&(struct typed_copy_side){.tree = types[from]}, INT64_MAX)) continue;
            for (int again = 0; again < 8; again++) {
                add(&w, end_of(from, 0), end_of(to, 0), again % 2);
                bool both = w.job[0].bytes > 0 && !typed_copy_is_plain(&w.job[0].from, w.job[0].bytes)
                            && !typed_copy_is_plain(&w.job[0].to, w.job[0].bytes);
                if (both) typed_copy_wait(device, w.job, 1);
                struct simgpu_counts did = check(&w);
                if (both) {
                    struct stridec_link told[NEST_LINKS];
                    if (!typed_copy_nest(w.job, 0, told)) assert_true(served_by_pair(w.job));
                    assert_in_range(did.launches, 1, 2);
                    assert_in_range(did.copies, 0, again ? 0 : 2);
                }
                work_free(&w);
            }
        }
        types_free();
    }
}

/* Chains of strides have no module of their own, however long they are. */
static void large(void **state)
{
    static struct work w;
    struct typed_copy_job none = any_job();
    (void)state;
    typed_copy_wait(device, &none, 1);
    type_set(0, made(tree_stride(0, 8192, 160, made(tree_dense(0, 136, &trees_why)), &trees_why)));
    type_set(1, made(tree_stride(0, 16384, 80, made(tree_dense(0, 68, &trees_why)), &trees_why)));
    for (int i = 0; i < 3; i++) {
        add(&w, end_of(i % 2, 1), end_of(1, 1), i != 1);
        if (w.job[0].bytes <= 1 << 20) w.job[0].bytes = (1 << 20) + 4;
        typed_copy_wait(device, w.job, 1);
        struct simgpu_counts did = check(&w);
        assert_false(served_by_pair(w.job));
        assert_in_range(did.launches, 1, 2);
        assert_int_equal(did.copies, 0);
        work_free(&w);
    }
    types_free();
}

/* Nothing waits for a pair: its first moves go another way. One block tells its end. */
static void ways(void **state)
{
    static struct work w;
    struct typed_copy_job none = any_job();
    (void)state;
    typed_copy_wait(device, &none, 1);
    for (int i = 0; i < TYPES; i++) type_set(i, cuboid(4, 4 + i, 160));
    for (int i = 0; i < 2; i++) kernel_wait(kernels[i]);
    for (int i = 0; i < 3; i++) {
        add(&w, end_of(0, 1), end_of(1, 1), true);
        if (i == 2) typed_copy_wait(device, w.job, 1);
        struct simgpu_counts did = check(&w);
        assert_int_equal(did.launches, 1);
        assert_int_equal(did.syncs, 0);
        work_free(&w);
    }
    add(&w, end_of(2, 1), end_of(-1, 240), true);
    kernel_wait(kernels[2]);
    assert_int_equal(check(&w).launches, 1);
    work_free(&w);
    types_free();
}

/* Two lists, whose pair is new, are one launch from the first move on. */
static void new_pair(void **state)
{
    static struct work w;
    struct typed_copy_job none = any_job();
    int64_t at[2][200];
    (void)state;
    typed_copy_wait(device, &none, 1);
    for (int i = 0; i < 200; i++)
        for (int side = 0; side < 2; side++)
            at[side][i] = i ? at[side][i - 1] + 4 * random_from(2, 9) : 0;
    for (int side = 0; side < 2; side++)
        type_set(side, made(tree_index(0, 200, at[side], made(tree_dense(0, 4, &trees_why)), &trees_why)));
    add(&w, end_of(0, 1), end_of(1, 1), false);
    assert_false(served_by_pair(w.job));
    for (int again = 0; again < 3; again++) assert_int_equal(check(&w).launches, 1);
    work_free(&w);
    types_free();
}

enum { NESTS = 16, NEST_BLOCK = 32, NEST_BLOCKS = 64, NEST_ROUNDS = 200000 };
static struct tree *nests[NESTS];

/* Nests of these layouts, from any block on, are as they must be. */
static void *describe(void *own)
{
    uint64_t seed = (uint64_t)(uintptr_t)own;
    bool ok = true;
    for (int i = 0; i < NEST_ROUNDS && ok; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int which = (int)(seed >> 33) % NESTS;
        int64_t begin = (int64_t)(seed >> 40) % NEST_BLOCKS * NEST_BLOCK;
        struct stridec_link link[NEST_LINKS];
        struct typed_copy_job job = {.from = {.tree = nests[which], .user = 1 << 20, .extent = 1 << 16},
                                     .to = {.user = 2 << 20},
                                     .bytes = nests[which]->size};
        int n = typed_copy_nest(&job, begin, link), levels = (int)(link->code >> 20 & 7), log = (int)(link->code >> 23);
        ok = n == 1 && (int64_t)link->words << log == job.bytes - begin &&
             (levels < 2 || (int64_t)link->step[levels - 1][0] << log == nests[which]->step);
    }
    return ok ? own : NULL;
}

/* The progress thread packs for receivers that refused, beside MPI calls of one thread. */
static void together(void **state)
{
    pthread_t thread[2];
    void *result;
    (void)state;
    assert_false(spinlock_needed);
    for (int i = 0; i < NESTS; i++)
        nests[i] = tree_stride(0, NEST_BLOCKS, 64 + 32 * i, tree_dense(0, NEST_BLOCK, &trees_why), &trees_why);
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&thread[i], NULL, describe, (void *)(i + 1));
    for (uintptr_t i = 0; i < 2; i++) {
        pthread_join(thread[i], &result);
        assert_ptr_equal(result, (void *)(i + 1));
    }
    typed_copy_nest_forget();
    for (int i = 0; i < NESTS; i++) {
        assert_int_equal(nests[i]->refs, 1);
        tree_unref(nests[i]);
    }
}

/* Without a compiler everything goes by copies. */
static int uncompiled(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(anything, setup, teardown)};
    compiles = false;
    return cmocka_run_group_tests_name("uncompiled", tests, NULL, NULL);
}

static void without_nvrtc(void **state)
{
    (void)state;
    pid_t child = fork();
    int status;
    if (child == 0) {
        setenv("SIMGPU_NVRTC_FAIL", "1", 1);
        setenv("STRIDEC_CACHE_DIR", "/nonexistent", 1);
        execl("/proc/self/exe", "test_link", "uncompiled", NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/stridec-link-XXXXXX", command[64];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faces), cmocka_unit_test(lists),    cmocka_unit_test(ways),          cmocka_unit_test(pairs),
        cmocka_unit_test(large), cmocka_unit_test(anything), cmocka_unit_test(together), cmocka_unit_test(new_pair),
        cmocka_unit_test(without_nvrtc),
    };
    setenv("SIMGPU_EAGER", "1", 0);
    random_begin("test_link");
    if (argc > 1 && !strcmp(argv[1], "uncompiled")) return uncompiled();
    if (!mkdtemp(folder)) return 1;
    setenv("STRIDEC_CACHE_DIR", folder, 1);
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
