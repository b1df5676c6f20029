/* test_wire.c: packed bytes as a count and a type that an MPI's ints hold, up to sizes that no test could send. Runs as
 * a single process. */
#include <mpi.h>

#include "../../runtime/pack/typed_buffer.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* count elements of the type are the bytes [0, bytes) once each: as many as it spans, and none before or behind. */
static void check_wire(int64_t bytes)
{
    struct wire w;
    MPI_Count size, lb, extent;
    assert_int_equal(mpi_bytes_of(bytes, &w), MPI_SUCCESS);
    assert_true(w.count >= 0);
    MPI_Type_size_x(w.type, &size);
    MPI_Type_get_true_extent_x(w.type, &lb, &extent);
    assert_true((int64_t)size * w.count == bytes);
    assert_int_equal(lb, 0);
    assert_true((int64_t)extent * w.count == bytes);
    mpi_bytes_free(&w);
}

static void split(void **state)
{
    (void)state;
    const int64_t giga = (int64_t)1 << 30;
    const int64_t sizes[] = {0, 1, 4096, INT_MAX - 1, INT_MAX, (int64_t)INT_MAX + 1, 2 * giga + 1, 3 * giga - 1,
                             3 * giga, 3 * giga + 1, 4 * giga - 1, 4 * giga, 5 * giga + 12345, 1000 * giga + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_wire(sizes[i]);
    for (int64_t bytes = INT_MAX - 3; bytes < 1000 * giga; bytes += bytes / 7 + 1) check_wire(bytes);
}

/* What a status says of a message longer than an int can count. */
static void counted(void **state)
{
    (void)state;
    const int64_t sizes[] = {0, 5, INT_MAX, (int64_t)INT_MAX + 1, ((int64_t)7 << 30) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        MPI_Status s;
        MPI_Status_set_elements_x(&s, MPI_BYTE, (MPI_Count)sizes[i]);
        assert_true(mpi_bytes_received(&s) == sizes[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(split), cmocka_unit_test(counted)};
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
