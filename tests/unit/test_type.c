/* test_type.c: types by MPI's rules: equivalent constructions, bounds, markers, padding, refusals. */
#include "../../gen/type.h"

#include <time.h>

#include "trees.h"

static struct reason why;

static struct type *typed(struct type *t)
{
    if (!t)
        fail_msg("%s", why.text);
    return t;
}

static char *signature(const struct type *t)
{
    struct tree *c = tree_canonical(t->tree, &why);
    assert_non_null(c);
    char *text = tree_signature(c, &why);
    assert_non_null(text);
    tree_unref(c);
    return text;
}

static void assert_signature(const struct type *t, const char *want)
{
    char *text = signature(t);
    assert_string_equal(text, want);
    free(text);
}

static void assert_bounds(const struct type *t, int64_t size, int64_t lb, int64_t ub)
{
    assert_int_equal(t->size, size);
    assert_int_equal(t->lb, lb);
    assert_int_equal(t->ub, ub);
}

/* ---- TEMPI (Pearson et al. 2021) §2: the same bytes, composed in many ways ---- */

enum { E0 = 100, E1 = 13, E2 = 47, A0 = 256, A1 = 512, A2 = 1024 };   /* A0 in floats, A1 rows, A2 planes */
enum { ROWS = 7 };

static struct type *f32, *byte;

static int64_t *list(int64_t a, int64_t b, int64_t c)
{
    static int64_t lists[8][3];
    static int next;
    int64_t *l = lists[next++ % 8];
    l[0] = a, l[1] = b, l[2] = c;
    return l;
}

static struct type *sub(int n, int64_t *sizes, int64_t *subsizes, enum type_order order, const struct type *of)
{
    return typed(type_subarray(n, sizes, subsizes, list(0, 0, 0), order, of, &why));
}

static void make_rows(struct type *row[ROWS])
{
    row[0] = typed(type_contiguous(E0, f32, &why));
    row[1] = typed(type_contiguous(E0 * 4, byte, &why));
    row[2] = typed(type_vector(1, E0, 1, f32, &why));
    row[3] = typed(type_vector(E0, 4, 4, byte, &why));
    row[4] = typed(type_hvector(E0 * 4, 1, 1, byte, &why));
    row[5] = sub(1, list(A0, 0, 0), list(E0, 0, 0), TYPE_ORDER_C, f32);
    row[6] = sub(1, list(A0 * 4, 0, 0), list(E0 * 4, 0, 0), TYPE_ORDER_C, byte);
}

/* Every plane that the paper lists, and some by way of lists. Returns how many. */
static int make_planes(struct type *const row[ROWS], struct type *plane[])
{
    int n = 0;
    plane[n++] = typed(type_vector(E1, E0, A0, f32, &why));
    plane[n++] = typed(type_vector(E1, E0 * 4, A0 * 4, byte, &why));
    plane[n++] = sub(2, list(A1, A0, 0), list(E1, E0, 0), TYPE_ORDER_C, f32);
    plane[n++] = sub(2, list(A0 * 4, A1, 0), list(E0 * 4, E1, 0), TYPE_ORDER_FORTRAN, byte);
    for (int i = 0; i < ROWS; i++)
        plane[n++] = typed(type_hvector(E1, 1, A0 * 4, row[i], &why));
    for (int i = 5; i < ROWS; i++) {   /* rows whose extent is that of the array */
        plane[n++] = typed(type_vector(E1, 1, 1, row[i], &why));
        plane[n++] = sub(1, list(A1, 0, 0), list(E1, 0, 0), TYPE_ORDER_C, row[i]);
    }
    int64_t at[E1], lengths[E1];
    for (int i = 0; i < E1; i++)
        at[i] = (int64_t)i * A0 * 4, lengths[i] = 1;
    plane[n++] = typed(type_hindexed(E1, lengths, at, row[0], &why));
    plane[n++] = typed(type_hindexed_block(E1, E0, at, f32, &why));
    return n;
}

