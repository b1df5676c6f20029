/* channel.c: channels: the table by request, and when two partners bind (channel_bind.c: by what). */
#include "channel_internal.h"
#include "base/activity.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "rndv_internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define START_NS INT64_C(10000000000)   /* how long a rank of the node may be in MPI_Init after the first greeting */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* guards the table, and binding */
static struct channel *table;
static uint64_t greetings;
static atomic_int bound_channels;

/* ---- the table ---- */

/* Gives a sender's slots back. */
static void slots_end(struct channel *c)
{
    if (!c->slots) return;
    if (c->flag_slot) c->flag_slot->id = 0, c->flag_slot->description = 0;   /* the handle there is the receiver's */
    rndv_send_withdraw(c->slots);
    c->slots = NULL, c->flag_slot = NULL;
}

static void arrived_end(struct channel *c)
{
    if (c->arrived && !device_enter(c->device)) event_free(c->arrived), device_leave(c->device);
    c->arrived = NULL;
}

static void channel_free(struct channel *c)
{
    if (c->greeting_request != MPI_REQUEST_NULL) {
        PMPI_Cancel(&c->greeting_request);
        PMPI_Request_free(&c->greeting_request);
    }
    if (c->state == CHANNEL_BOUND) spinlock_count(&request_records, -1), atomic_fetch_sub(&bound_channels, 1);
    spinlock_count(&request_dormant, -1);
    arrived_end(c);
    channel_moves_end(c);
    post_free(c->post);
    channel_parts_end(c);
    ipc_cache_put(c->flag);
    channel_flag_put(c->device, c->own);
    slots_end(c);
    layout_unref(c->layout);
    free(c);
}

/* Caller holds `lock`. */
static void drop(MPI_Request request)
{
    struct channel *c;
    HASH_FIND(hh, table, &request, sizeof request, c);
    if (!c) return;
    HASH_DEL(table, c);
    channel_free(c);
}

void channel_freed(MPI_Request request)
{
    pthread_mutex_lock(&lock);
    drop(request);
    pthread_mutex_unlock(&lock);
}

int channel_note(int rc, const struct channel_call *call, const MPI_Request *request)
{
    if (rc != MPI_SUCCESS || !node_armed() || !driver_get()) return rc;
    struct layout *l = layout_of(call->type);
    struct channel *c = l ? calloc(1, sizeof *c) : NULL;
    if (!c) return rc;
    c->request = *request, c->call = *call, c->layout = layout_ref(l);
    c->world = world_rank(call->comm, call->peer);   /* the communicator may go before the request */
    c->greeting_request = MPI_REQUEST_NULL;
    pthread_mutex_lock(&lock);
    drop(*request);   /* a handle that was freed and is used again */
    HASH_ADD(hh, table, request, sizeof c->request, c);
    spinlock_count(&request_dormant, 1);   /* MPI_Request_free comes to stridec */
    pthread_mutex_unlock(&lock);
    return rc;
}

void channels_finish(void)
{
    struct channel *c, *next;
    posts_finish();
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, table, c, next) drop(c->request);
    channel_flags_finish();
    pthread_mutex_unlock(&lock);
}

struct channel *channel_of(MPI_Request request)
{
    struct channel *c;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, &request, sizeof request, c);
    pthread_mutex_unlock(&lock);
    return c;
}

bool channel_is_bound(MPI_Request request)
{
    const struct channel *c = atomic_load_explicit(&bound_channels, memory_order_relaxed) ? channel_of(request) : NULL;
    return c && c->state == CHANNEL_BOUND && !c->nothing;
}

MPI_Request channel_request(const struct channel *c)
{
    return c->request;
}

enum channel_state channel_state(const struct channel *c)
{
    return c->state;
}

enum channel_message channel_message(const struct channel *c)
{
    return c->message;
}

void channel_set_message(struct channel *c, enum channel_message message)
{
    c->message = message;
}

struct device *channel_device(const struct channel *c)
{
    return c->device;
}

