/* api_order.c: persistent requests in stream order. */
#include "api.h"
#include "base/activity.h"
#include "base/backoff.h"
#include "base/log.h"
#include "base/self_comm.h"
#include "collective/neighbor_stream.h"
#include "device/device.h"
#include "pack/typed_buffer.h"
#include "protocol/channel.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The requests of a call: those that are bound, or posted, go by the stream, the others by the MPI. */
struct order {
    int n, plain;
    bool hosts;                 /* the host starts some: then it does all that the MPI carries, in their order */
    bool together;              /* the wait follows at once */
    CUstream stream;
    bool captured;
    struct scratch *scratch;    /* holds the lists */
    struct channel **channel;   /* the first `n` of them are channels */
    MPI_Request *request;       /* `plain` requests of the MPI */
    struct channel **of;        /* their channels, or NULL */
    MPI_Status *status;         /* theirs, when they are complete */
};

static bool order_begin(struct order *o, struct scratch *s, int n, stridec_stream stream)
{
    size_t room = (size_t)n;
    *o = (struct order){.stream = (CUstream)stream, .scratch = s};
    o->channel = scratch_get(s, room * sizeof *o->channel), o->request = scratch_get(s, room * sizeof *o->request);
    o->of = scratch_get(s, room * sizeof *o->of), o->status = scratch_get(s, room * sizeof *o->status);
    o->captured = driver_get() && stream_is_captured(o->stream);
    return o->channel && o->request && o->of && o->status;
}

/* Without a context there is no work to wait for. */
static bool synchronize(const struct order *o)
{
    CUresult r = driver_get() ? driver_get()->cuStreamSynchronize(o->stream) : CUDA_SUCCESS;
    return r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT;
}

/* Passes the call to the MPI as the program's own: stridec serves it. */
static bool start_by_mpi(int n, MPI_Request requests[])
{
    if (!n) return true;
    interpose_depth--;
    int rc = MPI_Startall(n, requests);
    interpose_depth++;
    return rc == MPI_SUCCESS;
}

static int cannot_capture(const char *why)
{
    log_write(LOG_WARN, "a captured stream: a request can't be part of the graph: %s", why);
    return STRIDEC_UNABLE;
}

/* ---- collectives: their messages take their place in a call's list ---- */

struct list {
    int n, room;
    bool fresh;   /* some messages of collectives have not been started before */
    struct scratch *scratch;   /* holds it */
    MPI_Request *request;
};

/* Begins a list with room for n. */
static bool list_begin(struct list *l, struct scratch *s, int n)
{
    *l = (struct list){.room = n, .scratch = s, .request = scratch_get(s, (size_t)n * sizeof *l->request)};
    return l->request;
}

static bool list_add(struct list *l, int n, const MPI_Request requests[])
{
    if (l->n + n > l->room) {
        MPI_Request *more = scratch_get(l->scratch, (size_t)(l->n + n + l->room) * sizeof *more);
        if (!more) return false;
        if (l->n) memcpy(more, l->request, (size_t)l->n * sizeof *more);
        l->request = more, l->room += l->n + n;
    }
    if (n) memcpy(l->request + l->n, requests, (size_t)n * sizeof *requests);
    l->n += n;
    return true;
}

static int make_one(const struct channel_call *c, MPI_Request *request)
{
    void *buf = (void *)(uintptr_t)c->buf;
#if MPI_VERSION >= 4
    return c->sends ? MPI_Send_init_c(buf, c->count, c->type, c->peer, c->tag, c->comm, request)
                    : MPI_Recv_init_c(buf, c->count, c->type, c->peer, c->tag, c->comm, request);
#else   /* no call has had longer counts */
    return c->sends ? MPI_Send_init(buf, (int)c->count, c->type, c->peer, c->tag, c->comm, request)
                    : MPI_Recv_init(buf, (int)c->count, c->type, c->peer, c->tag, c->comm, request);
#endif
}

/* Makes persistent requests, as the program would: stridec serves them. Returns false on failure. */
static bool make(struct neighbor_messages *m)
{
    int rc = MPI_SUCCESS;
    interpose_depth--;
    while (m->made < m->n && rc == MPI_SUCCESS) {
        rc = make_one(&m->call[m->made], &m->request[m->made]);
        m->made += rc == MPI_SUCCESS;
    }
    interpose_depth++;
    return rc == MPI_SUCCESS;
}

