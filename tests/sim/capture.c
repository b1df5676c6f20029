/* capture.c: what a thread may call while a stream is captured into a graph, as CUDA 13.0's driver answers (tried on two H100s).
 * Launches, copies, fills and memory operations that are enqueued on the captured stream don't run: its graph has them,
 * in order. The rest is refused there, though a driver may allow it: events, graphs, pool memory, copies of pageable
 * memory. So are waits for the stream, which none allows. One capture at a time. */
#include "sim.h"
#include <pthread.h>
#include <string.h>

static struct {
    struct CUstream_st *stream;   /* NULL: there is none */
    CUstreamCaptureMode mode;
    pthread_t owner;
    bool broken;                  /* by a call that it does not allow */
    struct work *work;
} capture;
static _Thread_local CUstreamCaptureMode own_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

enum what { UNSAFE, NEVER, LEGACY };   /* allowed to threads in relaxed mode; to none; unless a blocking stream is captured */
static const struct {
    const char *call;
    enum what what;
} RULES[] = {
    {"cuMemAlloc", UNSAFE},          {"cuMemFree", UNSAFE},      {"cuMemHostAlloc", UNSAFE},      {"cuMemFreeHost", UNSAFE},
    {"cuModuleUnload", UNSAFE},      {"cuMemsetD8", LEGACY},     {"cuPointerSetAttribute", UNSAFE}, {"cuCtxSynchronize", NEVER},
    {"cuStreamSynchronize", UNSAFE}, {"cuEventQuery", UNSAFE},
};

static CUresult breaks(CUresult with)
{
    capture.broken = true;
    return with;
}

static bool prohibited(void)
{
    if (own_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL || pthread_equal(capture.owner, pthread_self());
}

static bool blocking(void)
{
    return capture.stream && !(capture.stream->flags & CU_STREAM_NON_BLOCKING);
}

CUresult capture_legacy(void)
{
    return blocking() ? breaks(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) : CUDA_SUCCESS;
}

CUresult capture_excludes(const struct CUstream_st *s)
{
    return s == capture.stream ? breaks(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) : CUDA_SUCCESS;
}

bool capture_keeps(const struct CUstream_st *s, struct op *o)
{
    if (s != capture.stream) return false;
    work_add(capture.work, o);
    return true;
}

void capture_forget(const struct CUstream_st *s)
{
    if (s != capture.stream) return;
    work_unref(capture.work);
    capture.stream = NULL, capture.work = NULL;
}

CUresult capture_refuses(const char *call, size_t length)
{
    for (size_t i = 0; capture.stream && i < sizeof RULES / sizeof *RULES; i++) {
        if (strlen(RULES[i].call) != length || strncmp(RULES[i].call, call, length)) continue;
        if (RULES[i].what == LEGACY) return capture_legacy();
        if (RULES[i].what == NEVER || prohibited()) return breaks(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER_ANY();
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode was = own_mode;
    own_mode = *mode, *mode = was;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (s == s->context->legacy || capture.stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct work *w = work_new(s->context);
    if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
    capture.work = w;
    capture.stream = s, capture.mode = mode, capture.owner = pthread_self(), capture.broken = false;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s || !graph) return CUDA_ERROR_INVALID_VALUE;
    if (s != capture.stream) return CUDA_ERROR_ILLEGAL_STATE;
    struct work *w = capture.work;
    capture.stream = NULL, capture.work = NULL, *graph = NULL;
    if (!capture.broken) return graph_new(graph, w);
    work_unref(w);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s || !status) return CUDA_ERROR_INVALID_VALUE;
    if (s == s->context->legacy && blocking()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;   /* which breaks nothing */
    *status = s != capture.stream ? CU_STREAM_CAPTURE_STATUS_NONE
              : capture.broken    ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}
