/* log.c: one line a message, written by one write(2), so that ranks' lines do not mix. */
#include "log.h"
#include "env.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ORDER LOG_LEVEL */
static const char *const level_names[] = {"error", "warn", "info", "debug"};

static atomic_int rank = -1;

bool log_enabled(enum log_level level)
{
    return (int)level <= env_get()->log_level;
}

static void write_line(enum log_level level, const char *format, va_list args)
{
    char line[2048];
    int known = atomic_load(&rank);
    int at = snprintf(line, sizeof line, "stridec[%d]: %s: ", known >= 0 ? known : (int)getpid(), level_names[level]);
    int more = vsnprintf(line + at, sizeof line - (size_t)at - 1, format, args);
    size_t length = more < 0 ? (size_t)at : strlen(line);
    line[length++] = '\n';
    /* Standard error may be closed: nothing else can be done. */
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level)) return;
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

/* Returns true at the first call with a key; false if the table is full: better silent than flooding. */
static bool first_time(const char *key)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *seen[128];
    static size_t used;
    bool first = true;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < used && first; i++) first = strcmp(seen[i], key) != 0;
    if (used == sizeof seen / sizeof *seen) first = false;
    if (first) seen[used++] = key;
    pthread_mutex_unlock(&lock);
    return first;
}

void log_once(enum log_level level, const char *key, const char *format, ...)
{
    if (!log_enabled(level) || !first_time(key)) return;
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

void log_fatal(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(LOG_ERROR, format, args);
    va_end(args);
    abort();
}

void log_set_rank(int to)
{
    atomic_store(&rank, to);
}
