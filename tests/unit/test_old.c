/* test_old.c: the combiners of Fortran's old calls (*_INTEGER), which hold addresses among the integers. No C call makes
 * such types, so the MPI's answers about some types are rewritten here. Runs as a single process. */
#include <mpi.h>

#include "../../runtime/datatype/type_reader.h"
#include "trees.h"

static struct reason why;
static int64_t grain;

#if MPI_VERSION < 4 && (defined MPICH_VERSION || defined OPEN_MPI)
#if defined OPEN_MPI && !OMPI_ENABLE_MPI1_COMPAT
#define OLD(name) OMPI_WAS_MPI_COMBINER_##name
#else
#define OLD(name) MPI_COMBINER_##name
#endif

static bool old_times;   /* answers are given as an old call's */

static const struct {
    int now, then;
} combiners[] = {{MPI_COMBINER_HVECTOR, OLD(HVECTOR_INTEGER)},
                 {MPI_COMBINER_HINDEXED, OLD(HINDEXED_INTEGER)},
                 {MPI_COMBINER_STRUCT, OLD(STRUCT_INTEGER)}};

/* These two take the place of the MPI's own for read_type. */
int PMPI_Type_get_envelope(MPI_Datatype t, int *ints, int *addresses, int *types, int *combiner)
{
    int rc = MPI_Type_get_envelope(t, ints, addresses, types, combiner);
    for (size_t i = 0; old_times && i < sizeof combiners / sizeof *combiners; i++) {
        if (*combiner == combiners[i].now) {
            *combiner = combiners[i].then;
            *ints += *addresses, *addresses = 0;
            break;
        }
    }
    return rc;
}

int PMPI_Type_get_contents(MPI_Datatype t, int nints, int naddresses, int ntypes, int ints[], MPI_Aint addresses[],
                           MPI_Datatype types[])
{
    int ni, na, nt, combiner;
    MPI_Aint wide[16];
    MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner);
    bool moved = na > 0 && naddresses == 0;
    int rc = MPI_Type_get_contents(t, moved ? ni : nints, moved ? na : naddresses, ntypes, ints,
                                   moved ? wide : addresses, types);
    for (int i = 0; moved && i < na; i++) ints[ni + i] = (int)wide[i];
    return rc;
}

/* Read both ways, the type is the same. Consumes it. */
static void check_both(MPI_Datatype m, int combiner)
{
    int ni, na, nt, told;
    struct type *now = read_type(m, &grain, NULL, &why);
    old_times = true;
    PMPI_Type_get_envelope(m, &ni, &na, &nt, &told);
    struct type *then = read_type(m, &grain, NULL, &why);
    old_times = false;
    assert_int_equal(told, combiner);
    assert_int_equal(na, 0);
    assert_true(now && then && tree_equal(now->tree, then->tree));
    assert_true(now->lb == then->lb && now->ub == then->ub && now->size == then->size);
    type_free(now), type_free(then), MPI_Type_free(&m);
}

static void old_calls(void **state)
{
    int lengths[3] = {1, 3, 2};
    MPI_Aint at[3] = {-16, 200, 64};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_SHORT, MPI_INT}, m, outer;
    (void)state;
    MPI_Type_create_hvector(5, 2, -40, MPI_INT, &m);
    check_both(m, OLD(HVECTOR_INTEGER));
    MPI_Type_create_hindexed(3, lengths, at, MPI_DOUBLE, &m);
    check_both(m, OLD(HINDEXED_INTEGER));
    MPI_Type_create_struct(3, lengths, at, types, &m);
    check_both(m, OLD(STRUCT_INTEGER));
    MPI_Type_create_struct(3, lengths, at, types, &m);
    MPI_Type_create_hvector(2, 1, 1000, m, &outer);
    MPI_Type_free(&m);
    check_both(outer, OLD(HVECTOR_INTEGER));
}
#else
static void old_calls(void **state)
{
    (void)state, (void)why;
    skip();
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(old_calls)};
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
