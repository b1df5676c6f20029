/* canon_list.c: the rewrite rules for seq and index. See canon.c for what they establish together. */
#include <stdlib.h>

#include "canon.h"
#include "reason.h"
#include "tree_inner.h"

/* Flattening unfolds shared subtrees, so it could grow without bound; it stops at this many parts. */
#define FLAT_PARTS_MAX ((int64_t)1 << 24)

/* A seq under construction. */
struct parts {
    struct tree **part;
    int64_t count;
};

static bool parts_room(struct parts *p, int64_t count, struct reason *why)
{
    *p = (struct parts){malloc((size_t)count * sizeof *p->part), 0};
    if (!p->part)
        reason_memory(why);
    return p->part;
}

/* Consumes t; a NULL is noticed by tree_seq, which lets go of all the others. */
static void parts_add(struct parts *p, struct tree *t)
{
    p->part[p->count++] = t;
}

static struct tree *parts_seq(struct parts *p, int64_t off, struct reason *why)
{
    struct tree *t = tree_seq(off, p->count, p->part, why);
    free(p->part);
    return t;
}

/* ---- rules for seq ---- */

/* An empty part packs nothing. */
static enum canon seq_empty_parts(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t empty = 0;
    for (int64_t i = 0; i < s->count; i++)
        empty += s->part[i]->size == 0;
    if (empty == 0)
        return CANON_KEPT;
    if (!parts_room(&p, s->count, why))
        return CANON_FAILED;
    for (int64_t i = 0; i < s->count; i++) {
        if (s->part[i]->size > 0)
            parts_add(&p, tree_ref(s->part[i]));
    }
    return canon_replace(t, parts_seq(&p, s->off, why));
}

/* The parts of a part come in the same order when they are parts of the whole. */
static enum canon seq_flatten(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t total = 0;
    for (int64_t i = 0; i < s->count && total <= FLAT_PARTS_MAX; i++)
        total += s->part[i]->kind == TREE_SEQ ? s->part[i]->count : 1;
    if (total == s->count || total > FLAT_PARTS_MAX)
        return CANON_KEPT;   /* a canonical seq has two parts or more, so an inner one would show */
    if (!parts_room(&p, total, why))
        return CANON_FAILED;
    for (int64_t i = 0; i < s->count; i++) {
        const struct tree *inner = s->part[i];
        if (inner->kind != TREE_SEQ)
            parts_add(&p, tree_ref(s->part[i]));
        else
            for (int64_t j = 0; j < inner->count; j++)
                parts_add(&p, tree_shift(inner->part[j], inner->off, why));
    }
    return canon_replace(t, parts_seq(&p, s->off, why));
}

static bool dense_touch(const struct tree *a, const struct tree *b)
{
    return a->kind == TREE_DENSE && b->kind == TREE_DENSE && a->high == b->off;
}

/* A block that begins where the one before it ended makes it longer. */
static enum canon seq_merge_dense(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t touching = 0;
    for (int64_t i = 1; i < s->count; i++)
        touching += dense_touch(s->part[i - 1], s->part[i]);
    if (touching == 0)
        return CANON_KEPT;
    if (!parts_room(&p, s->count - touching, why))
        return CANON_FAILED;
    for (int64_t i = 0, j; i < s->count; i = j) {
        for (j = i + 1; j < s->count && dense_touch(s->part[j - 1], s->part[j]);)
            j++;
        parts_add(&p, j == i + 1 ? tree_ref(s->part[i])
                                 : tree_dense(s->part[i]->off, s->part[j - 1]->high - s->part[i]->off, why));
    }
    return canon_replace(t, parts_seq(&p, s->off, why));
}

/* A single part lies where the seq puts it. */
static enum canon seq_one(struct tree **t, struct reason *why)
{
    if ((*t)->count != 1)
        return CANON_KEPT;
    return canon_replace(t, tree_shift((*t)->part[0], (*t)->off, why));
}

