/* test_type_mpi.c: types that the MPI at hand builds in ways of its own, read from it: pairs, markers, depth,
 * parts of distributed arrays. Random types are in test_fuzz.c. Runs as a single process. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>

#include "../../runtime/datatype/byte_types.h"
#include "../../runtime/datatype/type_reader.h"
#include "trees.h"

static struct reason why;
static int64_t grain;

static struct type *read_made(MPI_Datatype m)
{
    struct type *t = read_type(m, &grain, NULL, &why);
    if (!t)
        fail_msg("%s", why.text);
    return t;
}

static void assert_read(MPI_Datatype m, const char *want, int64_t extent)
{
    struct type *t = read_made(m);
    struct tree *c = made(tree_canonical(t->tree, &why));
    char *text = tree_signature(c, &why);
    assert_string_equal(text, want);
    assert_int_equal(t->ub - t->lb, extent);
    free(text), tree_unref(c), type_free(t);
}

#define PAIR(value) offsetof(struct { value v; int i; }, i), sizeof(struct { value v; int i; })

static void pairs(void **state)
{
    (void)state;
    const struct {
        MPI_Datatype m;
        size_t value, at, extent;
    } gaps[] = {{MPI_FLOAT_INT, sizeof(float), PAIR(float)},    {MPI_DOUBLE_INT, sizeof(double), PAIR(double)},
                {MPI_LONG_INT, sizeof(long), PAIR(long)},       {MPI_SHORT_INT, sizeof(short), PAIR(short)},
                {MPI_2INT, sizeof(int), PAIR(int)},             {MPI_LONG_DOUBLE_INT, sizeof(long double), PAIR(long double)}};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        char want[64];
        snprintf(want, sizeof want, "q(d(%zu),d(4)@%zu)", gaps[i].value, gaps[i].at);
        if (gaps[i].value == gaps[i].at)
            snprintf(want, sizeof want, "d(%zu)", gaps[i].value + 4);
        assert_read(gaps[i].m, want, (int64_t)gaps[i].extent);
    }
    const MPI_Datatype fortran[] = {MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER};
    for (size_t i = 0; i < 3; i++) {
        int size = 0;
        char want[32];
        if (fortran[i] == MPI_DATATYPE_NULL)   /* an MPI without Fortran */
            continue;
        MPI_Type_size(fortran[i], &size);
        snprintf(want, sizeof want, "d(%d)", size);
        assert_read(fortran[i], want, size);
    }
}

/* The size of basic elements, where they have one. */
static void grains(void **state)
{
    (void)state;
    int lengths[2] = {1, 1};
    MPI_Aint at[2] = {0, 8};
    MPI_Datatype vector, mixed, alike[2] = {MPI_DOUBLE, MPI_LONG_LONG}, unlike[2] = {MPI_DOUBLE, MPI_INT};
    MPI_Type_vector(3, 2, 5, MPI_C_DOUBLE_COMPLEX, &vector);
    type_free(read_made(vector));
    assert_int_equal(grain, 16);
    MPI_Type_free(&vector);
    for (int i = 0; i < 2; i++) {
        MPI_Type_create_struct(2, lengths, at, i ? unlike : alike, &mixed);
        type_free(read_made(mixed));
        assert_int_equal(grain, i ? 0 : 8);
        MPI_Type_free(&mixed);
    }
    type_free(read_made(MPI_DOUBLE_INT));
    assert_int_equal(grain, 0);
}

