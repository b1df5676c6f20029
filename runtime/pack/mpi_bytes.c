/* mpi_bytes.c: packed bytes as MPI counts and types. */
#include "typed_buffer.h"
#include <limits.h>

/* Past INT_MAX the type has chunks of this length, then the rest. */
#define CHUNK_BYTES (1 << 30)

static int large_type(int64_t bytes, MPI_Datatype *type)
{
    MPI_Datatype chunk, parts[2];
    int lengths[2] = {(int)(bytes / CHUNK_BYTES), (int)(bytes % CHUNK_BYTES)};
    MPI_Aint at[2] = {0, bytes - bytes % CHUNK_BYTES};
    int rc = PMPI_Type_contiguous(CHUNK_BYTES, MPI_PACKED, &chunk);
    if (rc != MPI_SUCCESS) return rc;
    parts[0] = chunk, parts[1] = MPI_PACKED;
    rc = PMPI_Type_create_struct(2, lengths, at, parts, type);
    PMPI_Type_free(&chunk);
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
