/* collectives_cases.c: transposes of a distributed array, and gathers of rows with gaps between them. */
#include "collectives.h"

#define CELL 16             /* bytes of a double complex */
#define ROW 256             /* bytes of a row, and of the gap after it */
#define ROWS 16384          /* of the first rank; each next one has 1/8 more */

/* By the MPI below all that is preloaded, or as a program calls it. */
#define CALL(alone, function, ...) ((alone) ? P##function(__VA_ARGS__) : function(__VA_ARGS__))

static void all_ranks(struct exchange *e)
{
    for (int r = 0; r < e->ranks; r++)
        e->ones[r] = 1, e->zeros[r] = 0;
}

static MPI_Datatype block(const int whole[3], const int part[3], const int start[3])
{
    MPI_Datatype t;

    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_C_DOUBLE_COMPLEX, &t);
    MPI_Type_commit(&t);
    return t;
}

/* From slabs, which divide the first dimension, to pencils, which divide dimension `to`. The ranks divide n. */
static void make_pencils(struct exchange *e, int to)
{
    int part = e->n / e->ranks, slab[3] = { part, e->n, e->n }, pencil[3] = { e->n, e->n, e->n };
    int both[3] = { part, e->n, e->n };

    pencil[to] = both[to] = part;
    all_ranks(e);
    e->in_bytes = e->out_bytes = (size_t)part * (size_t)e->n * (size_t)e->n * CELL;
    for (int r = 0; r < e->ranks; r++) {
        int from_start[3] = { 0 }, to_start[3] = { r * part, 0, 0 };

        from_start[to] = r * part;
        e->send[r] = block(slab, both, from_start);
        e->recv[r] = block(pencil, both, to_start);
        e->share_bytes[r] = e->in_bytes / (size_t)e->ranks;
    }
    e->leaving_bytes = e->in_bytes / (size_t)e->ranks * (size_t)(e->ranks - 1);
}

static void make_y_pencils(struct exchange *e)
{
    make_pencils(e, 1);
}

static void make_z_pencils(struct exchange *e)
{
    make_pencils(e, 2);
}

static int call_alltoallw(const struct exchange *e, const void *in, void *out, bool alone)
{
    return CALL(alone, MPI_Alltoallw, in, e->ones, e->zeros, e->send, out, e->ones, e->zeros, e->recv, MPI_COMM_WORLD);
}

static int contiguous_alltoall(const struct exchange *e, const void *in, void *out)
{
    int cells = (int)(e->share_bytes[0] / CELL);

    return MPI_Alltoall(in, cells, MPI_C_DOUBLE_COMPLEX, out, cells, MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
}

/* Rows with gaps: of each rank, one after the other. */
static void make_rows(struct exchange *e)
{
    MPI_Datatype row;
    int at = 0;

    all_ranks(e);
    MPI_Type_contiguous(ROW, MPI_BYTE, &row);
    MPI_Type_create_resized(row, 0, 2 * ROW, &e->send[0]);
    MPI_Type_commit(&e->send[0]);
    MPI_Type_free(&row);
    for (int r = 0; r < e->ranks; r++) {
        e->counts[r] = ROWS + ROWS / 8 * r;
        e->displs[r] = at;
        at += e->counts[r];
        e->share_bytes[r] = (size_t)e->counts[r] * ROW;
    }
    e->in_bytes = e->out_bytes = (size_t)at * 2 * ROW;
    e->leaving_bytes = e->share_bytes[e->rank] * (size_t)(e->ranks - 1);
}

static void make_gathered(struct exchange *e)
{
    make_rows(e);
    e->leaving_bytes = e->rank ? e->share_bytes[e->rank] : 0;
}

/* From rank 0, which is the one that counts. */
static void make_scattered(struct exchange *e)
{
    make_rows(e);
    e->leaving_bytes = 0;
    for (int r = 1; r < e->ranks && !e->rank; r++)
        e->leaving_bytes += e->share_bytes[r];
}

static void make_cast(struct exchange *e)
{
    make_rows(e);
    e->leaving_bytes = e->rank ? 0 : e->share_bytes[0] * (size_t)(e->ranks - 1);
}

static int call_allgatherv(const struct exchange *e, const void *in, void *out, bool alone)
{
    return CALL(alone, MPI_Allgatherv, in, e->counts[e->rank], e->send[0], out, e->counts, e->displs, e->send[0],
                MPI_COMM_WORLD);
}

static int call_gatherv(const struct exchange *e, const void *in, void *out, bool alone)
{
    return CALL(alone, MPI_Gatherv, in, e->counts[e->rank], e->send[0], out, e->counts, e->displs, e->send[0], 0,
                MPI_COMM_WORLD);
}

static int call_scatterv(const struct exchange *e, const void *in, void *out, bool alone)
{
    return CALL(alone, MPI_Scatterv, in, e->counts, e->displs, e->send[0], out, e->counts[e->rank], e->send[0], 0,
                MPI_COMM_WORLD);
}

/* `out` is the root's buffer too: what is there on other ranks is what comes. */
static int call_bcast(const struct exchange *e, const void *in, void *out, bool alone)
{
    return CALL(alone, MPI_Bcast, e->rank ? out : (void *)in, e->counts[0], e->send[0], 0, MPI_COMM_WORLD);
}

/* Counts and displacements in units of ROW contiguous bytes. */
static MPI_Datatype packed_row(void)
{
    static MPI_Datatype row;   /* MPI_Finalize frees it */

    if (!row) {
        MPI_Type_contiguous(ROW, MPI_BYTE, &row);
        MPI_Type_commit(&row);
    }
    return row;
}

static int contiguous_allgatherv(const struct exchange *e, const void *in, void *out)
{
    MPI_Datatype row = packed_row();

    return MPI_Allgatherv(in, e->counts[e->rank], row, out, e->counts, e->displs, row, MPI_COMM_WORLD);
}

static int contiguous_gatherv(const struct exchange *e, const void *in, void *out)
{
    MPI_Datatype row = packed_row();

    return MPI_Gatherv(in, e->counts[e->rank], row, out, e->counts, e->displs, row, 0, MPI_COMM_WORLD);
}

static int contiguous_scatterv(const struct exchange *e, const void *in, void *out)
{
    MPI_Datatype row = packed_row();

    return MPI_Scatterv(in, e->counts, e->displs, row, out, e->counts[e->rank], row, 0, MPI_COMM_WORLD);
}

static int contiguous_bcast(const struct exchange *e, const void *in, void *out)
{
    return MPI_Bcast(e->rank ? out : (void *)in, e->counts[0], packed_row(), 0, MPI_COMM_WORLD);
}

const struct collective collectives[] = {
    { "alltoallw, slabs to y pencils", make_y_pencils, call_alltoallw, contiguous_alltoall },
    { "alltoallw, slabs to z pencils", make_z_pencils, call_alltoallw, contiguous_alltoall },
    { "allgatherv of rows", make_rows, call_allgatherv, contiguous_allgatherv },
    { "gatherv of rows", make_gathered, call_gatherv, contiguous_gatherv },
    { "scatterv of rows", make_scattered, call_scatterv, contiguous_scatterv },
    { "bcast of rows", make_cast, call_bcast, contiguous_bcast },
    { NULL, NULL, NULL, NULL },
};

void exchange_free(struct exchange *e)
{
    for (int r = 0; r < RANKS_MAX; r++) {
        if (e->send[r] != MPI_DATATYPE_NULL)
            MPI_Type_free(&e->send[r]);
        if (e->recv[r] != MPI_DATATYPE_NULL)
            MPI_Type_free(&e->recv[r]);
    }
}
