/* measure_pipeline.c: times messages in chunks between ranks 0 and 1, for `stridec tune`. Finds the chunk length, the
 * depth, the kind of memory, and the least message that gains. */
#include "protocol/pipeline.h"
#include "protocol/pipeline_send.h"
#include "protocol/placement.h"
#include "protocol/rndv_recv.h"
#include "protocol/rts.h"
#include "progress.h"
#include "timing.h"
#include <string.h>

#define TAG 0
#define BLOCK 64
#define NEVER ((int64_t)1 << 30)   /* longer messages go whole anyway */
#define CHUNKS_WORTH 0.95                 /* of the whole message's time: two runs may differ by that much */

static const int64_t chunks[] = {1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21}, depths[] = {2, 4, 8, 16};
static const int64_t lengths[] = {1 << 24, 1 << 23, 1 << 22, 1 << 21, 1 << 20, 1 << 19, 1 << 18, 1 << 17};
#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))

static struct typed_buffer *open_buffer(const struct tune_end *e)
{
    struct typed_buffer *p = NULL;
    struct message m = {e->user, 1, MPI_DATATYPE_NULL, 1 - e->rank, MPI_COMM_WORLD, .reuse = REUSE_LATER};
    message_set(&m, e->layout, (struct location){.device = e->device});
    return placement_open(&p, &m) == MPI_SUCCESS ? p : NULL;
}

/* Packs and sends; sends an empty message on failure, because the other rank waits for one. */
static bool give_whole(const struct tune_end *e)
{
    struct typed_buffer *p = open_buffer(e);
    bool ok = p && typed_buffer_pack(p, MPI_COMM_SELF) == MPI_SUCCESS;
    PMPI_Send(ok ? p->address : NULL, ok ? (int)p->bytes : 0, MPI_BYTE, 1 - e->rank, TAG, MPI_COMM_WORLD);
    typed_buffer_close(p);
    return ok;
}

static bool take_whole(const struct tune_end *e)
{
    MPI_Status status;
    struct typed_buffer *p = open_buffer(e);
    int rc = PMPI_Recv(p ? p->address : NULL, p ? (int)p->bytes : 0, MPI_BYTE, 1 - e->rank, TAG, MPI_COMM_WORLD,
                       &status);
    bool ok = p && rc == MPI_SUCCESS && mpi_bytes_received(&status) == p->bytes &&
              typed_buffer_unpack(p, p->bytes, MPI_COMM_SELF) == MPI_SUCCESS;
    typed_buffer_close(p);
    return ok;
}

static bool give_chunks(const struct tune_end *e)
{
    static const struct rts none;
    struct pipeline_send *o = pipeline_send_to(1 - e->rank, e->layout, (struct location){.device = e->device}, e->user,
                                               1);
    PMPI_Send(o ? pipeline_send_rts(o) : &none, RTS_BYTES, MPI_BYTE, 1 - e->rank, TAG, MPI_COMM_WORLD);
    bool ok = o && pipeline_send_feed(o) == 0;
    if (o) pipeline_send_end(o);
    return ok;
}

static bool take_chunks(const struct tune_end *e)
{
    struct rts d;
    struct rndv_recvs recvs = {0};
    MPI_Status status;
    struct typed_buffer *p = open_buffer(e);
    PMPI_Recv(&d, RTS_BYTES, MPI_BYTE, 1 - e->rank, TAG, MPI_COMM_WORLD, &status);
    bool ok = p && pipeline_named(&d) && rndv_recv_add(&recvs, &d, NULL, p, &status) == MPI_SUCCESS;
    if (rndv_recvs_run(&recvs)) ok = false;
    typed_buffer_close(p);
    return ok;
}

static const struct tune_way by_whole = {give_whole, take_whole}, by_chunks = {give_chunks, take_chunks};

/* Returns half a round trip as rank 0 measured it, so that both ranks decide alike; negative on failure. */
static double exchange(const struct tune_end *e)
{
    double median = tune_exchange(e, (double)e->layout->size);
    if (e->rank == 0) PMPI_Send(&median, 1, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD);
    else PMPI_Recv(&median, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return median;
}

/* Returns the time with these settings, or of a whole message if p is NULL; negative on failure. */
static double time_of(struct tune_end *e, int64_t bytes, const struct chunk_params *p)
{
    e->way = p ? &by_chunks : &by_whole;
    if (p) pipeline_try(p);
    tune_column_open(e, BLOCK, bytes);
    if (e->layout) atomic_store(&e->layout->committed, true);
    double us = tune_both(e->rank, e->user != NULL) ? exchange(e) : -1;
    tune_column_close(e);
    return us;
}

/* Returns true on both ranks if the stage has time for another measurement. */
static bool time_is_left(const struct tune_end *e)
{
    return tune_follow(e->rank, progress_time_for(0));
}

/* Sets *field to the best of the values; leaves it if there is no time for all. Returns false if none can be
 * measured. */
static bool choose(struct tune_end *e, int64_t bytes, struct chunk_params *p, int64_t *field, const int64_t values[],
                   int n)
{
    double best = -1;
    int64_t assumed = *field, chosen = assumed;
    for (int i = 0; i < n; i++) {
        if (!time_is_left(e)) return *field = assumed, true;
        *field = values[i];
        double us = time_of(e, bytes, p);
        if (us >= 0 && (best < 0 || us < best)) best = us, chosen = values[i];
    }
    *field = chosen;
    return best >= 0;
}

/* Returns the least length that gains by chunks; goes down from the longest until one does not. Returns the assumed one
 * if the time ends before that. */
static int64_t threshold(struct tune_end *e, const struct chunk_params *p, int64_t longest)
{
    int64_t least = NEVER;
    for (int i = 0; i < LENGTH(lengths); i++) {
        if (lengths[i] > longest) continue;
        if (!time_is_left(e)) return p->least;
        double cut = time_of(e, lengths[i], p), whole = time_of(e, lengths[i], NULL);
        if (cut < 0 || whole < 0 || cut > CHUNKS_WORTH * whole) break;
        least = lengths[i];
    }
    return least;
}

bool tune_chunks(struct tune_table *t, struct device *d, bool quick, int rank)
{
    struct tune_end e = {.rank = rank, .device = d};
    struct chunk_params p = CHUNK_SETTINGS_DEFAULT;
    int64_t longest = quick ? 1 << 20 : 1 << 24, memory[2] = {0, 1};
    int all = quick ? 2 : LENGTH(chunks), few = quick ? 1 : LENGTH(depths);
    if (!pipeline_get()) return false;
    bool ok = choose(&e, longest, &p, &p.chunk, chunks + (quick ? 2 : 0), all) &&
              choose(&e, longest, &p, &p.depth, depths + (quick ? 1 : 0), few) &&
              (!mpi_cuda_aware() || choose(&e, longest, &p, &p.device, memory, 2));
    if (ok) p.least = threshold(&e, &p, longest), t->pipeline = p;
    if (!progress_time_for(0)) progress_say("the time for chunks is over: settings not measured are as assumed");
    return ok;
}
