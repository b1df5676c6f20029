/* file_share.c: see file_share.h.
 *
 * The folder has a file "lock". Byte 0 is locked for reading by each living process. Another byte, by a hash of the
 * path, is locked for writing by the rank that reads that file; the system unlocks what a dead process had locked. The
 * file "pages" has a byte for each page of the copies. A copy is renamed to its name once it is complete. */
#include "file_share.h"
#include "file.h"
#include "log.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define PAGE 4096
#define NAME_MAX_BYTES 192
#define START_TRIES 3
#define WAIT_NS INT64_C(2000000000)
#define PAUSE_NS 50000        /* the first one, doubled up to the longest */
#define PAUSE_NS_MAX 200000

static char folder[NAME_MAX_BYTES - 48];
static int lock_fd = -1;      /* opened once: to close another descriptor of the file would unlock it */
static struct stat lock_file; /* the application may close our descriptor and reuse its number */
static atomic_bool shares;

static void name_in(char name[NAME_MAX_BYTES], const char *in, const char *file)
{
    snprintf(name, NAME_MAX_BYTES, "%s/%s", in, file);
}

/* Locks or unlocks a byte. Returns false if another process has locked it. */
static bool lock_byte(int fd, short type, off_t at)
{
    return !fcntl(fd, F_SETLK, &(struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1});
}

static bool ready(void)
{
    struct stat s;
    return atomic_load_explicit(&shares, memory_order_acquire) && !fstat(lock_fd, &s) &&
           s.st_dev == lock_file.st_dev && s.st_ino == lock_file.st_ino;
}

/* Opens the lock of the folder, and makes both. Returns a descriptor; -1 if another process removes them meanwhile. */
static int join(void)
{
    char name[NAME_MAX_BYTES];
    const char *why;
    name_in(name, folder, "lock");
    if (mkdir(folder, 0700) && errno != EEXIST) return -1;
    if (!file_folder(folder, FILE_OWN, &why)) {
        log_once(LOG_WARN, "file share", "%s is not used, each rank reads modules itself: %s", folder, why);
        return -1;
    }
    int fd = file_open(name, O_RDWR | O_CREAT, FILE_OWN, &why);
    if (fd >= 0 && lock_byte(fd, F_RDLCK, 0) && !fstat(fd, &lock_file) && lock_file.st_nlink) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

bool file_share_start(const char *prefix)
{
    if (atomic_load(&shares)) return true;
    if (snprintf(folder, sizeof folder, "%sread", prefix) >= (int)sizeof folder) return false;
    for (int i = 0; i < START_TRIES && lock_fd < 0; i++) lock_fd = join();
    atomic_store_explicit(&shares, lock_fd >= 0, memory_order_release);
    return lock_fd >= 0;
}

/* Removes a folder; its lock is held, and goes last: a folder without one is empty. */
static void remove_folder(const char *name)
{
    DIR *d = opendir(name);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (strcmp(e->d_name, "lock")) unlinkat(dirfd(d), e->d_name, 0);
    if (d) unlinkat(dirfd(d), "lock", 0), closedir(d);
    rmdir(name);
}

/* Unlocks first: of two ranks that end together, one finds that it is the last. */
void file_share_finish(void)
{
    bool open = ready();
    atomic_store(&shares, false);
    if (open) {
        lock_byte(lock_fd, F_UNLCK, 0);
        if (lock_byte(lock_fd, F_WRLCK, 0)) remove_folder(folder);
        close(lock_fd);
    }
    lock_fd = -1;
}

void file_share_drop(const char *name)
{
    char lock[NAME_MAX_BYTES];
    const char *why;
    if (strlen(name) >= sizeof folder || !file_folder(name, FILE_OWN, &why)) return;
    name_in(lock, name, "lock");
    int fd = file_open(lock, O_RDWR, FILE_OWN, &why);
    if (fd >= 0 && lock_byte(fd, F_WRLCK, 0)) remove_folder(name);
    if (fd < 0) rmdir(name);
    else close(fd);
}

/* Writes the name of a path's copy. Returns the byte of its lock. */
static off_t copy_name(char name[NAME_MAX_BYTES], const char *path)
{
    XXH128_hash_t h = XXH3_128bits(path, strlen(path));
    char file[40];
    snprintf(file, sizeof file, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    name_in(name, folder, file);
    return (off_t)(1 + (h.low64 >> 2));
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Locks the byte. If another rank has it, waits until that rank has read the file, and leaves it unlocked: ranks that
 * find no copy then read the file at the same time. */
static void take_turn(off_t at)
{
    int64_t until = now() + WAIT_NS;
    if (lock_byte(lock_fd, F_WRLCK, at)) return;
    for (long pause = PAUSE_NS; now() < until; pause = pause < PAUSE_NS_MAX ? 2 * pause : pause) {
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        if (!lock_byte(lock_fd, F_WRLCK, at)) continue;
        lock_byte(lock_fd, F_UNLCK, at);
        return;
    }
}

char *file_share_get(const char *path, size_t *bytes)
{
    char name[NAME_MAX_BYTES];
    const char *why;
    if (!ready()) return NULL;
    off_t at = copy_name(name, path);
    char *text = file_read(name, FILE_OWN, FILE_SHARE_BYTES_MAX, bytes, &why);
    if (text || errno != ENOENT) return text;
    take_turn(at);
    text = file_read(name, FILE_OWN, FILE_SHARE_BYTES_MAX, bytes, &why);
    if (text) lock_byte(lock_fd, F_UNLCK, at);
    return text;
}

/* Counts the pages of a new copy. Returns false if they are too many; ranks that ask at once may pass the limit. */
static bool count_pages(size_t bytes)
{
    static const char page[FILE_SHARE_BYTES_MAX / PAGE];
    char name[NAME_MAX_BYTES];
    const char *why;
    struct stat s;
    size_t pages = bytes / PAGE + 1;
    name_in(name, folder, "pages");
    int fd = file_open(name, O_WRONLY | O_APPEND | O_CREAT, FILE_OWN, &why);
    bool fits = fd >= 0 && !fstat(fd, &s) && pages <= sizeof page && (size_t)s.st_size <= sizeof page - pages &&
                file_put(fd, page, pages);
    if (fd >= 0) close(fd);
    return fits;
}

void file_share_put(const char *path, const char *text, size_t bytes)
{
    char name[NAME_MAX_BYTES];
    if (!ready()) return;
    off_t at = copy_name(name, path);
    if (text && count_pages(bytes)) file_replace(name, 0600, text, bytes);
    lock_byte(lock_fd, F_UNLCK, at);
}

char *file_share_read(const char *path, enum file_from from, size_t most, size_t *bytes, const char **why)
{
    char *text = file_share_get(path, bytes);
    if (text) return text;
    text = file_read(path, from, most, bytes, why);
    int error = errno;
    file_share_put(path, text, text ? *bytes : 0);
    errno = error;
    return text;
}

void file_share_remove(const char *path)
{
    char name[NAME_MAX_BYTES];
    if (!ready()) return;
    copy_name(name, path);
    unlink(name);
}
