/* event.c: events, and the waits that carry order from one stream to another.
 *
 * An event that processes share is a counter of its records, in a file of the process that made it. Only the process that
 * records it can run the work before, so that work runs at once. The first question after a record finds it unfinished. */
#include "sim.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SHARED_BYTES ((size_t)1 << 20)   /* of counters: no place is used twice */

struct CUevent_st {
    struct CUctx_st *context;
    unsigned flags;
    int refs;                     /* the handle, and each pending record */
    struct CUstream_st *stream;   /* of the last record */
    uint64_t recorded, done;      /* sequence numbers of the last record enqueued and run; 0: none */
    struct timespec time;
    _Atomic uint64_t *records;    /* shared with other processes, or NULL */
    uint64_t seen;                /* records that somebody here has asked about */
    uint64_t at;                  /* where the counter lies in the file */
    bool imported;
    struct CUevent_st *next;
};
static struct CUevent_st *events;

struct event_op {
    struct op op;
    struct CUevent_st *event;     /* record */
    struct CUstream_st *stream;   /* wait: for this stream to have run until `until` */
    uint64_t until;
};

static struct CUevent_st *event_find(CUevent handle)
{
    struct CUevent_st *e = events;
    while (e && e != handle) e = e->next;
    return e;
}

static bool event_failed(const struct CUevent_st *e)
{
    return context_live(e->context) && e->context->failed;
}

static void event_unref(struct CUevent_st *e)
{
    if (--e->refs) return;
    if (e->stream) stream_unref(e->stream);
    if (e->imported) munmap((void *)e->records, SHARED_BYTES);
    free(e);
}

static struct CUevent_st *event_new(CUcontext ctx, unsigned flags)
{
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    *e = (struct CUevent_st){.context = ctx, .flags = flags, .refs = 1, .next = events};
    return events = e;
}

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned int flags)
{
    ENTER();
    bool untimed = !(flags & CU_EVENT_INTERPROCESS) || flags & CU_EVENT_DISABLE_TIMING;
    if (!out || flags > 7 || !untimed) return CUDA_ERROR_INVALID_VALUE;
    *out = event_new(ctx, flags);
    if (!*out) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_counts.event_creates++;
    return CUDA_SUCCESS;
}

