/* pipeline_recv.c: the receiver's side of messages in chunks. */
#include "pipeline_recv.h"
#include "base/log.h"
#include "pack/host_scatter.h"
#include "pipeline.h"
#include <stdlib.h>

#define LANES 2      /* batches: a chunk is copied while the previous one is unpacked */
#define AWAITED 64   /* posted receives: an unexpected chunk costs the MPI one more copy */

struct pipeline_recv {
    struct rts rts;
    struct typed_buffer *tbuf;   /* the caller's */
    struct typed_buffer *carrier;   /* has the buffers for the chunks: `tbuf`, or our own */
    bool own;
    char *land;                /* address of packed byte 0 */
    char *host;                /* equals land if the host unpacks; else NULL */
    void *block;               /* equals land if to be freed; else NULL */
    int chunks, posted, arrived;
    bool failed;
    bool dropped;              /* too long: each chunk overwrites the previous one */
    int64_t begun;
    struct batch lane[LANES];
    struct pipeline_recv *next;
    MPI_Request request[];     /* of each chunk */
};

/* ---- memory for the chunks ---- */

/* Opens an own typed buffer, for memory that neither the MPI nor the host can fill. Returns false on failure. */
static bool carry(struct pipeline_recv *f, struct location w)
{
    struct typed_buffer *p = f->tbuf;
    atomic_store_explicit(&p->layout->committed, true, memory_order_relaxed);   /* it was used in a receive */
    f->own = !typed_buffer_open(&f->carrier, p->layout, w, p->user, p->count, p->datatype, MPI_COMM_SELF);
    if (f->own) f->land = f->carrier->address;
    return f->own;
}

/* Chooses where the chunks arrive. Returns false without memory. */
static bool find_land(struct pipeline_recv *f)
{
    struct typed_buffer *p = f->tbuf;
    f->carrier = p;
    if (p->transport) {
        f->land = p->address;
        return true;
    }
    struct location w = {.device = p->device};
    if (p->layout->tree && !p->hosted) w = locate(p->layout, p->user, p->count);
    if (p->layout->tree && layout_contiguous(p->layout, p->count) && (!w.device || (mpi_cuda_aware() && !w.parts))) {
        f->land = p->user + p->layout->tree->off;
        return true;
    }
    if (w.device) return carry(f, w);
    f->land = f->host = f->block = malloc((size_t)f->rts.bytes);
    return f->land != NULL;
}

/* ---- receiving ---- */

static void post(struct pipeline_recv *f)
{
    const struct rts *d = &f->rts;
    const struct pipeline *l = pipeline_get();
    while (!f->failed && f->posted < f->chunks && f->posted - f->arrived < (f->dropped ? 1 : AWAITED)) {
        int64_t at = f->posted * d->chunk, bytes = pipeline_end(d, f->posted) - at;
        f->failed = PMPI_Irecv(f->land + (f->dropped ? 0 : at), (int)bytes, MPI_BYTE, (int)d->rank, (int)d->slot,
                               l->comm, &f->request[f->posted]) != MPI_SUCCESS;
        if (!f->failed) f->posted++;
    }
}

/* Returns true if chunks are unpacked one by one; else all is unpacked at the end. */
static bool in_parts(const struct pipeline_recv *f)
{
    return f->host ? f->tbuf->layout->tree != NULL : f->carrier->transport && f->carrier->transport->joins;
}

/* Starts to unpack a chunk. Returns false on failure. */
static bool unpack(struct pipeline_recv *f, int chunk)
{
    int64_t begin = chunk * f->rts.chunk, end = pipeline_end(&f->rts, chunk);
    struct typed_buffer *p = f->carrier;
    if (f->dropped || !in_parts(f)) return true;
    if (f->host) return host_scatter_move(p, f->host, begin, end, false);
    if (device_enter(p->device)) return false;
    struct stream *s = batch_stream(&f->lane[chunk % LANES], p->device);
    bool ok = s && !p->transport->move(p, s, KERNEL_UNPACK, begin, end);
    device_leave(p->device);
    return ok;
}

