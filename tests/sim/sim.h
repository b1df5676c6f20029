/* sim.h: the inside of the simulated driver.
 *
 * One lock guards all state. Exported calls take it with ENTER and give it back on return; every other
 * function here expects it held. */
#ifndef SIM_H
#define SIM_H
#include "block.h"
#include "simgpu.h"
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define SIM_DEVICES_MAX 16
#define SIM_POISON 0xCD   /* fresh device memory */
#define SIM_SPARSE ((size_t)1 << 30)   /* longer allocations take host memory only where they are touched */
#define SIM_CANARY 0xFD   /* between the end of an allocation and the end of its last page */
#define SIM_SHARED_MAX 49152   /* bytes of shared memory of a block */

/* Takes the lock; fails without cuInit, in a forked child, and where SIMGPU_FAIL says so. */
CUresult sim_enter(const char *call);
void sim_leave(const CUresult *entered);
/* Gives the lock to others for a moment: whatever they may change is to be looked up again. */
void sim_pause(void);
#define ENTER_ANY() \
    __attribute__((cleanup(sim_leave))) const CUresult entered = sim_enter(__func__); \
    if (entered != CUDA_SUCCESS) return entered
/* For a call that waits for all work of the process, and holds up all other calls meanwhile (SIMGPU_HOLD). */
void sim_hold(void);
/* As ENTER_ANY, with the current context in `ctx`; a context that has failed stays failed. */
#define ENTER() \
    ENTER_ANY(); \
    CUcontext ctx = context_current(); \
    if (!ctx) return CUDA_ERROR_INVALID_CONTEXT; \
    if (ctx->failed) return ctx->failed

/* capture.c: the failure of a call that a capture does not allow, which breaks it, or CUDA_SUCCESS; of what touches the legacy
 * stream. */
CUresult capture_refuses(const char *call, size_t length);
CUresult capture_legacy(void);
struct CUstream_st;
struct op;
/* The failure of a call that cannot be captured, and breaks the capture of s, or CUDA_SUCCESS. */
CUresult capture_excludes(const struct CUstream_st *s);
/* Takes o, which is enqueued on s, if s is captured; false if it is not. */
bool capture_keeps(const struct CUstream_st *s, struct op *o);
/* Ends the capture of a stream that goes. */
void capture_forget(const struct CUstream_st *s);

/* graph.c: captured work, in order. It lives as long as a capture, graph, executable graph or pending launch has it. */
struct work;
struct work *work_new(CUcontext ctx);
void work_add(struct work *w, struct op *o);
void work_unref(struct work *w);
/* A graph of w, which it takes, or an empty one for NULL. */
CUresult graph_new(CUgraph *out, struct work *w);

/* counts.c */
extern struct simgpu_counts sim_counts;
CUresult sim_injected(const char *call);   /* the failure that SIMGPU_FAIL asks for, or CUDA_SUCCESS */
long sim_number(const char *variable, long otherwise);

/* device.c */
int device_count(void);
int device_sm(void);                    /* 90 for compute capability 9.0 */

/* context.c */
struct CUctx_st {
    int device;
    bool primary, live, reset;
    int retained;                      /* primary contexts */
    unsigned flags;
    CUresult failed;                   /* sticky, as on hardware */
    bool peer[SIM_DEVICES_MAX];        /* memory of these devices is reachable */
    struct CUstream_st *streams;       /* legacy and per-thread ones included */
    struct CUstream_st *legacy, *per_thread;
    struct CUctx_st *next;
};
extern struct CUctx_st *contexts;      /* live ones */
CUcontext context_current(void);       /* NULL if none */
bool context_live(CUcontext c);
void contexts_fail(CUresult r);        /* a kernel's fault: each context stays failed until it is closed */
void context_misused(const char *what);   /* CUDA 13.0 crashes */

/* memory.c */
enum alloc_kind {
    ALLOC_DEVICE,      /* cuMemAlloc */
    ALLOC_POOL,        /* cuMemAllocAsync: belongs to a device, not to a context */
    ALLOC_IMPORT,      /* cuIpcOpenMemHandle */
    ALLOC_BEHIND,      /* cuMemCreate: at an address of the simulator's own, and */
    ALLOC_MAPPED,      /* cuMemMap: where the program sees it */
    ALLOC_MANAGED,
    ALLOC_PINNED,
    ALLOC_REGISTERED
};
struct alloc {
    uintptr_t base;
    size_t bytes;      /* as asked for */
    size_t span;       /* whole pages that are protected; 0 for memory that the host may touch */
    char *view;        /* where the simulator reads and writes it: a second mapping, or base */
    enum alloc_kind kind;
    int device;
    CUcontext context; /* NULL for ALLOC_POOL, ALLOC_BEHIND and ALLOC_MAPPED */
    uint64_t id;
    bool synchronous;  /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    bool dying;        /* freed in stream order, the free has not run yet */
    uint64_t file;     /* where its bytes lie in the device's memory file */
    uint64_t block;    /* what it shares with the other small allocations of its block, or has alone */
    int opens;         /* imports: times opened */
    int owner;         /* imports: the process; file and block are those there */
    uint64_t behind;   /* mappings: which memory, and a bit for each device that may use it */
    unsigned accessible;
};
/* The allocation that holds byte p, or NULL. Valid until the next allocation or release. */
struct alloc *memory_find(uintptr_t p);
struct alloc *memory_add(const struct alloc *a);
CUresult memory_device_alloc(int device, CUcontext context, enum alloc_kind kind, size_t bytes, CUdeviceptr *out);
CUresult memory_host_alloc(CUcontext context, enum alloc_kind kind, size_t bytes, void **out);
void memory_release(struct alloc *a);
void memory_release_context(CUcontext context);
/* Where the simulator may touch [p, p + bytes): p itself for memory that it does not know; NULL if the
 * range leaves its allocation. */