/* Counts what the reader asks of named and other types. */
static int asked;
int PMPI_Type_get_extent_x(MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent)
{
    static int (*next)(MPI_Datatype, MPI_Count *, MPI_Count *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Type_get_extent_x");
    asked++;
    return next(datatype, lb, extent);
}

/* A long struct of a few named types asks of each once, and of derived ones once an entry: Open MPI returns copies. */
static void struct_of_few_types(void **state)
{
    enum { N = 3000 };
    (void)state;
    static int lengths[N], one[N];
    static MPI_Aint at[N];
    static int64_t bytes_at[N], bytes[N];
    MPI_Datatype few[4] = {MPI_DOUBLE, MPI_INT, MPI_SHORT, MPI_DATATYPE_NULL}, types[N], m;
    MPI_Type_contiguous(5, MPI_BYTE, &few[3]);
    for (int i = 0, end = 0; i < N; i++) {
        int size, kind = i % 1000 ? i * 7 % 11 % 3 : 3;
        MPI_Type_size(few[kind], &size);
        one[i] = 1, lengths[i] = 1 + i * 5 % 7 % 3, types[i] = few[kind];
        bytes_at[i] = at[i] = end, bytes[i] = lengths[i] * size;
        end += (int)bytes[i] + 1 + i * i % 13;
    }
    MPI_Type_create_struct(N, lengths, at, types, &m);
    asked = 0;
    struct type *t = read_made(m), *byte = type_named(1, 1, &why);
    struct type *want = type_hindexed(N, bytes, bytes_at, byte, &why);
    assert_in_range(asked, 4, 12);
    assert_int_equal(grain, 0);
    assert_true(t && byte && want && tree_equal(t->tree, want->tree));
    MPI_Type_free(&m);
    type_free(t);
    MPI_Type_create_struct(N, one, at, types, &m);   /* the inner handles are still whole */
    type_free(read_made(m));
    type_free(byte), type_free(want);
    MPI_Type_free(&m), MPI_Type_free(&few[3]);
}

/* Fortran's parametrised types are leaves, with combiners of their own. */
static void f90_types(void **state)
{
    MPI_Datatype real, integer;
    (void)state;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Type_create_f90_real(15, 300, &real) == MPI_SUCCESS && real != MPI_DATATYPE_NULL)
        assert_read(real, "d(8)", 8);
    if (MPI_Type_create_f90_integer(9, &integer) == MPI_SUCCESS && integer != MPI_DATATYPE_NULL)
        assert_read(integer, "d(4)", 4);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* MPI_LB and MPI_UB went with MPI-3; some headers still have them. */
static void markers(void **state)
{
    (void)state;
#if defined MPICH_VERSION || (defined OPEN_MPI && OMPI_ENABLE_MPI1_COMPAT)
    int lengths[3] = {1, 2, 1};
    MPI_Aint at[3] = {-8, 4, 40};
    MPI_Datatype types[3] = {MPI_LB, MPI_INT, MPI_UB}, m, twice;
    MPI_Type_create_struct(3, lengths, at, types, &m);
    assert_read(m, "d(8)@4", 48);
    MPI_Type_contiguous(2, m, &twice);
    assert_read(twice, "s(2,48,d(8))@4", 96);
    MPI_Type_free(&m), MPI_Type_free(&twice);
#endif
}

static void replace(MPI_Datatype *m, MPI_Datatype with)
{
    MPI_Type_free(m);
    *m = with;
}

/* 96 levels, of which the strides of one leave no trace. */
static void deep(void **state)
{
    MPI_Datatype m, next;
    (void)state;
    MPI_Type_contiguous(1, MPI_INT, &m);
    for (int i = 0; i < 96; i++) {
        if (i % 16 == 0)
            MPI_Type_create_hvector(2, 1, (MPI_Aint)100 << i / 8, m, &next);
        else if (i % 3)
            MPI_Type_create_resized(m, 0, 4, &next);
        else
            MPI_Type_create_hindexed(1, (int[]){1}, (MPI_Aint[]){0}, m, &next);
        replace(&m, next);
    }
    struct type *t = read_made(m);
    struct tree *c = made(tree_canonical(t->tree, &why));
    assert_int_equal(c->size, 64 * 4);
    assert_int_equal(c->depth, 7);
    tree_unref(c), type_free(t), MPI_Type_free(&m);
}

static void *reads_deep(void *type)
{
    int64_t grain;
    return read_type(*(MPI_Datatype *)type, &grain, NULL, &why);
}

/* Types within types without end: read by a thread of little stack, or not, but none ends the process. */
static void too_deep(void **state)
{
    MPI_Datatype m, next;
    pthread_attr_t little;
    (void)state;
    pthread_attr_init(&little), pthread_attr_setstacksize(&little, 256 << 10);
    MPI_Type_contiguous(1, MPI_INT, &m);
    for (int levels = 1; levels <= 2000; levels++) {
        pthread_t thread;
        void *read = NULL;
        if (levels == 200 || levels == 2000) {
            assert_int_equal(pthread_create(&thread, &little, reads_deep, &m), 0);
            pthread_join(thread, &read);
            assert_true((read != NULL) == (levels == 200));
        }
        if (read) type_free(read);
        MPI_Type_create_hvector(1, 1, 0, m, &next);
        replace(&m, next);
    }
    assert_string_equal(why.text, "types are nested more than 512 deep");
    MPI_Type_free(&m);
    pthread_attr_destroy(&little);
}

/* Spans past 2^32 and packed sizes past 2^31, by counts that are ints. */
static void large(void **state)
{
    MPI_Datatype row, m;
    (void)state;
    MPI_Type_vector(1 << 15, 1 << 14, 1 << 15, MPI_DOUBLE, &row);
    MPI_Type_create_hvector(3, 1, (MPI_Aint)1 << 40, row, &m);
    assert_read(m, "s(3,1099511627776,s(32768,262144,d(131072)))", ((int64_t)1 << 41) + 32767 * INT64_C(262144) + 131072);
    MPI_Type_free(&row), MPI_Type_free(&m);
}

/* The type of the packed bytes of one element, also past INT_MAX. */
static void packed_bytes(void **state)
{
    (void)state;
    const int64_t sizes[] = {24, INT64_C(2147483647), INT64_C(2147483648), INT64_C(5000000001)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct layout l = {.size = sizes[i], .bytes_type = MPI_DATATYPE_NULL};
        MPI_Datatype t = layout_bytes_type(&l);
        MPI_Count size, lb, extent;
        assert_true(t != MPI_DATATYPE_NULL);
        MPI_Type_size_x(t, &size), MPI_Type_get_extent_x(t, &lb, &extent);
        assert_int_equal(size, sizes[i]);
        assert_int_equal(lb, 0), assert_int_equal(extent, sizes[i]);
        MPI_Type_free(&t);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(struct_of_few_types),
                                       cmocka_unit_test(grains), cmocka_unit_test(f90_types),
                                       cmocka_unit_test(markers), cmocka_unit_test(deep), cmocka_unit_test(too_deep),
                                       cmocka_unit_test(large),
                                       cmocka_unit_test(packed_bytes)};
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
