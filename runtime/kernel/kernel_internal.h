/* kernel_internal.h: what kernel.c, module.c, compile_queue.c, module_load.c, launch.c, launch_graph.c and
 * copy_engine.c share. */
#ifndef STRIDEC_KERNEL_INNER_H
#define STRIDEC_KERNEL_INNER_H
#include "code_target.h"
#include "kernel.h"
#include <pthread.h>
#include <stdatomic.h>
#define HASH_NONFATAL_OOM 1 /* the default ends the process */
#include <uthash.h>

/* ORDER ORIGIN: names in kernel.c. */
enum origin { ORIGIN_PENDING, ORIGIN_COMPILED, ORIGIN_CACHE, ORIGIN_AOT, ORIGIN_COPY, ORIGIN_FAILED, ORIGINS };

#define MODULE_GRAPHS 4
enum { ENTRY_MARKED = GEN_WORDS_MAX, ENTRIES };
struct graph;

/* One kernel on one device, generated with certain knobs; without a device: in host memory (host_pack.h). */
struct module {
    struct kernel *kernel;
    const struct code_target *target;
    struct device *device;
    bool trial;           /* made by kernel_try with knobs of its own, not production's */
    char *knobs[2];       /* by gen_direction; NULL: the model's. Of a trial from the start, else from STAGE_READY on */
    _Atomic(struct module *) instead; /* of production's: the trial that serves in its place */
    atomic_int stage;
    struct gen_plan plan; /* this and the next two only from STAGE_READY on */
    CUmodule handle;
    CUfunction entry[2][ENTRIES];       /* by kernel_direction, then as plan.words; ENTRY_MARKED of a plan that has it */
    void *library;                      /* without a device, in place of these three; */
    stridec_host_function *host[GEN_HOST_WAYS];   /* by kernel_direction; then GEN_HOST_COPY */
    _Atomic(struct pool_buffer *) program;   /* the kernel's tree as the interpreter reads it, once uploaded */
    _Atomic(struct pool_buffer *) lists;   /* what its own kernel reads, once uploaded */
    /* By entry, then by the number of the stream (launch_graph.c). */
    _Atomic(struct graph *) graphs[2][ENTRIES][MODULE_GRAPHS];
    struct module *next;                /* the kernel on another device */
    struct module *behind, *before;     /* in the worker's queue; `before` is NULL of modules that are not in it */
};

struct kernel {
    char *signature;
    struct tree *tree; /* its root's offset is 0; NULL: the interpreter itself */
    struct form *form; /* of tree */
    struct kernel *code; /* whose modules serve this one: NULL for its own, the interpreter's for GEN_GENERIC, else that of
                            the form signature, of which it holds a reference */
    struct kernel *from, *to; /* of a pair: its module moves from one's form into the other's; references */
    enum gen_family family;
    int64_t size; /* packed bytes of one element */
    int word;     /* widest word that the tree allows */
    atomic_int origin;
    atomic_uint uses; /* kernel_used */
    _Atomic(struct module *) modules; /* grows at the head; read without a lock */
    _Atomic(struct host_pack *) native;   /* host_pack.c */
    _Atomic(void (*)(struct host_pack *)) host_pack_free;   /* set before that */
    int refs;                         /* under kernel_lock; the worker holds one while it makes a module */
    int served;                       /* kernels in use that have this one for their code */
    struct kernel *prev, *next;       /* among the unused, oldest first, while refs is 0; */
    bool loaded;                      /* it is among those of them that have modules */
    UT_hash_handle hh;
};

/* Guards the table, the unused list, references, the creation of modules and the worker's queue. */
extern pthread_mutex_t kernel_lock;
extern pthread_cond_t kernel_changed;    /* a module left STAGE_PENDING */
extern struct kernel kernel_interpreter; /* for any tree; in no table */
extern struct kernel kernel_links;       /* typed_copy_batch.c: for many links; in no table */

/* kernel.c. With kernel_lock held: */
void kernel_unref(struct kernel *k);
/* Of the table, with a reference for the caller: NULL where there is none; false, and k is gone, without memory. */
struct kernel *kernel_find(const char *signature);
bool kernel_add(struct kernel *k, struct reason *why);
void kernel_trim(bool loaded_too); /* frees unused kernels past the bound; lets go of the lock meanwhile */
/* The kernel whose modules serve k. */
static inline struct kernel *kernel_code(const struct kernel *k)
{
    return k->code ? k->code : (struct kernel *)k;
}
/* Sets what became of k, and counts it. */
void kernel_count(struct kernel *k, enum origin o);

/* module.c. Without kernel_lock: k on d, made at the first call, or the trial that serves instead; NULL without
 * memory. */