/* Returns 1 if the next chunk has arrived, 0 if not, -1 on error or if the sender failed. */
static int arrived(struct pipeline_recv *f)
{
    const struct rts *d = &f->rts;
    MPI_Status status;
    int here = 0, i = f->arrived;
    if (PMPI_Test(&f->request[i], &here, &status) != MPI_SUCCESS) return -1;
    return here && mpi_bytes_received(&status) != pipeline_end(d, i) - i * d->chunk ? -1 : here;
}

static void give_up(struct pipeline_recv *f)
{
    for (int i = f->arrived; i < f->posted; i++) {
        if (f->request[i] == MPI_REQUEST_NULL) continue;
        PMPI_Cancel(&f->request[i]);
        PMPI_Wait(&f->request[i], MPI_STATUS_IGNORE);
    }
    f->arrived = f->posted = f->chunks;
}

/* Unpacks all chunks that have arrived. Returns true when no more will come. */
static bool advance(struct pipeline_recv *f)
{
    int here = 1;
    while (!f->failed && f->arrived < f->posted && (here = arrived(f)) > 0) {
        f->failed = !unpack(f, f->arrived++);
        post(f);
    }
    if (here < 0) f->failed = true;
    if (f->failed) give_up(f);
    return f->arrived == f->chunks;
}

/* ---- one message ---- */

int pipeline_recv_add(struct pipeline_recv **all, const struct rts *d, struct typed_buffer *p, MPI_Status *status)
{
    bool fits = d->bytes <= p->bytes;
    int n = pipeline_chunks(d);
    PMPI_Status_set_elements_x(status, MPI_BYTE, fits ? d->bytes : p->bytes);
    struct pipeline_recv *f = calloc(1, sizeof *f + (size_t)n * sizeof *f->request);
    if (f) f->rts = *d, f->tbuf = p, f->chunks = n, f->dropped = !fits;
    if (f && !fits) f->land = f->block = malloc((size_t)d->chunk);
    if (!f || (fits ? !find_land(f) : !f->land)) {
        free(f);
        return MPI_ERR_NO_MEM;
    }
    f->begun = typed_buffer_clock();
    f->next = *all;
    *all = f;
    return fits ? MPI_SUCCESS : MPI_ERR_TRUNCATE;
}

void pipeline_recvs_start(struct pipeline_recv *all)
{
    for (struct pipeline_recv *f = all; f; f = f->next) post(f);
}

/* Waits for the streams, unpacks the rest, and logs errors. Returns false on failure. */
static bool finished(struct pipeline_recv *f)
{
    struct typed_buffer *p = f->carrier;
    int64_t bytes = f->rts.bytes;
    bool ok = !f->failed;
    for (int i = 0; i < LANES; i++)
        if (batch_wait(&f->lane[i])) ok = false;
    if (ok && !in_parts(f) && f->host) ok = host_scatter_move(p, f->host, 0, bytes, false);
    if (ok && !in_parts(f) && !f->host && p->transport) {
        ok = typed_buffer_unpack(p, bytes, MPI_COMM_SELF) == MPI_SUCCESS;
        bytes = 0;   /* counted by typed_buffer_unpack */
    }
    if (bytes) typed_buffer_stats(p, "pipelined", bytes, f->begun);
    if (!ok) log_write(LOG_ERROR, "a message from rank %u can't be received", f->rts.rank);
    if (f->own) typed_buffer_close(p);
    return ok;
}

static bool end(struct pipeline_recv *f)
{
    bool ok = f->dropped || finished(f);
    free(f->block);
    free(f);
    return ok;
}

/* Tests all messages in turn, which lets the MPI progress. */
int pipeline_recvs_end(struct pipeline_recv *all)
{
    int rc = 0;
    for (bool more = all != NULL; more;) {
        more = false;
        for (struct pipeline_recv *f = all; f; f = f->next)
            if (!advance(f)) more = true;
    }
    for (struct pipeline_recv *f = all, *next; f; f = next) {
        next = f->next;
        if (!end(f)) rc = -1;
    }
    return rc;
}
