/* test_rewrite.c: trees of one byte sequence, written in many ways, reach one signature. */
#include "trees.h"

enum { BYTES_MAX = 3000 };

static struct tree *rewritten(const struct tree *t);

static struct tree *sequence(int64_t off, struct tree *a, struct tree *b)
{
    struct tree *part[] = {a, b};
    return made(tree_seq(off, 2, part, &trees_why));
}

static struct tree *moved(struct tree *t, int64_t by)
{
    struct tree *m = made(tree_shift(t, by, &trees_why));
    tree_unref(t);
    return m;
}

static struct tree *seq_of(int64_t off, int64_t count, struct tree **part)
{
    struct tree *t = made(tree_seq(off, count, part, &trees_why));
    free(part);
    return t;
}

static struct tree **room(int64_t count)
{
    struct tree **part = malloc(((size_t)count + 1) * sizeof *part);
    assert_non_null(part);
    return part;
}

/* ---- the same node in another way; each consumes its tree ---- */

static struct tree *keep(struct tree *t)
{
    return t;
}

static struct tree *in_stride_of_one(struct tree *t)
{
    int64_t by = random_from(-9, 9);
    return made(tree_stride(-by, 1, random_from(-99, 99), moved(t, by), &trees_why));
}

static struct tree *in_list_of_one(struct tree *t)
{
    int64_t by = random_from(-9, 9);
    return made(tree_index(by, 1, (int64_t[]){-by}, t, &trees_why));
}

static struct tree *nothing(void)
{
    struct tree *t = made(tree_dense(random_from(-99, 99), random_from(0, 4), &trees_why));
    return made(tree_stride(random_from(-99, 99), 0, random_from(-9, 9), t, &trees_why));
}

static struct tree *after_nothing(struct tree *t)
{
    return sequence(0, nothing(), t);
}

static struct tree *before_nothing(struct tree *t)
{
    int64_t by = random_from(-99, 99);
    return sequence(by, moved(t, -by), nothing());
}

static struct tree *some_blocks(const struct tree *t, int64_t from, int64_t to)
{
    struct tree_block *block = tree_blocks_room(to - from, &trees_why);
    assert_non_null(block);
    memcpy(block, t->block + from, (size_t)(to - from) * sizeof *block);
    return made(tree_blocks(t->off, to - from, block, &trees_why));
}

/* The copies [from, to) of a node, the bytes of a dense block, the parts of a seq. */
static struct tree *slice(const struct tree *t, int64_t from, int64_t to)
{
    switch (t->kind) {
    case TREE_DENSE: return made(tree_dense(t->off + from, to - from, &trees_why));
    case TREE_STRIDE: return made(tree_stride(t->off + from * t->step, to - from, t->step, tree_ref(t->child), &trees_why));
    case TREE_INDEX: return made(tree_index(t->off, to - from, t->at + from, tree_ref(t->child), &trees_why));
    case TREE_BLOCKS: return some_blocks(t, from, to);
    case TREE_SEQ: break;
    }
    struct tree **part = room(to - from);
    for (int64_t i = from; i < to; i++)
        part[i - from] = tree_ref(t->part[i]);
    return seq_of(t->off, to - from, part);
}

static struct tree *split(struct tree *t)
{
    if (t->count < 2)
        return t;
    int64_t at = random_from(1, t->count - 1);
    struct tree *both = sequence(0, slice(t, 0, at), slice(t, at, t->count));
    tree_unref(t);
    return both;
}

static struct tree *split_in_levels(struct tree *t)
{
    for (int64_t k = 2; t->kind == TREE_STRIDE && k < t->count; k++) {
        if (t->count % k == 0) {
            struct tree *inner = made(tree_stride(0, k, t->step, tree_ref(t->child), &trees_why));
            struct tree *outer = made(tree_stride(t->off, t->count / k, t->step * k, inner, &trees_why));
            tree_unref(t);
            return outer;
        }
    }
    return t;
}

static struct tree *dense_as_stride(struct tree *t)
{
    if (t->kind != TREE_DENSE || t->count < 2)
        return t;
    int64_t len = t->count % 2 ? 1 : t->count / 2;
    struct tree *s = made(tree_stride(t->off, t->count / len, len, made(tree_dense(0, len, &trees_why)), &trees_why));
    tree_unref(t);
    return s;
}

static struct tree *copies_as_seq(struct tree *t)
{
    if (t->kind != TREE_STRIDE && t->kind != TREE_INDEX)
        return t;
    struct tree **part = room(t->count);
    for (int64_t i = 0; i < t->count; i++) {
        struct tree *c = random_from(0, 1) ? rewritten(t->child) : tree_ref(t->child);
        part[i] = moved(c, t->at ? t->at[i] : i * t->step);
    }
    struct tree *s = seq_of(t->off, t->count, part);
    tree_unref(t);
    return s;
}

