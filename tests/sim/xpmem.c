/* xpmem.c: a simulated XPMEM, as a library to be preloaded. No process can map what is another's alone; so it hands out memory
 * that is shared (xpmem_sim_alloc: no address comes twice), which the tests take for host buffers, and maps that. Of other
 * pages of a process it maps a copy, once.
 * XPMEM_FAIL: version, make or get fails; bus: what is shared can't be read, though it is mapped; or after how many windows
 * no more are mapped. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE ((uint64_t)sysconf(_SC_PAGESIZE))
#define PAST ((uint64_t)0x7ffffffff000)   /* of what a process can map; windows that pass it are refused */
#define READ_WRITE 2                      /* windows of other access are refused too */
#define ARENA ((uint64_t)1 << 36)       /* of addresses; memory comes as it is used */
#define ALIGNED ((uint64_t)2 << 20)
#define COPIED_MOST (2 * ALIGNED)
#define WINDOWS 4096

struct place {
    int64_t access;
    off_t offset;
};
struct head {   /* of the arena, and before each piece of it */
    uint64_t base, used, bytes;
};

int xpmem_sim_attached, xpmem_sim_detached;
static int file = -1;
static struct head *arena;
static struct {
    void *at;
    size_t bytes;
} windows[WINDOWS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int fails(const char *what)
{
    const char *f = getenv("XPMEM_FAIL");
    return f && !strcmp(f, what);
}

static int start(void)
{
    if (arena) return 0;
    char *room = mmap(NULL, ARENA + ALIGNED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    file = memfd_create("xpmem", MFD_CLOEXEC);
    if (room == MAP_FAILED || file < 0 || ftruncate(file, (off_t)ARENA)) return -1;
    room += (ALIGNED - (uintptr_t)room % ALIGNED) % ALIGNED;
    arena = mmap(room, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0);
    if (arena == MAP_FAILED) return arena = NULL, -1;
    arena->base = (uint64_t)(uintptr_t)arena, arena->used = ALIGNED;
    return 0;
}

void *xpmem_sim_alloc(size_t bytes)
{
    struct head *piece = NULL;
    uint64_t size = (bytes + sizeof *piece + PAGE - 1) / PAGE * PAGE;
    pthread_mutex_lock(&lock);
    if (!start() && size <= ARENA - arena->used) {
        piece = (struct head *)(arena->base + arena->used);
        arena->used += size;
        *piece = (struct head){.bytes = size};
    }
    pthread_mutex_unlock(&lock);
    return piece ? piece + 1 : NULL;
}

void xpmem_sim_free(void *p)
{
    struct head *piece = p ? (struct head *)p - 1 : NULL;
    if (piece && fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)((uint64_t)(uintptr_t)piece - arena->base),
                           (off_t)piece->bytes))
        abort();
}

int xpmem_version(void)
{
    return fails("version") ? -1 : 0x26003;
}

int64_t xpmem_make(void *from, size_t bytes, int permits, void *by)
{
    (void)permits, (void)by;
    pthread_mutex_lock(&lock);
    int64_t made = fails("make") || from || bytes != (size_t)-1 || start() ? -1 : (int64_t)getpid() << 16 | file;
    pthread_mutex_unlock(&lock);
    return made;
}

int64_t xpmem_get(int64_t segment, int flags, int permits, void *by)
{
    (void)permits, (void)by;
    return fails("get") || flags != READ_WRITE ? -1 : segment;
}

int xpmem_release(int64_t access)
{
    (void)access;
    return 0;
}

/* What the other process has in its arena. */
static int map_shared(int theirs, const struct head *h, char *at, uint64_t first, uint64_t past)
{
    uint64_t from = first > h->base ? first : h->base, to = past < h->base + ARENA ? past : h->base + ARENA;
    if (from >= to) return 0;
    off_t place = fails("bus") ? (off_t)(2 * ARENA) : (off_t)(from - h->base);   /* past its end */
    void *m = mmap(at + (from - first), to - from, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, theirs, place);
    return m != MAP_FAILED;
}

static int copy_pages(pid_t pid, char *at, uint64_t first, uint64_t past)
{
    static pid_t copied[64];   /* of each once: what is copied is old some time */
    int any = 0, n = 0;
    while (n < 63 && copied[n] && copied[n] != pid) n++;
    if (copied[n] || past - first > COPIED_MOST || mprotect(at, past - first, PROT_READ | PROT_WRITE)) return 0;
    for (uint64_t page = first; page < past; page += PAGE) {
        struct iovec own = {at + (page - first), PAGE}, from = {(void *)(uintptr_t)page, PAGE};
        any |= process_vm_readv(pid, &own, 1, &from, 1, 0) == (ssize_t)PAGE;
    }
    if (any) copied[n] = pid;
    return any;
}

static int more(void)
{
    const char *f = getenv("XPMEM_FAIL");
    return !f || f[0] < '0' || f[0] > '9' || xpmem_sim_attached < atoi(f);
}

/* `at` is NULL. */
static void *attach(struct place p, size_t bytes)
{
    char name[64], *at;
    struct head h;
    uint64_t first = (uint64_t)p.offset;
    int theirs, slot = 0, mapped = 0;
    while (slot < WINDOWS && windows[slot].at) slot++;
    if (!more() || first % PAGE || bytes % PAGE || first + bytes > PAST || slot == WINDOWS) return (void *)-1;
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)(p.access >> 16), (int)(p.access & 0xffff));
    at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return at;
    theirs = open(name, O_RDWR | O_CLOEXEC);
    if (theirs >= 0 && pread(theirs, &h, sizeof h, 0) == (ssize_t)sizeof h)
        mapped = map_shared(theirs, &h, at, first, first + bytes);
    if (theirs >= 0) close(theirs);
    if (!mapped && !copy_pages((pid_t)(p.access >> 16), at, first, first + bytes)) return munmap(at, bytes), (void *)-1;
    windows[slot].at = at, windows[slot].bytes = bytes;
    xpmem_sim_attached++;
    return at;
}

void *xpmem_attach(struct place p, size_t bytes, void *where)
{
    pthread_mutex_lock(&lock);
    void *at = where ? (void *)-1 : attach(p, bytes);
    pthread_mutex_unlock(&lock);
    if (at == (void *)-1) errno = ENOMEM;
    return at;
}

int xpmem_detach(void *at)
{
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WINDOWS && found; i++) {
        if (windows[i].at != at) continue;
        munmap(at, windows[i].bytes);
        windows[i].at = NULL, found = 0;
        xpmem_sim_detached++;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