char *memory_view(uintptr_t p, size_t bytes);
bool memory_is_device(uintptr_t p);   /* device, pool, import, mapping or managed */
bool memory_within(uintptr_t p, size_t bytes);   /* there is any */
int memory_closed(void);              /* the protection of device memory outside kernels */
/* Lets kernels of c reach what they may reach, until memory_close; sim_leave closes. */
void memory_open(CUcontext c);
void memory_close(void);
void memory_usage(int device, size_t *used, size_t *total);
/* Returns the descriptor of the memory file that a device allocation lies in, for export. */
int memory_file(const struct alloc *a);
/* Returns what context has open of a block of another process's memory between these offsets, or NULL. */
struct alloc *memory_imported(const struct alloc *wanted);
/* Returns true if another context of the same device has memory of the same process's device open. */
bool memory_imported_elsewhere(const struct alloc *wanted);

/* vmm.c: the whole of the range of addresses, with what lies in it or without, that p is reserved in; false where it is in none. */
bool memory_reserved(uintptr_t p, uintptr_t *base, size_t *bytes);

/* The driver's number of an allocation or mapping; the types of handles by which a mapping's memory can be shared. */
uint64_t memory_mapping_id(const struct alloc *a);
int memory_mapping_types(const struct alloc *a);

/* fault.c */
void fault_install(void);
void fault_range(uintptr_t base, size_t bytes);   /* host accesses here are reported */
extern _Thread_local volatile int fault_in_kernel;

/* stream.c */
struct op {
    struct op *next;
    uint64_t seq;                       /* order of enqueueing, over all streams */
    /* Keeps what o holds: captured work runs often. CUDA_ERROR_NOT_READY: what o waits for has not come. */
    CUresult (*run)(struct op *o);
    void (*drop)(struct op *o);         /* frees what o holds, not o; may be NULL */
    CUcontext context;
};
struct CUstream_st {
    struct CUctx_st *context;
    unsigned flags;
    bool dead;                          /* destroyed, kept for the events that name it */
    int refs;
    struct op *head, **tail;
    struct CUstream_st *next;
};
struct CUstream_st *stream_new(struct CUctx_st *c, unsigned flags);
void stream_unref(struct CUstream_st *s);
/* NULL if the handle is of no live stream. 0 and the special handles mean those of ctx. */
struct CUstream_st *stream_find(CUstream handle, CUcontext ctx);
void streams_close(struct CUctx_st *c);
/* Appends a malloc'd op, which the stream then owns. Returns its sequence number; 0 if it was captured. */
uint64_t stream_add(struct CUstream_st *s, struct op *o);
/* Runs operations of s as long as none waits for a value; true once all up to `upto` have run. stream_start also runs
 * those of other streams, which may write such a value. */
bool stream_try(struct CUstream_st *s, uint64_t upto);
bool stream_start(struct CUstream_st *s, uint64_t upto);
/* These wait for values, with the lock given back now and then. */
CUresult stream_run(struct CUstream_st *s, uint64_t upto);
CUresult context_run(struct CUctx_st *c);
void device_run(int device);            /* everything pending in its contexts */
#define SIM_ALL UINT64_MAX
bool stream_eager(void);                /* SIMGPU_EAGER */

/* event.c: interprocess events, by what their handles name: a file of counters, and which of them. */
CUresult event_export(CUevent event, int *fd, uint64_t *at);
CUresult event_import(CUcontext ctx, int fd, uint64_t at, CUevent *out);
/* Lets all that s gets from now on wait until `other` has run operation `upto`. */
CUresult stream_await(struct CUstream_st *s, struct CUstream_st *other, uint64_t upto);

/* module.c */
typedef void kernel_entry(void **arguments, const unsigned grid[3], const unsigned block[3],
                          const struct block_calls *calls);
struct CUfunc_st {
    struct CUmod_st *module;
    struct CUctx_st *context;
    kernel_entry *run;
    unsigned arguments;
    unsigned long *bytes;               /* of each argument */
    struct CUfunc_st *next;
    char name[];
};
bool function_live(CUfunction f);
void modules_close(struct CUctx_st *c);
/* This thread's shared memory of the function's module; NULL with *bytes = 0 if it has none. */
void *function_shared(CUfunction f, size_t *bytes);

/* launch.c */
struct launch {
    CUfunction function;
    unsigned grid[3], block[3];
    void **arguments;
};
/* Checks l and makes *out of it, with its own copies of the arguments, for launch_free. */
CUresult launch_make(struct launch *out, const struct launch *l, CUcontext ctx);
void launch_free(struct launch *l);
/* Enqueues a copy of l and counts it. seq may be NULL. */
CUresult launch_add(struct CUstream_st *s, const struct launch *l, uint64_t *seq);

#endif
