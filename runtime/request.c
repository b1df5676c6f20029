/* request.c: side records of requests. */
#include "request.h"
#include "aside.h"
#include "block.h"
#include "deferred.h"
#include "host_message.h"
#include "interpose.h"
#include "log.h"
#include "offer.h"
#include "operand.h"
#include "outflow.h"
#include "spare.h"
#include "spin.h"
#include "standing.h"
#include "watch.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

struct record {
    MPI_Request request;
    struct parcel *parcel;        /* either this ... */
    bool receive;
    bool led, seen;               /* status.MPI_SOURCE and MPI_TAG are these; seen to be complete, not completed yet */
    int source, tag;
    int64_t pulled;               /* bytes of a payload that a descriptor stood for */
    struct offer *offer;          /* or this, of a send */
    struct outflow *outflow;      /* or this */
    struct deferred *deferred;    /* or this */
    struct operands *operands;    /* ... or these */
    bool persistent, active;      /* a persistent one lives until the request is freed, and acts while it is active */
    bool freed;                   /* by the application, while it was active */
    bool holds;                   /* active, and its message is here, with this status and error, by no doing of the request */
    MPI_Status found;
    struct record *next;          /* in a completion, or among the orphans */
    UT_hash_handle hh;
};

atomic_int request_records, request_orphans;
static atomic_int offers;   /* records with one */
static atomic_int holding, deferrals;
static struct record *records;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool threads;
/* Always in the table and never looked for: an empty table would be freed, and made again for the next message. */
static struct record anchor = {.request = MPI_REQUEST_NULL};

void record_begin(bool multiple)
{
    threads |= multiple;
}

bool record_threads(void)
{
    return threads;
}

void record_keep(struct record *r)
{
    pthread_mutex_lock(&lock);
    if (!records) HASH_ADD(hh, records, request, sizeof anchor.request, &anchor);
    HASH_ADD(hh, records, request, sizeof r->request, r);
    pthread_mutex_unlock(&lock);
}

static struct record *record_new(struct record what)
{
    struct record *r = spare_get(SPARE_RECORD, sizeof *r);
    if (!r) abort();   /* the MPI is already writing into the buffers: there is no way back */
    *r = what;
    atomic_fetch_add_explicit(&request_records, 1, memory_order_release);
    return r;
}

static void add(struct record what)
{
    record_keep(record_new(what));
}

void record_add(MPI_Request request, struct parcel *p, bool receive)
{
    add((struct record){.request = request, .parcel = p, .receive = receive, .active = true});
}

void record_add_led(MPI_Request request, struct parcel *p, const struct aside_at *at)
{
    add((struct record){.request = request, .parcel = p, .receive = true, .active = true, .led = true,
                        .source = at->from_source, .tag = at->from_tag});
}

void record_add_operands(MPI_Request request, struct operands *o, bool persistent)
{
    add((struct record){.request = request, .operands = o, .persistent = persistent, .active = !persistent});
}

void record_add_outflow(MPI_Request request, struct outflow *o)
{
    add((struct record){.request = request, .outflow = outflow_hold(o), .active = true});
}

void record_add_deferred(MPI_Request request, struct deferred *d, bool persistent)
{
    atomic_fetch_add(&deferrals, 1);
    add((struct record){.request = request, .deferred = d, .persistent = persistent, .active = !persistent});
}

bool record_defers(void)
{
    return atomic_load_explicit(&deferrals, memory_order_relaxed) != 0;
}

bool record_stepped(struct record *r)
{
    return !r || !r->deferred || deferred_step(r->deferred);
}

bool record_step(MPI_Request request)
{
    struct record *r = record_defers() ? record_take(request) : NULL;
    bool complete = record_stepped(r);
    if (r) record_keep(r);
    return complete;
}

