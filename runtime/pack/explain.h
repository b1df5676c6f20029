/* explain.h: reports the path of messages and its reason: a line for each layout, number of bytes and path, in the log
 * (info) and below its datatype's statistics. */
#ifndef STRIDEC_EXPLAIN_H
#define STRIDEC_EXPLAIN_H
#include "base/env.h"
#include "base/log.h"
#include "datatype/layout.h"

static inline bool explain_wanted(void)
{
    return log_enabled(LOG_INFO) || env_get()->stats;
}
/* Reports once that `bytes` of `count` elements took this path, a string of static storage. */
void explain_path(struct layout *l, int64_t count, int64_t bytes, const char *path);

#endif
