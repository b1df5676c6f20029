/* stream_posts.c: the thread that posts, and what streams enqueue for it. */
#include "stream_posts.h"
#include "base/backoff.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "pack/typed_buffer.h"
#include "rndv_recv.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_BYTES ((size_t)4096)
#define WORD_APART ((size_t)64)   /* a cache line each */
#define WORDS (PAGE_BYTES / WORD_APART)
#define OPERATIONS_MOST 128       /* a call; the driver takes less than 256 */
#define TURNS 2000                /* after so many tests without a result */
#define NAP_NS 50000              /* the thread rests so long between tests */

struct post {
    struct channel_call call;
    struct layout *layout;
    struct device *device;
    int64_t bytes;
    struct pool_buffer *packed;   /* pinned */
    MPI_Request request;          /* persistent, of the packed bytes */
    _Atomic uint32_t *done;       /* what the thread writes */
    CUdeviceptr word;             /* the same, for streams */
    atomic_bool failed;           /* the next call says so */
    atomic_bool under_way;        /* the thread's */
    struct post *next;            /* in one of the thread's lists */
};

/* Messages that one call starts: the argument of a host function. A program that makes the same call again, or captures
 * it again, finds the same group: so no graph needs one of its own. */
struct group {
    int n;
    UT_hash_handle hh;
    struct post *post[];          /* the key */
};

/* Words of posts. */
static struct page {
    struct pool_buffer *memory;
    uint64_t used;
    struct page *next;
} *pages;

/* Guards all below, and the pages. Host functions take it: it isn't held around calls of the MPI or of CUDA. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct post *arrivals, **arrivals_end = &arrivals;
static struct group *groups;
static pthread_t thread;
static bool running, ended;
static atomic_int unstarted;      /* arrivals */

/* ---- the thread ---- */

/* Waits for an arrival, at most NAP_NS. Caller holds `lock`. */
static void nap(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += NAP_NS;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    pthread_cond_timedwait(&arrived, &lock, &until);
}

/* Moves new arrivals to the end of the thread's list; waits for one if that is empty. Returns the first new one. */
static struct post *take(struct post **list, unsigned turn, bool *go)
{
    struct post **end = list;
    while (*end) end = &(*end)->next;
    pthread_mutex_lock(&lock);
    while (!*list && !arrivals && !ended) pthread_cond_wait(&arrived, &lock);
    if (!arrivals && !ended && turn > TURNS) nap();
    struct post *first = *end = arrivals;
    arrivals = NULL, arrivals_end = &arrivals;
    *go = !ended;
    pthread_mutex_unlock(&lock);
    return first;
}

/* Receives the payload of an RTS: the sender's message goes by the host, in chunks. */
static bool receive_told(struct post *p, MPI_Status *status)
{
    struct rts told;
    struct rndv_recvs recvs = {0};
    struct layout *l = layout_of(MPI_BYTE);
    struct typed_buffer *into = l ? typed_buffer_new(l, NULL, p->packed->host, p->bytes) : NULL;
    if (!into) return false;
    bool ok = true;
    if (rndv_recv_is_rts(into, p->packed->host, mpi_bytes_received(status), &told)) {
        ok = rndv_recv_add(&recvs, &told, p->packed->host, into, status) == MPI_SUCCESS;
        ok = !rndv_recvs_run(&recvs) && ok;
    }
    typed_buffer_close(into);
    return ok;
}

/* Returns true if a message that has come is as long as the stream expects. */
static bool received(struct post *p, MPI_Status *status)
{
    int64_t bytes = mpi_bytes_received(status);
    if (rts_armed() && rts_fits(bytes) && rts_begins(p->packed->host)) {
        if (!receive_told(p, status)) return false;
        bytes = mpi_bytes_received(status);
    }
    if (bytes == p->bytes) return true;
    log_write(LOG_ERROR, "a message in stream order has %lld bytes, the first one of its request had %lld",
              (long long)bytes, (long long)p->bytes);
    return false;
}