static int make_cuboids(struct type *const plane[], int planes, struct type *cuboid[])
{
    int n = 0;
    for (int i = 0; i < planes; i++)
        cuboid[n++] = typed(type_hvector(E2, 1, (int64_t)A0 * 4 * A1, plane[i], &why));
    cuboid[n++] = sub(3, list(A2, A1, A0), list(E2, E1, E0), TYPE_ORDER_C, f32);
    cuboid[n++] = sub(3, list(A0 * 4, A1, A2), list(E0 * 4, E1, E2), TYPE_ORDER_FORTRAN, byte);
    cuboid[n++] = sub(1, list(A2, 0, 0), list(E2, 0, 0), TYPE_ORDER_C, plane[2]);
    return n;
}

static void all_signed(struct type *t[], int n, const char *want)
{
    for (int i = 0; i < n; i++)
        assert_signature(t[i], want);
}

static void tempi_constructions(void **state)
{
    (void)state;
    struct type *row[ROWS], *plane[32], *cuboid[64];
    f32 = typed(type_named(4, 4, &why)), byte = typed(type_named(1, 1, &why));
    make_rows(row);
    int planes = make_planes(row, plane), cuboids = make_cuboids(plane, planes, cuboid);
    all_signed(row, ROWS, "d(400)");
    all_signed(plane, planes, "s(13,1024,d(400))");
    all_signed(cuboid, cuboids, "s(47,524288,s(13,1024,d(400)))");
    for (int i = 0; i < ROWS; i++)
        type_free(row[i]);
    for (int i = 0; i < planes; i++)
        type_free(plane[i]);
    for (int i = 0; i < cuboids; i++)
        type_free(cuboid[i]);
    type_free(f32), type_free(byte);
}

/* ---- bounds ---- */

static struct type *named(int64_t size)
{
    return typed(type_named(size, (int)size, &why));
}

static void negative_strides(void **state)
{
    (void)state;
    struct type *d = named(8), *t = typed(type_vector(3, 2, -4, d, &why));
    assert_bounds(t, 48, -64, 16);
    assert_signature(t, "s(3,-32,d(16))");
    type_free(t);
    t = typed(type_contiguous(3, d, &why));
    struct type *back = typed(type_resized(24, -24, t, &why)), *u = typed(type_contiguous(2, back, &why));
    assert_bounds(u, 48, 0, 0);   /* markers lb at 24 and 0, ub at 0 and -24 */
    assert_int_equal(u->lb_set, 1);
    type_free(t), type_free(back), type_free(u), type_free(d);
}

static void empty_types(void **state)
{
    (void)state;
    struct type *d = named(8), *r = typed(type_resized(-8, 32, d, &why));
    const struct type *both[] = {d, r};
    struct type *t[] = {
        typed(type_contiguous(0, r, &why)), typed(type_vector(0, 3, 9, r, &why)), typed(type_vector(3, 0, 9, r, &why)),
        typed(type_indexed(0, NULL, NULL, r, &why)), typed(type_struct(0, NULL, NULL, NULL, &why)),
        typed(type_indexed(2, list(0, 0, 0), list(5, 6, 0), r, &why)), typed(type_indexed_block(2, 0, list(5, 6, 0), r, &why)),
        typed(type_struct(2, list(0, 0, 0), list(64, 128, 0), both, &why)),
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        assert_bounds(t[i], 0, 0, 0);
        assert_false(t[i]->lb_set || t[i]->ub_set);
        assert_signature(t[i], "d(0)");
    }
    struct type *marked = typed(type_resized(-4, 16, t[0], &why)), *m3 = typed(type_contiguous(3, marked, &why));
    assert_bounds(m3, 0, -4, 44);
    /* A block of none brings no marker. */
    struct type *s = typed(type_struct(2, list(1, 0, 0), list(16, 1000, 0), both, &why));
    assert_bounds(s, 8, 16, 24);
    assert_false(s->lb_set);
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        type_free(t[i]);
    type_free(marked), type_free(m3), type_free(s), type_free(d), type_free(r);
}