/* Lists the requests of a start. Returns STRIDEC_OK, or why it can't. */
static int list_starts(struct list *l, int n, const MPI_Request requests[], stridec_stream stream)
{
    for (int i = 0; i < n; i++) {
        struct neighbor_messages *m = NULL;
        if (requests[i] != MPI_REQUEST_NULL && !neighbor_stream_of(requests[i], &m)) return STRIDEC_FAILED;
        if (m && m->made < m->n && driver_get() && stream_is_captured((CUstream)stream))
            return cannot_capture("start it once outside of a graph first");
        if (m && !make(m)) return STRIDEC_FAILED;
        l->fresh |= m && !m->started;
        if (!list_add(l, m ? m->n : 1, m ? m->request : &requests[i])) return STRIDEC_FAILED;
    }
    return STRIDEC_OK;
}

/* Lists the requests of a wait: collectives whose messages have not been started are the MPI's. */
static int list_waits(struct list *l, int n, const MPI_Request requests[])
{
    for (int i = 0; i < n; i++) {
        struct neighbor_messages *m = requests[i] == MPI_REQUEST_NULL ? NULL : neighbor_stream_started(requests[i]);
        if (!list_add(l, m ? m->n : 1, m ? m->request : &requests[i])) return STRIDEC_FAILED;
    }
    return STRIDEC_OK;
}

static void note_started(int n, const MPI_Request requests[])
{
    for (int i = 0; i < n; i++) {
        struct neighbor_messages *m = NULL;
        if (requests[i] != MPI_REQUEST_NULL && neighbor_stream_of(requests[i], &m) && m) m->started = true;
    }
}

/* ---- start ---- */

static bool listed(const struct order *o, const struct channel *c)
{
    for (int i = 0; i < o->n; i++)
        if (o->channel[i] == c) return true;
    return false;
}

/* Sorts the requests. Nothing has begun where it fails. */
static int sort_starts(struct order *o, int n, const MPI_Request requests[])
{
    for (int i = 0; i < n; i++) {
        struct channel *c = requests[i] == MPI_REQUEST_NULL ? NULL : channel_of(requests[i]);
        enum channel_state state = c ? channel_state(c) : CHANNEL_PLAIN;
        if (requests[i] == MPI_REQUEST_NULL) continue;
        if (c && !o->captured && channel_is_captured(c)) channel_drop_message(c);   /* the graph was thrown away */
        if (c && (channel_message(c) || channel_wild(c) || listed(o, c))) return STRIDEC_INVALID;
        if (!c) log_once(LOG_INFO, "stream order", "a request in stream order is left to the MPI: no message, or made "
                         "before CUDA's start, or by a rank without GPUs");
        if (o->captured && state == CHANNEL_NEW) return cannot_capture("start it once outside of a graph first");
        if (o->captured && state == CHANNEL_PLAIN)
            return cannot_capture(c ? channel_why(c) : "it is no message of the node");
        if (c) o->channel[o->n++] = c;
        else o->request[o->plain++] = requests[i];
        o->hosts |= state != CHANNEL_BOUND && state != CHANNEL_POSTED;
    }
    return STRIDEC_OK;
}

/* Returns true if the stream carries a message of the channel. */
static bool enqueues(const struct order *o, const struct channel *c)
{
    enum channel_state state = channel_state(c);
    return state == CHANNEL_BOUND || (state == CHANNEL_POSTED && !o->hosts && channel_message(c) != MESSAGE_STARTED);
}

/* Moves the channels that the stream carries to the front; all keep their order. Returns their number. */
static int enqueued_first(struct order *o, struct channel *later[])
{
    int many = 0, others = 0;
    for (int i = 0; i < o->n; i++) {
        struct channel *c = o->channel[i];
        if (enqueues(o, c)) o->channel[many++] = c;
        else later[others++] = c;
    }
    for (int i = 0; i < others; i++) o->channel[many + i] = later[i];
    return many;
}

/* Returns true if all requests are bound: else the host takes part, and the partner's host may wait for a message that
 * this start tells of. */
static bool all_bound(const struct order *o)
{
    bool all = !o->plain;
    for (int i = 0; i < o->n; i++) all &= channel_state(o->channel[i]) == CHANNEL_BOUND;
    return all;
}

/* Returns true if those of the first n channels that the stream carries are of one device, the stream's. A captured
 * stream is not asked. */
