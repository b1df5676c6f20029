/* explain.h: which way messages went and why: a line for each layout, number of bytes and path, in the log (info) and
 * below the statistics of its datatype. */
#ifndef STRIDEC_TELL_H
#define STRIDEC_TELL_H
#include "base/env.h"
#include "base/log.h"
#include "datatype/layout.h"

static inline bool explain_wanted(void)
{
    return log_enabled(LOG_INFO) || env_get()->stats;
}
/* That `bytes` of `count` elements went by this path, a name of static storage. Says so the first time. */
void explain_path(struct layout *l, int64_t count, int64_t bytes, const char *path);

#endif
