/* halo_block.c: a block, its neighbours, its bytes: see halo.h. */
#include "halo.h"
#include <stdlib.h>
#include <string.h>

static void direction(int s, int d[3])
{
    int k = s < NEIGHBOURS / 2 ? s : s + 1;

    d[0] = k / 9 - 1;
    d[1] = k / 3 % 3 - 1;
    d[2] = k % 3 - 1;
}

size_t box_cells(const struct box *b)
{
    return (size_t)b->size[0] * (size_t)b->size[1] * (size_t)b->size[2];
}

unsigned box_first(const struct halo *h, const struct box *b)
{
    return ((unsigned)b->from[0] * (unsigned)h->side + (unsigned)b->from[1]) * (unsigned)h->side + (unsigned)b->from[2];
}

static void make_type(const struct halo *h, const struct box *b, MPI_Datatype *type)
{
    const int sizes[3] = { h->side, h->side, h->side };

    MPI_Type_create_subarray(3, sizes, b->size, b->from, MPI_ORDER_C, MPI_FLOAT, type);
    MPI_Type_commit(type);
}

static void make_neighbour(struct halo *h, int s)
{
    int d[3], at[3];

    direction(s, d);
    for (int i = 0; i < 3; i++) {
        h->send_box[s].size[i] = h->recv_box[s].size[i] = d[i] ? h->radius : h->n;
        h->send_box[s].from[i] = d[i] > 0 ? h->n : h->radius;
        h->recv_box[s].from[i] = d[i] < 0 ? 0 : d[i] > 0 ? h->n + h->radius : h->radius;
        at[i] = h->coords[i] + d[i];
    }
    MPI_Cart_rank(h->grid, at, &h->peer[s]);
    make_type(h, &h->send_box[s], &h->send[s]);
    make_type(h, &h->recv_box[s], &h->recv[s]);
    if (h->peer[s] % h->gpus != h->rank % h->gpus)
        h->leaving_bytes += box_cells(&h->send_box[s]) * sizeof(float);
}

/* What the cell with these local indices holds, by its global position: 24 bits, exact in a float. */
static float value(const struct halo *h, const int at[3])
{
    static const uint32_t factor[3] = { 73856093u, 19349663u, 83492791u };
    uint32_t x = 0;

    for (int i = 0; i < 3; i++) {
        int total = h->n * h->dims[i];

        x ^= (uint32_t)((h->coords[i] * h->n + at[i] - h->radius + total) % total) * factor[i];
    }
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 13;
    return (float)(x >> 8);
}

static bool inside(const struct halo *h, int i)
{
    return i >= h->radius && i < h->radius + h->n;
}

static void fill(const struct halo *h, float *cell, bool halo_too)
{
    int at[3];

    for (at[0] = 0; at[0] < h->side; at[0]++)
        for (at[1] = 0; at[1] < h->side; at[1]++)
            for (at[2] = 0; at[2] < h->side; at[2]++)
                *cell++ = halo_too || (inside(h, at[0]) && inside(h, at[1]) && inside(h, at[2])) ? value(h, at) : -1;
}

static void make_bytes(struct halo *h)
{
    size_t bytes = h->cells * sizeof(float);

    h->want = host_new(bytes);
    h->start = host_new(bytes);
    fill(h, h->want, false);
    h->block = h->want;
    /* Without receives of 32 bytes in host memory, after which a process is sent no short RTS headers
     * (runtime/protocol/rts_short.h). */
    way_neighbor.begin(h);
    way_neighbor.exchange(h);
    way_neighbor.end(h);
    fill(h, h->start, true);
    if (memcmp(h->start, h->want, bytes) != 0) {
        fprintf(stderr, "halo: the MPI itself fills the halo in host memory with other bytes than expected\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fill(h, h->start, false);
    h->block = device_new(bytes);
}

void halo_new(struct halo *h, int n, int radius)
{
    const int periodic[3] = { 1, 1, 1 };

    memset(h, 0, sizeof(*h));
    h->n = n;
    h->radius = radius;
    h->side = n + 2 * radius;
    h->cells = (size_t)h->side * (size_t)h->side * (size_t)h->side;
    MPI_Comm_size(MPI_COMM_WORLD, &h->ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &h->rank);
    h->gpus = gpus_used(h->ranks);
    MPI_Dims_create(h->ranks, 3, h->dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, h->dims, periodic, 0, &h->grid);
    MPI_Cart_coords(h->grid, h->rank, 3, h->coords);
    for (int s = 0; s < NEIGHBOURS; s++)
        make_neighbour(h, s);
    make_bytes(h);
}

void halo_free(struct halo *h)
{
    for (int s = 0; s < NEIGHBOURS; s++) {
        MPI_Type_free(&h->send[s]);
        MPI_Type_free(&h->recv[s]);
    }
    CUDA(cudaFree(h->block));
    free(h->start);
    free(h->want);
    MPI_Comm_free(&h->grid);
}

bool halo_check(struct halo *h, void (*exchange)(void *halo), double *us)
{
    size_t bytes = h->cells * sizeof(float);
    bool right;

    MPI_Barrier(MPI_COMM_WORLD);
    device_write(h->block, h->start, bytes);   /* undoes what a rank that comes sooner writes too soon */
    *us = now_us();
    exchange(h);
    *us = now_us() - *us;
    MPI_Allreduce(MPI_IN_PLACE, us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    right = device_equals(h->block, h->want, bytes);
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    return right;
}
