/* capture.c: see capture.h. */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Returns the environment without LD_PRELOAD. The list is malloc'd, its entries are not. */
static char **environment(void)
{
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    char **list = calloc(n + 1, sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            list[used++] = environ[i];
    return list;
}

/* Starts it with a process group of its own, so that all that it starts can be ended. Returns 0 or an error. */
static int start(char *const argv[], int to, pid_t *child)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    char **list = environment();
    int error = list ? posix_spawn_file_actions_init(&files) : ENOMEM;
    if (error == 0) {
        posix_spawnattr_init(&how);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&files, to, STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&files, to, STDERR_FILENO);
        error = posix_spawnp(child, argv[0], &files, &how, argv, list);
        posix_spawn_file_actions_destroy(&files);
        posix_spawnattr_destroy(&how);
    }
    free(list);
    return error;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until the end, or until `until`. Returns false if the time has passed. */
static bool read_all(int from, char *out, size_t bytes, int64_t until)
{
    char rest[4096];
    size_t used = 0;
    for (;;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int64_t left = until - now_ms();
        int n = left > 0 ? poll(&ready, 1, (int)left) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bool room = used + 1 < bytes;
        ssize_t got = read(from, room ? out + used : rest, room ? bytes - 1 - used : sizeof rest);
        if (got <= 0)
            return true;
        if (room)
            out[used += (size_t)got] = '\0';
    }
}

/* Waits until `until` for the child's end: one that has closed its output may still run. Then ends it and its group.
 * Returns false if it had to, or if there is no such child. */
static bool wait_until(pid_t child, int64_t until, int *status)
{
    pid_t got;
    while ((got = waitpid(child, status, WNOHANG)) == 0 && now_ms() < until) poll(NULL, 0, 1);
    if (got != 0) return got == child;
    kill(-child, SIGKILL);
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
        ;
    return false;
}

int capture(char *const argv[], char *out, size_t bytes, int seconds)
{
    int ends[2], status = 0;
    pid_t child;
    *out = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    int error = start(argv, ends[1], &child);
    close(ends[1]);
    int64_t until = now_ms() + 1000 * (int64_t)seconds;
    bool ended = error == 0 && read_all(ends[0], out, bytes, until);
    close(ends[0]);
    if (error != 0)
        return -1;
    if (!ended)
        kill(-child, SIGKILL);
    ended = wait_until(child, until, &status) && ended;
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
