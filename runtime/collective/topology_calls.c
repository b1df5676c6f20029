/* topology_calls.c: calls that make communicators with neighbors. There the ranks vote on how neighborhood
 * collectives are done (neighbor_topology.h), so these calls may wait for all ranks. */
#include "neighbor_topology.h"
#include "next.h"

static int made(int rc, const MPI_Comm *comm)
{
    if (rc == MPI_SUCCESS) neighbor_topology_vote(*comm);
    return rc;
}

int call_Cart_create(const struct next *next, MPI_Comm comm, int ndims, const int dims[], const int periods[],
                     int reorder, MPI_Comm *newcomm)
{
    return made(next->Cart_create(comm, ndims, dims, periods, reorder, newcomm), newcomm);
}

int call_Cart_sub(const struct next *next, MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm)
{
    return made(next->Cart_sub(comm, remain_dims, newcomm), newcomm);
}

int call_Graph_create(const struct next *next, MPI_Comm comm, int nnodes, const int index[], const int edges[],
                      int reorder, MPI_Comm *newcomm)
{
    return made(next->Graph_create(comm, nnodes, index, edges, reorder, newcomm), newcomm);
}

int call_Dist_graph_create(const struct next *next, MPI_Comm comm, int n, const int sources[], const int degrees[],
                           const int destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm *newcomm)
{
    return made(next->Dist_graph_create(comm, n, sources, degrees, destinations, weights, info, reorder, newcomm),
                newcomm);
}

int call_Dist_graph_create_adjacent(const struct next *next, MPI_Comm comm, int indegree, const int sources[],
                                    const int sourceweights[], int outdegree, const int destinations[],
                                    const int destweights[], MPI_Info info, int reorder, MPI_Comm *newcomm)
{
    return made(next->Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree, destinations,
                                                 destweights, info, reorder, newcomm),
                newcomm);
}

int call_Comm_dup(const struct next *next, MPI_Comm comm, MPI_Comm *newcomm)
{
    int rc = next->Comm_dup(comm, newcomm);
    return made(rc, newcomm);
}

int call_Comm_dup_with_info(const struct next *next, MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
    int rc = next->Comm_dup_with_info(comm, info, newcomm);
    return made(rc, newcomm);
}
