/* mempool.c: staging buffers from pools: of device memory one a device, and one of BUFFER_MARKED; of pinned memory
 * one for all.
 *
 * Sizes are powers of two from 4 KiB, and for BUFFER_LASTING and BUFFER_MARKED the fifteen even steps between two as
 * well. A pool keeps at most its limit: four fifths of STRIDEC_KEEP, one fifth for BUFFER_MARKED, 1 GiB of pinned
 * memory; what is given back past that is freed at once, and all that a device's pools keep where the program, or
 * another, fills the device. A buffer that the driver can only give at the size asked for (memory is short) is none
 * of these sizes, and is not kept. */
#include "base/log.h"
#include "base/stats.h"
#include "device_internal.h"
#include <stdlib.h>

#define SMALLEST ((size_t)4096)
#define LOOK_LEAST ((size_t)16 << 20)   /* bytes: after shorter buffers it is not asked how much is free, */
#define LOOK_NS 20000000                /* nor more often */

static struct pool pinned = {.limit = (size_t)1 << 30};

static struct pool *pool_of(struct device *d, enum buffer_kind kind)
{
    return kind == BUFFER_PINNED ? &pinned : kind == BUFFER_MARKED ? &place_of(d)->marked : &place_of(d)->pool;
}

static size_t size_of(int class)
{
    return (size_t)(POOL_STEPS + class % POOL_STEPS) * (SMALLEST / POOL_STEPS) << class / POOL_STEPS;
}

/* The class that holds `bytes`, or -1 where none does. */
static int class_of(enum buffer_kind kind, size_t bytes)
{
    if (bytes <= SMALLEST) return 0;
    size_t least = (bytes - 1) / (SMALLEST / POOL_STEPS);   /* steps that are too few */
    int octave = 63 - __builtin_clzl(least / POOL_STEPS),
        class = octave * POOL_STEPS + (int)(least >> octave) - POOL_STEPS + 1;
    if (kind != BUFFER_LASTING && kind != BUFFER_MARKED) class = (class + POOL_STEPS - 1) / POOL_STEPS * POOL_STEPS;
    return class < POOL_CLASSES ? class : -1;
}

static struct pool_buffer *pool_take(struct pool *pool, int class)
{
    spinlock_lock(&pool->latch);
    struct pool_buffer *b = pool->free[class];
    if (b) {
        pool->free[class] = b->next;
        pool->kept -= b->bytes;
        b->next = NULL;
    }
    spinlock_unlock(&pool->latch);
    return b;
}

static bool pool_keep(struct pool *pool, struct pool_buffer *b)
{
    int class = class_of(b->kind, b->bytes);
    if (size_of(class) != b->bytes) return false;
    spinlock_lock(&pool->latch);
    bool keep = b->bytes <= pool->limit && pool->kept <= pool->limit - b->bytes;
    if (keep) {
        b->next = pool->free[class];
        pool->free[class] = b;
        pool->kept += b->bytes;
    }
    spinlock_unlock(&pool->latch);
    return keep;
}

/* Bytes before the address. */
static CUdeviceptr marks_of(enum buffer_kind kind)
{
    return kind == BUFFER_MARKED ? BUFFER_MARKS : 0;
}

/* Any context must be current for pinned memory, the buffer's own for device memory. */
static void release(struct pool_buffer *b)
{
    if (b->kind != BUFFER_PINNED)
        driver_get()->cuMemFree(b->address - marks_of(b->kind));
    else if (device_lives(b->home))
        driver_get()->cuMemFreeHost(b->host);
    free(b);
}

static void pool_drop(struct pool *pool)
{
    struct pool_buffer *b;
    for (int c = 0; c < POOL_CLASSES; c++)
        while ((b = pool_take(pool, c))) release(b);
}

/* On a stream of stridec's own: the default one may not be used while the program captures another. */
static CUresult clear(struct device *d, CUdeviceptr from, size_t bytes)
{
    struct stream *s = stream_get(d);
    CUresult r = s ? driver_get()->cuMemsetD8Async(from, 0, bytes, stream_use(s)) : CUDA_ERROR_OUT_OF_MEMORY;
    if (s && stream_wait(d, s) && r == CUDA_SUCCESS) r = CUDA_ERROR_UNKNOWN;
    stream_put(d, s);
    return r;
}

static CUresult allocate_on_device(struct pool_buffer *b, size_t bytes)
{
    const struct driver *driver = driver_get();
    CUdeviceptr marks = marks_of(b->kind);
    CUresult r = driver->cuMemAlloc(&b->address, bytes + marks);
    if (r != CUDA_SUCCESS || !marks) return r;
    r = clear(b->device, b->address, marks);
    if (r != CUDA_SUCCESS) driver->cuMemFree(b->address);
    b->address += marks;
    return r;
}

