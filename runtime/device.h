/* device.h: which memory a pointer is in; contexts, streams and staging buffers from pools.
 *
 * Thread safe. A pointer is asked about at each use: nothing is assumed about the device that was current
 * at MPI_Init. The application's current context is as it was after device_leave. */
#ifndef STRIDEC_DEVICE_H
#define STRIDEC_DEVICE_H
#include "driver.h"
#include <stddef.h>
#include <stdint.h>

/* One CUDA context in use. Created at first sight of a pointer that belongs to it; lives as long as the
 * process. For memory without a context of its own (pools, virtual memory mappings) it is the primary
 * context of the owning device. */
struct device {
    CUcontext context;
    CUdevice ordinal;
    int arch;               /* 90 for compute capability 9.0 */
    int multiprocessors;
    char name[64];
    struct device *next;    /* all devices of the process */
};

/* The device that owns the byte at p, or NULL for host memory of any kind (pinned memory too) and for
 * NULL. Managed memory counts as device memory. */
struct device *device_of(const void *p);
/* True if kernels may address [p, p + bytes) as it is: device or managed memory, or one allocation of pinned and
 * mapped host memory with one unified address. */
bool device_accessible(const void *p, size_t bytes);
/* The device of the current context, else the first device's primary context; NULL without a driver. */
struct device *device_default(void);

/* Makes d's context current until the matching device_leave, on this thread. 0 or -1 (logged). */
int device_enter(struct device *d);
void device_leave(struct device *d);

/* A stream of d from its pool, ordered after earlier work of the default stream; d must be entered. NULL on
 * failure (logged). */
CUstream stream_get(struct device *d);
void stream_put(struct device *d, CUstream s);
/* Waits for all work on s. 0 or -1 (logged). */
int stream_wait(struct device *d, CUstream s);

/* ORDER BUFFER_KIND */
enum buffer_kind {
    BUFFER_DEVICE,   /* cuMemAlloc on d */
    BUFFER_PINNED    /* pinned host memory, mapped, usable from every context */
};
struct buffer {
    enum buffer_kind kind;
    void *host;            /* address for the host; NULL for BUFFER_DEVICE */
    CUdeviceptr address;   /* address for kernels and copies on d */
    size_t bytes;          /* capacity, at least what was asked for; 256-byte aligned */
    struct device *device;
    struct buffer *next;   /* in the pool */
};
/* From the pool, else allocated (sizes rounded up to a power of two, so that they are found again).
 * d must be entered. NULL when memory is out, after giving the pool's free buffers back (logged). */
struct buffer *buffer_get(struct device *d, enum buffer_kind kind, size_t bytes);
void buffer_put(struct buffer *b);   /* NULL is allowed; any context may be current */

/* A line for the log: the driver's name and text of an error. Static storage. */
const char *driver_error(CUresult r);

/* Gives back everything that the pools hold; called at MPI_Finalize when no operation is pending. */
void device_finish(void);

#endif
