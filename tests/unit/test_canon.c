/* test_canon.c: the canonical form: each rule, uniqueness for chains of strides, equal bytes for random
 * trees, and long lists in good time. */
#include <time.h>

#include "trees.h"

static char *canonical_text(const struct tree *t)
{
    struct tree *c = made(tree_canonical(t, &trees_why));
    char *text = tree_signature(c, &trees_why);
    assert_non_null(text);
    tree_unref(c);
    return text;
}

static const struct {
    const char *built, *canonical;
} rules[] = {
    /* empty */
    {"d(0)@7", "d(0)"}, {"s(0,8,d(4))@7", "d(0)"}, {"s(3,8,d(0)@1)@7", "d(0)"}, {"i(d(0);1,5,7)", "d(0)"},
    {"q(d(0)@9,s(0,1,d(1)))", "d(0)"}, {"q(d(0)@9,d(4)@2,s(0,1,d(1)))", "d(4)@2"},
    /* one */
    {"s(1,99,d(4)@2)@3", "d(4)@5"}, {"q(d(4)@2)@3", "d(4)@5"}, {"i(d(4)@2;7)@3", "d(4)@12"},
    /* dense */
    {"s(5,4,d(4))", "d(20)"}, {"s(5,1,d(1))", "d(5)"}, {"s(5,4,d(4)@2)@3", "d(20)@5"}, {"q(d(4),d(2)@4,d(1)@6)", "d(7)"},
    {"q(d(4),d(2)@5,d(1)@7)", "q(d(4),d(3)@5)"}, {"q(d(2)@4,d(4))", "q(d(2),d(4)@-4)@4"},
    /* strides that stay: overlap, backwards, on the spot */
    {"s(5,3,d(4))", "s(5,3,d(4))"}, {"s(5,-4,d(4))", "s(5,-4,d(4))"}, {"s(5,0,d(4))", "s(5,0,d(4))"},
    {"s(5,-1,d(1))", "s(5,-1,d(1))"},
    /* merge */
    {"s(3,40,s(5,8,d(4)))", "s(15,8,d(4))"}, {"s(3,-40,s(5,-8,d(4)))", "s(15,-8,d(4))"},
    {"s(3,0,s(5,0,d(4)))", "s(15,0,d(4))"}, {"s(3,20,s(5,4,d(4)))", "d(60)"}, {"s(3,32,s(4,8,s(2,4,d(4))))", "d(96)"},
    {"s(3,41,s(5,8,d(4)))", "s(3,41,s(5,8,d(4)))"}, {"s(3,8,s(5,24,d(4)))", "s(3,8,s(5,24,d(4)))"},
    /* hoist */
    {"s(3,64,s(5,8,d(4)@1)@10)@100", "s(3,64,s(5,8,d(4)))@111"}, {"i(d(4)@1;10,20,31)@100", "i(d(4);0,10,21)@111"},
    {"q(d(4)@1,d(8)@10)@100", "q(d(4),d(8)@9)@101"}, {"s(2,99,q(d(4)@1,d(8)@10)@100)", "s(2,99,q(d(4),d(8)@9))@101"},
    /* flatten */
    {"q(q(d(1),d(2)@2)@10,q(d(3),q(d(4)@5,d(5)@10))@20)", "q(d(1),d(2)@2,d(3)@10,d(4)@15,d(5)@20)@10"},
    {"q(q(d(1),d(2)@2)@10,d(3)@14)", "q(d(1),d(5)@2)@10"},
    /* equal parts */
    {"q(d(4),d(4)@8,d(4)@16)", "s(3,8,d(4))"}, {"q(d(4),d(4)@8,d(4)@17)", "i(d(4);0,8,17)"},
    {"q(d(4)@3,s(4,1,d(1))@11)", "s(2,8,d(4))@3"}, {"q(d(4),d(4))", "s(2,0,d(4))"},
    {"q(s(2,8,d(4)),s(2,8,d(4))@16)", "s(4,8,d(4))"}, {"q(d(4),d(4)@-8,d(4)@-16)", "s(3,-8,d(4))"},
    /* regular lists */
    {"i(d(4);0,4,8)", "d(12)"}, {"i(d(4);5,13,21)", "s(3,8,d(4))@5"}, {"i(d(4);0,4,20,24,40,44)", "s(3,20,d(8))"},
    {"i(d(4);0,4,20,24,41,45)", "i(d(8);0,20,41)"}, {"i(d(4);0,8,20,100,108,120)", "s(2,100,i(d(4);0,8,20))"},
    {"q(d(4),d(8)@8,d(4)@32,d(8)@40)", "s(2,32,q(d(4),d(8)@8))"},
    {"q(d(4),d(8)@8,d(4)@32,d(8)@41)", "q(d(4),d(8)@8,d(4)@32,d(8)@41)"},
    {"q(d(4),d(8)@8,d(4)@32,d(9)@40)", "q(d(4),d(8)@8,d(4)@32,d(9)@40)"},
    /* blocks that touch are one run first */
    {"i(d(4);0,4,20)", "q(d(8),d(4)@20)"}, {"i(d(8);0,8,40,56,64,99)", "q(d(16),d(8)@40,d(16)@56,d(8)@99)"},
    {"i(s(2,8,d(4));0,12,40)", "i(s(2,8,d(4));0,12,40)"}, {"q(d(4),d(8)@8,d(8)@20,d(4)@32)", "s(3,12,s(2,8,d(4)))"},
    /* irregular lists of regular parts, however written */
    {"i(s(3,8,d(4));0,100,250)", "i(s(3,8,d(4));0,100,250)"},
    {"i(d(4);0,8,16,100,108,116,250,258,266)", "i(s(3,8,d(4));0,100,250)"},
    {"q(s(3,8,d(4)),i(d(4);100,108,116,250,258,266))", "i(s(3,8,d(4));0,100,250)"},
    {"i(d(4);0,8,20,100,108,120,207,215,227)", "i(i(d(4);0,8,20);0,100,207)"},
    {"q(s(5,8,d(4)),s(7,12,d(4))@100)", "q(s(5,8,d(4)),s(7,12,d(4))@100)"},
    {"q(s(5,8,d(4)),d(4)@100,s(6,12,d(4))@112)", "q(s(5,8,d(4)),s(7,12,d(4))@100)"},
    {"q(s(5,8,d(4)),s(4,99,s(3,12,d(6)))@100)", "q(s(5,8,d(4)),s(4,99,s(3,12,d(6)))@100)"},
    {"q(i(d(4);0,8,17,26,37,46,58),d(6)@70)", "q(i(d(4);0,8,17,26,37,46,58),d(6)@70)"},
    /* behind a header: planes on an irregular list, pairs of them, records */
    {"q(d(100),i(s(9,8,d(4));200,400,700,1300))", "q(d(100),i(s(9,8,d(4));0,200,500,1100)@200)"},
    {"q(d(100),i(s(9,8,d(4));200,400,1700,1900))", "q(d(100),s(2,1500,s(2,200,s(9,8,d(4))))@200)"},
    {"q(d(100),s(9,8,d(4))@200,s(9,8,d(4))@500)", "q(d(100),s(2,300,s(9,8,d(4)))@200)"},
    /* an even list with an end: a stride and the rest, unless the child would be written twice for no gain */
    {"i(d(4);0,9,18,27,36,45,54,64)", "q(s(7,9,d(4)),d(4)@64)"},
    {"i(q(d(4),d(2)@6);0,9,18,27,36,45,54,64)", "q(s(7,9,q(d(4),d(2)@6)),d(4)@64,d(2)@70)"},
    {"i(i(d(1);0,3,5,9,11,16,18);0,99,198,297,396,495,594,700)",
     "i(i(d(1);0,3,5,9,11,16,18);0,99,198,297,396,495,594,700)"},
    /* lists cut in two */
    {"q(i(d(4);0,8,17,26),i(d(4);37,46,58))", "i(d(4);0,8,17,26,37,46,58)"},
    /* a subarray as a struct of vectors */
    {"q(s(4,16,d(8)),s(4,16,d(8))@100,s(4,16,d(8))@200)", "s(3,100,s(4,16,d(8)))"},
    /* more runs than are looked at: parts stay, but for what needs no look */
    {"q(s(9000,8,d(4)),s(9000,8,d(4))@72000,s(9999,9,d(3))@200000,d(0))", "q(s(18000,8,d(4)),s(9999,9,d(3))@200000)"},
    {"q(s(900,8,d(4)),s(9,9000,s(900,8,d(4)))@9000,s(10,9000,s(900,8,d(4)))@90000)", "s(20,9000,s(900,8,d(4)))"},
    {"q(s(900,8,d(4)),d(1)@7200,d(3)@7201,s(99,8,d(4))@7208)", "s(1000,8,d(4))"},
};

