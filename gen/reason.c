/* reason.c: the text of failures. */
#include "reason.h"

#include <stdarg.h>
#include <stdio.h>

void reason_set(struct reason *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
}

void *reason_memory(struct reason *why)
{
    reason_set(why, "out of memory");
    return NULL;
}

void *reason_overflow(struct reason *why, const char *what)
{
    reason_set(why, "%s does not fit in 63 bits", what);
    return NULL;
}
