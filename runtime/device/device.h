/* device.h: locates memory; contexts, streams and buffers from pools.
 *
 * Thread safe. The driver is asked about a pointer at each use: the device current at MPI_Init does not count.
 * device_leave restores the application's current context. */
#ifndef STRIDEC_DEVICE_H
#define STRIDEC_DEVICE_H
#include "../../gen/gpu.h"
#include "driver.h"
#include <stddef.h>
#include <stdint.h>

/* A CUDA context in use, kept from the first pointer in it until the process ends. After a device reset the application
 * has another one. Memory without a context (pools, virtual mappings) counts to the primary context of its device. */
struct device {
    CUcontext context;
    CUdevice ordinal;
    struct gen_gpu gpu;     /* its properties */
    char name[64];
    struct device *next;    /* all devices of the process */
};

/* Returns the device that owns the byte at p; NULL for host memory, pinned too, and for NULL. Managed memory is device
 * memory. If neither the driver nor the process knows the memory, returns a device that can't be entered. */
struct device *device_of(const void *p);
/* An allocation of cuMemAlloc; `id` is the driver's number, unique in the process. Or memory of cuMemCreate where it is
 * mapped: ids differ between memories, and one memory may be mapped twice. */
struct allocation {
    uint64_t start, span, id;
    bool mapped;
};
/* Returns device_of(p); *a is the allocation, all zero if none of these. A recent one costs one query, mapped two. */
struct device *device_locate(const void *p, struct allocation *a);
/* Sets *a to the allocation that this thread's device_locate last found around p, without a query: for memory that was
 * located in the same MPI call. Returns false if it is not known. */
bool device_located(const void *p, struct allocation *a);
/* Returns true if p, which lay in *a when that was located, still lies there. Asks the driver once. */
bool device_holds_still(const struct allocation *a, const void *p);
/* Returns true if this thread may have located allocations that it does not remember. */
bool device_forgets(void);
/* Returns true if p is in device memory that is not managed: the host can't access it. */
bool device_unmanaged(const void *p);
/* Returns true if kernels may use [p, p + bytes): device or managed memory, or one pinned allocation mapped there. */
bool device_accessible(const void *p, size_t bytes);
/* Returns the current context's device, else one in use, else device 0's primary context; NULL without a driver. */
struct device *device_default(void);
/* Returns the device of a stream of the program's; NULL if there is no context, or the driver can't tell. */
struct device *device_of_stream(CUstream handle);
/* Returns false if a stream of the program's is another context's than d's. */
bool device_has_stream(const struct device *d, CUstream handle);

/* Sets the properties and the name (64 characters) of the driver's GPU `ordinal`, which gets no context. Returns false
 * if it can't. */
bool device_describe(const struct driver *driver, CUdevice ordinal, struct gen_gpu *gpu, char name[64]);

/* Makes d's context current on this thread until device_leave. Returns 0, or -1 (logged). The application must own
 * memory on d now; else use device_try_enter. */
int device_enter(struct device *d);
void device_leave(struct device *d);

/* Returns the GPU's number on this machine, the same in all processes. Parts of a GPU share it. */
uint64_t device_gpu_id(struct device *d);
/* Converts microseconds to clocks of d's multiprocessors at their highest rate. */
int64_t device_us_to_clocks(struct device *d, int64_t us);

/* A stream, used by one thread at a time. */
struct stream {
    CUstream handle;       /* read it by stream_use */
    int priority;          /* the driver's number */
    int number;            /* among d's streams now; the smallest free number is taken */
    bool foreign;          /* the application's: only plain launches, no graphs */
    bool batched;          /* more work follows before a wait: no completion flags. Set by the user */
    bool busy;             /* its last work was not waited for */
    bool flagged;          /* its last work sets a flag when done, the one of number told - 1 */
    int told;              /* flags that work sets which was not waited for */
    struct stream *next;   /* in the pool */
};
/* Returns a stream of d, ordered after the default stream's earlier work; NULL on failure (logged). d is entered. */
struct stream *stream_get(struct device *d);
void stream_put(struct device *d, struct stream *s);   /* NULL is allowed */
/* Sets device memory to zeroes, on a stream of stridec's: the default one can't be used while the program captures
 * another. Waits. d is entered. */
