/* compile_queue.c: the thread that compiles and loads modules, so that MPI calls do not wait for a compile.
 *
 * The worker starts at the first request or before it (compile_queue_prestart). It ends when it is no longer
 * `current`. MPI_Finalize waits a second for that. A thread that stays longer in NVRTC is left running, with its
 * data, and ends later; a later session may start another. Workaround (NVRTC 13.0): its exit destructors crash a
 * thread that still compiles (7 of 40 exits), so freeze() stops that thread first. */
#include "base/log.h"
#include "base/thread.h"
#include "observe/stats.h"
#include "observe/trace.h"
#include "cores.h"
#include "device/device_internal.h"
#include "device/gpu_runtime.h"
#include "kernel_internal.h"
#include "nvrtc_version.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <utlist.h>

#define NICE 10

#define STOP_NS INT64_C(1000000000)     /* wait of MPI_Finalize for the worker */
#define CHORE_NS INT64_C(1000000000)    /* how long a chore is tried, and how often */
#define LEAVE_NS INT64_C(2000000000)    /* wait of exit() for a worker in the driver, after that */
#define CHORE_PAUSE_NS 1000000
#define PAUSE_NS 200000                 /* between two checks whether a thread has ended */
#define CAREFUL_TRIES 500                     /* stop requests that respect locks of the C library; later ones do not */
#define FREEZE (SIGRTMAX - 1)

struct worker {
    pthread_t thread;
    struct module *at_work;             /* under kernel_lock */
    atomic_bool compiles, frozen;
    atomic_int asked;                   /* number of stop requests */
    struct worker *prev, *next;
};

/* All under kernel_lock; `current` is read without it. */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct module *queue;
static _Atomic(struct worker *) current;
static struct worker *left;             /* workers that were told to stop and have not ended */
static bool exiting, idle;
static _Thread_local struct worker *self;

/* Sets the stage and wakes all threads that wait for m. */
static void set_stage(struct module *m, enum stage stage)
{
    atomic_store_explicit(&m->stage, stage, memory_order_release);
    pthread_cond_broadcast(&kernel_changed);
}

static void queue_remove(struct module *m)
{
    DL_DELETE2(queue, m, before, behind);
    m->before = m->behind = NULL;
}

static void queue_clear(void)
{
    for (struct module *m; (m = queue);) {
        queue_remove(m);
        set_stage(m, STAGE_NONE);
    }
}

void compile_queue_forget(struct kernel *k)
{
    for (struct module *m = atomic_load(&k->modules); m; m = m->next)
        if (m->before) {
            queue_remove(m);
            set_stage(m, STAGE_NONE);
        }
}

/* Makes module m. If the worker is to end, the module has not failed and may be requested again. */
static void work_one(struct module *m, struct gen **gen)
{
    self->at_work = m;
    m->kernel->refs++;
    pthread_mutex_unlock(&kernel_lock);
    int64_t begun = trace_wanted() ? stats_now() : 0;
    enum stage stage = m->target->load(gen, m);
    if (begun) trace_add_plain(TRACE_COMPILE, "make a module", begun);
    if (stage == STAGE_FAILED && compile_queue_stopped()) stage = STAGE_NONE;
    if (stage == STAGE_FAILED && !m->trial && m->device) kernel_count(m->kernel, ORIGIN_FAILED);
    pthread_mutex_lock(&kernel_lock);
    self->at_work = NULL;
    set_stage(m, stage);
    kernel_unref(m->kernel);
}

