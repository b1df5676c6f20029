/* kernel.h: compiles, loads, chooses and launches the kernel that moves a canonical tree's bytes on a GPU.
 *
 * The process has one struct kernel per shape signature and one module per form signature (gen/form.h). Types with
 * different lists share a module. A worker thread compiles modules. Regular layouts (strides over one block) are moved
 * by numbers, by one module for all, and have modules of their own only where that pays (kernel_special.c). Until a
 * module is ready, the generic kernel (the interpreter) moves the bytes. Without NVRTC, or if compiling fails, the copy
 * engine moves them. So kernel_move always works. */
#ifndef STRIDEC_KERNEL_H
#define STRIDEC_KERNEL_H
#include "../../gen/gen.h"
#include "device/device.h"

struct kernel;

/* Counts of kernel requests in this process, for the statistics. */
struct kernel_counts {
    uint64_t compiled, cache_hits, aot_hits, failed;
};

/* Starts the worker and prepares what the first kernel needs, if a GPU is in use. Called at the first type. */
void kernel_warm_up(void);
/* Gives the worker something else to do with d, the first device in use: it calls chore(d) before the first module,
 * then each millisecond while it has none to make, until that returns true, but for a second at most. NULL: nothing,
 * and none runs any more when this returns. */
void kernel_set_chore(bool (*chore)(struct device *d));
/* Waits until the worker has nothing to do, if there is one, but `ns` nanoseconds at most. */
void kernel_settle(int64_t ns);
/* Returns the kernel of a canonical tree, with a reference (kernel_put); NULL only without memory. Starts compiling
 * what serves it at first, and never waits. A contiguous shape whose elements touch needs no module. */
struct kernel *kernel_get(const struct tree *canonical, struct reason *why);
void kernel_put(struct kernel *k);
const char *kernel_signature(const struct kernel *k);   /* of long lists a hash: tree_key */
const char *kernel_form_signature(const struct kernel *k);   /* of its module: short, without long lists */
enum gen_family kernel_family(const struct kernel *k);   /* family of its own module */
/* Returns the origin of its module: "compiled", "cache", "aot", "copy" (no module needed), "failed", "pending", or
 * "shared": nobody requested it, and one for all regular layouts serves. */
const char *kernel_state(const struct kernel *k);
struct kernel_counts kernel_counts(void);
/* Return and raise the number of uses of the layout in host memory (known_layouts.h). Both may miss some uses. */
unsigned kernel_used(const struct kernel *k);
void kernel_use(struct kernel *k, unsigned times);

enum kernel_direction { KERNEL_PACK, KERNEL_UNPACK };
/* KERNEL_NUMBERS: by the module for typed copies (typed_copy.h), which serves all regular layouts. */
enum kernel_way { KERNEL_SPECIAL, KERNEL_NUMBERS, KERNEL_INTERPRETED, KERNEL_COPIES };

struct kernel_job {
    enum kernel_direction direction;
    uint64_t packed;      /* address of packed byte `begin`: in device memory, or host memory that d can address */
    uint64_t user;        /* device address of element 0's origin plus the caller's root's offset (a shape has none) */
    int64_t extent;       /* bytes between elements; may be zero or negative */
    int64_t count;        /* elements */
    int64_t begin, end;   /* range of the packed stream, in bytes; 0 <= begin <= end <= count * size */
};

/* Enqueues the job on stream s of d, which must be entered. Adds the number of launches and copies to *launches and
 * sets *way; both may be NULL. Returns 0, or -1 if the driver refuses (logged). An empty range needs no launch. Does
 * not block, with one exception: a job of more than 4096 copies waits at most 2 s for the module that the worker is
 * making, its own or the interpreter, while neither is ready: for lists once a process. */
int kernel_move(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                int *launches, enum kernel_way *way);

/* Chunk flags: the sender's kernel sets one per packed chunk; the receiver's, on another GPU, waits for it. */
struct marks {
    uint64_t at;        /* device address of one 64-bit flag for each chunk of the job; no flag equals `value` before */
    uint64_t value;
    int64_t chunk;      /* bytes; a multiple of kernel_chunk's */
};
/* Flags that fit into one buffer (BUFFER_FLAGGED). */
#define CHUNK_FLAGS_MAX ((int64_t)(BUFFER_FLAG_BYTES / sizeof(uint64_t)))
/* Returns the smallest chunk for k's own kernel: bytes, a power of two, at most 64 KiB, at most CHUNK_FLAGS_MAX
 * chunks in the job from byte 0. Returns 0 if the kernel has no such entry, is not ready, or needs several launches. */
int64_t kernel_chunk(struct kernel *k, struct device *d, const struct kernel_job *job);
/* Packs and sets the flags, or waits for the flags and unpacks, in one launch, else like kernel_move. Returns 1, and
 * enqueues nothing, if that is not possible. A receiver gives up if a flag is missing for 200 us (GPU clock). Then
 * stream_was_late is true for the ticket *late (NULL when packing), and the moved bytes are invalid. */
int kernel_move_flagged(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                        const struct marks *marks, uint32_t *late, int *launches);

/* Requests k's own module on all devices in use, and waits until it is ready or has failed. For tests, benchmarks and
 * tune; never on an MPI path. */
void kernel_wait(struct kernel *k);
/* Waits until none of k's modules that were requested is pending, on any device or the host. */
void kernel_await(struct kernel *k);
/* Returns true if moves of so many packed bytes give k its own module, at once or in time (kernel_special.c). */
bool kernel_special_for(const struct kernel *k, int64_t bytes);
/* Waits like kernel_wait for the module that serves such moves: k's own, or the one for all regular layouts. */
void kernel_wait_for(struct kernel *k, int64_t bytes);
/* Returns true if k's own module is ready on d. Requests the module if nobody has. */
bool kernel_ready(struct kernel *k, struct device *d);
/* Returns true if the module is ready that serves k at first: its own, or the one for all regular layouts. */
bool kernel_ready_at_first(struct kernel *k, struct device *d);

/* Makes k, and all kernels that share its module, use a module with these knobs (gen.h) on d until the next call.
 * NULL knobs: the production module again. Waits for the module. Returns 0, or -1 if there is none; then the
 * production module stays in use. No other thread may move bytes meanwhile. For tune and benchmarks. */
int kernel_try(struct kernel *k, struct device *d, const char *const knobs[2]);
/* Makes modules for kernel_try on d in `threads` threads, in the disk cache. Returns when all are made or have
 * failed. */
struct kernel_trial {
    const struct kernel *kernel;
    const char *knobs[2];
};
void kernel_prepare(const struct kernel_trial *trials, int n, const struct device *d, int threads);
/* Lists settings to try on d, the model's first (free: gen_knob_list_free). Returns their number, or -1 with *why. */
int kernel_candidates(const struct kernel *k, const struct device *d, enum kernel_direction direction, char ***list,
                      struct reason *why);
/* Stops the worker and frees all modules; for MPI_Finalize. Returns false if a compile does not end within a second.
 * Then the modules stay, and tables that the worker reads must stay too. */
bool kernel_finish(void);

#endif