/* The stream may start the post's next message at once. */
static void complete(struct post *p, bool ok)
{
    if (!ok) atomic_store(&p->failed, true);
    atomic_store(&p->under_way, false);
    atomic_store_explicit(p->done, 1, memory_order_release);
}

/* Tests a message. Returns true if it is complete, or has failed. */
static bool test(struct post *p, bool *ok)
{
    MPI_Status status;
    int there = 0;
    *ok = PMPI_Test(&p->request, &there, &status) == MPI_SUCCESS;
    if (*ok && there && !p->call.sends) *ok = received(p, &status);
    if (!*ok) log_write(LOG_ERROR, "a message in stream order has failed");
    return there || !*ok;
}

static void start(struct post *p)
{
    for (; p; p = p->next) {
        if (PMPI_Start(&p->request) != MPI_SUCCESS) log_write(LOG_ERROR, "the MPI has refused to start a request");
        atomic_fetch_sub(&unstarted, 1);
    }
}

static void *attend(void *arg)
{
    struct post *list = NULL;
    bool go = true;
    (void)arg;
    for (unsigned turn = 0; go; turn++) {
        struct post *fresh = take(&list, turn, &go);
        if (fresh) start(fresh), turn = 0;
        for (struct post **link = &list, *p; (p = *link);) {
            bool ok;
            if (!test(p, &ok)) {
                link = &p->next;
                continue;
            }
            *link = p->next, turn = 0;
            complete(p, ok);
        }
        backoff(turn);
    }
    if (list) log_write(LOG_WARN, "MPI_Finalize: a stream has not completed its messages");
    return NULL;
}

/* Signals are the application's threads' business. */
static bool run(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_mutex_lock(&lock);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!running) running = !pthread_create(&thread, NULL, attend, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bool runs = running;
    pthread_mutex_unlock(&lock);
    return runs;
}

void posts_settle(void)
{
    for (unsigned turn = 0; atomic_load(&unstarted); turn++) backoff(turn);
}

/* ---- posts ---- */

/* Gives p a word of a page. Caller holds `lock`. Returns false if all are in use. */
static bool word_get(struct post *p)
{
    struct page *page = pages;
    while (page && !~page->used) page = page->next;
    if (!page) return false;
    size_t at = (size_t)__builtin_ctzll(~page->used);
    page->used |= UINT64_C(1) << at;
    p->done = (void *)((char *)page->memory->host + at * WORD_APART);
    p->word = page->memory->address + at * WORD_APART;
    return true;
}

static void word_put(const struct post *p)
{
    for (struct page *page = pages; page; page = page->next) {
        size_t at = (size_t)((uintptr_t)p->done - (uintptr_t)page->memory->host) / WORD_APART;
        if (p->done && at < WORDS) page->used &= ~(UINT64_C(1) << at);
    }
}

static bool page_add(struct device *d)
{
    struct page *page = calloc(1, sizeof *page);
    if (!page || !(page->memory = mempool_get(d, BUFFER_PINNED, PAGE_BYTES))) return free(page), false;
    memset(page->memory->host, 0, PAGE_BYTES);
    pthread_mutex_lock(&lock);
    page->next = pages, pages = page;
    pthread_mutex_unlock(&lock);
    return true;
}

static bool word_of(struct post *p)
{
    for (bool more = true; more; more = page_add(p->device)) {
        pthread_mutex_lock(&lock);
        bool got = word_get(p);
        pthread_mutex_unlock(&lock);
        if (got) return true;
    }
    return false;
}

/* Makes the persistent request of the packed bytes: it holds the communicator, which the program may free. */
static bool request_of(struct post *p)
{
    struct wire w;
    const struct channel_call *k = &p->call;
    if (mpi_bytes_of(p->bytes, &w) != MPI_SUCCESS) return false;
    int rc = k->sends ? PMPI_Send_init(p->packed->host, w.count, w.type, k->peer, k->tag, k->comm, &p->request)
                      : PMPI_Recv_init(p->packed->host, w.count, w.type, k->peer, k->tag, k->comm, &p->request);
    mpi_bytes_free(&w);
    return rc == MPI_SUCCESS;
}