/* Adds a message to the statistics: when it is enqueued, since nobody hears of a graph's launches. */
static void count(const struct channel *c)
{
    struct typed_buffer p = typed_buffer_on(c->layout, c->device, c->call.buf, c->call.count);
    if (c->call.sends && stats_sent) stats_add_sent_to(c->world, c->bytes);
    int64_t bytes = c->post ? post_bytes(c->post) : c->bytes;
    typed_buffer_stats(&p, "stream", bytes, 0);
}

void channels_note_start(struct channel *const channels[], int n, CUstream stream, bool captured, bool together)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) {
        struct channel *c = channels[i];
        c->untold = together && !c->nothing && c->call.sends, c->together = together;
        c->stream = stream, c->thread = pthread_self(), c->captured = captured;
        c->message = c->post ? MESSAGE_POSTED : MESSAGE_STARTED;
    }
    pthread_mutex_unlock(&lock);
}

void channel_drop_message(struct channel *c)
{
    arrived_end(c);
    pthread_mutex_lock(&lock);
    c->moved = c->early = c->failed = c->untold = c->together = false;
    c->message = MESSAGE_NONE;
    pthread_mutex_unlock(&lock);
}

void channel_end_message(struct channel *c)
{
    bool enqueued = c->state == CHANNEL_BOUND ? !c->nothing : c->message == MESSAGE_POSTED;
    if (enqueued) count(c);
    channel_drop_message(c);
}

const char *channel_why(const struct channel *c)
{
    return c->why;
}

bool channel_is_captured(const struct channel *c)
{
    bool bound = c->state == CHANNEL_BOUND && c->message == MESSAGE_STARTED;
    return c->captured && (bound || c->message == MESSAGE_POSTED);
}

bool channel_is_elsewhere(const struct channel *c, CUstream stream)
{
    return c->moved && c->early && c->stream != stream;
}

bool channel_is_hosts(const struct channel *c)
{
    return c->state == CHANNEL_PLAIN || (c->state == CHANNEL_POSTED && c->message != MESSAGE_POSTED);
}

bool channel_wild(const struct channel *c)
{
    return !c->call.sends && (c->call.peer == MPI_ANY_SOURCE || c->call.tag == MPI_ANY_TAG);
}

/* ---- binding ---- */

static void plain(struct channel *c, const char *why)
{
    c->why = why;
    c->state = CHANNEL_PLAIN;
    mempool_put(c->wire), c->wire = NULL;
    log_write(LOG_INFO, "a request in stream order is left to the MPI: %s", why);
}

static void bound(struct channel *c)
{
    c->state = CHANNEL_BOUND;
    atomic_fetch_add(&bound_channels, 1);
    spinlock_count(&request_records, 1);
}

/* Returns the partner if it is a rank of the node that runs stridec. Both partners find the same. */
static struct peer *partner(const struct channel *c)
{
    static _Atomic int64_t until;   /* of all greetings: a rank without stridec seems to start for ever */
    int64_t none = 0;
    struct peer *p = node_peer(c->call.comm, c->call.peer);
    if (!p) atomic_compare_exchange_strong(&until, &none, stats_now() + START_NS);
    while (!p && node_starting() && stats_now() < atomic_load(&until)) p = node_peer_now(c->call.comm, c->call.peer);
    return p ? p : node_peer_now(c->call.comm, c->call.peer);
}

void channel_locate(struct channel *c)
{
    if (c->call.peer == MPI_PROC_NULL) return;
    int64_t bytes = c->call.count > 0 && c->layout->tree ? layout_bytes(c->layout, c->call.count) : 0;
    c->why = "nothing to send, or a type that can't be read";
    if (bytes <= 0) return;
    struct location w = locate(c->layout, c->call.buf, c->call.count);
    c->why = "not in the memory of one device";
    if (!w.device || w.parts) return;
    c->why = "the driver has no stream memory operations";
    if (!channel_device_able(w.device)) return;
    c->bytes = bytes, c->device = w.device, c->why = NULL;
}

void channel_leave(struct channel *c, const char *why)
{
    c->why = why, c->device = NULL;
}

