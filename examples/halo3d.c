/* halo3d.c: 26-neighbour periodic halo exchange of a 3-D block of floats in GPU memory, plain MPI.
 *
 * build: mpicc halo3d.c -o halo3d -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart                  (or make examples)
 * usage: mpirun -n RANKS [stridec run --] halo3d [--host] [n [radius [iterations]]]      (64 2 5)
 * run: mpirun -n 4 stridec run -- build/examples/halo3d
 * run: mpirun -n 2 build/examples/halo3d --host 16
 *
 * Each rank holds n^3 cells and a halo of `radius` cells on every side. Each exchange is 26 sends and 26
 * receives of subarray datatypes, straight from and to the block. Before each exchange the interior gets new
 * values and the halo is wiped; after it every cell of the block is checked. --host keeps the block in host
 * memory: the reference on an MPI that knows nothing of GPUs. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTIONS 27   /* of which the middle one is the block itself */
#define MIDDLE 13

#define CUDA(call)                                                                           \
    do {                                                                                     \
        cudaError_t e_ = (call);                                                             \
        if (e_ != cudaSuccess) {                                                             \
            fprintf(stderr, "halo3d: %s: %s\n", #call, cudaGetErrorString(e_));              \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                    \
    } while (0)

struct halo {
    int n, radius, iterations, side;     /* side = n + 2 * radius */
    int host;                            /* the block is in host memory */
    int rank, dims[3], coords[3];
    MPI_Comm comm;
    int peer[DIRECTIONS];
    MPI_Datatype send[DIRECTIONS], recv[DIRECTIONS];
    size_t cells;
    float *block;                        /* what MPI sees */
    float *copy;                         /* host memory, for filling and checking */
};

static void direction(int k, int d[3])
{
    d[0] = k / 9 - 1;
    d[1] = k / 3 % 3 - 1;
    d[2] = k % 3 - 1;
}

/* What the cell at global position (x, y, z) holds in this iteration: 24 bits, exact in a float. */
static float value(uint32_t x, uint32_t y, uint32_t z, uint32_t iteration)
{
    uint32_t h = ((x * 73856093u) ^ (y * 19349663u) ^ (z * 83492791u)) + iteration * 2654435769u;

    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 13;
    return (float)(h >> 8);
}

/* The global position, wrapped around, of local index i (halo included) in dimension d. */
static uint32_t global(const struct halo *h, int d, int i)
{
    int64_t total = (int64_t)h->n * h->dims[d];

    return (uint32_t)(((int64_t)h->coords[d] * h->n + i - h->radius + total) % total);
}

static int inside(const struct halo *h, int i)
{
    return i >= h->radius && i < h->radius + h->n;
}

static void select_gpu(void)
{
    MPI_Comm node;
    int local, count;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_free(&node);
    CUDA(cudaGetDeviceCount(&count));
    CUDA(cudaSetDevice(local % count));
}

static void make_types(struct halo *h)
{
    const int sizes[3] = { h->side, h->side, h->side };

    for (int k = 0; k < DIRECTIONS; k++) {
        int d[3], subsizes[3], from[3], to[3], at[3];

        if (k == MIDDLE)
            continue;
        direction(k, d);
        for (int i = 0; i < 3; i++) {
            subsizes[i] = d[i] ? h->radius : h->n;
            from[i] = d[i] > 0 ? h->n : h->radius;
            to[i] = d[i] < 0 ? 0 : d[i] > 0 ? h->n + h->radius : h->radius;
            at[i] = h->coords[i] + d[i];
        }
        MPI_Cart_rank(h->comm, at, &h->peer[k]);
        MPI_Type_create_subarray(3, sizes, subsizes, from, MPI_ORDER_C, MPI_FLOAT, &h->send[k]);
        MPI_Type_create_subarray(3, sizes, subsizes, to, MPI_ORDER_C, MPI_FLOAT, &h->recv[k]);
        MPI_Type_commit(&h->send[k]);
        MPI_Type_commit(&h->recv[k]);
    }
}

/* The neighbour in direction k sends towards us in the opposite direction, and tags by its own. Ranks can
 * be neighbours in several directions, or their own, so every direction has its tag. */
static void exchange(struct halo *h)
{
    MPI_Request request[2 * DIRECTIONS];
    int pending = 0;

    for (int k = 0; k < DIRECTIONS; k++)
        if (k != MIDDLE)
            MPI_Irecv(h->block, 1, h->recv[k], h->peer[k], DIRECTIONS - 1 - k, h->comm, &request[pending++]);
    for (int k = 0; k < DIRECTIONS; k++)
        if (k != MIDDLE)
            MPI_Isend(h->block, 1, h->send[k], h->peer[k], k, h->comm, &request[pending++]);
    MPI_Waitall(pending, request, MPI_STATUSES_IGNORE);
}

static void fill(struct halo *h, int iteration)
{
    float *cell = h->copy;

    for (int i = 0; i < h->side; i++)
        for (int j = 0; j < h->side; j++)
            for (int k = 0; k < h->side; k++, cell++)
                *cell = inside(h, i) && inside(h, j) && inside(h, k)
                    ? value(global(h, 0, i), global(h, 1, j), global(h, 2, k), (uint32_t)iteration) : -1;
    if (h->host) {
        memcpy(h->block, h->copy, h->cells * sizeof(float));
    } else {
        CUDA(cudaMemcpy(h->block, h->copy, h->cells * sizeof(float), cudaMemcpyHostToDevice));
        CUDA(cudaDeviceSynchronize());   /* MPI may look at the block from another stream */
    }
}

/* The number of cells that are wrong; the first one is shown. */
static long long check(struct halo *h, int iteration)
{
    const float *cell = h->copy;
    long long wrong = 0;

    if (h->host)
        memcpy(h->copy, h->block, h->cells * sizeof(float));
    else
        CUDA(cudaMemcpy(h->copy, h->block, h->cells * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < h->side; i++)
        for (int j = 0; j < h->side; j++)
            for (int k = 0; k < h->side; k++, cell++) {
                float expected = value(global(h, 0, i), global(h, 1, j), global(h, 2, k), (uint32_t)iteration);

                if (*cell == expected)
                    continue;
                if (wrong++ == 0)
                    fprintf(stderr, "halo3d: rank %d, exchange %d: %s cell (%d, %d, %d) holds %g, should hold %g\n",
                            h->rank, iteration, inside(h, i) && inside(h, j) && inside(h, k) ? "interior" : "halo",
                            i, j, k, *cell, expected);
            }
    return wrong;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Runs the exchanges; the first one is not timed unless it is the only one. Returns the number of wrong cells. */
static long long run(struct halo *h, double *median, double *least)
{
    double *us = malloc((size_t)h->iterations * sizeof(double));
    long long wrong = 0;
    int first = h->iterations > 1, timed = h->iterations - first;

    for (int iteration = 0; iteration < h->iterations; iteration++) {
        double mine;

        fill(h, iteration);
        MPI_Barrier(h->comm);
        mine = MPI_Wtime();
        exchange(h);
        mine = (MPI_Wtime() - mine) * 1e6;
        MPI_Allreduce(&mine, &us[iteration], 1, MPI_DOUBLE, MPI_MAX, h->comm);
        wrong += check(h, iteration);
    }
    qsort(us + first, (size_t)timed, sizeof(double), ascending);
    *median = us[first + timed / 2];
    *least = us[first];
    free(us);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG_LONG, MPI_SUM, h->comm);
    return wrong;
}

static void report(const struct halo *h, int ranks, long long wrong, double median, double least)
{
    long long interior = (long long)h->n * h->n * h->n;
    long long halo = (long long)h->cells - interior;

    printf("halo3d: %d rank%s as %d x %d x %d, each %d^3 floats with a halo of %d in %s memory, %.2f MB sent a rank\n",
           ranks, ranks == 1 ? "" : "s", h->dims[0], h->dims[1], h->dims[2], h->n, h->radius,
           h->host ? "host" : "device", (double)halo * sizeof(float) / 1e6);
    if (wrong) {
        printf("halo3d: FAILED: %lld wrong cells\n", wrong);
        return;
    }
    printf("halo3d: checked after each of %d exchanges: %lld halo cells right, %lld interior cells untouched\n",
           h->iterations, halo * ranks, interior * ranks);
    printf("halo3d: exchange: median %.1f us, min %.1f us\n", median, least);
    printf("halo3d: verified\n");
}

static void usage(int rank)
{
    if (rank == 0)
        fprintf(stderr, "usage: halo3d [--host] [n [radius [iterations]]]   (64 2 5; 0 < radius <= n <= 1000)\n");
    MPI_Finalize();
    exit(2);
}

static void parse(struct halo *h, int argc, char **argv)
{
    int *number[3] = { &h->n, &h->radius, &h->iterations };
    int given = 0;

    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        long v;

        if (!strcmp(argv[i], "--host")) {
            h->host = 1;
            continue;
        }
        v = strtol(argv[i], &end, 10);
        if (given == 3 || *end || end == argv[i] || v < 1 || v > 1000000)
            usage(h->rank);
        *number[given++] = (int)v;
    }
    if (h->radius > h->n || h->n > 1000)
        usage(h->rank);
    h->side = h->n + 2 * h->radius;
    h->cells = (size_t)h->side * h->side * h->side;
}

int main(int argc, char **argv)
{
    struct halo h = { .n = 64, .radius = 2, .iterations = 5 };
    const int periodic[3] = { 1, 1, 1 };
    double median, least;
    long long wrong;
    int ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &h.rank);
    parse(&h, argc, argv);
    MPI_Dims_create(ranks, 3, h.dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, h.dims, periodic, 0, &h.comm);
    MPI_Cart_coords(h.comm, h.rank, 3, h.coords);
    make_types(&h);
    h.copy = malloc(h.cells * sizeof(float));
    if (h.host) {
        h.block = malloc(h.cells * sizeof(float));
    } else {
        select_gpu();
        CUDA(cudaMalloc((void **)&h.block, h.cells * sizeof(float)));
    }
    if (!h.copy || !h.block)
        MPI_Abort(MPI_COMM_WORLD, 1);

    wrong = run(&h, &median, &least);
    if (h.rank == 0)
        report(&h, ranks, wrong, median, least);

    for (int k = 0; k < DIRECTIONS; k++)
        if (k != MIDDLE) {
            MPI_Type_free(&h.send[k]);
            MPI_Type_free(&h.recv[k]);
        }
    if (h.host)
        free(h.block);
    else
        CUDA(cudaFree(h.block));
    free(h.copy);
    MPI_Comm_free(&h.comm);
    MPI_Finalize();
    return wrong != 0;
}
