/* canon_seq.c: the rewrite rules for a seq that unfolds to too many runs to look at each. See canon.c for what
 * they establish together. */
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

static bool parts_room(struct parts *p, int64_t count, struct canon_work *w)
{
    *p = (struct parts){malloc((size_t)count * sizeof *p->part), 0};
    if (!p->part)
        reason_memory(w->why);
    return p->part;
}

/* Consumes t; a NULL is noticed by tree_seq, which lets go of all the others. */
static void parts_add(struct parts *p, struct tree *t)
{
    p->part[p->count++] = t;
}

static struct tree *parts_seq(struct parts *p, int64_t off, struct canon_work *w)
{
    struct tree *t = tree_seq(off, p->count, p->part, w->why);
    free(p->part);
    return t;
}

/* ---- rules for seq ---- */

/* An empty part packs nothing. */
static enum canon seq_empty_parts(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t empty = 0;
    for (int64_t i = 0; i < s->count; i++)
        empty += s->part[i]->size == 0;
    if (empty == 0)
        return CANON_KEPT;
    if (!parts_room(&p, s->count, w))
        return CANON_FAILED;
    canon_note(w, CANON_SEQ_EMPTY, empty, 0, 0);
    for (int64_t i = 0; i < s->count; i++) {
        if (s->part[i]->size > 0)
            parts_add(&p, tree_ref(s->part[i]));
    }
    return canon_replace(t, parts_seq(&p, s->off, w));
}

static bool holds_parts(const struct tree *t)
{
    return t->kind == TREE_SEQ || t->kind == TREE_BLOCKS;
}

/* The parts of a part come in the same order when they are parts of the whole. */
static enum canon seq_flatten(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t total = 0;
    for (int64_t i = 0; i < s->count && total <= FLAT_PARTS_MAX; i++)
        total += holds_parts(s->part[i]) ? s->part[i]->count : 1;
    if (total == s->count || total > FLAT_PARTS_MAX)
        return CANON_KEPT;   /* a canonical seq has two parts or more, so an inner one would show */
    if (!parts_room(&p, total, w))
        return CANON_FAILED;
    canon_note(w, CANON_SEQ_FLATTEN, s->count, total, 0);
    for (int64_t i = 0; i < s->count; i++) {
        const struct tree *inner = s->part[i];
        for (int64_t j = 0; inner->part && j < inner->count; j++)
            parts_add(&p, tree_shift(inner->part[j], inner->off, w->why));
        for (int64_t j = 0; inner->block && j < inner->count; j++)
            parts_add(&p, tree_dense(wrap_add(inner->off, inner->block[j].off), inner->block[j].len, w->why));
        if (!holds_parts(inner))
            parts_add(&p, tree_ref(s->part[i]));
    }
    return canon_replace(t, parts_seq(&p, s->off, w));
}

static bool dense_touch(const struct tree *a, const struct tree *b)
{
    return a->kind == TREE_DENSE && b->kind == TREE_DENSE && a->high == b->off;
}

/* A block that begins where the one before it ended makes it longer. */
static enum canon seq_merge_dense(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t touching = 0;
    for (int64_t i = 1; i < s->count; i++)
        touching += dense_touch(s->part[i - 1], s->part[i]);
    if (touching == 0)
        return CANON_KEPT;
    if (!parts_room(&p, s->count - touching, w))
        return CANON_FAILED;
    canon_note(w, CANON_SEQ_DENSE, s->count, s->count - touching, 0);
    for (int64_t i = 0, j; i < s->count; i = j) {
        for (j = i + 1; j < s->count && dense_touch(s->part[j - 1], s->part[j]);)
            j++;
        parts_add(&p, j == i + 1 ? tree_ref(s->part[i])
                                 : tree_dense(s->part[i]->off, s->part[j - 1]->high - s->part[i]->off, w->why));
    }
    return canon_replace(t, parts_seq(&p, s->off, w));
}

/* A single part lies where the seq puts it. */
static enum canon seq_one(struct tree **t, struct canon_work *w)
{
    if ((*t)->count != 1)
        return CANON_KEPT;
    canon_note(w, CANON_SEQ_ONE, 0, 0, 0);
    return canon_replace(t, tree_shift((*t)->part[0], (*t)->off, w->why));
}

