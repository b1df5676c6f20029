/* stream_posts.c: the thread that posts, and what streams enqueue for it. */
#include "stream_posts.h"
#include "base/backoff.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "base/thread.h"
#include "observe/stats.h"
#include "pack/typed_buffer.h"
#include "rndv_recv.h"
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define SPIN_NS 500000            /* the thread looks without a rest for so long after it has found something */
#define REST_PART 64              /* then it rests for this part of the time since then */
#define REST_MOST_NS 1000000

struct post {
    struct channel_call call;
    struct layout *layout;
    struct device *device;
    int64_t bytes;
    struct pool_buffer *packed;   /* pinned */
    MPI_Request request;          /* persistent, of the packed bytes */
    struct pool_buffer *done;     /* a word: the thread sets it, the stream clears it */
    atomic_bool failed;           /* the next call says so */
    atomic_bool under_way;        /* the thread's */
    struct post *next;            /* in the thread's list */
};

/* Messages that one call starts. A program that makes the same call again, or captures it again, finds the same group:
 * so no graph needs one of its own. */
struct group {
    struct pool_buffer *go;       /* a word: the stream sets it, the thread clears it when it has started all */
    struct group *next;           /* of all groups */
    int n;
    UT_hash_handle hh;
    struct post *post[];          /* the key */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* guards the table of groups */
static struct group *table;
static _Atomic(struct group *) groups;   /* all, for the thread: none is removed while it runs */
static pthread_t thread;
static bool running;
static atomic_bool ended;

/* ---- the thread ---- */

/* Receives the payload of an RTS: the sender's message goes by the host, in chunks. */
static bool receive_told(struct post *p, MPI_Status *status)
{
    struct rts told;
    struct rndv_recvs recvs = {0};
    struct layout *l = layout_of(MPI_BYTE);
    struct typed_buffer *into = l ? typed_buffer_new(l, NULL, p->packed->host, p->bytes) : NULL;
    if (!into) return false;
    bool ok = into->hosted = true;
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

/* Tests a message. Returns true if it is complete, or has failed. */
static bool test(struct post *p)
{
    MPI_Status status;
    int there = 0;
    bool ok = PMPI_Test(&p->request, &there, &status) == MPI_SUCCESS;
    if (ok && there && !p->call.sends) ok = received(p, &status);
    if (!ok) log_write(LOG_ERROR, "a message in stream order has failed");
    if (!ok) atomic_store(&p->failed, true);
    return there || !ok;
}

/* Tests the messages under way. Returns true if one is complete: the stream may start its next at once. */
static bool test_all(struct post **list)
{
    bool any = false;
    for (struct post *p; (p = *list);) {
        if (!test(p)) {
            list = &p->next;
            continue;
        }
        _Atomic uint32_t *done = p->done->host;
        *list = p->next, any = true;
        atomic_store(&p->under_way, false);   /* p may be freed */
        atomic_store_explicit(done, 1, memory_order_release);
    }
    return any;
}

static void start(struct post *p)
{
    atomic_store(&p->under_way, true);
    if (PMPI_Start(&p->request) == MPI_SUCCESS) return;
    log_write(LOG_ERROR, "the MPI has refused to start a request");
    atomic_store(&p->failed, true);
}

/* Starts what streams have come to: they go on when all of a group has been started, which keeps the order of the
 * calls. Returns true if there was something. */
static bool start_all(struct post **list)
{
    bool any = false;
    for (struct group *g = atomic_load(&groups); g; g = g->next) {
        _Atomic uint32_t *go = g->go->host;
        if (!atomic_load_explicit(go, memory_order_acquire)) continue;
        any = true;
        pthread_mutex_lock(&lock);   /* sees what the host wrote before it enqueued GO (group_of) */
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < g->n; i++) {
            start(g->post[i]);
            g->post[i]->next = *list, *list = g->post[i];
        }
        atomic_store_explicit(go, 0, memory_order_release);
    }
    return any;
}

static void rest(int64_t idle_ns)
{
    int64_t ns = idle_ns / REST_PART;
    nanosleep(&(struct timespec){.tv_nsec = ns < REST_MOST_NS ? ns : REST_MOST_NS}, NULL);
}

static void *run(void *arg)
{
    struct post *list = NULL;
    int64_t found = stats_now();
    (void)arg;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    for (unsigned turn = 0; !atomic_load(&ended); turn++) {
        bool any = start_all(&list);
        any = test_all(&list) || any;
        int64_t now = stats_now();
        if (any) found = now;
        if (now - found > SPIN_NS) rest(now - found);
        else backoff(turn);
    }
    if (list) log_write(LOG_WARN, "MPI_Finalize: a stream has not completed its messages");
    return NULL;
}

static bool thread_runs(void)
{
    pthread_mutex_lock(&lock);
    if (!running) running = !thread_start(&thread, 0, run, NULL);
    bool runs = running;
    pthread_mutex_unlock(&lock);
    return runs;
}

/* ---- posts ---- */

/* Returns a word of pinned memory that is 0; NULL without memory. */
static struct pool_buffer *word_get(struct device *d)
{
    struct pool_buffer *word = mempool_get(d, BUFFER_PINNED, sizeof(uint32_t));
    if (word) atomic_store((_Atomic uint32_t *)word->host, 0);
    return word;
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
    p->done = word_get(d);
    if (!p->packed || !p->done || !request_of(p) || !thread_runs()) return post_free(p), NULL;
    if (l->kernel) kernel_wait_for(l->kernel, bytes);
    return p;
}

void post_free(struct post *p)
{
    if (!p || atomic_load(&p->under_way)) return;
    if (p->request != MPI_REQUEST_NULL) PMPI_Request_free(&p->request);
    mempool_put(p->done), mempool_put(p->packed);
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
    struct group *g, *new;
    size_t bytes = (size_t)n * sizeof(*posts);
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, posts, bytes, g);
    pthread_mutex_unlock(&lock);
    if (g || !(new = calloc(1, sizeof *new + bytes))) return g;
    if (!(new->go = word_get(posts[0]->device))) return free(new), NULL;
    new->n = n;
    memcpy(new->post, posts, bytes);
    pthread_mutex_lock(&lock);
    HASH_ADD_KEYPTR(hh, table, new->post, bytes, new);
    new->next = atomic_load(&groups);
    atomic_store(&groups, new);
    pthread_mutex_unlock(&lock);
    return new;
}

