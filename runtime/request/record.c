/* record.c: the table of records, and what is added to it. */
#include "base/activity.h"
#include "base/bounce.h"
#include "base/freelist.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "light_request.h"
#include "probed.h"
#include "protocol/pipeline_send.h"
#include "request_internal.h"

atomic_int record_rndvs;
static atomic_int with_steps;   /* records of the kind stepped */
static struct record *records;
static struct spinlock lock;
/* Always in the table, never looked up: an empty table would be freed, and made again for the next message. */
static struct record anchor = {.request = MPI_REQUEST_NULL};

/* Handles seen before their requests were complete, by a hash of each. Those that MPIs give to all sends that are
 * complete at once are of requests of their own, which are never seen incomplete. */
#define OWN_BITS 10
static _Atomic(MPI_Request) own_handles[1 << OWN_BITS];

void record_begin(bool multiple)
{
    spinlock_needed |= multiple;
    for (int i = 0; i < 1 << OWN_BITS; i++)
        atomic_store_explicit(&own_handles[i], (MPI_Request)0, memory_order_relaxed);
}

bool record_threads(void)
{
    return spinlock_needed;
}

struct record *record_new(MPI_Request request, const struct record_kind *kind)
{
    struct record *r = freelist_get(FREELIST_RECORD, sizeof *r);
    if (!r) log_fatal("no memory for the record of a request that has begun");
    memset(r, 0, offsetof(struct record, found));
    r->request = request, r->kind = kind, r->state = RECORD_ACTIVE;
    spinlock_count(&request_records, 1);
    return r;
}

void record_free(struct record *r)
{
    typed_buffer_close(r->tbuf);
    if (r->kind->step) spinlock_count(&with_steps, -1);
    if (r->ops) r->ops->free(r->of);
    spinlock_count(r->dormant ? &request_dormant : &request_records, -1);
    freelist_put(FREELIST_RECORD, r);
}

/* ---- the table ---- */

void record_keep(struct record *r)
{
    spinlock_enter(&lock);
    if (!records) HASH_ADD(hh, records, request, sizeof anchor.request, &anchor);
    HASH_ADD(hh, records, request, sizeof r->request, r);
    spinlock_leave(&lock);
}

/* Makes a record of a light request. Returns NULL if it is none. */
static struct record *take_light(MPI_Request request)
{
    struct light_request w;
    if (!atomic_load_explicit(&request_light, memory_order_acquire) || !light_request_take(request, &w)) return NULL;
    return light_request_record(request, &w);
}

struct record *record_take(MPI_Request request)
{
    struct record *r = NULL;
    if (request == MPI_REQUEST_NULL) return NULL;
    spinlock_enter(&lock);
    HASH_FIND(hh, records, &request, sizeof request, r);
    if (r) HASH_DEL(records, r);
    spinlock_leave(&lock);
    return r ? r : take_light(request);
}

void record_finish(void)
{
    record_freed_finish();
    rndv_send_finish();
    if (records) HASH_DEL(records, &anchor);
    freelist_drop(), bounce_drop_all();
}

/* ---- adding ---- */

void record_add(MPI_Request request, struct typed_buffer *p, bool receive, MPI_Comm comm)
{
    struct record *r = record_new(request, receive ? &kind_receive : &kind_send);
    r->tbuf = p, r->error_comm = error_comm_of(comm);
    record_keep(r);
}

void record_add_probed(MPI_Request request, struct typed_buffer *p, const struct probed_at *at)
{
    struct record *r = record_new(request, at->message == MPI_MESSAGE_NULL ? &kind_resent : &kind_matched);
    r->tbuf = p, r->error_comm = error_comm_of(at->from_comm);
    r->source = at->from_source, r->tag = at->from_tag;
    record_keep(r);
}

static struct record *new_operation(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm)
{
    struct record *r = record_new(request, ops->step ? &kind_stepped : &kind_operation);
    r->ops = ops, r->of = of, r->error_comm = error_comm_of(comm);
    return r;
}

void record_add_of(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm, bool persistent)
{
    if (ops->step) spinlock_count(&with_steps, 1);
    struct record *r = new_operation(request, ops, of, comm);
    if (persistent) r->persistent = true, r->state = RECORD_INACTIVE;
    record_keep(r);
}

void record_add_dormant(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm)
{
    struct record *r = new_operation(request, ops, of, comm);
    r->persistent = r->dormant = true, r->state = RECORD_INACTIVE;
    spinlock_count(&request_dormant, 1), spinlock_count(&request_records, -1);
    record_keep(r);
}

