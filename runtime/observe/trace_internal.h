/* trace_internal.h: what trace.c has recorded, for trace_write.c. */
#ifndef STRIDEC_TRACE_INTERNAL_H
#define STRIDEC_TRACE_INTERNAL_H
#include "trace.h"
#include <stddef.h>

struct trace_record {
    const struct trace_span *spans;
    size_t n;
    uint64_t dropped;   /* spans for which there was no room */
    int rank;           /* the number of the process in the file */
    int ranks;          /* of the job; 0 if not known */
    const char *title;  /* "rank 3" */
};
/* Writes the file. Returns false with errno. */
bool trace_write(const char *path, const struct trace_record *t);

#endif
