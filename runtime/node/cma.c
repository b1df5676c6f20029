/* cma.c: reading typed bytes of another process, a batch of runs at a time, and the lists of those runs. */
#include "datatype/layout.h"
#include "peer_access.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <utlist.h>

#define VECTORS 1024                       /* IOV_MAX */
#define REQUESTS 64
#define GAP 4096                           /* what is shorter lies in pages of the runs on both sides of it */
#define SPAN_BYTES ((size_t)256 << 10)     /* of what is read at once with its gaps */
#define LONG 1024                          /* bytes that are worth a span */
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
    struct peer_access_side from, to;
    int64_t bytes;
    struct batch *first, *last;
    size_t room;               /* of the batches */
};

atomic_long peer_access_lists_made, peer_access_runs_read;
/* Bytes. The kernel takes 0.35 us for each run: 1 MiB in runs of 4 bytes 90 ms, with what lies between them 3.2; of
 * 1 KiB 0.39 and 0.21. */
int64_t peer_access_short = 2048;
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

static void list_runs(struct runs *r, const struct peer_access_side *s, int64_t at, int64_t end)
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
    atomic_fetch_add_explicit(&peer_access_runs_read, n, memory_order_relaxed);
    return process_vm_readv(p->file->pid, own, (unsigned long)own_n, theirs, (unsigned long)n, 0);
}

/*
 * Lists that are kept.
 */

static bool same_side(const struct peer_access_side *a, const struct peer_access_side *b)
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
static struct request *take(const struct peer_access_side *from, const struct peer_access_side *to, int64_t bytes)
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

void peer_access_lists_drop(void)
{
    for (struct request *r; (r = kept);) forget(r), request_free(r);
}

/* Without batches as yet. NULL without memory, and where the lists are of one run each. */
static struct request *request_new(const struct peer_access_side *from, const struct peer_access_side *to,
                                   int64_t bytes)
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

/* One call's, of packed bytes from `at` on: how many it has brought, at most as many as `own` is left with. */
static int64_t copy_runs(const struct peer *p, struct runs *theirs, const struct peer_access_side *to, struct runs *own,
                         int64_t at)
{
    list_runs(own, to, at, theirs->past);
    cut(theirs, own->past);
    atomic_fetch_add_explicit(&peer_access_lists_made, 1, memory_order_relaxed);
    return read_runs(p, theirs->vector, theirs->n, own->vector, own->n);
}

/* By lists made anew, which r, if not NULL, is given. */
static bool copy_anew(const struct peer *p, const struct peer_access_side *from, const struct peer_access_side *to,
                      int64_t bytes, struct request *r)
{
    struct runs theirs, own;
    for (int64_t at = 0, n; at < bytes; at += n) {
        list_runs(&theirs, from, at, bytes);
        n = copy_runs(p, &theirs, to, &own, at);
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

/*
 * Short runs are read with what lies between them.
 */

/* One call reads `runs` whole ones and the beginning of another: packed bytes up to `past`. */
struct spans {
    struct iovec vector[VECTORS];
    int n, runs;
    size_t bytes, first[VECTORS];   /* where each run begins in what was read */
    int64_t past;
};

/* True if the run comes behind the other with less than GAP between them. */
static bool continues(const struct iovec *last, const struct iovec *run)
{
    uintptr_t end = (uintptr_t)last->iov_base + last->iov_len, begin = (uintptr_t)run->iov_base;
    return begin >= end && begin - end < GAP;
}

/* Takes so many runs as fit, the last one in part. */
static void merge(struct spans *s, const struct runs *r, int64_t at)
{
    s->n = s->runs = 0, s->bytes = 0, s->past = at;
    for (int i = 0; i < r->n; i++, s->runs++) {
        const struct iovec *run = &r->vector[i];
        struct iovec *last = s->n ? &s->vector[s->n - 1] : NULL;
        bool same = last && continues(last, run);
        size_t gap = same ? (size_t)((uintptr_t)run->iov_base - (uintptr_t)last->iov_base) - last->iov_len : 0;
        if (s->bytes + gap >= SPAN_BYTES) return;
        size_t room = SPAN_BYTES - s->bytes - gap, len = run->iov_len < room ? run->iov_len : room;
        if (same) last->iov_len += gap + len;
        else s->vector[s->n++] = (struct iovec){run->iov_base, len};
        s->first[i] = s->bytes + gap;
        s->bytes += gap + len, s->past += (int64_t)len;
    }
}

static int put_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    const struct { uint64_t base; const char *source; int64_t at; } *w = arg;
    memcpy((void *)(uintptr_t)(w->base + (uint64_t)user), w->source + (packed - w->at), (size_t)len);
    return 0;
}

/* Packed bytes from `at` on. */
static void put(const struct peer_access_side *to, int64_t at, const char *source, int64_t len)
{
    struct { uint64_t base; const char *source; int64_t at; } w = {to->user, source, at};
    if (to->tree) tree_walk(to->tree, to->count, to->extent, at, at + len, put_run, &w);
    else memcpy((void *)(uintptr_t)(to->user + (uint64_t)at), source, (size_t)len);
}

struct merging {
    struct runs theirs, own;
    struct spans spans;
    char read[SPAN_BYTES];
};

/* One call's; the packed bytes that it has brought, 0 where they can't be read. */
static int64_t copy_spans(const struct peer *p, struct merging *m, const struct peer_access_side *to, int64_t at)
{
    struct iovec own = {m->read, m->spans.bytes};
    if (read_runs(p, m->spans.vector, m->spans.n, &own, 1) != (int64_t)m->spans.bytes) return 0;
    int64_t done = at;
    for (int i = 0; done < m->spans.past; i++) {
        int64_t len = (int64_t)m->theirs.vector[i].iov_len, left = m->spans.past - done;
        put(to, done, m->read + m->spans.first[i], len < left ? len : left);
        done += len < left ? len : left;
    }
    return done - at;
}

/* Reads one by one those that lie far apart, or in another order. */
static bool copy_short(const struct peer *p, const struct peer_access_side *from, const struct peer_access_side *to,
                       int64_t bytes)
{
    struct merging *m = malloc(sizeof *m);
    int64_t at = 0;
    for (int64_t n = 1; m && n > 0 && at < bytes; at += n) {
        list_runs(&m->theirs, from, at, bytes);
        merge(&m->spans, &m->theirs, at);
        bool few = m->spans.n * 4 <= m->spans.runs || m->spans.past - at >= m->spans.n * LONG;
        n = few ? copy_spans(p, m, to, at) : copy_runs(p, &m->theirs, to, &m->own, at);
    }
    free(m);
    return at == bytes;
}

static bool is_short(const struct peer_access_side *from, int64_t bytes)
{
    return from->tree && bytes > 0 && from->tree->size < peer_access_short * layout_runs(from->tree);
}

bool peer_access_copy(const struct peer *p, const struct peer_access_side *from, const struct peer_access_side *to,
                      int64_t bytes)
{
    if (is_short(from, bytes) && copy_short(p, from, to, bytes)) return true;
    struct request *r = take(from, to, bytes);
    if (!r) return copy_anew(p, from, to, bytes, request_new(from, to, bytes));
    bool ok = copy_again(p, r);
    keep(r);
    return ok || copy_anew(p, from, to, bytes, NULL);
}