void record_add_pipelined(MPI_Request request, struct pipeline_send *o)
{
    struct record *r = record_new(request, &kind_pipelined);
    r->pipelined = pipeline_send_hold(o);
    record_keep(r);
}

static int query_sent(void *nothing, MPI_Status *status)
{
    (void)nothing;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_ANY_SOURCE, status->MPI_TAG = MPI_ANY_TAG;
    return MPI_SUCCESS;
}

static int free_sent(void *nothing)
{
    (void)nothing;
    return MPI_SUCCESS;
}

static int cancel_sent(void *nothing, int complete)
{
    (void)nothing, (void)complete;
    return MPI_SUCCESS;
}

/* Makes the handle of a send unique. MPIs give one handle to all sends that are complete at once: a completed
 * generalized request takes the place of such a one. The MPI is asked once about each other handle: it would look for
 * messages at each question, and a window of sends waits for that. */
static bool make_unique(MPI_Request *request)
{
    MPI_Request own;
    int sent = 0;
    _Atomic(MPI_Request) *known = &own_handles[hash_place((uintptr_t)*request, OWN_BITS)];
    if (atomic_load_explicit(known, memory_order_relaxed) == *request) return true;
    PMPI_Request_get_status(*request, &sent, MPI_STATUS_IGNORE);
    if (!sent) return atomic_store_explicit(known, *request, memory_order_relaxed), true;
    if (PMPI_Grequest_start(query_sent, free_sent, cancel_sent, NULL, &own) != MPI_SUCCESS) return false;
    PMPI_Grequest_complete(own);
    PMPI_Wait(request, MPI_STATUS_IGNORE);
    *request = own;
    return true;
}

int record_add_rndv(MPI_Request *request, struct rndv_send *o, MPI_Comm comm)
{
    if (rndv_send_feed(o) || !make_unique(request)) return rndv_send_end(o);
    spinlock_count(&record_rndvs, 1);
    struct record *r = record_new(*request, &kind_rndv);
    r->rndv = o, r->error_comm = error_comm_of(comm);
    record_keep(r);
    return 0;
}

/* ---- questions ---- */

/* Looks at a record in the table: a completion in another thread would miss one that was taken (MPI_Cancel). */
static bool look(MPI_Request request, bool (*is)(const struct record *))
{
    struct record *r = NULL;
    if (request == MPI_REQUEST_NULL) return false;
    spinlock_enter(&lock);
    HASH_FIND(hh, records, &request, sizeof request, r);
    bool so = r && is(r);
    spinlock_leave(&lock);
    return so;
}

/* Asks about a record that only the caller may complete meanwhile. */
static bool ask(MPI_Request request, bool (*is)(struct record *))
{
    struct record *r = record_take(request);
    bool so = is(r);
    if (r) record_keep(r);
    return so;
}

bool record_any_steps(void)
{
    return atomic_load_explicit(&with_steps, memory_order_relaxed) != 0;
}

bool record_step_taken(struct record *r)
{
    return !r || !r->kind->step || r->kind->step(r);
}

bool record_step(MPI_Request request)
{
    return !record_any_steps() || ask(request, record_step_taken);
}

static bool has_steps(const struct record *r)
{
    return r->kind->step;
}

bool record_has_steps(MPI_Request request)
{
    return record_any_steps() && look(request, has_steps);
}

void *record_object(MPI_Request request, const struct request_ops *ops)
{
    struct record *r = record_take(request);
    void *of = r && r->ops == ops ? r->of : NULL;
    if (r) record_keep(r);
    return of;
}

bool record_any_rndv(void)
{
    return atomic_load_explicit(&record_rndvs, memory_order_relaxed) != 0;
}

bool record_waits_taken(struct record *r)
{
    return r && r->kind->ready && !r->kind->ready(r);
}

bool record_waits(MPI_Request request)
{
    return record_any_rndv() && ask(request, record_waits_taken);
}

static bool is_held(const struct record *r)
{
    return r->held;
}

bool record_held(MPI_Request request)
{
    return atomic_load_explicit(&record_helds, memory_order_relaxed) && look(request, is_held);
}

static bool is_transient(struct record *r)
{
    return r && !r->persistent;
}

bool record_transient(MPI_Request request)
{
    return ask(request, is_transient);
}

bool record_persistent(const struct record *r)
{
    return r->persistent;
}