static bool one_device(const struct order *o, int n)
{
    struct device *d = NULL;
    for (int i = 0; i < n; i++) {
        const struct channel *c = o->channel[i];
        struct device *own = enqueues(o, c) ? channel_device(c) : NULL;
        if (own && d && own != d) return false;
        if (own) d = own;
    }
    return !d || o->captured || device_has_stream(d, o->stream);
}

/* Finds the memory of new channels. Those of another device than the stream's are left to the MPI: their partners, of a
 * collective say, can't know of it, and a refusal here would leave them waiting. */
static void locate_new(struct order *o, int enqueued)
{
    struct device *d = driver_get() ? device_of_stream(o->stream) : NULL;
    for (int i = enqueued; i < o->n; i++) {
        struct channel *c = o->channel[i];
        if (channel_state(c) != CHANNEL_NEW) continue;
        channel_locate(c);
        struct device *own = channel_device(c);
        if (own && d && own != d) channel_leave(c, "memory of another device than the stream's");
        else if (own) d = own;
    }
}

/* Starts plain messages by the MPI, those that may be. Returns false on failure. */
static bool start_plain(void)
{
    bool ok = true;
    for (struct channel *c; ok && (c = channels_next_plain());) {
        MPI_Request request = channel_request(c);
        ok = start_by_mpi(1, &request);
        channel_set_message(c, MESSAGE_STARTED);
    }
    return ok;
}

/* Begins what does not go by the stream, in the order of the call. */
static int begin_others(struct order *o, int enqueued)
{
    bool host = o->plain;
    for (int i = enqueued; i < o->n; i++) channel_begin(o->channel[i]);
    bool ok = start_plain() && start_by_mpi(o->plain, o->request);
    for (int i = enqueued; i < o->n; i++) host |= channel_is_hosts(o->channel[i]);
    return !ok ? STRIDEC_FAILED : host ? STRIDEC_HOST : STRIDEC_OK;
}

static int start(struct order *o, int n, const MPI_Request requests[])
{
    int result = sort_starts(o, n, requests);
    if (result != STRIDEC_OK) return result;
    struct channel **later = scratch_get(o->scratch, (size_t)n * sizeof *later);
    if (!later) return STRIDEC_FAILED;
    int enqueued = enqueued_first(o, later);
    if (!one_device(o, enqueued)) return STRIDEC_INVALID;
    if (o->n > enqueued) locate_new(o, enqueued);
    if (o->hosts && !synchronize(o)) return STRIDEC_FAILED;
    bool together = o->together && all_bound(o);
    if (channels_start(o->channel, enqueued, o->stream, o->captured, together)) return STRIDEC_FAILED;
    return begin_others(o, enqueued);
}

static int start_all(int n, MPI_Request requests[], stridec_stream stream, bool together)
{
    struct scratch scratch;
    struct order o;
    struct list l;
    if (n < 0 || (n && !requests)) return STRIDEC_INVALID;
    scratch_begin(&scratch);
    int result = list_begin(&l, &scratch, n) ? list_starts(&l, n, requests, stream) : STRIDEC_FAILED;
    if (result == STRIDEC_OK && !order_begin(&o, &scratch, l.n, stream)) result = STRIDEC_FAILED;
    o.together = together;
    if (result == STRIDEC_OK) result = start(&o, l.n, l.request);
    if (l.fresh && (result == STRIDEC_OK || result == STRIDEC_HOST)) note_started(n, requests);
    scratch_end(&scratch);
    return result;
}

int api_start_on(int n, MPI_Request requests[], stridec_stream stream)
{
    return start_all(n, requests, stream, false);
}

/* ---- wait ---- */

/* Lets channels bind, and the MPI carry on: partners may wait for messages that are found to be the MPI's. Returns
 * false on failure. */
static bool carry_on(const struct channel *c, unsigned turn)
{
    bool ok = channels_progress(c) && start_plain();
    comm_progress(MPI_COMM_WORLD);
    backoff(turn);
    return ok;
}

/* Waits until the channels are settled, and sorts the requests. */
static int sort_waits(struct order *o, int n, const MPI_Request requests[])
{
    for (int i = 0; i < n; i++) {
        struct channel *c = requests[i] == MPI_REQUEST_NULL ? NULL : channel_of(requests[i]);
        if (requests[i] == MPI_REQUEST_NULL || (c && (!channel_message(c) || listed(o, c)))) continue;
        bool later = c && enqueues(o, c) && channel_message(c) != MESSAGE_PENDING;
        if (o->captured && !(later && channel_is_captured(c)))
            return cannot_capture("it was started outside of the graph");
        if (o->captured && c && channel_is_elsewhere(c, o->stream))
            return cannot_capture("the wait for others has put its bytes on another stream");
        if (!o->captured && c && channel_is_captured(c)) return STRIDEC_INVALID;
        for (unsigned turn = 0; c && channel_unsettled(c); turn++)
            if (!carry_on(c, turn)) return STRIDEC_FAILED;
        if (c) o->channel[o->n++] = c;
        if (!c || channel_is_hosts(c)) o->of[o->plain] = c, o->request[o->plain++] = requests[i];
    }
    return STRIDEC_OK;
}

