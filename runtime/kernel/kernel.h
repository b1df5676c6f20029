/* kernel.h: from a canonical tree to bytes moved on a GPU: compile, load, choose, launch.
 *
 * A struct kernel exists once per shape signature in the process, its module once per form signature (gen/form.h):
 * types that differ in their lists alone share it. A worker thread compiles it; until it is ready the generic kernel
 * serves, and where there is no NVRTC, or compiling fails, the copy engine (cuMemcpyAsync of a run, cuMemcpy2DAsync
 * and 3D of equal runs at even pitches). So kernel_move always does its job. */
#ifndef STRIDEC_KERNEL_H
#define STRIDEC_KERNEL_H
#include "../../gen/gen.h"
#include "device/device.h"

struct kernel;

/* What came of kernel requests so far in this process; read by stats. */
struct kernel_counts {
    uint64_t compiled, cache_hits, aot_hits, failed;
};

/* At the first type: where a GPU is in use, what the first kernel will need is made ready meanwhile, by the worker. */
void kernel_expect(void);
/* The kernel for a canonical tree; begins compiling it in the background if it is new, never waits.
 * Contiguous shapes whose elements touch need none and get one that copies. Never NULL but for lack of
 * memory. Keep the pointer; release with kernel_put. */
struct kernel *kernel_get(const struct tree *canonical, struct reason *why);
void kernel_put(struct kernel *k);
const char *kernel_signature(const struct kernel *k);   /* the shape signature */
const char *kernel_form_signature(const struct kernel *k);   /* its module's: short, with long lists left out */
enum gen_family kernel_family(const struct kernel *k);  /* what its own module will be */
/* How it came to be ready: "compiled", "cache", "aot", "copy" (no module needed), "failed", or "pending". */
const char *kernel_state(const struct kernel *k);
struct kernel_counts kernel_counts(void);
/* How often its layout was used in host memory (known_layouts.h); and counts more of it. May miss some. */
unsigned kernel_used(const struct kernel *k);
void kernel_use(struct kernel *k, unsigned times);

enum kernel_direction { KERNEL_PACK, KERNEL_UNPACK };
enum kernel_way { KERNEL_SPECIAL, KERNEL_INTERPRETED, KERNEL_COPIES };

struct kernel_job {
    enum kernel_direction direction;
    uint64_t packed;      /* address of packed byte `begin`: device memory, or host memory that d can address */
    uint64_t user;        /* address of the origin of element 0, plus the offset of the root of the caller's tree
                             (a kernel is made for a shape, whose root has none): device memory */
    int64_t extent;       /* bytes between elements; may be zero or negative */
    int64_t count;        /* elements */
    int64_t begin, end;   /* range of the packed stream, in bytes; 0 <= begin <= end <= count * size */
};

/* Enqueues the job on stream s of d (which must be entered): the bytes are there when s is done.
 * While neither the kernel nor the interpreter is ready, a job of more than 4096 copies waits for the worker
 * to make one of them, at most 2 s: compiling takes some 70 ms, that many copies longer. Nothing else waits.
 * Adds the number of launches and copies to *launches, tells the way in *way (both may be NULL).
 * Returns 0, or -1 when the driver refuses (logged). An empty range is 0 launches. */
int kernel_move(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                int *launches, enum kernel_way *way);

/*
 * Moves in step: a sender's kernel marks each chunk of the packed bytes as soon as it is there, and a receiver's, on
 * another GPU, waits for the marks, so that it need not be launched piece by piece.
 */
struct marks {
    uint64_t at;        /* device address of a 64-bit word for each chunk of the job, each different from value before */
    uint64_t value;
    int64_t chunk;      /* bytes; a multiple of kernel_chunk's */
};
/* The most of them in one buffer (BUFFER_MARKED). */
#define MARKS ((int64_t)(BUFFER_MARKS / sizeof(uint64_t)))
/* The least chunk in which k's own kernel can do a job from its first byte on, with MARKS of them at most; 0 where
 * it can't: it has no such entry, is not ready, or takes more than one launch. A power of two, at most 64 KiB. */
int64_t kernel_chunk(struct kernel *k, struct device *d, const struct kernel_job *job);
/* As kernel_move, in one launch: packs and marks, or unpacks behind the marks. A receiver that waits in vain for one
 * of them (200 us, in clocks of the GPU) gives up: *late then is the ticket for stream_was_late, and what it moved
 * is worth nothing. (Of packing it may be NULL.) 1, and nothing is enqueued, where that can't be. */
int kernel_move_marked(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                       const struct marks *marks, uint32_t *late, int *launches);

/* Waits until k is ready or has failed (tests, benchmarks, tune; never on an MPI path). */
void kernel_wait(struct kernel *k);
/* True if k's own module is ready on d, so that moves take it. Asks for it where nobody has. */
bool kernel_ready(struct kernel *k, struct device *d);

/* For those who measure (tune, benchmarks): k and all that share its code move on d by a module made with these knobs
 * (gen.h), until another call; knobs NULL: by production's again. Waits for it. 0, or -1 where there is none:
 * production's then serves. Not while another thread moves. */
int kernel_try(struct kernel *k, struct device *d, const char *const knobs[2]);
/* Makes modules for kernel_try ahead, in this many threads, and keeps them in the disk cache. Returns when all are
 * there or have failed. */
struct kernel_trial {
    const struct kernel *kernel;
    const char *knobs[2];
};
void kernel_prepare(const struct kernel_trial *trials, int n, int arch, int threads);
/* The settings worth a try, the model's first (gen_knob_list); free with gen_knob_list_free. -1 with *why. */
int kernel_candidates(const struct kernel *k, enum kernel_direction direction, char ***list, struct reason *why);
/* Stops the worker and frees all modules; at MPI_Finalize. False, and they stay, as must tables that the worker reads,
 * where it is at a compile that does not end within a second. */
bool kernel_finish(void);

#endif
