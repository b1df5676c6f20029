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
    int64_t i = 0;
    while (i < l->count && length_of(l, i) == 0)
        i++;
    return i == l->count;
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
    return type_over(tree_index(0, l->count, at, type_block(0, length, old, why), why), &b, why);
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

/* The types of a call's blocks: that of block i is old[i * step], with step 0 where all have one. */
struct olds {
    const struct type *const *old;
    int step;
};

static const struct type *old_of(const struct olds *o, int64_t i)
{
    return o->old[i * o->step];
}

/* The bits of the numbers -2^n to 2^n - 1 that `ones` was made of: n ^ n >> 63 of each; 1 for none. */
static int width(int64_t ones)
{
    return 64 - __builtin_clzll((uint64_t)ones | 1);
}

/* No product of the two is beyond 2^61, and so no difference of two products beyond 2^62. */
static bool products_fit(int64_t ones, int64_t by)
{
    return width(ones) + width(by ^ by >> 63) <= 61;
}

/* Fills in the bytes of plain blocks of one type, from the first block's place on. Returns how many are not empty; -1
 * if a number may not fit. What the numbers are is looked at once, for all together. */
static int64_t fill_alike(const struct blocks *l, int64_t size, struct tree_block block[], int64_t *first)
{
    const int64_t *length = l->lengths, *displacement = l->displacements, unit = l->unit;
    int64_t n = 0, i = 0, count = l->count, far = 0, longest = 0;
    while (i < count && length[i] == 0)
        far |= displacement[i] ^ displacement[i] >> 63, i++;
    uint64_t low = i < count ? (uint64_t)displacement[i] * (uint64_t)unit : 0;
    for (; i < count; i++) {
        int64_t at = displacement[i], len = length[i];
        block[n].off = (int64_t)((uint64_t)at * (uint64_t)unit - low);
        block[n].len = (int64_t)((uint64_t)len * (uint64_t)size);
        far |= at ^ at >> 63, longest |= len;
        n += len > 0;
    }
    *first = (int64_t)low;
    return products_fit(far, unit) && products_fit(longest, size) ? n : -1;
}

/* Fills in those of blocks of different types, too. Returns like fill_alike; -1 also if a type is not plain. Has no
 * branches: the processor would guess them wrong. */
static int64_t fill_plain(const struct blocks *l, const struct olds *o, struct tree_block block[], int64_t *first)
{
    int64_t n = 0, at;
    bool bad = false;
    if (!o->step)
        return type_is_plain(*o->old) ? fill_alike(l, (*o->old)->size, block, first) : -1;
    for (int64_t i = 0; i < l->count; i++) {
        const struct type *old = old_of(o, i);
        bool some = l->lengths[i] > 0;
        bad |= some & !type_is_plain(old);
        bad |= __builtin_mul_overflow(l->displacements[i], l->unit, &at);
        bad |= __builtin_mul_overflow(l->lengths[i], old->size, &block[n].len);
        *first = n ? *first : at;
        bad |= __builtin_sub_overflow(at, *first, &block[n].off);
        n += some;
    }
    return bad ? -1 : n;
}

/* Blocks of any types, or far apart: `at` is their places. Empty ones contribute nothing. */
static struct tree *any_blocks(const struct blocks *l, const int64_t at[], const struct olds *o, struct reason *why)
{
    struct tree **part = malloc((size_t)l->count * sizeof *part);
    int64_t n = 0, first = first_offset(l->count, at, l->lengths);
    if (!part)
        return reason_memory(why);
    for (int64_t i = 0; i < l->count; i++) {
        if (l->lengths[i] == 0)
            continue;
        part[n] = type_block(at[i] - first, l->lengths[i], old_of(o, i), why);
        if (!part[n++])
            break;
    }
    struct tree *t = tree_seq(first, n, part, why);
    free(part);
    return t;
}

/* The blocks as blocks if all are plain, else as a seq. NULL also where a displacement does not fit. */
static struct tree *tree_of(const struct blocks *l, const struct olds *o, struct reason *why)
{
    int64_t first = 0;
    struct tree_block *block = tree_blocks_room(l->count, why);
    if (!block)
        return NULL;
    int64_t n = fill_plain(l, o, block, &first);
    if (n >= 0)
        return tree_blocks(first, n, block, why);
    tree_blocks_drop(block);
    int64_t *at = bytes_of(l, why);
    struct tree *t = at ? any_blocks(l, at, o, why) : NULL;
    free(at);
    return t;
}

/* Blocks of length 0 contribute nothing, no markers and no alignment either. */
static struct type *type_of_list(const struct blocks *l, const struct olds *o, struct reason *why)
{
    struct bounds b = BOUNDS_NONE;
    struct tree *t = tree_of(l, o, why);
    bool one = !o->step && !(*o->old)->lb_set;   /* then a block that is not empty tells all */
    for (int64_t i = 0; t && i < l->count && !(one && b.align == (*o->old)->align); i++) {
        const struct type *old = old_of(o, i);
        if (old->lb_set || old->align > b.align)
            bounds_block(&b, old, l->displacements[i] * l->unit, l->lengths[i]);
    }
    return type_over(t, &b, why);
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
    if (!lengths_equal(l))
        return type_of_list(l, &(struct olds){&l->old, 0}, why);
    int64_t *at = bytes_of(l, why);
    struct type *t = at ? equal_blocks(l, at, why) : NULL;
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
    struct blocks l = {"struct", count, blocklengths, 0, displacements, 1, NULL};
    return type_of_list(&l, &(struct olds){old, 1}, why);
}
