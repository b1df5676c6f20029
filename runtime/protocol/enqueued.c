/* enqueued.c: packs for, and unpacks after, what the MPI does in a stream's order. */
#include "enqueued.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "device/device_internal.h"
#include "pack/typed_buffer.h"
#include <pthread.h>
#include <stdlib.h>

struct mpi_stream {
    CUstream handle;
    atomic_int refs;
};

struct enqueued {
    struct mpi_stream *stream;   /* referenced */
    struct layout *layout;       /* referenced: the type may be freed, and a kernel reads its lists */
    struct device *device;
    struct channel_call call;
    int64_t bytes;
    struct pool_buffer *packed;  /* pinned */
    CUevent event;               /* behind all of it, once it has ended */
    MPI_Request request;         /* the key */
    UT_hash_handle hh;
    struct enqueued *next;       /* in `ended` */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* never held together with calls of the driver */
static struct enqueued *table;            /* nonblocking messages that are not waited for */
static struct enqueued *ended, **last = &ended;   /* in their order: streams may not have come to them */

/* ---- streams ---- */

struct mpi_stream *mpi_stream_new(CUstream handle)
{
    struct mpi_stream *s = calloc(1, sizeof *s);
    if (s) s->handle = handle, atomic_store(&s->refs, 1);
    return s;
}

void mpi_stream_ref(struct mpi_stream *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void mpi_stream_unref(struct mpi_stream *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) free(s);
}

/* ---- the end of messages ---- */

static void release(struct enqueued *e)
{
    mempool_put(e->packed);
    layout_unref(e->layout);
    mpi_stream_unref(e->stream);
    free(e);
}

/* Frees a message if its stream, which may be gone, has come past it, or its context is gone. */
static bool passed(struct enqueued *e)
{
    if (device_try_enter(e->device)) {
        bool done = event_passed(e->event);
        if (done) event_free(e->event);
        device_leave(e->device);
        if (!done) return false;
    } else if (device_alive(e->device)) {
        return false;
    }
    release(e);
    return true;
}

/* Frees the ended messages that streams have come past. A stream comes to its own in their order. */
static void free_passed(void)
{
    struct enqueued *list, **at = &list;
    const struct mpi_stream *behind = NULL;
    pthread_mutex_lock(&lock);
    list = ended, ended = NULL, last = &ended;
    pthread_mutex_unlock(&lock);
    for (struct enqueued *e, *next; (e = *at);) {
        next = e->next;
        if (e->stream != behind && passed(e)) *at = next;
        else behind = e->stream, at = &e->next;
    }
    if (!list) return;
    pthread_mutex_lock(&lock);
    if (!(*at = ended)) last = at;
    ended = list;
    pthread_mutex_unlock(&lock);
}

/* A captured stream's graph may use the message as long as it lives: it stays for good. */
void enqueued_drop(struct enqueued *e)
{
    if (stream_is_captured(e->stream->handle) || device_enter(e->device)) return;
    bool noted = event_record(&e->event, e->stream->handle);
    device_leave(e->device);
    if (!noted) return;
    pthread_mutex_lock(&lock);
    *last = e, last = &e->next;
    pthread_mutex_unlock(&lock);
}

void enqueued_finish(void)
{
    struct enqueued *e, *next;
    free_passed();
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, table, e, next) HASH_DEL(table, e);
    pthread_mutex_unlock(&lock);
}

/* ---- messages ---- */

/* Returns the layout of a buffer with gaps that lies on the stream's device alone, and sets *d; else NULL. */
static struct layout *layout_on(const struct mpi_stream *s, const struct channel_call *call, struct device **d)
{
    struct location w;
    struct layout *l = typed_buffer_find(call->buf, call->count, call->type, call->comm, &w);
    if (!l || !l->tree || layout_contiguous(l, call->count)) return NULL;
    if (w.parts || device_of_stream(s->handle) != w.device) return NULL;
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
    if (!(e->packed = mempool_get(d, BUFFER_PINNED, (size_t)e->bytes))) return free(e), NULL;
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
    free_passed();
    struct enqueued *e = new_message(s, l, d, call);
    if (!e || !move(e, KERNEL_PACK)) return e;
    enqueued_drop(e);
    *rc = raise_error(call->comm, MPI_ERR_OTHER, "packing on the GPU failed");
    return NULL;
}

void *enqueued_packed(const struct enqueued *e, int64_t *bytes)
{
    *bytes = e->bytes;
    return e->packed->host;
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
    enqueued_keep_on(e);
}

void enqueued_keep_on(struct enqueued *e)
{
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
