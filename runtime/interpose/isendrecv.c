/* isendrecv.c: MPI_Isendrecv and MPI_Isendrecv_replace: posts a receive, returns its request, and sends a copy. The
 * MPI's own functions would take an RTS for the payload. Workaround (MPICH 4.0): their requests report nothing about
 * what was received. */
#include "base/error.h"
#include "datatype/byte_types.h"
#include "hostpack/host_pack.h"
#include "next.h"
#include "pack/host_scatter.h"
#include "protocol/host_select.h"
#include "protocol/placement.h"
#include "request/p2p.h"

#ifdef HAVE_Isendrecv

struct outgoing {
    const void *buf;
    int64_t count;
    MPI_Datatype type;
    int dest, tag;
    struct typed_buffer *copy;
    struct wire wire;
};

/* Returns true if the MPI's own function will do: no driver, no RTS, and a type that takes parts of a message. */
static bool mpi_suffices(MPI_Datatype type, int source, MPI_Comm comm)
{
    if (driver_get() || source == MPI_PROC_NULL) return !driver_get();
    if (!rts_armed()) return true;
    if (probed_any() || rndv_recv_from(comm, source)) return false;
    return !PARTS_ARE_WHOLE || type_to_receive(type, comm) == type;
}

/* Returns true if the MPI will refuse the arguments. */
static bool is_invalid(int64_t count, MPI_Datatype type, MPI_Comm comm)
{
    return count < 0 || type == MPI_DATATYPE_NULL || comm == MPI_COMM_NULL;
}

static struct typed_buffer *copy_host(const struct outgoing *h, struct layout *l)
{
    struct typed_buffer *p = host_block(l, h->buf, h->count);
    if (p && !l->tree) p->datatype = type_like(h->type);
    if (p && (host_pack_pack(l, h->count, h->buf, p->address, 0, p->bytes) ||
              host_scatter_move(p, p->address, 0, p->bytes, true)))
        return p;
    typed_buffer_close(p);
    return NULL;
}

/* Packs the message into h->copy, or leaves NULL if it is empty. Returns MPI_SUCCESS, or an error raised on comm. */
static int copy(struct outgoing *h, MPI_Comm comm)
{
    struct layout *l = h->dest == MPI_PROC_NULL || !h->count ? NULL : layout_of(h->type);
    if (!l || !l->size) return MPI_SUCCESS;
    if (layout_bytes(l, h->count) < 0) return raise_error(comm, MPI_ERR_COUNT, "a message passes 2^63 bytes");
    if (!h->buf && !l->low) return raise_error(comm, MPI_ERR_BUFFER, "a message has no buffer");
    int rc = layout_committed(l, h->type, comm);
    struct location w = driver_get() ? locate(l, h->buf, h->count) : (struct location){0};
    if (rc == MPI_SUCCESS && w.device) {
        struct message m = {h->buf, h->count, h->type, h->dest, comm, .reuse = REUSE_BUFFERED};
        message_set(&m, l, w);
        rc = placement_open(&h->copy, &m);
        if (rc == MPI_SUCCESS) rc = typed_buffer_pack(h->copy, comm);
    } else if (rc == MPI_SUCCESS && !(h->copy = copy_host(h, l))) {
        rc = raise_error(comm, MPI_ERR_NO_MEM, "out of memory");
    }
    if (rc == MPI_SUCCESS) rc = mpi_bytes_of(h->copy->bytes, &h->wire);
    if (rc != MPI_SUCCESS) typed_buffer_close(h->copy);
    return rc;
}

/* Sends the copy after the receive was posted. Cancels the receive if the send fails. */
static int send_copy(const struct next *next, struct outgoing *h, MPI_Comm comm, MPI_Request *received)
{
    MPI_Request sending;
    struct wire none = {0, MPI_BYTE}, *w = h->copy ? &h->wire : &none;
    int rc = PMPI_Isend(h->copy ? h->copy->address : NULL, w->count, w->type, h->dest, h->tag, comm, &sending);
    if (h->copy) mpi_bytes_free(w);
    if (rc == MPI_SUCCESS) {   /* the copy is freed once it is sent */
        if (h->copy) stats_add_sent(comm, h->dest, h->copy->bytes), p2p_sent(sending, h->copy);
        struct record *r = record_take(sending);
        if (!r || !record_freed(r)) PMPI_Request_free(&sending);
        return rc;
    }
    call_Cancel(next, received), call_Request_free(next, received);
    typed_buffer_close(h->copy);
    return rc;
}

static int drop_send_copy(struct outgoing *h, int rc)
{
    if (h->copy) mpi_bytes_free(&h->wire);
    typed_buffer_close(h->copy);
    return rc;
}

/* Packs, receives and sends; the two functions differ only in the receive. */
#define BY_COPY(receive, ...) \
    int rc = copy(&h, comm); \
    if (rc != MPI_SUCCESS) return rc; \
    rc = receive(next, __VA_ARGS__, source, recvtag, comm, request); \
    return rc != MPI_SUCCESS ? drop_send_copy(&h, rc) : send_copy(next, &h, comm, request);
#define ISENDRECV(name, receive, number) \
    int call_##name(const struct next *next, const void *sendbuf, number sendcount, MPI_Datatype sendtype, int dest, \
                    int sendtag, void *recvbuf, number recvcount, MPI_Datatype recvtype, int source, int recvtag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        struct outgoing h = {.buf = sendbuf, .count = sendcount, .type = sendtype, .dest = dest, .tag = sendtag}; \
        if (is_invalid(sendcount, sendtype, comm) || is_invalid(recvcount, recvtype, comm) || \
            mpi_suffices(recvtype, source, comm)) \
            return next->name(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, \
                              recvtag, comm, request); \
        BY_COPY(receive, recvbuf, recvcount, recvtype) \
    }
#define ISENDRECV_REPLACE(name, receive, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int dest, int sendtag, \
                    int source, int recvtag, MPI_Comm comm, MPI_Request *request) \
    { \
        struct outgoing h = {.buf = buf, .count = count, .type = datatype, .dest = dest, .tag = sendtag}; \
        if (is_invalid(count, datatype, comm) || mpi_suffices(datatype, source, comm)) \
            return next->name(buf, count, datatype, dest, sendtag, source, recvtag, comm, request); \
        BY_COPY(receive, buf, count, datatype) \
    }

ISENDRECV(Isendrecv, call_Irecv, int)
ISENDRECV_REPLACE(Isendrecv_replace, call_Irecv, int)
#ifdef HAVE_Isendrecv_c
ISENDRECV(Isendrecv_c, call_Irecv_c, MPI_Count)
ISENDRECV_REPLACE(Isendrecv_replace_c, call_Irecv_c, MPI_Count)
#endif
#endif
