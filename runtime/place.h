/* place.h: what device.c, stream.c and buffer.c keep beside each struct device. */
#ifndef STRIDEC_PLACE_H
#define STRIDEC_PLACE_H
#include "device.h"
#include <pthread.h>
#include <stdatomic.h>

#define POOL_CLASSES 48
struct pool {
    pthread_mutex_t lock;
    struct buffer *free[POOL_CLASSES]; /* by size: 4 KiB << class */
    size_t kept, limit;                /* bytes in the free lists, and how many may stay there */
};

#define STREAMS_KEPT 32
struct place {
    struct device device; /* first, so that the address of one is the address of the other */
    atomic_bool primary;  /* its context is the primary one of its ordinal */
    pthread_mutex_t lock; /* of the streams */
    CUstream streams[STREAMS_KEPT];
    int stream_count;
    struct pool pool; /* BUFFER_DEVICE */
};

static inline struct place *place_of(struct device *d)
{
    return (struct place *)d;
}

/* All devices seen so far; follow `next`. */
struct device *device_first(void);
/* device_enter without a word where it fails: the application may have destroyed the context. */
bool device_try_enter(struct device *d);
/* Both give back what is pooled for d, which must be entered. */
void streams_drop(struct device *d);
void buffers_drop(struct device *d);

#endif
