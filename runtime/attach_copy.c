/* attach_copy.c: reading typed bytes of another process, a batch of runs at a time, and the lists of those runs. */
#include "attach.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <utlist.h>

#define VECTORS 1024                       /* IOV_MAX */
#define REQUESTS 64
#define KEPT_BYTES ((size_t)16 << 20)
#define REQUEST_BYTES (KEPT_BYTES / 8)     /* of one: longer lists are made anew */

/* What one call reads. */
struct batch {
    struct batch *next;
    int64_t bytes;
    int theirs, own;           /* runs: theirs first in `run` */
    struct iovec run[];
};

struct request {
    struct request *prev, *next;
    struct attach_side from, to;
    int64_t bytes;
    struct batch *first, *last;
    size_t room;               /* of the batches */
};

atomic_long attach_lists_made;
static struct request *kept;   /* those used last first; what is in use is not among them */
static int requests;
static size_t room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Runs.
 */

/* Of one side: those of packed bytes [at, past), as many as there is room for. */
struct runs {
    uint64_t base;
    int n;
    int64_t past;
    struct iovec vector[VECTORS];
};

static int take_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct runs *r = arg;
    if (r->n == VECTORS) return 1;
    r->vector[r->n++] = (struct iovec){(void *)(uintptr_t)(r->base + (uint64_t)user), (size_t)len};
    r->past = packed + len;
    return 0;
}

static void list_runs(struct runs *r, const struct attach_side *s, int64_t at, int64_t end)
{
    r->base = s->user, r->n = 0, r->past = at;
    if (s->tree) tree_walk(s->tree, s->count, s->extent, at, end, take_run, r);
    else take_run(r, at, at, end - at);
}

/* No run past packed byte `end`. */
static void cut(struct runs *r, int64_t end)
{
    while (r->past > end) {
        struct iovec *last = &r->vector[r->n - 1];
        int64_t over = r->past - end, len = (int64_t)last->iov_len;
        if (over < len) last->iov_len -= (size_t)over;
        else over = len, r->n--;
        r->past -= over;
    }
}

static int64_t read_runs(const struct peer *p, const struct iovec *theirs, int n, const struct iovec *own, int own_n)
{
    return process_vm_readv(p->file->pid, own, (unsigned long)own_n, theirs, (unsigned long)n, 0);
}

/*
 * Lists that are kept.
 */

static bool same_side(const struct attach_side *a, const struct attach_side *b)
{
    return a->user == b->user && a->tree == b->tree && a->extent == b->extent && a->count == b->count;
}

static void request_free(struct request *r)
{
    for (struct batch *b = r->first, *next; b; b = next) next = b->next, free(b);
    tree_unref(r->from.tree), tree_unref(r->to.tree);
    free(r);
}

static void forget(struct request *r)
{
    DL_DELETE(kept, r);
    requests--, room -= r->room;
}

/* NULL where it is not kept, or in use by another thread. */
static struct request *take(const struct attach_side *from, const struct attach_side *to, int64_t bytes)
{
    struct request *r;
    pthread_mutex_lock(&lock);
    DL_FOREACH(kept, r) if (r->bytes == bytes && same_side(&r->from, from) && same_side(&r->to, to)) break;
    if (r) forget(r);
    pthread_mutex_unlock(&lock);
    return r;
}

static void keep(struct request *r)
{
    struct request *out = NULL;
    pthread_mutex_lock(&lock);
    DL_PREPEND(kept, r);
    requests++, room += r->room;
    while (requests > REQUESTS || room > KEPT_BYTES) {
        struct request *least = kept->prev;
        forget(least);
        DL_APPEND(out, least);
    }
    pthread_mutex_unlock(&lock);
    for (struct request *next; out; out = next) next = out->next, request_free(out);
}

void attach_lists_drop(void)
{
    for (struct request *r; (r = kept);) forget(r), request_free(r);
}

/* Without batches as yet. NULL without memory, and where the lists are of one run each. */
static struct request *request_new(const struct attach_side *from, const struct attach_side *to, int64_t bytes)
{
    struct request *r = from->tree || to->tree ? calloc(1, sizeof *r) : NULL;
    if (!r) return NULL;
    r->from = *from, r->to = *to, r->bytes = bytes;
    if (from->tree) tree_ref(from->tree);
    if (to->tree) tree_ref(to->tree);
    return r;
}

/* False where all would be too much to be kept. */
static bool append(struct request *r, const struct runs *theirs, const struct runs *own, int64_t bytes)
{
    size_t size = sizeof(struct batch) + (size_t)(theirs->n + own->n) * sizeof(struct iovec);
    bool much = r->room + size > REQUEST_BYTES || (size_t)(r->bytes / bytes) * size > REQUEST_BYTES;
    struct batch *b = much ? NULL : malloc(size);
    if (!b) return false;
    *b = (struct batch){.bytes = bytes, .theirs = theirs->n, .own = own->n};
    memcpy(b->run, theirs->vector, (size_t)theirs->n * sizeof *b->run);
    memcpy(b->run + theirs->n, own->vector, (size_t)own->n * sizeof *b->run);
    if (r->last) r->last->next = b;
    else r->first = b;
    r->last = b, r->room += size;
    return true;
}

/*
 * Reading.
 */

/* By lists made anew, which r, if not NULL, is given. */
static bool copy_anew(const struct peer *p, const struct attach_side *from, const struct attach_side *to, int64_t bytes,
                      struct request *r)
{
    struct runs theirs, own;
    for (int64_t at = 0, n; at < bytes; at += n) {
        list_runs(&theirs, from, at, bytes);
        list_runs(&own, to, at, theirs.past);
        cut(&theirs, own.past);
        atomic_fetch_add_explicit(&attach_lists_made, 1, memory_order_relaxed);
        n = read_runs(p, theirs.vector, theirs.n, own.vector, own.n);
        bool whole = n == own.past - at;   /* if not, the next call tells of the error */
        if (r && (!whole || !append(r, &theirs, &own, n))) request_free(r), r = NULL;
        if (n <= 0) return false;
    }
    if (r) keep(r);
    return true;
}

static bool copy_again(const struct peer *p, const struct request *r)
{
    for (const struct batch *b = r->first; b; b = b->next)
        if (read_runs(p, b->run, b->theirs, b->run + b->theirs, b->own) != b->bytes) return false;
    return true;
}

bool attach_copy(const struct peer *p, const struct attach_side *from, const struct attach_side *to, int64_t bytes)
{
    struct request *r = take(from, to, bytes);
    if (!r) return copy_anew(p, from, to, bytes, request_new(from, to, bytes));
    bool ok = copy_again(p, r);
    keep(r);
    return ok || copy_anew(p, from, to, bytes, NULL);
}
