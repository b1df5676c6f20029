/* kernel_internal.h: shared by the files of kernel/. */
#ifndef STRIDEC_KERNEL_INTERNAL_H
#define STRIDEC_KERNEL_INTERNAL_H
#include "code_target.h"
#include "kernel.h"
#include <pthread.h>
#include <stdatomic.h>
#define HASH_NONFATAL_OOM 1 /* the default ends the process */
#include <uthash.h>

/* ORDER ORIGIN: names in kernel.c. */
enum origin { ORIGIN_PENDING, ORIGIN_COMPILED, ORIGIN_CACHE, ORIGIN_AOT, ORIGIN_COPY, ORIGIN_FAILED, ORIGINS };

#define MODULE_GRAPHS 4
#define MARKS_PATIENCE_US 200   /* how long a kernel waits for one chunk flag */
enum { ENTRY_FLAGGED = GEN_WORDS_MAX, ENTRIES };
struct graph;

/* One kernel on one device, generated with certain knobs. Without a device: code for host memory (host_pack.h). */
struct module {
    struct kernel *kernel;
    const struct code_target *target;
    struct device *device;
    bool trial;           /* made by kernel_try with its own knobs; not for production */
    char *knobs[2];       /* by gen_direction; NULL: the model's. Set early in a trial, else from STAGE_READY on */
    _Atomic(struct module *) override;   /* in a production module: the trial that is used in its place */
    atomic_int stage;
    struct gen_plan plan;   /* plan, handle and entry are valid from STAGE_READY on */
    CUmodule handle;
    CUfunction entry[2][ENTRIES];       /* by kernel_direction, then as plan.words; ENTRY_FLAGGED if the plan has it */
    struct {                            /* of kernel_typed_copy, for streams that wait for each other */
        CUfunction flags[2], exchange[2];   /* for few and for many words (gen.h) */
        atomic_bool early;              /* they may begin while the kernel before them ends: they wait for it */
    } order;
    void *library;                      /* library and host replace plan, handle and entry when there is no device */
    const char *origin;                 /* of the library: as kernel_state has it */
    stridec_host_function *host[GEN_HOST_WAYS];   /* by kernel_direction; then GEN_HOST_COPY */
    _Atomic(struct pool_buffer *) program;   /* the tree for the interpreter, once uploaded */
    _Atomic(struct pool_buffer *) lists;   /* the lists for the kernel's own module, once uploaded */
    struct launch_graphs {              /* by entry (launch_graph.c) */
        _Atomic(struct graph *) graph[MODULE_GRAPHS];
        _Atomic uint64_t key[MODULE_GRAPHS];   /* hash of its arguments; 0: none */
        atomic_int stream[MODULE_GRAPHS];   /* number of its last stream, from 1 on; 0: there is none */
        atomic_uint turn;               /* where the search for one to change begins */
        atomic_bool refused;            /* the driver can't make one here */
    } graphs[2][ENTRIES];
    struct module *next;                /* the same kernel on another device */
    struct module *behind, *before;     /* in the worker's queue; `before` is NULL outside the queue */
};

struct kernel {
    char *signature;     /* the tree's key, or the form's signature */
    struct tree *tree;   /* the root's offset is 0; NULL: the interpreter itself */
    struct form *form; /* of tree */
    struct kernel *code;   /* owner of the modules; NULL: itself; GEN_GENERIC: interpreter; else by form, referenced */
    struct kernel *from, *to;   /* of a pair, with references: its module copies from one form into the other */
    enum gen_family family;
    int64_t size; /* packed bytes of one element */
    int64_t tree_bytes;   /* host memory of its tree, about */
    int word;     /* widest word that the tree allows */
    atomic_int origin;
    atomic_uint uses;
    atomic_uint large_moves;   /* by numbers, that count for a module of its own (kernel_special.c) */
    _Atomic(struct module *) modules;   /* new ones come first; read without a lock */
    _Atomic(struct host_pack *) host_pack;   /* host_pack.c */
    _Atomic(void (*)(struct host_pack *)) host_pack_free;   /* frees host_pack; set before it */
    int refs;                         /* under kernel_lock; the worker holds one while it makes a module */
    int served;                       /* number of kernels in use whose `code` is this one */
    struct kernel *prev, *next;       /* list of unused kernels (refs is 0), oldest first */
    bool loaded;                      /* the kernel is in the list of unused kernels with modules */
    UT_hash_handle hh;
};