struct post *post_new(const struct channel_call *call, struct layout *l, struct device *d, int64_t bytes)
{
    struct post *p = spinlock_needed && bytes > 0 ? calloc(1, sizeof *p) : NULL;
    if (!p) return NULL;
    p->call = *call, p->layout = layout_ref(l), p->device = d, p->bytes = bytes;
    p->request = MPI_REQUEST_NULL;
    p->packed = mempool_get(d, BUFFER_PINNED, (size_t)bytes);
    if (!p->packed || !word_of(p) || !request_of(p) || !run()) return post_free(p), NULL;
    if (l->kernel) kernel_wait_for(l->kernel, bytes);
    return p;
}

void post_free(struct post *p)
{
    if (!p || atomic_load(&p->under_way)) return;
    if (p->request != MPI_REQUEST_NULL) PMPI_Request_free(&p->request);
    pthread_mutex_lock(&lock);
    word_put(p);
    pthread_mutex_unlock(&lock);
    mempool_put(p->packed);
    layout_unref(p->layout);
    free(p);
}

int64_t post_bytes(const struct post *p)
{
    return p->bytes;
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
    pthread_mutex_lock(&lock);
    for (int i = 0; i < g->n; i++) {
        struct post *p = g->post[i];
        atomic_store(&p->under_way, true);
        p->next = NULL;
        *arrivals_end = p, arrivals_end = &p->next;
    }
    atomic_fetch_add(&unstarted, g->n);
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
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
        p[0].waitValue.address = posts[i]->word, p[0].waitValue.value = 1;
        p[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, p[1].writeValue.address = posts[i]->word;
        many += 2;
        if (many == OPERATIONS_MOST || i == n - 1)
            r = driver_get()->cuStreamBatchMemOp(stream, (unsigned)many, of, 0), many = 0;
    }
    return r;
}

static CUresult tell(struct post *const posts[], int n, CUstream stream)
{
    struct group *g = group_of(posts, n);
    return g ? driver_get()->cuLaunchHostFunc(stream, arrive, g) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Enqueues the packing of sends, or the unpacking of receives. */
static int move(struct post *const posts[], int n, CUstream stream, bool sends)
{
    struct stream s = stream_foreign(stream);
    int result = 0;
    for (int i = 0; i < n && !result; i++) {
        const struct post *p = posts[i];
        if (p->call.sends != sends) continue;
        struct typed_buffer t = typed_buffer_on(p->layout, p->device, p->call.buf, p->call.count);
        result = typed_buffer_move(&t, &s, sends ? KERNEL_PACK : KERNEL_UNPACK, p->packed->address, p->bytes);
    }
    return result;
}

static bool any_failed(struct post *const posts[], int n)
{
    bool failed = false;
    for (int i = 0; i < n; i++) failed |= atomic_exchange(&posts[i]->failed, false);
    if (failed) log_write(LOG_ERROR, "an earlier message in stream order has failed");
    return failed;
}

/* Logs the driver's refusal. Returns 0 or -1. */
static int result_of(CUresult r)
{
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r)) log_write(LOG_ERROR, "a stream refuses messages of the MPI's: %s", driver_error(r));
    return -1;
}

int posts_start(struct post *const posts[], int n, CUstream stream)
{
    if (!n) return 0;
    if (any_failed(posts, n) || move(posts, n, stream, true)) return -1;
    return result_of(tell(posts, n, stream));
}

int posts_wait(struct post *const posts[], int n, CUstream stream)
{
    if (!n) return 0;
    int result = result_of(await(posts, n, stream));
    if (!result) result = move(posts, n, stream, false);
    return any_failed(posts, n) ? -1 : result;
}

/* ---- the end ---- */

void posts_finish(void)
{
    struct group *g, *after;
    pthread_mutex_lock(&lock);
    bool was = running;
    ended = true, running = false;
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
    if (was) pthread_join(thread, NULL);
    HASH_ITER(hh, groups, g, after) {
        HASH_DEL(groups, g);
        free(g);
    }
    for (struct page *page; (page = pages);) pages = page->next, mempool_put(page->memory), free(page);
    ended = false;   /* sessions may begin again */
}
