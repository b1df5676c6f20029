/* type_inner.h: what the type constructors share. */
#ifndef STRIDEC_GEN_TYPE_INNER_H
#define STRIDEC_GEN_TYPE_INNER_H
#include "reason.h"
#include "type.h"

/* lb and ub as they come about: the least and greatest marker, and the strictest alignment, of everything
 * that the new type holds. */
struct bounds {
    bool marked, far;   /* far: some marker is past 2^63 */
    int64_t lb, ub;
    int align;
};
#define BOUNDS_NONE {false, false, INT64_MAX, INT64_MIN, 1}

/* count copies of `old` from `at` on, its extent apart, join the typemap. None: nothing joins. */
void bounds_block(struct bounds *b, const struct type *old, int64_t at, int64_t count);
/* The least and the greatest displacement of a list of equal blocks. count >= 1. */
void bounds_blocks(struct bounds *b, const struct type *old, const int64_t at[], int64_t count, int64_t blocklength);

/* The type over a tree (consumed, NULL passes through): markers if there are any, else the bytes. */
struct type *type_over(struct tree *tree, const struct bounds *b, struct reason *why);
/* The same with both bounds marked. */
struct type *type_marked(struct tree *tree, int64_t lb, int64_t ub, int align, struct reason *why);

static inline int64_t type_extent(const struct type *t)
{
    return t->ub - t->lb;   /* type_marked and type_over see to it that it fits */
}

/* Returns true if copies of the type make one block: it is its bytes, from 0 on, and nothing else. Without branches, for
 * lists of types. */
static inline bool type_is_plain(const struct type *t)
{
    return (t->tree->kind == TREE_DENSE) & (t->tree->off == 0) & (t->size > 0) & (type_extent(t) == t->size);
}
/* Returns `length` copies of old from `at` on, its extent apart: one node where they touch. */
struct tree *type_block(int64_t at, int64_t length, const struct type *old, struct reason *why);

/* True if n >= 0; else a line naming the call and the argument. */
bool type_check(const char *call, const char *argument, int64_t n, struct reason *why);
bool type_check_all(const char *call, const char *argument, int64_t count, const int64_t n[], struct reason *why);

#endif