static void *counters_map(int fd)
{
    void *p = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Gives e its counter, behind which nothing waits any more. */
static CUresult event_share(struct CUevent_st *e, int fd, _Atomic uint64_t *counters, uint64_t at)
{
    if (fd < 0 || !counters || at >= SHARED_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = e->stream && !e->stream->dead ? stream_run(e->stream, e->recorded) : CUDA_SUCCESS;
    if (!r) e->records = counters + at / sizeof *counters, e->at = at;
    return r;
}

CUresult event_export(CUevent event, int *fd, uint64_t *at)
{
    static int file = -1;
    static _Atomic uint64_t *counters;
    static uint64_t used;
    struct CUevent_st *e = event_find(event);
    if (!e || e->imported || !(e->flags & CU_EVENT_INTERPROCESS)) return CUDA_ERROR_INVALID_HANDLE;
    if (file < 0 && (file = memfd_create("simulated GPU's events", MFD_CLOEXEC)) >= 0 && !ftruncate(file, SHARED_BYTES))
        counters = counters_map(file);
    CUresult r = e->records ? CUDA_SUCCESS : event_share(e, file, counters, used);
    if (!r && e->at == used) used += sizeof *counters;
    *fd = file, *at = e->at;
    return r;
}

CUresult event_import(CUcontext ctx, int fd, uint64_t at, CUevent *out)
{
    _Atomic uint64_t *counters = at < SHARED_BYTES ? counters_map(fd) : NULL;
    struct CUevent_st *e = counters ? event_new(ctx, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) : NULL;
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    e->records = counters + at / sizeof *counters, e->imported = true;
    *out = e;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event)
{
    ENTER_ANY();
    struct CUevent_st *e = event_find(event), **link = &events;
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (event_failed(e)) return e->context->failed;
    while (*link != e) link = &(*link)->next;
    *link = e->next;
    event_unref(e);
    return CUDA_SUCCESS;
}

static CUresult run_record(struct op *o)
{
    struct CUevent_st *e = ((struct event_op *)o)->event;
    if (o->seq > e->done) e->done = o->seq;
    clock_gettime(CLOCK_MONOTONIC, &e->time);
    return CUDA_SUCCESS;
}

static void drop_record(struct op *o)
{
    event_unref(((struct event_op *)o)->event);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream)
{
    ENTER();
    struct CUevent_st *e = event_find(event);
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!e || !s || e->context != s->context) return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = capture_excludes(s);
    if (r) return r;
    struct event_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = run_record;
    o->op.drop = drop_record;
    o->event = e;
    e->refs++;
    s->refs++;
    if (e->stream) stream_unref(e->stream);
    e->stream = s;
    e->recorded = SIM_ALL;
    uint64_t seq = stream_add(s, &o->op);
    e->recorded = seq;
    if (!e->records) return CUDA_SUCCESS;
    stream_run(s, seq);
    atomic_fetch_add(e->records, 1);
    return CUDA_SUCCESS;
}

static bool event_pending(const struct CUevent_st *e)
{
    return e->done < e->recorded && e->stream && !e->stream->dead;
}

static CUresult run_wait(struct op *o)
{
    struct event_op *w = (struct event_op *)o;
    if (w->stream->dead) return CUDA_SUCCESS;
    return stream_try(w->stream, w->until) ? w->stream->context->failed : CUDA_ERROR_NOT_READY;
}

static void drop_wait(struct op *o)
{
    stream_unref(((struct event_op *)o)->stream);
}

CUresult stream_await(struct CUstream_st *s, struct CUstream_st *other, uint64_t upto)
{
    struct event_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = run_wait;
    o->op.drop = drop_wait;
    o->stream = other;
    o->until = upto;
    other->refs++;
    stream_add(s, &o->op);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    ENTER();
    struct CUevent_st *e = event_find(event);
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!e || !s) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = capture_excludes(s);
    if (r) return r;
    return event_pending(e) ? stream_await(s, e->stream, e->recorded) : CUDA_SUCCESS;
}

static CUresult shared_query(struct CUevent_st *e)
{
    uint64_t before = e->seen;
    e->seen = atomic_load(e->records);
    return e->seen == before || stream_eager() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
    ENTER_ANY();
    struct CUevent_st *e = event_find(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (event_failed(e)) return e->context->failed;
    if (e->records) return shared_query(e);
    if (!event_pending(e)) return CUDA_SUCCESS;
    stream_start(e->stream, e->recorded);
    CUresult r = e->stream->context->failed;
    return r ? r : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
    ENTER_ANY();
    struct CUevent_st *e = event_find(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (event_failed(e)) return e->context->failed;
    sim_counts.syncs++;
    if (e->records) return e->seen = atomic_load(e->records), CUDA_SUCCESS;
    return event_pending(e) ? stream_run(e->stream, e->recorded) : CUDA_SUCCESS;
}

static CUresult elapsed(const char *call, float *ms, CUevent start, CUevent end)
{
    __attribute__((cleanup(sim_leave))) const CUresult entered = sim_enter(call);
    if (entered) return entered;
    struct CUevent_st *a = event_find(start), *b = event_find(end);
    if (!ms) return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || !a->recorded || !b->recorded || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event_pending(a) || event_pending(b)) return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(b->time.tv_sec - a->time.tv_sec) * 1e3 +
                  (double)(b->time.tv_nsec - a->time.tv_nsec) * 1e-6);
    return CUDA_SUCCESS;
}

/* CUDA 12.8 gave the call a second version; both are there, whichever headers this is built with. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent start, CUevent end);
CUresult CUDAAPI cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end);

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return elapsed(__func__, ms, start, end);
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    return elapsed(__func__, ms, start, end);
}
