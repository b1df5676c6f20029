/* count.c: a tool of MPI's profiling interface, as a library to be preloaded: counts calls, and passes them on. */
#include <mpi.h>

int tool_sends, tool_recvs, tool_waits, tool_commits;

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    tool_sends++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    tool_recvs++;
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    tool_waits++;
    return PMPI_Wait(request, status);
}

int MPI_Type_commit(MPI_Datatype *type)
{
    tool_commits++;
    return PMPI_Type_commit(type);
}