static void rules_one_by_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct tree *t = parsed(rules[i].built);
        char *text = canonical_text(t);
        if (strcmp(text, rules[i].canonical) != 0)
            fail_msg("%s became %s, not %s", rules[i].built, text, rules[i].canonical);
        free(text), tree_unref(t);
    }
}

/* ---- in words ---- */

static char *steps_of(const struct tree *t)
{
    char *steps;
    struct tree *c = made(tree_canonical_explained(t, &steps, &trees_why));
    struct tree *plain = made(tree_canonical(t, &trees_why));
    assert_true(tree_equal(c, plain));
    tree_unref(c), tree_unref(plain);
    return steps;
}

static void steps_in_words(void **state)
{
    static const struct {
        const char *built, *steps;
    } cases[] = {
        {"s(3,8,d(4))@16", "none: it is canonical as built\n"},
        {"s(0,8,d(4))", "what packs no bytes is left out\n"},
        {"s(64,512,s(4,2,d(2)))", "a stride of touching blocks became one block: 4 copies of 2 B, 8 B together\n"},
        {"s(1,9,d(4)@3)", "a stride of one copy became that copy\n"},
        {"i(d(8);16,528,1040)", "the first offset of an index moved to its root: 16 B\n"
                                "an index with even spacing became a stride: 3 offsets, step 512 B\n"},
        {"s(3,40,s(5,8,d(4)))",
         "nested strides where the outer goes on as the inner became one: 3 x 5 copies, step 8 B\n"},
        {"q(s(4,16,d(8)),s(4,16,d(8))@100,s(4,16,d(8))@250)",
         "the list was read run by run, blocks that touch as one: 3 entries, 12 runs, 96 B\n"
         "runs of one length became an index: 12 runs of 8 B\n"
         "groups of offsets that lie alike were written once: a list of 3 groups of 4 offsets\n"
         "an index with even spacing became a stride: 4 offsets, step 16 B\n"},
        {"q(s(9000,8,d(4)),s(9000,8,d(4))@72000,s(9999,9,d(3))@200000,d(0))",
         "what packs no bytes is left out\nempty parts of a seq are left out: 1\n"
         "strides that go on in the next part became one: 3 parts, then 2\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tree *t = parsed(cases[i].built);
        char *steps = steps_of(t);
        if (strcmp(steps, cases[i].steps) != 0)
            fail_msg("%s:\n%s", cases[i].built, steps);
        free(steps), tree_unref(t);
    }
}

/* However often a rule fires, its lines are few. */
static void steps_are_counted(void **state)
{
    enum { PARTS = 32768 };
    static struct tree *part[PARTS];
    (void)state;
    for (int64_t i = 0; i < PARTS; i++)
        part[i] = made(tree_stride(i * i * 40, 1, 99, made(tree_dense(1, 1 + i % 7, &trees_why)), &trees_why));
    struct tree *t = made(tree_seq(0, PARTS, part, &trees_why));
    char *steps = steps_of(t);
    assert_non_null(strstr(steps, "a stride of one copy became that copy (32768 times)\n"));
    free(steps), tree_unref(t);
    for (int64_t i = 0; i < PARTS; i++)
        part[i] = made(tree_stride(i * i * 400, 2 + i % 100, 4, parsed("d(4)"), &trees_why));
    t = made(tree_seq(0, PARTS, part, &trees_why));
    steps = steps_of(t);
    assert_non_null(strstr(steps, "3 copies of 4 B, 12 B together (328 times)\n"));
    assert_non_null(strstr(steps, "4 copies of 4 B, 16 B together (328 times); and 31784 more with other numbers\n"));
    free(steps), tree_unref(t);
}

/* ---- random trees ---- */

/* What canon.c's opening comment promises of every node. */
static void check_invariants(const struct tree *t, bool offset_allowed)
{
    assert_true(offset_allowed || t->off == 0);
    if (t->size == 0) {
        assert_true(t->kind == TREE_DENSE && t->off == 0);
        return;
    }
    assert_true(t->kind == TREE_DENSE || t->count > 1);
    if (t->child)
        check_invariants(t->child, false);
    if (t->at)
        assert_int_equal(t->at[0], 0);
    if (t->block)
        assert_int_equal(t->block->off, 0);
    for (int64_t i = 0; t->part && i < t->count; i++) {
        assert_true(t->part[i]->size > 0 && t->part[i]->kind != TREE_SEQ && t->part[i]->kind != TREE_BLOCKS);
        check_invariants(t->part[i], i > 0);
    }
}

static void random_trees(void **state)
{
    (void)state;
    random_begin("canon");
    for (int round = 0; round < 10000; round++) {
        struct tree *t = random_tree((int)random_from(1, 5));
        struct tree *c = made(tree_canonical(t, &trees_why)), *again = made(tree_canonical(c, &trees_why));
        struct bytes a = bytes_of_tree(t), b = bytes_of_tree(c);
        assert_same_bytes(a, b);
        check_invariants(c, true);
        assert_true(tree_equal(c, again));
        free(a.at), free(b.at), tree_unref(t), tree_unref(c), tree_unref(again);
    }
}

/* ---- uniqueness for chains ---- */

struct form {
    uint64_t bytes, tree;   /* hashes of the byte sequence and of the canonical tree */
};

static uint64_t mix(uint64_t h, int64_t n)
{
    h = (h ^ (uint64_t)n) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static uint64_t tree_hash(const struct tree *t)
{
    uint64_t h = mix(mix(mix(t->kind + 1, t->off), t->count), t->step);
    return t->child ? mix(h, (int64_t)tree_hash(t->child)) : h;
}

static int by_bytes(const void *a, const void *b)
{
    const struct form *x = a, *y = b;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void check_chain(struct tree *t, struct form *form)
{
    struct tree *c = made(tree_canonical(t, &trees_why));
    struct bytes a = bytes_of_tree(t), b = bytes_of_tree(c);
    assert_true(tree_is_strided(c));
    assert_same_bytes(a, b);
    form->tree = tree_hash(c);
    form->bytes = 1;
    for (int64_t i = 0; i < a.count; i++)
        form->bytes = mix(form->bytes, a.at[i]);
    free(a.at), free(b.at), tree_unref(t), tree_unref(c);
}

/* All chains of up to `levels` strides within small bounds: the bytes are equal exactly where the
 * canonical trees are. */
static void all_chains(int levels, int64_t counts, int64_t low, int64_t high, int64_t lengths)
{
    int64_t each = (counts + 1) * (high - low + 1), all = lengths + 1;
    for (int i = 0; i < levels; i++)
        all *= each;
    struct form *form = malloc((size_t)all * sizeof *form);
    assert_non_null(form);
    for (int64_t k = 0; k < all; k++) {
        int64_t rest = k / (lengths + 1);
        struct tree *t = made(tree_dense(k % 3, k % (lengths + 1), &trees_why));
        for (int i = 0; i < levels; i++, rest /= each) {
            int64_t step = low + rest % each / (counts + 1);
            t = made(tree_stride(-(k % 3), rest % (counts + 1), step, t, &trees_why));
        }
        check_chain(t, &form[k]);
    }
    qsort(form, (size_t)all, sizeof *form, by_bytes);
    int64_t classes = 1;
    for (int64_t k = 1; k < all; k++) {
        classes += form[k].bytes != form[k - 1].bytes;
        if (form[k].bytes == form[k - 1].bytes)
            assert_true(form[k].tree == form[k - 1].tree);
    }
    assert_true(classes > 1 && classes < all);
    free(form);
}

static void chains_are_unique(void **state)
{
    (void)state;
    all_chains(1, 6, -8, 12, 6);
    all_chains(2, 4, -8, 12, 4);
    all_chains(3, 2, -3, 6, 3);
}

/* The same layout as a list of single bytes reaches the chain's form. */
static void chains_from_lists(void **state)
{
    (void)state;
    random_begin("chains");
    for (int round = 0; round < 3000; round++) {
        struct tree *t = made(tree_dense(random_from(-9, 9), random_from(1, 4), &trees_why));
        for (int64_t i = random_from(0, 3); i > 0; i--)
            t = made(tree_stride(0, random_from(1, 4), random_step(t->size), t, &trees_why));
        struct bytes b = bytes_of_tree(t);
        struct tree *list = made(tree_index(0, b.count, b.at, parsed("d(1)"), &trees_why));
        char *x = canonical_text(t), *y = canonical_text(list);
        assert_string_equal(x, y);
        free(x), free(y), free(b.at), tree_unref(t), tree_unref(list);
    }
}

/* ---- long lists ---- */

#define MANY 1000000

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Far above what is needed, far below what a quadratic rule would take. */
#define SECONDS_MAX 20.0

static int64_t even(int64_t i)
{
    return i * 24;
}
static int64_t irregular(int64_t i)
{
    return i * 24 + (int64_t)((uint64_t)i * UINT64_C(0x9E3779B97F4A7C15) >> 61);
}
/* Long even runs and long periods that fail at the end: the worst for looking for groups and periods. */
static int64_t nearly_even(int64_t i)
{
    return i * 24 + (i == MANY - 1);
}
static int64_t periodic(int64_t i)
{
    return i / 1000 * 100000 + irregular(i % 1000);
}
static int64_t nearly_periodic(int64_t i)
{
    return periodic(i) + (i == MANY - 1);
}

static void long_lists(void **state)
{
    (void)state;
    static const struct {
        int64_t (*at)(int64_t i);
        enum tree_kind kind;
    } cases[] = {{even, TREE_STRIDE}, {irregular, TREE_INDEX}, {nearly_even, TREE_SEQ}, {periodic, TREE_STRIDE},
                 {nearly_periodic, TREE_INDEX}};
    int64_t *at = malloc(MANY * sizeof *at);
    struct tree **part = malloc(MANY * sizeof *part);
    assert_true(at && part);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int64_t i = 0; i < MANY; i++) {
            at[i] = cases[k].at(i);
            part[i] = made(tree_dense(at[i], 8, &trees_why));
        }
        double start = seconds();
        struct tree *x = made(tree_index(0, MANY, at, parsed("d(8)"), &trees_why));
        struct tree *q = made(tree_seq(0, MANY, part, &trees_why));
        struct tree *cx = made(tree_canonical(x, &trees_why)), *cq = made(tree_canonical(q, &trees_why));
        assert_true(tree_equal(cx, cq));
        assert_int_equal(cx->kind, cases[k].kind);
        tree_unref(x), tree_unref(q), tree_unref(cx), tree_unref(cq);
        assert_true(seconds() - start < SECONDS_MAX);
    }
    free(at), free(part);
}

static void long_uneven_seq(void **state)
{
    (void)state;
    struct tree **part = malloc(MANY * sizeof *part);
    assert_non_null(part);
    for (int64_t i = 0; i < MANY; i++)
        part[i] = made(tree_dense(irregular(i), i == MANY / 2 ? 0 : 1 + i % 7, &trees_why));
    double start = seconds();
    struct tree *q = made(tree_seq(3, MANY, part, &trees_why)), *c = made(tree_canonical(q, &trees_why));
    assert_int_equal(c->size, q->size);
    assert_int_equal(c->low, q->low);
    assert_int_equal(c->count, MANY - 1);
    assert_true(seconds() - start < SECONDS_MAX);
    free(part), tree_unref(q), tree_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_one_by_one), cmocka_unit_test(steps_in_words), cmocka_unit_test(steps_are_counted),
        cmocka_unit_test(random_trees), cmocka_unit_test(chains_are_unique),
        cmocka_unit_test(chains_from_lists), cmocka_unit_test(long_lists), cmocka_unit_test(long_uneven_seq),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
