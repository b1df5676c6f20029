/* protocol.c: selects the protocol of a send. */
#include "protocol.h"
#include "base/error.h"
#include "base/reserve.h"
#include "host_select.h"
#include "node/segment.h"
#include "rndv_send.h"

#define ROWS 4

/* The rows of the memory domains, in the order of selection. The last one has no probe: it carries all messages. */
static const struct protocol *const cuda[ROWS] = {
    &protocol_get, &protocol_pass_device, &protocol_pipelined, &protocol_eager};
static const struct protocol *const host[ROWS] = {&protocol_shared, &protocol_packed, &protocol_pass_host};

void message_set(struct message *m, struct layout *l, struct location where)
{
    m->layout = l, m->where = where;
    m->bytes = layout_bytes(l, m->count), m->near = node_peer(m->comm, m->peer);
}

bool message_locate(struct message *m)
{
    struct location where;
    struct layout *l = typed_buffer_find(m->buf, m->count, m->type, m->comm, &where);
    if (l) message_set(m, l, where);
    else m->layout = NULL, m->where = (struct location){0}, m->bytes = 0, m->near = NULL;
    return l != NULL;
}

bool send_locate(struct message *m)
{
    if (message_locate(m)) return true;
    struct layout *l = m->reuse == REUSE_BUFFERED ? NULL : host_sends(m->buf, m->count, m->type, m->comm);
    if (l) message_set(m, l, (struct location){0});
    return false;
}

bool send_select(struct send_op *op, struct message *m, int *rc)
{
    *op = (struct send_op){0};
    *rc = MPI_SUCCESS;
    if (m->peer == MPI_PROC_NULL) return false;
    if (m->reuse >= REUSE_BLOCKING && node_armed()) rndv_send_next_near();   /* while the driver is asked */
    bool on_device = send_locate(m);
    if (reserve_low()) {   /* no send that needs a record begins; the MPI can send host memory */
        if (on_device) *rc = raise_error(m->comm, MPI_ERR_NO_MEM, "no memory for the record of a message");
        return false;
    }
    const struct protocol *const *row = on_device ? cuda : host;
    do op->protocol = *row++;
    while (!op->protocol->start(op, m, rc) && *rc == MPI_SUCCESS);
    return *rc == MPI_SUCCESS && op->address;
}

const struct protocol *send_probe(struct message *m)
{
    const struct protocol *const *row = send_locate(m) ? cuda : host;
    while ((*row)->probe && !(*row)->probe(m)) row++;
    return *row;
}