bool record_deferred(MPI_Request request)
{
    struct record *r = record_defers() ? record_take(request) : NULL;
    bool deferred = r && r->deferred;
    if (r) record_keep(r);
    return deferred;
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

int record_add_offer(MPI_Request *request, struct offer *o)
{
    if (offer_feed(o) || !tell_apart(request)) return offer_end(o);
    atomic_fetch_add(&offers, 1);
    add((struct record){.request = *request, .offer = o, .active = true});
    return 0;
}

bool record_offering(const struct record *r)
{
    return r && r->offer && !offer_ended(r->offer);
}

bool record_offers(MPI_Request request)
{
    if (!atomic_load_explicit(&offers, memory_order_relaxed)) return false;
    struct record *r = record_take(request);
    bool offering = record_offering(r);
    if (r) record_keep(r);
    return offering;
}

bool record_holds(MPI_Request request)
{
    if (!atomic_load_explicit(&holding, memory_order_relaxed)) return false;
    struct record *r = record_take(request);
    bool holds = r && r->holds;
    if (r) record_keep(r);
    return holds;
}

/* Receives what was put aside for such a receive, as the MPI's own request would. */
static bool hold(struct record *r)
{
    const struct operands *o = r->operands;
    const struct operand *p = &o->of[0];
    struct aside_at at;
    if (!o->receives || !aside_take(o->source, o->tag, o->comm, &at)) return false;
    int count = p->use_count < INT_MAX ? (int)p->use_count : INT_MAX;
    int rc = PMPI_Recv(p->use, count, p->use_type, 0, at.tag, at.comm, &r->found);
    aside_fix(&at, &r->found);
    r->found.MPI_ERROR = rc;
    r->holds = true;
    atomic_fetch_add(&holding, 1);
    return true;
}

static void let_drop(struct record *r)
{
    if (r->holds) atomic_fetch_sub(&holding, 1);
    r->holds = false;
}

bool record_start(struct starts *s, struct record *r)
{
    struct operands *o = r->operands;
    if (!r->persistent) return record_keep(r), true;   /* the MPI will refuse it */
    r->active = true;
    r->next = s->first;
    s->first = r;
    if (r->deferred) return deferred_start(r->deferred);
    if (hold(r)) return true;
    if (!o->standing) return operands_pack(o, &s->batch), true;
    if (standing_flows(o->standing)) return (r->outflow = standing_flow(o->standing)) != NULL;
    r->offer = standing_start(o->standing, &s->site);
    if (r->offer) atomic_fetch_add(&offers, 1);
    return r->offer != NULL;
}

static void offer_drop(struct record *r)
{
    if (!r->offer) return;
    offer_withdraw(r->offer);
    r->offer = NULL;
    atomic_fetch_sub(&offers, 1);
}

void record_stop(struct record *r)
{
    r->active = false;
    offer_drop(r), let_drop(r);
    if (r->outflow) outflow_withdraw(r->outflow), r->outflow = NULL;
}

bool record_feed(struct starts *s)
{
    bool ok = true;
    for (struct record *r = s->first; r; r = r->next) {
        if (!r->outflow) continue;
        if (outflow_feed(r->outflow)) ok = false;
        outflow_leave(r->outflow);
        r->outflow = NULL;
    }
    return ok;
}

bool record_started(struct starts *s, bool ok)
{
    ok = !batch_wait(&s->batch) && ok;
    for (struct record *r = s->first; r; r = r->next)
        if (r->operands && !r->operands->standing && operands_packed(r->operands)) ok = false;
    for (struct record *r = s->first, *next; r; r = next) {
        next = r->next;
        if (!ok) record_stop(r);
        record_keep(r);
    }
    return ok;
}

void record_seen(struct record *r)
{
    r->seen = true;
}

bool record_persistent(const struct record *r)
{
    return r->persistent;
}

/* A record of a receive that was only watched. */
static struct record *watched(MPI_Request request)
{
    struct watch w;
    if (!atomic_load_explicit(&request_watches, memory_order_acquire) || !watch_take(request, &w)) return NULL;
    struct layout *l = layout_of(w.type);
    struct parcel *p = l ? parcel_bare(l, NULL, w.buf, w.count) : NULL;
    if (!p) abort();   /* what it brings would be lost without a word */
    return record_new((struct record){.request = request, .parcel = p, .receive = true, .active = true});
}

struct record *record_take(MPI_Request request)
{
    struct record *r = NULL;
    if (request == MPI_REQUEST_NULL) return NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, records, &request, sizeof request, r);
    if (r) HASH_DEL(records, r);
    pthread_mutex_unlock(&lock);
    return r ? r : watched(request);
}

