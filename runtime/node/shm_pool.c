/* shm_pool.c: shared segment blocks in sizes of powers of two, with a free list for each size. */
#include "shm_pool.h"
#include "base/file.h"
#include "base/log.h"
#include "sigbus_guard.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALLEST 16   /* log2 of bytes */
#define CLASSES 13    /* up to SHM_POOL_BYTES */
#define CLASSES_MOST 16
#define HEAD 4096     /* first bytes of the file: `ready` for segment.c's sweep */
#define FIRST ((uint64_t)1 << SMALLEST)   /* first block; each begins at a multiple of any system's page size */
#define BLOCKS (SHM_POOL_BYTES >> SMALLEST)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *blocks;
static bool failed;
static atomic_bool lost;
static int file = -1;
static uint64_t used;               /* bytes of the file that have memory */
static uint64_t first[CLASSES];     /* first free block of each size; each begins with the offset of the next */

/* Returns true under RLIMIT_AS: many ranks' blocks would soon use up the limit. */
static bool space_is_short(void)
{
    struct rlimit l;
    return !getrlimit(RLIMIT_AS, &l) && l.rlim_cur != RLIM_INFINITY;
}

static char *make(void)
{
    char name[128];
    const char *why;
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    node_pool_name(name, node_self()->rank);
    if (space_is_short() || !file_may_write((off_t)SHM_POOL_BYTES)) return NULL;
    file = file_make(name, &why);
    if (file < 0) return NULL;
    void *at = NULL;
    if (!ftruncate(file, (off_t)SHM_POOL_BYTES) && !fcntl(file, F_SETLK, &l) && file_allocate(file, 0, HEAD))
        at = sigbus_guard_map(file, SHM_POOL_BYTES, PROT_READ | PROT_WRITE, 0, &lost);
    if (!at) return unlink(name), NULL;
    struct node_file *head = at;
    atomic_store(&head->ready, 1);
    used = FIRST;
    return at;
}

bool shm_pool_start(void)
{
    pthread_mutex_lock(&lock);
    if (!blocks && !failed && !(blocks = make())) {
        failed = true;
        log_write(LOG_INFO, "no file for packed messages in shared memory: those of host memory are the MPI's");
    }
    bool made = blocks != NULL;
    pthread_mutex_unlock(&lock);
    return made;
}

static int class_of(int64_t bytes)
{
    int c = 64 - __builtin_clzll((uint64_t)(bytes - 1) | 1) - SMALLEST;
    return c < 0 ? 0 : c;
}

bool shm_pool_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}

/* Returns false for a truncated file. It must not grow again: peers would read zeros. */
static bool is_whole(void)
{
    struct stat s;
    return !fstat(file, &s) && s.st_size == (off_t)SHM_POOL_BYTES;
}