CUresult stream_zero(struct device *d, CUdeviceptr at, size_t bytes);
/* Returns a stream of the program's as one to enqueue on: without flags or graphs, nothing stays with it. */
struct stream stream_foreign(CUstream handle);
/* Returns true while the program captures its stream into a graph. */
bool stream_is_captured(CUstream handle);
/* A 32-bit word that a stream writes, or waits for. */
struct stream_word {
    CUdeviceptr address;
    uint32_t value;
    bool waits;            /* until the word has this value; else it is written */
};
/* Enqueues these operations in their order. The context is current. Returns 0 or -1 (logged). */
int stream_words(CUstream handle, const struct stream_word words[], int n);
/* Returns the handle to enqueue work on; the next stream_wait waits for this work. */
CUstream stream_use(struct stream *s);
#define STREAM_DONE 1   /* always the same, so that launches alike have equal arguments */
/* Returns where the next kernel may store STREAM_DONE (32 bits) once its results are visible, and in *ended a word that
 * counts its blocks; 0: nowhere. Call stream_flagged when it is launched. */
CUdeviceptr stream_flag(struct device *d, struct stream *s, uint64_t *ended);
void stream_flagged(struct stream *s);
/* Makes what the first messages need of d (entered): streams, and their flags. */
void device_warm_up(struct device *d);
/* Returns where a kernel may store *ticket (32 bits) to say that it gave up; 0: nowhere. stream_was_late checks. */
CUdeviceptr stream_late_flag(struct device *d, struct stream *s, uint64_t *ticket);
bool stream_was_late(struct device *d, const struct stream *s, uint32_t ticket);
/* Spins some microseconds on the flag. Returns true if all work on s is done. Without driver calls: d may be left. */
bool stream_spin_done(struct device *d, struct stream *s);
/* Waits for all work on s; does nothing if that was waited for before. Returns 0, or -1 (logged). */
int stream_wait(struct device *d, struct stream *s);

/* Has *e, a new event, tell when the stream has come to here. Its device is entered, as for the next three. Returns
 * false (logged) on failure. */
bool event_record(CUevent *e, CUstream handle);
/* Returns true once the stream, which may be gone, has come so far. */
bool event_passed(CUevent e);
/* Has a stream's later work wait until the event has passed. Returns 0 or -1 (logged). */
int event_await(CUevent e, CUstream handle);
void event_free(CUevent e);

/* ORDER BUFFER_KIND */
enum buffer_kind {
    BUFFER_DEVICE,   /* cuMemAlloc on d */
    BUFFER_LASTING,  /* cuMemAlloc for the life of a type: rounded up by at most a sixteenth */
    BUFFER_FLAGGED,  /* cuMemAlloc with BUFFER_FLAG_BYTES of chunk flags before `address`: 0, set by kernel.h alone */
    BUFFER_PINNED    /* pinned host memory, mapped; it goes with d's context */
};
struct pool_buffer {
    enum buffer_kind kind;
    void *host;            /* NULL for device memory */
    CUdeviceptr address;   /* for kernels and copies on d */
    size_t bytes;          /* capacity, at least as asked for; 256-byte aligned */
    struct device *device;
    struct pool_buffer *next;   /* in the pool */
};
#define BUFFER_FLAG_BYTES 65536
/* Returns a buffer of a rounded size from the pool, or a new one; enters d to allocate. Without memory frees the pool's
 * buffers and tries again. Returns NULL on failure (logged). */
struct pool_buffer *mempool_get(struct device *d, enum buffer_kind kind, size_t bytes);
void mempool_put(struct pool_buffer *b);   /* NULL is allowed; any context may be current */

/* Returns the driver's text of an error. Static storage. */
const char *driver_error(CUresult r) __attribute__((cold));
/* Returns true if the error breaks the context for good, and logs that once a context; the caller logs nothing. */
bool driver_lost(CUresult r) __attribute__((cold));

/* Frees all that the pools hold. Called at MPI_Finalize without pending operations. */
void device_finish(void);

#endif
