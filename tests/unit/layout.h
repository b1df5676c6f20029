/* layout.h: what a tree means, from its definition alone: typemap order, depth first, left to right.
 *
 * Include after cmocka.h. */
#ifndef STRIDEC_TESTS_LAYOUT_H
#define STRIDEC_TESTS_LAYOUT_H
#include "../../gen/tree.h"
#include <stdlib.h>

struct stream {
    int64_t *at; /* offset from the origin of each packed byte */
    int64_t bytes;
    int64_t low, high; /* lowest, one past the highest */
    bool overlaps;
};

/* `copies` stands in for the node's own count (of bytes in a dense one). */
static inline void enumerate(struct stream *s, const struct tree *t, int64_t copies, int64_t origin)
{
    for (int64_t i = 0; i < copies; i++) {
        if (t->kind == TREE_DENSE) s->at[s->bytes++] = origin + i;
        if (t->kind == TREE_STRIDE) enumerate(s, t->child, t->child->count, origin + i * t->step + t->child->off);
        if (t->kind == TREE_INDEX) enumerate(s, t->child, t->child->count, origin + t->at[i] + t->child->off);
        if (t->kind == TREE_SEQ) enumerate(s, t->part[i], t->part[i]->count, origin + t->part[i]->off);
        for (int64_t k = 0; t->kind == TREE_BLOCKS && k < t->block[i].len; k++)
            s->at[s->bytes++] = origin + t->block[i].off + k;
    }
}

static inline void survey(struct stream *s)
{
    s->low = s->high = s->at[0];
    for (int64_t i = 0; i < s->bytes; i++) {
        if (s->at[i] < s->low) s->low = s->at[i];
        if (s->at[i] >= s->high) s->high = s->at[i] + 1;
    }
    char *seen = calloc(1, (size_t)(s->high - s->low));
    for (int64_t i = 0; i < s->bytes; i++) s->overlaps |= seen[s->at[i] - s->low]++ != 0;
    free(seen);
}

/* `count` elements: `extent` apart, or with extent 0 the root's own stride going on. */
static inline struct stream stream_of(const struct tree *t, int64_t count, int64_t extent)
{
    struct stream s = {malloc((size_t)(t->size * count) * sizeof *s.at), 0, 0, 0, false};
    for (int64_t e = 0; e < (extent ? count : 1); e++)
        enumerate(&s, t, extent ? t->count : t->count * count, e * extent);
    assert_int_equal(s.bytes, t->size * count);
    survey(&s);
    return s;
}

/* Where packed byte p of one element lies. */
static inline int64_t place(const struct tree *t, int64_t p)
{
    if (t->kind == TREE_DENSE) return p;
    return p / t->child->size * t->step + t->child->off + place(t->child, p % t->child->size);
}

#endif
