/* light_request.c: light requests: a table of fixed size without locks. */
#include "light_request.h"
#include "../../gen/hash.h"
#include "base/activity.h"
#include "base/error.h"
#include "base/log.h"
#include "datatype/type_filter.h"
#include "device/host_range.h"
#include "p2p.h"
#include "probed.h"
#include "protocol/rts_short.h"
#include "request_internal.h"

#define BITS 8
#define WAYS 4

/* A place is EMPTY, BUSY for a moment, or holds a request. One thread at a time uses a receive's handle. */
#define EMPTY ((MPI_Request)0)
#define BUSY ((MPI_Request)1)
static struct places {
    _Atomic(MPI_Request) request[WAYS];   /* one cache line */
    struct light_request light[WAYS];
} places[1 << BITS];

static struct places *places_of(MPI_Request request)
{
    return &places[hash_place((uintptr_t)request, BITS)];
}

bool light_request_wants(int64_t count, MPI_Datatype type, int source)
{
    bool known = host_type_plain(type) || (filter_direct(type) && !filter_may_be_short(type, count));
    bool wants = known && source != MPI_PROC_NULL && (driver_absent() || !driver_get()) && !probed_any();
    if (wants && count < RNDV_MIN) rts_short_refuse();   /* no short RTS may come to it */
    return wants;
}

struct light_request light_request_of(void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm)
{
    return (struct light_request){
        .buf = buf, .count = count, .type = type, .plain = host_type_plain(type), .error_comm = error_comm_of(comm)};
}

/* Returns false if the places are taken, or the handle is there already. */
static bool add(MPI_Request request, const struct light_request *w)
{
    struct places *p = places_of(request);
    for (int i = 0; i < WAYS; i++)
        if (atomic_load_explicit(&p->request[i], memory_order_relaxed) == request) return false;
    for (int i = 0; i < WAYS; i++) {
        MPI_Request none = EMPTY;
        if (atomic_load_explicit(&p->request[i], memory_order_relaxed) != EMPTY ||
            !atomic_compare_exchange_strong(&p->request[i], &none, BUSY))
            continue;
        p->light[i] = *w;
        atomic_store_explicit(&p->request[i], request, memory_order_release);
        atomic_fetch_add_explicit(&request_light, 1, memory_order_release);
        return true;
    }
    return false;
}

bool light_request_add(MPI_Request request, struct light_request w)
{
    struct layout *l = w.plain ? NULL : layout_of(w.type);
    if (!w.plain && (!l || !l->tree)) return false;
    if (l) w.layout = layout_ref(l);
    bool added = add(request, &w);
    if (!added) light_request_end(&w);
    return added;
}

/* Lets one thread take the place. Sends that are complete at once may share a handle, and threads may wait for it
 * together. */
static bool claim(_Atomic(MPI_Request) *at, MPI_Request request)
{
    if (atomic_load_explicit(at, memory_order_acquire) != request) return false;
    return !record_threads() || atomic_compare_exchange_strong(at, &request, BUSY);
}

bool light_request_take(MPI_Request request, struct light_request *w)
{
    struct places *p = places_of(request);
    if (request == EMPTY || request == BUSY) return false;   /* no handle: the MPI reports that */
    for (int i = 0; i < WAYS; i++) {
        if (!claim(&p->request[i], request)) continue;
        *w = p->light[i];
        atomic_store_explicit(&p->request[i], EMPTY, memory_order_release);
        atomic_fetch_sub_explicit(&request_light, 1, memory_order_release);
        return true;
    }
    return false;
}

void light_request_return(MPI_Request request, struct light_request *w)
{
    if (!add(request, w)) record_keep(light_request_record(request, w));
}

void light_request_comes(MPI_Request request, struct layout *l, void *buf, int64_t count, struct bounce *b,
                         MPI_Comm comm)
{
    struct light_request w = {
        .buf = buf, .count = count, .layout = layout_ref(l), .bounce = b, .error_comm = error_comm_of(comm)};
    light_request_return(request, &w);
}

void light_request_leaves(MPI_Request request, struct layout *l, int64_t count, struct bounce *b)
{
    struct light_request w = {.count = count, .sends = true, .layout = layout_ref(l), .bounce = b};
    int sent = 0;
    if (add(request, &w)) return;
    PMPI_Request_get_status(request, &sent, MPI_STATUS_IGNORE);
    if (sent) light_request_end(&w);
    else record_keep(light_request_record(request, &w));
}

static struct typed_buffer *typed_buffer_of(struct light_request *w)
{
    struct layout *l = w->layout ? w->layout : layout_of(w->type);
    struct typed_buffer *p = l ? typed_buffer_new(l, NULL, w->buf, w->count) : NULL;
    if (p && !l->tree) p->datatype = type_like(w->type);
    if (!p || !w->bounce) return p;
    p->block = w->bounce, p->address = w->bounce->memory;
    w->bounce = NULL;
    return p;
}

struct record *light_request_record(MPI_Request request, struct light_request *w)
{
    struct typed_buffer *p = typed_buffer_of(w);
    if (!p) log_fatal("no memory for the record of a message that is awaited");
    struct record *r = record_new(request, w->sends ? &kind_send : &kind_receive);
    r->tbuf = p, r->error_comm = w->error_comm;
    light_request_end(w);
    return r;
}

void light_request_end(struct light_request *w)
{
    layout_unref(w->layout), bounce_put(w->bounce);
    w->layout = NULL, w->bounce = NULL;
}

bool light_request_alone(void)
{
    return !atomic_load_explicit(&request_records, memory_order_acquire);
}

int light_request_arrived(struct light_request *w, MPI_Status *status)
{
    int cancelled = 0;
    MPI_Comm comm = error_comm_comm(w->error_comm);
    PMPI_Test_cancelled(status, &cancelled);
    if (cancelled) return MPI_SUCCESS;
    if (w->bounce) return p2p_short(w->layout, w->buf, w->count, w->bounce->memory, status, comm);
    struct typed_buffer *p = typed_buffer_of(w);
    int rc =
        p ? p2p_arrived(p, status, comm) : raise_error(comm, MPI_ERR_OTHER, "no memory for a message that has come");
    typed_buffer_close(p);
    return rc;
}
