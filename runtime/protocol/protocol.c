/* protocol.c: selects the protocol of a send. */
#include "protocol.h"
#include "base/error.h"
#include "base/reserve.h"
#include "host_select.h"
#include "node/segment.h"
#include "rndv_send.h"

#define ROWS 4

/* A memory domain and its rows, in the order of selection; the last row carries all messages. */
static const struct domain {
    const char *name;
    const struct protocol *row[ROWS];
} cuda = {"cuda", {&protocol_get, &protocol_pass_device, &protocol_pipelined, &protocol_eager}},
  host = {"host", {&protocol_shared, &protocol_packed, &protocol_pass_host}};

/* Finds the buffer's domain, and its layout if stridec may send it. Buffered sends of host memory pass to the MPI. */
static const struct domain *locate_message(struct message *m)
{
    m->where = (struct location){0};
    m->layout = typed_buffer_find(m->buf, m->count, m->type, m->comm, &m->where);
    if (m->layout) return &cuda;
    bool sends = m->reuse != REUSE_BUFFERED && !reserve_low();
    m->layout = sends ? host_sends(m->buf, m->count, m->type, m->comm) : NULL;
    return &host;
}

bool send_select(struct send_op *op, struct message *m, int *rc)
{
    *op = (struct send_op){0};
    *rc = MPI_SUCCESS;
    if (m->peer == MPI_PROC_NULL) return false;
    if (m->reuse >= REUSE_BLOCKING && node_armed()) rndv_send_next_near();   /* while the driver is asked */
    const struct domain *d = locate_message(m);
    if (d == &cuda && reserve_low()) {
        *rc = raise_error(m->comm, MPI_ERR_NO_MEM, "no memory for the record of a message");
        return false;
    }
    for (int i = 0; i < ROWS && d->row[i] && *rc == MPI_SUCCESS; i++) {
        op->protocol = d->row[i];
        if (op->protocol->start(op, m, rc)) return op->address != NULL;
    }
    return false;
}

const struct protocol *send_probe(struct message *m)
{
    const struct domain *d = locate_message(m);
    int i = 0;
    while (i < ROWS - 1 && d->row[i + 1] && !d->row[i]->probe(m)) i++;
    return d->row[i];
}
