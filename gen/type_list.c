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
    struct tree *block = tree_stride(0, length, type_extent(old), tree_ref(old->tree), why);
    return type_over(tree_index(0, l->count, at, block, why), &b, why);
}

/* True if copies of o make one block: o is its bytes, from 0 on, and nothing else. */
static bool is_plain(const struct type *o)
{
    return o->tree->kind == TREE_DENSE && o->tree->off == 0 && o->size > 0 && type_extent(o) == o->size;
}

/* length copies of o from `at` on: one node where they touch. */
static struct tree *block_of(int64_t at, int64_t length, const struct type *o, struct reason *why)
{
    int64_t bytes;
    if (is_plain(o) && !__builtin_mul_overflow(length, o->size, &bytes))
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

/* The blocks (at, length, type) of a call; those of length 0 contribute nothing, no markers and no alignment either.
 * one_old: all are of type old[0]. `first` is where the first of them lies, if that leaves the others in reach. */
struct list {
    int64_t count;
    const int64_t *at, *lengths;
    const struct type *const *old;
    bool one_old;
    int64_t first;
};

static const struct type *old_of(const struct list *l, int64_t i)
{
    return l->old[l->one_old ? 0 : i];
}

/* True if the types that blocks are of are plain. */
static bool all_plain(const struct list *l)
{
    const struct type *last = NULL;   /* neighbours are mostly of one type */
    for (int64_t i = 0; i < (l->one_old ? 1 : l->count); i++) {
        if (l->old[i] != last && !is_plain(l->old[i]) && (l->one_old || l->lengths[i] > 0))
            return false;
        last = l->lengths[i] > 0 || l->one_old ? l->old[i] : last;
    }
    return true;
}

/* Blocks of plain types: bytes at offsets. */
static struct tree *plain_blocks(const struct list *l, struct reason *why)
{
    struct tree_block *block = tree_blocks_room(l->count, why);
    int64_t n = 0;
    bool far = false;
    for (int64_t i = 0; block && i < l->count; i++) {
        far |= __builtin_mul_overflow(l->lengths[i], old_of(l, i)->size, &block[n].len);
        block[n].off = l->at[i] - l->first;
        n += l->lengths[i] > 0;
    }
    if (!far)
        return block ? tree_blocks(l->first, n, block, why) : NULL;
    tree_blocks_drop(block);
    return reason_overflow(why, "the packed size");
}

static struct tree *any_blocks(const struct list *l, struct reason *why)
{
    struct tree **part = malloc((size_t)l->count * sizeof *part);
    int64_t n = 0;
    if (!part)
        return reason_memory(why);
    for (int64_t i = 0; i < l->count; i++) {
        if (l->lengths[i] == 0)
            continue;
        part[n] = block_of(l->at[i] - l->first, l->lengths[i], old_of(l, i), why);
        if (!part[n++])
            break;
    }
    struct tree *t = tree_seq(l->first, n, part, why);
    free(part);
    return t;
}

/* The blocks as blocks, or as a seq where some are not plain. */
static struct type *type_of_list(struct list *l, struct reason *why)
{
    struct bounds b = BOUNDS_NONE;
    l->first = first_offset(l->count, l->at, l->lengths);
    for (int64_t i = 0; i < l->count; i++) {
        const struct type *o = old_of(l, i);
        if (o->lb_set || o->align > b.align)
            bounds_block(&b, o, l->at[i], l->lengths[i]);
    }
    return type_over(all_plain(l) ? plain_blocks(l, why) : any_blocks(l, why), &b, why);
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
    struct list list = {.count = l->count, .at = at, .lengths = l->lengths, .old = &l->old, .one_old = true};
    struct type *t = lengths_equal(l) ? equal_blocks(l, at, why) : type_of_list(&list, why);
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
    return type_of_list(&(struct list){.count = count, .at = displacements, .lengths = blocklengths, .old = old}, why);
}