/* Tests the requests from number *done on, which is then the first that is not complete. */
static int test_all(struct order *o, int *done)
{
    int rc = MPI_SUCCESS;
    for (int there = 1; *done < o->plain && rc == MPI_SUCCESS && there; *done += there)
        rc = MPI_Test(&o->request[*done], &there, &o->status[*done]);
    return rc;
}

static bool wait_all(struct order *o)
{
    bool ok = true;
    int done = 0;
    for (unsigned turn = 0; done < o->plain && ok; turn++) {
        interpose_depth--;
        ok = test_all(o, &done) == MPI_SUCCESS;
        interpose_depth++;
        if (ok && done < o->plain) ok = carry_on(NULL, turn);
    }
    for (int i = 0; i < o->plain && ok; i++)
        if (o->of[i]) channel_post(o->of[i], mpi_bytes_received(&o->status[i]));
    return ok;
}

/* Returns the device of what the stream carries, or else the stream's. */
static struct device *order_device(const struct order *o)
{
    struct device *d = NULL;
    for (int i = 0; i < o->n && !d; i++)
        if (enqueues(o, o->channel[i])) d = channel_device(o->channel[i]);
    return d || o->captured || !driver_get() ? d : device_of_stream(o->stream);
}

/* Enqueues the rest of the messages that the stream carries. Receives of the node that were started on this stream are
 * moved, too: behind the wait for a send, the partner's would wait for them. The caller holds `waits`. */
static int enqueue_rest(struct order *o)
{
    int started, n = 0;
    struct channel **list = channels_started(o->scratch, order_device(o), o->stream, o->captured, o->n, &started);
    if (!list) return STRIDEC_FAILED;
    for (int i = 0; i < started; i++)
        if (!listed(o, list[i])) list[n++] = list[i];
    int others = n;
    for (int i = 0; i < o->n; i++)
        if (enqueues(o, o->channel[i])) list[n++] = o->channel[i];
    return channels_wait(list, n, others, o->stream) ? STRIDEC_FAILED : STRIDEC_OK;
}

/* No receive may be moved by two threads. */
static int wait_enqueued(struct order *o)
{
    static pthread_mutex_t waits = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&waits);
    int result = enqueue_rest(o);
    pthread_mutex_unlock(&waits);
    return result;
}

static int wait(struct order *o, int n, const MPI_Request requests[])
{
    int result = sort_waits(o, n, requests);
    if (result != STRIDEC_OK) return result;
    if (!one_device(o, o->n)) return STRIDEC_INVALID;
    bool ok = wait_enqueued(o) == STRIDEC_OK && wait_all(o);
    for (int i = 0; i < o->n; i++) channel_end_message(o->channel[i]);
    channels_progress(NULL);   /* slots of what has been bound */
    return !ok ? STRIDEC_FAILED : o->plain ? STRIDEC_HOST : STRIDEC_OK;
}

int api_wait_on(int n, MPI_Request requests[], stridec_stream stream)
{
    struct scratch scratch;
    struct order o;
    struct list l;
    if (n < 0 || (n && !requests)) return STRIDEC_INVALID;
    scratch_begin(&scratch);
    int result = list_begin(&l, &scratch, n) ? list_waits(&l, n, requests) : STRIDEC_FAILED;
    if (result == STRIDEC_OK && !order_begin(&o, &scratch, l.n, stream)) result = STRIDEC_FAILED;
    if (result == STRIDEC_OK) result = wait(&o, l.n, l.request);
    scratch_end(&scratch);
    return result;
}

/* ---- both ---- */

int api_exchange_on(int n, MPI_Request requests[], stridec_stream stream)
{
    int started = start_all(n, requests, stream, true);
    if (started != STRIDEC_OK && started != STRIDEC_HOST) return started;
    int waited = api_wait_on(n, requests, stream);
    return waited == STRIDEC_OK ? started : waited;
}