/* Sends the greeting, or expects it. Caller holds `lock`. */
static void greet(struct channel *c)
{
    const struct channel_call *k = &c->call;
    if (!c->why && k->sends) c->why = channel_describe(c);
    c->greeting = (struct greeting){.slot = SLOTS, .cookie = node_self()->cookie};
    if (k->sends && !c->why) c->greeting.slot = (uint32_t)(c->slots->slot - node_own()->slot);
    int rc = k->sends ? PMPI_Isend(&c->greeting, sizeof c->greeting, MPI_BYTE, k->peer, k->tag, k->comm,
                                   &c->greeting_request)
                      : PMPI_Irecv(&c->greeting, sizeof c->greeting, MPI_BYTE, k->peer, k->tag, k->comm,
                                   &c->greeting_request);
    if (rc == MPI_SUCCESS) c->state = CHANNEL_GREETED;
    else plain(c, "the MPI has failed");
}

/* Returns true if the MPI would match a message of either with the other's partner. */
static bool alike(const struct channel_call *a, const struct channel_call *b)
{
    return a->sends == b->sends && a->peer == b->peer && a->tag == b->tag && a->comm == b->comm;
}

bool channel_unsettled(const struct channel *c)
{
    enum channel_state state = c->state;
    enum channel_message message = c->message;
    bool mpis = state == CHANNEL_PLAIN || state == CHANNEL_POSTED;
    return state == CHANNEL_QUEUED || state == CHANNEL_GREETED ||
           (mpis && (message == MESSAGE_PENDING || message == MESSAGE_STARTING));
}

/* Returns true if an earlier message that the MPI may match instead is not settled. Caller holds `lock`. */
static bool must_wait(const struct channel *c)
{
    struct channel *other, *next;
    HASH_ITER(hh, table, other, next)
        if (other->number < c->number && alike(&other->call, &c->call) && channel_unsettled(other)) return true;
    return false;
}

void channel_begin(struct channel *c)
{
    bool fresh = c->state == CHANNEL_NEW, none = c->call.peer == MPI_PROC_NULL;
    struct peer *p = fresh && !none ? partner(c) : NULL;
    pthread_mutex_lock(&lock);
    c->number = ++greetings;
    c->message = MESSAGE_PENDING;
    if (fresh && none) {
        c->nothing = true;
        bound(c);
    } else if (fresh && !p) {
        plain(c, "the partner is on another node, or without stridec");
    } else if (fresh) {
        c->peer = p;
        if (must_wait(c)) c->state = CHANNEL_QUEUED;
        else greet(c);
    }
    pthread_mutex_unlock(&lock);
}

/* Ranks of this node may send handles of device memory, which the thread can't open. */
void channel_post(struct channel *c, int64_t bytes)
{
    if (c->state != CHANNEL_PLAIN || c->post || !c->device || c->peer || device_enter(c->device)) return;
    c->post = post_new(&c->call, c->layout, c->device, c->call.sends ? c->bytes : bytes);
    device_leave(c->device);
    if (c->post) c->state = CHANNEL_POSTED;
}

static void answer(struct channel *c)
{
    bool greeted = !memcmp(&c->greeting.cookie, &c->peer->cookie, sizeof c->peer->cookie);
    struct slot *flag = c->flag_slot = greeted ? channel_last_slot(c->peer->file, c->greeting.slot, &c->parts) : NULL;
    if (!greeted)
        log_write(LOG_ERROR, "rank %d has not started in stream order what is received so: its message is lost",
                  c->peer->rank);
    const char *why = !flag ? "the sender can't share its memory" : c->why;
    if (!why && device_enter(c->device)) why = "the device can't be used";
    else if (!why) why = channel_accept(c), device_leave(c->device);
    if (flag) atomic_store_explicit(&flag->turn, why ? HANDSHAKE_NO : HANDSHAKE_YES, memory_order_release);
    if (why) plain(c, why);
    else c->answered = true;
}

