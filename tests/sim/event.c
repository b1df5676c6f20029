/* event.c: events, and the waits that carry order from one stream to another. */
#include "sim.h"
#include <stdlib.h>
#include <time.h>

struct CUevent_st {
    struct CUctx_st *context;
    unsigned flags;
    int refs;                     /* the handle, and each pending record */
    struct CUstream_st *stream;   /* of the last record */
    uint64_t recorded, done;      /* sequence numbers of the last record enqueued and run; 0: none */
    struct timespec time;
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

static void event_unref(struct CUevent_st *e)
{
    if (--e->refs) return;
    if (e->stream) stream_unref(e->stream);
    free(e);
}

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned int flags)
{
    ENTER();
    if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
    *e = (struct CUevent_st){.context = ctx, .flags = flags, .refs = 1, .next = events};
    events = *out = e;
    sim_counts.event_creates++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event)
{
    ENTER_ANY();
    struct CUevent_st *e = event_find(event), **link = &events;
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
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
    return CUDA_SUCCESS;
}

static bool event_pending(const struct CUevent_st *e)
{
    return e->done < e->recorded && e->stream && !e->stream->dead;
}

static CUresult run_wait(struct op *o)
{
    struct event_op *w = (struct event_op *)o;
    return w->stream->dead ? CUDA_SUCCESS : stream_run(w->stream, w->until);
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
    return event_pending(e) ? stream_await(s, e->stream, e->recorded) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
    ENTER_ANY();
    struct CUevent_st *e = event_find(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (!event_pending(e)) return CUDA_SUCCESS;
    CUresult r = stream_run(e->stream, e->recorded);
    return r ? r : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
    ENTER_ANY();
    struct CUevent_st *e = event_find(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    sim_counts.syncs++;
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
