/* vote.c: a PMPI_Allreduce, as a library to be preloaded, that fails on rank 1 alone where ranks vote: of 64-bit words,
 * by MPI_BOR. The other ranks get the result. From when the program sets vote_fails on. */
#include <dlfcn.h>
#include <mpi.h>

int vote_fails;

int PMPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int (*real)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int rank = 0;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Allreduce");
    int rc = real(in, out, count, type, op, comm);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return vote_fails && rank == 1 && type == MPI_UINT64_T && op == MPI_BOR ? MPI_ERR_INTERN : rc;
}
