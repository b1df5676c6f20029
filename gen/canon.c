/* canon.c: the canonical form of a stride tree.
 *
 * Children first, then the rules for the node itself until none fires. Every rule leaves a tree of fewer
 * nodes or list entries, except those that hoist an offset, and an offset is hoisted only where it is not
 * 0 yet; so the process ends. No rule changes the packed byte sequence: none reorders copies.
 *
 * What the rules establish:
 * - An empty tree is dense(0, 0), and no child is empty.
 * - The offset of a node is the place of its first packed byte: the child of a stride or an index, the
 *   first offset of an index and the first part of a seq are at 0. Only the root of a tree and the later
 *   parts of a seq have offsets.
 *
 * Uniqueness for chains of stride over dense. Read the chain as dimensions (n, s), outermost first: a
 * stride is (count, step), a dense block is (length, 1), left out if its length is 1. The rules leave
 * n >= 2 throughout (stride_one) and, for a dimension (N, S) just outside (n, s), S != n * s
 * (stride_fold where (n, s) is a dense block, of length 1 too; stride_merge otherwise). Let a(0), a(1), ...
 * be the byte offsets in pack order. Then s = a(1) - a(0) for the innermost dimension, and n is where
 * a(n) - a(n-1) first differs from s (it is S - (n-1) * s, equal to s only if S == n * s), or the number
 * of bytes. So the sequence alone gives the innermost dimension, and a(0), a(n), a(2n), ... the others in
 * the same way. Last, an innermost dimension with s == 1 can only be written as the dense block, since a
 * stride of step 1 over dense(1) is folded; and a(0) is the root's offset. The argument nowhere needs
 * s > 0: steps of 0 or below, and overlaps, are included.
 */
#include "canon.h"

#include <stdlib.h>

#include "map.h"
#include "reason.h"

enum canon canon_replace(struct tree **t, struct tree *with)
{
    if (!with)
        return CANON_FAILED;
    tree_unref(*t);
    *t = with;
    return CANON_FIRED;
}

/* ---- rules for every kind ---- */

/* Nothing is packed, so neither the offset nor how the nothing is repeated can matter. */
static enum canon any_empty(struct tree **t, struct reason *why)
{
    if ((*t)->size > 0 || ((*t)->kind == TREE_DENSE && (*t)->off == 0))
        return CANON_KEPT;
    return canon_replace(t, tree_dense(0, 0, why));
}

/* ---- rules for stride ---- */

/* One copy lies where its child lies; the step is never taken. */
static enum canon stride_one(struct tree **t, struct reason *why)
{
    if ((*t)->count != 1)
        return CANON_KEPT;
    return canon_replace(t, tree_shift((*t)->child, (*t)->off, why));
}

/* Every copy moves by the child's offset, so the whole moves by it. */
static enum canon stride_hoist(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    int64_t off;
    if (s->child->off == 0)
        return CANON_KEPT;
    if (s->child->off == INT64_MIN || __builtin_add_overflow(s->off, s->child->off, &off)) {
        reason_overflow(why, "an offset");
        return CANON_FAILED;
    }
    return canon_replace(t, tree_stride(off, s->count, s->step, tree_shift(s->child, -s->child->off, why), why));
}

/* Each block begins where the one before it ended: one long block. */
static enum canon stride_fold(struct tree **t, struct reason *why)
{
    const struct tree *s = *t;
    if (s->child->kind != TREE_DENSE || s->step != s->child->count)
        return CANON_KEPT;
    return canon_replace(t, tree_dense(s->off, s->size, why));
}

/* The outer step goes on where the inner stride's next copy would be: one stride of all the copies. */
static enum canon stride_merge(struct tree **t, struct reason *why)
{
    const struct tree *s = *t, *c = s->child;
    int64_t goes_on;
    if (c->kind != TREE_STRIDE || __builtin_mul_overflow(c->count, c->step, &goes_on) || s->step != goes_on)
        return CANON_KEPT;
    /* No overflow: both counts multiply to at most the packed size. */
    return canon_replace(t, tree_stride(s->off, s->count * c->count, c->step, tree_ref(c->child), why));
}

static canon_rule *const stride_rules[] = {stride_one, stride_hoist, stride_fold, stride_merge, NULL};
static canon_rule *const dense_rules[] = {NULL};

/* ---- applying them ---- */

static canon_rule *const *const rules[] = {   /* ORDER TREE_KIND */
    dense_rules, stride_rules, canon_seq_rules, canon_index_rules,
};

/* One round: the first rule that does not keep the node ends it. */
static enum canon try_rules(struct tree **t, struct reason *why)
{
    enum canon result = any_empty(t, why);
    canon_rule *const *rule = rules[(*t)->kind];
    while (result == CANON_KEPT && *rule)
        result = (*rule++)(t, why);
    return result;
}

struct tree *canon_settle(struct tree *t, struct reason *why)
{
    while (t) {
        enum canon result = try_rules(&t, why);
        if (result == CANON_KEPT)
            return t;
        if (result == CANON_FAILED) {
            tree_unref(t);
            return NULL;
        }
    }
    return NULL;
}

static struct tree *canonical(const struct tree *t, struct map *done, struct reason *why);

static struct tree *canonical_parts(const struct tree *t, struct map *done, struct reason *why)
{
    struct tree **part = malloc((size_t)t->count * sizeof *part);
    if (!part)
        return reason_memory(why);
    struct tree *whole = NULL;
    int64_t n = 0;
    while (n < t->count && (part[n] = canonical(t->part[n], done, why)))
        n++;
    if (n == t->count)
        whole = tree_seq(t->off, n, part, why);
    else
        while (n > 0)
            tree_unref(part[--n]);
    free(part);
    return whole;
}

/* The node over canonical children. */
static struct tree *canonical_children(const struct tree *t, struct map *done, struct reason *why)
{
    switch (t->kind) {
    case TREE_STRIDE:
        return tree_stride(t->off, t->count, t->step, canonical(t->child, done, why), why);
    case TREE_INDEX:
        return tree_index(t->off, t->count, t->at, canonical(t->child, done, why), why);
    case TREE_SEQ:
        return canonical_parts(t, done, why);
    default:
        return tree_shift(t, 0, why);
    }
}

/* A subtree with several owners may be met very often (types nested n deep, each holding two of the one
 * below, have 2^n leaves): `done` keeps what it became. */
static struct tree *canonical(const struct tree *t, struct map *done, struct reason *why)
{
    uintptr_t known;
    if (t->size == 0)
        return tree_dense(0, 0, why);
    bool shared = __atomic_load_n(&t->refs, __ATOMIC_RELAXED) > 1;
    if (shared && map_get(done, t, &known))
        return tree_ref((struct tree *)known);
    struct tree *c = canon_settle(canonical_children(t, done, why), why);
    if (c && shared && map_put(done, t, (uintptr_t)c))
        tree_ref(c);
    return c;
}

struct tree *tree_canonical(const struct tree *t, struct reason *why)
{
    struct map done = {0};
    struct tree *c = canonical(t, &done, why);
    for (size_t i = 0; i < done.room; i++)
        tree_unref((struct tree *)(done.slot[i].key ? done.slot[i].value : 0));
    map_free(&done);
    return c;
}
