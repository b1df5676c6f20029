/* test_kernel.c: every way of moving bytes, against a naive enumeration, on the simulated GPU (its folder is on
 * LD_LIBRARY_PATH) or a real one: random trees, counts, extents, ranges and alignments. Also places, buffers and
 * kernel states. TEST_SEED=N tries other random layouts. */
#include "../../gen/form.h"
#include "../../gen/hash.h"
#include "../../runtime/device/gpu_runtime.h"
#include "../../runtime/kernel/module_cache.h"
#include "../../runtime/kernel/kernel_internal.h"
#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { SPACE = 1 << 18, MARGIN = 64 }; /* bytes of the user's and of the packed buffer */

static const struct driver *driver;
static struct device *device;
static struct stream *stream;
static CUdeviceptr user_memory, packed_memory;
static uint64_t seed = 88172645463325252u;

static int64_t random_below(int64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)n);
}

static void fill(unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)random_below(256);
}

static void upload(CUdeviceptr to, const void *from, size_t bytes)
{
    assert_int_equal(driver->cuMemcpyHtoDAsync(to, from, bytes, stream_use(stream)), CUDA_SUCCESS);
    assert_int_equal(stream_wait(device, stream), 0);
}

static void download(void *to, CUdeviceptr from, size_t bytes)
{
    assert_int_equal(driver->cuMemcpyDtoHAsync(to, from, bytes, stream_use(stream)), CUDA_SUCCESS);
    assert_int_equal(stream_wait(device, stream), 0);
}

/*
 * Random layouts, and what they mean.
 */

static struct tree *random_tree(int depth, int64_t unit, bool strided)
{
    struct reason why;
    struct tree *part[3], *t;
    int64_t at[4], n = 1 + random_below(4);
    int kind = depth ? (int)random_below(strided ? 3 : 5) : 0;
    if (kind == 0) return tree_dense(unit * random_below(9), unit * (1 + random_below(9)), &why);
    if (kind <= 2) {
        t = random_tree(depth - 1, unit, strided);
        return tree_stride(unit * random_below(5), n, unit * (random_below(60) - 15), t, &why);
    }
    if (kind == 3) {
        n = 1 + random_below(3);
        for (int i = 0; i < n; i++) part[i] = random_tree(depth - 1, unit, strided);
        return tree_seq(unit * random_below(5), n, part, &why);
    }
    for (int i = 0; i < n; i++) at[i] = unit * random_below(100);
    return tree_index(unit * random_below(5), n, at, random_tree(depth - 1, unit, strided), &why);
}

static void enumerate(const struct tree *t, int64_t base, int64_t *out, int64_t *used)
{
    base += t->off;
    for (int64_t i = 0; i < t->count; i++) {
        if (t->kind == TREE_DENSE) out[(*used)++] = base + i;
        if (t->kind == TREE_STRIDE) enumerate(t->child, base + i * t->step, out, used);
        if (t->kind == TREE_SEQ) enumerate(t->part[i], base, out, used);
        if (t->kind == TREE_INDEX) enumerate(t->child, base + t->at[i], out, used);
        for (int64_t k = 0; t->kind == TREE_BLOCKS && k < t->block[i].len; k++)
            out[(*used)++] = base + t->block[i].off + k;
    }
}

/* Offsets of every packed byte, and the least and largest of them. */
struct layout {
    int64_t at[SPACE], n, low, high;
    bool overlaps;
};

static void lay_out(struct layout *l, const struct tree *t, int64_t count, int64_t extent)
{
    static unsigned char seen[4 * SPACE];
    l->n = 0;
    l->overlaps = false;
    for (int64_t e = 0; e < count; e++) enumerate(t, e * extent, l->at, &l->n);
    l->low = l->high = l->n ? l->at[0] : 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (l->at[i] < l->low) l->low = l->at[i];
        if (l->at[i] > l->high) l->high = l->at[i];
    }
    assert_true(l->high - l->low < SPACE - 2 * MARGIN);
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < l->n; i++) l->overlaps |= seen[l->at[i] - l->low]++ > 0;
}

static int64_t random_extent(const struct tree *t, int64_t unit)
{
    switch (random_below(6)) {
    case 0:
        return t->kind == TREE_STRIDE ? t->count * t->step : t->size;
    case 1:
        return t->size;
    case 2:
        return -(t->high - t->low) - unit * random_below(4);
    case 3:
        return t->high - t->low + random_below(40);
    case 4:
        return 0;
    default:
        return t->high - t->low + unit * random_below(20);
    }
}

