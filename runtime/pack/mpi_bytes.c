/* mpi_bytes.c: packed bytes as MPI counts and types. */
#include "typed_buffer.h"
#include "datatype/byte_types.h"
#include <limits.h>

static int large_type(int64_t bytes, MPI_Datatype *type)
{
    int rc = type_of_bytes(bytes, MPI_PACKED, type);
    return rc == MPI_SUCCESS ? PMPI_Type_commit(type) : rc;
}

int mpi_bytes_of(int64_t bytes, struct wire *w)
{
    w->type = MPI_PACKED;
    w->count = bytes <= INT_MAX ? (int)bytes : 1;
    return bytes <= INT_MAX ? MPI_SUCCESS : large_type(bytes, &w->type);
}

void mpi_bytes_free(struct wire *w)
{
    if (w->type != MPI_PACKED) PMPI_Type_free(&w->type);
}

int64_t mpi_bytes_received(const MPI_Status *status)
{
    MPI_Count bytes = 0;
    PMPI_Get_elements_x(status, MPI_BYTE, &bytes);
    return bytes;
}
