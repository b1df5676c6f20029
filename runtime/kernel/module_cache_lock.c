/* module_cache_lock.c: shares the cache folder: locks between ranks that want one module, and the folder's limit. */
#include "base/file.h"
#include "base/log.h"
#include "module_cache.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A stopped rank, or a file system without locks, must not block others: compiling twice does no harm. */
#define LOCK_TRIES 15000
#define LOCK_WAIT_NS 2000000
#define TEMPORARY strlen(".XXXXXX")

int module_cache_lock(const char *key, bool (*stop)(void))
{
    const char *why;
    char *path = module_cache_path(key, ".lock");
    bool there = path && module_cache_make() && module_cache_usable();
    int fd = there ? file_open(path, O_RDWR | O_CREAT, FILE_OWN, &why) : -1;
    if (there && fd < 0 && errno == EPERM) log_once(LOG_WARN, "cache folder", "%s can't be used: %s", path, why);
    free(path);
    if (fd < 0) return -1;
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if ((errno != EWOULDBLOCK && errno != EINTR) || (stop && stop())) break;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
    }
    close(fd);
    return -1;
}

/* Removes the lock file while the lock is held. A waiter then gets a lock that newcomers do not see, and may compile
 * twice. Unlocks explicitly, because a forked child also has the file open. */
void module_cache_unlock(int lock, const char *key)
{
    if (lock < 0) return;
    char *path = module_cache_path(key, ".lock");
    if (path) unlink(path);
    free(path);
    flock(lock, LOCK_UN);
    close(lock);
}

struct file {
    char *name;
    off_t bytes;
    struct timespec used;
};

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct file *)a)->used, *y = &((const struct file *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Returns true for a draft or a lock file whose process was killed. */
static bool is_left(const char *name, const struct stat *st)
{
    char written[64];
    size_t length = strlen(name), digits = strspn(name, "0123456789abcdef");
    bool part = length > TEMPORARY && length < sizeof written && name[length - TEMPORARY] == '.';
    snprintf(written, sizeof written, "%.*s", (int)(part ? length - TEMPORARY : 0), name);
    bool ours =
        digits == 32 ? !strcmp(name + digits, ".lock") || module_cache_is_module(written) : !strcmp(written, "nvrtc");
    return ours && file_is_stale(st);
}

/* Returns the folder's modules, *count of them, malloc'd with their names. Removes files of killed processes. */
static struct file *list(DIR *folder, size_t *count)
{
    struct file *files = NULL;
    size_t room = 0;
    *count = 0;
    for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        struct stat st;
        if (fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
        if (S_ISREG(st.st_mode) && is_left(e->d_name, &st)) unlinkat(dirfd(folder), e->d_name, 0);
        if (!module_cache_is_module(e->d_name)) continue;
        if (*count == room) {
            struct file *more = realloc(files, (room = room * 2 + 64) * sizeof *files);
            if (!more) break;
            files = more;
        }
        files[*count] = (struct file){strdup(e->d_name), st.st_size, st.st_mtim};
        if (files[*count].name) (*count)++;
    }
    return files;
}

void module_cache_trim(size_t limit)
{
    DIR *folder = module_cache_usable() ? opendir(module_cache_dir()) : NULL;
    size_t count, total = 0;
    if (!folder) return;
    struct file *files = list(folder, &count);
    for (size_t i = 0; i < count; i++) total += (size_t)files[i].bytes;
    if (total > limit) {
        qsort(files, count, sizeof *files, by_use);
        /* Stop below the limit, so that the next module does not come here again. */
        for (size_t i = 0; i < count && total > limit - limit / 4; i++)
            if (unlinkat(dirfd(folder), files[i].name, 0) == 0) total -= (size_t)files[i].bytes;
    }
    for (size_t i = 0; i < count; i++) free(files[i].name);
    free(files);
    closedir(folder);
}
