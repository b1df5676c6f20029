/* pipeline_send.c: the sender's side of messages that go in chunks. */
#include "pipeline_send.h"
#include "base/error.h"
#include "base/activity.h"
#include "base/env.h"
#include "base/log.h"
#include "pack/select.h"
#include "pack/typed_buffer.h"
#include "pipeline.h"
#include "placement.h"
#include "persistent_send.h"
#include "protocol.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_NS 1000000   /* longest wait of a blocking send for the next chunk to be sent */
#define UNDER_WAY_MOST ((int64_t)1 << 30)   /* most bytes of all unfinished messages */

struct pipeline_send {
    struct rts rts;
    struct typed_buffer *tbuf;   /* its bounce buffer holds the chunks */
    int dest;                /* in the pipeline's communicator */
    int posted, sent;        /* chunks */
    struct stream *ahead;    /* packs the first chunk; then used by pipeline_send_feed */
    MPI_Request *request;    /* of each chunk */
    atomic_int holders;
    struct pipeline_send *next;
};

static struct pipeline_send *left;   /* sends that ended before the MPI had sent their chunks */
static _Atomic int64_t under_way;
static atomic_int left_count;
static atomic_uint tags;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void let_go(struct typed_buffer **p)
{
    if (*p) atomic_fetch_sub(&under_way, (*p)->bytes);
    typed_buffer_close(*p);
    *p = NULL;
}

/* Waits for the first chunk's kernel; the caller has entered the device. */
static void catch_up(struct pipeline_send *o)
{
    stream_wait(o->tbuf->device, o->ahead);
    stream_put(o->tbuf->device, o->ahead);
    o->ahead = NULL;
}

/* Starts to pack the first chunk while the RTS is sent. If that fails, pipeline_send_feed packs it. */
static void go_ahead(struct pipeline_send *o)
{
    struct typed_buffer *p = o->tbuf;
    if (device_enter(p->device)) return;
    o->ahead = stream_get(p->device);
    if (o->ahead && p->transport->move(p, o->ahead, KERNEL_PACK, 0, pipeline_end(&o->rts, 0))) catch_up(o);
    device_leave(p->device);
}

void pipeline_send_put(struct pipeline_send *o)
{
    if (!o || atomic_fetch_sub(&o->holders, 1) > 1) return;
    if (o->ahead) {
        struct device *d = o->tbuf->device;
        if (device_enter(d)) return;   /* leaks the memory: the kernel may still write it */
        catch_up(o);
        device_leave(d);
    }
    let_go(&o->tbuf);
    free(o->request);
    free(o);
}

struct pipeline_send *pipeline_send_hold(struct pipeline_send *o)
{
    atomic_fetch_add(&o->holders, 1);
    return o;
}

void pipeline_send_withdraw(struct pipeline_send *o)
{
    pipeline_send_put(o);
}

const struct rts *pipeline_send_rts(const struct pipeline_send *o)
{
    return &o->rts;
}

/* Returns a new send that owns p, or NULL without memory: then the caller still owns p. */
static struct pipeline_send *pipeline_send_new(const struct pipeline *l, struct typed_buffer *p, int dest)
{
    struct pipeline_send *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    pipeline_name(&o->rts, atomic_fetch_add(&tags, 1) % (unsigned)l->tags, p->bytes, l->settings.chunk);
    o->request = malloc((size_t)pipeline_chunks(&o->rts) * sizeof *o->request);
    o->dest = dest;
    atomic_init(&o->holders, 1);
    if (o->request) {
        o->tbuf = p;
        atomic_fetch_add(&under_way, p->bytes);
        return o;
    }
    pipeline_send_put(o);
    return NULL;
}

static bool fits(const struct pipeline *l, const struct message *m)
{
    if (!m->layout->tree || m->where.parts) return false;
    return m->bytes > RNDV_MIN && m->bytes >= l->settings.least && m->bytes <= UNDER_WAY_MOST;
}

int pipeline_send_way(const struct message *m)
{
    bool may = m->reuse >= REUSE_BLOCKING && !m->synchronous && env_get()->ways.chunks;
    const struct pipeline *l = may ? pipeline_get() : NULL;
    int to = l ? pipeline_peer(m->comm, m->peer) : -1;
    return to >= 0 && to != l->rank && fits(l, m) ? to : -1;
}

/* Returns true if `bytes` more would exceed UNDER_WAY_MOST. */
static bool too_much(int64_t bytes)
{
    pipeline_send_poll();
    int64_t others = atomic_load(&under_way);
    return others && others > UNDER_WAY_MOST - bytes;
}

/* Returns a send in chunks that owns p; or frees p and returns NULL if it can't be cut, or without memory. */
static struct pipeline_send *cut(struct typed_buffer *p, int to)
{
    struct pipeline_send *o = p->transport->joins ? pipeline_send_new(pipeline_get(), p, to) : NULL;
    if (!o) return typed_buffer_close(p), NULL;
    log_write(LOG_INFO, "%lld bytes of %.120s: %s in %d chunks of %lld bytes", (long long)p->bytes,
              p->layout->signature, p->transport->name, pipeline_chunks(&o->rts),
              (long long)o->rts.chunk);
    return o;
}

struct pipeline_send *pipeline_send_to(int way, struct layout *y, struct location w, const void *buf, int64_t count)
{
    struct typed_buffer *p = NULL;
    pipeline_send_poll();
    struct message m = {buf, count, MPI_DATATYPE_NULL, way, MPI_COMM_WORLD, .reuse = REUSE_LATER};
    message_set(&m, y, w);
    return placement_open(&p, &m) == MPI_SUCCESS ? cut(p, way) : NULL;
}

