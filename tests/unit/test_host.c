/* test_host.c: what is surely the host's, and what is not; how the driver is noticed. On the simulated GPU (its folder is
 * on LD_LIBRARY_PATH). */
#include "../../runtime/device/driver.h"
#include "../../runtime/device/host_range.h"
#include "../../runtime/datatype/layout.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { PAGE = 4096, DEEP = 1 << 20 };

static int variable = 1, zeros[100];

static void test_program_and_heap(void **state)
{
    void *p = malloc(100);
    (void)state;
    assert_true(host_range_learn(&variable) && host_range_has(&zeros[99]));
    if (p < sbrk(0)) assert_true(host_range_has(p));   /* a sanitizer's malloc maps all it gives */
    assert_false(host_range_has(NULL));
    assert_false(host_range_learn(MPI_BOTTOM));
    assert_false(host_range_has((void *)1));
    free(p);
}

/* Memory that the break has left is anybody's. */
static void test_break(void **state)
{
    char *p = sbrk(2 * PAGE);
    (void)state;
    host_range_learn(NULL);
    assert_true(host_range_has(p) && host_range_has(p + 2 * PAGE - 1));
    assert_false(host_range_has(p + 2 * PAGE));
    assert_ptr_equal(sbrk(-2 * PAGE), p + 2 * PAGE);
    assert_false(host_range_has(p));
}

static void test_mapped(void **state)
{
    char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_false(host_range_learn(p));
    munmap(p, PAGE);
}

__attribute__((noinline)) static bool deep(void)
{
    char block[DEEP];
    memset(block, 1, sizeof block);
    return host_range_learn(block) && host_range_has(block + DEEP - 1);
}

static void *in_thread(void *of_caller)
{
    int mine = 0;
    bool *fine = malloc(sizeof *fine);
    *fine = !host_range_has(&mine) && host_range_learn(&mine) && host_range_has(&mine) && !host_range_learn(of_caller) && deep();
    return fine;
}

static void test_stacks(void **state)
{
    int mine = 0;
    pthread_t thread;
    void *fine;
    (void)state;
    assert_true(host_range_learn(&mine) && host_range_has(&mine));
    assert_true(deep());
    assert_int_equal(pthread_create(&thread, NULL, in_thread, &mine), 0);
    assert_int_equal(pthread_join(thread, &fine), 0);
    assert_true(*(bool *)fine);
    free(fine);
}

static void test_types(void **state)
{
    MPI_Datatype vector;
    (void)state;
    assert_int_equal(layout_start(), 0);
    MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    assert_false(host_type_plain(MPI_DOUBLE));
    assert_non_null(layout_of(MPI_DOUBLE));
    assert_true(host_type_plain(MPI_DOUBLE));
    layout_of(MPI_DOUBLE_INT), layout_of(vector), layout_of(MPI_DATATYPE_NULL);
    assert_false(host_type_plain(MPI_DOUBLE_INT) || host_type_plain(vector) || host_type_plain(MPI_DATATYPE_NULL));
    assert_true(host_buffer(&variable, MPI_DOUBLE));
    assert_false(host_buffer(MPI_BOTTOM, MPI_DOUBLE) || host_message(NULL, MPI_DOUBLE) || host_buffer(&variable, vector));
    MPI_Type_free(&vector);
    layout_finish();
}

/* Whatever is loaded makes the next call look again. Last, for the driver stays. */
static void test_driver_noticed(void **state)
{
    (void)state;
    assert_null(driver_get());
    assert_true(driver_absent());
    assert_non_null(dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL));
    assert_false(driver_absent());
    assert_null(driver_get());
    assert_true(driver_absent());
    assert_non_null(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    assert_false(driver_absent());
    assert_non_null(driver_get());
    assert_false(driver_absent());
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_and_heap), cmocka_unit_test(test_break), cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_stacks), cmocka_unit_test(test_types), cmocka_unit_test(test_driver_noticed),
    };
    /* A heap of several mappings. A sanitizer's malloc leaves it empty. */
    char *heap = sbrk(4 * PAGE);
    if (madvise(heap + PAGE - (uintptr_t)heap % PAGE, PAGE, MADV_DONTFORK)) return 1;
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests_name("host", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
