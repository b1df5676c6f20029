/* worker.c: the one thread that compiles and loads modules, so that no MPI call waits for it.
 *
 * Started at the first request, or when one is to be expected. It ends when `generation` is no longer the one that it
 * was started in, which lets a stop and a new start follow each other without a flag that both would fight over. */
#include "kernel_inner.h"
#include "log.h"
#include "native_inner.h"
#include "place.h"
#include "toolchain.h"
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* NVRTC recurses deeply; the application's `ulimit -s` may be small. */
#define STACK_BYTES ((size_t)16 << 20)
#define NICE 10

/* All under kernel_lock. */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct module *queue, **queue_end = &queue;
static struct module *at_work;
static pthread_t thread;
static bool running, exiting;
static unsigned long generation;

/* Wakes all who wait for m. */
static void settle(struct module *m, enum stage stage)
{
    atomic_store_explicit(&m->stage, stage, memory_order_release);
    pthread_cond_broadcast(&kernel_changed);
}

static struct module *queue_take(void)
{
    struct module *m = queue;
    if (!m) return NULL;
    queue = m->queued;
    m->queued = NULL;
    if (!queue) queue_end = &queue;
    return m;
}

void worker_forget(struct kernel *k)
{
    struct module **link = &queue, *m;
    while ((m = *link)) {
        if (m->kernel != k) {
            link = &m->queued;
            continue;
        }
        *link = m->queued;
        m->queued = NULL;
        settle(m, STAGE_NONE);
    }
    queue_end = link;
}

static void work_one(struct module *m, struct gen **gen)
{
    enum stage stage = STAGE_FAILED;
    at_work = m;
    m->kernel->refs++;
    pthread_mutex_unlock(&kernel_lock);
    if (!m->device) {
        stage = native_load(gen, m);
    } else if (device_try_enter(m->device)) {
        stage = module_load(gen, m);
        device_leave(m->device);
    }
    if (stage == STAGE_FAILED && !m->trial && m->device) kernel_count(m->kernel, ORIGIN_FAILED);
    pthread_mutex_lock(&kernel_lock);
    at_work = NULL;
    settle(m, stage);
    kernel_unref(m->kernel);
}

/* What the first module would else wait for. */
static void warm_up(void)
{
    struct device *d = device_first();
    int target, major, minor;
    toolchain_guess(INT_MAX, &target, &major, &minor);
    if (d && device_try_enter(d)) device_leave(d);
}

static void *worker(void *started)
{
    unsigned long mine = (unsigned long)(uintptr_t)started;
    struct gen *gen = NULL;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    warm_up();
    pthread_mutex_lock(&kernel_lock);
    while (generation == mine) {
        struct module *m = queue_take();
        if (m)
            work_one(m, &gen);
        else
            pthread_cond_wait(&work, &kernel_lock);
        kernel_trim(true);
    }
    pthread_mutex_unlock(&kernel_lock);
    gen_close(gen);
    return NULL;
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

/* The thread is not in the child. What it had to do is forgotten, to be asked for again. */
static void fork_child(void)
{
    struct module *m;
    running = false;
    generation++;
    while ((m = queue_take())) settle(m, STAGE_NONE);
    if (at_work) {
        settle(at_work, STAGE_NONE);
        kernel_unref(at_work->kernel);
    }
    at_work = NULL;
    pthread_cond_init(&work, NULL);
    pthread_cond_init(&kernel_changed, NULL);
    pthread_mutex_unlock(&kernel_lock);
}

static void at_exit(void)
{
    pthread_mutex_lock(&kernel_lock);
    exiting = true;
    pthread_mutex_unlock(&kernel_lock);
    worker_stop();
}

/* Libraries loaded since the last call are torn down after the worker has stopped, not under its feet. */
void worker_guard_exit(void)
{
    atexit(at_exit);
}

static void prepare_process(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    worker_guard_exit();
}

/*
 * Faces.
 */

int worker_thread(pthread_t *to, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    /* The application's signals are its own threads' business. */
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(to, &attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

static int start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_process);
    int error = worker_thread(&thread, worker, (void *)(uintptr_t)generation);
    if (error) log_once(LOG_WARN, "worker", "no thread to compile kernels in: %s", strerror(error));
    running = !error;
    return error;
}

void worker_push(struct module *m)
{
    if (exiting || (!running && start())) {
        if (m->device) kernel_count(m->kernel, ORIGIN_FAILED);
        settle(m, STAGE_FAILED);
        return;
    }
    atomic_store(&m->stage, STAGE_PENDING);
    /* What serves all types that are pulled comes before what serves one. */
    bool first = m->kernel == &kernel_links;
    m->queued = first ? queue : NULL;
    if (first) queue = m;
    else *queue_end = m;
    if (!m->queued) queue_end = &m->queued;
    worker_wake();
}

void worker_expect(void)
{
    if (!exiting && !running) start();
}

void worker_wake(void)
{
    pthread_cond_signal(&work);
}

bool worker_wanted(void)
{
    pthread_mutex_lock(&kernel_lock);
    bool wanted = running;
    pthread_mutex_unlock(&kernel_lock);
    return wanted;
}

void worker_stop(void)
{
    struct module *m;
    pthread_mutex_lock(&kernel_lock);
    bool join = running;
    pthread_t ending = thread;
    running = false;
    generation++;
    while ((m = queue_take())) settle(m, STAGE_NONE);
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&kernel_lock);
    if (join) pthread_join(ending, NULL);
}
