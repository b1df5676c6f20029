/* stream.c: a few streams a device, kept for the next user, and how their work is waited for.
 *
 * A kernel of one block can tell the host itself that it is done, by a store to mapped memory: on an H200 the host
 * then knows 1 us sooner than from cuStreamSynchronize (bench/search, "wait"). Blocks that are to be counted first,
 * each behind a fence, lose more than that: with up to 1024 of them MPI_Pack and MPI_Unpack took 8 and 9 % longer
 * (39 layouts, the same run), and messages of 4 MiB in blocks of 32 bytes 28 us instead of 25. */
#include "base/backoff.h"
#include "base/log.h"
#include "base/stats.h"
#include "device_internal.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Longer than small kernels take, too short to matter to those who could use the core. */
#define SPIN_NS 20000
#define SPINS_A_LOOK 16

/* The lowest free number; FLAGS where there is none. */
static int number_take(struct place *p)
{
    int number = 0;
    pthread_mutex_lock(&p->lock);
    while (number < FLAGS && p->numbers >> number & 1) number++;
    if (number < FLAGS) p->numbers |= (uint64_t)1 << number;
    pthread_mutex_unlock(&p->lock);
    return number;
}

/* The driver finishes the work of a destroyed stream by itself. */
static void destroy(struct place *p, struct stream *s)
{
    driver_get()->cuStreamDestroy(s->handle);
    pthread_mutex_lock(&p->lock);
    if (s->number < FLAGS) p->numbers &= ~((uint64_t)1 << s->number);
    pthread_mutex_unlock(&p->lock);
    free(s);
}

/* A stream that waits for the context's default stream: a cudaMemcpy from pageable memory returns before its bytes
 * have arrived, and the application may rightly pass the buffer to MPI at once. Of the highest priority: beside a
 * kernel that fills an H200, packing 1 MiB takes 23 us instead of 39, and costs that kernel 1 % (measured with
 * CUDA's own streams; bench/beside has the costs of today). The priority is a hint: any stream will do. */
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
        s->number = number_take(place_of(d));
        return s;
    }
    free(s);
    if (!driver_lost(r)) log_once(LOG_ERROR, "stream", "no stream on device %d: %s", d->ordinal, driver_error(r));
    return NULL;
}

struct stream *stream_get(struct device *d)
{
    struct place *p = place_of(d);
    spinlock_lock(&p->latch);
    struct stream *s = p->streams;
    if (s) p->streams = s->next, p->streams_kept--;
    spinlock_unlock(&p->latch);
    return s ? s : create(d);
}

/* False where so many are kept already. */
static bool keep(struct place *p, struct stream *s, int most)
{
    spinlock_lock(&p->latch);
    bool kept = p->streams_kept < most;
    if (kept) s->next = p->streams, p->streams = s, p->streams_kept++;
    spinlock_unlock(&p->latch);
    return kept;
}

void stream_put(struct device *d, struct stream *s)
{
    struct place *p = place_of(d);
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

CUstream stream_use(struct stream *s)
{
    s->flagged = false, s->busy = true;
    return s->handle;
}

/* Asked for once: where there is no memory for the words, streams do without. */
static struct pool_buffer *flags_of(struct device *d)
{
    struct place *p = place_of(d);
    if (atomic_load_explicit(&p->flags_had, memory_order_acquire)) return p->flags;
    pthread_mutex_lock(&p->lock);
    if (!atomic_load(&p->flags_had)) {
        p->flags = mempool_get(d, BUFFER_PINNED, FLAGS * FLAG_BYTES);
        if (p->flags) memset(p->flags->host, 0, p->flags->bytes);
        atomic_store_explicit(&p->flags_had, true, memory_order_release);
    }
    pthread_mutex_unlock(&p->lock);
    return p->flags;
}

/* 0 is what the words begin with. */
static uint32_t next_ticket(struct place *p)
{
    uint32_t ticket;
    while ((ticket = atomic_fetch_add_explicit(&p->ticket, 1, memory_order_relaxed) + 1) == 0) continue;
    return ticket;
}

/* Each stream's words: that its last work is done, and that a kernel of its gave up. */
enum word { WORD_DONE, WORD_LATE };

static size_t word_at(const struct stream *s, enum word word)
{
    return (size_t)s->number * FLAG_BYTES + word * sizeof(uint32_t);
}

/* Where a kernel may store *ticket; 0 where the stream has no words. */
static CUdeviceptr word_for(struct device *d, const struct stream *s, enum word word, uint64_t *ticket)
{
    struct pool_buffer *flags = s->number >= FLAGS ? NULL : flags_of(d);
    if (!flags) return 0;
    *ticket = next_ticket(place_of(d));
    return flags->address + word_at(s, word);
}

CUdeviceptr stream_flag(struct device *d, struct stream *s, uint64_t *ticket)
{
    CUdeviceptr word = s->batched ? 0 : word_for(d, s, WORD_DONE, ticket);
    if (word) s->ticket = (uint32_t)*ticket;
    return word;
}

CUdeviceptr stream_late(struct device *d, struct stream *s, uint64_t *ticket)
{
    return word_for(d, s, WORD_LATE, ticket);
}

static const _Atomic uint32_t *word_of(struct device *d, const struct stream *s, enum word word)
{
    const char *words = place_of(d)->flags->host;
    return (const _Atomic uint32_t *)(const void *)(words + word_at(s, word));
}

bool stream_was_late(struct device *d, const struct stream *s, uint32_t ticket)
{
    return atomic_load_explicit(word_of(d, s, WORD_LATE), memory_order_acquire) == ticket;
}

/* True once the word says that the stream's last work is done; false where that takes long, or will never be: what has
 * become of the work the driver knows then. */
static bool told(struct device *d, const struct stream *s)
{
    const _Atomic uint32_t *word = word_of(d, s, WORD_DONE);
    int64_t until = stats_now() + SPIN_NS;
    do {
        for (int i = 0; i < SPINS_A_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) == s->ticket) return true;
            cpu_pause();
        }
    } while (stats_now() < until);
    return false;
}

bool stream_told(struct device *d, struct stream *s)
{
    bool done = s->flagged && told(d, s);
    s->flagged = false, s->busy = s->busy && !done;
    return done;
}

int stream_wait(struct device *d, struct stream *s)
{
    if (!s->busy) return 0;   /* of an idle stream the driver takes 1.5 us to tell (H200) */
    CUresult r = stream_told(d, s) ? CUDA_SUCCESS : driver_get()->cuStreamSynchronize(s->handle);
    s->busy = r != CUDA_SUCCESS;
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r)) log_write(LOG_ERROR, "work on device %d failed: %s", d->ordinal, driver_error(r));
    return -1;
}

void streams_drop(struct device *d)
{
    struct place *p = place_of(d);
    struct stream *s, *next;
    spinlock_lock(&p->latch);
    s = p->streams;
    p->streams = NULL, p->streams_kept = 0;
    spinlock_unlock(&p->latch);
    for (; s; s = next) next = s->next, destroy(p, s);
    pthread_mutex_lock(&p->lock);
    /* A stream that somebody still holds may still be told of its end. */
    if (!p->numbers && atomic_exchange(&p->flags_had, false)) {
        mempool_put(p->flags);
        p->flags = NULL;
    }
    pthread_mutex_unlock(&p->lock);
}
