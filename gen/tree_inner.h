/* tree_inner.h: what the files that work on trees share and nobody else needs. */
#ifndef STRIDEC_GEN_TREE_INNER_H
#define STRIDEC_GEN_TREE_INNER_H
#include "tree.h"

/* tree_equal but for the roots' offsets. */
bool tree_same_shape(const struct tree *a, const struct tree *b);

/* a + b and a * b of offsets where an overflow could only come from a caller's buffer past the end of
 * the address space: wraps, as addresses do. */
static inline int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

#endif
