/* type_list.c: the constructors that take lists: indexed, hindexed, their _block forms, and struct. */
#include <stdlib.h>

#include "type_inner.h"

/* One call's arguments in one form: displacements times `unit` are bytes. */
struct blocks {
    const char *call;
    int64_t count;
    const int64_t *lengths;   /* NULL: all are `length` */
    int64_t length;
    const int64_t *displacements;
    int64_t unit;
    const struct type *old;
};

static int64_t length_of(const struct blocks *l, int64_t i)
{
    return l->lengths ? l->lengths[i] : l->length;
}

static bool lengths_equal(const struct blocks *l)
{
    for (int64_t i = 1; l->lengths && i < l->count; i++) {
        if (l->lengths[i] != l->lengths[0])
            return false;
    }
    return true;
}

static bool lengths_zero(const struct blocks *l)
{
    for (int64_t i = 0; i < l->count; i++) {
        if (length_of(l, i) > 0)
            return false;
    }
    return true;
}

/* The displacements in bytes; malloc'd, NULL on failure. */
static int64_t *bytes_of(const struct blocks *l, struct reason *why)
{
    int64_t *at = malloc((size_t)l->count * sizeof *at);
    if (!at)
        return reason_memory(why);
    for (int64_t i = 0; i < l->count; i++) {
        if (__builtin_mul_overflow(l->displacements[i], l->unit, &at[i])) {
            free(at);
            reason_set(why, "%s: displacements[%lld] in bytes does not fit in 63 bits", l->call, (long long)i);
            return NULL;
        }
    }
    return at;
}

/* Equal blocks are written once: a list of a million needs no million nodes. */
static struct type *equal_blocks(const struct blocks *l, const int64_t at[], struct reason *why)
{
    struct bounds b = BOUNDS_NONE;
    const struct type *old = l->old;
    int64_t length = length_of(l, 0);
    bounds_blocks(&b, old, at, l->count, length);
    struct tree *block = tree_stride(0, length, type_extent(old), tree_ref(old->tree), why);
    return type_over(tree_index(0, l->count, at, block, why), &b, why);
}

/* length copies of o from `at` on: one node where they touch, as in most of the longest lists. */
static struct tree *block_of(int64_t at, int64_t length, const struct type *o, struct reason *why)
{
    int64_t bytes;
    if (o->tree->kind == TREE_DENSE && o->tree->off == 0 && type_extent(o) == o->size &&
        !__builtin_mul_overflow(length, o->size, &bytes))
        return tree_dense(at, bytes, why);
    return tree_stride(at, length, type_extent(o), tree_ref(o->tree), why);
}

static int64_t first_offset(int64_t count, const int64_t at[], const int64_t lengths[])
{
    int64_t first = 0, i = 0, by;
    while (i < count && lengths[i] == 0)
        i++;
    first = i < count ? at[i] : 0;
    for (; i < count; i++) {
        if (__builtin_sub_overflow(at[i], first, &by))
            return 0;
    }
    return first;
}

/* The seq of `count` blocks (at, length, type), those of length 0 left out: they contribute nothing, no
 * markers and no alignment either. one_old: all are of type old[0]. The seq lies where its first block does, if
 * that leaves the others in reach. */
static struct type *seq_of_blocks(int64_t count, const int64_t at[], const int64_t lengths[],
                                  const struct type *const old[], bool one_old, struct reason *why)
{
    struct bounds b = BOUNDS_NONE;
    struct tree **part = malloc((size_t)count * sizeof *part);
    int64_t n = 0, first = first_offset(count, at, lengths);
    if (!part)
        return reason_memory(why);
    for (int64_t i = 0; i < count; i++) {
        const struct type *o = old[one_old ? 0 : i];
        if (lengths[i] == 0)
            continue;
        bounds_block(&b, o, at[i], lengths[i]);
        part[n] = block_of(at[i] - first, lengths[i], o, why);
        if (!part[n++])
            break;
    }
    struct type *t = type_over(tree_seq(first, n, part, why), &b, why);
    free(part);
    return t;
}

static struct type *type_empty(struct reason *why)
{
    struct bounds b = BOUNDS_NONE;
    return type_over(tree_dense(0, 0, why), &b, why);
}

static struct type *indexed_of(const struct blocks *l, struct reason *why)
{
    if (!type_check(l->call, "count", l->count, why) ||
        (l->lengths ? !type_check_all(l->call, "blocklengths", l->count, l->lengths, why)
                    : !type_check(l->call, "blocklength", l->length, why)))
        return NULL;
    if (lengths_zero(l))
        return type_empty(why);
    int64_t *at = bytes_of(l, why);
    if (!at)
        return NULL;
    struct type *t = lengths_equal(l) ? equal_blocks(l, at, why)
                                      : seq_of_blocks(l->count, at, l->lengths, &l->old, true, why);
    free(at);
    return t;
}

struct type *type_indexed(int64_t count, const int64_t blocklengths[], const int64_t displacements[],
                          const struct type *old, struct reason *why)
{
    struct blocks l = {"indexed", count, blocklengths, 0, displacements, type_extent(old), old};
    return indexed_of(&l, why);
}

struct type *type_hindexed(int64_t count, const int64_t blocklengths[], const int64_t displacements[],
                           const struct type *old, struct reason *why)
{
    struct blocks l = {"hindexed", count, blocklengths, 0, displacements, 1, old};
    return indexed_of(&l, why);
}

struct type *type_indexed_block(int64_t count, int64_t blocklength, const int64_t displacements[],
                                const struct type *old, struct reason *why)
{
    struct blocks l = {"indexed_block", count, NULL, blocklength, displacements, type_extent(old), old};
    return indexed_of(&l, why);
}

struct type *type_hindexed_block(int64_t count, int64_t blocklength, const int64_t displacements[],
                                 const struct type *old, struct reason *why)
{
    struct blocks l = {"hindexed_block", count, NULL, blocklength, displacements, 1, old};
    return indexed_of(&l, why);
}

struct type *type_struct(int64_t count, const int64_t blocklengths[], const int64_t displacements[],
                         const struct type *const old[], struct reason *why)
{
    if (!type_check("struct", "count", count, why) ||
        !type_check_all("struct", "blocklengths", count, blocklengths, why))
        return NULL;
    if (count == 0)
        return type_empty(why);
    return seq_of_blocks(count, displacements, blocklengths, old, false, why);
}
