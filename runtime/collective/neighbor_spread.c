/* neighbor_spread.c: see neighbor_spread.h. */
#include "neighbor_spread.h"
#include "base/activity.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "neighbor_exchange.h"
#include <pthread.h>
#include <stdlib.h>

struct spread {
    MPI_Request request;
    struct neighbor_topology *e;         /* a copy; its edges own their types */
    int tag;
    bool described;                      /* false: its edges are not known, and it can't be started in stream order */
    struct neighbor_messages *messages;  /* NULL until stridec_start_on asks */
    UT_hash_handle hh;
};
static struct spread *table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int noted;   /* entries of the table */

/* Takes a request's entry out of the table. Returns it, or NULL. */
static struct spread *take_out(MPI_Request request)
{
    struct spread *s = NULL;
    if (!atomic_load_explicit(&noted, memory_order_relaxed)) return NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, &request, sizeof request, s);
    if (s) {
        HASH_DEL(table, s);
        atomic_fetch_sub(&noted, 1);
    }
    pthread_mutex_unlock(&lock);
    return s;
}

static struct spread *find(MPI_Request request)
{
    struct spread *s = NULL;
    if (!atomic_load_explicit(&noted, memory_order_relaxed)) return NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, &request, sizeof request, s);
    pthread_mutex_unlock(&lock);
    return s;
}

/* Frees an entry but for its messages, which it returns. */
static struct neighbor_messages *end(struct spread *s)
{
    struct neighbor_messages *m = s->messages;
    spinlock_count(&request_dormant, -1);
    if (m) spinlock_count(&request_records, -1);
    neighbor_free_types(&s->e->in), neighbor_free_types(&s->e->out);
    neighbor_topology_put(s->e);
    free(s);
    return m;
}

bool neighbor_spread_take(struct args_set *o)
{
    if (neighbor_blocking_take(o)) return true;
    o->edges = neighbor_topology_spread(o->comm);
    return false;
}

/* Describes the edges of a call. Returns NULL without memory. */
static struct spread *describe(struct neighbor_topology *e, const struct args_set *o)
{
    struct spread *s = calloc(1, sizeof *s);
    struct neighbor_exchange x = {.e = s ? neighbor_topology_copy(e) : NULL, .comm = e->comm};   /* errors return */
    if (!x.e) return free(s), NULL;
    s->e = x.e, s->tag = neighbor_tag(e, e->persistent + 1);
    neighbor_exchange_open(&x, o);
    s->described = x.rc == MPI_SUCCESS;
    if (!s->described) neighbor_exchange_empty(&x);
    neighbor_keep_types(&x.e->in), neighbor_keep_types(&x.e->out);
    return s;
}

int neighbor_spread_note(int rc, const struct args_set *o, const MPI_Request *request)
{
    struct neighbor_topology *e = o->edges;
    if (rc != MPI_SUCCESS || !e || !neighbor_exchange_valid(o)) return rc;
    struct spread *s = describe(e, o), *before = take_out(*request);
    if (before) neighbor_messages_free(end(before));   /* a handle that was freed and is used again */
    if (!s) log_fatal("no memory for a neighbourhood collective that the other ranks may start in stream order");
    e->persistent++;
    s->request = *request;
    pthread_mutex_lock(&lock);
    HASH_ADD(hh, table, request, sizeof s->request, s);
    atomic_fetch_add(&noted, 1);
    pthread_mutex_unlock(&lock);
    spinlock_count(&request_dormant, 1);   /* MPI_Request_free comes to stridec */
    return rc;
}

bool neighbor_spread_of(MPI_Request request, struct neighbor_messages **m)
{
    struct spread *s = find(request);
    *m = NULL;
    if (!s || !s->e->drivers) return true;
    if (!s->described) return false;
    if (!s->messages && (s->messages = neighbor_messages_new(s->e, s->tag + 1, NEIGHBOR_TAGS - 1)))
        spinlock_count(&request_records, 1);
    *m = s->messages;
    return *m != NULL;
}

struct neighbor_messages *neighbor_spread_started(MPI_Request request)
{
    const struct spread *s = find(request);
    return s && s->messages && s->messages->started ? s->messages : NULL;
}

struct neighbor_messages *neighbor_spread_remove(MPI_Request request)
{
    struct spread *s = take_out(request);
    return s ? end(s) : NULL;
}

void neighbor_spread_finish(void)
{
    struct spread *s, *next;
    HASH_ITER(hh, table, s, next) {
        HASH_DEL(table, s);
        neighbor_messages_free(end(s));
    }
    atomic_store(&noted, 0);
}
