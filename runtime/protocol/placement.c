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

/* Returns true if the packed bytes better lie in host memory: RTS headers must arrive there, chunks where the tuned
 * table says. */
static bool is_on_host(const struct message *m)
{
    int inter = 1, rank = MPI_PROC_NULL;
    if (!mpi_cuda_aware()) return false;
    if (m->peer == MPI_ANY_SOURCE) return expects_header(NULL, m->bytes);
    if (m->peer < 0) return false;
    const struct pipeline *l = pipeline_get();
    if (l && !l->settings.device && m->bytes >= l->settings.least && pipeline_peer(m->comm, m->peer) >= 0) return true;
    if (m->near) return expects_header(m->near, m->bytes);
    PMPI_Comm_test_inter(m->comm, &inter);
    return !inter && PMPI_Comm_rank(m->comm, &rank) == MPI_SUCCESS && rank == m->peer;
}

bool placement_sends_on_host(const struct message *m)
{
    return (m->near && mpi_cuda_aware() && node_zerocopy()) || is_on_host(m);
}

static int open_at(struct typed_buffer **p, const struct message *m, bool on_host)
{
    struct location w = m->where;
    w.on_host = on_host;
    return typed_buffer_open(p, m->layout, w, m->buf, m->count, m->type, m->comm);
}

int placement_open(struct typed_buffer **p, const struct message *m)
{
    return open_at(p, m, is_on_host(m));
}

int placement_open_receive(struct typed_buffer **p, const struct message *m)
{
    bool takes = typed_buffer_mpi_takes(m->layout, m->buf, m->count, m->where);
    bool on_host = (!takes || m->bytes <= APART_MOST) && is_on_host(m);
    /* Benchmarks post many receives into one buffer: the next message would overwrite an RTS header there. */
    bool shared = m->bytes >= rts_least() && m->bytes <= APART_MOST && typed_buffer_has_recv(m->buf);
    if (takes && !on_host && !shared) return MPI_SUCCESS;
    return open_at(p, m, on_host);
}

int placement_open_send(struct typed_buffer **p, const struct message *m)
{
    return open_at(p, m, placement_sends_on_host(m));
}

bool placement_packs(const struct message *m)
{
    if (!m->near || m->near->self || !node_zerocopy()) return false;
    return m->bytes >= RNDV_MIN && m->bytes <= APART_MOST && !ipc_export_readable(m->where.device, m->near) &&
           atomic_fetch_add(&m->near->unprobed, 1) < UNTRIED;
}