/* Guards the table, the lists of unused kernels, references, the creation of modules and the worker's queue. */
extern pthread_mutex_t kernel_lock;
extern pthread_cond_t kernel_changed;    /* signalled when a module leaves STAGE_PENDING */
extern struct kernel kernel_interpreter;   /* for any tree; not in the table */
extern struct kernel kernel_typed_copy;       /* many typed copies per launch; not in the table */
extern struct kernel kernel_reduce[GEN_REDUCE_TYPE_TOTAL];   /* reductions, by type (reduce.c); not in the table */

/* kernel.c. Callers of kernel_unref, kernel_find, kernel_add and kernel_trim hold kernel_lock. */
void kernel_unref(struct kernel *k);
/* kernel_find returns a kernel with a reference, or NULL. kernel_add frees k and returns false without memory. */
struct kernel *kernel_find(const char *signature);
bool kernel_add(struct kernel *k, struct reason *why);
void kernel_trim(bool loaded_too);   /* frees unused kernels above the limit; releases the lock meanwhile */
/* Returns the kernel whose modules are used for k. */
static inline struct kernel *kernel_code(const struct kernel *k)
{
    return k->code ? k->code : (struct kernel *)k;
}
/* Sets the origin of k's module and counts it. */
void kernel_count(struct kernel *k, enum origin o);

/* kernel_special.c. Returns true if the module for typed copies can move k: a chain of strides, or one block. */
bool kernel_is_regular(const struct kernel *k);
/* Returns true if k needs its own module from its first use on. */
bool kernel_special_first(const struct kernel *k);
/* Counts a move of so many words that the own module did not make; returns true if that module is worth its compile. */
bool kernel_special_due(struct kernel *k, int64_t words);

/* module.c. Returns k's module on d, or its trial; NULL without memory. Callers do not hold kernel_lock. */
struct module *module_of(struct kernel *k, struct device *d);
struct module *module_own(struct kernel *k, struct device *d);   /* the production module, never a trial */
/* Returns k's module for a target without a device; creates it at the first call. NULL without memory. */
struct module *module_for_target(struct kernel *k, const struct code_target *target);
struct module *module_trial(struct kernel *k, struct device *d, const char *const knobs[2]);
/* Requests a module that nobody requested before. Returns its stage (read with acquire). */
enum stage module_request(struct module *m);
static inline enum stage module_stage(const struct module *m)
{
    return (enum stage)atomic_load_explicit(&m->stage, memory_order_acquire);
}
/* Return device addresses of the kernel's lists and interpreter program, uploaded at the first call; 0 on failure. */
uint64_t module_lists(struct module *m);
uint64_t module_program(struct module *m);
/* Return true if a module is loaded, and if a module is being made. */
bool modules_loaded(const struct kernel *k);
bool modules_pending(const struct kernel *k);
/* Puts the device memory of k's type in *list, by `next`, to be given back without a lock: a driver may hold that up
 * while a stream waits. Callers that move bytes hold a reference to k until the bytes have arrived. */
void modules_forget_lists(struct kernel *k, struct pool_buffer **list);
/* Frees k's device resources. Waits for work that reads them: application threads never free kernels with modules. */
void modules_free(struct kernel *k);

/* compile_queue.c. Callers of compile_queue_push, _prestart, _forget and _wake hold kernel_lock. */
void compile_queue_push(struct module *m);
void compile_queue_prestart(void);   /* starts the thread, which will be needed */
void compile_queue_forget(struct kernel *k);   /* removes k's modules from the queue */
void compile_queue_wake(void);
/* Returns true once the calling worker is to end, and always in other threads. */
bool compile_queue_stopped(void);
/* Stops the worker; waits at most 1 s. Returns false if a worker still compiles; then its data must stay. */
bool compile_queue_stop(void);
void compile_queue_guard_exit(void);
/* Tells that the calling worker enters or leaves NVRTC. Inside NVRTC it may be stopped for good at process exit. */
void compile_queue_in_nvrtc(bool enters);
/* Bytes, of threads that compile: NVRTC recurses deeply, and the application's `ulimit -s` may be small. */
#define COMPILER_STACK ((size_t)16 << 20)

