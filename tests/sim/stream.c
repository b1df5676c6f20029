/* stream.c: queues of work that run as late as CUDA allows.
 *
 * Work waits in its stream until somebody waits for it, so a program that forgets to wait reads stale
 * bytes every time. Order is kept by sequence numbers: an operation runs after all earlier ones of its
 * stream, one of the legacy stream after all earlier ones of the context's blocking streams, and theirs
 * after all earlier ones of the legacy stream. What an operation waits for is always earlier than itself, so
 * running the dependencies first, recursively, ends.
 *
 * Values in memory (memop.c) are no such order: they come from any stream, from the host, or from another process. An
 * operation whose value has not come stays at the head of its stream, and nothing of that stream is under way while the
 * lock is given back: whoever takes it may go on with the same stream. Meanwhile all other streams run, as on a device:
 * any of their operations may be what writes the value. */
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
        capture_forget(s);
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

/* Runs what the implicit order of the legacy stream puts before operation seq of s; true once it has run. */
static bool try_before(struct CUstream_st *s, uint64_t seq)
{
    struct CUctx_st *c = s->context;
    bool done = true;
    if (s->flags & CU_STREAM_NON_BLOCKING) return true;
    if (s != c->legacy) return stream_try(c->legacy, seq - 1);
    for (struct CUstream_st *other = c->streams; other; other = other->next)
        if (other != s && !(other->flags & CU_STREAM_NON_BLOCKING)) done = stream_try(other, seq - 1) && done;
    return done;
}

bool stream_try(struct CUstream_st *s, uint64_t upto)
{
    struct CUctx_st *c = s->context;
    while (s->head && s->head->seq <= upto) {
        struct op *o = s->head;
        if (!try_before(s, o->seq)) return false;
        CUresult r = c->failed ? CUDA_SUCCESS : o->run(o);
        if (r == CUDA_ERROR_NOT_READY) return false;
        if (r) contexts_fail(r);
        s->head = o->next;
        if (!s->head) s->tail = &s->head;
        if (o->drop) o->drop(o);
        free(o);
    }
    return true;
}

/* Runs what can run, of all streams. */
static void try_others(void)
{
    for (struct CUctx_st *c = contexts; c; c = c->next)
        for (struct CUstream_st *s = c->streams; s; s = s->next) stream_try(s, SIM_ALL);
}

bool stream_start(struct CUstream_st *s, uint64_t upto)
{
    if (stream_try(s, upto)) return true;
    try_others();
    return stream_try(s, upto);
}

CUresult stream_run(struct CUstream_st *s, uint64_t upto)
{
    if (upto > last_seq) upto = last_seq;   /* not what others add meanwhile */
    s->refs++;
    while (!stream_start(s, upto)) sim_pause();
    CUresult r = s->context->failed;
    stream_unref(s);
    return r;
}

/* Runs all that is pending in streams without that flag. */
static CUresult run_all(struct CUctx_st *c, unsigned without)
{
    const uint64_t upto = last_seq;
    for (bool done = false; !done;) {
        done = true;
        for (struct CUstream_st *s = c->streams; s; s = s->next)
            if (!(s->flags & without)) done = stream_try(s, upto) && done;
        if (done) break;
        try_others();
        sim_pause();
    }
    return c->failed;
}

CUresult context_run(struct CUctx_st *c)
{
    return run_all(c, 0);
}

void device_run(int device)
{
    for (struct CUctx_st *c = contexts; c; c = c->next)
        if (c->device == device) context_run(c);
}

uint64_t stream_add(struct CUstream_st *s, struct op *o)
{
    o->context = s->context;
    o->next = NULL;
    if (capture_keeps(s, o)) return 0;
    o->seq = ++last_seq;
    *s->tail = o;
    s->tail = &o->next;
    uint64_t seq = o->seq;
    if (stream_eager()) stream_try(s, seq);
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
    capture_forget(s);
    stream_run(s, SIM_ALL);
    if (stream_find(stream, ctx) != s) return CUDA_ERROR_INVALID_HANDLE;
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
    CUresult r = s == s->context->legacy ? capture_legacy() : capture_excludes(s);
    if (r) return r;
    return s == s->context->legacy ? run_all(s->context, CU_STREAM_NON_BLOCKING) : stream_run(s, SIM_ALL);
}

/* The first question finds the work unfinished, and starts it. */
CUresult CUDAAPI cuStreamQuery(CUstream stream)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = capture_excludes(s);
    if (r) return r;
    bool pending = s->head != NULL;
    stream_start(s, SIM_ALL);
    r = s->context->failed;
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
