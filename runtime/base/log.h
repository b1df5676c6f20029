/* log.h: messages to standard error: "stridec[RANK]: LEVEL: text". Level from STRIDEC_LOG (default warn). */
#ifndef STRIDEC_LOG_H
#define STRIDEC_LOG_H
#include <stdbool.h>

/* ORDER LOG_LEVEL: names in log.c. */
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

bool log_enabled(enum log_level level);
/* This and those below are cold: code that leads to a line only is laid out away from what moves messages. */
void log_write(enum log_level level, const char *format, ...) __attribute__((cold, format(printf, 2, 3)));
/* Writes the first time only, as long as the process lives; `key` tells messages apart (static storage). */
void log_once(enum log_level level, const char *key, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));
/* Of an error after which data would be lost or peers would wait for ever: written, then abort(). */
_Noreturn void log_fatal(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
/* Before MPI_Init the rank is not known and the process id stands in. */
void log_set_rank(int rank);

#endif
