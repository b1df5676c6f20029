/* mempool.c: pools of buffers, three for each device: one for BUFFER_FLAGGED, one for pinned memory, which goes with
 * the context that it was allocated in, and one for the rest.
 *
 * Sizes are powers of two from 4 KiB; BUFFER_LASTING and BUFFER_FLAGGED also have fifteen even steps between. A pool
 * keeps at most its limit: four fifths of STRIDEC_KEEP, one fifth for BUFFER_FLAGGED, 1 GiB of pinned memory. More is
 * freed at once, and so are a device's pools if its memory is almost full. Buffers of other sizes (memory was short)
 * are not kept. */
#include "base/log.h"
#include "observe/stats.h"
#include "device_internal.h"
#include <stdlib.h>

#define SMALLEST ((size_t)4096)
#define CHECK_MIN_BYTES ((size_t)16 << 20)   /* bytes: no check of free memory after shorter buffers, */
#define CHECK_NS 20000000                /* and none more often than this */

static struct pool *pool_of(struct device *d, enum buffer_kind kind)
{
    return kind == BUFFER_PINNED    ? &device_state_of(d)->pinned_pool
           : kind == BUFFER_FLAGGED ? &device_state_of(d)->flagged_pool
                                    : &device_state_of(d)->pool;
}

static size_t size_of(int class)
{
    return (size_t)(POOL_STEPS + class % POOL_STEPS) * (SMALLEST / POOL_STEPS) << class / POOL_STEPS;
}

/* Returns the class for `bytes`, -1 if it is too long. */
static int class_of(enum buffer_kind kind, size_t bytes)
{
    if (bytes <= SMALLEST) return 0;
    size_t least = (bytes - 1) / (SMALLEST / POOL_STEPS);   /* one step too few */
    int octave = 63 - __builtin_clzl(least / POOL_STEPS),
        class = octave * POOL_STEPS + (int)(least >> octave) - POOL_STEPS + 1;
    if (kind != BUFFER_LASTING && kind != BUFFER_FLAGGED) class = (class + POOL_STEPS - 1) / POOL_STEPS * POOL_STEPS;
    return class < POOL_CLASSES ? class : -1;
}

static struct pool_buffer *pool_take(struct pool *pool, int class)
{
    spinlock_lock(&pool->spin_lock);
    struct pool_buffer *b = pool->free[class];
    if (b) {
        pool->free[class] = b->next;
        pool->kept -= b->bytes;
        b->next = NULL;
    }
    spinlock_unlock(&pool->spin_lock);
    return b;
}

static bool pool_keep(struct pool *pool, struct pool_buffer *b)
{
    int class = class_of(b->kind, b->bytes);
    if (size_of(class) != b->bytes) return false;
    spinlock_lock(&pool->spin_lock);
    bool keep = b->bytes <= pool->limit && pool->kept <= pool->limit - b->bytes;
    if (keep) {
        b->next = pool->free[class];
        pool->free[class] = b;
        pool->kept += b->bytes;
    }
    spinlock_unlock(&pool->spin_lock);
    return keep;
}

/* Returns the bytes of chunk flags before the address. */
static CUdeviceptr flag_bytes_of(enum buffer_kind kind)
{
    return kind == BUFFER_FLAGGED ? BUFFER_FLAG_BYTES : 0;
}

/* Frees a buffer; its device is entered. */
static void release(struct pool_buffer *b)
{
    if (b->kind == BUFFER_PINNED) driver_get()->cuMemFreeHost(b->host);
    else driver_get()->cuMemFree(b->address - flag_bytes_of(b->kind));
    free(b);
}

static void pool_drop(struct pool *pool)
{
    struct pool_buffer *b;
    for (int c = 0; c < POOL_CLASSES; c++)
        while ((b = pool_take(pool, c))) release(b);
}

static CUresult allocate_on_device(struct pool_buffer *b, size_t bytes)
{
    const struct driver *driver = driver_get();
    CUdeviceptr flag_bytes = flag_bytes_of(b->kind);
    CUresult r = driver->cuMemAlloc(&b->address, bytes + flag_bytes);
    if (r != CUDA_SUCCESS || !flag_bytes) return r;
    r = stream_zero(b->device, b->address, flag_bytes);
    if (r != CUDA_SUCCESS) driver->cuMemFree(b->address);
    b->address += flag_bytes;
    return r;
}

static CUresult allocate(struct pool_buffer *b, size_t bytes)
{
    const struct driver *driver = driver_get();
    b->bytes = bytes;
    if (b->kind != BUFFER_PINNED) return allocate_on_device(b, bytes);
    CUresult r = driver->cuMemHostAlloc(&b->host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (r != CUDA_SUCCESS) return r;
    r = driver->cuMemHostGetDevicePointer(&b->address, b->host, 0);
    if (r != CUDA_SUCCESS) driver->cuMemFreeHost(b->host);
    return r;
}

/* Allocates the rounded size; else again with empty pools; else just the size asked for. */
static CUresult allocate_or_retry(struct device *d, struct pool_buffer *b, size_t rounded, size_t bytes)
{
    CUresult r = allocate(b, rounded);
    if (r == CUDA_SUCCESS) return r;
    mempool_drop(d);
    r = allocate(b, rounded);
    if (r == CUDA_SUCCESS || bytes > SIZE_MAX - SMALLEST) return r;
    return allocate(b, (bytes + SMALLEST - 1) / SMALLEST * SMALLEST);
}

/* Makes a buffer; d is entered. */
static struct pool_buffer *make(struct device *d, enum buffer_kind kind, int class, size_t bytes)
{
    struct pool_buffer *b = calloc(1, sizeof *b);
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    if (b) {
        b->kind = kind;
        b->device = d;
        r = allocate_or_retry(d, b, size_of(class), bytes);
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
    if (class < 0) return log_write(LOG_ERROR, "no buffer of %zu bytes: too long", bytes), NULL;
    struct pool_buffer *b = pool_take(pool_of(d, kind), class);
    if (b) return b->kind = kind, b;
    if (device_enter(d)) return NULL;
    b = make(d, kind, class, bytes);
    device_leave(d);
    return b;
}

static bool memory_low(void)
{
    size_t available, total;
    return driver_get()->cuMemGetInfo(&available, &total) == CUDA_SUCCESS && available < total / POOL_SHARE;
}

/* Frees the pools if the device is almost full: the program may need the memory. */
static void drop_if_low(struct device *d)
{
    struct device_state *p = device_state_of(d);
    int64_t now = stats_now();
    if (now < atomic_load_explicit(&p->next_check, memory_order_relaxed) || !device_try_enter(d)) return;
    atomic_store_explicit(&p->next_check, now + CHECK_NS, memory_order_relaxed);
    if (memory_low()) pool_drop(&p->pool), pool_drop(&p->flagged_pool);
    device_leave(d);
}

void mempool_put(struct pool_buffer *b)
{
    if (!b) return;
    struct device *d = b->device;
    bool checks = b->kind != BUFFER_PINNED && b->bytes >= CHECK_MIN_BYTES;
    if (pool_keep(pool_of(d, b->kind), b)) {
        if (checks) drop_if_low(d);
        return;
    }
    /* If the context is gone, so is its device memory. */
    if (!device_try_enter(d)) {
        free(b);
        return;
    }
    release(b);
    device_leave(d);
}

void mempool_drop(struct device *d)
{
    pool_drop(&device_state_of(d)->pool);
    pool_drop(&device_state_of(d)->flagged_pool);
    pool_drop(&device_state_of(d)->pinned_pool);
}
