/* record.c: side records of requests. */
#include "base/activity.h"
#include "base/bounce.h"
#include "base/freelist.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "light_request.h"
#include "probed.h"
#include "protocol/pipeline_send.h"
#include "request_internal.h"
#include <stdlib.h>

atomic_int request_offers;
static atomic_int deferrals;
static struct record *records;
static struct spinlock spin_lock;
/* Always in the table and never looked for: an empty table would be freed, and made again for the next message. */
static struct record anchor = {.request = MPI_REQUEST_NULL};

void record_begin(bool multiple)
{
    spinlock_needed |= multiple;
}

bool record_threads(void)
{
    return spinlock_needed;
}

struct record *record_new(struct record what)
{
    struct record *r = freelist_get(FREELIST_RECORD, sizeof *r);
    if (!r) log_fatal("no memory for the record of a request that has begun");
    *r = what;
    spinlock_count(r->dormant ? &request_dormant : &request_records, 1);
    return r;
}

void record_free(struct record *r)
{
    typed_buffer_close(r->parcel);
    pipeline_send_put(r->outflow);
    if (record_steps(r)) spinlock_count(&deferrals, -1);
    if (r->ops) r->ops->free(r->of);
    spinlock_count(r->dormant ? &request_dormant : &request_records, -1);
    freelist_put(FREELIST_RECORD, r);
}

/*
 * The table.
 */

void record_keep(struct record *r)
{
    spinlock_enter(&spin_lock);
    if (!records) HASH_ADD(hh, records, request, sizeof anchor.request, &anchor);
    HASH_ADD(hh, records, request, sizeof r->request, r);
    spinlock_leave(&spin_lock);
}

/* A record of a receive that was only watched. */
static struct record *watched(MPI_Request request)
{
    struct light_request w;
    if (!atomic_load_explicit(&request_light, memory_order_acquire) || !light_request_take(request, &w)) return NULL;
    return light_request_record(request, &w);
}

struct record *record_take(MPI_Request request)
{
    struct record *r = NULL;
    if (request == MPI_REQUEST_NULL) return NULL;
    spinlock_enter(&spin_lock);
    HASH_FIND(hh, records, &request, sizeof request, r);
    if (r) HASH_DEL(records, r);
    spinlock_leave(&spin_lock);
    return r ? r : watched(request);
}

static struct record *take_all(const struct records_walk *w, const void *arg)
{
    struct record *taken = NULL, *r, *next;
    spinlock_enter(&spin_lock);
    HASH_ITER(hh, records, r, next) {
        if (r->seen || r->ops != w->ops || !w->is(r->of, arg)) continue;
        HASH_DEL(records, r);
        r->next = taken;
        taken = r;
    }
    spinlock_leave(&spin_lock);
    return taken;
}

int records_walk(const struct records_walk *w, const void *arg)
{
    struct batch b = {0};
    struct record *list = take_all(w, arg);
    int failed = 0;
    for (const struct record *r = list; r; r = r->next) failed |= w->ops->unpack(r->of, &b, INT64_MAX);
    failed |= batch_wait(&b);
    for (struct record *r = list, *next; r; r = next) {
        next = r->next;
        w->done(r->of);
        record_keep(r);
    }
    return failed;
}

void record_finish(void)
{
    orphans_finish();
    rndv_send_finish();
    if (records) HASH_DEL(records, &anchor);
    freelist_drop(), bounce_drop_all();
}

/*
 * Adding.
 */

static void add(struct record what)
{
    record_keep(record_new(what));
}

void record_add(MPI_Request request, struct typed_buffer *p, bool receive, MPI_Comm comm)
{
    add((struct record){
        .request = request, .parcel = p, .receive = receive, .active = true, .home = error_comm_of(comm)});
}

void record_add_led(MPI_Request request, struct typed_buffer *p, const struct probed_at *at)
{
    add((struct record){.request = request,
                        .parcel = p,
                        .receive = true,
                        .active = true,
                        .led = true,
                        .quiet = at->message == MPI_MESSAGE_NULL,
                        .home = error_comm_of(at->from_comm),
                        .source = at->from_source,
                        .tag = at->from_tag});
}

void record_add_of(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm, bool persistent)
{
    if (ops->step) spinlock_count(&deferrals, 1);
    add((struct record){.request = request,
                        .ops = ops,
                        .of = of,
                        .persistent = persistent,
                        .active = !persistent,
                        .home = error_comm_of(comm)});
}

void record_add_dormant(MPI_Request request, const struct request_ops *ops, void *of, MPI_Comm comm)
{
    add((struct record){
        .request = request, .ops = ops, .of = of, .persistent = true, .dormant = true, .home = error_comm_of(comm)});
}

void record_add_outflow(MPI_Request request, struct pipeline_send *o)
{
    add((struct record){.request = request, .outflow = pipeline_send_hold(o), .active = true});
}

static int say_sent(void *nothing, MPI_Status *status)
{
    (void)nothing;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_ANY_SOURCE, status->MPI_TAG = MPI_ANY_TAG;
    return MPI_SUCCESS;
}

static int let_go(void *nothing)
{
    (void)nothing;
    return MPI_SUCCESS;
}

static int too_late(void *nothing, int complete)
{
    (void)nothing, (void)complete;
    return MPI_SUCCESS;
}

/* MPIs give all sends that are over at once one and the same handle: a request that is complete too tells this one from
 * the others. */
static bool tell_apart(MPI_Request *request)
{
    MPI_Request own;
    int sent = 0;
    PMPI_Request_get_status(*request, &sent, MPI_STATUS_IGNORE);
    if (!sent) return true;
    if (PMPI_Grequest_start(say_sent, let_go, too_late, NULL, &own) != MPI_SUCCESS) return false;
    PMPI_Grequest_complete(own);
    PMPI_Wait(request, MPI_STATUS_IGNORE);
    *request = own;
    return true;
}

int record_add_offer(MPI_Request *request, struct rndv_send *o)
{
    if (rndv_send_feed(o) || !tell_apart(request)) return rndv_send_end(o);
    spinlock_count(&request_offers, 1);
    add((struct record){.request = *request, .offer = o, .active = true});
    return 0;
}

/*
 * Questions.
 */

/* What is so of the record of a request, which stays. */
static bool ask(MPI_Request request, bool (*is)(struct record *))
{
    struct record *r = record_take(request);
    bool so = is(r);
    if (r) record_keep(r);
    return so;
}

bool record_defers(void)
{
    return atomic_load_explicit(&deferrals, memory_order_relaxed) != 0;
}

bool record_stepped(struct record *r)
{
    return !r || !record_steps(r) || r->ops->step(r->of);
}

bool record_step(MPI_Request request)
{
    return !record_defers() || ask(request, record_stepped);
}

static bool deferred(struct record *r)
{
    return r && record_steps(r);
}

bool record_deferred(MPI_Request request)
{
    return record_defers() && ask(request, deferred);
}

bool record_offering(struct record *r)
{
    return r && r->offer && !rndv_send_ended(r->offer);
}

bool record_offers(MPI_Request request)
{
    return atomic_load_explicit(&request_offers, memory_order_relaxed) && ask(request, record_offering);
}

static bool held(struct record *r)
{
    return r && r->holds;
}

bool record_holds(MPI_Request request)
{
    return atomic_load_explicit(&request_holding, memory_order_relaxed) && ask(request, held);
}

static bool transient(struct record *r)
{
    return r && !r->persistent;
}

bool record_goes(MPI_Request request)
{
    return ask(request, transient);
}

bool record_persistent(const struct record *r)
{
    return r->persistent;
}