static void struct_padding(void **state)
{
    (void)state;
    struct type *d = named(8), *c = named(1), *i = named(4);
    const struct type *dc[] = {d, c}, *ic[] = {i, c};
    struct type *t = typed(type_struct(2, list(1, 1, 0), list(0, 8, 0), dc, &why));
    assert_bounds(t, 9, 0, 16);
    struct type *two = typed(type_contiguous(2, t, &why));
    assert_bounds(two, 18, 0, 32);
    assert_signature(two, "s(2,16,d(9))");
    type_free(t);
    t = typed(type_struct(2, list(1, 3, 0), list(-4, 0, 0), ic, &why));
    assert_bounds(t, 7, -4, 4);
    type_free(t);
    t = typed(type_pair(8, 8, 4, 16, 8, &why));
    assert_bounds(t, 12, 0, 16);
    assert_signature(t, "d(12)");
    type_free(t);
    t = typed(type_pair(2, 4, 4, 8, 4, &why));
    assert_signature(t, "q(d(2),d(4)@4)");
    type_free(t), type_free(two), type_free(d), type_free(c), type_free(i);
}

/* MPI-4.1 §5.1.7, after its example: markers alone count once there are any. */
static void markers_stay(void **state)
{
    (void)state;
    struct type *i = named(4), *r = typed(type_resized(-3, 9, i, &why)), *t = typed(type_contiguous(2, r, &why));
    assert_bounds(r, 4, -3, 6);
    assert_bounds(t, 8, -3, 15);
    const struct type *mixed[] = {i, r};
    struct type *s = typed(type_struct(2, list(5, 2, 0), list(100, 10, 0), mixed, &why));
    assert_bounds(s, 28, 7, 25);
    struct type *v = typed(type_hvector(2, 1, 50, s, &why)), *x = typed(type_indexed(2, list(1, 2, 0), list(3, -1, 0), r, &why));
    assert_bounds(v, 56, 7, 75);
    assert_bounds(x, 12, -12, 33);
    struct type *d = typed(type_dup(s, &why));
    assert_bounds(d, 28, 7, 25);
    assert_true(d->lb_set && d->ub_set);
    type_free(i), type_free(r), type_free(t), type_free(s), type_free(v), type_free(x), type_free(d);
}

static void subarrays(void **state)
{
    (void)state;
    struct type *i = named(4);
    struct type *c = typed(type_subarray(3, list(4, 5, 6), list(2, 3, 4), list(1, 2, 1), TYPE_ORDER_C, i, &why));
    struct type *f = typed(type_subarray(3, list(6, 5, 4), list(4, 3, 2), list(1, 2, 1), TYPE_ORDER_FORTRAN, i, &why));
    assert_bounds(c, 96, 0, 480);
    assert_bounds(f, 96, 0, 480);
    assert_signature(c, "s(2,120,s(3,24,d(16)))@172");
    assert_signature(f, "s(2,120,s(3,24,d(16)))@172");
    struct type *row = typed(type_contiguous(2, c, &why));
    assert_signature(row, "s(2,480,s(2,120,s(3,24,d(16))))@172");
    type_free(i), type_free(c), type_free(f), type_free(row);
}

/* ---- refusals ---- */

/* ---- darray: every element has one owner, who packs its own in the array's order ---- */

static void darray_of(int64_t gsize0, int64_t gsize1, const enum type_distribution k[2], const int64_t darg[2],
                      enum type_order order, const struct type *of)
{
    int64_t g[2] = {gsize0, gsize1}, p[2] = {k[0] ? 2 : 1, k[1] ? 3 : 1}, size = p[0] * p[1];
    unsigned char owners[400] = {0};
    for (int64_t rank = 0; rank < size; rank++) {
        struct type *t = typed(type_darray(size, rank, 2, g, k, darg, p, order, of, &why));
        struct bytes b = bytes_of_tree(t->tree);
        assert_bounds(t, b.count, 0, gsize0 * gsize1 * 4);
        for (int64_t i = 0; i < b.count; i++) {
            int64_t e = b.at[i] / 4, x[2] = {e / gsize1, e % gsize1};
            if (order == TYPE_ORDER_FORTRAN)
                x[0] = e % gsize0, x[1] = e / gsize0;
            assert_true(i == 0 || b.at[i] > b.at[i - 1]);
            owners[b.at[i]]++;
            for (int d = 0, c[2] = {(int)(rank / p[1]), (int)(rank % p[1])}; d < 2; d++) {
                int64_t block = k[d] == TYPE_DISTRIBUTE_NONE ? g[d] : darg[d] ? darg[d]
                                : k[d] == TYPE_DISTRIBUTE_BLOCK ? (g[d] + p[d] - 1) / p[d] : 1;
                assert_int_equal(x[d] / block % p[d], c[d]);
            }
        }
        free(b.at), type_free(t);
    }
    for (int64_t i = 0; i < gsize0 * gsize1 * 4; i++)
        assert_int_equal(owners[i], 1);
}

