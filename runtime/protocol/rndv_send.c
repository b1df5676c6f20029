/* rndv_send.c: the sender's side of messages that go zero-copy. */
#include "rndv_send.h"
#include "base/activity.h"
#include "base/backoff.h"
#include "base/env.h"
#include "base/log.h"
#include "base/self_comm.h"
#include "datatype/layout_parts.h"
#include "observe/trace.h"
#include "progress_thread.h"
#include "rndv_file.h"
#include "rndv_internal.h"
#include <pthread.h>

/* How long a send waits for its receiver to begin, and how often the clock and the peer's process are looked at. If the
 * receiver has not begun by then, that time counts from the start of each of the next LATE sends to it. */
#define PATIENCE_NS 200000
#define LATE 64
#define SPINS_PER_LOOK 64
#define SPINS_PER_CHECK 4096

static struct rndv_send *left;   /* whose sends have ended before their receivers */
static atomic_int left_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Writes the RTS. `number` is of the slot, or of the file. */
static void write_rts(struct rndv_send *o, uint32_t number)
{
    struct rts *d = &o->rts;
    rts_mark(d, &node_self()->cookie);
    d->rank = (uint32_t)node_self()->rank, d->slot = number, d->bytes = o->tbuf->bytes;
}

void rndv_send_publish(struct rndv_send *o)
{
    write_rts(o, (uint32_t)(o->slot - node_own()->slot));
    o->begun = stats_now();
    o->to_late = atomic_load_explicit(&o->peer->late, memory_order_relaxed) > 0;
    atomic_store_explicit(&o->slot->state, SLOT_POSTED, memory_order_release);
}

static const struct rndv_domain *domain_of(const struct device *d)
{
    return d ? &rndv_domain_cuda : &rndv_domain_host;
}

int rndv_send_count(const struct peer *peer, const struct device *d, MPI_Datatype *type)
{
    return domain_of(d)->count(peer, type);
}

#define OTHERS 64   /* slots that are left to messages in one allocation */

/* Returns the number of the slot from which on a layout in several allocations looks for free ones: each has a place,
 * so that types that take turns find in their slots what they have described there. */
static int place_of(struct layout *l)
{
    static atomic_uint taken;
    int place = atomic_load_explicit(&l->slots_from, memory_order_relaxed);
    if (place) return place;
    const struct layout_parts *parts = layout_parts_by_memory(l);
    unsigned from = atomic_fetch_add(&taken, parts ? (unsigned)parts->n : 1);
    place = OTHERS + (int)(from % (SLOTS_STEP - OTHERS - LAYOUT_PARTS));   /* so that the last ones fit, too */
    atomic_store_explicit(&l->slots_from, place, memory_order_relaxed);
    return place;
}

struct rndv_send *rndv_send_to(struct peer *peer, struct layout *l, struct device *d, const void *buf, int64_t count,
                               struct rndv_send_site *site)
{
    const struct rndv_domain *domain = domain_of(d);
    struct rndv_send *o = domain->begin(peer, d);
    if (!o) return NULL;
    o->domain = domain, o->peer = peer, o->reserved = site->reserved, o->synchronous = site->synchronous;
    if (site->as_before && !site->allocation.span) o->look_at = place_of(l);
    if ((o->tbuf = typed_buffer_new(l, d, buf, count)) && rndv_send_slot(o) && domain->post(o, site)) return o;
    rndv_send_withdraw(o);
    return NULL;
}

struct rndv_send *rndv_send_apart(struct peer *peer, struct layout *l, struct device *d, const void *buf, int64_t count,
                                  const struct rndv_send_site *site)
{
    struct rndv_send *o = rndv_send_new();
    if (!o) return NULL;
    o->domain = domain_of(d), o->peer = peer, o->synchronous = site->synchronous;
    o->tbuf = typed_buffer_new(l, d, buf, count);
    uint32_t number = o->tbuf ? rndv_file_apart(o->tbuf, peer) : 0;
    if (!number) return rndv_send_withdraw(o), NULL;
    o->in_file = true;
    write_rts(o, number);
    return o;
}

int rndv_send_feed(struct rndv_send *o)
{
    return o->pushes ? o->domain->feed(o) : 0;
}

bool rndv_send_pushes(const struct rndv_send *o)
{
    return o->pushes;
}

const struct rts *rndv_send_rts(const struct rndv_send *o)
{
    return &o->rts;
}

int rndv_send_rts_count(const struct rndv_send *o, MPI_Datatype *type)
{
    int count = o->domain->count(o->peer, type);
    return o->short_rts ? (int)RTS_SHORT_BYTES : count;
}

static uint32_t state_of(const struct rndv_send *o)
{
    return atomic_load_explicit(&o->slot->state, memory_order_acquire);
}

/* Packs the payload into the slot's file: a receiver may wait for a later send of this process before it reads this one
 * (MPI_Waitall), so no send may wait for it because memory is out. */