/* The first part begins at 0: the seq's offset is the place of its first byte. */
static enum canon seq_hoist(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t off, by = s->part[0]->off;
    if (by == 0)
        return CANON_KEPT;
    if (by == INT64_MIN || __builtin_add_overflow(s->off, by, &off)) {
        reason_overflow(why, "an offset");
        return CANON_FAILED;
    }
    if (!parts_room(&p, s->count, why))
        return CANON_FAILED;
    for (int64_t i = 0; i < s->count; i++)
        parts_add(&p, tree_shift(s->part[i], -by, why));
    return canon_replace(t, parts_seq(&p, off, why));
}

/* Where the parts of a seq lie. malloc'd. */
static int64_t *part_offsets(const struct tree *s, struct reason *why)
{
    int64_t *at = malloc((size_t)s->count * sizeof *at);
    if (!at)
        return reason_memory(why);
    for (int64_t i = 0; i < s->count; i++)
        at[i] = s->part[i]->off;
    return at;
}

/* Equal parts need writing once, with a list of where they lie. The rules for index go on from there:
 * at even spacing it becomes a stride. */
static enum canon seq_equal_parts(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    for (int64_t i = 1; i < s->count; i++) {
        if (!tree_same_shape(s->part[0], s->part[i]))
            return CANON_KEPT;
    }
    int64_t *at = part_offsets(s, why);
    if (!at)
        return CANON_FAILED;
    struct tree *with = tree_index(s->off, s->count, at, tree_ref(s->part[0]), why);   /* part 0 is at 0 */
    free(at);
    return canon_replace(t, with);
}

/* ---- periods ---- */

/* Entry i of a list: `at` says where, `part` what (NULL: the same everywhere). Differences wrap: two that
 * are equal only so belong to lists that reach past 2^63, which the constructors refuse. */
static bool same_kind(struct tree *const part[], int64_t i, int64_t j)
{
    return !part || tree_same_shape(part[i], part[j]);
}

static bool same_letter(const int64_t at[], struct tree *const part[], int64_t i, int64_t j)
{
    return wrap_add(at[i + 1], ~at[i]) == wrap_add(at[j + 1], ~at[j]) && same_kind(part, i, j);
}

/* The least p < n that divides n, such that entry i + p is what entry i is, at a constant distance, for
 * all i; 0 if there is none, -1 when out of memory. These are the periods of the word whose letter i is
 * (what entry i is, how far to entry i + 1), of length n - 1, found from its borders as Knuth, Morris and
 * Pratt do in linear time; the last entry is looked at by itself. */
static int64_t least_period(int64_t n, const int64_t at[], struct tree *const part[])
{
    int64_t length = n - 1, found = 0;
    int64_t *border = malloc((size_t)n * sizeof *border);   /* border[i]: of the first i letters */
    if (!border)
        return -1;
    border[0] = -1;
    for (int64_t i = 0, b = -1; i < length; i++) {
        while (b >= 0 && !same_letter(at, part, i, b))
            b = border[b];
        border[i + 1] = ++b;
    }
    for (int64_t b = border[length]; b >= 0 && found == 0; b = border[b]) {
        int64_t p = length - b;
        if (p < n && n % p == 0 && same_kind(part, n - 1, n - 1 - p))
            found = p;
    }
    free(border);
    return found;
}

/* A group of parts that comes again and again at even spacing is written once. */
static enum canon seq_period(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    int64_t *at = part_offsets(s, why);
    if (!at)
        return CANON_FAILED;
    int64_t p = least_period(s->count, at, s->part), step = p > 0 ? at[p] : 0;
    free(at);
    if (p == 0)
        return CANON_KEPT;
    struct parts group;
    if (p < 0 || !parts_room(&group, p, why)) {
        reason_memory(why);
        return CANON_FAILED;
    }
    for (int64_t i = 0; i < p; i++)
        parts_add(&group, tree_ref(s->part[i]));
    struct tree *child = canon_settle(parts_seq(&group, 0, why), why);
    return canon_replace(t, tree_stride(s->off, s->count / p, step, child, why));
}

canon_rule *const canon_seq_rules[] = {
    seq_empty_parts, seq_flatten, seq_merge_dense, seq_one, seq_hoist, seq_equal_parts, seq_period, NULL,
};

