/* test_tree.c: nodes: measures, sharing, equality, shifting, refusals, the program. */
#include "trees.h"

static void measures(void **state)
{
    (void)state;
    struct tree *t = parsed("s(3,-10,q(d(4)@2,d(0)@999,d(2)@-3))@100");
    assert_int_equal(t->size, 18);
    assert_int_equal(t->low, 100 - 20 - 3);
    assert_int_equal(t->high, 100 + 6);
    assert_int_equal(t->depth, 3);
    tree_unref(t);
    t = parsed("i(d(4);7,-7,0)@1");
    assert_int_equal(t->low, -6);
    assert_int_equal(t->high, 12);
    tree_unref(t);
    t = parsed("s(0,5,d(8)@3)@3");
    assert_int_equal(t->low, 0);
    assert_int_equal(t->high, 0);
    tree_unref(t);
}

static void counts_of_zero(void **state)
{
    (void)state;
    struct tree *t = made(tree_seq(5, 0, NULL, &trees_why));
    assert_true(t->kind == TREE_DENSE && t->off == 0 && t->count == 0);
    tree_unref(t);
    t = made(tree_index(5, 0, NULL, parsed("d(4)"), &trees_why));
    assert_true(t->kind == TREE_DENSE && t->off == 0 && t->count == 0);
    tree_unref(t);
}

static void refused(struct tree *t, const char *word)
{
    assert_null(t);
    assert_non_null(strstr(trees_why.text, word));
}

static void refusals(void **state)
{
    (void)state;
    struct reason *why = &trees_why;
    const int64_t at[] = {0, INT64_MAX}, big = INT64_MAX / 2;
    refused(tree_dense(0, -1, why), "negative");
    refused(tree_dense(1, INT64_MAX, why), "63 bits");
    refused(tree_stride(0, -1, 1, parsed("d(1)"), why), "negative");
    refused(tree_stride(0, 3, 0, made(tree_dense(0, big, why)), why), "packed size");
    refused(tree_stride(0, 3, big + 1, parsed("d(1)"), why), "offset");
    refused(tree_stride(0, 3, INT64_MIN, parsed("d(1)"), why), "offset");
    refused(tree_index(0, 2, at, parsed("d(1)"), why), "offset");
    refused(tree_index(0, -2, at, parsed("d(1)"), why), "negative");
    refused(tree_seq(0, 3, (struct tree *[]){made(tree_dense(0, big, why)), made(tree_dense(0, big, why)),
                                             made(tree_dense(0, big, why))}, why), "packed size");
    refused(tree_seq(0, 2, (struct tree *[]){parsed("d(1)"), tree_dense(0, -1, why)}, why), "negative");
    struct tree *t = parsed("d(1)");
    refused(tree_shift(t, INT64_MAX, why), "offset");
    tree_unref(t);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    struct tree *t = parsed("d(1)");
    for (int i = 1; i < TREE_DEPTH_MAX; i++)
        t = made(tree_stride(0, 1, 0, t, &trees_why));
    assert_int_equal(t->depth, TREE_DEPTH_MAX);
    refused(tree_stride(0, 1, 0, tree_ref(t), &trees_why), "deep");
    refused(tree_seq(0, 1, (struct tree *[]){tree_ref(t)}, &trees_why), "deep");
    refused(tree_index(0, 1, (int64_t[]){0}, t, &trees_why), "deep");
}

static void equality_and_shift(void **state)
{
    (void)state;
    const char *texts[] = {"d(4)", "d(5)", "s(2,8,d(4))", "s(3,8,d(4))", "s(2,9,d(4))", "q(d(4),d(5)@8)",
                           "q(d(4),d(5)@9)", "i(d(4);0,8)", "i(d(4);0,9)", "i(d(5);0,9)"};
    const int n = sizeof texts / sizeof *texts;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            struct tree *a = parsed(texts[i]), *b = parsed(texts[j]);
            assert_int_equal(tree_equal(a, b), i == j);
            struct tree *moved = made(tree_shift(b, 5, &trees_why));
            assert_false(tree_equal(a, moved));
            assert_int_equal(moved->low, b->low + 5);
            tree_unref(b);   /* what is shared lives on */
            struct tree *back = made(tree_shift(moved, -5, &trees_why));
            assert_int_equal(tree_equal(a, back), i == j);
            tree_unref(a), tree_unref(moved), tree_unref(back);
        }
    }
}

static struct tree *of_parts(int64_t off, int64_t n)
{
    struct tree *part[2 * TREE_BLOCKS_MIN];
    for (int64_t i = 0; i < n; i++)
        part[i] = made(tree_dense(i * i, 1 + i % 3, &trees_why));
    return made(tree_seq(off, n, part, &trees_why));
}

static struct tree *of_blocks(int64_t off, int64_t n, int64_t last)
{
    struct tree_block *block = tree_blocks_room(n, &trees_why);
    assert_non_null(block);
    for (int64_t i = 0; i < n; i++)
        block[i] = (struct tree_block){i * i, i == n - 1 ? last : 1 + i % 3};
    return tree_blocks(off, n, block, &trees_why);
}

