/* pipeline_recv.c: the receiver's side of messages that come in chunks. */
#include "pipeline_recv.h"
#include "base/log.h"
#include "pack/host_scatter.h"
#include "pipeline.h"
#include <stdlib.h>

#define LANES 2      /* batches: a chunk is copied while the one before is unpacked */
#define AWAITED 64   /* chunks: one that the MPI meets unawaited is copied once more */

struct pipeline_recv {
    struct rts descriptor;
    struct typed_buffer *parcel;   /* the caller's */
    struct typed_buffer *carrier;   /* what has the buffers for the chunks: that one, or own */
    bool own;
    char *land;                /* where packed byte 0 arrives */
    char *host;                /* that, where the host unpacks; else NULL */
    void *block;               /* that, where it is to be freed */
    int chunks, posted, arrived;
    bool failed;
    bool dropped;              /* too long: each chunk lands on the one before */
    int64_t begun;
    struct batch lane[LANES];
    struct pipeline_recv *next;
    MPI_Request request[];     /* of each chunk */
};

/*
 * Where the chunks arrive.
 */

/* Memory that neither the MPI nor the host can fill. */
static bool carry(struct pipeline_recv *f, struct location w)
{
    struct typed_buffer *p = f->parcel;
    atomic_store_explicit(&p->layout->committed, true, memory_order_relaxed);   /* a receive of it has been made */
    f->own = !typed_buffer_open(&f->carrier, p->layout, w, p->user, p->count, p->datatype, MPI_COMM_SELF);
    if (f->own) f->land = f->carrier->address;
    return f->own;
}

static bool find_land(struct pipeline_recv *f)
{
    struct typed_buffer *p = f->parcel;
    f->carrier = p;
    if (p->transport) {
        f->land = p->address;
        return true;
    }
    struct location w = p->layout->tree ? locate(p->layout, p->user, p->count) : (struct location){.device = p->device};
    if (p->layout->tree && layout_contiguous(p->layout, p->count) && (!w.device || (mpi_cuda_aware() && !w.parts))) {
        f->land = p->user + p->layout->tree->off;
        return true;
    }
    if (w.device) return carry(f, w);
    f->land = f->host = f->block = malloc((size_t)f->descriptor.bytes);
    return f->land != NULL;
}

/*
 * Receiving.
 */

static void post(struct pipeline_recv *f)
{
    const struct rts *d = &f->descriptor;
    const struct pipeline *l = pipeline_get();
    while (!f->failed && f->posted < f->chunks && f->posted - f->arrived < (f->dropped ? 1 : AWAITED)) {
        int64_t at = f->posted * d->chunk, bytes = pipeline_end(d, f->posted) - at;
        f->failed = PMPI_Irecv(f->land + (f->dropped ? 0 : at), (int)bytes, MPI_BYTE, (int)d->rank, (int)d->slot,
                               l->comm, &f->request[f->posted]) != MPI_SUCCESS;
        if (!f->failed) f->posted++;
    }
}

/* What a message that moves as a whole only brings is moved at the end. */
static bool in_parts(const struct pipeline_recv *f)
{
    return f->host ? f->parcel->layout->tree != NULL : f->carrier->transport && f->carrier->transport->joins;
}

/* False where the work can't be enqueued. */
static bool unpack(struct pipeline_recv *f, int chunk)
{
    int64_t begin = chunk * f->descriptor.chunk, end = pipeline_end(&f->descriptor, chunk);
    struct typed_buffer *p = f->carrier;
    if (f->dropped || !in_parts(f)) return true;
    if (f->host) return host_scatter_move(p, f->host, begin, end, false);
    if (device_enter(p->device)) return false;
    struct stream *s = batch_stream(&f->lane[chunk % LANES], p->device);
    bool ok = s && !p->transport->move(p, s, KERNEL_UNPACK, begin, end);
    device_leave(p->device);
    return ok;
}

/* The next chunk is here: -1 where it is none, since the sender can't go on. */
static int arrived(struct pipeline_recv *f)
{
    const struct rts *d = &f->descriptor;
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

/* All chunks that are here. True when there is nothing more to come. */
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

/*
 * One message.
 */

int pipeline_recv_add(struct pipeline_recv **all, const struct rts *d, struct typed_buffer *p, MPI_Status *status)
{
    bool fits = d->bytes <= p->bytes;
    int n = pipeline_chunks(d);
    PMPI_Status_set_elements_x(status, MPI_BYTE, fits ? d->bytes : p->bytes);
    struct pipeline_recv *f = calloc(1, sizeof *f + (size_t)n * sizeof *f->request);
    if (f) f->descriptor = *d, f->parcel = p, f->chunks = n, f->dropped = !fits;
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

/* All of it is here, and where the application wants it when the streams are through. */
static bool finished(struct pipeline_recv *f)
{
    struct typed_buffer *p = f->carrier;
    int64_t bytes = f->descriptor.bytes;
    bool ok = !f->failed;
    for (int i = 0; i < LANES; i++)
        if (batch_wait(&f->lane[i])) ok = false;
    if (ok && !in_parts(f) && f->host) ok = host_scatter_move(p, f->host, 0, bytes, false);
    if (ok && !in_parts(f) && !f->host && p->transport) {
        ok = typed_buffer_unpack(p, bytes, MPI_COMM_SELF) == MPI_SUCCESS;
        bytes = 0;   /* which has counted them */
    }
    if (bytes) typed_buffer_stats(p, "pipelined", bytes, f->begun);
    if (!ok) log_write(LOG_ERROR, "a message from rank %u can't be received", f->descriptor.rank);
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

/* Each step of the loop looks at all of them, and by that lets the MPI go on. */
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
