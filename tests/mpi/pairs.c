/* pairs.c: types of a predefined pair that has no name (MPI_COMBINER_VALUE_INDEX, MPI-4.1): it is not freed, as what contents hand
 * out else is, and what holds it is right. No MPI yet makes one: here MPI_DOUBLE_INT is said to be, where
 * there is that combiner.
 *
 * usage: pairs
 *
 * run: -n 2
 */
#include "check.h"
#include <dlfcn.h>

#if MPI_VERSION * 100 + MPI_SUBVERSION >= 401
typedef int envelope(MPI_Datatype, MPI_Count *, MPI_Count *, MPI_Count *, MPI_Count *, int *);
static int asked;

int PMPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count *ints, MPI_Count *addresses, MPI_Count *large, MPI_Count *types, int *combiner)
{
    envelope *next;
    *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Type_get_envelope_c");
    int rc = next(type, ints, addresses, large, types, combiner);
    if (type == MPI_DOUBLE_INT) asked++, *types = 2, *combiner = MPI_COMBINER_VALUE_INDEX;
    return rc;
}
#else
static const int asked = 1;
#endif

static void exchange(void)
{
    struct layout l;
    struct buf in, out;
    MPI_Datatype column;
    MPI_Type_vector(5, 1, 3, MPI_DOUBLE_INT, &column), type_commit(&column);
    layout_of(&l, column, 4, "a vector of pairs");
    buf_make(&out, MEM_DEVICE, &l, 0, 1), buf_make(&in, MEM_DEVICE, &l, 0, 2);
    MPI_Sendrecv(out.origin, 4, l.type, my_rank ^ 1, 0, in.origin, 4, l.type, my_rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    buf_expect_from(&in, &l, &l, 1);
    buf_check(&in, "a vector of pairs");
    buf_free(&in), buf_free(&out);
    layout_free(&l);
    expect(host_mode || asked, "nobody asked how the pair was made");
    report("pairs without a name");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    exchange();
    return check_finish();
}