static bool move_to_file(struct rndv_send *o)
{
    if (rndv_file_out(o->tbuf, o->rts.slot, o->peer)) return false;
    o->in_file = true;
    o->slot->memory = SLOT_FILE;
    SLOT_SET(o->slot->description, 0);
    return true;
}

bool rndv_send_move_away(struct rndv_send *o, bool may_file)
{
    uint32_t posted = SLOT_POSTED;
    if (o->stays || rndv_send_moved(o)) return false;
    if (!atomic_compare_exchange_strong(&o->slot->state, &posted, SLOT_HELD)) return false;
    bool moved = o->domain->move(o) || (may_file && move_to_file(o));
    o->stays = !moved && may_file;
    atomic_store_explicit(&o->slot->state, SLOT_POSTED, memory_order_release);
    return moved;
}

/* The time counts from when the sender has nothing else to do: in a window of many sends the first is old before the
 * last is sent, and the receiver may wait for all of them. A receiver that was late is late again only if it keeps a
 * window waiting of which nothing was moved away: it takes longer to read what was. */
static bool impatient(struct rndv_send *o)
{
    int64_t now = stats_now();
    if (!o->since) o->since = node_skip_next(&o->peer->late) ? o->begun : now;
    if (now - o->since <= PATIENCE_NS) return false;
    if (o->since != o->begun && !o->to_late) atomic_store_explicit(&o->peer->late, LATE, memory_order_relaxed);
    return true;
}

static bool refused(struct rndv_send *o)
{
    uint32_t state = SLOT_NACK;
    return state_of(o) == state && atomic_compare_exchange_strong(&o->slot->state, &state, SLOT_HELD);
}

static void spill(struct rndv_send *o)
{
    /* Waits for the thread that still packs; it waits for nobody. */
    int64_t ready = 0;
    for (unsigned spins = 0; ready >= 0 && ready < o->tbuf->bytes && !node_lost(); spins++) {
        ready = atomic_load_explicit(&o->slot->ready, memory_order_acquire);
        backoff(spins);
    }
    o->domain->refused(o);
    bool lost = ready < 0 || rndv_file_out(o->tbuf, o->rts.slot, o->peer);
    atomic_store(&o->slot->state, lost ? SLOT_LOST : SLOT_FALLBACK);
}

/* The receiver is through, or has asked for the payload by another way. */
static bool answered(struct rndv_send *o)
{
    if (refused(o)) spill(o);
    return state_of(o) == SLOT_DONE;
}

/* Answers all refusals. A slot in HELD is not given back by its owner. */
void rndv_send_serve(void)
{
    for (int i = 0; i < node_slots(); i++) {
        struct rndv_send *o = rndv_send_of_slot(i, refused);
        if (o) spill(o);
    }
}

void rndv_send_near(const struct rndv_send *o)
{
    __builtin_prefetch(o->slot, 1);
}

bool rndv_send_read(const struct rndv_send *o)
{
    return o->slot && state_of(o) == SLOT_DONE;
}

void rndv_send_unmatch(struct rndv_send *o)
{
    o->synchronous = false;
}

/* Returns true while the RTS waits in the receiver's probed queue: the slot tells, or the file without one. */
static bool probed(const struct rndv_send *o)
{
    return o->slot ? atomic_load(&o->slot->probed) : rndv_file_probed(o->rts.slot);
}

/* The MPI has completed the RTS's synchronous send. Returns false if that was by a probe of the receiver's: a thread
 * there is about to take RTS headers out of the MPI's queue (`probing`), or this one waits in the probed queue. The
 * order matters: the receiver notes the probe before it clears `probing`. */
static bool matched(const struct rndv_send *o)
{
    if (!o->synchronous || rndv_send_read(o)) return true;
    return !atomic_load(&o->peer->file->probing) && !probed(o);
}

bool rndv_send_ended(struct rndv_send *o)
{
    return matched(o) && (!o->slot || answered(o) || rndv_send_moved(o) ||
                          (impatient(o) && (rndv_send_move_away(o, true) || !o->stays)));
}

/* Ends a send that its receiver reads later. What lies in a shared segment block needs no more care: no refusal comes,
 * and the next sends free the block. Calls look for the others. */
static void leave(struct rndv_send *o)
{
    if (o->pool_block) {
        typed_buffer_stats(o->tbuf, "shared", o->tbuf->bytes, o->begun);
        typed_buffer_close(o->tbuf);
        o->tbuf = NULL;
    } else {
        atomic_fetch_add(&request_freed, 1);
    }
    rndv_send_stays(o);
    pthread_mutex_lock(&lock);
    o->next = left;
    left = o;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&left_count, 1);
}

/* Returns true if the peer receives nothing any more. */
static bool in_vain(const struct peer *p)
{
    return atomic_load(&p->file->leaving) || node_gone(p);
}

