/* test_where.c: in which memories a buffer lies, where allocations end and begin. On the simulated GPU (its folder is
 * on LD_LIBRARY_PATH). Nothing at the addresses is touched. */
#include "../../runtime/datatype/layout_parts.h"
#include "../../runtime/pack/typed_buffer.h"
#include "../sim/simgpu.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { BYTES = 8192, PAGE = 4096, APART = 1 << 20 };

static struct device *device;
static CUcontext context;
static uint64_t memory;   /* BYTES of it on the device; no device's before and after */

static const struct device *run(struct memory *m, int64_t at, int64_t len, int64_t expected)
{
    assert_int_equal(locate_run(m, memory + (uint64_t)at, len), expected);
    return m->device;
}

static void test_runs(void **state)
{
    (void)state;
    struct memory m = {0};
    assert_ptr_equal(run(&m, 0, BYTES, BYTES), device);
    assert_ptr_equal(run(&m, 100, BYTES, BYTES - 100), device);
    assert_null(run(&m, BYTES, 10, 10));
    assert_ptr_equal(run(&m, BYTES - 1, 10, 1), device);
    assert_null(run(&m, -100, 300, 100));
    assert_null(run(&m, -2 * PAGE - 100, 300 + 2 * PAGE, 100));   /* page by page */
    assert_null(run(&m, -2 * PAGE, 300 + 2 * PAGE, PAGE));
    assert_null(run(&m, -9 * PAGE - 3, 8 * PAGE, 8 * PAGE));
    assert_null(run(&m, -4 * PAGE, PAGE, PAGE));
    assert_ptr_equal(run(&m, 0, 1, 1), device);
}

static void lies(struct tree *t, int64_t at, int64_t count, int64_t extent, const struct device *d, bool parts)
{
    struct location w = locate_tree(t, (const void *)(uintptr_t)(memory + (uint64_t)at), count, extent);
    assert_ptr_equal(w.device, d);
    assert_int_equal(w.parts, parts);
}

static void test_trees(void **state)
{
    (void)state;
    struct reason why;
    struct tree *block = tree_dense(0, 300, &why);
    struct tree *two = tree_stride(0, 2, 3 * BYTES, tree_dense(0, 8, &why), &why);
    lies(block, 0, 1, 300, device, false);
    lies(block, -300, 1, 300, NULL, false);
    lies(block, -100, 1, 300, device, true);
    lies(block, BYTES - 100, 1, 300, device, true);
    lies(block, 0, 2, BYTES, device, true);
    lies(block, BYTES - 300, 4, -400, device, false);
    lies(block, 300, 4, -400, device, true);
    lies(two, 0, 1, 0, device, true);
    lies(two, -BYTES, 1, 0, NULL, false);
    lies(two, -BYTES, 2, BYTES, device, true);   /* the ends are the host's */
    tree_unref(block), tree_unref(two);
}

/* Fields of many blocks in allocations of their own are looked at as a whole: block by block this would not end. */
static void test_fields(void **state)
{
    enum { FIELDS = 3 };
    (void)state;
    struct reason why;
    struct tree *field[FIELDS];
    const struct driver *driver = driver_get();
    CUdeviceptr at[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        assert_int_equal(driver->cuMemAlloc(&at[i], APART), CUDA_SUCCESS);
        field[i] = tree_stride((int64_t)at[i], INT64_C(1) << 50, 0, tree_dense(0, 8, &why), &why);
    }
    struct tree *all = tree_seq(0, FIELDS, field, &why);
    struct location w = locate_tree(all, NULL, 1, 0);
    assert_ptr_equal(w.device, device);
    assert_false(w.parts);
    tree_unref(all);
    for (int i = 0; i < FIELDS; i++) driver->cuMemFree(at[i]);
}

/* Makes a list of `blocks` blocks in each of two fields, one of each by turns. The caller frees the fields, and the
 * layout by fields_free. */
