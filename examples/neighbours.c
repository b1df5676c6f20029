/* neighbours.c: the halo of a 2-D field in GPU memory by one call: MPI_Neighbor_alltoallw on a grid of ranks.
 *
 * build: mpicc neighbours.c -o neighbours -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart          (or make examples)
 * usage: mpirun -n RANKS [stridec run --] neighbours [rows [columns [times]]]      (200 100 10)
 * run: mpirun -n 4 stridec run -- build/examples/neighbours
 *
 * The grid knows its neighbours, and in which order: up, down, left, right. Each has a datatype and an offset in bytes
 * for what goes there and for what comes from there; at the edge of the grid nothing goes. Every cell is checked. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA(call)                                                                           \
    do {                                                                                     \
        cudaError_t e_ = (call);                                                             \
        if (e_ != cudaSuccess) {                                                             \
            fprintf(stderr, "neighbours: %s: %s\n", #call, cudaGetErrorString(e_));          \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                    \
    } while (0)

struct field {
    int rows, columns, pitch;     /* the border of one cell is not counted; pitch: cells from row to row */
    MPI_Comm grid;
    int rank, at[4];              /* at: up, down, left, right, or MPI_PROC_NULL */
    size_t bytes;
    double *u, *host;             /* in GPU memory, and for filling and checking */
};

static MPI_Aint offset(const struct field *f, int row, int column)
{
    return ((MPI_Aint)row * f->pitch + column) * (MPI_Aint)sizeof(double);
}

static void exchange(struct field *f, MPI_Datatype row, MPI_Datatype column)
{
    const int one[4] = { 1, 1, 1, 1 };
    const MPI_Datatype types[4] = { row, row, column, column };
    const MPI_Aint send[4] = { offset(f, 1, 1), offset(f, f->rows, 1), offset(f, 1, 1), offset(f, 1, f->columns) };
    const MPI_Aint receive[4] = { offset(f, 0, 1), offset(f, f->rows + 1, 1), offset(f, 1, 0),
                                  offset(f, 1, f->columns + 1) };

    MPI_Neighbor_alltoallw(f->u, one, send, types, f->u, one, receive, types, f->grid);
}

static double value(int rank, int row, int column, int time)
{
    return ((rank * 1000.0 + time) * 4096 + row) * 4096 + column;
}

/* Returns what cell (row, column) holds, its border included: a neighbour's value where there is one, else -1. */
static double expected(const struct field *f, int row, int column, int time)
{
    int up = row == 0, down = row > f->rows, left = column == 0, right = column > f->columns;
    int side = up ? 0 : down ? 1 : left ? 2 : 3;

    if (up + down + left + right == 0)
        return value(f->rank, row, column, time);
    if (up + down + left + right == 2 || f->at[side] == MPI_PROC_NULL)   /* corners are not exchanged */
        return -1;
    return value(f->at[side], up ? f->rows : down ? 1 : row, left ? f->columns : right ? 1 : column, time);
}

static void fill(struct field *f, int time)
{
    for (int r = 0; r < f->rows + 2; r++)
        for (int c = 0; c < f->pitch; c++)
            f->host[r * f->pitch + c] = r && r <= f->rows && c && c <= f->columns ? value(f->rank, r, c, time) : -1;
    CUDA(cudaMemcpy(f->u, f->host, f->bytes, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());   /* MPI may look at the field from another stream */
}

static int wrong_cells(struct field *f, int time)
{
    int wrong = 0;

    CUDA(cudaMemcpy(f->host, f->u, f->bytes, cudaMemcpyDeviceToHost));
    for (int r = 0; r < f->rows + 2; r++)
        for (int c = 0; c < f->pitch; c++)
            wrong += f->host[r * f->pitch + c] != expected(f, r, c, time);
    return wrong;
}

static void make_grid(struct field *f, int *ranks)
{
    int dims[2] = { 0, 0 };

    MPI_Comm_size(MPI_COMM_WORLD, ranks);
    MPI_Dims_create(*ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, (int[]){ 0, 0 }, 0, &f->grid);
    MPI_Comm_rank(f->grid, &f->rank);
    MPI_Cart_shift(f->grid, 0, 1, &f->at[0], &f->at[1]);
    MPI_Cart_shift(f->grid, 1, 1, &f->at[2], &f->at[3]);
}

int main(int argc, char **argv)
{
    struct field f = { .rows = argc > 1 ? atoi(argv[1]) : 200, .columns = argc > 2 ? atoi(argv[2]) : 100 };
    int times = argc > 3 ? atoi(argv[3]) : 10, ranks, wrong = 0;
    MPI_Datatype row, column;

    MPI_Init(&argc, &argv);
    make_grid(&f, &ranks);
    f.pitch = f.columns + 2, f.bytes = sizeof(double) * (f.rows + 2) * f.pitch;
    CUDA(cudaMalloc((void **)&f.u, f.bytes));
    f.host = malloc(f.bytes);
    MPI_Type_contiguous(f.columns, MPI_DOUBLE, &row);
    MPI_Type_vector(f.rows, 1, f.pitch, MPI_DOUBLE, &column);
    MPI_Type_commit(&row);
    MPI_Type_commit(&column);

    for (int time = 0; time < times; time++) {
        fill(&f, time);
        exchange(&f, row, column);
        wrong += wrong_cells(&f, time);
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, f.grid);
    if (f.rank == 0)
        printf("neighbours: %d ranks, %d x %d cells each, %d exchanges: %s\n", ranks, f.rows, f.columns, times,
               wrong ? "WRONG" : "verified");

    MPI_Type_free(&row);
    MPI_Type_free(&column);
    MPI_Comm_free(&f.grid);
    CUDA(cudaFree(f.u));
    free(f.host);
    MPI_Finalize();
    return wrong != 0;
}
