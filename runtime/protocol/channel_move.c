/* channel_move.c: flags in device memory, and what a message of bound partners enqueues. */
#include "base/log.h"
#include "channel_internal.h"
#include "device/device_internal.h"
#include <stdlib.h>
#include <string.h>

/* Memory of its own, so that it shares no block of 2 MiB with allocations that others open and close. */
#define FLAGS_BYTES ((size_t)2 << 20)
#define FLAG_APART 64
#define FLAGS_MOST (FLAGS_BYTES / FLAG_APART)
#define OPERATIONS_MOST 128   /* a call; the driver takes 256 */
#define JOBS_MOST 16          /* a launch: their list fits into its argument */

/* ---- flags ---- */

static struct flag_page {
    struct device *device;
    struct pool_buffer *memory;
    uint64_t used[FLAGS_MOST / 64];
    struct flag_page *next;
} *pages;

bool channel_device_able(struct device *d)
{
    int able = 0;
    const struct driver *driver = driver_get();
    return driver->memory_operations &&
           driver->cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, d->ordinal) ==
               CUDA_SUCCESS &&
           able;
}

static bool clear(struct device *d, CUdeviceptr at, size_t bytes)
{
    if (device_enter(d)) return false;
    struct stream *s = stream_get(d);
    bool ok = s && driver_get()->cuMemsetD8Async(at, 0, bytes, stream_use(s)) == CUDA_SUCCESS && !stream_wait(d, s);
    if (s) stream_put(d, s);
    device_leave(d);
    return ok;
}

static struct flag_page *page_of(struct device *d)
{
    struct flag_page *p = pages;
    while (p && p->device != d) p = p->next;
    if (p || !(p = calloc(1, sizeof *p))) return p;
    p->device = d, p->memory = mempool_get(d, BUFFER_LASTING, FLAGS_BYTES);
    if (!p->memory || !clear(d, p->memory->address, FLAGS_BYTES)) {
        mempool_put(p->memory);
        free(p);
        return NULL;
    }
    p->next = pages;
    return pages = p;
}

CUdeviceptr channel_flag_get(struct device *d)
{
    struct flag_page *p = page_of(d);
    size_t word = 0;
    while (p && word < FLAGS_MOST / 64 && !~p->used[word]) word++;
    if (!p || word == FLAGS_MOST / 64) return 0;
    int bit = __builtin_ctzll(~p->used[word]);
    p->used[word] |= UINT64_C(1) << bit;
    return p->memory->address + (word * 64 + (size_t)bit) * FLAG_APART;
}

void channel_flag_put(struct device *d, CUdeviceptr flag)
{
    if (!flag) return;
    struct flag_page *p = page_of(d);
    size_t at = (flag - p->memory->address) / FLAG_APART;
    p->used[at / 64] &= ~(UINT64_C(1) << at % 64);
}

void channel_flags_finish(void)
{
    for (struct flag_page *p; (p = pages);) {
        pages = p->next;
        mempool_put(p->memory);
        free(p);
    }
}

/* ---- what is enqueued ---- */

struct operations {
    CUstream stream;
    unsigned n;
    CUresult result;
    CUstreamBatchMemOpParams of[OPERATIONS_MOST];
};

static void flush(struct operations *o)
{
    if (o->n && o->result == CUDA_SUCCESS)
        o->result = driver_get()->cuStreamBatchMemOp(o->stream, o->n, o->of, 0);
    o->n = 0;
}

static void set(struct operations *o, CUdeviceptr flag, uint32_t value)
{
    if (o->n == OPERATIONS_MOST) flush(o);
    CUstreamBatchMemOpParams *p = &o->of[o->n++];
    memset(p, 0, sizeof *p);
    p->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    p->writeValue.address = flag, p->writeValue.value = value;
}

/* Waits for the partner, and clears the flag for the next message. */
static void await(struct operations *o, CUdeviceptr flag)
{
    if (o->n == OPERATIONS_MOST) flush(o);
    CUstreamBatchMemOpParams *p = &o->of[o->n++];
    memset(p, 0, sizeof *p);
    p->waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    p->waitValue.address = flag, p->waitValue.value = 1, p->waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    set(o, flag, 0);
}

static int done(struct operations *o)
{
    flush(o);
    if (o->result == CUDA_SUCCESS) return 0;
    if (!driver_lost(o->result))
        log_write(LOG_ERROR, "a stream's wait for another rank was refused: %s", driver_error(o->result));
    return -1;
}

void channel_moves_end(struct channel *c)
{
    typed_copy_end(&c->kept);
}

static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver_get()->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Moves the bytes of some receives. Buffers between layouts, which only long irregular pairs take, stay with the first
 * one while a graph may read them; else the stream is waited for. */
static int move(struct channel *const channels[], int n, CUstream stream)
{
    struct typed_copy_job jobs[JOBS_MOST];
    struct typed_copy_batch batch = {0};
    struct stream s = {.handle = stream, .number = FLAGS, .batched = true, .foreign = true};
    int launches = 0;
    for (int i = 0; i < n; i++) jobs[i] = channels[i]->job;
    int result = n ? typed_copy_move(&batch, channels[0]->device, &s, jobs, n, &launches) : 0;
    if (!batch.kept) return result;
    if (!is_captured(stream)) {
        driver_get()->cuStreamSynchronize(stream);
        typed_copy_end(&batch);
        return result;
    }
    struct pool_buffer *last = batch.kept;
    while (last->next) last = last->next;
    last->next = channels[0]->kept.kept, channels[0]->kept.kept = batch.kept;
    return result;
}

static struct device *device_of_all(struct channel *const channels[], int n)
{
    for (int i = 0; i < n; i++)
        if (!channels[i]->nothing) return channels[i]->device;
    return NULL;
}

int channels_start(struct channel *const channels[], int n, CUstream stream)
{
    struct device *d = device_of_all(channels, n);
    struct operations o = {.stream = stream};
    if (!d) return 0;
    if (device_enter(d)) return -1;
    for (int i = 0; i < n; i++)
        if (!channels[i]->nothing && channels[i]->call.sends) set(&o, channels[i]->other, 1);
    int result = done(&o);
    device_leave(d);
    return result;
}

static int wait_entered(struct channel *const channels[], int n, CUstream stream)
{
    struct operations o = {.stream = stream};
    struct channel *receives[JOBS_MOST] = {NULL};
    int many = 0, result;
    for (int i = 0; i < n; i++)
        if (!channels[i]->nothing && !channels[i]->call.sends && channels[i]->message == MESSAGE_LATER)
            await(&o, channels[i]->own);
    result = done(&o);
    for (int i = 0; i < n && !result; i++) {
        if (channels[i]->nothing || channels[i]->call.sends) continue;
        receives[many++] = channels[i];
        if (many == JOBS_MOST) result = move(receives, many, stream), many = 0;
    }
    if (!result) result = move(receives, many, stream);
    for (int i = 0; i < n; i++)
        if (!channels[i]->nothing && !channels[i]->call.sends) set(&o, channels[i]->other, 1);
    for (int i = 0; i < n; i++)
        if (!channels[i]->nothing && channels[i]->call.sends) await(&o, channels[i]->own);
    return result ? result : done(&o);
}

int channels_wait(struct channel *const channels[], int n, CUstream stream)
{
    struct device *d = device_of_all(channels, n);
    if (!d) return 0;
    if (device_enter(d)) return -1;
    int result = wait_entered(channels, n, stream);
    device_leave(d);
    return result;
}
