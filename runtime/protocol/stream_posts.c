/* stream_posts.c: the posting thread, and what streams enqueue for it. */
#include "stream_posts.h"
#include "base/backoff.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "channel_internal.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES ((size_t)4096)
#define WORD_APART ((size_t)64)   /* a cache line each */
#define OPERATIONS_MOST 128       /* a call; the driver takes less than 256 */

struct post {
    MPI_Request request;
    _Atomic uint32_t *done;       /* what the thread writes */
    CUdeviceptr address;          /* the same word, for streams */
    bool under_way, captured;
    atomic_bool failed;           /* the MPI has refused a start, or a message; the next call says so */
    UT_hash_handle hh;
};

/* Requests that one call starts. A program that makes the same call again, or captures it again, finds the same group:
 * so no graph needs one of its own. */
struct group {
    int n;
    UT_hash_handle hh;
    struct post *post[];          /* the key */
};

/* A group that a stream has come to. The MPI may write the requests: they are the thread's own. */
struct arrival {
    const struct group *group;
    int left;                     /* so many are not complete */
    bool started;
    struct arrival *next;
    struct {
        MPI_Request request;
        bool complete;
    } of[];
};

/* Words of requests. */
struct page {
    struct pool_buffer *memory;
    size_t used;                  /* words */
    struct page *next;
};

/* Guards all below. Not held around calls of the MPI or of CUDA: host functions take it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct arrival *arrivals, **arrivals_end = &arrivals;
static struct post *table;
static struct group *groups;
static struct page *pages;
static pthread_t thread;
static bool running, ended;
static bool busy;                 /* the thread has arrivals */
static atomic_int unstarted;      /* arrivals */

/* ---- the thread ---- */

/* Moves new arrivals to the end of the thread's list; waits for one if that is empty. Returns false at the end. */
static bool take(struct arrival **list)
{
    struct arrival **end = list;
    while (*end) end = &(*end)->next;
    pthread_mutex_lock(&lock);
    busy = *list;
    while (!*list && !arrivals && !ended) pthread_cond_wait(&arrived, &lock);
    *end = arrivals, busy = *list;
    arrivals = NULL, arrivals_end = &arrivals;
    bool go = !ended;
    pthread_mutex_unlock(&lock);
    return go;
}

static void complete(struct arrival *a, int i, bool ok)
{
    struct post *p = a->group->post[i];
    if (!ok) atomic_store(&p->failed, true);
    a->of[i].complete = true, a->left--;
    atomic_store_explicit(p->done, 1, memory_order_release);
}

/* The calls are as the program's own: stridec serves them. */
static void start(struct arrival *a)
{
    a->started = true;
    for (int i = 0; i < a->group->n; i++) {
        a->of[i].request = a->group->post[i]->request;
        if (MPI_Start(&a->of[i].request) == MPI_SUCCESS) continue;
        log_write(LOG_ERROR, "the MPI has refused to start a request in stream order");
        complete(a, i, false);
    }
    atomic_fetch_sub(&unstarted, 1);
}

static void test(struct arrival *a)
{
    for (int i = 0; i < a->group->n; i++) {
        int there = 0;
        if (a->of[i].complete) continue;
        bool ok = MPI_Test(&a->of[i].request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS;
        if (!ok) log_write(LOG_ERROR, "a message in stream order has failed");
        if (there || !ok) complete(a, i, ok);
    }
}

static void *attend(void *arg)
{
    struct arrival *list = NULL;
    (void)arg;
    for (unsigned turn = 0; take(&list); turn++) {
        for (struct arrival **link = &list, *a; (a = *link);) {
            if (!a->started) start(a), turn = 0;
            test(a);
            if (a->left) link = &a->next;
            else *link = a->next, free(a), turn = 0;
        }
        backoff(turn);
    }
    return NULL;
}

/* Signals are the application's threads' business. Caller holds `lock`. */
static bool run(void)
{
    sigset_t all, before;
    if (running) return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    running = !pthread_create(&thread, NULL, attend, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return running;
}

/* ---- requests ---- */

bool posts_able(CUstream stream)
{
    struct device *d = spinlock_needed ? device_of_stream(stream) : NULL;
    return d && channel_device_able(d);
}

struct post *post_of(MPI_Request request)
{
    struct post *p;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, &request, sizeof request, p);
    pthread_mutex_unlock(&lock);
    return p;
}

/* Caller holds `lock`, or adds the page then. */
static struct page *page_new(void)
{
    struct device *d = device_default();
    struct page *page = d ? calloc(1, sizeof *page) : NULL;
    if (!page || !(page->memory = mempool_get(d, BUFFER_PINNED, PAGE_BYTES))) return free(page), NULL;
    memset(page->memory->host, 0, PAGE_BYTES);
    return page;
}

/* Gives a request the next word. Caller holds `lock`. Returns false if all pages are full. */
static bool word_get(struct post *p)
{
    if (!pages || pages->used == PAGE_BYTES / WORD_APART) return false;
    size_t at = pages->used++ * WORD_APART;
    p->done = (void *)((char *)pages->memory->host + at), p->address = pages->memory->address + at;
    return true;
}

struct post *post_make(MPI_Request request)
{
    struct post *p = post_of(request);
    if (p || !(p = calloc(1, sizeof *p))) return p;
    p->request = request;
    mempool_hold();
    pthread_mutex_lock(&lock);
    while (!word_get(p)) {
        pthread_mutex_unlock(&lock);
        struct page *more = page_new();
        if (!more) return free(p), NULL;
        pthread_mutex_lock(&lock);
        more->next = pages, pages = more;
    }
    HASH_ADD(hh, table, request, sizeof p->request, p);
    bool runs = run();
    pthread_mutex_unlock(&lock);
    return runs ? p : NULL;
}

bool post_under_way(const struct post *p)
{
    return p->under_way;
}

bool post_captured(const struct post *p)
{
    return p->captured;
}

MPI_Request post_request(const struct post *p)
{
    return p->request;
}

/* Returns the group of these posts, the same each time; NULL without memory. */
static struct group *group_of(struct post *const posts[], int n)
{
    struct group *g;
    size_t bytes = (size_t)n * sizeof(*posts);
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, groups, posts, bytes, g);
    if (!g && (g = calloc(1, sizeof *g + bytes))) {
        g->n = n;
        memcpy(g->post, posts, bytes);
        HASH_ADD_KEYPTR(hh, groups, g->post, bytes, g);
    }
    pthread_mutex_unlock(&lock);
    return g;
}

