/* room.c: rooms by powers of two: those that are given back wait in a list for the next of their size. */
#include "room.h"
#include "file.h"
#include "log.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALLEST 16   /* log2 of bytes */
#define CLASSES 13    /* up to ROOMS_BYTES */
#define HEAD 4096     /* of the file: what tells it from one that is being made (node.c's sweep) */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *rooms;
static bool failed;
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
    void *at = MAP_FAILED;
    if (!ftruncate(file, (off_t)ROOMS_BYTES) && !fcntl(file, F_SETLK, &l) && file_filled(file, 0, HEAD))
        at = mmap(NULL, ROOMS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) return unlink(name), NULL;
    struct node_file *head = at;
    atomic_store(&head->ready, 1);
    used = HEAD;
    return at;
}

bool rooms_start(void)
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

uint64_t room_take(int64_t bytes)
{
    int c = class_of(bytes);
    uint64_t room = 0, size = (uint64_t)1 << (c + SMALLEST);
    if (c >= CLASSES || !rooms_start()) return 0;
    pthread_mutex_lock(&lock);
    room = first[c];
    if (room) {
        memcpy(&first[c], rooms + room, sizeof room);
    } else if (size <= ROOMS_BYTES - used && file_filled(file, (off_t)used, (off_t)size)) {
        room = used;
        used += size;
    }
    pthread_mutex_unlock(&lock);
    return room;
}

void room_put(uint64_t room, int64_t bytes)
{
    int c = class_of(bytes);
    pthread_mutex_lock(&lock);
    memcpy(rooms + room, &first[c], sizeof room);
    first[c] = room;
    pthread_mutex_unlock(&lock);
}

char *room_address(uint64_t room)
{
    return rooms + room;
}

bool rooms_open(struct peer *p)
{
    char name[128];
    struct stat s;
    pthread_mutex_lock(&lock);
    if (!p->rooms && !space_is_short()) {
        node_rooms_name(name, p->rank);
        const char *why;
        int fd = file_open(name, O_RDONLY, FILE_OWN, &why);
        bool whole = fd >= 0 && !fstat(fd, &s) && s.st_size == (off_t)ROOMS_BYTES;
        void *at = whole ? mmap(NULL, ROOMS_BYTES, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
        if (at != MAP_FAILED) p->rooms = at;
        if (fd >= 0) close(fd);
    }
    bool open = p->rooms != NULL;
    pthread_mutex_unlock(&lock);
    return open;
}

const char *room_of(const struct peer *p, uint64_t room, int64_t bytes)
{
    bool inside = room < ROOMS_BYTES && (uint64_t)bytes <= ROOMS_BYTES - room;
    return p->rooms && inside ? p->rooms + room : NULL;
}

void rooms_finish(void)
{
    char name[128];
    if (rooms) {
        node_rooms_name(name, node_own()->rank);
        unlink(name);
        munmap(rooms, ROOMS_BYTES);
    }
    if (file >= 0) close(file);
    rooms = NULL, failed = false, file = -1, used = 0;
    memset(first, 0, sizeof first);
}