static void darrays(void **state)
{
    (void)state;
    struct type *i4 = named(4);
    for (int i = 0; i < 9 * 36 * 4; i++) {
        enum type_distribution k[2] = {(enum type_distribution)(i % 3), (enum type_distribution)(i / 3 % 3)};
        int64_t g[2] = {1 + i / 9 % 6, 1 + i / 54 % 6}, darg[2] = {0, 0};
        for (int d = 0; d < 2; d++)
            darg[d] = k[d] == TYPE_DISTRIBUTE_CYCLIC ? i / 324 : 0;
        darray_of(g[0], g[1], k, darg, i % 2 ? TYPE_ORDER_C : TYPE_ORDER_FORTRAN, i4);
    }
    const enum type_distribution two[2] = {TYPE_DISTRIBUTE_CYCLIC, TYPE_DISTRIBUTE_BLOCK};
    /* a span past 2^32, a packed size past 2^31 */
    struct type *t = typed(type_darray(4, 1, 2, list(1 << 20, 1 << 16, 0), two, list(16, 0, 0), list(2, 2, 0),
                                       TYPE_ORDER_C, i4, &why));
    assert_signature(t, "s(32768,8388608,s(16,262144,d(131072)))@131072");
    type_free(t), type_free(i4);
}

static void refused(struct type *t, const char *word)
{
    assert_null(t);
    if (!strstr(why.text, word))
        fail_msg("\"%s\" does not tell of %s", why.text, word);
}

static void refusals(void **state)
{
    (void)state;
    struct type *i = named(4), *huge = typed(type_resized(INT64_MIN, INT64_MAX, i, &why));
    const struct type *one[] = {i, i};
    const int64_t big = INT64_MAX / 3;
    refused(type_named(-1, 1, &why), "size");
    refused(type_named(4, 3, &why), "align");
    refused(type_contiguous(-1, i, &why), "contiguous: count");
    refused(type_vector(-1, 1, 1, i, &why), "vector: count");
    refused(type_vector(1, -1, 1, i, &why), "vector: blocklength");
    refused(type_hvector(1, -1, 1, i, &why), "hvector: blocklength");
    refused(type_vector(2, 1, big, i, &why), "vector: stride");
    refused(type_indexed(-2, NULL, NULL, i, &why), "indexed: count");
    refused(type_indexed(2, list(1, -1, 0), list(0, 0, 0), i, &why), "indexed: blocklengths[1]");
    refused(type_indexed(2, list(1, 1, 0), list(0, big, 0), i, &why), "indexed: displacements[1]");
    refused(type_hindexed(2, list(-1, 1, 0), list(0, 0, 0), i, &why), "hindexed: blocklengths[0]");
    refused(type_indexed_block(2, -1, list(0, 0, 0), i, &why), "indexed_block: blocklength");
    refused(type_hindexed_block(2, -1, list(0, 0, 0), i, &why), "hindexed_block: blocklength");
    refused(type_struct(-1, NULL, NULL, one, &why), "struct: count");
    refused(type_struct(2, list(1, -1, 0), list(0, 0, 0), one, &why), "struct: blocklengths[1]");
    refused(type_struct(2, list(1, 2, 0), list(0, INT64_MAX, 0), one, &why), "63 bits");
    refused(type_subarray(0, NULL, NULL, NULL, TYPE_ORDER_C, i, &why), "ndims");
    refused(type_subarray(1, list(0, 0, 0), list(0, 0, 0), list(0, 0, 0), TYPE_ORDER_C, i, &why), "sizes[1]");
    refused(type_subarray(2, list(4, 4, 0), list(4, 5, 0), list(0, 0, 0), TYPE_ORDER_C, i, &why), "subsizes[2]");
    refused(type_subarray(2, list(4, 4, 0), list(4, 0, 0), list(0, 0, 0), TYPE_ORDER_C, i, &why), "subsizes[2]");
    refused(type_subarray(1, list(4, 0, 0), list(2, 0, 0), list(3, 0, 0), TYPE_ORDER_C, i, &why), "starts[1]");
    refused(type_subarray(1, list(4, 0, 0), list(2, 0, 0), list(-1, 0, 0), TYPE_ORDER_C, i, &why), "starts[1]");
    refused(type_subarray(2, list(big, big, 0), list(1, 1, 0), list(0, 0, 0), TYPE_ORDER_C, i, &why), "size");
    refused(type_resized(1, INT64_MAX, i, &why), "resized");
    refused(type_contiguous(big, i, &why), "63 bits");
    refused(type_contiguous(3, huge, &why), "63 bits");
    refused(type_hvector(2, 1, -1, huge, &why), "63 bits");
    type_free(i), type_free(huge);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    struct type *t = named(1);
    while (t) {
        struct type *outer = type_hvector(1, 1, 0, t, &why);
        type_free(t);
        t = outer;
    }
    assert_non_null(strstr(why.text, "deep"));
}

