/* rows.c: buffers of doubles, and the ten collectives on them. */
#include "rows.h"
#include "persistent.h"
#include <stdlib.h>

bool everywhere(bool here)
{
    int in = here, all = 0;
    MPI_Allreduce(&in, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

void doubles_make(struct doubles *d, enum mem_kind kind, size_t n)
{
    d->kind = host_mode ? MEM_HOST : kind, d->n = n;
    d->at = mem_alloc(d->kind, n * sizeof(double));
    d->shadow = malloc(n * sizeof(double));
}

void doubles_free(struct doubles *d)
{
    mem_free(d->kind, d->at);
    free(d->shadow);
}

void doubles_write(struct doubles *d)
{
    mem_write(d->kind, d->at, d->shadow, d->n * sizeof(double));
}

void doubles_check(const struct doubles *d, const char *what)
{
    double *is = malloc(d->n * sizeof(double));
    size_t wrong = 0, first = 0;
    mem_read(d->kind, is, d->at, d->n * sizeof(double));
    for (size_t i = 0; i < d->n; i++)
        if (is[i] != d->shadow[i] && !wrong++) first = i;
    expect(!wrong, "%s: %zu of %zu doubles are wrong, first %zu: %g, not %g", what, wrong, d->n, first, is[first],
           d->shadow[first]);
    free(is);
}

/* ---- one piece a rank ---- */

MPI_Datatype row;

/* The lists of a call with lists: all pieces, backwards. They outlive nonblocking calls. */
static int counts[8], displs[8], bytes[8];
static MPI_Datatype types[8];

void rows_begin(void)
{
    MPI_Datatype vector;
    MPI_Type_vector(ROWS, 1, 2, MPI_DOUBLE, &vector);
    MPI_Type_create_resized(vector, 0, 2 * ROWS * sizeof(double), &row);
    MPI_Type_free(&vector);
    type_commit(&row);
    for (int i = 0; i < 8; i++) {
        counts[i] = 1, displs[i] = num_ranks - 1 - i, types[i] = row;
        bytes[i] = displs[i] * 2 * ROWS * (int)sizeof(double);
    }
}

void rows_end(void)
{
    MPI_Type_free(&row);
}

void rows_make(struct doubles *d, enum mem_kind kind)
{
    doubles_make(d, kind, (size_t)num_ranks * ROWS * 2);
}

static double value(int rank, int piece, int i, int round)
{
    return ((double)round * 16 + rank) * 16 + piece + i / 1024.0;
}

void rows_put(struct doubles *d, int place, int rank, int piece, int round)
{
    for (int i = 0; i < ROWS; i++) d->shadow[(place * ROWS + i) * 2] = value(rank, piece, i, round);
}

void rows_clear(struct doubles *d)
{
    for (size_t i = 0; i < d->n; i++) d->shadow[i] = -1;
}

const char *const kind_name[KINDS] = {"Alltoall", "Alltoallv", "Alltoallw", "Allgather", "Allgather in place",
    "Allgatherv", "Bcast", "Gather", "Gather in place", "Gatherv", "Scatter", "Scatter in place", "Scatterv"};

void rows_fill(enum kind k, struct doubles *out, struct doubles *in, int root, int round)
{
    rows_clear(out), rows_clear(in);
    for (int i = 0; i < num_ranks; i++) rows_put(out, i, my_rank, i, round);
    if (k == ALLGATHER_IN_PLACE) rows_put(in, my_rank, my_rank, 0, round);
    if (k == GATHER_IN_PLACE && my_rank == root) rows_put(in, root, root, 0, round);
    if (k == BCAST && my_rank == root) rows_put(in, 0, root, 0, round);
    doubles_write(out), doubles_write(in);
}

#define CALL(N, I, ...) \
    form == BLOCKING ? MPI_##N(__VA_ARGS__) \
    : form == NONBLOCKING ? MPI_##I(__VA_ARGS__, q) : PERSISTENT_INIT(N, q, __VA_ARGS__)

int rows_call(enum kind k, enum form form, struct doubles *out, struct doubles *in, int root, MPI_Comm comm,
              MPI_Request *q)
{
    void *o = out->at, *i = in->at, *place = MPI_IN_PLACE;
    bool at_root = my_rank == root;
    switch (k) {
    case ALLTOALL: return CALL(Alltoall, Ialltoall, o, 1, row, i, 1, row, comm);
    case ALLTOALLV: return CALL(Alltoallv, Ialltoallv, o, counts, displs, row, i, counts, displs, row, comm);
    case ALLTOALLW: return CALL(Alltoallw, Ialltoallw, o, counts, bytes, types, i, counts, bytes, types, comm);
    case ALLGATHER: return CALL(Allgather, Iallgather, o, 1, row, i, 1, row, comm);
    case ALLGATHER_IN_PLACE: return CALL(Allgather, Iallgather, place, 0, MPI_DATATYPE_NULL, i, 1, row, comm);
    case ALLGATHERV: return CALL(Allgatherv, Iallgatherv, o, 1, row, i, counts, displs, row, comm);
    case BCAST: return CALL(Bcast, Ibcast, i, 1, row, root, comm);
    case GATHER: return CALL(Gather, Igather, o, 1, row, i, 1, row, root, comm);
    case GATHER_IN_PLACE: return CALL(Gather, Igather, at_root ? place : o, 1, row, i, 1, row, root, comm);
    case GATHERV: return CALL(Gatherv, Igatherv, o, 1, row, i, counts, displs, row, root, comm);
    case SCATTER: return CALL(Scatter, Iscatter, o, 1, row, i, 1, row, root, comm);
    case SCATTER_IN_PLACE: return CALL(Scatter, Iscatter, o, 1, row, at_root ? place : i, 1, row, root, comm);
    case SCATTERV: return CALL(Scatterv, Iscatterv, o, counts, displs, row, i, 1, row, root, comm);
    default: return MPI_ERR_OTHER;
    }
}

void rows_expected(enum kind k, struct doubles *in, int root, int round)
{
    int last = num_ranks - 1;
    bool gathers = k == GATHER || k == GATHER_IN_PLACE || k == GATHERV;
    for (int i = 0; i < num_ranks; i++) {
        if (k == ALLTOALL) rows_put(in, i, i, my_rank, round);
        if (k == ALLTOALLV || k == ALLTOALLW) rows_put(in, last - i, i, last - my_rank, round);
        if (k == ALLGATHER || k == ALLGATHER_IN_PLACE) rows_put(in, i, i, 0, round);
        if (k == ALLGATHERV) rows_put(in, last - i, i, 0, round);
        if (gathers && my_rank == root) rows_put(in, k == GATHERV ? last - i : i, i, 0, round);
    }
    if (k == BCAST) rows_put(in, 0, root, 0, round);
    if (k == SCATTER || (k == SCATTER_IN_PLACE && my_rank != root)) rows_put(in, 0, root, my_rank, round);
    if (k == SCATTERV) rows_put(in, 0, root, last - my_rank, round);
}

int rows_wanted(enum kind k, int root)
{
    if (k == GATHER || k == GATHER_IN_PLACE || k == GATHERV) return my_rank == root;
    if (k == BCAST || k == SCATTER_IN_PLACE) return my_rank != root;
    return 1;
}