/* Returns false if the receiver will not come: its process has ended or is in MPI_Finalize, or it can't be told. */
static bool pulse(const struct rndv_send *o)
{
    if (node_gone(node_self())) {
        log_once(LOG_ERROR, "node lost",
                 "a file of this process in /dev/shm was cut: what it had under way is lost");
        return false;
    }
    if (!in_vain(o->peer)) return true;
    if (rndv_send_read(o)) return true;   /* before the receiver left */
    log_write(LOG_ERROR, "rank %d ended before it received a message", o->peer->rank);
    return false;
}

/* Sets the slot of a receiver that will not come to DONE. Waits while a thread of this process answers a NACK or moves
 * the payload: it uses the typed buffer. */
static void retire(struct rndv_send *o)
{
    uint32_t state = state_of(o);
    for (unsigned spins = 0; state != SLOT_DONE; spins++) {
        if (state != SLOT_HELD && atomic_compare_exchange_strong(&o->slot->state, &state, SLOT_DONE)) return;
        backoff(spins);
        state = state_of(o);
    }
}

static void finished(struct rndv_send *o)
{
    if (o->tbuf) typed_buffer_stats(o->tbuf, "zerocopy", o->tbuf->bytes, o->begun);
    if (o->domain->read) o->domain->read(o);
    o->short_rts = false;
    rndv_send_withdraw(o);
}

/* Waits for the match, and makes the MPI progress meanwhile. Returns false if the receiver will not come. */
static bool await_match(const struct rndv_send *o)
{
    for (unsigned spins = 1; !matched(o); spins++) {
        if (spins % SPINS_PER_CHECK == 0 && !pulse(o)) return false;
        comm_backoff(MPI_COMM_WORLD, spins);
    }
    return true;
}

/* Ends a send without a slot. The file is the receiver's, unless that will not come. */
static int end_apart(struct rndv_send *o)
{
    int rc = await_match(o) ? 0 : -1;
    o->in_file = rc != 0;
    rndv_send_withdraw(o);
    return rc;
}

int rndv_send_end(struct rndv_send *o)
{
    if (!o->slot) return end_apart(o);
    if (o->pushes && rndv_send_feed(o)) return leave(o), -1;
    if (!await_match(o)) return retire(o), finished(o), -1;
    for (unsigned spins = 0; !answered(o); spins++) {
        /* The rank itself does not receive meanwhile. */
        bool late = spins % SPINS_PER_LOOK == 0 && (o->peer->self || impatient(o));
        if (late) rndv_send_move_away(o, true);
        if (rndv_send_moved(o)) return leave(o), 0;
        if (spins % SPINS_PER_CHECK == SPINS_PER_CHECK - 1 && !pulse(o)) return retire(o), finished(o), -1;
        if (late || o->stays) comm_backoff(MPI_COMM_WORLD, spins);
        else backoff(spins);
    }
    finished(o);
    return 0;
}

int rndv_send_await(struct rndv_send *o, MPI_Comm comm)
{
    int64_t begun = trace_wanted() ? stats_now() : 0;
    for (unsigned spins = 1; !answered(o); spins++) {
        if (spins % SPINS_PER_CHECK == 0 && !pulse(o)) return retire(o), finished(o), -1;
        comm_backoff(comm, spins);
    }
    if (begun) trace_add_plain(TRACE_WAIT, "wait for the receiver", begun);
    finished(o);
    return 0;
}

/* Takes the answered ones out of the list. */
static struct rndv_send *harvest(void)
{
    struct rndv_send *done = NULL, **at = &left;
    pthread_mutex_lock(&lock);
    while (*at) {
        struct rndv_send *o = *at;
        if (!answered(o)) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        o->next = done;
        done = o;
    }
    pthread_mutex_unlock(&lock);
    return done;
}

void rndv_send_poll(void)
{
    if (!atomic_load(&left_count)) return;
    for (struct rndv_send *o = harvest(), *next; o; o = next) {
        next = o->next;
        atomic_fetch_sub(&left_count, 1);
        if (!o->pool_block) atomic_fetch_sub(&request_freed, 1);
        finished(o);
    }
}

/* Makes one step of waiting for o's receiver at MPI_Finalize. The MPI progresses too, as the RTS header may not be out
 * yet. Sets DONE if the receiver will not come. */
static void linger(struct rndv_send *o, unsigned spins)
{
    if (o && spins % SPINS_PER_CHECK == 0 && (node_gone(node_self()) || in_vain(o->peer))) retire(o);
    comm_backoff(MPI_COMM_WORLD, spins);
}

void rndv_send_finish(void)
{
    if (node_own()) atomic_store(&node_own()->leaving, 1);
    for (unsigned spins = 1; atomic_load(&left_count); spins++) {
        rndv_send_poll();
        linger(left, spins);
    }
    for (unsigned spins = 1; !rndv_file_finish(in_vain); spins++) linger(NULL, spins);
    rndv_domain_host.finish();
    progress_thread_finish();
    rndv_sends_drop();
}
