/* device_internal.h: the state that device.c, stream.c and mempool.c keep for each device. */
#ifndef STRIDEC_DEVICE_INTERNAL_H
#define STRIDEC_DEVICE_INTERNAL_H
#include "base/spinlock.h"
#include "device.h"
#include <pthread.h>
#include <stdatomic.h>

#define POOL_STEPS 16   /* sizes per power of two */
#define POOL_CLASSES (48 * POOL_STEPS)
struct pool {
    struct spinlock spin_lock;
    struct pool_buffer *free[POOL_CLASSES];   /* by size class (mempool.c) */
    size_t kept, limit;                /* bytes in the free lists, and the most to keep */
};

#define POOL_SHARE 16   /* divides a device's memory: pools keep that part, and leave as much free */
#define STREAMS_KEPT 32
#define FLAG_BYTES 64   /* a cache line for each stream's flags */
#define FLAGS 64
struct device_state {
    struct device device;   /* first: both have the same address */
    atomic_bool primary;   /* the context is the ordinal's primary one */
    atomic_bool gone;     /* the context was destroyed; another may get its handle */
    CUdeviceptr sentinel;     /* an allocation in the context; 0: no memory for one */
    uint64_t sentinel_id;
    pthread_mutex_t lock;   /* for numbers and flags */
    struct spinlock spin_lock;   /* for the unused streams: */
    struct stream *streams;
    int streams_kept;
    uint64_t numbers;      /* a bit for each number below FLAGS in use */
    struct pool_buffer *flags;   /* flags of these streams; NULL if unused or no memory */
    struct pool_buffer *ended;   /* the same, in device memory: blocks that have ended */
    atomic_bool flags_tried;   /* allocation of `flags` was tried */
    atomic_uint ticket;    /* the last one, for all streams: a late store can't match another's ticket */
    struct pool pool, flagged_pool, pinned_pool;   /* for device memory; for BUFFER_FLAGGED; for BUFFER_PINNED */
    _Atomic int64_t next_check;   /* stats_now() of the next check for free memory */
    uint64_t gpu;
    int64_t clock_khz;
};

static inline struct device_state *device_state_of(struct device *d)
{
    return (struct device_state *)d;
}

/* Returns the first device in use; follow `next`. */
struct device *device_first(void);
/* Returns false once the context was reset or destroyed. Asks the driver; skip it after a query of a pointer on d. */
bool device_alive(struct device *d);
/* Enters d for callers that have no pointer on d. Returns false, without a log line, if the context is gone. */
bool device_try_enter(struct device *d);
/* Frees the unused streams of d; d must be entered. So must it for mempool_drop. */
void streams_drop(struct device *d);
void mempool_drop(struct device *d);

#endif
