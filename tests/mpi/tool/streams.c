/* streams.c: an MPIX_Stream_create, as a library to be preloaded, that takes CUDA streams on an MPICH that was built
 * without CUDA: its communicators have no stream then. */
#include <mpi.h>
#include <string.h>

#ifdef MPIX_STREAM_NULL
int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream)
{
    char type[16];
    int found = 0;
    if (info != MPI_INFO_NULL) PMPI_Info_get(info, "type", sizeof type - 1, type, &found);
    if (!found || strcmp(type, "cudaStream_t") != 0) return PMPIX_Stream_create(info, stream);
    return *stream = MPIX_STREAM_NULL, MPI_SUCCESS;
}

int MPIX_Stream_free(MPIX_Stream *stream)
{
    return *stream == MPIX_STREAM_NULL ? MPI_SUCCESS : PMPIX_Stream_free(stream);
}
#endif
