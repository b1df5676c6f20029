/* test_signature.c: trees as text, both ways; hostile text. */
#include "trees.h"

static void round_trip(void **state)
{
    (void)state;
    random_begin("signature");
    for (int round = 0; round < 3000; round++) {
        struct tree *t = random_tree((int)random_from(1, 6));
        char *text = tree_signature(t, &trees_why);
        assert_non_null(text);
        struct tree *back = parsed(text);
        assert_true(tree_equal(t, back));
        char *again = tree_signature(back, &trees_why);
        assert_string_equal(text, again);
        free(text), free(again), tree_unref(t), tree_unref(back);
    }
}

static void texts(void **state)
{
    (void)state;
    struct tree *t = parsed("s(100,4096,d(400))@16");
    char *text = tree_shape_signature(t, &trees_why);
    assert_string_equal(text, "s(100,4096,d(400))");
    free(text), tree_unref(t);
    t = made(tree_index(INT64_MIN, 2, (int64_t[]){0, INT64_MAX - 1}, parsed("d(1)"), &trees_why));
    text = tree_signature(t, &trees_why);
    assert_string_equal(text, "i(d(1);0,9223372036854775806)@-9223372036854775808");
    struct tree *back = parsed(text);
    assert_true(tree_equal(t, back));
    free(text), tree_unref(t), tree_unref(back);
}

static void refusals(void **state)
{
    (void)state;
    const char *bad[] = {
        "", " ", "d", "d(", "d()", "d(4", "d(4))", "d(4) ", " d(4)", "d(04)", "d(+4)", "d(-0)", "d(-4)", "d(4)@0",
        "d(4)@", "d(4)@+1", "d(4)@-0", "d(4)@01", "d(0x4)", "d(4.0)", "d(9223372036854775808)", "D(4)", "x(4)", "d(4)@1@1",
        "d(1)@9223372036854775807", "d(99999999999999999999999999999999999999999999)", "d(1)@-9223372036854775809",
        "s(2,8,d(4)", "s(2,8)", "s(2,d(4))", "s(-2,8,d(4))", "s(2,8,d(4),d(4))", "s(2, 8,d(4))",
        "s(9223372036854775807,9223372036854775807,d(2))", "q()", "q(d(4)", "q(d(4),)", "q(d(4)d(4))", "q(,d(4))",
        "i(d(4))", "i(d(4);)", "i(d(4);1,)", "i(d(4);1", "i(d(4),1)", "i(;1)", "d(4)\n", "q", "q(", "i(", "s(",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tree *t = tree_parse(bad[i], &trees_why);
        if (t)
            fail_msg("accepted: %s", bad[i]);
        assert_true(trees_why.text[0] != '\0' && strlen(trees_why.text) < sizeof trees_why.text);
    }
}

/* Each kind of bracket, as deep as memory goes. */
static void deep_text(void **state)
{
    (void)state;
    const char *open[] = {"s(1,0,", "q(", "i("};
    for (int k = 0; k < 3; k++) {
        size_t n = strlen(open[k]), depth = 200000;
        char *text = malloc(n * depth + 1);
        assert_non_null(text);
        for (size_t i = 0; i < depth; i++)
            memcpy(text + i * n, open[k], n);
        text[n * depth] = '\0';
        assert_null(tree_parse(text, &trees_why));
        assert_non_null(strstr(trees_why.text, "deep"));
        free(text);
    }
}

/* Signatures with random damage: refused, or taken and written back as they were. */
static void damaged_text(void **state)
{
    (void)state;
    static const char letters[] = "dsqi();,@-0123456789";
    random_begin("damaged");
    for (int round = 0; round < 5000; round++) {
        struct tree *t = random_tree(4);
        char *text = tree_signature(t, &trees_why);
        size_t n = strlen(text);
        text[random_from(0, (int64_t)n - 1)] = letters[random_from(0, sizeof letters - 2)];
        if (random_from(0, 3) == 0)
            text[random_from(0, (int64_t)n - 1)] = '\0';
        struct tree *back = tree_parse(text, &trees_why);
        char *again = back ? tree_signature(back, &trees_why) : NULL;
        if (again)
            assert_string_equal(text, again);
        free(text), free(again), tree_unref(t), tree_unref(back);
    }
}

static void unfolding_is_bounded(void **state)
{
    (void)state;
    int64_t at[1000];
    for (int i = 0; i < 1000; i++)
        at[i] = INT64_C(1000000000000000000) + i;
    struct tree *t = made(tree_index(0, 1000, at, parsed("d(1)"), &trees_why));
    for (int i = 0; i < 50; i++)
        t = made(tree_seq(0, 2, (struct tree *[]){tree_ref(t), t}, &trees_why));
    assert_null(tree_signature(t, &trees_why));
    assert_non_null(strstr(trees_why.text, "longer"));
    tree_unref(t);
}

static void description(void **state)
{
    (void)state;
    struct tree *t = parsed("s(2,-64,q(d(4),i(d(8);0,9,11)@16))@3");
    char *text = tree_describe(t, &trees_why);
    assert_string_equal(text, "stride 2 x -64 B at 3\n  seq 2 parts\n    dense 4 B\n"
                              "    index 3 offsets at 16: 0 9 11\n      dense 8 B\n");
    free(text), tree_unref(t);
    int64_t at[100] = {0, 1, 5};
    t = made(tree_index(0, 100, at, parsed("d(1)"), &trees_why));
    text = tree_describe(t, &trees_why);
    assert_non_null(strstr(text, "... 84 more\n"));
    free(text), tree_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(texts), cmocka_unit_test(refusals), cmocka_unit_test(deep_text),
        cmocka_unit_test(damaged_text), cmocka_unit_test(unfolding_is_bounded), cmocka_unit_test(description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
