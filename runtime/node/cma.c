/* cma.c: reads typed bytes of another process, a batch of runs at a time, and caches the lists of runs. */
#include "datatype/layout.h"
#include "peer_access.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <utlist.h>

#define VECTORS 1024                       /* IOV_MAX */
#define REQUESTS 64
#define GAP 4096                           /* shorter gaps lie in pages of the runs on both sides */
#define SPAN_BYTES ((size_t)256 << 10)     /* bytes read at once with their gaps */
#define LONG 1024                          /* mean bytes that justify a span */
#define LISTS_BYTES ((size_t)16 << 20)
#define REQUEST_BYTES (LISTS_BYTES / 8)     /* of one; longer lists are made anew */

/* A batch: the runs that one call reads. */
struct batch {
    struct batch *next;
    int64_t bytes;
    int theirs, own;           /* numbers of runs; theirs first in `run` */
    struct iovec run[];
};

struct request {
    struct request *prev, *next;
    struct peer_access_side from, to;
    int64_t bytes;
    struct batch *first, *last;
    size_t list_bytes;              /* bytes of the batches */
};

atomic_long peer_access_lists_made, peer_access_runs_read;
/* Bytes. Linux takes 0.35 us a run: 1 MiB in runs of 4 bytes 90 ms, read with the gaps 3.2; of 1 KiB 0.39 and 0.21. */
int64_t peer_access_gap_run = 2048;
static struct request *kept;   /* most recently used first; a list in use is not among them */
static int requests;
static size_t kept_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- runs ---- */

/* The runs of one side for packed bytes [base, past), VECTORS at most. */
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

/* Removes runs past packed byte `end`. */
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

/* ---- the cache of lists ---- */

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

static void request_unlink(struct request *r)
{
    DL_DELETE(kept, r);
    requests--, kept_bytes -= r->list_bytes;
}

/* Returns a cached list and removes it from the cache; NULL if there is none, or another thread uses it. */
static struct request *request_take(const struct peer_access_side *from, const struct peer_access_side *to,
                                    int64_t bytes)
{
    struct request *r;
    pthread_mutex_lock(&lock);
    DL_FOREACH(kept, r) if (r->bytes == bytes && same_side(&r->from, from) && same_side(&r->to, to)) break;
    if (r) request_unlink(r);
    pthread_mutex_unlock(&lock);
    return r;
}

static void request_keep(struct request *r)
{
    struct request *out = NULL;
    pthread_mutex_lock(&lock);
    DL_PREPEND(kept, r);
    requests++, kept_bytes += r->list_bytes;
    while (requests > REQUESTS || kept_bytes > LISTS_BYTES) {
        struct request *least = kept->prev;
        request_unlink(least);
        DL_APPEND(out, least);
    }
    pthread_mutex_unlock(&lock);
    for (struct request *next; out; out = next) next = out->next, request_free(out);
}

void peer_access_lists_drop(void)
{
    for (struct request *r; (r = kept);) request_unlink(r), request_free(r);
}

/* Creates a request without batches; NULL without memory, or if both sides are one run. */
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

/* Appends a batch to r. Returns false if the whole list would be too long to cache. */
static bool append(struct request *r, const struct runs *theirs, const struct runs *own, int64_t bytes)
{
    size_t size = sizeof(struct batch) + (size_t)(theirs->n + own->n) * sizeof(struct iovec);
    bool much = r->list_bytes + size > REQUEST_BYTES || (size_t)(r->bytes / bytes) * size > REQUEST_BYTES;
    struct batch *b = much ? NULL : malloc(size);
    if (!b) return false;
    *b = (struct batch){.bytes = bytes, .theirs = theirs->n, .own = own->n};
    memcpy(b->run, theirs->vector, (size_t)theirs->n * sizeof *b->run);
    memcpy(b->run + theirs->n, own->vector, (size_t)own->n * sizeof *b->run);
    if (r->last) r->last->next = b;
    else r->first = b;
    r->last = b, r->list_bytes += size;
    return true;
}

/* ---- reading ---- */

/* Reads one batch of packed bytes from `at` on, at most as many as both sides list. Returns the bytes read. */
static int64_t copy_runs(const struct peer *p, struct runs *theirs, const struct peer_access_side *to, struct runs *own,
                         int64_t at)
{
    list_runs(own, to, at, theirs->past);
    cut(theirs, own->past);
    atomic_fetch_add_explicit(&peer_access_lists_made, 1, memory_order_relaxed);
    return read_runs(p, theirs->vector, theirs->n, own->vector, own->n);
}

/* Copies by new lists and adds them to r unless r is NULL. */
static bool copy_anew(const struct peer *p, const struct peer_access_side *from, const struct peer_access_side *to,
                      int64_t bytes, struct request *r)
{
    struct runs theirs, own;
    for (int64_t at = 0, n; at < bytes; at += n) {
        list_runs(&theirs, from, at, bytes);
        n = copy_runs(p, &theirs, to, &own, at);
        bool whole = n == own.past - at;   /* if not, the next call returns the error */
        if (r && (!whole || !append(r, &theirs, &own, n))) request_free(r), r = NULL;
        if (n <= 0) return false;
    }
    if (r) request_keep(r);
    return true;
}

static bool copy_again(const struct peer *p, const struct request *r)
{
    for (const struct batch *b = r->first; b; b = b->next)
        if (read_runs(p, b->run, b->theirs, b->run + b->theirs, b->own) != b->bytes) return false;
    return true;
}

/* ---- short runs, read with their gaps ---- */

/* One call reads `runs` whole runs and the start of another: packed bytes up to `past`. */
struct spans {
    struct iovec vector[VECTORS];
    int n, runs;
    size_t bytes, first[VECTORS];   /* offset of each run in the bytes read */
    int64_t past;
};

/* Returns true if `run` follows `last` with a gap shorter than GAP. */
static bool continues(const struct iovec *last, const struct iovec *run)
{
    uintptr_t end = (uintptr_t)last->iov_base + last->iov_len, begin = (uintptr_t)run->iov_base;
    return begin >= end && begin - end < GAP;
}

/* Merges runs into spans, as many as fit; the last one may be cut. */
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

/* Reads one batch of spans. Returns the packed bytes copied; 0 if the memory can't be read. */
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

/* Copies short runs with their gaps; reads runs one by one if they lie far apart or in another order. */
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
    return from->tree && bytes > 0 && from->tree->size < peer_access_gap_run * layout_runs(from->tree);
}

bool peer_access_copy(const struct peer *p, const struct peer_access_side *from, const struct peer_access_side *to,
                      int64_t bytes)
{
    if (is_short(from, bytes) && copy_short(p, from, to, bytes)) return true;
    struct request *r = request_take(from, to, bytes);
    if (!r) return copy_anew(p, from, to, bytes, request_new(from, to, bytes));
    bool ok = copy_again(p, r);
    request_keep(r);
    return ok || copy_anew(p, from, to, bytes, NULL);
}