static void record_free(struct record *r)
{
    parcel_close(r->parcel);
    outflow_put(r->outflow);
    if (r->operands) operands_free(r->operands);
    free(r->operands);
    if (r->deferred) atomic_fetch_sub(&deferrals, 1);
    deferred_free(r->deferred);
    spare_put(SPARE_RECORD, r);
    atomic_fetch_sub_explicit(&request_records, 1, memory_order_release);
}

/* True of what receives a message, or a part of one. */
static bool brings(const struct record *r)
{
    return r->operands ? operands_partial(r->operands) : r->receive;
}

/* The packed bytes to unpack: 0 for what failed, was cancelled, or was cut short. Open MPI's status of a truncated
 * receive has the whole message's size, and MPI_Request_get_status reports no error with it. */
static int64_t brought(const struct record *r, const MPI_Status *status, int error)
{
    int cancelled = 0;
    if (error != MPI_SUCCESS || !brings(r)) return 0;
    PMPI_Test_cancelled(status, &cancelled);
    return cancelled ? 0 : wire_received(status);
}

static int unpack(struct record *r, struct batch *b, int64_t bytes, int error)
{
    if (r->parcel && r->parcel->block) return host_arrived(r->parcel, bytes <= r->parcel->bytes ? bytes : 0), 0;
    if (r->parcel && !r->parcel->transport) return 0;   /* the MPI itself received it */
    if (r->parcel) return batch_unpack(b, r->parcel, bytes <= r->parcel->bytes ? bytes : 0), 0;
    if (!r->active || error != MPI_SUCCESS) return 0;
    return operands_unpack(r->operands, b, operands_partial(r->operands) ? bytes : INT64_MAX);
}

/* Where a receive's bytes arrive, and for whom: NULL where no descriptor can. */
static struct parcel *awaited(const struct record *r, const void **packed)
{
    *packed = r->parcel ? r->parcel->address : r->operands ? operands_arrived(r->operands) : NULL;
    return r->parcel ? r->parcel : r->operands ? r->operands->watch : NULL;
}

static void receive_done(struct completion *c, struct record *r, MPI_Status *status, int error, bool again)
{
    struct descriptor d;
    const void *packed;
    struct parcel *p = awaited(r, &packed);
    if (r->led) status->MPI_SOURCE = r->source, status->MPI_TAG = r->tag;
    if (again) {   /* its data are in place */
        if (r->pulled) PMPI_Status_set_elements_x(status, MPI_BYTE, r->pulled);
        return;
    }
    int64_t bytes = brought(r, status, error);
    if (bytes && p && pull_wanted(p, packed, status, &d)) {
        int rc = pull_add(&c->pulls, &d, p, status);
        if (rc == MPI_SUCCESS) r->pulled = d.bytes;
        const char *why = rc == MPI_ERR_TRUNCATE ? "a message is longer than its receive" : "a message can't be read";
        if (rc != MPI_SUCCESS) c->rc = status->MPI_ERROR = raise_error(MPI_COMM_WORLD, rc, why);
    } else if (unpack(r, &c->batch, bytes, error)) {
        c->rc = raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "unpacking on the GPU failed");
    }
}

static void offer_done(struct record *r, const MPI_Status *status, int error)
{
    int cancelled = 0;
    if (error == MPI_SUCCESS) PMPI_Test_cancelled(status, &cancelled);
    if (error != MPI_SUCCESS || cancelled) offer_drop(r);
}

static void deferred_done(struct completion *c, struct record *r)
{
    const char *what;
    int rc = deferred_end(r->deferred, &what);
    if (c->rc == MPI_SUCCESS) c->rc = what ? raise_error(MPI_COMM_WORLD, rc, what) : rc;
}

void completion_add(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    bool again = r->seen;
    r->seen = false;
    if (r->holds) {
        *status = r->found, error = status->MPI_ERROR;
        if (c->rc == MPI_SUCCESS) c->rc = error;
    }
    if (r->offer) offer_done(r, status, error);
    else if (r->deferred && r->active && !again) deferred_done(c, r);
    else if (!r->outflow && !r->deferred) receive_done(c, r, status, error, again);
    r->next = c->done;
    c->done = r;
}

