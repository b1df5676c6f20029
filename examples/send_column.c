/* send_column.c: a column of a matrix in GPU memory goes to another GPU as it lies: one datatype, one call a rank.
 *
 * build: mpicc send_column.c -o send_column -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart        (or make examples)
 * run: mpirun -n 2 stridec run -- build/examples/send_column
 *
 * Rank 0 sends column 3 of its matrix; rank 1 receives it as column 5 of its own, whose other columns must stay as they
 * were. Every byte is checked. The ten lines to learn from are between the two marks; the rest fills and checks. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define ROWS 1000
#define COLUMNS 8

static double host[ROWS][COLUMNS], want[ROWS][COLUMNS];

static void fill(double to[ROWS][COLUMNS], int rank)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            to[r][c] = rank * 1e6 + r * COLUMNS + c;
}

int main(int argc, char **argv)
{
    MPI_Datatype column;
    double *matrix;
    int rank, wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (cudaMalloc((void **)&matrix, sizeof host) != cudaSuccess)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fill(host, rank);
    cudaMemcpy(matrix, host, sizeof host, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();   /* MPI may look at the matrix from another stream */

    /* --- the ten lines --- */
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    if (rank == 0)
        MPI_Send(matrix + 3, 1, column, 1, 0, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(matrix + 5, 1, column, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
    /* --- end of the ten lines --- */

    cudaMemcpy(host, matrix, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(matrix);
    fill(want, rank);
    for (int r = 0; rank == 1 && r < ROWS; r++)
        want[r][5] = r * COLUMNS + 3;
    wrong = memcmp(host, want, sizeof host) != 0;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("send_column: %s\n", wrong ? "WRONG" : "verified");
    MPI_Finalize();
    return wrong != 0;
}
