/* observed.c: see observed.h. */
#include "observed.h"
#include "observe/counters.h"
#include "base/env.h"
#include "observe/nvtx.h"
#include "observe/stats.h"
#include "datatype/layout.h"
#include <pthread.h>
#include <stdio.h>

static atomic_int wanted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* of changes of the mode */

static bool observing(void)
{
    return env_get()->observed || atomic_load(&wanted) > 0;
}

/* Switches between INTERPOSE_ON and INTERPOSE_OBSERVED; leaves INTERPOSE_OFF as it is. */
static void set_mode(void)
{
    unsigned char on = INTERPOSE_ON, observed = INTERPOSE_OBSERVED;
    if (observing()) atomic_compare_exchange_strong(&interpose_active, &on, INTERPOSE_OBSERVED);
    else atomic_compare_exchange_strong(&interpose_active, &observed, INTERPOSE_ON);
}

void observed_activate(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&interpose_active, INTERPOSE_ON);
    set_mode();
    pthread_mutex_unlock(&lock);
}

void observed_want(int more)
{
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&wanted, more);
    set_mode();
    pthread_mutex_unlock(&lock);
}

enum entry observed_enter(enum when when)
{
    if (atomic_load_explicit(&interpose_active, memory_order_acquire) == INTERPOSE_OFF) return ENTRY_PASS;
    return interpose_due(when) ? ENTRY_OBSERVE : ENTRY_PASS;
}

/* Returns the packed bytes; -1 if they are not known. */
static int64_t bytes_of(const struct observed_call *c)
{
    MPI_Count size = 0;
    int64_t bytes;
    if (c->type == MPI_DATATYPE_NULL || c->count < 0) return -1;
    bool known = PMPI_Type_size_x(c->type, &size) == MPI_SUCCESS && size >= 0;
    return known && !__builtin_mul_overflow((int64_t)size, (int64_t)c->count, &bytes) ? bytes : -1;
}

static void push_range(const struct trace_span *s, const char *name)
{
    char text[512];
    snprintf(text, sizeof text, "%s%s%s", name, s->type ? " " : "", s->type ? s->type : "");
    nvtx_push(text);
}

void observed_begin(struct observed *o, const struct observed_call *call)
{
    const struct env *e = env_get();
    *o = (struct observed){.call = *call, .outer = trace_way};
    o->span = (struct trace_span){.kind = TRACE_CALL, .name = call->name, .peer = call->peer,
                                  .number = call->requests, .bytes = bytes_of(call)};
    if (e->observed) o->span.type = layout_title(call->type);
    if (e->ranges) push_range(&o->span, call->name);
    trace_way = NULL;
    o->span.begin = stats_now();
}

/* Counts a message that was sent, unless it went nowhere. */
static void count(const struct observed *o, const char *way)
{
    if (o->call.sends && o->call.peer != MPI_PROC_NULL && way) counters_add_sent(way, o->span.bytes);
}

void observed_end(struct observed *o, int rc)
{
    const char *way = trace_way;
    trace_way = o->outer;
    o->span.end = stats_now();
    if (env_get()->ranges) nvtx_pop();
    if (rc == MPI_SUCCESS) count(o, way);
    if (!trace_wanted()) return;
    o->span.way = way;
    trace_add(&o->span);
}
