/* xpmem.c: XPMEM's library, segments, and the windows that are kept: WINDOWS, least used out. */
#include "xpmem.h"
#include "base/activity.h"
#include "base/log.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define SONAME "libxpmem.so.0"
#define WINDOWS 256
#define ALIGNED ((uint64_t)2 << 20)   /* windows begin and end there, so that near buffers share one; or with a page: the
                                         last ones of the address space */
#define SPAN_MOST ((uint64_t)1 << 40)

/* What libxpmem.so.0 exports (xpmem.h of github.com/hpc/xpmem). */
#define WHOLE ((size_t)-1)            /* of a segment: all of the address space */
#define READ_WRITE 2                  /* windows can't be had with less */
#define BY_MODE 1                     /* permits by the bits of a file's mode, */
#define OWNER ((void *)0600)          /* these */
struct place {
    int64_t access;
    off_t offset;
};
static struct {
    int (*version)(void);
    int64_t (*make)(void *start, size_t bytes, int permits, void *by);
    int64_t (*get)(int64_t segment, int flags, int permits, void *by);
    int (*release)(int64_t access);
    void *(*attach)(struct place, size_t bytes, void *at);
    int (*detach)(void *at);
} lib;

struct xpmem_window {
    int64_t access;
    uint64_t first, past;
    char *base;           /* NULL: the entry is free */
    int users;
    uint64_t used;        /* the last use */
};

static atomic_long opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct xpmem_window windows[WINDOWS];
static uint64_t uses;
static bool looked, there;
static int64_t segment;

static bool load(void)
{
    static const struct {
        const char *name;
        void *at;
    } names[] = {{"xpmem_version", &lib.version}, {"xpmem_make", &lib.make},     {"xpmem_get", &lib.get},
                 {"xpmem_release", &lib.release}, {"xpmem_attach", &lib.attach}, {"xpmem_detach", &lib.detach}};
    void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL), *symbol;
    if (!library) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(symbol = dlsym(library, names[i].name))) return false;
        memcpy(names[i].at, &symbol, sizeof symbol);
    }
    return lib.version() >= 0;
}

/* With the lock held. */
static bool is_there(void)
{
    if (!looked) looked = true, there = load();
    return there;
}

int64_t xpmem_segment(void)
{
    pthread_mutex_lock(&lock);
    if (!segment && is_there()) {
        segment = lib.make(NULL, WHOLE, BY_MODE, OWNER);
        if (segment <= 0) {
            log_write(LOG_INFO, "XPMEM is there, but makes no segment of this process's memory");
            segment = 0, there = false;
        }
    }
    int64_t made = segment;
    pthread_mutex_unlock(&lock);
    return made;
}

static bool holds(const struct xpmem_window *w, int64_t access, uint64_t first, uint64_t past)
{
    return w->base && w->access == access && w->first <= first && past <= w->past;
}

static void drop(struct xpmem_window *w)
{
    lib.detach(w->base);
    w->base = NULL;
}

/* With the lock held: a free entry, or that of the window without users that was used least. */
static struct xpmem_window *free_entry(void)
{
    struct xpmem_window *out = NULL;
    for (struct xpmem_window *w = windows; w < windows + WINDOWS; w++) {
        if (!w->base) return w;
        if (!w->users && (!out || w->used < out->used)) out = w;
    }
    if (out) drop(out);
    return out;
}

/* Into a free entry. Nothing writes there: XPMEM itself would let it, even through what the owner can only read. */
static bool attach(struct xpmem_window *w, int64_t access, uint64_t first, uint64_t past, uint64_t aligned)
{
    first -= first % aligned, past += (aligned - past % aligned) % aligned;
    void *base = lib.attach((struct place){access, (off_t)first}, past - first, NULL);
    if (base == (void *)-1 || !base) return false;
    if (mprotect(base, past - first, PROT_READ)) return lib.detach(base), false;
    *w = (struct xpmem_window){.access = access, .first = first, .past = past, .base = base};
    return true;
}

static struct xpmem_window *open_window(int64_t access, uint64_t first, uint64_t past, uint64_t *shift)
{
    if (!access || past <= first || past - first > SPAN_MOST) return NULL;
    pthread_mutex_lock(&lock);
    struct xpmem_window *w = windows;
    while (w < windows + WINDOWS && !holds(w, access, first, past)) w++;
    bool kept = w < windows + WINDOWS;
    if (!kept) w = free_entry();
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (w && !kept && !attach(w, access, first, past, ALIGNED) && !attach(w, access, first, past, page)) w = NULL;
    if (w) w->users++, w->used = ++uses, *shift = (uint64_t)(uintptr_t)w->base - w->first;
    pthread_mutex_unlock(&lock);
    return w;
}

struct xpmem_window *xpmem_open(const struct peer *p, uint64_t first, uint64_t past, uint64_t *shift)
{
    struct xpmem_window *w = open_window(atomic_load_explicit(&p->access, memory_order_acquire), first, past, shift);
    if (w) atomic_fetch_add_explicit(&opened, 1, memory_order_relaxed);
    return w;
}

EXPORT long stridec_host_mapped(void)
{
    return atomic_load(&opened);
}

void xpmem_close(struct xpmem_window *w)
{
    pthread_mutex_lock(&lock);
    w->users--;
    pthread_mutex_unlock(&lock);
}

/* Its window is given back: what messages read lies elsewhere, most of the time. */
static bool proven(const struct peer *p, int64_t access)
{
    uint64_t proof = p->file->proof, shift;
    struct xpmem_window *w = open_window(access, proof, proof + sizeof p->file->cookie, &shift);
    bool same = w && !memcmp((void *)(uintptr_t)(proof + shift), &p->file->cookie, sizeof p->file->cookie);
    pthread_mutex_lock(&lock);
    if (w && !--w->users) drop(w);
    if (!same) lib.release(access);
    pthread_mutex_unlock(&lock);
    return same;
}

bool xpmem_reaches(struct peer *p)
{
    int64_t theirs = atomic_load_explicit(&p->file->segment, memory_order_acquire), access = 0;
    if (!theirs) return false;
    pthread_mutex_lock(&lock);
    bool here = is_there();
    if (here) access = lib.get(theirs, READ_WRITE, BY_MODE, OWNER);
    pthread_mutex_unlock(&lock);
    bool same = access > 0 && proven(p, access);
    if (same) atomic_store_explicit(&p->access, access, memory_order_release);
    if (here) log_write(LOG_INFO, "host memory of rank %d is %s by XPMEM", p->rank, same ? "read" : "out of reach");
    return same;
}

void xpmem_finish(void)
{
    pthread_mutex_lock(&lock);
    for (struct xpmem_window *w = windows; w < windows + WINDOWS; w++)
        if (w->base) drop(w);
    pthread_mutex_unlock(&lock);
}
