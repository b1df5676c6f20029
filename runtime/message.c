/* message.c: the two ends of a message that a parcel carries. */
#include "message.h"
#include "import.h"

/* What failed leaves no parcel. */
static bool settled(struct parcel **p, int rc)
{
    if (rc == MPI_SUCCESS) return *p != NULL;
    parcel_close(*p);
    *p = NULL;
    return false;
}

bool message_leaves(struct offer **o, struct parcel **p, struct wire *w, const void *buf, int64_t count,
                    MPI_Datatype datatype, int dest, MPI_Comm comm, int *rc)
{
    struct where at;
    struct layout *l = dest == MPI_PROC_NULL ? NULL : parcel_wants(buf, count, datatype, comm, &at);
    *p = NULL;
    *rc = MPI_SUCCESS;
    if (o) *o = l ? offer_open(l, at, buf, count, datatype, dest, comm) : NULL;
    if (o && *o) return true;
    if (l) *rc = parcel_open_on(p, l, at, buf, count, datatype, dest, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = parcel_pack(*p, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = wire_of((*p)->bytes, w);
    return settled(p, *rc);
}

bool message_awaited(struct parcel **p, struct wire *w, void *buf, int64_t count, MPI_Datatype datatype, int source,
                     MPI_Comm comm, int *rc)
{
    *p = NULL;
    *rc = source == MPI_PROC_NULL ? MPI_SUCCESS : parcel_open(p, buf, count, datatype, source, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = wire_of((*p)->bytes, w);
    if (*p) import_try_source(source, comm, (*p)->device);
    return settled(p, *rc);
}

int message_arrived(struct parcel *p, MPI_Status *status, MPI_Comm comm)
{
    struct descriptor d;
    struct pulls ps = {0};
    if (!pull_wanted(p, p->address, status, &d)) {
        struct peer *from = p->bytes >= OFFER_MIN ? node_peer(comm, status->MPI_SOURCE) : NULL;
        if (from) atomic_store_explicit(&from->offers, false, memory_order_relaxed);
        return p->transport ? parcel_unpack(p, wire_received(status), comm) : MPI_SUCCESS;
    }
    int rc = pull_add(&ps, &d, p, status);
    if (rc == MPI_ERR_TRUNCATE) return raise_error(comm, rc, "a message is longer than its receive");
    if (rc != MPI_SUCCESS || pulls_run(&ps)) return raise_error(comm, MPI_ERR_OTHER, "a message can't be read");
    return MPI_SUCCESS;
}