/* ---- rules for index ---- */

/* A single offset is no list. */
static enum canon index_one(struct tree **t, struct reason *why)
{
    const struct tree *x = *t;
    int64_t by;
    if (x->count != 1)
        return CANON_KEPT;
    if (__builtin_add_overflow(x->off, x->at[0], &by)) {
        reason_overflow(why, "an offset");
        return CANON_FAILED;
    }
    return canon_replace(t, tree_shift(x->child, by, why));
}

/* The offsets moved by -first; NULL when out of memory or out of range. */
static int64_t *offsets_from(const int64_t at[], int64_t count, int64_t first, struct reason *why)
{
    int64_t *moved = malloc((size_t)count * sizeof *moved);
    if (!moved)
        return reason_memory(why);
    for (int64_t i = 0; i < count; i++) {
        if (__builtin_sub_overflow(at[i], first, &moved[i])) {
            free(moved);
            return reason_overflow(why, "a distance between offsets");
        }
    }
    return moved;
}

/* Every copy moves by the child's offset, and the first copy lies at the index's own offset. */
static enum canon index_hoist(struct tree **t, struct reason *why)
{
    const struct tree *x = *t;
    int64_t off;
    if (x->child->off == 0 && x->at[0] == 0)
        return CANON_KEPT;
    if (__builtin_add_overflow(x->off, x->at[0], &off) || __builtin_add_overflow(off, x->child->off, &off) ||
        x->child->off == INT64_MIN) {
        reason_overflow(why, "an offset");
        return CANON_FAILED;
    }
    int64_t *at = offsets_from(x->at, x->count, x->at[0], why);
    if (!at)
        return CANON_FAILED;
    struct tree *with = tree_index(off, x->count, at, tree_shift(x->child, -x->child->off, why), why);
    free(at);
    return canon_replace(t, with);
}

/* How many entries from the first on lie `step` apart. */
static int64_t even_run(const int64_t at[], int64_t count, int64_t step)
{
    int64_t n = 1;
    while (n < count && wrap_add(at[n - 1], step) == at[n])
        n++;
    return n;
}

/* If the list falls into groups of one length, each evenly spaced in the same way, then it lists strides.
 * The groups are as long as the first even run, as the argument in canon.c asks; all offsets in one even
 * run give a list of one, that is a stride. Blocks of equal length that touch become longer blocks so. */
static enum canon index_even_groups(struct tree **t, struct reason *why)
{
    const struct tree *x = *t;
    int64_t step = x->at[1];   /* at[0] is 0 */
    int64_t group = even_run(x->at, x->count, step), lists = x->count / group;
    if (x->count % group != 0)
        return CANON_KEPT;
    for (int64_t i = 1; i < lists; i++) {
        if (even_run(x->at + i * group, group, step) < group)
            return CANON_KEPT;
    }
    int64_t *at = malloc((size_t)lists * sizeof *at);
    if (!at) {
        reason_memory(why);
        return CANON_FAILED;
    }
    for (int64_t i = 0; i < lists; i++)
        at[i] = x->at[i * group];
    struct tree *child = canon_settle(tree_stride(0, group, step, tree_ref(x->child), why), why);
    struct tree *with = tree_index(x->off, lists, at, child, why);
    free(at);
    return canon_replace(t, with);
}

/* A group of offsets that comes again and again at even spacing is listed once. */
static enum canon index_period(struct tree **t, struct reason *why)
{
    const struct tree *x = *t;
    int64_t p = least_period(x->count, x->at, NULL);
    if (p == 0)
        return CANON_KEPT;
    if (p < 0) {
        reason_memory(why);
        return CANON_FAILED;
    }
    struct tree *group = canon_settle(tree_index(0, p, x->at, tree_ref(x->child), why), why);
    return canon_replace(t, tree_stride(x->off, x->count / p, x->at[p], group, why));
}

canon_rule *const canon_index_rules[] = {index_one, index_hoist, index_even_groups, index_period, NULL};
