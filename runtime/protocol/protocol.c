/* protocol.c: selects the protocol of a send. */
#include "protocol.h"
#include "base/error.h"
#include "base/reserve.h"
#include "observe/trace.h"
#include "host_select.h"
#include "persistent_send.h"
#include "node/segment.h"
#include "rndv_send.h"

#define ROWS 4

/* The rows of the memory domains, in the order of selection. The last one has no probe: it carries all messages. */
static const struct protocol *const cuda[ROWS] = {
    &protocol_get, &protocol_pass_device, &protocol_pipelined, &protocol_eager};
static const struct protocol *const host[ROWS] = {&protocol_shared, &protocol_packed, &protocol_pass_host};

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
    trace_way = op->protocol->name;
    bool carried = *rc == MPI_SUCCESS && op->address;
    if (carried && stats_sent && m->layout) stats_add_sent(m->comm, m->peer, m->bytes);
    return carried;
}

struct persistent_send *send_plan(struct message *m)
{
    bool cuda_send = m->peer != MPI_PROC_NULL && send_locate(m);
    if (!m->layout || (cuda_send && (!m->layout->tree || m->where.parts))) return NULL;
    if (cuda_send && typed_buffer_check(m->layout, m->where, m->type, m->comm) != MPI_SUCCESS) return NULL;
    struct persistent_send *s = persistent_send_new(m);
    const struct protocol *const *row = cuda_send ? cuda : host;
    while (s && ((*row)->plan ? !(*row)->plan(s, m) : (*row)->probe && !(*row)->probe(m))) row++;
    if (s && (*row)->plan) return s;
    persistent_send_close(s);
    return NULL;
}

const struct protocol *send_probe(struct message *m)
{
    const struct protocol *const *row = send_locate(m) ? cuda : host;
    while ((*row)->probe && !(*row)->probe(m)) row++;
    return *row;
}
