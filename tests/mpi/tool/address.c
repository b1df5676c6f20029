/* address.c: what a CUDA-aware Open MPI does not see, as a library to be preloaded before the MPI: it looks for device memory
 * at a call's address, not at its first byte's, and of MPI_Reduce_scatter_block in place at the part that comes back. Such
 * calls end the job. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

/* Of struct cudaPointerAttributes: its type comes first, 2 of device memory. */
static int on_device(const void *p)
{
    static int (*ask)(void *, const void *);
    int answer[64] = {0};
    if (!ask) *(void **)&ask = dlsym(RTLD_DEFAULT, "cudaPointerGetAttributes");
    return ask && ask(answer, p) == 0 && answer[0] == 2;
}

static void look(const char *call, const void *buf, MPI_Aint displacement, int count, MPI_Datatype type)
{
    MPI_Aint low, extent;
    if (!count || type == MPI_DATATYPE_NULL || buf == MPI_IN_PLACE) return;
    PMPI_Type_get_true_extent(type, &low, &extent);
    const char *at = (const char *)buf + displacement;
    if (!low || on_device(at) || !on_device(at + low)) return;
    fprintf(stderr, "%s: device memory at %p, but the buffer is %p\n", call, (const void *)(at + low), (const void *)at);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

int MPI_Ssend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    look(__func__, buf, 0, count, type);
    return PMPI_Ssend(buf, count, type, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    look(__func__, buf, 0, count, type);
    return PMPI_Recv(buf, count, type, source, tag, comm, status);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    look(__func__, buf, 0, count, type);
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    look(__func__, buf, 0, count, type);
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    look(__func__, buf, 0, count, type);
    return PMPI_Bcast(buf, count, type, root, comm);
}

int MPI_Alltoallw(const void *out, const int out_counts[], const int out_displs[], const MPI_Datatype out_types[], void *in,
                  const int in_counts[], const int in_displs[], const MPI_Datatype in_types[], MPI_Comm comm)
{
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    for (int i = 0; i < ranks; i++) {
        look(__func__, out, out_displs[i], out_counts[i], out_types[i]);
        look(__func__, in, in_displs[i], in_counts[i], in_types[i]);
    }
    return PMPI_Alltoallw(out, out_counts, out_displs, out_types, in, in_counts, in_displs, in_types, comm);
}

int MPI_Reduce_scatter_block(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    if (out == MPI_IN_PLACE && on_device(in)) {
        fprintf(stderr, "%s in place: device memory\n", __func__);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    return PMPI_Reduce_scatter_block(out, in, count, type, op, comm);
}
