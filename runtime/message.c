/* message.c: the two ends of a message that a parcel carries. */
#include "message.h"
#include "import.h"
#include "scatter.h"
#include <stdlib.h>

#define PEERS_TRIED 64   /* of a receive from anyone */

/* What failed leaves no parcel. */
static bool settled(struct parcel **p, int rc)
{
    if (rc == MPI_SUCCESS) return *p != NULL;
    parcel_close(*p);
    *p = NULL;
    return false;
}

bool message_packed(struct parcel **p, struct wire *w, const void *buf, int64_t count, MPI_Datatype datatype, int dest,
                    MPI_Comm comm, int *rc)
{
    *p = NULL;
    *rc = dest == MPI_PROC_NULL ? MPI_SUCCESS : parcel_open(p, buf, count, datatype, dest, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = parcel_pack(*p, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = wire_of((*p)->bytes, w);
    return settled(p, *rc);
}

/* Peers that may send here and have put out something new to be tried. */
static void try_peers(struct parcel *p, int source, MPI_Comm comm)
{
    int size = 0;
    if (!node_armed() || !p || !p->device) return;
    if (source >= 0) import_try(node_peer(comm, source), p->device);
    else PMPI_Comm_size(comm, &size);
    for (int i = 0; i < size && i < PEERS_TRIED; i++) import_try(node_peer(comm, i), p->device);
}

/* What is in pieces in host memory comes packed, into memory of stridec's own, where the MPI might refuse a descriptor. */
static struct parcel *by_block(const void *buf, int64_t count, MPI_Datatype datatype, int source, MPI_Comm comm)
{
    struct parcel *p = DESCRIPTORS_END_ANYWHERE ? NULL : pull_watch(buf, count, datatype, source, comm);
    bool pieces = p && p->layout->tree && !layout_contiguous(p->layout, count) && !where_of(p->layout, buf, count).device;
    if (pieces) p->address = p->block = malloc((size_t)p->bytes);
    if (p && p->block) return p;
    parcel_close(p);
    return NULL;
}

int message_unpack(struct parcel *p, int64_t bytes, MPI_Comm comm)
{
    if (p->transport) return parcel_unpack(p, bytes, comm);
    if (!p->block || !bytes || scatter_move(p, p->block, 0, bytes, false)) return MPI_SUCCESS;
    return raise_error(comm, MPI_ERR_OTHER, "a message can't be unpacked");
}

bool message_awaited(struct parcel **p, struct wire *w, void *buf, int64_t count, MPI_Datatype datatype, int source,
                     MPI_Comm comm, int *rc)
{
    *p = NULL;
    *rc = source == MPI_PROC_NULL ? MPI_SUCCESS : parcel_open(p, buf, count, datatype, source, comm);
    if (*rc == MPI_SUCCESS && !*p) *p = by_block(buf, count, datatype, source, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = wire_of((*p)->bytes, w);
    try_peers(*p, source, comm);
    return settled(p, *rc);
}

int message_arrived(struct parcel *p, MPI_Status *status, MPI_Comm comm)
{
    struct descriptor d;
    struct pulls ps = {0};
    if (!pull_wanted(p, p->address, status, &d)) {
        struct peer *from = p->bytes >= OFFER_MIN ? node_peer(comm, status->MPI_SOURCE) : NULL;
        if (from) atomic_store_explicit(&from->offers, false, memory_order_relaxed);
        return message_unpack(p, wire_received(status), comm);
    }
    int rc = pull_add(&ps, &d, p, status);
    bool failed = pulls_run(&ps) != 0;
    if (rc == MPI_ERR_TRUNCATE) return raise_error(comm, rc, "a message is longer than its receive");
    if (rc != MPI_SUCCESS || failed) return raise_error(comm, MPI_ERR_OTHER, "a message can't be read");
    return MPI_SUCCESS;
}
