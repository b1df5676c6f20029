/* text.h: text that grows, for signatures and descriptions. */
#ifndef STRIDEC_GEN_TEXT_H
#define STRIDEC_GEN_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tree.h"

/* Longer text is refused: a layout whose shared subtrees unfold to more has no use for a signature. */
#define TEXT_MAX ((size_t)1 << 28)

/* All zeros is empty text. After a failure nothing more is added. */
struct text {
    char *at;
    size_t length, room;
    bool full, no_memory;
};

void text_add(struct text *x, const char *s);
void text_add_int(struct text *x, int64_t n);   /* canonical decimal */
static inline bool text_failed(const struct text *x)
{
    return x->full || x->no_memory;
}
/* The text, malloc'd, or NULL with a line in *why. */
char *text_take(struct text *x, struct reason *why);

#endif
