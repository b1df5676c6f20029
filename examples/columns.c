/* columns.c: a field in GPU memory, cut into strips of columns, one a rank; halo columns go to both neighbours, and
 * some columns are written out as the field changes. Uses stridec.h, and runs without stridec as well.
 *
 * build: mpicc columns.c -o columns -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lcudart -ldl           (or make examples)
 * usage: mpirun -n RANKS [stridec run --] columns [rows [columns [steps]]]      (512 64 4)
 * run: mpirun -n 3 stridec run -- build/examples/columns 64 16 3
 * run: mpirun -n 3 build/examples/columns 64 16 3
 *
 * With stridec: the halo's datatype is registered, the query tells how it will travel, MPI takes device memory, and the
 * columns to be written are packed on the stream that computes the field, without waiting for it. Without: everything
 * goes by way of a copy in host memory. Every halo cell and every written byte is checked either way. */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <stridec.h>

#define CUDA(call)                                                                           \
    do {                                                                                     \
        cudaError_t e_ = (call);                                                             \
        if (e_ != cudaSuccess) {                                                             \
            fprintf(stderr, "columns: %s: %s\n", #call, cudaGetErrorString(e_));             \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                    \
    } while (0)

#define EVERY 8   /* columns from one that is written out to the next */

struct strip {
    int rank, left, right;
    int rows, columns, pitch;        /* pitch: of a row, with a halo column on both sides */
    size_t bytes;
    double *field, *host;            /* the device's, and a copy in pinned memory */
    MPI_Datatype column, written;
    cudaStream_t stream;
};

static double value(int rank, int row, int column, int step)
{
    return (((double)step * 100 + rank) * 4096 + row) * 4096 + column;
}

static void make_types(struct strip *s)
{
    MPI_Datatype row;

    MPI_Type_vector(s->rows, 1, s->pitch, MPI_DOUBLE, &s->column);
    MPI_Type_commit(&s->column);

    /* The first of every EVERY columns, row by row. */
    MPI_Type_vector(s->columns / EVERY, 1, EVERY, MPI_DOUBLE, &row);
    MPI_Type_create_hvector(s->rows, 1, (MPI_Aint)s->pitch * (MPI_Aint)sizeof(double), row, &s->written);
    MPI_Type_free(&row);
    MPI_Type_commit(&s->written);
}

/* What a program may do with stridec beforehand; all of it is optional. */
static void register_types(const struct strip *s)
{
    MPI_Datatype types[2] = { s->column, s->written };
    int result = stridec_register(MPI_COMM_WORLD, 2, types, s->field, 1);
    enum stridec_path path;
    char why[256];

    if (s->rank == 0 && result == STRIDEC_ABSENT)
        printf("columns: without stridec: by way of host memory\n");
    if (s->rank == 0 && stridec_query(s->field + 1, 1, s->column, s->right, MPI_COMM_WORLD, &path, why, sizeof why)
                            == STRIDEC_OK)
        printf("columns: halo columns go %s: %s\n", stridec_path_name(path), why);
}

/* The step's new field, on the stream: in place of a kernel. */
static void compute(struct strip *s, int step)
{
    for (int r = 0; r < s->rows; r++)
        for (int c = 0; c < s->pitch; c++)
            s->host[(size_t)r * s->pitch + c] = c == 0 || c > s->columns ? -1 : value(s->rank, r, c - 1, step);
    CUDA(cudaMemcpyAsync(s->field, s->host, s->bytes, cudaMemcpyHostToDevice, s->stream));
}

/* The columns to be written into `out`, pinned host memory of `room` bytes, once the stream is done. */
static void pack(struct strip *s, double *out, int room)
{
    MPI_Count position = 0;
    int at = 0;

    if (stridec_pack_on(s->field + 1, 1, s->written, out, room, &position, s->stream) == STRIDEC_OK)
        return;
    CUDA(cudaMemcpyAsync(s->host, s->field, s->bytes, cudaMemcpyDeviceToHost, s->stream));
    CUDA(cudaStreamSynchronize(s->stream));
    MPI_Pack(s->host + 1, 1, s->written, out, room, &at, MPI_COMM_WORLD);
}

static void exchange(const struct strip *s)
{
    int device = stridec_present();
    double *field = device ? s->field : s->host;

    CUDA(cudaStreamSynchronize(s->stream));   /* what MPI is given must be there */
    if (!device)
        CUDA(cudaMemcpy(s->host, s->field, s->bytes, cudaMemcpyDeviceToHost));
    MPI_Sendrecv(field + s->columns, 1, s->column, s->right, 0, field, 1, s->column, s->left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(field + 1, 1, s->column, s->left, 1, field + s->columns + 1, 1, s->column, s->right, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (!device)
        CUDA(cudaMemcpy(s->field, s->host, s->bytes, cudaMemcpyHostToDevice));
}

/* Wrong cells of the field with its halo, and of what was written. */
static int wrong(struct strip *s, const double *out, int step)
{
    int bad = 0;

    CUDA(cudaMemcpy(s->host, s->field, s->bytes, cudaMemcpyDeviceToHost));
    for (int r = 0; r < s->rows; r++) {
        const double *row = s->host + (size_t)r * s->pitch;

        bad += row[0] != value(s->left, r, s->columns - 1, step);
        bad += row[s->columns + 1] != value(s->right, r, 0, step);
        for (int c = 0; c < s->columns; c++) {
            bad += row[c + 1] != value(s->rank, r, c, step);
            if (c % EVERY == 0)
                bad += *out++ != value(s->rank, r, c, step);
        }
    }
    return bad;
}

int main(int argc, char **argv)
{
    struct strip s = { .rows = argc > 1 ? atoi(argv[1]) : 512, .columns = argc > 2 ? atoi(argv[2]) : 64 };
    int steps = argc > 3 ? atoi(argv[3]) : 4, ranks, bad = 0, all;
    double *out;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    s.left = (s.rank + ranks - 1) % ranks, s.right = (s.rank + 1) % ranks;
    s.columns -= s.columns % EVERY, s.pitch = s.columns + 2;
    s.bytes = (size_t)s.rows * s.pitch * sizeof(double);
    int room = s.rows * (s.columns / EVERY) * (int)sizeof(double);

    CUDA(cudaMalloc((void **)&s.field, s.bytes));
    CUDA(cudaMallocHost((void **)&s.host, s.bytes));
    CUDA(cudaMallocHost((void **)&out, room));
    CUDA(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    make_types(&s);
    register_types(&s);
    for (int step = 0; step < steps; step++) {
        compute(&s, step);
        pack(&s, out, room);
        exchange(&s);
        bad += wrong(&s, out, step);
    }
    MPI_Reduce(&bad, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (s.rank == 0)
        printf("columns: %d ranks, %d rows of %d columns, %d steps: %s\n", ranks, s.rows, s.columns, steps,
               all ? "WRONG" : "verified");

    CUDA(cudaStreamDestroy(s.stream));
    MPI_Type_free(&s.column);
    MPI_Type_free(&s.written);
    CUDA(cudaFree(s.field));
    CUDA(cudaFreeHost(s.host));
    CUDA(cudaFreeHost(out));
    MPI_Finalize();
    return bad != 0;
}