/* One move of a random part of `count` elements, checked byte by byte, with its surroundings. */
static void check_move(struct kernel *k, const struct tree *t, int64_t unit, enum kernel_direction direction,
                       enum kernel_way expected)
{
    static struct layout l;
    static unsigned char user[SPACE], packed[SPACE], result[SPACE];
    int64_t count = 1 + random_below(6), extent = random_extent(t, unit);
    lay_out(&l, t, count, extent);
    if (direction == KERNEL_UNPACK && l.overlaps) return;
    int64_t begin = random_below(3) ? 0 : random_below(l.n + 1);
    int64_t end = random_below(3) ? l.n : begin + random_below(l.n - begin + 1);
    if (random_below(2)) begin -= begin % 16;
    int64_t origin = MARGIN - l.low + (16 - unit) * random_below(2) + random_below(3) / 2;
    int64_t start = 16 + unit * random_below(3) + random_below(3) / 2;
    origin += random_below(2) ? 16 - (MARGIN - l.low) % 16 : 0;
    fill(user, SPACE);
    fill(packed, SPACE);
    upload(user_memory, user, SPACE);
    upload(packed_memory, packed, SPACE);
    struct kernel_job job = {
        direction, packed_memory + (uint64_t)start, user_memory + (uint64_t)(origin + t->off), extent, count, begin,
        end};
    int launches = 0;
    enum kernel_way way;
    assert_int_equal(kernel_move(k, device, stream, &job, &launches, &way), 0);
    for (int64_t i = begin; i < end; i++) {
        unsigned char *in = &packed[start + i - begin], *out = &user[origin + l.at[i]];
        if (direction == KERNEL_PACK)
            *in = *out;
        else
            *out = *in;
    }
    download(result, packed_memory, SPACE);
    assert_memory_equal(result, packed, SPACE);
    download(result, user_memory, SPACE);
    assert_memory_equal(result, user, SPACE);
    bool one_copy = k->family == GEN_CONTIGUOUS && way == KERNEL_COPIES && launches == 1;
    if (begin == end) {
        assert_int_equal(launches, 0);
    } else if (!one_copy) {
        assert_int_equal(way, expected);
        if (way != KERNEL_COPIES) assert_in_range(launches, 1, 2);
    }
}

static void check_moves(struct kernel *k, const struct tree *t, int64_t unit, enum kernel_way expected, int times)
{
    for (int i = 0; i < times; i++) check_move(k, t, unit, i % 2 ? KERNEL_UNPACK : KERNEL_PACK, expected);
}

/* As if the module had failed to compile. */
static void disable(struct kernel *k)
{
    kernel_wait(k);
    atomic_store(&module_of(kernel_code(k), device)->stage, STAGE_FAILED);
}

static struct tree *random_canonical(int64_t *unit, bool strided)
{
    struct reason why;
    *unit = (int64_t)1 << random_below(5);
    struct tree *built = random_tree(3, *unit, strided), *t = tree_canonical(built, &why);
    tree_unref(built);
    assert_non_null(t);
    return t;
}

/* Offsets or blocks past what stays in the source, a few strides of them. */
static struct tree *random_list(int64_t unit)
{
    struct reason why;
    struct tree *part[60], *child = tree_dense(0, unit * (1 + random_below(3)), &why), *list;
    int64_t at[60], n = 33 + random_below(28), next = 0;
    bool blocks = random_below(2);
    for (int64_t i = 0; i < n; i++) {
        int64_t length = blocks ? unit * (1 + random_below(i % 13 ? 4 : 90)) : child->size;
        at[i] = next;
        part[i] = blocks ? tree_dense(next, length, &why) : NULL;
        next += length + unit * random_below(6);
    }
    list = blocks ? tree_seq(0, n, part, &why) : tree_index(0, n, at, tree_ref(child), &why);
    tree_unref(child);
    if (random_below(3) == 0) return tree_stride(unit * random_below(5), 3, next + unit * random_below(9), list, &why);
    return list;
}

/*
 * Tests.
 */

static void check_special(struct tree *t, int64_t unit)
{
    struct reason why;
    struct kernel *k = kernel_get(t, &why);
    assert_non_null(k);
    if (k->family == GEN_CONTIGUOUS) module_request(module_of(k, device));
    kernel_wait(k);
    assert_true(!strcmp(kernel_state(k), "compiled") || !strcmp(kernel_state(k), "cache"));
    assert_int_not_equal(k->family, GEN_GENERIC);
    check_moves(k, t, unit, KERNEL_SPECIAL, 30);
    kernel_put(k);
    tree_unref(t);
}

static void special(void **state)
{
    (void)state;
    int64_t unit;
    for (int i = 0; i < 24; i++) {
        struct tree *t = i < 16 ? random_canonical(&unit, i < 8) : random_list(unit = (int64_t)1 << random_below(5));
        check_special(t, unit);
    }
}

/* Returns kernel_get of a regular layout that no other test uses, and its tree. */
static struct kernel *regular(struct tree **t, int64_t count, int64_t step, int64_t block)
{
    struct reason why;
    *t = tree_stride(0, count, step, tree_dense(0, block, &why), &why);
    struct kernel *k = kernel_get(*t, &why);
    assert_non_null(k);
    return k;
}