static CUresult allocate(struct pool_buffer *b, size_t bytes)
{
    const struct driver *driver = driver_get();
    b->bytes = bytes;
    b->home = b->device;
    if (b->kind != BUFFER_PINNED) return allocate_on_device(b, bytes);
    CUresult r = driver->cuMemHostAlloc(&b->host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (r != CUDA_SUCCESS) return r;
    r = driver->cuMemHostGetDevicePointer(&b->address, b->host, 0);
    if (r != CUDA_SUCCESS) driver->cuMemFreeHost(b->host);
    return r;
}

/* The rounded size; with empty pools again; then with nothing but what was asked for. */
static CUresult allocate_hard(struct device *d, struct pool_buffer *b, size_t rounded, size_t bytes)
{
    CUresult r = allocate(b, rounded);
    if (r == CUDA_SUCCESS) return r;
    mempool_drop(d);
    r = allocate(b, rounded);
    if (r == CUDA_SUCCESS || bytes > SIZE_MAX - SMALLEST) return r;
    return allocate(b, (bytes + SMALLEST - 1) / SMALLEST * SMALLEST);
}

/* Under unified addressing the address is the same in every context; elsewhere it is each context's own. */
static bool move_to(struct pool_buffer *b, struct device *d)
{
    if (b->device == d) return true;
    b->device = d;
    return driver_get()->cuMemHostGetDevicePointer(&b->address, b->host, 0) == CUDA_SUCCESS;
}

/* From the pool, without what is gone. */
static struct pool_buffer *take(struct device *d, enum buffer_kind kind, int class)
{
    struct pool_buffer *b;
    while ((b = pool_take(pool_of(d, kind), class)) && b->home != d && !device_lives(b->home)) free(b);
    return b;
}

/* With the device entered. Replaces b, which another device had or which is NULL. */
static struct pool_buffer *make(struct device *d, enum buffer_kind kind, int class, size_t bytes, struct pool_buffer *b)
{
    if (b && move_to(b, d)) return b;
    if (b) release(b);
    b = calloc(1, sizeof *b);
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    if (b) {
        b->kind = kind;
        b->device = d;
        r = allocate_hard(d, b, size_of(class), bytes);
    }
    if (r == CUDA_SUCCESS) return b;
    free(b);
    if (!driver_lost(r))
        log_write(LOG_ERROR, "no %s buffer of %zu bytes: %s", kind == BUFFER_PINNED ? "pinned" : "device", bytes,
                  driver_error(r));
    return NULL;
}

struct pool_buffer *mempool_get(struct device *d, enum buffer_kind kind, size_t bytes)
{
    int class = class_of(kind, bytes);
    struct pool_buffer *b = class < 0 ? NULL : take(d, kind, class);
    if (b) b->kind = kind;
    if (b && b->device == d) return b;
    if (class < 0) return log_write(LOG_ERROR, "no buffer of %zu bytes: too long", bytes), NULL;
    if (device_enter(d)) return mempool_put(b), NULL;
    b = make(d, kind, class, bytes, b);
    device_leave(d);
    return b;
}

static bool is_short(void)
{
    size_t available, total;
    return driver_get()->cuMemGetInfo(&available, &total) == CUDA_SUCCESS && available < total / KEPT_OF;
}

/* What is kept is the program's where it fills the device. */
static void look(struct device *d)
{
    struct place *p = place_of(d);
    int64_t now = stats_now();
    if (now < atomic_load_explicit(&p->look, memory_order_relaxed) || !device_try_enter(d)) return;
    atomic_store_explicit(&p->look, now + LOOK_NS, memory_order_relaxed);
    if (is_short()) pool_drop(&p->pool), pool_drop(&p->marked);
    device_leave(d);
}

void mempool_put(struct pool_buffer *b)
{
    if (!b) return;
    struct device *d = b->device;
    bool looks = b->kind != BUFFER_PINNED && b->bytes >= LOOK_LEAST;
    if (pool_keep(pool_of(d, b->kind), b)) {
        if (looks) look(d);
        return;
    }
    /* Where its context is gone, device memory went with it. */
    if (!device_try_enter(d)) {
        free(b);
        return;
    }
    release(b);
    device_leave(d);
}

void mempool_drop(struct device *d)
{
    pool_drop(&place_of(d)->pool);
    pool_drop(&place_of(d)->marked);
    pool_drop(&pinned);
}
