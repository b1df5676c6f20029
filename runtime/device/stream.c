/* stream.c: a few streams a device, kept for reuse, and waiting for their work.
 *
 * A kernel of few blocks stores a flag to mapped memory when done, the last of its blocks. The host knows 0.5 to 1 us
 * sooner than by cuStreamSynchronize (H200, bench/search, "wait"). Kernels of more blocks (launch_flag) use no flag:
 * with up to 1024 blocks MPI_Pack and MPI_Unpack took 8 and 9 % longer (39 layouts, H200), and messages of 4 MiB in
 * 32-byte blocks 28 instead of 25 us. */
#include "base/backoff.h"
#include "base/log.h"
#include "observe/stats.h"
#include "observe/trace.h"
#include "device_internal.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Longer than small kernels take, and short for others who need the core. */
#define SPIN_NS 20000
#define SPINS_PER_LOOK 16

#define OPERATIONS_MOST 128   /* a call; the driver takes less than 256 */

/* Returns the lowest free number; FLAGS if none is free. */
static int take_number(struct device_state *p)
{
    int number = 0;
    pthread_mutex_lock(&p->lock);
    while (number < FLAGS && p->numbers >> number & 1) number++;
    if (number < FLAGS) p->numbers |= (uint64_t)1 << number;
    pthread_mutex_unlock(&p->lock);
    return number;
}

static void forget_told(struct device *d, struct stream *s);

/* Destroys a stream; the driver finishes its work. Another stream gets its flags once nothing sets them. */
static void destroy(struct device_state *p, struct stream *s)
{
    bool over = !s->told || driver_get()->cuStreamSynchronize(s->handle) == CUDA_SUCCESS;
    if (over) forget_told(&p->device, s);
    driver_get()->cuStreamDestroy(s->handle);
    pthread_mutex_lock(&p->lock);
    if (over && s->number < FLAGS) p->numbers &= ~((uint64_t)1 << s->number);
    pthread_mutex_unlock(&p->lock);
    free(s);
}

/* Creates a stream that waits for the default stream: a cudaMemcpy from pageable memory returns before its bytes
 * arrive, and the application may then call MPI. Its priority is the highest, which is only a hint. Beside a
 * kernel that fills an H200, packing 1 MiB takes 23 instead of 39 us. That kernel loses 1 % (bench/beside). */
static struct stream *create(struct device *d)
{
    const struct driver *driver = driver_get();
    int least, greatest = 0;
    struct stream *s = calloc(1, sizeof *s);
    bool ranked = s && driver->cuCtxGetStreamPriorityRange(&least, &greatest) == CUDA_SUCCESS &&
                  driver->cuStreamCreateWithPriority(&s->handle, CU_STREAM_DEFAULT, greatest) == CUDA_SUCCESS;
    CUresult r = ranked ? CUDA_SUCCESS
                 : s    ? driver->cuStreamCreate(&s->handle, CU_STREAM_DEFAULT)
                        : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        s->priority = ranked ? greatest : 0;
        s->number = take_number(device_state_of(d));
        return s;
    }
    free(s);
    if (!driver_lost(r)) log_once(LOG_ERROR, "stream", "no stream on device %d: %s", d->ordinal, driver_error(r));
    return NULL;
}

struct stream *stream_get(struct device *d)
{
    struct device_state *p = device_state_of(d);
    spinlock_lock(&p->spin_lock);
    struct stream *s = p->streams;
    if (s) p->streams = s->next, p->streams_kept--;
    spinlock_unlock(&p->spin_lock);
    return s ? s : create(d);
}

/* Returns false if `most` streams are kept already. */
static bool keep(struct device_state *p, struct stream *s, int most)
{
    spinlock_lock(&p->spin_lock);
    bool kept = p->streams_kept < most;
    if (kept) s->next = p->streams, p->streams = s, p->streams_kept++;
    spinlock_unlock(&p->spin_lock);
    return kept;
}

void stream_put(struct device *d, struct stream *s)
{
    struct device_state *p = device_state_of(d);
    if (!s) return;
    s->batched = s->flagged = false;
    if (keep(p, s, STREAMS_KEPT)) return;
    if (!device_try_enter(d)) {
        keep(p, s, INT_MAX);
        return;
    }
    destroy(p, s);
    device_leave(d);
}

struct stream stream_foreign(CUstream handle)
{
    return (struct stream){.handle = handle, .number = FLAGS, .batched = true, .foreign = true};
}