/* A seq of dense parts is a list of blocks from a number of parts on, whichever way it was made. */
static void blocks_are_a_seq(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 2 * TREE_BLOCKS_MIN; n++) {
        struct tree *q = of_parts(7, n), *b = made(of_blocks(7, n, 1 + (n - 1) % 3));
        assert_true(tree_equal(q, b));
        assert_int_equal(q->kind == TREE_BLOCKS, n >= TREE_BLOCKS_MIN);
        assert_int_equal(tree_numbers(b, 1000), n ? 2 * n - 1 : 1);
        assert_int_equal(tree_numbers(b, n), n > 1 ? n + 1 : 1);
        struct tree *moved = made(tree_shift(b, 5, &trees_why));
        assert_int_equal(moved->low, n ? 12 : 0);
        assert_int_equal(moved->block == b->block, true);
        assert_int_equal(tree_word(moved, 16), n > 1 ? 1 : n ? 1 : 16);
        tree_unref(q), tree_unref(b), tree_unref(moved);
    }
    struct tree *other = of_parts(0, TREE_BLOCKS_MIN), *same = of_blocks(0, TREE_BLOCKS_MIN, 99);
    assert_false(tree_equal(other, same));
    tree_unref(other), tree_unref(same);
    refused(of_blocks(0, TREE_BLOCKS_MIN, INT64_MAX), "63 bits");
    refused(of_blocks(INT64_MAX - 5, TREE_BLOCKS_MIN, 1), "63 bits");
}

static void words(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int limit, word;
    } cases[] = {
        {"d(64)@3", 16, 16}, {"d(12)", 16, 4}, {"s(4,24,d(16))", 16, 8}, {"s(4,-20,d(16))", 16, 4},
        {"s(1,3,d(16))", 16, 16}, {"i(d(8);0,8,18)", 16, 2}, {"q(d(8),d(4)@16)", 16, 4}, {"q(d(8),d(8)@7)", 16, 1},
        {"d(0)", 16, 16}, {"d(64)", 1, 1}, {"s(2,8,d(4)@1)", 8, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tree *t = parsed(cases[i].text);
        assert_int_equal(tree_word(t, cases[i].limit), cases[i].word);
        tree_unref(t);
    }
}

static void strided(void **state)
{
    (void)state;
    const char *yes[] = {"d(4)", "s(2,8,d(4))", "s(2,8,s(2,9,d(4)))"}, *no[] = {"i(d(4);0,9)", "s(2,8,q(d(1),d(2)@8))"};
    for (int i = 0; i < 3; i++) {
        struct tree *t = parsed(yes[i]);
        assert_true(tree_is_strided(t));
        tree_unref(t);
    }
    for (int i = 0; i < 2; i++) {
        struct tree *t = parsed(no[i]);
        assert_false(tree_is_strided(t));
        tree_unref(t);
    }
}

/* The words as program.c documents them, for one packed position. */
static int64_t interpret(const int64_t *w, int64_t r)
{
    int64_t n = 0, at = 0, i;
    for (;;) {
        at += w[n + 1];
        assert_in_range(r, 0, w[n + 2] - 1);
        switch (w[n]) {
        case 0: return at + r;
        case 1:
            i = r / w[n + 3];
            at += i * w[n + 4];
            r -= i * w[n + 3];
            n = w[n + 5];
            break;
        case 2:
            for (i = w[n + 3] - 1; w[n + 4 + 2 * i] > r;)
                i--;
            r -= w[n + 4 + 2 * i];
            n = w[n + 5 + 2 * i];
            break;
        case 3:
            i = r / w[n + 3];
            assert_in_range(i, 0, w[n + 5] - 1);
            at += w[n + 6 + i];
            r -= i * w[n + 3];
            n = w[n + 4];
            break;
        case 4:
            for (i = w[n + 3] - 1; w[n + 4 + 2 * i] > r;)
                i--;
            return at + w[n + 5 + 2 * i] + r;
        default: fail();
        }
    }
}

static void program_layout(void **state)
{
    (void)state;
    const int64_t want[] = {2, 0, 22, 2, 0, 8, 10, 17, /* 8: */ 1, 0, 10, 5, 7, 14, /* 14: */ 0, 0, 5,
                            /* 17: */ 3, 30, 12, 4, 26, 3, 1, 2, 9, /* 26: */ 0, 0, 4};
    struct tree *t = parsed("q(s(2,7,d(5)),d(0)@9,i(d(4);1,2,9)@30)@77");
    size_t n;
    int64_t *w = tree_program(t, &n, &trees_why);
    assert_non_null(w);
    assert_int_equal(w[3], 2);
    /* The left-out part leaves two words unused behind the seq's record. */
    assert_int_equal(n, sizeof want / sizeof *want + 2);
    for (int64_t r = 0; r < t->size; r++)
        assert_int_equal(interpret(w, r), interpret(want, r));
    free(w);
    tree_unref(t);
}

