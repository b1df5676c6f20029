/* stream.c: a few streams a device, kept for the next user. */
#include "log.h"
#include "place.h"

CUstream stream_get(struct device *d)
{
    struct place *p = place_of(d);
    CUstream s = NULL;
    pthread_mutex_lock(&p->lock);
    if (p->stream_count) s = p->streams[--p->stream_count];
    pthread_mutex_unlock(&p->lock);
    if (s) return s;
    /* A stream that waits for the context's default stream: a cudaMemcpy from pageable memory returns before its
     * bytes have arrived, and the application may rightly pass the buffer to MPI at once. Of the highest priority:
     * beside a kernel that fills an H200, packing 1 MiB takes 23 us instead of 39, and costs that kernel 1 %
     * (bench/search, "beside_compute"). */
    int least, greatest;
    CUresult r = driver_get()->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (r == CUDA_SUCCESS) r = driver_get()->cuStreamCreateWithPriority(&s, CU_STREAM_DEFAULT, greatest);
    if (r == CUDA_SUCCESS) return s;
    log_once(LOG_ERROR, "stream", "no stream on device %d: %s", d->ordinal, driver_error(r));
    return NULL;
}

void stream_put(struct device *d, CUstream s)
{
    struct place *p = place_of(d);
    bool kept = false;
    if (!s) return;
    pthread_mutex_lock(&p->lock);
    if (p->stream_count < STREAMS_KEPT) {
        p->streams[p->stream_count++] = s;
        kept = true;
    }
    pthread_mutex_unlock(&p->lock);
    /* The driver finishes the work of a destroyed stream by itself. */
    if (!kept) driver_get()->cuStreamDestroy(s);
}

int stream_wait(struct device *d, CUstream s)
{
    CUresult r = driver_get()->cuStreamSynchronize(s);
    if (r == CUDA_SUCCESS) return 0;
    log_write(LOG_ERROR, "work on device %d failed: %s", d->ordinal, driver_error(r));
    return -1;
}

void streams_drop(struct device *d)
{
    struct place *p = place_of(d);
    pthread_mutex_lock(&p->lock);
    while (p->stream_count) driver_get()->cuStreamDestroy(p->streams[--p->stream_count]);
    pthread_mutex_unlock(&p->lock);
}
