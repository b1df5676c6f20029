/* shm_pool.c: rooms by powers of two: those that are given back wait in a list for the next of their size. */
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
#define CLASSES 13    /* up to ROOMS_BYTES */
#define CLASSES_MOST 16
#define HEAD 4096     /* of the file: what tells it from one that is being made (segment.c's sweep) */
#define FIRST ((uint64_t)1 << SMALLEST)   /* where rooms begin: each at a multiple of any system's pages */
#define ROOMS (ROOMS_BYTES >> SMALLEST)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *rooms;
static bool failed;
static atomic_bool lost;
static int file = -1;
static uint64_t used;               /* bytes of the file that have memory */
static uint64_t first[CLASSES];     /* of the free ones; each begins with the place of the next */

/* Where the process may not map much (RLIMIT_AS), a program of many ranks would soon miss what the rooms take. */
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
    node_rooms_name(name, node_own()->rank);
    if (space_is_short() || !node_may_write((int64_t)ROOMS_BYTES)) return NULL;
    file = file_make(name, &why);
    if (file < 0) return NULL;
    void *at = NULL;
    if (!ftruncate(file, (off_t)ROOMS_BYTES) && !fcntl(file, F_SETLK, &l) && file_filled(file, 0, HEAD))
        at = sigbus_guard_map(file, ROOMS_BYTES, PROT_READ | PROT_WRITE, 0, &lost);
    if (!at) return unlink(name), NULL;
    struct node_file *head = at;
    atomic_store(&head->ready, 1);
    used = FIRST;
    return at;
}

bool shm_pool_start(void)
{
    pthread_mutex_lock(&lock);
    if (!rooms && !failed && !(rooms = make())) {
        failed = true;
        log_write(LOG_INFO, "no file for packed messages in shared memory: those of host memory are the MPI's");
    }
    bool made = rooms != NULL;
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

/* False of a file that was cut: it does not grow again, for peers would read zeros. */
static bool is_whole(void)
{
    struct stat s;
    return !fstat(file, &s) && s.st_size == (off_t)ROOMS_BYTES;
}

uint64_t shm_pool_take(int64_t bytes)
{
    int c = class_of(bytes);
    uint64_t room = 0, size = (uint64_t)1 << (c + SMALLEST);
    if (c >= CLASSES || !shm_pool_start() || shm_pool_lost()) return 0;
    pthread_mutex_lock(&lock);
    room = first[c];
    if (room) {
        memcpy(&first[c], rooms + room, sizeof room);
    } else if (size <= ROOMS_BYTES - used && is_whole() && file_filled(file, (off_t)used, (off_t)size)) {
        room = used;
        used += size;
    }
    pthread_mutex_unlock(&lock);
    return room;
}

void shm_pool_put(uint64_t room, int64_t bytes)
{
    int c = class_of(bytes);
    pthread_mutex_lock(&lock);
    memcpy(rooms + room, &first[c], sizeof room);
    first[c] = room;
    pthread_mutex_unlock(&lock);
}

char *shm_pool_address(uint64_t room)
{
    return rooms + room;
}

/*
 * The peers'. A room keeps its size, and what is mapped of it its place: the table has the address by the room's
 * number, with the room's class in the bits that a page leaves. */

/* Keeps a peer's file open, so that a program that has used up its descriptors can open another one. */
static struct {
    int fd;
    dev_t device;
    ino_t number;
} spare = {.fd = -1};

/* Another file may have the number, after the program has closed what it did not open. */
static bool freelist_close(void)
{
    struct stat s;
    int fd = spare.fd;
    spare.fd = -1;
    return fd >= 0 && !fstat(fd, &s) && s.st_dev == spare.device && s.st_ino == spare.number && !close(fd);
}

/* With the lock held, here and below. -1 where there is no such file, or not all of it. */
static int file_of(const struct peer *p)
{
    char name[128];
    const char *why;
    struct stat s;
    node_rooms_name(name, p->rank);
    int fd = file_open(name, O_RDONLY, FILE_OWN, &why);
    if (fd < 0 && errno == EMFILE && freelist_close()) fd = file_open(name, O_RDONLY, FILE_OWN, &why);
    if (fd >= 0 && !fstat(fd, &s) && s.st_size == (off_t)ROOMS_BYTES) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void file_done(int fd)
{
    struct stat s;
    if (spare.fd >= 0 || fstat(fd, &s)) {
        close(fd);
        return;
    }
    spare.fd = fd, spare.device = s.st_dev, spare.number = s.st_ino;
}

bool shm_pool_open(struct peer *p)
{
    pthread_mutex_lock(&lock);
    int fd = p->windows || space_is_short() ? -1 : file_of(p);
    if (fd >= 0) {
        p->windows = calloc(ROOMS, sizeof(_Atomic uintptr_t));
        file_done(fd);
    }
    bool open = p->windows != NULL;
    pthread_mutex_unlock(&lock);
    return open;
}

static uintptr_t window_make(const struct peer *p, uint64_t room, int c)
{
    pthread_mutex_lock(&lock);
    uintptr_t w = atomic_load(&p->windows[room >> SMALLEST]);
    int fd = w ? -1 : file_of(p);
    if (fd >= 0) {
        void *at =
            sigbus_guard_map(fd, (size_t)1 << (c + SMALLEST), PROT_READ, (off_t)room, &node_world_peer(p->rank)->lost);
        if (at) atomic_store(&p->windows[room >> SMALLEST], w = (uintptr_t)at | (unsigned)c);
        file_done(fd);
    }
    pthread_mutex_unlock(&lock);
    return w;
}

/* True of a range that is within the peer's rooms. */
static bool is_inside(const struct peer *p, uint64_t place, int64_t bytes)
{
    return p->windows && bytes > 0 && place >= FIRST && place < ROOMS_BYTES && (uint64_t)bytes <= ROOMS_BYTES - place;
}

const char *shm_pool_of(const struct peer *p, uint64_t room, int64_t bytes)
{
    int c = class_of(bytes);
    if (c >= CLASSES || !is_inside(p, room, (int64_t)1 << (c + SMALLEST)) || room % FIRST) return NULL;
    uintptr_t w = atomic_load_explicit(&p->windows[room >> SMALLEST], memory_order_acquire);
    if (!w) w = window_make(p, room, c);
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
    for (size_t i = 0; p->windows && i < ROOMS; i++)
        sigbus_guard_unmap((void *)(p->windows[i] & ~(uintptr_t)(CLASSES_MOST - 1)));
    free(p->windows);
    p->windows = NULL;
}

void shm_pool_finish(void)
{
    char name[128];
    if (rooms) {
        node_rooms_name(name, node_own()->rank);
        unlink(name);
        sigbus_guard_unmap(rooms);
    }
    if (file >= 0) close(file);
    freelist_close();
    rooms = NULL, failed = false, file = -1, used = 0, lost = false;
    memset(first, 0, sizeof first);
}