/* The first part begins at 0: the seq's offset is the place of its first byte. */
static enum canon seq_hoist(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t off, by = s->part[0]->off;
    if (by == 0)
        return CANON_KEPT;
    if (by == INT64_MIN || __builtin_add_overflow(s->off, by, &off)) {
        reason_overflow(w->why, "an offset");
        return CANON_FAILED;
    }
    if (!parts_room(&p, s->count, w))
        return CANON_FAILED;
    for (int64_t i = 0; i < s->count; i++)
        parts_add(&p, tree_shift(s->part[i], -by, w->why));
    canon_note(w, CANON_SEQ_HOIST, by, 0, 0);
    return canon_replace(t, parts_seq(&p, off, w));
}

/* Where the parts of a seq lie. malloc'd. */
static int64_t *part_offsets(const struct tree *s, struct canon_work *w)
{
    int64_t *at = malloc((size_t)s->count * sizeof *at);
    if (!at)
        return reason_memory(w->why);
    for (int64_t i = 0; i < s->count; i++)
        at[i] = s->part[i]->off;
    return at;
}

/* Equal parts need writing once, with a list of where they lie. The rules for index go on from there:
 * at even spacing it becomes a stride. */
static enum canon seq_equal_parts(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    for (int64_t i = 1; i < s->count; i++) {
        if (!tree_same_shape(s->part[0], s->part[i]))
            return CANON_KEPT;
    }
    int64_t *at = part_offsets(s, w);
    if (!at)
        return CANON_FAILED;
    struct tree *with = tree_index(s->off, s->count, at, tree_ref(s->part[0]), w->why);   /* part 0 is at 0 */
    free(at);
    canon_note(w, CANON_SEQ_EQUAL, s->count, s->part[0]->size, 0);
    return canon_replace(t, with);
}

/* Part `next`, placed right behind `one`, is more copies of the same: *count, step and child of both together. */
static bool goes_on(const struct tree *one, const struct tree *next, int64_t *count, int64_t *step, struct tree **child)
{
    bool many = one->kind == TREE_STRIDE, more = next->kind == TREE_STRIDE;
    int64_t by = wrap_sub(next->off, one->off);
    if (many && more && one->step == next->step && tree_equal(one->child, next->child))
        *count = one->count + next->count, *step = one->step, *child = one->child, by -= wrap_mul(one->count, *step);
    else if (many && tree_same_shape(one->child, next))
        *count = one->count + 1, *step = one->step, *child = one->child, by -= wrap_mul(one->count, *step);
    else if (more && tree_same_shape(one, next->child))
        *count = next->count + 1, *step = next->step, *child = next->child, by -= *step;
    else
        return false;
    return by == 0;
}

/* A stride that goes on where the part before it ends is one with it. */
static enum canon seq_join(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    struct parts p;
    int64_t count, step, i = 1;
    struct tree *child;
    while (i < s->count && !goes_on(s->part[i - 1], s->part[i], &count, &step, &child))
        i++;
    if (i == s->count)
        return CANON_KEPT;
    if (!parts_room(&p, s->count, w))
        return CANON_FAILED;
    parts_add(&p, tree_ref(s->part[0]));
    for (i = 1; i < s->count; i++) {
        struct tree *last = p.part[p.count - 1];
        if (last && goes_on(last, s->part[i], &count, &step, &child)) {
            p.part[p.count - 1] = tree_stride(last->off, count, step, tree_ref(child), w->why);
            tree_unref(last);
        } else {
            parts_add(&p, tree_ref(s->part[i]));
        }
    }
    canon_note(w, CANON_SEQ_JOIN, s->count, p.count, 0);
    return canon_replace(t, parts_seq(&p, s->off, w));
}

/* A group of parts that comes again and again at even spacing is written once. */
static enum canon seq_period(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    int64_t *at = part_offsets(s, w);
    if (!at)
        return CANON_FAILED;
    int64_t p = canon_period(s->count, at, s->part), step = p > 0 ? at[p] : 0;
    free(at);
    if (p == 0)
        return CANON_KEPT;
    canon_note(w, CANON_SEQ_PERIOD, s->count / p, p, step);
    struct parts group;
    if (!parts_room(&group, p, w))
        return CANON_FAILED;
    for (int64_t i = 0; i < p; i++)
        parts_add(&group, tree_ref(s->part[i]));
    struct tree *child = canon_settle(parts_seq(&group, 0, w), w);
    return canon_replace(t, tree_stride(s->off, s->count / p, step, child, w->why));
}

canon_rule *const canon_seq_rules[] = {
    seq_empty_parts, seq_flatten, seq_merge_dense, seq_join, seq_one, seq_hoist, seq_equal_parts, seq_period, NULL,
};
