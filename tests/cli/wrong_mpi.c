/* wrong_mpi.c: calls that stridec takes for its statistics and timeline alone, for wrong_mpi.sh: a type is named, then
 * the job aborts with status 7. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Datatype column;
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length;
    MPI_Init(&argc, &argv);
    MPI_Type_vector(8, 1, 8, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_set_name(column, "column");
    MPI_Type_get_name(column, name, &length);
    printf("named %s\n", name);
    fflush(stdout);
    MPI_Type_free(&column);
    MPI_Abort(MPI_COMM_WORLD, 7);
    return 0;
}
