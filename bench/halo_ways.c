/* halo_ways.c: exchanges that give the MPI subarrays of the block: see halo.h. */
#include "halo.h"
#include <stdlib.h>

/* Ranks can be neighbours in several directions, or their own: every direction has its tag, that of the sender. */
static void isend_exchange(void *halo)
{
    struct halo *h = halo;
    MPI_Request request[2 * NEIGHBOURS];

    for (int s = 0; s < NEIGHBOURS; s++)
        MPI_Irecv(h->block, 1, h->recv[s], h->peer[s], OPPOSITE(s), h->grid, &request[s]);
    for (int s = 0; s < NEIGHBOURS; s++)
        MPI_Isend(h->block, 1, h->send[s], h->peer[s], s, h->grid, &request[NEIGHBOURS + s]);
    MPI_Waitall(2 * NEIGHBOURS, request, MPI_STATUSES_IGNORE);
}

const struct way way_isend = { .name = "isend", .device_buffers = true, .exchange = isend_exchange };

static bool persistent_begin(struct halo *h)
{
    MPI_Request *request = h->way = host_new(2 * NEIGHBOURS * sizeof(MPI_Request));

    for (int s = 0; s < NEIGHBOURS; s++) {
        MPI_Recv_init(h->block, 1, h->recv[s], h->peer[s], OPPOSITE(s), h->grid, &request[s]);
        MPI_Send_init(h->block, 1, h->send[s], h->peer[s], s, h->grid, &request[NEIGHBOURS + s]);
    }
    return true;
}

static void persistent_exchange(void *halo)
{
    MPI_Request *request = ((struct halo *)halo)->way;

    MPI_Startall(2 * NEIGHBOURS, request);
    MPI_Waitall(2 * NEIGHBOURS, request, MPI_STATUSES_IGNORE);
}

static void persistent_end(struct halo *h)
{
    MPI_Request *request = h->way;

    for (int i = 0; i < 2 * NEIGHBOURS; i++)
        MPI_Request_free(&request[i]);
    free(request);
}

const struct way way_persistent = { .name = "persistent",
                                    .device_buffers = true,
                                    .begin = persistent_begin,
                                    .exchange = persistent_exchange,
                                    .end = persistent_end };

/* Edge s leads to neighbour s, and what comes in by edge s was sent in direction s. So two ranks with several edges
 * between them count them in the same order, and messages match as the MPI counts. */
struct graph {
    MPI_Comm comm;
    MPI_Datatype recv[NEIGHBOURS];
    int counts[NEIGHBOURS];
    MPI_Aint displs[NEIGHBOURS];
};

static bool neighbor_begin(struct halo *h)
{
    struct graph *g = h->way = host_new(sizeof(*g));
    int sources[NEIGHBOURS], weights[NEIGHBOURS];   /* all 1 */

    for (int s = 0; s < NEIGHBOURS; s++) {
        sources[s] = h->peer[OPPOSITE(s)];
        g->recv[s] = h->recv[OPPOSITE(s)];
        g->counts[s] = weights[s] = 1;
        g->displs[s] = 0;
    }
    MPI_Dist_graph_create_adjacent(h->grid, NEIGHBOURS, sources, weights, NEIGHBOURS, h->peer, weights,
                                   MPI_INFO_NULL, 0, &g->comm);
    return true;
}

static void neighbor_exchange(void *halo)
{
    struct halo *h = halo;
    struct graph *g = h->way;

    MPI_Neighbor_alltoallw(h->block, g->counts, g->displs, h->send, h->block, g->counts, g->displs, g->recv, g->comm);
}

static void neighbor_end(struct halo *h)
{
    struct graph *g = h->way;

    MPI_Comm_free(&g->comm);
    free(g);
}

const struct way way_neighbor = { .name = "neighbor_alltoallw",
                                  .device_buffers = true,
                                  .begin = neighbor_begin,
                                  .exchange = neighbor_exchange,
                                  .end = neighbor_end };
