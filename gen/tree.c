/* tree.c: nodes of the stride tree: making, sharing, comparing, shifting. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "reason.h"
#include "tree_inner.h"

/* A node's list (`part` or `at`) lies behind this header, so that shifted copies of a node share it. */
struct list {
    int64_t refs;
    int64_t count;
};

/* Entries of so many bytes, to be filled; NULL without memory. */
static void *list_room(int64_t count, size_t entry)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, entry, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct list), &bytes))
        return NULL;
    struct list *l = malloc(bytes);
    if (!l)
        return NULL;
    *l = (struct list){1, count};
    return l + 1;
}

/* Entries of 8 bytes. */
static void *list_new(int64_t count, const void *entries)
{
    void *list = list_room(count, sizeof(int64_t));
    return list ? memcpy(list, entries, (size_t)count * sizeof(int64_t)) : NULL;
}

static void list_ref(void *entries)
{
    __atomic_add_fetch(&((struct list *)entries - 1)->refs, 1, __ATOMIC_RELAXED);
}

/* True if the list has no owner any more: the caller lets the entries go, then frees it. */
static bool list_unref(void *entries)
{
    return __atomic_sub_fetch(&((struct list *)entries - 1)->refs, 1, __ATOMIC_ACQ_REL) == 0;
}

static void list_free(void *entries)
{
    free((struct list *)entries - 1);
}

struct tree *tree_ref(struct tree *t)
{
    __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

void tree_unref(struct tree *t)
{
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    tree_unref(t->child);
    if (t->part && list_unref(t->part)) {
        for (int64_t i = 0; i < t->count; i++)
            tree_unref(t->part[i]);
        list_free(t->part);
    }
    if (t->at && list_unref(t->at))
        list_free(t->at);
    if (t->block && list_unref(t->block))
        list_free(t->block);
    free(t);
}

/* ---- making ---- */

/* Takes over the node's own child; with anything wrong, lets it go. */
static struct tree *node_new(const struct tree *like, struct reason *why)
{
    struct tree *t = malloc(sizeof *t);
    if (!t) {
        tree_unref(like->child);
        return reason_memory(why);
    }
    *t = *like;
    t->refs = 1;
    return t;
}

/* Lets a half-made node go, for `return node_fail(t)` after *why is written. */
static struct tree *node_fail(struct tree *t)
{
    tree_unref(t);
    return NULL;
}

static bool depth_fits(int depth, struct reason *why)
{
    if (depth <= TREE_DEPTH_MAX)
        return true;
    reason_set(why, "the layout is nested more than %d deep", TREE_DEPTH_MAX);
    return false;
}

static bool count_fits(const char *kind, int64_t count, struct reason *why)
{
    if (count >= 0)
        return true;
    reason_set(why, "%s: the count is negative (%lld)", kind, (long long)count);
    return false;
}

/* The bytes [low, high) of something, moved between `first` and `last` and then by t->off. */
static bool set_bounds(struct tree *t, int64_t low, int64_t high, int64_t first, int64_t last, struct reason *why)
{
    if (__builtin_add_overflow(low, first, &low) || __builtin_add_overflow(low, t->off, &t->low) ||
        __builtin_add_overflow(high, last, &high) || __builtin_add_overflow(high, t->off, &t->high)) {
        reason_overflow(why, "an offset");
        return false;
    }
    return true;
}

struct tree *tree_dense(int64_t off, int64_t len, struct reason *why)
{
    if (!count_fits("dense", len, why))
        return NULL;
    struct tree like = {.kind = TREE_DENSE, .depth = 1, .off = off, .count = len, .size = len};
    if (len > 0 && !set_bounds(&like, 0, len, 0, 0, why))
        return NULL;
    return node_new(&like, why);
}

struct tree *tree_stride(int64_t off, int64_t count, int64_t step, struct tree *child, struct reason *why)
{
    if (!child)
        return NULL;
    struct tree like = {.kind = TREE_STRIDE, .depth = child->depth + 1, .off = off, .count = count, .step = step};
    if (!count_fits("stride", count, why) || !depth_fits(like.depth, why))
        return node_fail(child);
    if (__builtin_mul_overflow(count, child->size, &like.size)) {
        reason_overflow(why, "the packed size");
        return node_fail(child);
    }
    if (like.size > 0) {
        int64_t span;
        if (__builtin_mul_overflow(count - 1, step, &span)) {
            reason_overflow(why, "an offset");
            return node_fail(child);
        }
        if (!set_bounds(&like, child->low, child->high, span < 0 ? span : 0, span > 0 ? span : 0, why))
            return node_fail(child);
    }
    like.child = child;
    return node_new(&like, why);
}

/* Size, bounds and depth of a seq whose parts are in place. */
static bool seq_measure(struct tree *t, struct reason *why)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < t->count; i++) {
        const struct tree *p = t->part[i];
        if (p->depth >= t->depth)
            t->depth = p->depth + 1;
        if (p->size == 0)
            continue;
        if (__builtin_add_overflow(t->size, p->size, &t->size)) {
            reason_overflow(why, "the packed size");
            return false;
        }
        low = p->low < low ? p->low : low;
        high = p->high > high ? p->high : high;
    }
    return depth_fits(t->depth, why) && (t->size == 0 || set_bounds(t, low, high, 0, 0, why));
}