static struct layout fields_make(CUdeviceptr field[2], int blocks)
{
    struct reason why;
    int64_t *at = malloc((size_t)(2 * blocks) * sizeof *at);
    assert_non_null(at);
    for (int i = 0; i < 2; i++) assert_int_equal(driver_get()->cuMemAlloc(&field[i], APART), CUDA_SUCCESS);
    for (int i = 0; i < blocks; i++)
        for (int k = 0; k < 2; k++) at[2 * i + k] = (int64_t)field[k] + i * 1000;
    struct layout l = {.size = 2 * blocks * 8, .tree = tree_index(0, 2 * blocks, at, tree_dense(0, 8, &why), &why)};
    l.low = l.tree->low, l.high = l.tree->high;
    free(at);
    return l;
}

static void fields_free(struct layout *l)
{
    free(atomic_load(&l->hulls)), tree_unref(l->tree);
}

/* Lists that go from one field to the other: device memory that holds all, and what lies between that does not. */
static void test_hulls(void **state)
{
    (void)state;
    const struct driver *driver = driver_get();
    CUdeviceptr field[2];
    struct layout l = fields_make(field, 1000);
    for (int i = 0; i < 2; i++) {
        struct location w = locate(&l, MPI_BOTTOM, 1);
        assert_ptr_equal(w.device, device);
        assert_false(w.parts);
    }
    driver->cuMemFree(field[1]);   /* asked anew at each use */
    struct location w = locate(&l, MPI_BOTTOM, 1);
    assert_ptr_equal(w.device, device);
    assert_true(w.parts);
    driver->cuMemFree(field[0]);
    fields_free(&l);
}

/* Returns how often the driver was asked so far. */
static uint64_t questions(void)
{
    struct simgpu_counts now;
    void (*counts)(struct simgpu_counts *);
    *(void **)&counts = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY), "simgpu_counts");
    counts(&now);
    return now.questions;
}

/* Memory that comes later, where the host's was: found again, and then each use asks for each allocation alone. */
static void test_later(void **state)
{
    enum { USES = 200 };
    (void)state;
    const struct driver *driver = driver_get();
    CUdeviceptr field[2], second;
    struct layout l = fields_make(field, 500);
    driver->cuMemFree(field[1]);
    for (int i = 0; i < 3; i++) assert_true(locate(&l, MPI_BOTTOM, 1).parts);
    setenv("SIMGPU_REUSE", "1", 1);
    for (second = 0; second != field[1];) assert_int_equal(driver->cuMemAlloc(&second, APART), CUDA_SUCCESS);
    for (int i = 0; i < USES; i++) assert_false(locate(&l, MPI_BOTTOM, 1).parts);
    uint64_t before = questions();
    assert_ptr_equal(locate(&l, MPI_BOTTOM, 1).device, device);
    assert_true(questions() - before < 20);
    fields_free(&l);
}

/* Frees the field, and allocates it again at its place. */
static void again(CUdeviceptr *field)
{
    CUdeviceptr place = *field;
    assert_int_equal(driver_get()->cuMemFree(place), CUDA_SUCCESS);
    assert_int_equal(driver_get()->cuMemAlloc(field, APART), CUDA_SUCCESS);
    assert_int_equal(*field, place);
}

static void *locate_first(void *layout)
{
    driver_get()->cuCtxPushCurrent(context);
    assert_true(locate(layout, MPI_BOTTOM, 1).as_before);
    return NULL;
}

/* A layout that lies as before costs a question for each allocation. If one of them is new, all are located: what this
 * thread knows of the others may be of allocations that were freed. */
static void test_as_before(void **state)
{
    (void)state;
    struct allocation a, now;
    CUdeviceptr field[2];
    pthread_t other;
    setenv("SIMGPU_REUSE", "1", 1);
    struct layout l = fields_make(field, 100);
    assert_ptr_equal(device_of((const void *)(uintptr_t)field[0]), device);
    again(&field[0]);
    pthread_create(&other, NULL, locate_first, &l);
    pthread_join(other, NULL);
    uint64_t before = questions();
    struct location w = locate(&l, MPI_BOTTOM, 1);
    uint64_t asked = questions() - before;
    assert_true(w.as_before);
    assert_ptr_equal(w.device, device);
    assert_int_equal(asked, 2);
    assert_true(locate_before(&l, field[0] + 8, &now));
    assert_int_equal(now.start, field[0]);
    again(&field[1]);
    w = locate(&l, MPI_BOTTOM, 1);
    assert_false(w.as_before);
    assert_ptr_equal(w.device, device);
    assert_true(device_located((const void *)(uintptr_t)field[0], &a));
    assert_int_equal(a.id, now.id);
    for (int i = 0; i < 2; i++) driver_get()->cuMemFree(field[i]);
    fields_free(&l);
}