static struct tree *copies_as_list(struct tree *t)
{
    int64_t at[8];
    if (t->kind != TREE_STRIDE || t->count > 8)
        return t;
    for (int64_t i = 0; i < t->count; i++)
        at[i] = i * t->step;
    struct tree *x = made(tree_index(t->off, t->count, at, tree_ref(t->child), &trees_why));
    tree_unref(t);
    return x;
}

static struct tree *blocks_as_seq(struct tree *t)
{
    if (t->kind != TREE_BLOCKS)
        return t;
    struct tree **part = room(t->count);
    for (int64_t i = 0; i < t->count; i++)
        part[i] = made(tree_dense(t->block[i].off, t->block[i].len, &trees_why));
    struct tree *s = seq_of(t->off, t->count, part);
    tree_unref(t);
    return s;
}

/* ---- */

/* The same node over rewritten children. */
static struct tree *over_rewritten(const struct tree *t)
{
    switch (t->kind) {
    case TREE_DENSE:
    case TREE_BLOCKS: return tree_ref((struct tree *)t);
    case TREE_STRIDE: return made(tree_stride(t->off, t->count, t->step, rewritten(t->child), &trees_why));
    case TREE_INDEX: return made(tree_index(t->off, t->count, t->at, rewritten(t->child), &trees_why));
    case TREE_SEQ: break;
    }
    struct tree **part = room(t->count);
    for (int64_t i = 0; i < t->count; i++)
        part[i] = rewritten(t->part[i]);
    return seq_of(t->off, t->count, part);
}

static struct tree *rewritten(const struct tree *t)
{
    static struct tree *(*const ways[])(struct tree *) = {
        keep, in_stride_of_one, in_list_of_one, after_nothing, before_nothing, split, split_in_levels, dense_as_stride,
        blocks_as_seq, copies_as_seq, copies_as_list,
    };
    if (t->count == 0)
        return keep(tree_ref((struct tree *)t));
    return ways[random_from(0, (int64_t)(sizeof ways / sizeof *ways) - 1)](over_rewritten(t));
}

static char *text_of(const struct tree *t)
{
    char *text = tree_signature(t, &trees_why);
    assert_non_null(text);
    return text;
}

static void check_same(const struct tree *t, const char *want, struct bytes bytes, struct tree *way)
{
    struct bytes b = bytes_of_tree(way);
    assert_same_bytes(bytes, b);
    struct tree *c = made(tree_canonical(way, &trees_why));
    char *text = text_of(c);
    if (strcmp(text, want) != 0)
        fail_msg("%s became %s, but %s became %s", text_of(t), want, text_of(way), text);
    free(text), free(b.at), tree_unref(c), tree_unref(way);
}

static void check_tree(struct tree *t)
{
    struct tree *c = made(tree_canonical(t, &trees_why));
    struct bytes bytes = bytes_of_tree(t), form = bytes_of_tree(c);
    char *text = text_of(c);
    struct tree *again = parsed(text);
    assert_true(tree_equal(c, again));
    assert_same_bytes(bytes, form);
    for (int way = 0; way < 6; way++)
        check_same(t, text, bytes, rewritten(t));
    check_same(t, text, bytes, rewritten(c));
    if (bytes.count > 0)
        check_same(t, text, bytes, made(tree_index(0, bytes.count, bytes.at, parsed("d(1)"), &trees_why)));
    free(bytes.at), free(form.at), free(text);
    tree_unref(t), tree_unref(c), tree_unref(again);
}

static void one_signature(void **state)
{
    (void)state;
    random_begin("rewrite");
    for (int round = 0; round < 6000;) {
        struct tree *t = random_tree((int)random_from(1, 5));
        if (t->size > BYTES_MAX) {
            tree_unref(t);
            continue;
        }
        check_tree(t);
        round++;
    }
}

/* Few bytes in small steps: everything touches, overlaps and repeats. */
static void close_quarters(void **state)
{
    (void)state;
    random_begin("close");
    for (int round = 0; round < 20000; round++) {
        int64_t at[14], n = random_from(1, 14), most = random_from(1, 3);
        for (int64_t i = 0; i < n; i++)
            at[i] = (i ? at[i - 1] : 0) + random_from(random_from(-1, 1), most);
        check_tree(made(tree_index(0, n, at, made(tree_dense(0, random_from(1, 3), &trees_why)), &trees_why)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_signature), cmocka_unit_test(close_quarters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
