/* test_walk.c: tree_walk against the naive enumerator, over elements and random ranges. */
#include "trees.h"

struct seen {
    struct bytes bytes;
    int64_t packed;          /* where the next run must begin */
    int64_t user_end;        /* where it must not begin: it would have been merged */
    int64_t runs, stop_at;
};

static int see(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct seen *s = arg;
    assert_true(len > 0);
    assert_int_equal(packed, s->packed);
    if (s->runs > 0)
        assert_int_not_equal(user, s->user_end);
    s->packed += len;
    s->user_end = user + len;
    for (int64_t i = 0; i < len; i++)
        bytes_add(&s->bytes, user + i);
    return ++s->runs == s->stop_at ? 77 : 0;
}

static void check_range(const struct tree *t, int64_t count, int64_t extent, int64_t begin, int64_t end)
{
    struct bytes whole = {0}, want;
    for (int64_t e = 0; e < count; e++)
        bytes_of_node(&whole, t, e * extent);
    int64_t stop = end < whole.count ? end : whole.count;
    want = (struct bytes){whole.at ? whole.at + begin : NULL, stop > begin ? stop - begin : 0, 0};
    struct seen s = {.packed = begin};
    assert_int_equal(tree_walk(t, count, extent, begin, end, see, &s), 0);
    assert_same_bytes(s.bytes, want);
    if (s.runs > 1) {
        struct seen first = {.packed = begin, .stop_at = 1};
        assert_int_equal(tree_walk(t, count, extent, begin, end, see, &first), 77);
        assert_int_equal(first.runs, 1);
        free(first.bytes.at);
    }
    free(whole.at), free(s.bytes.at);
}

static void random_ranges(void **state)
{
    (void)state;
    random_begin("walk");
    for (int round = 0; round < 1500; round++) {
        struct tree *t = random_tree((int)random_from(1, 5));
        struct tree *c = made(tree_canonical(t, &trees_why));
        int64_t count = random_from(0, 3), extent = random_step(t->size), all = count * t->size;
        check_range(t, count, extent, 0, all + random_from(0, 1));
        for (int i = 0; i < 4; i++) {
            int64_t begin = random_from(0, all), end = random_from(begin, all);
            check_range(t, count, extent, begin, end);
            check_range(c, count, extent, begin, end);
        }
        tree_unref(t), tree_unref(c);
    }
}

static void merges_across_elements(void **state)
{
    (void)state;
    struct tree *t = parsed("q(d(4)@8,d(2)@12)");
    struct seen s = {0};
    tree_walk(t, 3, 6, 0, 18, see, &s);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.bytes.at[0], 8);
    free(s.bytes.at), tree_unref(t);
}

/* A byte at the far end of 2^60 others is reached without meeting them. */
static void starts_anywhere(void **state)
{
    (void)state;
    struct tree *t = parsed("s(1073741824,2147483648,s(1073741824,2,d(1)))@5");
    struct seen s = {.packed = t->size - 1};
    tree_walk(t, 1, 0, t->size - 1, t->size, see, &s);
    assert_int_equal(s.bytes.count, 1);
    assert_int_equal(s.bytes.at[0], t->high - 1);
    free(s.bytes.at), tree_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_ranges), cmocka_unit_test(merges_across_elements),
                                       cmocka_unit_test(starts_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