int completion_end(struct completion *c)
{
    bool failed = batch_run(&c->batch) != 0;   /* it goes on while the messages are pulled */
    if (pulls_run(&c->pulls)) failed = true;
    if ((batch_wait(&c->batch) || failed) && c->rc == MPI_SUCCESS)
        c->rc = raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "unpacking on the GPU failed");
    for (struct record *r = c->done, *next; r; r = next) {
        next = r->next;
        if (r->offer) {
            atomic_fetch_sub(&offers, 1);
            if (offer_end(r->offer) && c->rc == MPI_SUCCESS)
                c->rc = raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "a message was not received");
            r->offer = NULL;
        }
        if (r->persistent && r->freed) PMPI_Request_free(&r->request);
        if (r->seen) {   /* its status will be asked for once more */
            record_keep(r);
            continue;
        }
        r->active = false, r->pulled = 0;
        let_drop(r);
        if (r->persistent && !r->freed) record_keep(r);
        else record_free(r);
    }
    c->done = NULL;
    record_poll();
    return c->rc;
}

/*
 * Orphans. All receives are looked at each time: a message that has arrived may tell the application that an earlier
 * one has too. Sends only wait for their buffers to be given back: a few are looked at, in turn.
 */

#define SENDS_AT_ONCE 4

struct queue {
    struct record *first, *last;
    int count;
};
static struct queue sends, receives;

static void push(struct queue *q, struct record *r)
{
    r->next = NULL;
    if (q->first) q->last->next = r;
    else q->first = r;
    q->last = r;
    q->count++;
}

static struct record *pop(struct queue *q)
{
    struct record *r = q->first;
    if (!r) return NULL;
    q->first = r->next;
    q->count--;
    return r;
}

bool record_orphan(struct record *r)
{
    r->freed = true;
    if (!r->active) {
        record_free(r);
        return false;
    }
    pthread_mutex_lock(&lock);
    push(brings(r) ? &receives : &sends, r);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&request_orphans, 1);
    return true;
}

/* Looks at the first `most` of a queue: `done` receives those that have completed, the others go behind. */
static void collect(struct queue *q, int most, struct completion *done)
{
    for (int i = 0; i < most; i++) {
        struct record *r = pop(q);
        MPI_Status status;
        int flag = 0, rc = record_stepped(r) ? PMPI_Test(&r->request, &flag, &status) : MPI_SUCCESS;
        if (rc == MPI_SUCCESS && !flag) {
            push(q, r);
            continue;
        }
        atomic_fetch_sub(&request_orphans, 1);
        completion_add(done, r, &status, rc);
    }
}

static void collect_orphans(struct completion *done)
{
    pthread_mutex_lock(&lock);
    collect(&receives, receives.count, done);
    collect(&sends, sends.count < SENDS_AT_ONCE ? sends.count : SENDS_AT_ONCE, done);
    pthread_mutex_unlock(&lock);
}

void record_poll(void)
{
    static _Thread_local bool polling;
    if (polling || !atomic_load(&request_orphans)) return;
    polling = true;
    offer_poll(), outflow_poll();
    struct completion c = {0};
    collect_orphans(&c);
    completion_end(&c);
    polling = false;
}

static void finish(struct queue *q, bool cancel)
{
    for (struct record *r; (r = pop(q));) {
        if (cancel && !r->holds) PMPI_Cancel(&r->request);
        for (unsigned spins = 0; !record_stepped(r); spins++) spin(spins);
        PMPI_Wait(&r->request, MPI_STATUS_IGNORE);
        if (r->persistent) PMPI_Request_free(&r->request);
        if (r->offer) offer_end(r->offer);
        r->offer = NULL;
        record_free(r);
    }
}

void record_finish(void)
{
    finish(&receives, true);
    finish(&sends, false);
    offer_finish();
    if (records) HASH_DEL(records, &anchor);
    spare_drop(), blocks_drop();
}