/* Regular layouts are moved by numbers, by one module for all; none of them is compiled. */
static void numbers(void **state)
{
    (void)state;
    struct reason why;
    kernel_wait(&kernel_typed_copy);
    struct kernel_counts before = kernel_counts();
    for (int i = 0; i < 200; i++) {
        int64_t unit;
        struct tree *t = random_canonical(&unit, true);
        struct kernel *k = kernel_get(t, &why);
        assert_non_null(k);
        if (kernel_is_regular(k) && module_stage(module_of(k, device)) == STAGE_NONE) {
            assert_string_equal(kernel_state(k), k->family == GEN_CONTIGUOUS ? "copy" : "shared");
            check_moves(k, t, unit, KERNEL_NUMBERS, 10);
        }
        kernel_put(k);
        tree_unref(t);
    }
    assert_int_equal(kernel_counts().compiled + kernel_counts().cache_hits, before.compiled + before.cache_hits);
}

/* A layout has its own kernel after eight large moves, in one launch or many; small moves never bring one. */
static void worth_its_own(void **state)
{
    (void)state;
    struct tree *t[2];
    struct kernel *small = regular(&t[0], 250, 56, 4), *large = regular(&t[1], 150000 / 4, 4, 1);
    kernel_wait(&kernel_typed_copy);
    for (int i = 0; i < 20; i++) check_move(small, t[0], 4, KERNEL_PACK, KERNEL_NUMBERS);
    assert_string_equal(kernel_state(small), "shared");
    for (int i = 0; i < 8; i++) {
        struct kernel_job job = {KERNEL_PACK, packed_memory, user_memory, 0, 4, 1, 150000};
        enum kernel_way way;
        assert_string_equal(kernel_state(large), "shared");
        assert_int_equal(kernel_move(large, device, stream, &job, NULL, &way), 0);
        assert_int_equal(way, KERNEL_NUMBERS);
    }
    assert_string_not_equal(kernel_state(large), "shared");
    kernel_wait(large);
    assert_int_equal(stream_wait(device, stream), 0);
    kernel_put(small), kernel_put(large);
    tree_unref(t[0]), tree_unref(t[1]);
}