struct module *module_of(struct kernel *k, struct device *d);
struct module *module_own(struct kernel *k, struct device *d);   /* production's in any case */
/* Returns the module of k for a target that is no device, made at the first call; NULL without memory. */
struct module *module_elsewhere(struct kernel *k, const struct code_target *target);
struct module *module_trial(struct kernel *k, struct device *d, const char *const knobs[2]);
/* Asks for a module that nobody asked for yet. Returns its stage, of which acquire has been made. */
enum stage module_request(struct module *m);
static inline enum stage module_stage(const struct module *m)
{
    return (enum stage)atomic_load_explicit(&m->stage, memory_order_acquire);
}
/* Device addresses of the lists, and of the interpreter's program, of m's kernel: made and uploaded at the first
 * call; 0 where they can't be had. */
uint64_t module_lists(struct module *m);
uint64_t module_program(struct module *m);
/* True if one is loaded; true if one is being made. */
bool modules_loaded(const struct kernel *k);
bool modules_pending(const struct kernel *k);
/* Device memory for a type goes with the type; who moves bytes holds a reference until they have arrived. */
void modules_forget_lists(struct kernel *k);
/* Gives back what k has on devices. Work that still reads it is waited for, which is why this is not done
 * on an application's thread but at MPI_Finalize. */
void modules_free(struct kernel *k);

/* compile_queue.c. compile_queue_push, compile_queue_expect, compile_queue_forget and compile_queue_wake with kernel_lock held. */
void compile_queue_push(struct module *m);
void compile_queue_expect(void);   /* the thread will be wanted: starts it */
void compile_queue_forget(struct kernel *k);   /* nobody waits for k's modules any more: they leave the queue */
void compile_queue_wake(void);
/* Ends the worker, and waits a second for it at most. False where one is left at a compile: what it may touch must
 * stay. */
bool compile_queue_stop(void);
void compile_queue_guard_exit(void);
/* The calling thread, if it is a worker, enters NVRTC, or has left it: there it may be stopped for good at the
 * process's exit. */
void compile_queue_compiles(bool enters);
/* Without it: a thread that may call NVRTC and takes no signals. 0 or an error number. */
int compile_queue_thread(pthread_t *to, void *(*run)(void *arg), void *arg);

/* typed_copy_pair.c: lets go of the pairs that it knows. */
void pairs_forget(void);
void nests_forget(void);   /* the same of typed_copy_strided.c */

/* False once the calling worker is to end. */
bool compile_queue_wanted(void);

/* module_load.c. Generates, finds or compiles a module for a device of this architecture (90), into the disk cache
 * and no further. Opens *gen at need. Returns 0 once it is there, else -1. */
int module_prepare(struct gen **gen, const struct form *f, const char *const knobs[2], int arch);

/* launch.c: drops whole elements from the front of a job. Two's complement makes of a negative extent a step back. */
void launch_skip(struct kernel_job *job, int64_t size);
/* Where a launch of words of this width must end, at most `end`: a multiple of the element where several
 * fit the limits of the plan and of the grid. The range begins in the first element. */
int64_t launch_end(const struct gen_plan *plan, int word, int64_t size, int64_t end);
/* True if the next element begins where the root's next copy (or the block's next byte) would. */
bool launch_continues(const struct tree *t, int64_t extent);
/* True if a range that begins in the first element and ends before packed byte `end`
 * goes into elements past it that do not continue the root. */
bool launch_wraps(const struct tree *t, int64_t extent, int64_t end);
/* The widest entry, no wider than limit, that the addresses and steps or'ed in `all` and the range allow; the last one,
 * bytes, always does. A range that is no whole number of words needs a second launch, which must be worth it: never a
 * third. */
int launch_entry(const struct gen_plan *plan, uint64_t all, int64_t bytes, int limit);
/* No more blocks than the multiprocessors that kernels may use: they go round more often. */
int64_t launch_limit(int64_t blocks);
int64_t launch_grid(const struct gen_way *way, int64_t words);
/* Enqueues one kernel of m; flagged: it tells the stream's end. 0 or -1 (logged). */
int launch_enqueue(struct module *m, enum kernel_direction direction, int entry, int64_t blocks, void *argument,
                   struct stream *s, bool flagged, int *launches);
/* Where k's lists lie on d, uploaded at the first call; 0 where they can't be. */
uint64_t launch_lists(struct kernel *k, struct device *d);
/* The same of its tree as the interpreter reads it; 0 also where that is long. */
uint64_t launch_program(struct kernel *k, struct device *d);

/* launch_graph.c: enqueues one kernel of m as a graph, on m's device, which must be entered; false, and nothing is
 * enqueued, where that can't be now or ever. */
bool launch_graph(struct module *m, enum kernel_direction direction, int entry, const CUDA_KERNEL_NODE_PARAMS *kernel,
                  struct stream *s);
/* Gives back the graphs of m, of which none may be in use; its device must be entered, if it is there. */
void launch_graphs_free(struct module *m, bool there);

/* copy_engine.c: the job by the copy engine. job->begin is below k->size. */
int copy_engine_move(const struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                     int *launches);
/* True if the job takes more than `many` copies. */
bool copy_engine_exceed(const struct kernel *k, struct device *d, const struct kernel_job *job, int64_t many);
int copy_engine_one(struct device *d, struct stream *s, uint64_t to, uint64_t from, int64_t bytes, int *launches);

#endif
