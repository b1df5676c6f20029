/* message.c: finds out about a message what every protocol asks. */
#include "message.h"

void message_set(struct message *m, struct layout *l, struct location where)
{
    m->located = true, m->layout = l, m->where = where;
    m->bytes = layout_bytes(l, m->count), m->near = node_peer(m->comm, m->peer);
}

bool message_locate(struct message *m)
{
    struct location where;
    struct layout *l = typed_buffer_find(m->buf, m->count, m->type, m->comm, &where);
    m->located = true;
    if (l) message_set(m, l, where);
    return l != NULL;
}