/* Types that differ in their lists alone have one module; what lies in device memory goes with the type. */
static void shared_code(void **state)
{
    (void)state;
    struct reason why;
    struct tree *t[3];
    struct kernel *k[3];
    uint64_t compiled = kernel_counts().compiled, hits = kernel_counts().cache_hits;
    for (int i = 0; i < 3; i++) {
        int64_t at[70];
        for (int j = 0; j < 50 + 10 * i; j++) at[j] = 48 * (j + random_below(2) * i) + 16;
        t[i] = tree_index(0, 50 + 10 * i, at, tree_stride(0, 2, 24, tree_dense(0, 8, &why), &why), &why);
        k[i] = kernel_get(t[i], &why);
        assert_non_null(k[i]);
        kernel_wait(k[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(kernel_code(k[i]), kernel_code(k[0]));
        check_moves(k[i], t[i], 8, KERNEL_SPECIAL, 10);
        assert_non_null(atomic_load(&module_of(k[i], device)->lists));
        kernel_put(k[i]);
        assert_null(atomic_load(&module_of(k[i], device)->lists));
        tree_unref(t[i]);
    }
    assert_int_equal(kernel_counts().compiled + kernel_counts().cache_hits, compiled + hits + 1);
}

static void interpreted(void **state)
{
    (void)state;
    struct reason why;
    kernel_wait(&kernel_interpreter);
    disable(&kernel_typed_copy);
    setenv("SIMGPU_NVRTC_FAIL", "1", 1); /* sooner than compiling what is then disabled */
    for (int i = 0; i < 60; i++) {
        int64_t unit;
        struct tree *t = random_canonical(&unit, false);
        struct kernel *k = kernel_get(t, &why);
        assert_non_null(k);
        if (k->family != GEN_GENERIC) disable(k);
        check_moves(k, t, unit, KERNEL_INTERPRETED, 10);
        kernel_put(k);
        tree_unref(t);
    }
    unsetenv("SIMGPU_NVRTC_FAIL");
}

static void copies(void **state)
{
    (void)state;
    struct reason why;
    disable(&kernel_interpreter);
    disable(&kernel_typed_copy);
    setenv("SIMGPU_NVRTC_FAIL", "1", 1);
    for (int i = 0; i < 60; i++) {
        int64_t unit;
        struct tree *t = random_canonical(&unit, false);
        struct kernel *k = kernel_get(t, &why);
        assert_non_null(k);
        if (k->family != GEN_GENERIC) disable(k);
        check_moves(k, t, unit, KERNEL_COPIES, 10);
        kernel_put(k);
        tree_unref(t);
    }
    unsetenv("SIMGPU_NVRTC_FAIL");
}

static void gathered_copies(void **state)
{
    (void)state;
    struct reason why;
    struct tree *row = tree_stride(0, 100, 64, tree_dense(0, 8, &why), &why);
    struct tree *t = tree_stride(0, 3, 64 * 200, row, &why);
    struct kernel *k = kernel_get(t, &why);
    struct kernel_job job = {KERNEL_PACK, packed_memory, user_memory, t->high, 1, 4, 2400};
    int launches = 0;
    enum kernel_way way;
    disable(k);
    disable(&kernel_interpreter);
    disable(&kernel_typed_copy);
    assert_int_equal(kernel_move(k, device, stream, &job, &launches, &way), 0);
    assert_int_equal(stream_wait(device, stream), 0);
    assert_int_equal(way, KERNEL_COPIES);
    assert_int_equal(launches, 3); /* half a block, the first plane's other rows, then whole planes together */
    kernel_put(k);
    tree_unref(t);
}

/* The module for messages, which serves any layout, is made before an irregular layout's own. */
static void messages_first(void **state)
{
    (void)state;
    struct reason why;
    struct tree *part[] = {tree_stride(0, 7, 40, tree_dense(0, 8, &why), &why),
                           tree_stride(4096, 5, 56, tree_dense(0, 8, &why), &why)};
    struct tree *t = tree_seq(0, 2, part, &why);
    struct module *list = module_of(&kernel_typed_copy, device);
    assert_int_equal(module_stage(list), STAGE_NONE);
    struct kernel *k = kernel_get(t, &why);
    assert_non_null(k);
    assert_false(kernel_is_regular(k) || form_has_lists(k->form));
    kernel_await(k);
    assert_int_equal(module_stage(module_of(k, device)), STAGE_READY);
    assert_int_equal(module_stage(list), STAGE_READY);
    kernel_put(k);
    tree_unref(t);
}

static void states(void **state)
{
    (void)state;
    struct reason why;
    struct tree *t = tree_stride(0, 7, 48, tree_dense(0, 16, &why), &why), *moved = tree_shift(t, 80, &why);
    struct kernel *k = kernel_get(t, &why), *same = kernel_get(moved, &why);
    assert_ptr_equal(k, same);
    assert_string_equal(kernel_signature(k), "s(7,48,d(16))");
    assert_int_equal(kernel_family(k), GEN_STRIDED);
    kernel_wait(k);
    assert_string_equal(kernel_state(k), "compiled");
    kernel_wait(&kernel_typed_copy);   /* the first layout requests it too */
    uint64_t compiled = kernel_counts().compiled, hits = kernel_counts().cache_hits;
    kernel_put(k);
    kernel_put(same);
    k = kernel_get(t, &why);
    assert_ptr_equal(k, same); /* kept while unused */
    assert_string_equal(kernel_state(k), "compiled");
    kernel_put(k);
    kernel_finish();
    k = kernel_get(t, &why);
    kernel_wait(k), kernel_wait(&kernel_typed_copy);
    assert_string_equal(kernel_state(k), "cache");
    assert_int_equal(kernel_counts().compiled, compiled);
    assert_int_equal(kernel_counts().cache_hits, hits + 2);
    check_moves(k, t, 16, KERNEL_SPECIAL, 4);
    kernel_put(k);
    tree_unref(moved);
    tree_unref(t);
    t = tree_dense(0, 100, &why);
    k = kernel_get(t, &why);
    assert_string_equal(kernel_state(k), "copy");
    kernel_put(k);
    tree_unref(t);
}

/* n pieces of 8 bytes; those with `same` end in a word that hides the one before it from the hash. */
static struct tree *long_list(int64_t n, int64_t salt, bool same)
{
    struct reason why;
    int64_t *at = malloc((size_t)n * sizeof *at);
    assert_non_null(at);
    for (int64_t i = 0; i < n; i++) at[i] = i * 64 + 8 * (i * i % 7);
    at[n - 2] += 8 * salt;
    if (same) at[n - 1] = (int64_t)HASH_FACTOR;
    struct tree *t = tree_index(0, n, at, tree_dense(0, 8, &why), &why);
    assert_non_null(t);
    free(at);
    return t;
}

/* Long lists have a hash as their key. Those of one hash have kernels of their own all the same. */
static void long_keys(void **state)
{
    (void)state;
    struct reason why;
    for (int same = 0; same < 2; same++) {
        struct tree *t[3];
        struct kernel *k[3], *again[3];
        for (int i = 0; i < 3; i++) t[i] = long_list(1000, i, same), k[i] = kernel_get(t[i], &why);
        for (int i = 0; i < 3; i++) again[i] = kernel_get(t[i], &why);
        char *key = tree_key(t[0], &why);
        assert_string_equal(kernel_signature(k[0]), key);
        assert_int_equal(!strncmp(kernel_signature(k[1]), key, strlen(key)), same);
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(again[i], k[i]);
            assert_ptr_not_equal(k[i], k[(i + 1) % 3]);
            assert_int_equal(tree_equal(k[i]->tree, t[i]), true);
            assert_ptr_equal(k[i]->code, k[0]->code);
        }
        for (int i = 0; i < 3; i++) kernel_put(k[i]), kernel_put(again[i]), tree_unref(t[i]);
        free(key);
    }
}

/* Kernels of freed types stay as long as their trees take little memory. */
static void unused_lists(void **state)
{
    (void)state;
    struct reason why;
    enum { ENTRIES = 1 << 20, LISTS = 12 };   /* 8 MiB each; 64 MiB stay */
    struct tree *t[LISTS];
    int kept = 0;
    for (int i = 0; i < LISTS; i++) t[i] = long_list(ENTRIES, i, false), kernel_put(kernel_get(t[i], &why));
    for (int i = 0; i < LISTS; i++) {
        char *key = tree_key(t[i], &why);
        pthread_mutex_lock(&kernel_lock);
        struct kernel *k = kernel_find(key);
        pthread_mutex_unlock(&kernel_lock);
        if (k) kernel_put(k), kept++;
        assert_int_equal(k != NULL, i >= LISTS - 7);   /* each has a child of one number more */
        free(key), tree_unref(t[i]);
    }
    assert_int_equal(kept, 7);
}

/* A module that passes the cache's check but that the driver refuses is compiled anew, and replaced. */
static void refused(void **state)
{
    (void)state;
    struct reason why;
    char arch[64];
    if (getenv("STRIDEC_SM_LIMIT")) skip(); /* the key is that of the model's settings */
    snprintf(arch, sizeof arch, "sm_%d,%dx%d,%d,%d", device->gpu.sm, device->gpu.multiprocessors, device->gpu.threads,
             device->gpu.cache, device->gpu.memory);
    int major, minor;
    assert_true(gpu_runtime->jit_version(&major, &minor, &why));
    char *key = module_cache_key("s(9,48,d(8))", "", arch, major, minor);
    module_cache_store(key, "rubbish", 7);
    struct tree *t = tree_stride(0, 9, 48, tree_dense(0, 8, &why), &why);
    struct kernel *k = kernel_get(t, &why);
    kernel_wait(k);
    assert_string_equal(kernel_state(k), "compiled");
    check_moves(k, t, 8, KERNEL_SPECIAL, 4);
    void *data;
    size_t bytes;
    assert_int_equal(module_cache_load(key, &data, &bytes), 0);
    assert_true(bytes > 7);
    free(data);
    kernel_put(k);
    tree_unref(t);
    free(key);
}

/* What stays with a type is rounded up little, and found again all the same. */
static void lasting_sizes(void)
{
    for (size_t bytes = 1; bytes < (size_t)1 << 22; bytes += bytes / 5 + 1) {
        struct pool_buffer *b = mempool_get(device, BUFFER_LASTING, bytes), *again;
        assert_in_range(b->bytes, bytes, bytes < 4096 ? 4096 : bytes + bytes / 16);
        assert_int_equal(b->bytes % 256, 0);
        mempool_put(b);
        again = mempool_get(device, BUFFER_LASTING, bytes);
        assert_ptr_equal(again, b);
        mempool_put(again);
    }
    struct pool_buffer *b = mempool_get(device, BUFFER_LASTING, 65536), *taken;
    mempool_put(b);
    taken = mempool_get(device, BUFFER_DEVICE, 40000);
    assert_ptr_equal(taken, b);
    mempool_put(taken);
}

static void places(void **state)
{
    (void)state;
    char local;
    CUcontext before, after;
    driver->cuCtxGetCurrent(&before);
    assert_null(device_of(NULL));
    assert_null(device_of(&local));
    assert_ptr_equal(device_of((void *)(uintptr_t)(user_memory + 5)), device);
    assert_ptr_equal(device_default(), device);
    assert_int_equal(device_enter(device), 0);
    struct pool_buffer *pinned = mempool_get(device, BUFFER_PINNED, 5000), *b = mempool_get(device, BUFFER_DEVICE, 5000);
    device_leave(device);
    assert_true(pinned && b && pinned->bytes == 8192 && b->bytes == 8192);
    memset(pinned->host, 1, pinned->bytes);
    assert_null(device_of(pinned->host));
    assert_true(device_accessible(pinned->host, pinned->bytes));
    assert_false(device_accessible(pinned->host, pinned->bytes + 1));
    assert_false(device_accessible(&local, 1));
    mempool_put(pinned);
    mempool_put(b);
    assert_ptr_equal(mempool_get(device, BUFFER_DEVICE, 8192), b);
    mempool_put(b);
    assert_null(mempool_get(device, BUFFER_DEVICE, SIZE_MAX));
    lasting_sizes();
    driver->cuCtxGetCurrent(&after);
    assert_ptr_equal(before, after);
}

static void limits(void **state)
{
    (void)state;
    const int64_t most = INT32_MAX;
    struct gen_plan narrow = {.way = {{16, 256, 4, 4}, {16, 256, 4, 4}}, .index_bits = 32}, wide = narrow;
    wide.index_bits = 64;
    assert_int_equal(launch_end(&narrow, 4, 100, 1000), 1000);
    assert_int_equal(launch_end(&narrow, 1, 100, most), most);
    assert_int_equal(launch_end(&narrow, 1, 100, most + 1), most / 100 * 100);
    assert_int_equal(launch_end(&narrow, 8, 96, 100 * most), 8 * most / 96 * 96);
    assert_int_equal(launch_end(&wide, 8, 96, 100 * most), 100 * most);
    assert_int_equal(launch_end(&wide, 1, 96, INT64_MAX), most * 1024 / 96 * 96);
}

/* Many threads take, use and drop the same few kernels while the worker makes them. */
static void *churn(void *own)
{
    struct reason why;
    driver->cuCtxPushCurrent(device->context);
    struct stream *s = stream_get(device);
    bool ok = s != NULL;
    for (int i = 0; i < 60; i++) {
        struct tree *t = tree_stride(0, 2 + i % 3, 40, tree_dense(0, 8, &why), &why);
        struct kernel *k = kernel_get(t, &why);
        struct kernel_job job = {KERNEL_PACK, packed_memory + 1024 * (uint64_t)(uintptr_t)own, user_memory, 200, 3, 0,
                                 3 * t->size};
        ok = ok && k && kernel_move(k, device, s, &job, NULL, NULL) == 0 && stream_wait(device, s) == 0;
        kernel_put(k);
        tree_unref(t);
    }
    stream_put(device, s);
    return ok ? own : NULL;
}

static void threads(void **state)
{
    (void)state;
    pthread_t thread[4];
    void *result;
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, churn, (void *)(i + 1));
    for (uintptr_t i = 0; i < 4; i++) {
        pthread_join(thread[i], &result);
        assert_ptr_equal(result, (void *)(i + 1));
    }
}

