/* topology_calls.c: calls that make communicators with neighbors. There the ranks vote on how neighborhood
 * collectives are done (neighbor_topology.h), so these calls may wait for all ranks. */
#include "neighbor_topology.h"
#include "next.h"

static int made(int rc, const MPI_Comm *comm)
{
    if (rc == MPI_SUCCESS) neighbor_topology_vote(*comm);
    return rc;
}

/* Defines call_NAME; the last arguments go to the next function, before the new communicator. */
#define MAKES(name, parameters, ...) \
    int call_##name parameters \
    { \
        return made(next->name(__VA_ARGS__, newcomm), newcomm); \
    }
MAKES(Cart_create, (const struct next *next, MPI_Comm comm, int ndims, const int dims[], const int periods[],
                    int reorder, MPI_Comm *newcomm), comm, ndims, dims, periods, reorder)
MAKES(Cart_sub, (const struct next *next, MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm), comm, remain_dims)
MAKES(Graph_create, (const struct next *next, MPI_Comm comm, int nnodes, const int index[], const int edges[],
                     int reorder, MPI_Comm *newcomm), comm, nnodes, index, edges, reorder)
MAKES(Dist_graph_create, (const struct next *next, MPI_Comm comm, int n, const int sources[], const int degrees[],
                          const int destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm *newcomm),
      comm, n, sources, degrees, destinations, weights, info, reorder)
MAKES(Dist_graph_create_adjacent, (const struct next *next, MPI_Comm comm, int indegree, const int sources[],
                                   const int sourceweights[], int outdegree, const int destinations[],
                                   const int destweights[], MPI_Info info, int reorder, MPI_Comm *newcomm),
      comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder)
MAKES(Comm_dup, (const struct next *next, MPI_Comm comm, MPI_Comm *newcomm), comm)
MAKES(Comm_dup_with_info, (const struct next *next, MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm), comm, info)