/* ---- what is enqueued ---- */

/* Runs on a thread of the driver's, when the stream comes to it. */
static void CUDA_CB arrive(void *group)
{
    const struct group *g = group;
    struct arrival *a = calloc(1, sizeof *a + (size_t)g->n * sizeof *a->of);
    if (a) a->group = g, a->left = g->n;
    pthread_mutex_lock(&lock);
    if (a) *arrivals_end = a, arrivals_end = &a->next, atomic_fetch_add(&unstarted, 1);
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
    if (a) return;
    log_write(LOG_ERROR, "out of memory: messages in stream order are not started");
    for (int i = 0; i < g->n; i++) {
        atomic_store(&g->post[i]->failed, true);
        atomic_store_explicit(g->post[i]->done, 1, memory_order_release);
    }
}

/* Waits for the words, and clears them. */
static CUresult await(struct post *const posts[], int n, CUstream stream)
{
    CUstreamBatchMemOpParams of[OPERATIONS_MOST];
    CUresult r = CUDA_SUCCESS;
    for (int i = 0, many = 0; i < n && r == CUDA_SUCCESS; i++) {
        CUstreamBatchMemOpParams *p = &of[many];
        memset(p, 0, 2 * sizeof *p);
        p[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, p[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
        p[0].waitValue.address = posts[i]->address, p[0].waitValue.value = 1;
        p[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, p[1].writeValue.address = posts[i]->address;
        many += 2;
        if (many == OPERATIONS_MOST || i == n - 1)
            r = driver_get()->cuStreamBatchMemOp(stream, (unsigned)many, of, 0), many = 0;
    }
    return r;
}

static CUresult ring(struct post *const posts[], int n, CUstream stream)
{
    struct group *g = group_of(posts, n);
    return g ? driver_get()->cuLaunchHostFunc(stream, arrive, g) : CUDA_ERROR_OUT_OF_MEMORY;
}

static int enqueue(CUresult (*how)(struct post *const posts[], int n, CUstream stream), struct post *const posts[],
                   int n, CUstream stream)
{
    CUcontext context, was;
    const struct driver *driver = driver_get();
    for (int i = 0; i < n; i++)
        if (atomic_exchange(&posts[i]->failed, false))
            return log_write(LOG_ERROR, "an earlier message in stream order has failed"), -1;
    if (!n) return 0;
    CUresult r = driver->cuStreamGetCtx(stream, &context);
    if (r == CUDA_SUCCESS) r = driver->cuCtxPushCurrent(context);
    if (r == CUDA_SUCCESS) r = how(posts, n, stream), driver->cuCtxPopCurrent(&was);
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r)) log_write(LOG_ERROR, "a stream refuses messages of the MPI's: %s", driver_error(r));
    return -1;
}

int posts_start(struct post *const posts[], int n, CUstream stream, bool captured)
{
    if (enqueue(ring, posts, n, stream)) return -1;
    for (int i = 0; i < n; i++) posts[i]->under_way = true, posts[i]->captured = captured;
    return 0;
}

int posts_wait(struct post *const posts[], int n, CUstream stream)
{
    for (int i = 0; i < n; i++) posts[i]->under_way = false;
    return enqueue(await, posts, n, stream);
}

void posts_settle(void)
{
    for (unsigned turn = 0; atomic_load(&unstarted); turn++) backoff(turn);
}

/* ---- the end ---- */

/* Returns false if the thread is inside the MPI, perhaps: it must not be waited for in MPI_Finalize. */
static bool stop(void)
{
    pthread_mutex_lock(&lock);
    bool was = running, idle = !busy && !arrivals;
    ended = true, running = false;
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
    if (!was) return true;
    if (idle) return !pthread_join(thread, NULL);
    log_write(LOG_WARN, "MPI_Finalize: a stream has not completed its messages");
    pthread_detach(thread);
    return false;
}

void posts_finish(void)
{
    if (!stop()) return;
    struct post *p, *next;
    struct group *g, *after;
    HASH_ITER(hh, groups, g, after) {
        HASH_DEL(groups, g);
        free(g);
    }
    HASH_ITER(hh, table, p, next) {
        HASH_DEL(table, p);
        free(p);
    }
    for (struct page *page; (page = pages);) pages = page->next, mempool_put(page->memory), free(page);
    ended = false;   /* sessions may begin again */
}