/* ---- what is enqueued ---- */

/* Waits until the posts' messages are complete. */
static int await(struct post *const posts[], int n, CUstream stream)
{
    struct stream_word *words = calloc(2 * (size_t)n, sizeof *words);
    if (!words) return log_write(LOG_ERROR, "out of memory"), -1;
    for (int i = 0; i < n; i++) {
        words[2 * i] = (struct stream_word){posts[i]->done->address, 1, true};
        words[2 * i + 1] = (struct stream_word){posts[i]->done->address, 0, false};
    }
    int result = stream_words(stream, words, 2 * n);
    free(words);
    return result;
}

/* Has the thread start a group, and waits until it has. */
static int tell(struct post *const posts[], int n, CUstream stream)
{
    const struct group *g = group_of(posts, n);
    if (!g) return log_write(LOG_ERROR, "out of memory"), -1;
    const struct stream_word words[] = {{g->go->address, 1, false}, {g->go->address, 0, true}};
    return stream_words(stream, words, 2);
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

int posts_start(struct post *const posts[], int n, CUstream stream)
{
    return any_failed(posts, n) || move(posts, n, stream, true) ? -1 : tell(posts, n, stream);
}

int posts_wait(struct post *const posts[], int n, CUstream stream)
{
    int result = await(posts, n, stream);
    if (!result) result = move(posts, n, stream, false);
    return any_failed(posts, n) ? -1 : result;
}

/* ---- the end ---- */

void posts_finish(void)
{
    struct group *g, *after;
    atomic_store(&ended, true);
    if (running) pthread_join(thread, NULL);
    running = false;
    atomic_store(&groups, NULL);
    HASH_ITER(hh, table, g, after) {
        HASH_DEL(table, g);
        mempool_put(g->go);
        free(g);
    }
    atomic_store(&ended, false);   /* sessions may begin again */
}
