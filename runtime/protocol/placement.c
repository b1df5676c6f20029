/* placement.c: see placement.h. */
#include "placement.h"
#include "node/ipc_export.h"
#include "pipeline.h"
#include "rts.h"

/* The MPI moves longer messages from and to the buffer itself. To read an RTS header there takes about 10 us, little
 * beside such a message, and so much pinned memory may not be available. */
#define APART_MOST ((int64_t)64 << 20)

#define UNTRIED 16   /* messages; a peer tries to read at its first receive into device memory */

/* True if the last long message into device memory was an RTS header (struct peer.offers: from that peer). */
static atomic_bool came;

/* The flags are written only where they change: receives of other threads read them. */
static void note(atomic_bool *flag, bool header)
{
    if (atomic_load_explicit(flag, memory_order_relaxed) != header)
        atomic_store_explicit(flag, header, memory_order_relaxed);
}

void placement_note(struct peer *from, const struct typed_buffer *p, bool header)
{
    if (!p->device) return;   /* a receive into host memory tells nothing */
    if (from) note(&from->offers, header);
    note(&came, header);
}

/* p: NULL for any rank. Payloads below RNDV_MIN have at most a short RTS (rts_short.h). */
static bool expects_header(const struct peer *p, int64_t bytes)
{
    if (p && p->self) return true;
    if (bytes < RNDV_MIN) return bytes >= rts_least() && node_zerocopy();
    return atomic_load_explicit(p ? &p->offers : &came, memory_order_relaxed);
}

/* RTS headers must arrive in host memory; chunks where the tuned table says. */
bool placement_on_host(int64_t bytes, int peer, MPI_Comm comm)
{
    int inter = 1, rank = MPI_PROC_NULL;
    if (!mpi_cuda_aware()) return false;
    if (peer == MPI_ANY_SOURCE) return expects_header(NULL, bytes);
    if (peer < 0) return false;
    const struct pipeline *l = pipeline_get();
    if (l && !l->settings.device && bytes >= l->settings.least && pipeline_peer(comm, peer) >= 0) return true;
    const struct peer *p = node_peer(comm, peer);
    if (p) return expects_header(p, bytes);
    PMPI_Comm_test_inter(comm, &inter);
    return !inter && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && rank == peer;
}

bool placement_sends_on_host(int64_t bytes, int dest, MPI_Comm comm)
{
    const struct peer *p = mpi_cuda_aware() && node_zerocopy() ? node_peer(comm, dest) : NULL;
    return p || placement_on_host(bytes, dest, comm);
}

static int open_at(struct typed_buffer **p, const struct message *m, bool on_host)
{
    struct location w = m->where;
    w.on_host = on_host;
    return typed_buffer_open(p, m->layout, w, m->buf, m->count, m->type, m->comm);
}

int placement_open(struct typed_buffer **p, const struct message *m)
{
    return open_at(p, m, placement_on_host(layout_bytes(m->layout, m->count), m->peer, m->comm));
}

int placement_open_receive(struct typed_buffer **p, const struct message *m)
{
    int64_t bytes = layout_bytes(m->layout, m->count);
    bool native = typed_buffer_mpi_takes(m->layout, m->buf, m->count, m->where);
    bool on_host = (!native || bytes <= APART_MOST) && placement_on_host(bytes, m->peer, m->comm);
    /* Benchmarks post many receives into one buffer: the next message would overwrite an RTS header there. */
    bool shared = bytes >= rts_least() && bytes <= APART_MOST && typed_buffer_has_recv(m->buf);
    if (native && !on_host && !shared) return MPI_SUCCESS;
    return open_at(p, m, on_host);
}

int placement_open_send(struct typed_buffer **p, const struct message *m)
{
    return open_at(p, m, placement_sends_on_host(layout_bytes(m->layout, m->count), m->peer, m->comm));
}

bool placement_packs(const struct layout *l, int64_t count, struct device *d, int dest, MPI_Comm comm)
{
    struct peer *p = node_zerocopy() ? node_peer(comm, dest) : NULL;
    if (!p || p->self) return false;
    int64_t bytes = layout_bytes(l, count);
    return bytes >= RNDV_MIN && bytes <= APART_MOST && !ipc_export_readable(d, p) &&
           atomic_fetch_add(&p->unprobed, 1) < UNTRIED;
}
