/* log.h: messages to standard error: "stridec[RANK]: LEVEL: text". Level from STRIDEC_LOG (default warn). */
#ifndef STRIDEC_LOG_H
#define STRIDEC_LOG_H
#include <stdbool.h>

/* ORDER LOG_LEVEL: names in log.c. */
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

bool log_enabled(enum log_level level);
/* The functions from here on are cold: code that only leads to a log line is kept away from the fast path. */
void log_write(enum log_level level, const char *format, ...) __attribute__((cold, format(printf, 2, 3)));
/* Writes once in the life of the process. `key` identifies the message; static storage. */
void log_once(enum log_level level, const char *key, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));
/* Writes the message, then calls abort(): for errors that would lose data or let peers wait for ever. */
_Noreturn void log_fatal(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
/* Sets the rank that lines show; before, they show the process id. */
void log_set_rank(int rank);

#endif