/*
 * Processes of their own: the program again, with a word for what to do and settings.
 */

/* A sanitizer's search for leaks cannot stop a thread that is ending, and reports what that one holds. */
static void forgo_leaks(void)
{
    const char *options = getenv("ASAN_OPTIONS");
    char all[512];
    snprintf(all, sizeof all, "%s:detect_leaks=0", options ? options : "");
    setenv("ASAN_OPTIONS", all, 1);
}

static bool in_process(const char *what, const char *setting, const char *value)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (!strncmp(what, "leave", 5)) forgo_leaks();
        setenv(setting, value, 1);
        execl("/proc/self/exe", "test_kernel", what, NULL);
        _exit(9);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int setup(void **state)
{
    (void)state;
    CUdevice ordinal;
    CUcontext context;
    if (driver_get()) return -1; /* nothing has loaded it yet */
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) return -1;
    driver = driver_get();
    if (!driver) return -1;
    if (device_of(&ordinal)) return -1; /* before cuInit: no device pointers, no failure */
    if (driver->cuInit(0) || driver->cuDeviceGet(&ordinal, 0) || driver->cuDevicePrimaryCtxRetain(&context, ordinal) ||
        driver->cuCtxPushCurrent(context) || driver->cuMemAlloc(&user_memory, SPACE) ||
        driver->cuMemAlloc(&packed_memory, SPACE))
        return -1;
    device = device_of((void *)(uintptr_t)user_memory);
    stream = device ? stream_get(device) : NULL;
    return stream ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    stream_put(device, stream);
    kernel_finish();
    device_finish();
    return 0;
}

