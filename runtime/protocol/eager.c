/* eager.c: the protocol `eager`: device memory is packed by a transport, and the MPI sends the packed bytes. */
#include "pack/select.h"
#include "placement.h"
#include "protocol.h"
#include <stdio.h>

bool send_op_packed(struct send_op *op, struct typed_buffer *p, int *rc)
{
    if (*rc == MPI_SUCCESS) *rc = mpi_bytes_of(p->bytes, &op->as);
    if (*rc != MPI_SUCCESS) return typed_buffer_close(p), false;
    op->packed = p;
    op->address = p->address;
    return true;
}

int send_op_end_packed(struct send_op *op, MPI_Comm comm)
{
    (void)comm;
    send_op_abort_packed(op);
    return MPI_SUCCESS;
}

void send_op_abort_packed(struct send_op *op)
{
    mpi_bytes_free(&op->as);
    typed_buffer_close(op->packed);
}

static bool start(struct send_op *op, const struct message *m, int *rc)
{
    struct typed_buffer *p = NULL;
    *rc = placement_open_send(&p, m);
    if (*rc == MPI_SUCCESS) *rc = typed_buffer_pack(p, m->comm);
    return send_op_packed(op, p, rc);
}

static const char *explain(const struct message *m, char why[TUNE_WHY_MAX])
{
    struct location w = m->where;
    w.on_host = placement_sends_on_host(m);
    const struct transport *t = typed_buffer_transport(m->layout, w, m->count);
    if (t == &transport_parts) snprintf(why, TUNE_WHY_MAX, "the buffer lies in several memories");
    else if (t == &transport_by_mpi) snprintf(why, TUNE_WHY_MAX, "stridec can't read the type");
    else select_explain(m->layout, m->count, m->bytes, false, why);
    return t == &transport_by_mpi ? "shadow" : t->name;
}

const struct protocol protocol_eager = {"eager", NULL, start, send_op_end_packed, send_op_abort_packed, NULL, explain};