static void programs_of_random_trees(void **state)
{
    (void)state;
    random_begin("programs");
    for (int round = 0; round < 2000; round++) {
        struct tree *t = random_tree((int)random_from(1, 5));
        struct bytes b = bytes_of_tree(t);
        size_t n;
        int64_t *w = tree_program(t, &n, &trees_why);
        assert_non_null(w);
        assert_int_equal(w[2], b.count);
        for (int64_t r = 0; r < b.count; r++)
            assert_int_equal(interpret(w, r) + t->off, b.at[r]);
        free(w), free(b.at), tree_unref(t);
    }
}

/* 2^60 leaves in 120 nodes: work is done once per node. */
static void shared_subtrees(void **state)
{
    (void)state;
    struct tree *t = parsed("q(d(1),d(2)@4)");
    for (int i = 0; i < 40; i++) {
        struct tree *moved = made(tree_stride(INT64_C(16) << i, 3, 8, tree_ref(t), &trees_why));
        t = made(tree_stride(0, 2, 1, made(tree_seq(0, 2, (struct tree *[]){t, moved}, &trees_why)), &trees_why));
        if (t->size > (INT64_MAX >> 8))
            break;
    }
    size_t n;
    int64_t *w = tree_program(t, &n, &trees_why);
    assert_non_null(w);
    assert_in_range(n, 1, 4000);
    struct tree *c = made(tree_canonical(t, &trees_why));
    assert_int_equal(c->size, t->size);
    free(w), tree_unref(t), tree_unref(c);
}

/* ---- text and back ---- */

static void check_text(struct tree *t)
{
    char *text = tree_signature(t, &trees_why);
    assert_non_null(text);
    struct tree *back = parsed(text);
    assert_true(tree_equal(t, back));
    assert_true(t->size == back->size && t->low == back->low && t->high == back->high && t->depth == back->depth);
    free(text), tree_unref(t), tree_unref(back);
}

static void text_of_limits(void **state)
{
    static const char *const texts[] = {
        "d(9223372036854775807)", "d(9223372036854775807)@-9223372036854775808", "d(0)@-9223372036854775808",
        "d(1)@9223372036854775806", "s(9223372036854775807,1,d(1))", "s(2,9223372036854775806,d(1))",
        "s(2,-9223372036854775808,d(1))", "s(0,-9223372036854775808,d(0)@9223372036854775807)",
        "i(d(1);-9223372036854775808,9223372036854775806)", "q(d(1)@-9223372036854775808,d(1)@9223372036854775806)",
        "s(9223372036854775807,0,q(d(0)@-1,d(1)))", "i(d(0);9223372036854775807)",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct tree *t = parsed(texts[i]);
        char *again = tree_signature(t, &trees_why);
        assert_string_equal(again, texts[i]);
        free(again);
        check_text(t);
    }
}

static void text_of_depth(void **state)
{
    (void)state;
    random_begin("deep");
    for (int depth = 64; depth <= TREE_DEPTH_MAX; depth *= 2) {
        struct tree *t = parsed("d(3)@1");
        while (t->depth < depth) {
            int64_t off = random_from(-9, 9), step = random_from(-99, 99), count = t->depth % 32 ? 1 : 2;
            switch (random_from(0, 2)) {
            case 0: t = made(tree_stride(off, count, step, t, &trees_why)); break;
            case 1: t = made(tree_seq(off, 1, (struct tree *[]){t}, &trees_why)); break;
            default: t = made(tree_index(off, 1, &step, t, &trees_why));
            }
        }
        struct tree *c = made(tree_canonical(t, &trees_why));
        assert_int_equal(c->size, t->size);
        check_text(t);
        check_text(c);
    }
}

static void text_of_long_lists(void **state)
{
    enum { ENTRIES = 100000 };
    static int64_t at[ENTRIES];
    static struct tree *part[ENTRIES];
    (void)state;
    random_begin("long");
    for (int i = 0; i < ENTRIES; i++) {
        at[i] = random_from(INT64_MIN / 4, INT64_MAX / 4);
        part[i] = made(tree_dense(at[i], random_from(1, 1000), &trees_why));
    }
    struct tree *x = made(tree_index(5, ENTRIES, at, parsed("s(2,9,d(4))"), &trees_why));
    struct tree *q = made(tree_seq(-5, ENTRIES, part, &trees_why));
    check_text(made(tree_canonical(x, &trees_why)));
    check_text(made(tree_canonical(q, &trees_why)));
    check_text(x);
    check_text(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures), cmocka_unit_test(counts_of_zero), cmocka_unit_test(refusals),
        cmocka_unit_test(depth_is_bounded), cmocka_unit_test(equality_and_shift), cmocka_unit_test(words),
        cmocka_unit_test(strided), cmocka_unit_test(blocks_are_a_seq), cmocka_unit_test(program_layout),
        cmocka_unit_test(programs_of_random_trees),
        cmocka_unit_test(shared_subtrees), cmocka_unit_test(text_of_limits), cmocka_unit_test(text_of_depth),
        cmocka_unit_test(text_of_long_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