/* No compiler: every way but copies is closed, and the bytes are right all the same. */
static void failing(void **state)
{
    (void)state;
    struct reason why;
    int64_t unit = 8;
    struct tree *t = tree_stride(0, 20, 24, tree_dense(0, 8, &why), &why);
    struct kernel *k = kernel_get(t, &why);
    kernel_wait(k);
    assert_string_equal(kernel_state(k), "failed");
    check_moves(k, t, unit, KERNEL_COPIES, 10);
    kernel_put(k);
    tree_unref(t);
}

static enum kernel_way pack_first(struct kernel *k, int64_t bytes)
{
    struct kernel_job job = {KERNEL_PACK, packed_memory, user_memory, 1 << 20, 1, 0, bytes};
    enum kernel_way way;
    assert_int_equal(kernel_move(k, device, stream, &job, NULL, &way), 0);
    return way;
}

/* The wait for a kernel is bounded: a busy machine may need several. */
static enum kernel_way pack_until_kernel(struct kernel *k, int64_t bytes)
{
    enum kernel_way way;
    for (int i = 0; (way = pack_first(k, bytes)) == KERNEL_COPIES && i < 10;) i++;
    return way;
}

/* A long list of blocks is interpreted at its first use, however long its own kernel takes to compile. */
static void list_at_once(const unsigned char *user, unsigned char *packed)
{
    enum { BLOCKS = 13000 };
    struct reason why;
    struct tree_block *block = tree_blocks_room(BLOCKS, &why);
    assert_non_null(block);
    for (int64_t i = 0; i < BLOCKS; i++) block[i] = (struct tree_block){i * 20 + i * i % 7, 1 + i * i % 5};
    struct tree *t = tree_blocks(0, BLOCKS, block, &why);
    assert_non_null(t);
    assert_in_range(t->high, 1, SPACE);
    struct kernel *k = kernel_get(t, &why);
    assert_true(k && k->form->list_bytes > 65536);
    assert_int_equal(pack_until_kernel(k, t->size), KERNEL_INTERPRETED);
    download(packed, packed_memory, SPACE);
    for (int64_t i = 0, p = 0; i < BLOCKS; i++)
        for (int64_t j = 0; j < t->block[i].len; j++) assert_int_equal(packed[p++], user[t->block[i].off + j]);
    kernel_put(k);
    tree_unref(t);
}

