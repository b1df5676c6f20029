/* text.c: text that grows. */
#include "text.h"

#include <stdlib.h>
#include <string.h>

#include "reason.h"

static bool text_reserve(struct text *x, size_t more)
{
    if (text_failed(x))
        return false;
    if (x->length + more < x->room)
        return true;
    if (x->length + more >= TEXT_MAX) {
        x->full = true;
        return false;
    }
    size_t room = (x->room + more) * 2 + 64;
    char *wider = realloc(x->at, room);
    if (!wider) {
        x->no_memory = true;
        return false;
    }
    x->at = wider;
    x->room = room;
    return true;
}

void text_add(struct text *x, const char *s)
{
    size_t n = strlen(s);
    if (!text_reserve(x, n))
        return;
    memcpy(x->at + x->length, s, n + 1);
    x->length += n;
}

void text_add_int(struct text *x, int64_t n)
{
    char digits[24], *p = digits + sizeof digits;
    uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
    *--p = '\0';
    do
        *--p = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (n < 0)
        *--p = '-';
    text_add(x, p);
}

char *text_take(struct text *x, struct reason *why)
{
    text_add(x, "");
    if (!text_failed(x))
        return x->at;
    if (x->full)
        reason_set(why, "the layout's text would be longer than %zu bytes", TEXT_MAX);
    else
        reason_memory(why);
    free(x->at);
    return NULL;
}
