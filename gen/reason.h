/* reason.h: writes the one line that a failing function leaves for a person. */
#ifndef STRIDEC_GEN_REASON_H
#define STRIDEC_GEN_REASON_H
#include "tree.h"

void reason_set(struct reason *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The two failures that occur everywhere; both return NULL, for `return reason_memory(why);`. */
void *reason_memory(struct reason *why);
void *reason_overflow(struct reason *why, const char *what);

#endif
