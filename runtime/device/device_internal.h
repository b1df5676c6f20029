/* device_internal.h: what device.c, stream.c and mempool.c keep beside each struct device. */
#ifndef STRIDEC_PLACE_H
#define STRIDEC_PLACE_H
#include "base/spinlock.h"
#include "device.h"
#include <pthread.h>
#include <stdatomic.h>

#define POOL_STEPS 16 /* sizes from one power of two to the next */
#define POOL_CLASSES (48 * POOL_STEPS)
struct pool {
    struct spinlock latch;
    struct pool_buffer *free[POOL_CLASSES];   /* by size (mempool.c) */
    size_t kept, limit;                /* bytes in the free lists, and how many may stay there */
};

#define KEPT_OF 16 /* the part of a device's memory that its pools keep, or else leave to the program */
#define STREAMS_KEPT 32
#define FLAG_BYTES 64 /* a cache line for each stream's words */
#define FLAGS 64
struct place {
    struct device device; /* first, so that the address of one is the address of the other */
    atomic_bool primary;  /* its context is the primary one of its ordinal */
    atomic_bool gone;     /* its context was reset or destroyed, and all that was in it; another may have the same handle */
    CUdeviceptr sign;     /* an allocation in the context, and the driver's number for it; 0 where there was no memory */
    uint64_t sign_id;
    pthread_mutex_t lock; /* of what streams have: their numbers and words */
    struct spinlock latch;   /* of the unused ones: */
    struct stream *streams;
    int streams_kept;
    uint64_t numbers;      /* a bit for each number below FLAGS that a stream has */
    struct pool_buffer *flags;   /* the words of those streams; NULL until wanted, or where there is no memory */
    atomic_bool flags_had; /* they were asked for */
    atomic_uint ticket;    /* the last one; of all streams of the device, so that a late store is no other's */
    struct pool pool, marked; /* of device memory; of BUFFER_MARKED */
    _Atomic int64_t look;  /* when it is next asked how much memory is free, by stats_now */
    uint64_t gpu;          /* device_gpu's */
    int64_t clock_khz;
};

static inline struct place *place_of(struct device *d)
{
    return (struct place *)d;
}

/* All devices seen so far; follow `next`. */
struct device *device_first(void);
/* False once its context was reset or destroyed. The driver is asked: whoever has just asked about a pointer on d
 * knows. */
bool device_lives(struct device *d);
/* device_enter for all others, without a word where the context is gone. */
bool device_try_enter(struct device *d);
/* Both give back what is pooled for d, which must be entered. */
void streams_drop(struct device *d);
void mempool_drop(struct device *d);

#endif