/* Every compile takes long: commit does not wait; few copies do not either; many wait for the module of all regular
 * layouts. */
static void slow(void **state)
{
    (void)state;
    struct reason why;
    static unsigned char user[SPACE], packed[SPACE];
    struct timespec start, now;
    struct tree *t = tree_stride(0, 5000, 44, tree_stride(0, 2, 8, tree_dense(0, 4, &why), &why), &why);
    clock_gettime(CLOCK_MONOTONIC, &start);
    struct kernel *k = kernel_get(t, &why);
    assert_string_equal(kernel_state(k), "shared");
    assert_int_equal(pack_first(k, 800), KERNEL_COPIES);
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 900);
    fill(user, SPACE);
    upload(user_memory, user, SPACE);
    assert_int_equal(pack_until_kernel(k, t->size), KERNEL_NUMBERS);
    download(packed, packed_memory, SPACE);
    for (int64_t i = 0; i < t->size; i++) assert_int_equal(packed[i], user[i / 8 * 44 + i / 4 % 2 * 8 + i % 4]);
    kernel_wait(k);
    assert_int_equal(pack_first(k, t->size), KERNEL_SPECIAL);
    kernel_put(k);
    tree_unref(t);
    list_at_once(user, packed);
}

enum { CROWD = 12000, FEW = 400 };

static int64_t cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Lets go of so many kernels; returns the time that this thread took. */
static int64_t put_some(struct kernel **of, int n)
{
    int64_t begun = cpu_now();
    for (int i = 0; i < n; i++) kernel_put(of[i]);
    return cpu_now() - begun;
}

static struct kernel *numbered(int step, int i)
{
    struct reason why;
    struct tree *t = tree_stride(0, 20, step + 4 * (int64_t)i, tree_dense(0, 4, &why), &why);
    struct kernel *k = kernel_get(t, &why);
    tree_unref(t);
    assert_non_null(k);
    return k;
}

static int64_t since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

/* Waits until a compile has begun, which SIMGPU_NVRTC_LOG tells; behind those of other processes it may come late. */
static void await_compile(void)
{
    const char *log = getenv("SIMGPU_NVRTC_LOG");
    struct stat st;
    assert_non_null(log);
    while (stat(log, &st) || st.st_size == 0) sched_yield();
}

/* One compile never ends. To let go of a kernel takes no longer while many others wait for theirs, nor while many are kept that
 * have been loaded; and the end does not wait for the compile. */
static void stuck(void **state)
{
    (void)state;
    static struct kernel *all[CROWD];
    struct timespec start;
    for (int i = 0; i < CROWD; i++) all[i] = numbered(8, i);
    await_compile();
    int64_t crowded = put_some(all + CROWD - FEW, FEW), between = put_some(all + FEW, CROWD - 2 * FEW);
    int64_t alone = put_some(all, FEW);
    if (crowded > 10 * (alone + 1000000))
        fail_msg("%d take %lld ns, behind none %lld", FEW, (long long)crowded, (long long)alone);
    assert_true(between > 0);
    for (int i = 0; i < CROWD; i++) {
        all[i] = numbered(6, i);
        pthread_mutex_lock(&kernel_lock);
        compile_queue_forget(all[i]);
        pthread_mutex_unlock(&kernel_lock);
        atomic_store(&module_of(kernel_code(all[i]), device)->stage, STAGE_READY);
    }
    alone = put_some(all, FEW), put_some(all + FEW, CROWD - 2 * FEW), crowded = put_some(all + CROWD - FEW, FEW);
    if (crowded > 10 * (alone + 1000000))
        fail_msg("%d take %lld ns, with none kept %lld", FEW, (long long)crowded, (long long)alone);
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_false(kernel_finish());
    assert_true(since(&start) < 30000);
    /* A later session has a thread of its own, which is stuck as well. */
    assert_string_equal(kernel_state(numbered(10, 0)), "pending");
}