/* Returns NULL, for callers that fail. */
static struct tree *parts_unref(int64_t count, struct tree *const part[])
{
    for (int64_t i = 0; i < count; i++)
        tree_unref(part[i]);
    return NULL;
}

/* True if these parts are written as blocks. */
static bool parts_are_blocks(int64_t count, struct tree *const part[])
{
    int64_t i = 0;
    while (count >= TREE_BLOCKS_MIN && i < count && part[i]->kind == TREE_DENSE && part[i]->size > 0)
        i++;
    return i >= TREE_BLOCKS_MIN && i == count;
}

static struct tree *blocks_of_parts(int64_t off, int64_t count, struct tree *const part[], struct reason *why)
{
    struct tree_block *block = tree_blocks_room(count, why);
    for (int64_t i = 0; block && i < count; i++)
        block[i] = (struct tree_block){part[i]->off, part[i]->size};
    parts_unref(count, part);
    return block ? tree_blocks(off, count, block, why) : NULL;
}

struct tree *tree_seq(int64_t off, int64_t count, struct tree *const part[], struct reason *why)
{
    if (!count_fits("seq", count, why))
        return NULL;
    if (count == 0)
        return tree_dense(0, 0, why);
    for (int64_t i = 0; i < count; i++) {
        if (!part[i])
            return parts_unref(count, part);
    }
    if (parts_are_blocks(count, part))
        return blocks_of_parts(off, count, part, why);
    struct tree like = {.kind = TREE_SEQ, .depth = 1, .off = off, .count = count};
    struct tree *t = node_new(&like, why);
    if (!t)
        return parts_unref(count, part);
    t->part = list_new(count, part);
    if (!t->part) {
        parts_unref(count, part);
        reason_memory(why);
        return node_fail(t);
    }
    return seq_measure(t, why) ? t : node_fail(t);
}

/* Size and bounds of an index whose child and offsets are in place. */
static bool index_measure(struct tree *t, struct reason *why)
{
    int64_t first = t->at[0], last = t->at[0];
    for (int64_t i = 1; i < t->count; i++) {
        first = t->at[i] < first ? t->at[i] : first;
        last = t->at[i] > last ? t->at[i] : last;
    }
    if (__builtin_mul_overflow(t->count, t->child->size, &t->size)) {
        reason_overflow(why, "the packed size");
        return false;
    }
    return depth_fits(t->depth, why) &&
           (t->size == 0 || set_bounds(t, t->child->low, t->child->high, first, last, why));
}

struct tree *tree_index(int64_t off, int64_t count, const int64_t at[], struct tree *child, struct reason *why)
{
    if (!child)
        return NULL;
    if (!count_fits("index", count, why))
        return node_fail(child);
    if (count == 0) {
        tree_unref(child);
        return tree_dense(0, 0, why);
    }
    struct tree like = {.kind = TREE_INDEX, .depth = child->depth + 1, .off = off, .count = count, .child = child};
    struct tree *t = node_new(&like, why);
    if (!t)
        return NULL;
    t->at = list_new(count, at);
    if (!t->at) {
        reason_memory(why);
        return node_fail(t);
    }
    return index_measure(t, why) ? t : node_fail(t);
}

struct tree_block *tree_blocks_room(int64_t count, struct reason *why)
{
    void *room = list_room(count, sizeof(struct tree_block));
    return room ? room : reason_memory(why);
}

void tree_blocks_drop(struct tree_block block[])
{
    if (block)
        list_free(block);
}

/* Sets the size, the bounds, the bits and `touching` of blocks that are in place. */
static bool blocks_measure(struct tree *t, struct reason *why)
{
    int64_t low = INT64_MAX, high = INT64_MIN, size = 0, past = wrap_sub(t->block->off, 1);
    uint64_t bits = 0;
    bool far = false, touching = false;
    for (const struct tree_block *b = t->block, *end = b + t->count; b < end; b++) {
        touching |= b->off == past;
        far |= __builtin_add_overflow(b->off, b->len, &past);
        far |= __builtin_add_overflow(size, b->len, &size);
        low = b->off < low ? b->off : low;
        high = past > high ? past : high;
        bits |= (uint64_t)b->off | (uint64_t)b->len;
    }
    t->size = size, t->bits = bits, t->touching = touching;
    if (!far)
        return set_bounds(t, low, high, 0, 0, why);
    reason_overflow(why, "an offset or the packed size");
    return false;
}

