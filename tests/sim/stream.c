/* stream.c: queues of work that run as late as CUDA allows.
 *
 * Work waits in its stream until somebody waits for it, so a program that forgets to wait reads stale
 * bytes every time. Order is kept by sequence numbers: an operation runs after all earlier ones of its
 * stream, one of the legacy stream after all earlier ones of the context's blocking streams, and theirs
 * after all earlier ones of the legacy stream. What an operation waits for is always earlier than itself, so
 * running the dependencies first, recursively, ends. */
#include "sim.h"
#include <stdlib.h>

static uint64_t last_seq;

bool stream_eager(void)
{
    static int answer = -1;
    if (answer < 0) answer = sim_number("SIMGPU_EAGER", 0) != 0;
    return answer;
}

struct CUstream_st *stream_new(struct CUctx_st *c, unsigned flags)
{
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->context = c;
    s->flags = flags;
    s->refs = 1;
    s->tail = &s->head;
    s->next = c->streams;
    c->streams = s;
    return s;
}

void stream_unref(struct CUstream_st *s)
{
    if (!--s->refs) free(s);
}

/* Of contexts that are gone: kept, so that they are told from others. */
static struct CUstream_st *gone;

static void not_gone(CUstream handle)
{
    for (struct CUstream_st *s = gone; s; s = s->next)
        if (s == handle) context_misused("stream");
}

void streams_close(struct CUctx_st *c)
{
    struct CUstream_st *s;
    while ((s = c->streams)) {
        c->streams = s->next;
        s->dead = true;
        s->next = gone;
        gone = s;
    }
}

struct CUstream_st *stream_find(CUstream handle, CUcontext ctx)
{
    if (!handle || handle == CU_STREAM_LEGACY) return ctx->legacy;
    if (handle == CU_STREAM_PER_THREAD) return ctx->per_thread;
    for (struct CUctx_st *c = contexts; c; c = c->next)
        for (struct CUstream_st *s = c->streams; s; s = s->next)
            if (s == handle && s != c->legacy && s != c->per_thread) return s;
    not_gone(handle);
    return NULL;
}

/* Runs what the implicit order of the legacy stream puts before operation seq of s. */
static void run_before(struct CUstream_st *s, uint64_t seq)
{
    struct CUctx_st *c = s->context;
    if (s->flags & CU_STREAM_NON_BLOCKING) return;
    if (s != c->legacy) {
        stream_run(c->legacy, seq - 1);
        return;
    }
    for (struct CUstream_st *other = c->streams; other; other = other->next)
        if (other != s && !(other->flags & CU_STREAM_NON_BLOCKING)) stream_run(other, seq - 1);
}

CUresult stream_run(struct CUstream_st *s, uint64_t upto)
{
    struct CUctx_st *c = s->context;
    while (s->head && s->head->seq <= upto) {
        struct op *o = s->head;
        run_before(s, o->seq);
        CUresult r = c->failed ? CUDA_SUCCESS : o->run(o);
        if (r) contexts_fail(r);
        s->head = o->next;
        if (!s->head) s->tail = &s->head;
        if (o->drop) o->drop(o);
        free(o);
    }
    return c->failed;
}

CUresult context_run(struct CUctx_st *c)
{
    for (struct CUstream_st *s = c->streams; s; s = s->next) stream_run(s, SIM_ALL);
    return c->failed;
}

void device_run(int device)
{
    for (struct CUctx_st *c = contexts; c; c = c->next)
        if (c->device == device) context_run(c);
}

uint64_t stream_add(struct CUstream_st *s, struct op *o)
{
    o->seq = ++last_seq;
    o->context = s->context;
    o->next = NULL;
    *s->tail = o;
    s->tail = &o->next;
    uint64_t seq = o->seq;
    if (stream_eager()) stream_run(s, seq);
    return seq;
}

static CUresult create(CUcontext ctx, CUstream *out, unsigned int flags)
{
    if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    *out = stream_new(ctx, flags);
    if (!*out) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_counts.stream_creates++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned int flags)
{
    ENTER();
    return create(ctx, out, flags);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    ENTER();
    (void)priority;
    return create(ctx, out, flags);
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER();
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream)
{
    not_gone(stream);
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s || s == s->context->legacy || s == s->context->per_thread) return CUDA_ERROR_INVALID_HANDLE;
    stream_run(s, SIM_ALL);
    struct CUstream_st **link = &s->context->streams;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    s->dead = true;
    stream_unref(s);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    sim_counts.syncs++;
    if (s == s->context->legacy) {
        CUresult r = capture_legacy();
        if (r) return r;
        for (struct CUstream_st *at = s->context->streams; at; at = at->next)
            if (!(at->flags & CU_STREAM_NON_BLOCKING)) stream_run(at, SIM_ALL);
    }
    return stream_run(s, SIM_ALL);
}

/* The first question finds the work unfinished, and starts it. */
CUresult CUDAAPI cuStreamQuery(CUstream stream)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    bool pending = s->head != NULL;
    CUresult r = stream_run(s, SIM_ALL);
    return r ? r : pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = s->context;
    return CUDA_SUCCESS;
}