static void pause_ns(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/*
 * Other work of the worker, between modules.
 */

static struct {
    pthread_mutex_t lock;               /* held while it runs; never together with kernel_lock */
    bool (*run)(struct device *d);
    int64_t until;
    atomic_bool due;                    /* until run has returned true; read without the lock */
} chore = {.lock = PTHREAD_MUTEX_INITIALIZER};

void kernel_set_chore(bool (*run)(struct device *d))
{
    pthread_mutex_lock(&chore.lock);
    chore.run = run;
    chore.until = 0;
    chore.due = run != NULL;
    pthread_mutex_unlock(&chore.lock);
}

static bool chore_due(void)
{
    return chore.due && device_first();
}

static void chore_step(void)
{
    pthread_mutex_lock(&chore.lock);
    if (chore_due()) {
        if (!chore.until) chore.until = stats_now() + CHORE_NS;
        if (chore.run(device_first()) || stats_now() > chore.until) chore.due = false;
    }
    pthread_mutex_unlock(&chore.lock);
}

/* Waits for work, or does a step of the chore. Called under kernel_lock. */
static void rest(void)
{
    struct timespec until;
    if (!chore_due()) {
        idle = true;
        pthread_cond_wait(&work, &kernel_lock);
        idle = false;
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += CHORE_PAUSE_NS;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    if (pthread_cond_timedwait(&work, &kernel_lock, &until) != ETIMEDOUT) return;
    pthread_mutex_unlock(&kernel_lock);
    chore_step();
    pthread_mutex_lock(&kernel_lock);
}

void kernel_settle(int64_t ns)
{
    int64_t until = stats_now() + ns;
    for (bool settled = false; !settled && stats_now() < until;) {
        pthread_mutex_lock(&kernel_lock);
        settled = !atomic_load(&current) || (idle && !queue);
        pthread_mutex_unlock(&kernel_lock);
        if (!settled) pause_ns(PAUSE_NS / 4);
    }
}

/* Does early what the first messages, and the first module, would otherwise wait for. */
static void warm_up(void)
{
    struct device *d = device_first();
    int target, major, minor;
    if (d && device_try_enter(d)) {
        device_warm_up(d);
        device_leave(d);
    }
    chore_step();
    nvrtc_version_guess(INT_MAX, &target, &major, &minor);
}

static void *worker(void *own)
{
    struct gen *gen = NULL;
    self = own;
    cores_spread();
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    warm_up();
    pthread_mutex_lock(&kernel_lock);
    while (!compile_queue_stopped()) {
        struct module *m = queue;
        if (m) {
            queue_remove(m);
            work_one(m, &gen);
        } else {
            rest();
        }
        kernel_trim(true);
    }
    pthread_mutex_unlock(&kernel_lock);
    gen_close(gen);
    return NULL;
}

bool compile_queue_stopped(void)
{
    return !self || atomic_load_explicit(&current, memory_order_acquire) != self;
}

/*
 * Stopping the worker
 */

static bool ended(struct worker *w)
{
    return pthread_tryjoin_np(w->thread, NULL) != EBUSY;
}

static bool ends_by(struct worker *w, int64_t until)
{
    for (int64_t ns = PAUSE_NS / 16; !ended(w); ns = ns < PAUSE_NS ? 2 * ns : ns) {
        if (stats_now() > until) return false;
        pause_ns(ns);
    }
    return true;
}

/* Frees the workers of `left` that have ended. */
static void free_ended(void)
{
    struct worker *w, *next;
    DL_FOREACH_SAFE(left, w, next) if (ended(w)) {
        DL_DELETE(left, w);
        free(w);
    }
}

bool compile_queue_stop(void)
{
    pthread_mutex_lock(&kernel_lock);
    struct worker *w = atomic_exchange(&current, NULL);
    queue_clear();
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&kernel_lock);
    bool there = w && !ends_by(w, stats_now() + STOP_NS);
    pthread_mutex_lock(&kernel_lock);
    free_ended();
    if (there) DL_APPEND(left, w);
    bool none = !left;
    pthread_mutex_unlock(&kernel_lock);
    if (w && !there) free(w);
    if (there) log_write(LOG_INFO, "a compile is not waited for any longer");
    return none;
}

void compile_queue_in_nvrtc(bool enters)
{
    sigset_t freezes;
    if (!self) return;
    sigemptyset(&freezes), sigaddset(&freezes, FREEZE);
    if (!enters) pthread_sigmask(SIG_BLOCK, &freezes, NULL);
    atomic_store(&self->compiles, enters);
    if (enters) pthread_sigmask(SIG_UNBLOCK, &freezes, NULL);
}

static struct sigaction before_freeze;

static uintptr_t interrupted(const void *context)
{
    const ucontext_t *u = context;
#if defined __x86_64__
    return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return (uintptr_t)u->uc_mcontext.pc;
#else
    return (void)u, 0;
#endif
}

/* Handles FREEZE: stops the thread for good. NVRTC's own code holds no C library lock that exit handlers need. */
static void frozen(int number, siginfo_t *info, void *context)
{
    sigset_t all;
    if (!self || !atomic_load(&self->compiles)) {
        if (before_freeze.sa_flags & SA_SIGINFO) before_freeze.sa_sigaction(number, info, context);
        else if (before_freeze.sa_handler != SIG_DFL && before_freeze.sa_handler != SIG_IGN)
            before_freeze.sa_handler(number);
        return;
    }
    if (!gpu_runtime->jit_contains(interrupted(context)) && atomic_load(&self->asked) < CAREFUL_TRIES) return;
    atomic_store(&self->frozen, true);
    for (sigfillset(&all);;) sigsuspend(&all);
}

/* Stops worker w for good. Returns true if w has ended instead. Outside NVRTC, waits for w; not for ever, as the driver
 * may hold w up until a stream goes on that waits for another rank. */
static bool freeze(struct worker *w)
{
    int64_t until = stats_now() + LEAVE_NS;
    while (!atomic_load(&w->frozen)) {
        if (ended(w)) return true;
        if (!atomic_load(&w->compiles) && stats_now() > until) return false;
        if (atomic_load(&w->compiles)) {
            atomic_fetch_add(&w->asked, 1);
            pthread_kill(w->thread, FREEZE);
        }
        pause_ns(PAUSE_NS);
    }
    return false;
}

static void freeze_all(void)
{
    struct sigaction own = {.sa_sigaction = frozen, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    if (!left) return;
    sigfillset(&own.sa_mask);
    sigaction(FREEZE, &own, &before_freeze);
    for (struct worker *w; (w = left);) {
        DL_DELETE(left, w);
        if (freeze(w)) free(w);
    }
}

/*
 * fork and exit.
 */

static void fork_prepare(void)
{
    pthread_mutex_lock(&kernel_lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&kernel_lock);
}

static void drop_work(struct worker *w)
{
    if (!w || !w->at_work) return;
    set_stage(w->at_work, STAGE_NONE);
    kernel_unref(w->at_work->kernel);
}

/* Forgets the work of threads that the child does not have; it may be requested again. */
static void fork_child(void)
{
    struct worker *w;
    queue_clear();
    drop_work(atomic_exchange(&current, NULL));
    DL_FOREACH(left, w) drop_work(w);
    left = NULL;
    pthread_cond_init(&work, NULL);
    pthread_mutex_init(&chore.lock, NULL);
    pthread_cond_init(&kernel_changed, NULL);
    pthread_mutex_unlock(&kernel_lock);
}

static void at_exit(void)
{
    pthread_mutex_lock(&kernel_lock);
    exiting = true;
    pthread_mutex_unlock(&kernel_lock);
    if (!compile_queue_stop()) freeze_all();
}

/* Registers at_exit again: the worker must stop before libraries loaded since the last call are torn down. */
void compile_queue_guard_exit(void)
{
    atexit(at_exit);
}

static void prepare_process(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    compile_queue_guard_exit();
}

static int start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_process);
    struct worker *w = calloc(1, sizeof *w);
    if (!w) return ENOMEM;
    atomic_store(&current, w), idle = false;
    int error = thread_start(&w->thread, COMPILER_STACK, worker, w);
    if (!error) return 0;
    log_once(LOG_WARN, "worker", "no thread to compile kernels in: %s", strerror(error));
    atomic_store(&current, NULL);
    free(w);
    return error;
}

void compile_queue_push(struct module *m)
{
    if (exiting || (!atomic_load(&current) && start())) {
        if (m->device) kernel_count(m->kernel, ORIGIN_FAILED);
        set_stage(m, STAGE_FAILED);
        return;
    }
    atomic_store(&m->stage, STAGE_PENDING);
    DL_APPEND2(queue, m, before, behind);
    compile_queue_wake();
}

void compile_queue_prestart(void)
{
    if (!exiting && !atomic_load(&current)) start();
    else compile_queue_wake();   /* there may be a chore */
}

void compile_queue_wake(void)
{
    pthread_cond_signal(&work);
}