/* ---- packing and sending ---- */

/* Sends one chunk. A chunk of 0 bytes tells the receiver that the sender failed. Returns 0 or -1. */
static int post(struct pipeline_send *o, int64_t at, int64_t bytes)
{
    int rc = PMPI_Isend((char *)o->tbuf->address + at, (int)bytes, MPI_BYTE, o->dest, (int)o->rts.slot,
                        pipeline_get()->comm, &o->request[o->posted]);
    if (rc == MPI_SUCCESS) o->posted++;
    return rc == MPI_SUCCESS ? 0 : -1;
}

/* Packs and sends chunk by chunk, `depth` at a time. Packing of chunks before `first` has begun. Returns 0 or -1. */
static int feed(struct pipeline_send *o, struct stream *s[], int depth, int first)
{
    struct typed_buffer *p = o->tbuf;
    const struct rts *d = &o->rts;
    int n = pipeline_chunks(d), rc = 0;
    for (int i = first; i < n + depth && rc == 0; i++) {
        int done = i - depth;
        if (done >= 0 && done < n) {
            int64_t at = done * d->chunk;
            rc = stream_wait(p->device, s[done % depth]);
            if (rc == 0) rc = post(o, at, pipeline_end(d, done) - at);
        }
        if (i < n && rc == 0)
            rc = p->transport->move(p, s[i % depth], KERNEL_PACK, i * d->chunk, pipeline_end(d, i));
    }
    return rc;
}

int pipeline_send_feed(struct pipeline_send *o)
{
    struct device *d = o->tbuf->device;
    struct stream *s[CHUNK_DEPTH_MAX];
    int64_t begun = typed_buffer_clock();
    int depth = (int)pipeline_get()->settings.depth, n = 0, rc = -1;
    if (!device_enter(d)) {
        int first = o->ahead != NULL;
        if (first) s[n++] = o->ahead, o->ahead = NULL;
        while (n < depth && (s[n] = stream_get(d))) n++;
        if (n) rc = feed(o, s, n, first);
        for (int i = 0; i < n; i++) {
            if (rc) stream_wait(d, s[i]);
            stream_put(d, s[i]);
        }
        device_leave(d);
    }
    typed_buffer_stats(o->tbuf, "pipelined", o->tbuf->bytes, begun);
    if (rc == 0) return 0;
    log_write(LOG_ERROR, "a message can't be packed");
    post(o, 0, 0);
    return -1;
}

/* ---- completion ---- */

/* Tests the chunks in order. Returns true once all posted chunks are sent. */
static bool advance(struct pipeline_send *o)
{
    for (int done = 1; o->sent < o->posted; o->sent++)
        if (PMPI_Test(&o->request[o->sent], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) return false;
    return true;
}

void pipeline_send_leave(struct pipeline_send *o)
{
    if (advance(o)) {
        pipeline_send_put(o);
        return;
    }
    pthread_mutex_lock(&lock);
    o->next = left;
    left = o;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&left_count, 1);
    atomic_fetch_add(&request_freed, 1);
}

void pipeline_send_end(struct pipeline_send *o)
{
    int64_t since = stats_now();
    for (int sent = o->sent; !advance(o) && stats_now() - since < PATIENCE_NS; sent = o->sent)
        if (sent != o->sent) since = stats_now();
    pipeline_send_leave(o);
}

/* Takes the completed sends out of the list `left` and returns them. */
static struct pipeline_send *harvest(void)
{
    struct pipeline_send *done = NULL, **at = &left;
    pthread_mutex_lock(&lock);
    while (*at) {
        struct pipeline_send *o = *at;
        if (!advance(o)) {
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

void pipeline_send_poll(void)
{
    if (!pipeline_send_any()) return;
    for (struct pipeline_send *o = harvest(), *next; o; o = next) {
        next = o->next;
        atomic_fetch_sub(&left_count, 1);
        atomic_fetch_sub(&request_freed, 1);
        pipeline_send_put(o);
    }
}

bool pipeline_send_any(void)
{
    return atomic_load_explicit(&left_count, memory_order_acquire) != 0;
}

/* ---- the row ---- */

static bool probe(const struct message *m)
{
    return pipeline_send_way(m) >= 0;
}

static bool start(struct send_op *op, const struct message *m, int *rc)
{
    int to = pipeline_send_way(m);
    struct typed_buffer *p = NULL;
    if (to < 0 || too_much(m->bytes)) return false;
    *rc = placement_open(&p, m);
    op->pipelined = p && *rc == MPI_SUCCESS ? cut(p, to) : NULL;
    if (!op->pipelined) return false;
    go_ahead(op->pipelined);
    op->address = pipeline_send_rts(op->pipelined);
    op->as = (struct wire){RTS_BYTES, MPI_BYTE};
    return true;
}

static int complete(struct send_op *op, MPI_Comm comm)
{
    int rc = MPI_SUCCESS;
    if (pipeline_send_feed(op->pipelined)) rc = raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed");
    pipeline_send_end(op->pipelined);
    return rc;
}

static void abort_send(struct send_op *op)
{
    pipeline_send_withdraw(op->pipelined);
}

static const char *explain(const struct message *m, char why[TUNE_WHY_MAX])
{
    (void)m;
    snprintf(why, TUNE_WHY_MAX, "long, to a rank whose memory can't be read from here; all ranks run stridec");
    return "pipelined";
}

const struct protocol protocol_pipelined = {"pipelined", probe, start, complete, abort_send,
                                            persistent_send_plan_pipelined, explain};
