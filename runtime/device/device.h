/* device.h: which memory a pointer is in; contexts, streams and staging buffers from pools.
 *
 * Thread safe. A pointer is asked about at each use: nothing is assumed about the device that was current
 * at MPI_Init. The application's current context is as it was after device_leave. */
#ifndef STRIDEC_DEVICE_H
#define STRIDEC_DEVICE_H
#include "driver.h"
#include <stddef.h>
#include <stdint.h>

/* One CUDA context in use. Created at first sight of a pointer that belongs to it; stays as long as the
 * process, also where the application resets the device or destroys the context: what it has afterwards is
 * another one. For memory without a context of its own (pools, virtual memory mappings) it is the primary
 * context of the owning device. */
struct device {
    CUcontext context;
    CUdevice ordinal;
    int arch;               /* 90 for compute capability 9.0 */
    int multiprocessors;
    char name[64];
    struct device *next;    /* all devices of the process */
};

/* The device that owns the byte at p, or NULL for host memory of any kind (pinned memory too) and for NULL. Managed
 * memory counts as device memory. Where the driver does not tell, what the process can't read is taken for memory of
 * a device that nobody can enter: calls on it are errors. */
struct device *device_of(const void *p);
/* The whole of a plain allocation on a device, and the driver's number for it, which no other of the process has. */
struct allocation {
    uint64_t start, span, id;
};
/* As device_of; *a is the allocation, or all zeros around what is none of cuMemAlloc's. Of those that the thread has
 * met lately one short question tells. */
struct device *device_around(const void *p, struct allocation *a);
/* True if the byte at p lies in device memory that is not managed: the host has no part in it. */
bool device_only(const void *p);
/* True if kernels may address [p, p + bytes) as it is: device or managed memory, or one allocation of pinned and
 * mapped host memory with one unified address. */
bool device_accessible(const void *p, size_t bytes);
/* The device of the current context, else one that is in use, else the first device's primary context; NULL without a
 * driver. */
struct device *device_default(void);

/* Makes d's context current until the matching device_leave, on this thread. 0 or -1 (logged). Of a device that a
 * pointer of the application's lies on now: what is not sure of that asks before (device_internal.h). */
int device_enter(struct device *d);
void device_leave(struct device *d);

/* Which GPU of the machine it is, the same number in all processes; parts of one are one. */
uint64_t device_gpu(struct device *d);
/* That many microseconds in clocks of its multiprocessors, at the highest rate. */
int64_t device_clocks(struct device *d, int64_t us);

/* A queue of work on a device, used by one thread at a time. */
struct stream {
    CUstream handle;       /* stream_use gives it */
    int priority;          /* the driver's number for it */
    int number;            /* among the streams of the device now: small numbers are taken first */
    bool foreign;          /* the application's: plain launches alone, no graphs */
    bool batched;          /* more work follows before anybody waits: no completion flags. The user's to set */
    bool busy;             /* nobody has waited for its last work */
    bool flagged;          /* the last work on the stream stores `ticket` to the stream's word when it is done */
    uint32_t ticket;
    struct stream *next;   /* in the pool */
};
/* A stream of d from its pool, ordered after earlier work of the default stream; d must be entered. NULL on
 * failure (logged). */
struct stream *stream_get(struct device *d);
void stream_put(struct device *d, struct stream *s);
/* The handle, for enqueuing work that the next stream_wait waits for. */
CUstream stream_use(struct stream *s);
/* The address to which a kernel that is about to be enqueued may store *ticket, 32 bits wide, once all that it did can
 * be seen by the host; 0 where there is none. Whoever has enqueued such a kernel sets s->flagged. */
CUdeviceptr stream_flag(struct device *d, struct stream *s, uint64_t *ticket);
/* The address to which a kernel may store *ticket, 32 bits wide, to say that it gave up; 0 where there is none. Once
 * s is waited for, whether it did. */
CUdeviceptr stream_late(struct device *d, struct stream *s, uint64_t *ticket);
bool stream_was_late(struct device *d, const struct stream *s, uint32_t ticket);
/* True if all work on s is soon known to be done by that word: then nothing is left to wait for. Unlike what
 * follows, it asks nothing of the driver, and d need not be entered. */
bool stream_told(struct device *d, struct stream *s);
/* Waits for all work on s; costs nothing where that was waited for before. 0 or -1 (logged). */
int stream_wait(struct device *d, struct stream *s);

/* ORDER BUFFER_KIND */
enum buffer_kind {
    BUFFER_DEVICE,   /* cuMemAlloc on d */
    BUFFER_LASTING,  /* the same, for what stays as long as a type: rounded up by a sixteenth at most */
    BUFFER_MARKED,   /* the same, behind BUFFER_MARKS bytes in one allocation, zeros at first and written by nobody but who
                        marks (kernel.h) */
    BUFFER_PINNED    /* pinned host memory, mapped, usable from every context */
};
struct pool_buffer {
    enum buffer_kind kind;
    void *host;            /* address for the host; NULL for device memory */
    CUdeviceptr address;   /* address for kernels and copies on d */
    size_t bytes;          /* capacity, at least what was asked for; 256-byte aligned */
    struct device *device;
    struct device *home;   /* of pinned memory: in whose context it was allocated; it goes with that */
    struct pool_buffer *next;   /* in the pool */
};
#define BUFFER_MARKS 65536
/* From the pool, else allocated (sizes rounded up, to a power of two or as the kind says, so that they are found
 * again). Enters the device to allocate. NULL when memory is out, after giving the pool's free buffers back
 * (logged). */
struct pool_buffer *mempool_get(struct device *d, enum buffer_kind kind, size_t bytes);
void mempool_put(struct pool_buffer *b);   /* NULL is allowed; any context may be current */

/* A line for the log: the driver's name and text of an error. Static storage. */
const char *driver_error(CUresult r) __attribute__((cold));
/* Returns true of an error after which every call on the context fails (a kernel has touched what it may not): says
 * so, once a context. Whoever meets it writes no line of its own. */
bool driver_lost(CUresult r) __attribute__((cold));

/* Gives back everything that the pools hold; called at MPI_Finalize when no operation is pending. */
void device_finish(void);

#endif