static void progress_receive(struct channel *c)
{
    int there = 0;
    if (!c->answered && PMPI_Test(&c->greeting_request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && there) answer(c);
    if (!c->answered || c->state != CHANNEL_GREETED) return;
    int64_t turn = atomic_load_explicit(&c->flag_slot->turn, memory_order_acquire);
    if (turn != HANDSHAKE_BOUND && turn != HANDSHAKE_UNREACHED) return;
    atomic_store_explicit(&c->flag_slot->turn, HANDSHAKE_SEEN, memory_order_release);
    if (turn == HANDSHAKE_UNREACHED) {
        plain(c, "the sender can't reach the receiver's flag");
    } else {
        channel_move_first(c);
        bound(c);
    }
}

/* Opens the receiver's flag. */
static bool reach(struct channel *c, const struct slot *flag)
{
    if (device_enter(c->device)) return false;
    c->flag = ipc_cache_open(c->peer, flag, c->device, &c->other);
    typed_copy_wait(c->device, NULL, 0);   /* for the flags */
    device_leave(c->device);
    return c->flag != NULL;
}

static void progress_send(struct channel *c)
{
    struct slot *flag = c->flag_slot;
    int64_t turn = flag ? atomic_load_explicit(&flag->turn, memory_order_acquire) : HANDSHAKE_NO;
    int sent = 0;
    if (turn == HANDSHAKE_NONE) return;
    if (PMPI_Test(&c->greeting_request, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || !sent) return;
    bool reached = turn == HANDSHAKE_YES && reach(c, flag);
    if (turn == HANDSHAKE_NO) slots_end(c);
    if (turn == HANDSHAKE_YES)
        atomic_store_explicit(&flag->turn, reached ? HANDSHAKE_BOUND : HANDSHAKE_UNREACHED, memory_order_release);
    if (reached) bound(c);
    else plain(c, c->why ? c->why : turn == HANDSHAKE_YES ? "the receiver's flag is out of reach"
                                                       : "the receiver can't read it");
}

static bool seen(const struct channel *c)
{
    const struct slot *flag = c->slots ? c->flag_slot : NULL;
    return flag && atomic_load_explicit(&flag->turn, memory_order_acquire) == HANDSHAKE_SEEN;
}

bool channels_progress(const struct channel *c)
{
    struct channel *other, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, table, other, next) {
        if (other->state == CHANNEL_QUEUED && !must_wait(other)) greet(other);
        if (other->state == CHANNEL_GREETED) other->call.sends ? progress_send(other) : progress_receive(other);
        if (seen(other)) slots_end(other);
    }
    bool gone = c && (c->state == CHANNEL_QUEUED || c->state == CHANNEL_GREETED) && node_gone(c->peer);
    pthread_mutex_unlock(&lock);
    return !gone;
}

struct channel *channels_next_plain(void)
{
    struct channel *c, *next, *found = NULL;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, table, c, next) {
        bool first = channel_is_hosts(c) && c->message == MESSAGE_PENDING;
        if (first && (!found || c->number < found->number) && !must_wait(c)) found = c;
    }
    if (found) found->message = MESSAGE_STARTING;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Returns true if a receive is still to be moved, and was started on the stream. */
static bool started_on(const struct channel *c, const struct device *d, CUstream stream, bool captured)
{
    bool there = c->state == CHANNEL_BOUND && c->message == MESSAGE_STARTED && !c->call.sends && !c->nothing;
    bool waits = there && !c->moved && !c->together;
    if (!waits || c->device != d || c->stream != stream || c->captured != captured) return false;
    return stream != CU_STREAM_PER_THREAD || pthread_equal(c->thread, pthread_self());
}

struct channel **channels_started(struct scratch *s, const struct device *d, CUstream stream, bool captured, int more,
                                  int *n)
{
    struct channel *c, *next, **list;
    pthread_mutex_lock(&lock);
    list = scratch_get(s, ((size_t)more + HASH_COUNT(table)) * sizeof *list);
    *n = 0;
    HASH_ITER(hh, table, c, next)
        if (list && started_on(c, d, stream, captured)) list[(*n)++] = c;
    pthread_mutex_unlock(&lock);
    return list;
}