/* Fewer blocks than TREE_BLOCKS_MIN. */
static struct tree *few_blocks(int64_t off, int64_t count, const struct tree_block block[], struct reason *why)
{
    struct tree *part[TREE_BLOCKS_MIN];
    for (int64_t i = 0; i < count; i++)
        part[i] = tree_dense(block[i].off, block[i].len, why);
    return tree_seq(off, count, part, why);
}

struct tree *tree_blocks(int64_t off, int64_t count, struct tree_block block[], struct reason *why)
{
    if (count < TREE_BLOCKS_MIN) {
        struct tree *few = few_blocks(off, count, block, why);
        tree_blocks_drop(block);
        return few;
    }
    struct tree like = {.kind = TREE_BLOCKS, .depth = 2, .off = off, .count = count};
    struct tree *t = node_new(&like, why);
    if (!t) {
        tree_blocks_drop(block);
        return NULL;
    }
    t->block = block;
    return blocks_measure(t, why) ? t : node_fail(t);
}

struct tree *tree_shift(const struct tree *t, int64_t by, struct reason *why)
{
    struct tree like = *t;
    if (__builtin_add_overflow(t->off, by, &like.off) ||
        (t->size > 0 &&
         (__builtin_add_overflow(t->low, by, &like.low) || __builtin_add_overflow(t->high, by, &like.high))))
        return reason_overflow(why, "an offset");
    if (t->child)
        tree_ref(t->child);
    struct tree *s = node_new(&like, why);
    if (s && s->part)
        list_ref(s->part);
    if (s && s->at)
        list_ref(s->at);
    if (s && s->block)
        list_ref(s->block);
    return s;
}

/* ---- looking ---- */

static bool parts_equal(const struct tree *a, const struct tree *b)
{
    for (int64_t i = 0; a->part != b->part && i < a->count; i++) {
        if (!tree_equal(a->part[i], b->part[i]))
            return false;
    }
    return true;
}

bool tree_same_shape(const struct tree *a, const struct tree *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->size != b->size || a->count != b->count || a->step != b->step)
        return false;
    if (a->child && !tree_equal(a->child, b->child))
        return false;
    if (a->at && a->at != b->at && memcmp(a->at, b->at, (size_t)a->count * sizeof *a->at) != 0)
        return false;
    if (a->block && a->block != b->block && memcmp(a->block, b->block, (size_t)a->count * sizeof *a->block) != 0)
        return false;
    return !a->part || parts_equal(a, b);
}

bool tree_equal(const struct tree *a, const struct tree *b)
{
    return a == b || (a->off == b->off && tree_same_shape(a, b));
}

int64_t tree_numbers(const struct tree *t, int64_t most)
{
    /* ORDER TREE_KIND: a length; count and step; offsets of parts but the first; offsets; both. */
    const int64_t own[] = {1, 2, t->count - 1, t->count, t->count - 1};
    int64_t sum = own[t->kind];
    if (t->kind == TREE_BLOCKS)
        return sum <= most - t->count ? sum + t->count : most + 1;
    if (t->child && sum <= most)
        sum += tree_numbers(t->child, most - sum);
    for (int64_t i = 0; t->part && i < t->count && sum <= most; i++)
        sum += tree_numbers(t->part[i], most - sum);
    return sum <= most ? sum : most + 1;
}

bool tree_is_strided(const struct tree *t)
{
    while (t->kind == TREE_STRIDE)
        t = t->child;
    return t->kind == TREE_DENSE;
}

/* The bits of every number below t, or'ed: the lowest bit set is the largest power of two that divides
 * them all. Negative numbers in two's complement have the same trailing zeros as positive ones. */
static uint64_t number_bits(const struct tree *t)
{
    uint64_t bits = t->kind == TREE_DENSE ? (uint64_t)t->count : t->bits;
    if (t->size == 0)
        return 0;
    if (t->kind == TREE_STRIDE && t->count > 1)
        bits |= (uint64_t)t->step;
    if (t->child)
        bits |= (uint64_t)t->child->off | number_bits(t->child);
    for (int64_t i = 0; t->at && i < t->count; i++)
        bits |= (uint64_t)t->at[i];
    for (int64_t i = 0; t->part && i < t->count; i++) {
        if (t->part[i]->size > 0)
            bits |= (uint64_t)t->part[i]->off | number_bits(t->part[i]);
    }
    return bits;
}

int tree_word(const struct tree *t, int limit)
{
    uint64_t bits = number_bits(t) | (uint64_t)limit;
    return (int)(bits & -bits);
}