/* A message of two fields has a part for each nest of strides; random places are one part of each field, also where
 * some of them happen to be neighbours. */
static void test_parts(void **state)
{
    (void)state;
    struct reason why;
    CUdeviceptr field[2];
    const int64_t few[] = {0, 4000, 1000}, more[] = {0, 900, 300, 7000};
    for (int i = 0; i < 2; i++) assert_int_equal(driver_get()->cuMemAlloc(&field[i], APART), CUDA_SUCCESS);
    int64_t at[2] = {(int64_t)field[0], (int64_t)field[1]};
    struct tree *pieces[] = {
        tree_index(at[0], 3, few, tree_dense(0, 24, &why), &why),
        tree_dense(at[0] + 9000, 48, &why),
        tree_index(at[0] + 20000, 4, more, tree_dense(0, 24, &why), &why),
        tree_stride(at[1], 20, 64, tree_dense(0, 8, &why), &why),
        tree_stride(at[1] + 8192, 30, 32, tree_dense(0, 16, &why), &why),
    };
    static const int64_t sizes[] = {3 * 24 + 48 + 4 * 24, 20 * 8, 30 * 16};
    struct layout l = {.tree = tree_seq(0, 5, pieces, &why)};
    const struct layout_parts *parts = layout_parts_by_memory(&l);
    assert_non_null(parts);
    assert_int_equal(parts->n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(parts->part[i]->size, sizes[i]);
    layout_parts_free(atomic_load(&l.by_memory)), tree_unref(l.tree);
    for (int i = 0; i < 2; i++) driver_get()->cuMemFree(field[i]);
}

/* What can't be read is known by its ends; it can't be packed part by part. */
static void test_unread(void **state)
{
    (void)state;
    struct layout l = {.size = 16, .extent = 2 * BYTES, .low = 0, .high = 2 * BYTES};
    atomic_store(&l.committed, true);
    const void *at = (const void *)(uintptr_t)(memory + 8);
    struct location w = locate(&l, at, 1);
    assert_ptr_equal(w.device, device);
    assert_true(w.parts);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    assert_int_equal(typed_buffer_check(&l, w, MPI_BYTE, MPI_COMM_SELF), MPI_ERR_BUFFER);
    l.high = 16;
    w = locate(&l, at, 1);
    assert_false(w.parts);
    assert_int_equal(typed_buffer_check(&l, w, MPI_BYTE, MPI_COMM_SELF), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs), cmocka_unit_test(test_trees),
                                       cmocka_unit_test(test_fields), cmocka_unit_test(test_hulls),
                                       cmocka_unit_test(test_later), cmocka_unit_test(test_as_before),
                                       cmocka_unit_test(test_parts), cmocka_unit_test(test_unread)};
    CUdeviceptr before, allocated, after;
    MPI_Init(&argc, &argv);
    const struct driver *driver = driver_load();
    if (!driver || driver->cuInit(0) || driver->cuDevicePrimaryCtxRetain(&context, 0) ||
        driver->cuCtxPushCurrent(context) || !(device = device_default()) || driver->cuMemAlloc(&before, APART) || driver->cuMemAlloc(&allocated, BYTES) ||
        driver->cuMemAlloc(&after, APART) || driver->cuMemFree(before) || driver->cuMemFree(after)) {
        printf("not ok no simulated GPU: put its folder on LD_LIBRARY_PATH\n");
        return 1;
    }
    memory = allocated;
    int failed = cmocka_run_group_tests_name("where", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
