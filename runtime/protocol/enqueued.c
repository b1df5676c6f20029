/* enqueued.c: packs for, and unpacks after, what the MPI does in a stream's order. */
#include "enqueued.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "observe/stats.h"
#include "pack/typed_buffer.h"
#include <pthread.h>
#include <stdlib.h>

struct mpi_stream {
    CUstream handle;
    int refs;
    struct pool_buffer *spare;   /* pinned: what the stream's later work may use */
    CUevent last;                /* behind the last message's work; NULL: there was none */
    struct mpi_stream *next;     /* in `retired` */
};

struct enqueued {
    struct mpi_stream *stream;   /* referenced */
    struct layout *layout;       /* referenced: the type may be freed before a receive is waited for */
    struct device *device;
    struct channel_call call;
    int64_t bytes;
    struct pool_buffer *packed;
    MPI_Request request;         /* the key */
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* guards the rest, and streams' references and memory */
static struct mpi_stream *retired;   /* without references; their work may be under way */
static struct enqueued *table;       /* nonblocking messages */

/* ---- streams ---- */

struct mpi_stream *mpi_stream_new(CUstream handle)
{
    struct mpi_stream *s = calloc(1, sizeof *s);
    if (s) s->handle = handle, s->refs = 1;
    return s;
}

void mpi_stream_ref(struct mpi_stream *s)
{
    pthread_mutex_lock(&lock);
    s->refs++;
    pthread_mutex_unlock(&lock);
}

static void end(struct mpi_stream *s)
{
    for (struct pool_buffer *b; (b = s->spare);) {
        s->spare = b->next, b->next = NULL;
        mempool_put(b);
    }
    event_free(s->last);
    free(s);
}

/* Ends the retired streams whose work is done. Called under the lock. */
static void end_retired(void)
{
    for (struct mpi_stream **at = &retired, *s; (s = *at);)
        if (event_passed(s->last)) *at = s->next, end(s);
        else at = &s->next;
}

void mpi_stream_unref(struct mpi_stream *s)
{
    if (!s) return;
    pthread_mutex_lock(&lock);
    if (!--s->refs) s->next = retired, retired = s;
    end_retired();
    pthread_mutex_unlock(&lock);
}

void mpi_streams_finish(void)
{
    pthread_mutex_lock(&lock);
    end_retired();
    pthread_mutex_unlock(&lock);
}

/* ---- their memory ---- */

/* Returns pinned memory of the stream's: the shortest that is long enough, and not twice as long. */
static struct pool_buffer *memory_get(struct mpi_stream *s, struct device *d, int64_t bytes)
{
    struct pool_buffer **best = NULL, *b;
    pthread_mutex_lock(&lock);
    for (struct pool_buffer **at = &s->spare; (b = *at); at = &b->next)
        if (b->bytes >= (size_t)bytes && (!best || b->bytes < (*best)->bytes)) best = at;
    b = best && ((*best)->bytes / 2 < (size_t)bytes || (*best)->bytes <= 4096) ? *best : NULL;
    if (b) *best = b->next, b->next = NULL;
    pthread_mutex_unlock(&lock);
    return b ? b : mempool_get(d, BUFFER_PINNED, (size_t)bytes);
}

/* Gives memory back to the stream, whose work so far may still use it. */
static void memory_put(struct mpi_stream *s, struct device *d, struct pool_buffer *b)
{
    bool entered = !device_enter(d);
    pthread_mutex_lock(&lock);
    if (entered) event_record(&s->last, s->handle);
    b->next = s->spare, s->spare = b;
    pthread_mutex_unlock(&lock);
    if (entered) device_leave(d);
}

/* ---- messages ---- */

/* Returns the layout of a buffer that lies on the stream's device alone, and sets *d; else NULL. */
static struct layout *layout_on(const struct mpi_stream *s, const struct channel_call *call, struct device **d)
{
    struct location w;
    struct layout *l = typed_buffer_find(call->buf, call->count, call->type, call->comm, &w);
    if (!l || !l->tree || w.parts || device_of_stream(s->handle) != w.device) return NULL;
    *d = w.device;
    return l;
}

static int move(const struct enqueued *e, enum kernel_direction direction)
{
    struct stream s = stream_foreign(e->stream->handle);
    struct typed_buffer t = typed_buffer_on(e->layout, e->device, e->call.buf, e->call.count);
    if (device_enter(e->device)) return -1;
    int result = typed_buffer_move(&t, &s, direction, e->packed->address, e->bytes);
    device_leave(e->device);
    bool counts = e->call.sends == (direction == KERNEL_PACK);
    if (!result && counts) typed_buffer_stats(&t, "stream", e->bytes, 0);
    return result;
}

static struct enqueued *new_message(struct mpi_stream *s, struct layout *l, struct device *d,
                                    const struct channel_call *call)
{
    struct enqueued *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->bytes = layout_bytes(l, call->count);
    if (!(e->packed = memory_get(s, d, e->bytes))) return free(e), NULL;
    mpi_stream_ref(s);
    e->stream = s, e->layout = layout_ref(l), e->device = d, e->call = *call;
    return e;
}

struct enqueued *enqueued_begin(struct mpi_stream *s, const struct channel_call *call, int64_t most, int *rc)
{
    struct device *d;
    struct layout *l = call->peer == MPI_PROC_NULL ? NULL : layout_on(s, call, &d);
    *rc = MPI_SUCCESS;
    if (!l || layout_bytes(l, call->count) > most || stream_is_captured(s->handle)) return NULL;
    if ((*rc = layout_committed(l, call->type, call->comm)) != MPI_SUCCESS) return NULL;
    struct enqueued *e = new_message(s, l, d, call);
    if (e && move(e, KERNEL_PACK)) {
        enqueued_drop(e);
        *rc = raise_error(call->comm, MPI_ERR_OTHER, "packing on the GPU failed");
        return NULL;
    }
    if (e && call->sends) stats_add_sent(call->comm, call->peer, e->bytes);
    return e;
}

void *enqueued_packed(const struct enqueued *e, int64_t *bytes)
{
    *bytes = e->bytes;
    return e->packed->host;
}

void enqueued_drop(struct enqueued *e)
{
    memory_put(e->stream, e->device, e->packed);
    mpi_stream_unref(e->stream);
    layout_unref(e->layout);
    free(e);
}

int enqueued_end(struct enqueued *e)
{
    int result = e->call.sends ? 0 : move(e, KERNEL_UNPACK);
    enqueued_drop(e);
    return result;
}

void enqueued_keep(struct enqueued *e, MPI_Request request)
{
    e->request = request;
    pthread_mutex_lock(&lock);
    HASH_ADD(hh, table, request, sizeof e->request, e);
    pthread_mutex_unlock(&lock);
}

struct enqueued *enqueued_take(MPI_Request request)
{
    struct enqueued *e;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, &request, sizeof request, e);
    if (e) HASH_DEL(table, e);
    pthread_mutex_unlock(&lock);
    return e;
}