/* module_load.c. Generates, finds or compiles a module for a GPU and stores it in the disk cache only. Opens *gen at
 * need. Returns 0, or -1 on failure. */
int module_prepare(struct gen **gen, const struct form *f, const char *const knobs[2], const struct gen_gpu *gpu);

/* launch.c. Removes whole elements from the front of a job. Two's complement makes a negative extent a step back. */
void launch_skip(struct kernel_job *job, int64_t size);
/* Returns the end of a launch with words of this width, at most `end`: a multiple of the element size if several
 * elements fit the limits of plan and grid. The range begins in the first element. */
int64_t launch_end(const struct gen_plan *plan, int word, int64_t size, int64_t end);
/* Returns true if the next element begins where the root's next copy (or the block's next byte) would begin. */
bool launch_continues(const struct tree *t, int64_t extent);
/* Returns true if a range from the first element to packed byte `end` reaches elements that don't continue the root. */
bool launch_wraps(const struct tree *t, int64_t extent, int64_t end);
/* Returns the entry with the widest word, at most `limit`, for `all` (addresses and steps, or'ed) and a range; the last
 * (bytes) always fits. A narrower tail costs a second launch, never a third; only a long range is worth that. */
int launch_entry(const struct gen_plan *plan, uint64_t all, int64_t bytes, int limit);
int64_t launch_grid(const struct gen_way *way, int word, int64_t words);

/* launch_enqueue.c. Limits the number of blocks to the multiprocessors that kernels may use; each block then does more
 * rounds. */
int64_t launch_limit(int64_t blocks);
/* Enqueues one kernel of a module and counts it. `flagged`: it signals the stream's end. Returns 0 or -1 (logged). */
struct launch {
    struct module *module;
    enum kernel_direction direction;
    int entry;
    int64_t blocks;
    void *argument;
    size_t bytes;   /* of it, that are read; 0: it is never the same again */
    bool flagged;
};
int launch_enqueue(const struct launch *l, struct stream *s, int *launches);
/* Has a launch that ends soon signal that by a flag of the stream's, of which the host knows sooner than of the driver.
 * Sets its arguments `done`, `ticket` and `ended` (struct stridec_launch); leaves those of others at 0. */
void launch_flag(struct device *d, struct stream *s, int64_t blocks, uint64_t *done, uint64_t *ticket, uint64_t *ended);

/* launch.c. Return the device addresses of k's lists, and of its tree for the interpreter (0 also if the lists are
 * long). Upload them at the first call. Return 0 on failure. */
uint64_t launch_lists(struct kernel *k, struct device *d);
uint64_t launch_program(struct kernel *k, struct device *d);

/* launch_numbers.c. Moves a job that begins in its first element, of a regular kernel or (NULL) contiguous bytes, by
 * the module for typed copies. Requests `special` (may be NULL) where that pays, or where numbers can't serve. Returns
 * 1 if not possible now, else kernel_move's result. */
int launch_numbers(struct kernel *k, struct module *special, struct device *d, struct stream *s,
                   const struct kernel_job *job, int *launches);
/* Do what kernel_chunk and kernel_move_flagged do, of regular kernels, by the module for typed copies. */
int64_t launch_numbers_chunk(const struct kernel *k, struct device *d, const struct kernel_job *job);
int launch_numbers_flagged(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                           const struct marks *marks, uint32_t *late, int *launches);

/* launch_graph.c. Enqueues one kernel of m as a graph, on m's entered device. Returns false if that is not possible. */
bool launch_graph(struct module *m, const struct launch *l, const CUDA_KERNEL_NODE_PARAMS *kernel, struct stream *s);
/* Frees the graphs of m; none may be in use. `there`: m's device still exists and is entered. */
void launch_graphs_free(struct module *m, bool there);

/* copy_engine.c. Moves the job by the copy engine. job->begin is below k->size. */
int copy_engine_move(const struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                     int *launches);
/* Returns true if the job takes more than `many` copies. */
bool copy_engine_exceeds(const struct kernel *k, struct device *d, const struct kernel_job *job, int64_t many);
int copy_engine_one(struct device *d, struct stream *s, uint64_t to, uint64_t from, int64_t bytes, int *launches);

#endif
