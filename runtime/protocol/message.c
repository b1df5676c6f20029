/* message.c: finds out about a message what every protocol asks. */
#include "message.h"

/* Sets the second part but for `where`. */
static void know(struct message *m, struct layout *l)
{
    m->located = true, m->layout = l;
    m->bytes = layout_bytes(l, m->count), m->near = node_peer(m->comm, m->peer);
}

void message_set(struct message *m, struct layout *l, struct location where)
{
    m->where = where;
    know(m, l);
}

bool message_locate(struct message *m)
{
    struct layout *l = typed_buffer_find(m->buf, m->count, m->type, m->comm, &m->where);
    m->located = true;
    if (l) know(m, l);
    return l != NULL;
}
