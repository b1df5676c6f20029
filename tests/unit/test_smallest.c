/* test_smallest.c: how large the canonical form is beside the smallest tree that there is, found by trying all. */
#include "trees.h"

enum { BYTES_MAX = 48, MANY = 1000000 };

/* ---- the smallest tree ---- */

/* The numbers in a tree, the root's offset left out: what its signature's length goes by. */
static int64_t numbers(const struct tree *t)
{
    int64_t n = t->kind == TREE_SEQ ? t->count - 1 : t->kind == TREE_INDEX ? t->count : t->kind == TREE_STRIDE ? 2 : 1;
    if (t->kind == TREE_BLOCKS)
        return 2 * t->count - 1;
    for (int64_t i = 0; t->part && i < t->count; i++)
        n += numbers(t->part[i]);
    return t->child ? n + numbers(t->child) : n;
}

static bool alike(const int64_t at[], int64_t i, int64_t j, int64_t n)
{
    for (int64_t k = 1; k < n; k++) {
        if (at[i + k] - at[i] != at[j + k] - at[j])
            return false;
    }
    return true;
}

/* Bytes [i, i + n) are copies of the first p, wherever they lie or, `even`, a step apart. */
static bool copies(const int64_t at[], int64_t n, int64_t p, bool even)
{
    if (n % p != 0)
        return false;
    for (int64_t k = p; k < n; k += p) {
        if (!alike(at, 0, k, p) || (even && at[k] - at[k - p] != at[p] - at[0]))
            return false;
    }
    return true;
}

static bool one_run(const int64_t at[], int64_t n)
{
    return at[n - 1] - at[0] == n - 1 && copies(at, n, 1, true);
}

/* The fewest numbers that describe the bytes, by every interval in turn: each is a block, copies of its beginning
 * or, with `seq`, two parts. */
static int64_t fewest(const int64_t at[], int64_t count, bool seq)
{
    static int64_t best[BYTES_MAX][BYTES_MAX + 1];
    for (int64_t n = 1; n <= count; n++) {
        for (int64_t i = 0; i + n <= count; i++) {
            int64_t *b = &best[i][n];
            *b = one_run(at + i, n) ? 1 : MANY;
            for (int64_t p = 1; p < n && *b > 1; p++) {
                int64_t copy = best[i][p], parts = seq ? copy + 1 + best[i + p][n - p] : MANY;
                if (copies(at + i, n, p, true) && copy + 2 < *b)
                    *b = copy + 2;
                if (copies(at + i, n, p, false) && copy + n / p < *b)
                    *b = copy + n / p;
                if (parts < *b)
                    *b = parts;
            }
        }
    }
    return best[0][count];
}

/* ---- byte sequences to try ---- */

/* Forwards, in blocks of 1 to 3 bytes that often touch. */
static int64_t blocks(int64_t at[])
{
    int64_t n = 0, off = 0;
    for (int64_t k = random_from(1, 12); k > 0; k--) {
        for (int64_t len = random_from(1, 3); len > 0; len--)
            at[n++] = off++;
        off += random_from(0, 2);
    }
    return n;
}

/* Mostly even. */
static int64_t nearly_even(int64_t at[])
{
    int64_t count = random_from(1, 40);
    for (int64_t n = 0, off = 0; n < count; n++) {
        at[n] = off;
        off += random_from(0, 19) ? 2 : random_from(1, 4);
    }
    return count;
}

/* Back and forth. */
static int64_t overlapping(int64_t at[])
{
    int64_t count = random_from(1, 14);
    for (int64_t n = 0, off = 0; n < count; n++, off += random_from(-1, 3))
        at[n] = off;
    return count;
}

static int64_t of_a_tree(int64_t at[])
{
    struct tree *t = random_tree((int)random_from(1, 5));
    while (t->size == 0 || t->size > BYTES_MAX) {
        tree_unref(t);
        t = random_tree((int)random_from(1, 5));
    }
    struct bytes b = bytes_of_tree(t);
    int64_t n = b.count;
    memcpy(at, b.at, (size_t)n * sizeof *at);
    free(b.at), tree_unref(t);
    return n;
}

/* ---- what canon.c says of sizes ---- */

static bool holds(const struct tree *t, enum tree_kind kind)
{
    bool found = t->kind == kind || (t->child && holds(t->child, kind));
    for (int64_t i = 0; t->part && i < t->count && !found; i++)
        found = holds(t->part[i], kind);
    return found;
}

static void check_size(const struct tree *c, const int64_t at[], int64_t count)
{
    int64_t n = numbers(c), all = fewest(at, count, true), runs = 1;
    bool seq = holds(c, TREE_SEQ) || holds(c, TREE_BLOCKS);
    const char *broken = NULL;
    for (int64_t i = 1; i < count; i++)
        runs += at[i] != at[i - 1] + 1;
    if (n < all || n > 2 * runs)
        broken = "the bounds of any tree";
    if (seq && n > 2 * runs - 1)
        broken = "a seq of the runs";
    if (!seq && n != fewest(at, count, false))
        broken = "trees without a seq";
    if (tree_is_strided(c) && n != all)
        broken = "all trees";
    if (broken)
        fail_msg("%s: %lld numbers; %lld do; broken: %s", tree_signature(c, &trees_why), (long long)n, (long long)all,
                 broken);
}

static void smallest(void **state)
{
    static int64_t (*const sequences[])(int64_t at[]) = {blocks, nearly_even, overlapping, of_a_tree};
    (void)state;
    random_begin("smallest");
    for (int round = 0; round < 12000; round++) {
        int64_t at[BYTES_MAX], n = sequences[round % 4](at);
        struct tree *t = made(tree_index(0, n, at, parsed("d(1)"), &trees_why));
        struct tree *c = made(tree_canonical(t, &trees_why));
        check_size(c, at, n);
        tree_unref(t), tree_unref(c);
    }
}

/* The enumerator itself: what is plainly smallest. */
static void enumerator(void **state)
{
    const struct {
        const char *tree;
        int64_t all, without_seq;
    } cases[] = {{"d(7)", 1, 1}, {"s(5,3,d(2))", 3, 3}, {"i(d(2);0,3,7)", 4, 4}, {"q(s(9,2,d(1)),d(1)@19)", 5, 11},
                 {"i(s(3,2,d(1));0,10,21,40)", 7, 7}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tree *t = parsed(cases[i].tree);
        struct bytes b = bytes_of_tree(t);
        assert_int_equal(fewest(b.at, b.count, true), cases[i].all);
        assert_int_equal(fewest(b.at, b.count, false), cases[i].without_seq);
        free(b.at), tree_unref(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(enumerator), cmocka_unit_test(smallest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