/* Exits while a slow compile is on its way, without kernel_finish. */
static int leave_early(void)
{
    struct reason why;
    if (setup(NULL)) return 1;
    struct tree *t = tree_stride(0, 20, 24, tree_dense(0, 8, &why), &why);
    struct kernel *k = kernel_get(t, &why);
    tree_unref(t);
    if (!k) return 1;
    pid_t child = fork();
    if (child == 0) exit(0); /* has no worker; must not wait for one */
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

/* Exits while the worker is in the driver, which holds it up until a stream has gone on, and that waits for ever. */
static int leave_held(void)
{
    CUstream s;
    struct reason why;
    if (setup(NULL) || driver->cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)) return 1;
    int (*holds)(void) = NULL;
    *(void **)&holds = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), "simgpu_holds");
    struct stream_word word = {user_memory, 1, true};
    if (driver->cuMemsetD8Async(user_memory, 0, 64, s) || stream_words(s, &word, 1)) return 1;
    struct tree *t = tree_stride(0, 20, 24, tree_dense(0, 8, &why), &why);
    if (!kernel_get(t, &why)) return 1;
    tree_unref(t);
    while (!holds()) sched_yield();
    return 0;
}

/* On hardware nothing slows or fails a compile when asked to. */
static void need_simulation(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (!library || !dlsym(library, "simgpu_counts")) skip();
}

static void without_nvrtc(void **state)
{
    (void)state;
    need_simulation();
    assert_true(in_process("failing", "SIMGPU_NVRTC_FAIL", "1"));
}

static void with_slow_nvrtc(void **state)
{
    (void)state;
    need_simulation();
    assert_true(in_process("slow", "SIMGPU_NVRTC_DELAY_MS", "1000"));
}

static void early_exit(void **state)
{
    (void)state;
    assert_true(in_process("leave", "SIMGPU_NVRTC_DELAY_MS", "300"));
}

static void exit_while_held(void **state)
{
    (void)state;
    need_simulation();
    setenv("STRIDEC_SPECIAL", "0", 1);
    bool passed = in_process("leave held", "SIMGPU_HOLD", "1");
    unsetenv("STRIDEC_SPECIAL");
    assert_true(passed);
}

/* It exits, too. */
static void with_stuck_nvrtc(void **state)
{
    (void)state;
    struct timespec start;
    char log[] = "/tmp/stridec-test-XXXXXX";
    need_simulation();
    int fd = mkstemp(log);
    assert_true(fd >= 0);
    close(fd);
    clock_gettime(CLOCK_MONOTONIC, &start);
    setenv("STRIDEC_SPECIAL", "0", 1);
    setenv("SIMGPU_NVRTC_LOG", log, 1);
    bool passed = in_process("stuck", "SIMGPU_NVRTC_DELAY_MS", "1000000");
    unsetenv("SIMGPU_NVRTC_LOG");
    unsetenv("STRIDEC_SPECIAL");
    unlink(log);
    assert_true(passed);
    assert_true(since(&start) < 100000);
}

static int run_one(const struct CMUnitTest *test)
{
    const struct CMUnitTest tests[] = {*test};
    return cmocka_run_group_tests_name(test->name, tests, setup, teardown);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/stridec-kernel-XXXXXX", command[64];
    if (!mkdtemp(folder)) return 1;
    setenv("STRIDEC_CACHE_DIR", folder, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_first),
        cmocka_unit_test(limits),        cmocka_unit_test(places),     cmocka_unit_test(states),
        cmocka_unit_test(long_keys),     cmocka_unit_test(unused_lists),
        cmocka_unit_test(refused),       cmocka_unit_test(special),
        cmocka_unit_test(numbers),       cmocka_unit_test(worth_its_own),
        cmocka_unit_test(shared_code),   cmocka_unit_test(interpreted),
        cmocka_unit_test(threads),       cmocka_unit_test(copies),     cmocka_unit_test(gathered_copies),
        cmocka_unit_test(without_nvrtc), cmocka_unit_test(early_exit), cmocka_unit_test(with_slow_nvrtc),
        cmocka_unit_test(with_stuck_nvrtc), cmocka_unit_test(exit_while_held),
    };
    const struct CMUnitTest inner[] = {cmocka_unit_test(failing), cmocka_unit_test(slow), cmocka_unit_test(stuck)};
    const char *what = argc > 1 ? argv[1] : "", *number = getenv("TEST_SEED");
    if (number) seed ^= strtoull(number, NULL, 0) << 20;
    int failed = !strcmp(what, "failing") ? run_one(&inner[0])
                 : !strcmp(what, "slow")  ? run_one(&inner[1])
                 : !strcmp(what, "stuck") ? run_one(&inner[2])
                 : !strcmp(what, "leave") ? leave_early()
                 : !strcmp(what, "leave held") ? leave_held()
                                          : cmocka_run_group_tests(tests, setup, teardown);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