bool stream_is_captured(CUstream handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver_get()->cuStreamIsCapturing(handle, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUstreamBatchMemOpParams operation_of(const struct stream_word *w)
{
    CUstreamBatchMemOpParams p = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};
    if (w->waits) {
        p.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, p.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
        p.waitValue.address = w->address, p.waitValue.value = w->value;
    } else {
        p.writeValue.address = w->address, p.writeValue.value = w->value;
    }
    return p;
}

int stream_words(CUstream handle, const struct stream_word words[], int n)
{
    CUstreamBatchMemOpParams of[OPERATIONS_MOST];
    CUresult r = CUDA_SUCCESS;
    unsigned many = 0;
    for (int i = 0; i < n && r == CUDA_SUCCESS; i++) {
        of[many++] = operation_of(&words[i]);
        bool full = many == OPERATIONS_MOST || i == n - 1;
        if (full) r = driver_get()->cuStreamBatchMemOp(handle, many, of, 0), many = 0;
    }
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r)) log_write(LOG_ERROR, "a stream's operations on words were refused: %s", driver_error(r));
    return -1;
}

bool event_record(CUevent *e, CUstream handle)
{
    const struct driver *driver = driver_get();
    CUresult r = driver->cuEventCreate(e, CU_EVENT_DISABLE_TIMING);
    if (r == CUDA_SUCCESS && (r = driver->cuEventRecord(*e, handle)) != CUDA_SUCCESS) event_free(*e);
    if (r != CUDA_SUCCESS && !driver_lost(r))
        log_write(LOG_ERROR, "a stream's work could not be noted: %s", driver_error(r));
    return r == CUDA_SUCCESS;
}

bool event_passed(CUevent e)
{
    return driver_get()->cuEventQuery(e) == CUDA_SUCCESS;
}

int event_await(CUevent e, CUstream handle)
{
    CUresult r = driver_get()->cuStreamWaitEvent(handle, e, 0);
    if (r != CUDA_SUCCESS && !driver_lost(r))
        log_write(LOG_ERROR, "a stream can't wait for another one's work: %s", driver_error(r));
    return r == CUDA_SUCCESS ? 0 : -1;
}

void event_free(CUevent e)
{
    driver_get()->cuEventDestroy(e);
}

CUstream stream_use(struct stream *s)
{
    s->flagged = false, s->busy = true;
    return s->handle;
}

CUresult stream_zero(struct device *d, CUdeviceptr at, size_t bytes)
{
    const struct driver *driver = driver_get();
    struct stream *s = stream_get(d);
    CUresult r = s ? driver->cuMemsetD8Async(at, 0, bytes, s->handle) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) r = driver->cuStreamSynchronize(s->handle);
    stream_put(d, s);
    return r;
}

/* Returns new device memory of zeroes; NULL without memory. */
static struct pool_buffer *zeroes(struct device *d, size_t bytes)
{
    struct pool_buffer *b = mempool_get(d, BUFFER_DEVICE, bytes);
    if (!b || stream_zero(d, b->address, bytes) == CUDA_SUCCESS) return b;
    return mempool_put(b), NULL;
}

/* Returns the flags, allocated at the first call; NULL without memory, and streams then have none. */
static struct pool_buffer *flags_of(struct device *d)
{
    struct device_state *p = device_state_of(d);
    if (atomic_load_explicit(&p->flags_tried, memory_order_acquire)) return p->flags;
    struct pool_buffer *flags = mempool_get(d, BUFFER_PINNED, FLAGS * FLAG_BYTES);
    struct pool_buffer *ended = flags ? zeroes(d, FLAGS * FLAG_BYTES) : NULL;
    if (flags) memset(flags->host, 0, flags->bytes);
    pthread_mutex_lock(&p->lock);
    if (!atomic_load(&p->flags_tried)) {
        if (ended) p->flags = flags, p->ended = ended, flags = ended = NULL;
        atomic_store_explicit(&p->flags_tried, true, memory_order_release);
    }
    pthread_mutex_unlock(&p->lock);
    mempool_put(flags), mempool_put(ended);
    return p->flags;
}

/* Returns a new ticket, never 0, the initial value of words. */
static uint32_t next_ticket(struct device_state *p)
{
    uint32_t ticket;
    while ((ticket = atomic_fetch_add_explicit(&p->ticket, 1, memory_order_relaxed) + 1) == 0) continue;
    return ticket;
}