/* ---- many blocks ---- */

#define MANY 1000000

static void many_blocks(void **state)
{
    (void)state;
    struct type *i = named(4);
    int64_t *at = malloc(MANY * sizeof *at), *lengths = malloc(MANY * sizeof *lengths);
    assert_true(at && lengths);
    for (int64_t k = 0; k < MANY; k++)
        at[k] = k * 9 + k % 7 / 3, lengths[k] = 1 + k % 3;
    clock_t start = clock();
    struct type *uneven = typed(type_indexed(MANY, lengths, at, i, &why));
    struct type *equal = typed(type_indexed_block(MANY, 3, at, i, &why));
    assert_int_equal(uneven->size, (MANY * 2 - 1) * 4);
    assert_int_equal(equal->size, MANY * 12);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
    type_free(i), type_free(uneven), type_free(equal), free(at), free(lengths);
}

/* Ten million blocks: a vector written as a list, and a list that stays one. */
static void ten_million_blocks(void **state)
{
    enum { BLOCKS = 10000000 };
    (void)state;
    struct type *i = named(4);
    int64_t *at = malloc(BLOCKS * sizeof *at);
    assert_non_null(at);
    for (int64_t k = 0; k < BLOCKS; k++)
        at[k] = k * 200;
    clock_t start = clock();
    struct type *even = typed(type_indexed_block(BLOCKS, 2, at, i, &why));
    assert_signature(even, "s(10000000,800,d(8))");   /* a span past 2^32 */
    type_free(even);
    for (int64_t k = 0; k < BLOCKS; k++)
        at[k] += (int64_t)((uint64_t)k * UINT64_C(0x9E3779B97F4A7C15) >> 60);
    struct type *list = typed(type_indexed_block(BLOCKS, 2, at, i, &why));
    struct tree *c = tree_canonical(list->tree, &why);
    assert_true(c && c->kind == TREE_INDEX && c->count == BLOCKS);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
    tree_unref(c), type_free(list), type_free(i), free(at);
}

enum { UNEVEN = 5000 };

/* Irregular blocks of `unit` bytes a piece: at[] and lengths[] in units. */
static void uneven_blocks(int64_t at[], int64_t lengths[])
{
    int64_t end = 0;
    for (int64_t k = 0; k < UNEVEN; k++) {
        uint64_t random = (uint64_t)k * UINT64_C(0x9E3779B97F4A7C15);
        at[k] = end, lengths[k] = 1 + (int64_t)(random >> 61);
        end += lengths[k] + 1 + (int64_t)(random >> 58 & 7);
    }
}

