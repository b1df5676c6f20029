/* hand_packing.c: before and after: the face of a block in GPU memory, packed by a loop and sent by a derived datatype.
 *
 * build: mpicc hand_packing.c -o hand_packing -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart      (or make examples)
 * usage: mpirun -n RANKS [stridec run --] hand_packing [n [times]]      (64 20)
 * run: mpirun -n 2 stridec run -- build/examples/hand_packing
 *
 * Each rank holds n^3 doubles with one ghost cell on every side, u[z][y][x], and sends its last plane of x to the next
 * rank, which takes it as its ghost plane. `by_hand` copies the plane row by row to the host, sends that, and copies
 * it back row by row. `by_datatype` is one call. Both must leave the same bytes; the time of both is shown. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA(call)                                                                           \
    do {                                                                                     \
        cudaError_t e_ = (call);                                                             \
        if (e_ != cudaSuccess) {                                                             \
            fprintf(stderr, "hand_packing: %s: %s\n", #call, cudaGetErrorString(e_));        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                    \
    } while (0)

struct block {
    int n, side, left, right;
    size_t bytes;
    double *u;                    /* in GPU memory */
    double *sent, *received;      /* in host memory, for by_hand */
    MPI_Datatype last, ghost;     /* planes of x, for by_datatype */
};

/* --- before --- */

static double *row(const struct block *b, int z, int x)
{
    return b->u + ((size_t)z * b->side + 1) * b->side + x;
}

static void by_hand(struct block *b)
{
    size_t pitch = b->side * sizeof(double);

    for (int z = 1; z <= b->n; z++)
        CUDA(cudaMemcpy2D(b->sent + (z - 1) * b->n, sizeof(double), row(b, z, b->n), pitch, sizeof(double), b->n,
                          cudaMemcpyDeviceToHost));
    MPI_Sendrecv(b->sent, b->n * b->n, MPI_DOUBLE, b->right, 0, b->received, b->n * b->n, MPI_DOUBLE, b->left, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int z = 1; z <= b->n; z++)
        CUDA(cudaMemcpy2D(row(b, z, 0), pitch, b->received + (z - 1) * b->n, sizeof(double), sizeof(double), b->n,
                          cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());
}

/* --- after --- */

static void make_types(struct block *b)
{
    const int sizes[3] = { b->side, b->side, b->side }, plane[3] = { b->n, b->n, 1 };

    MPI_Type_create_subarray(3, sizes, plane, (int[]){ 1, 1, b->n }, MPI_ORDER_C, MPI_DOUBLE, &b->last);
    MPI_Type_create_subarray(3, sizes, plane, (int[]){ 1, 1, 0 }, MPI_ORDER_C, MPI_DOUBLE, &b->ghost);
    MPI_Type_commit(&b->last);
    MPI_Type_commit(&b->ghost);
}

static void by_datatype(struct block *b)
{
    MPI_Sendrecv(b->u, 1, b->last, b->right, 0, b->u, 1, b->ghost, b->left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* --- both --- */

/* Fills the block, exchanges `times` times, brings the block into `result`; returns microseconds an exchange. */
static double run(struct block *b, void (*exchange)(struct block *), int rank, int times, double *result)
{
    double start;

    for (size_t i = 0; i < b->bytes / sizeof(double); i++)
        result[i] = rank * 1e9 + (double)i;
    CUDA(cudaMemcpy(b->u, result, b->bytes, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());   /* MPI may look at the block from another stream */
    exchange(b);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < times; i++)
        exchange(b);
    start = (MPI_Wtime() - start) / times * 1e6;
    CUDA(cudaMemcpy(result, b->u, b->bytes, cudaMemcpyDeviceToHost));
    return start;
}

/* True if the ghost plane is the left rank's last one, and nothing else changed. */
static int right_cells(const struct block *b, int rank, const double *u)
{
    for (size_t i = 0; i < b->bytes / sizeof(double); i++) {
        size_t x = i % b->side, y = i / b->side % b->side, z = i / b->side / b->side, n = b->n;
        int ghost = x == 0 && y >= 1 && y <= n && z >= 1 && z <= n;

        if (u[i] != (ghost ? b->left * 1e9 + (double)(i + n) : rank * 1e9 + (double)i))
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct block b = { .n = argc > 1 ? atoi(argv[1]) : 64 };
    int times = argc > 2 ? atoi(argv[2]) : 20, rank, ranks, wrong;
    double *before, *after, us[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    b.side = b.n + 2, b.left = (rank + ranks - 1) % ranks, b.right = (rank + 1) % ranks;
    b.bytes = sizeof(double) * b.side * b.side * b.side;
    CUDA(cudaMalloc((void **)&b.u, b.bytes));
    b.sent = malloc(sizeof(double) * b.n * b.n), b.received = malloc(sizeof(double) * b.n * b.n);
    before = malloc(b.bytes), after = malloc(b.bytes);
    make_types(&b);

    us[0] = run(&b, by_hand, rank, times, before);
    us[1] = run(&b, by_datatype, rank, times, after);
    wrong = memcmp(before, after, b.bytes) != 0 || !right_cells(&b, rank, after);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("hand_packing: a plane of %d x %d doubles: by hand %.1f us, by datatype %.1f us, the same bytes: %s\n",
               b.n, b.n, us[0], us[1], wrong ? "WRONG" : "verified");

    MPI_Type_free(&b.last);
    MPI_Type_free(&b.ghost);
    CUDA(cudaFree(b.u));
    free(b.sent), free(b.received), free(before), free(after);
    MPI_Finalize();
    return wrong != 0;
}