/* Words of a stream: a kernel gave up; some work is done, one flag for each launch that tells before a wait. */
enum word { WORD_LATE, WORD_DONE, WORDS = FLAG_BYTES / sizeof(uint32_t) };

static size_t word_at(const struct stream *s, int word)
{
    return (size_t)s->number * FLAG_BYTES + (size_t)word * sizeof(uint32_t);
}

/* Returns the address of a word; 0 if the stream has none. */
static CUdeviceptr address_of(struct device *d, const struct stream *s, int word)
{
    struct pool_buffer *flags = s->number >= FLAGS ? NULL : flags_of(d);
    return flags ? flags->address + word_at(s, word) : 0;
}

static _Atomic uint32_t *word_of(struct device *d, const struct stream *s, int word)
{
    char *words = device_state_of(d)->flags->host;
    return (_Atomic uint32_t *)(void *)(words + word_at(s, word));
}

CUdeviceptr stream_flag(struct device *d, struct stream *s, uint64_t *ended)
{
    int word = WORD_DONE + s->told;
    CUdeviceptr flag = s->batched || word == WORDS ? 0 : address_of(d, s, word);
    if (flag) *ended = device_state_of(d)->ended->address + (uint64_t)s->number * FLAG_BYTES;
    return flag;
}

void stream_flagged(struct stream *s)
{
    s->flagged = true, s->told++;
}

/* Clears the flags of work that has ended. */
static void forget_told(struct device *d, struct stream *s)
{
    for (; s->told; s->told--)
        atomic_store_explicit(word_of(d, s, WORD_DONE + s->told - 1), 0, memory_order_release);
}

CUdeviceptr stream_late_flag(struct device *d, struct stream *s, uint64_t *ticket)
{
    CUdeviceptr word = address_of(d, s, WORD_LATE);
    if (word) *ticket = next_ticket(device_state_of(d));
    return word;
}

void device_warm_up(struct device *d)
{
    struct stream *two[2] = {stream_get(d), NULL};
    if (two[0]) flags_of(d);
    two[1] = stream_get(d);
    for (int i = 0; i < 2; i++) stream_put(d, two[i]);
}

bool stream_was_late(struct device *d, const struct stream *s, uint32_t ticket)
{
    return atomic_load_explicit(word_of(d, s, WORD_LATE), memory_order_acquire) == ticket;
}

/* Returns true once the flag says that the last work is done; false after a while: then ask the driver. */
static bool spin_on_flag(struct device *d, const struct stream *s)
{
    const _Atomic uint32_t *word = word_of(d, s, WORD_DONE + s->told - 1);
    int64_t until = stats_now() + SPIN_NS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) == STREAM_DONE) return true;
            cpu_pause();
        }
    } while (stats_now() < until);
    return false;
}

bool stream_spin_done(struct device *d, struct stream *s)
{
    bool done = s->flagged && spin_on_flag(d, s);
    if (done) forget_told(d, s);
    s->flagged = false, s->busy = s->busy && !done;
    return done;
}

int stream_wait(struct device *d, struct stream *s)
{
    if (!s->busy) return 0;   /* asking the driver about an idle stream takes 1.5 us (H200) */
    int64_t begun = trace_wanted() ? stats_now() : 0;
    CUresult r = stream_spin_done(d, s) ? CUDA_SUCCESS : driver_get()->cuStreamSynchronize(s->handle);
    if (r == CUDA_SUCCESS) forget_told(d, s);
    s->busy = r != CUDA_SUCCESS;
    if (begun) trace_add_plain(TRACE_WAIT, "wait for the GPU", begun);
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r)) log_write(LOG_ERROR, "work on device %d failed: %s", d->ordinal, driver_error(r));
    return -1;
}

void streams_drop(struct device *d)
{
    struct device_state *p = device_state_of(d);
    struct stream *s, *next;
    spinlock_lock(&p->spin_lock);
    s = p->streams;
    p->streams = NULL, p->streams_kept = 0;
    spinlock_unlock(&p->spin_lock);
    for (; s; s = next) next = s->next, destroy(p, s);
    pthread_mutex_lock(&p->lock);
    /* A stream still in use may still store to its flags. */
    if (!p->numbers && atomic_exchange(&p->flags_tried, false)) {
        mempool_put(p->flags), mempool_put(p->ended);
        p->flags = p->ended = NULL;
    }
    pthread_mutex_unlock(&p->lock);
}
