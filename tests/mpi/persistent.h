/* persistent.h: HAVE_PERSISTENT: whether the MPI has persistent collectives; those of Open MPI 4.1 have other names.
 * PERSISTENT_INIT(NAME, request, arguments): makes the request of MPI_NAME; MPI_ERR_OTHER where there are none. */
#ifndef STRIDEC_TESTS_MPI_PERSISTENT_H
#define STRIDEC_TESTS_MPI_PERSISTENT_H
#include <mpi.h>

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAVE_PERSISTENT 1
#elif defined OPEN_MPI && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#ifdef OMPI_HAVE_MPI_EXT_PCOLLREQ
#define HAVE_PERSISTENT 1
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Gather_init MPIX_Gather_init
#define MPI_Gatherv_init MPIX_Gatherv_init
#define MPI_Scatter_init MPIX_Scatter_init
#define MPI_Scatterv_init MPIX_Scatterv_init
#define MPI_Allgather_init MPIX_Allgather_init
#define MPI_Allgatherv_init MPIX_Allgatherv_init
#define MPI_Alltoall_init MPIX_Alltoall_init
#define MPI_Alltoallv_init MPIX_Alltoallv_init
#define MPI_Alltoallw_init MPIX_Alltoallw_init
#define MPI_Reduce_init MPIX_Reduce_init
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Scan_init MPIX_Scan_init
#define MPI_Exscan_init MPIX_Exscan_init
#define MPI_Reduce_scatter_init MPIX_Reduce_scatter_init
#define MPI_Reduce_scatter_block_init MPIX_Reduce_scatter_block_init
#define MPI_Neighbor_allgather_init MPIX_Neighbor_allgather_init
#define MPI_Neighbor_allgatherv_init MPIX_Neighbor_allgatherv_init
#define MPI_Neighbor_alltoall_init MPIX_Neighbor_alltoall_init
#define MPI_Neighbor_alltoallv_init MPIX_Neighbor_alltoallv_init
#define MPI_Neighbor_alltoallw_init MPIX_Neighbor_alltoallw_init
#endif
#endif
#ifndef HAVE_PERSISTENT
#define HAVE_PERSISTENT 0
#endif
#if HAVE_PERSISTENT
#define PERSISTENT_INIT(N, q, ...) MPI_##N##_init(__VA_ARGS__, MPI_INFO_NULL, q)
#else
#define PERSISTENT_INIT(N, q, ...) MPI_ERR_OTHER
#endif

#endif