static struct type *struct_of(int64_t n, const int64_t at[], const struct type *const old[])
{
    int64_t ones[2 * UNEVEN];
    for (int64_t k = 0; k < n; k++) ones[k] = 1;
    return typed(type_struct(n, ones, at, old, &why));
}

/* The blocks as a struct of arrays of 4 bytes, every other one empty. */
static struct type *with_empty_blocks(const int64_t at[], const int64_t lengths[], const struct type *four)
{
    int64_t byte_at[2 * UNEVEN], length[2 * UNEVEN];
    const struct type *old[2 * UNEVEN];
    for (int64_t k = 0; k < 2 * UNEVEN; k++) {
        old[k] = four, byte_at[k] = 4 * at[k / 2] - (k % 2 ? 0 : 999);
        length[k] = k % 2 ? lengths[k / 2] : 0;
    }
    return typed(type_struct(2 * UNEVEN, length, byte_at, old, &why));
}

/* The blocks as a struct of types of two halves. */
static struct type *of_halves(const int64_t at[], const int64_t lengths[], const struct type *four)
{
    struct type *half[2];
    for (int64_t h = 0, n = UNEVEN / 2; h < 2; h++)
        half[h] = typed(type_indexed(n, lengths + h * n, at + h * n, four, &why));
    struct type *t = struct_of(2, (int64_t[]){0, 0}, (const struct type *const *)half);
    type_free(half[0]), type_free(half[1]);
    return t;
}

/* Each block as a type of its own, of other named types where its length allows. */
static struct type *of_many_types(const int64_t at[], const int64_t lengths[])
{
    int64_t byte_at[UNEVEN];
    struct type *old[UNEVEN];
    for (int64_t k = 0; k < UNEVEN; k++) {
        struct type *piece = named(lengths[k] % 2 ? 4 : 8);
        old[k] = typed(type_contiguous(lengths[k] * 4 / piece->size, piece, &why));
        byte_at[k] = 4 * at[k];
        type_free(piece);
    }
    struct type *t = struct_of(UNEVEN, byte_at, (const struct type *const *)old);
    for (int64_t k = 0; k < UNEVEN; k++) type_free(old[k]);
    return t;
}

/* Whatever the call, irregular blocks are one node, and the canonical form shares its list. */
static void uneven_blocks_are_one_list(void **state)
{
    (void)state;
    int64_t at[UNEVEN], byte_at[UNEVEN], lengths[UNEVEN];
    uneven_blocks(at, lengths);
    for (int64_t k = 0; k < UNEVEN; k++) byte_at[k] = 4 * at[k];
    struct type *four = named(4), *first = typed(type_indexed(UNEVEN, lengths, at, four, &why));
    struct type *made[] = {
        typed(type_hindexed(UNEVEN, lengths, byte_at, four, &why)), with_empty_blocks(at, lengths, four),
        of_halves(at, lengths, four), of_many_types(at, lengths), typed(type_resized(-8, 1 << 20, first, &why)),
        typed(type_contiguous(1, first, &why)),
    };
    struct tree *c = tree_canonical(first->tree, &why);
    assert_true(c && c->kind == TREE_BLOCKS && c->count == UNEVEN);
    assert_ptr_equal(c->block, first->tree->block);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        struct tree *same = tree_canonical(made[i]->tree, &why);
        assert_true(same && tree_equal(same, c));
        tree_unref(same), type_free(made[i]);
    }
    tree_unref(c), type_free(first), type_free(four);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tempi_constructions), cmocka_unit_test(negative_strides), cmocka_unit_test(empty_types),
        cmocka_unit_test(struct_padding), cmocka_unit_test(markers_stay), cmocka_unit_test(subarrays),
        cmocka_unit_test(darrays), cmocka_unit_test(refusals), cmocka_unit_test(nesting_is_bounded), cmocka_unit_test(many_blocks),
        cmocka_unit_test(ten_million_blocks), cmocka_unit_test(uneven_blocks_are_one_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
