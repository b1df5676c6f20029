/* neighbor_stream.c: the edges of a persistent collective as messages. */
#include "neighbor_stream.h"
#include <stdlib.h>

static int edges_used(const struct edge_side *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) n += !s->edge[i].off && s->edge[i].bytes > 0;
    return n;
}

static void describe(struct neighbor_messages *m, const struct neighbor_topology *e, bool sends, int tag, int tags)
{
    const struct edge_side *s = sends ? &e->out : &e->in;
    for (int i = 0; i < s->n; i++) {
        const struct edge *g = &s->edge[i];
        if (g->off || g->bytes <= 0) continue;
        m->call[m->n++] =
            (struct channel_call){g->buf, g->count, g->type, g->rank, tag + g->place % tags, e->comm, sends};
    }
}

struct neighbor_messages *neighbor_messages_new(const struct neighbor_topology *e, int tag, int tags)
{
    size_t room = (size_t)(edges_used(&e->in) + edges_used(&e->out)) + 1;
    struct neighbor_messages *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->call = calloc(room, sizeof *m->call), m->request = calloc(room, sizeof *m->request);
    if (!m->call || !m->request) return neighbor_messages_free(m), NULL;
    describe(m, e, false, tag, tags), describe(m, e, true, tag, tags);
    return m;
}

void neighbor_messages_free(struct neighbor_messages *m)
{
    if (!m) return;
    free(m->call), free(m->request);
    free(m);
}