uint64_t shm_pool_take(int64_t bytes)
{
    int c = class_of(bytes);
    uint64_t block = 0, size = (uint64_t)1 << (c + SMALLEST);
    if (c >= CLASSES || !shm_pool_start() || shm_pool_lost()) return 0;
    pthread_mutex_lock(&lock);
    block = first[c];
    if (block) {
        memcpy(&first[c], blocks + block, sizeof block);
    } else if (size <= SHM_POOL_BYTES - used && is_whole() && file_allocate(file, (off_t)used, (off_t)size)) {
        block = used;
        used += size;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

void shm_pool_put(uint64_t block, int64_t bytes)
{
    int c = class_of(bytes);
    pthread_mutex_lock(&lock);
    memcpy(blocks + block, &first[c], sizeof block);
    first[c] = block;
    pthread_mutex_unlock(&lock);
}

char *shm_pool_address(uint64_t block)
{
    return blocks + block;
}

/* ---- the peers' blocks ---- */
/* A block keeps its size, and its mapping its address. `windows` holds the address by block number, with the size class
 * in the low bits of the page address. */

/* Keeps a peer's file open, so that one descriptor can be freed if the application has used up all. */
static struct {
    int fd;
    dev_t device;
    ino_t number;
} kept_file = {.fd = -1};

/* Closes kept_file unless the application has closed it and another file has its number. Returns true if closed. */
static bool kept_file_close(void)
{
    struct stat s;
    int fd = kept_file.fd;
    kept_file.fd = -1;
    return fd >= 0 && !fstat(fd, &s) && s.st_dev == kept_file.device && s.st_ino == kept_file.number && !close(fd);
}

/* Opens a peer's file of blocks; -1 if it is missing or truncated. Caller holds `lock`, here and below. */
static int file_of(const struct peer *p)
{
    char name[128];
    const char *why;
    struct stat s;
    node_pool_name(name, p->rank);
    int fd = file_open(name, O_RDONLY, FILE_OWN, &why);
    if (fd < 0 && errno == EMFILE && kept_file_close()) fd = file_open(name, O_RDONLY, FILE_OWN, &why);
    if (fd >= 0 && !fstat(fd, &s) && s.st_size == (off_t)SHM_POOL_BYTES) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void file_done(int fd)
{
    struct stat s;
    if (kept_file.fd >= 0 || fstat(fd, &s)) {
        close(fd);
        return;
    }
    kept_file.fd = fd, kept_file.device = s.st_dev, kept_file.number = s.st_ino;
}

bool shm_pool_open(struct peer *p)
{
    pthread_mutex_lock(&lock);
    int fd = p->windows || space_is_short() ? -1 : file_of(p);
    if (fd >= 0) {
        p->windows = calloc(BLOCKS, sizeof(_Atomic uintptr_t));
        file_done(fd);
    }
    bool open = p->windows != NULL;
    pthread_mutex_unlock(&lock);
    return open;
}

static uintptr_t window_make(const struct peer *p, uint64_t block, int c)
{
    pthread_mutex_lock(&lock);
    uintptr_t w = atomic_load(&p->windows[block >> SMALLEST]);
    int fd = w ? -1 : file_of(p);
    if (fd >= 0) {
        void *at =
            sigbus_guard_map(fd, (size_t)1 << (c + SMALLEST), PROT_READ, (off_t)block, &node_world_peer(p->rank)->lost);
        if (at) atomic_store(&p->windows[block >> SMALLEST], w = (uintptr_t)at | (unsigned)c);
        file_done(fd);
    }
    pthread_mutex_unlock(&lock);
    return w;
}

/* Returns true if a range lies within the peer's blocks. */
static bool is_inside(const struct peer *p, uint64_t place, int64_t bytes)
{
    return p->windows && bytes > 0 && place >= FIRST && place < SHM_POOL_BYTES &&
           (uint64_t)bytes <= SHM_POOL_BYTES - place;
}

const char *shm_pool_map(const struct peer *p, uint64_t block, int64_t bytes)
{
    int c = class_of(bytes);
    if (c >= CLASSES || !is_inside(p, block, (int64_t)1 << (c + SMALLEST)) || block % FIRST) return NULL;
    uintptr_t w = atomic_load_explicit(&p->windows[block >> SMALLEST], memory_order_acquire);
    if (!w) w = window_make(p, block, c);
    return w && (w & (CLASSES_MOST - 1)) == (unsigned)c ? (const char *)(w - (unsigned)c) : NULL;
}

bool shm_pool_read(const struct peer *p, uint64_t place, char *to, int64_t bytes)
{
    pthread_mutex_lock(&lock);
    int fd = is_inside(p, place, bytes) ? file_of(p) : -1;
    bool read = fd >= 0 && pread(fd, to, (size_t)bytes, (off_t)place) == bytes;
    if (fd >= 0) file_done(fd);
    pthread_mutex_unlock(&lock);
    return read;
}

void shm_pool_close(struct peer *p)
{
    for (size_t i = 0; p->windows && i < BLOCKS; i++)
        sigbus_guard_unmap((void *)(p->windows[i] & ~(uintptr_t)(CLASSES_MOST - 1)));
    free(p->windows);
    p->windows = NULL;
}

void shm_pool_finish(void)
{
    char name[128];
    if (blocks) {
        node_pool_name(name, node_self()->rank);
        unlink(name);
        sigbus_guard_unmap(blocks);
    }
    if (file >= 0) close(file);
    kept_file_close();
    blocks = NULL, failed = false, file = -1, used = 0, lost = false;
    memset(first, 0, sizeof first);
}
