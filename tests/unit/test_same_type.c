/* test_same_type.c: one box, or one list of blocks, written with every constructor that can: one signature. */
#include "../../gen/type.h"

#include "trees.h"

static struct reason why;

/* A box of `sub` elements of E bytes in each dimension, the slowest first, within an array; `copies` of it, apart. */
enum { DIMS = 3, E = 4 };
struct box {
    int64_t size[DIMS], sub[DIMS], at[DIMS];
    int64_t copies, apart;
};

static int64_t step_of(const struct box *b, int dim)
{
    int64_t step = E;
    for (int d = DIMS - 1; d > dim; d--)
        step *= b->size[d];
    return step;
}

static int64_t start_of(const struct box *b)
{
    int64_t start = 0;
    for (int d = 0; d < DIMS; d++)
        start += b->at[d] * step_of(b, d);
    return start;
}

/* ---- wrappers; each consumes what it is given ---- */

static struct type *over(struct type *old, struct type *t)
{
    if (!t)
        fail_msg("%s", why.text);
    type_free(old);
    return t;
}

static struct type *element(void)
{
    return over(NULL, type_named(E, E, &why));
}

static struct type *duplicate(struct type *t)
{
    return over(t, type_dup(t, &why));
}

static struct type *resize(struct type *t, int64_t extent)
{
    return over(t, type_resized(random_from(-9, 9), extent, t, &why));
}

static struct type *one_member(struct type *t)
{
    return over(t, type_struct(1, (int64_t[]){1}, (int64_t[]){0}, (const struct type *const[]){t}, &why));
}

/* Members that pack nothing: no elements, or of an empty type. */
static struct type *empty_members(struct type *t)
{
    struct type *none = over(NULL, type_named(0, 1, &why));
    const struct type *const old[] = {none, t, t, none};
    t = over(t, type_struct(4, (int64_t[]){3, 0, 1, 2}, (int64_t[]){-70, 990, 0, 50}, old, &why));
    return over(none, t);
}

static struct type *same(struct type *t)
{
    return t;
}

static struct type *wrapped(struct type *t)
{
    static struct type *(*const ways[])(struct type *) = {same, duplicate, one_member, empty_members};
    return ways[random_from(0, 3)](t);
}

/* n of t, `step` apart. */
static struct type *of_hvector(struct type *t, int64_t n, int64_t step)
{
    return over(t, type_hvector(n, 1, step, t, &why));
}

static struct type *of_resized(struct type *t, int64_t n, int64_t step)
{
    t = resize(t, step);
    return over(t, type_contiguous(n, t, &why));
}

static struct type *of_vector(struct type *t, int64_t n, int64_t step)
{
    t = resize(t, 1);
    return over(t, type_vector(n, 1, step, t, &why));
}

static struct type *of_list(struct type *t, int64_t n, int64_t step)
{
    int64_t at[64];
    for (int64_t i = 0; i < n; i++)
        at[i] = i * step;
    return over(t, type_hindexed_block(n, 1, at, t, &why));
}

/* The first of them, then the others: a struct of two members. */
static struct type *of_two(struct type *t, int64_t n, int64_t step)
{
    int64_t first = random_from(0, n);
    struct type *rest = of_hvector(duplicate(over(NULL, type_dup(t, &why))), n - first, step);
    t = of_resized(t, first, step);
    const struct type *const old[] = {t, rest};
    return over(rest, over(t, type_struct(2, (int64_t[]){1, 1}, (int64_t[]){0, first * step}, old, &why)));
}

static struct type *copies(struct type *t, int64_t n, int64_t step)
{
    static struct type *(*const ways[])(struct type *, int64_t, int64_t) = {of_hvector, of_resized, of_vector, of_list,
                                                                            of_two};
    return wrapped(ways[random_from(0, 4)](t, n, step));
}

static struct type *moved_to(struct type *t, int64_t at)
{
    return over(t, type_hindexed(1, (int64_t[]){1}, &at, t, &why));
}

/* ---- a box ---- */

static struct type *box_levels(const struct box *b)
{
    struct type *t = wrapped(element());
    for (int d = DIMS - 1; d >= 0; d--)
        t = copies(t, b->sub[d], step_of(b, d));
    return moved_to(t, start_of(b));
}

static struct type *box_subarray(const struct box *b)
{
    struct type *t = wrapped(element());
    return over(t, type_subarray(DIMS, b->size, b->sub, b->at, TYPE_ORDER_C, t, &why));
}

static struct type *box_fortran(const struct box *b)
{
    int64_t size[DIMS], sub[DIMS], at[DIMS];
    struct type *t = wrapped(element());
    for (int d = 0; d < DIMS; d++)
        size[d] = b->size[DIMS - 1 - d], sub[d] = b->sub[DIMS - 1 - d], at[d] = b->at[DIMS - 1 - d];
    return over(t, type_subarray(DIMS, size, sub, at, TYPE_ORDER_FORTRAN, t, &why));
}

/* The block of one process; boxes lie at multiples of their size in arrays of multiples. */
static struct type *box_darray(const struct box *b)
{
    enum type_distribution distribs[DIMS];
    int64_t dargs[DIMS], psizes[DIMS], rank = 0, size = 1;
    struct type *t = wrapped(element());
    for (int d = 0; d < DIMS; d++) {
        distribs[d] = random_from(0, 1) ? TYPE_DISTRIBUTE_BLOCK : TYPE_DISTRIBUTE_CYCLIC;
        dargs[d] = b->sub[d];   /* cyclic(sub): one cycle only */
        psizes[d] = b->size[d] / b->sub[d];
        rank = rank * psizes[d] + b->at[d] / b->sub[d];
        size *= psizes[d];
    }
    return over(t, type_darray(size, rank, DIMS, b->size, distribs, dargs, psizes, TYPE_ORDER_C, t, &why));
}

/* Each row a block of a list; a row may be cut in two, and blocks of nothing lie between. */
static struct type *box_rows(const struct box *b)
{
    int64_t length[512], at[512], n = 0, row = b->sub[2];
    for (int64_t i = 0; i < b->sub[0]; i++) {
        for (int64_t j = 0; j < b->sub[1]; j++) {
            int64_t cut = random_from(0, row), off = start_of(b) / E + i * b->size[1] * b->size[2] + j * b->size[2];
            length[n] = cut, at[n++] = off;
            length[n] = row - cut, at[n++] = off + cut;
            length[n] = 0, at[n++] = random_from(-999, 999);
        }
    }
    struct type *t = wrapped(element());
    return over(t, type_indexed(n, length, at, t, &why));
}

static struct type *box_elements(const struct box *b)
{
    int64_t at[512], n = 0;
    for (int64_t i = 0; i < b->sub[0]; i++)
        for (int64_t j = 0; j < b->sub[1]; j++)
            for (int64_t k = 0; k < b->sub[2]; k++)
                at[n++] = start_of(b) / E + (i * b->size[1] + j) * b->size[2] + k;
    struct type *t = element();
    return over(t, type_indexed_block(n, 1, at, t, &why));
}

static char *form_of_type(const struct type *t)
{
    struct tree *c = made(tree_canonical(t->tree, &why));
    char *text = tree_signature(c, &why);
    assert_non_null(text);
    tree_unref(c);
    return text;
}

/* Compares with *want, and sets it at first. Consumes t. */
static void check_form(struct type *t, char **want, struct bytes *bytes)
{
    char *text = form_of_type(t);
    struct bytes b = bytes_of_tree(t->tree);
    if (!*want) {
        *want = text, *bytes = b;
    } else {
        assert_same_bytes(*bytes, b);
        assert_string_equal(text, *want);
        free(text), free(b.at);
    }
    type_free(t);
}

static void boxes(void **state)
{
    static struct type *(*const ways[])(const struct box *) = {box_subarray, box_fortran, box_darray, box_rows,
                                                               box_elements, box_levels, box_levels, box_levels};
    (void)state;
    random_begin("boxes");
    for (int round = 0; round < 3000; round++) {
        struct box b = {.copies = random_from(1, 4), .apart = random_from(-400, 4000)};
        struct bytes bytes = {0};
        char *want = NULL;
        for (int d = 0; d < DIMS; d++) {
            int64_t parts = random_from(1, 3);
            b.sub[d] = random_from(1, 5);
            b.size[d] = b.sub[d] * parts;
            b.at[d] = b.sub[d] * random_from(0, parts - 1);
        }
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            check_form(copies(ways[i](&b), b.copies, b.apart), &want, &bytes);
        free(want), free(bytes.at);
    }
}

/* ---- a list ---- */

/* Blocks of `length` elements; irregular, so that the form is a list too. */
static void lists(void **state)
{
    (void)state;
    random_begin("lists");
    for (int round = 0; round < 3000; round++) {
        int64_t at[40], bytes_at[40], lengths[40], n = random_from(1, 40), length = random_from(1, 3), off = 0;
        const struct type *old[40];
        struct bytes bytes = {0};
        char *want = NULL;
        struct type *e = wrapped(element());
        for (int64_t i = 0; i < n; i++, off += length + random_from(-1, 4))
            at[i] = off, bytes_at[i] = off * E, lengths[i] = length, old[i] = e;
        struct type *block = over(NULL, type_contiguous(length, e, &why));
        check_form(over(NULL, type_indexed_block(n, length, at, e, &why)), &want, &bytes);
        check_form(over(NULL, type_indexed(n, lengths, at, e, &why)), &want, &bytes);
        check_form(over(NULL, type_hindexed(n, lengths, bytes_at, e, &why)), &want, &bytes);
        check_form(over(NULL, type_hindexed_block(n, length, bytes_at, e, &why)), &want, &bytes);
        check_form(over(NULL, type_hindexed_block(n, 1, bytes_at, block, &why)), &want, &bytes);
        check_form(over(NULL, type_struct(n, lengths, bytes_at, old, &why)), &want, &bytes);
        int64_t half = n / 2;
        struct type *front = over(NULL, type_indexed_block(half, length, at, e, &why));
        struct type *back = over(NULL, type_hindexed_block(n - half, length, bytes_at + half, e, &why));
        const struct type *const both[] = {front, back};
        check_form(over(NULL, type_struct(2, (int64_t[]){1, 1}, (int64_t[]){0, 0}, both, &why)), &want, &bytes);
        type_free(front), type_free(back), type_free(block), type_free(e);
        free(want), free(bytes.at);
    }
}

/* Order is the typemap's: the same blocks in another order are another type. */
static void order_is_kept(void **state)
{
    (void)state;
    struct type *e = element();
    struct type *up = over(NULL, type_indexed_block(3, 1, (int64_t[]){0, 2, 4}, e, &why));
    struct type *down = over(NULL, type_indexed_block(3, 1, (int64_t[]){4, 2, 0}, e, &why));
    char *a = form_of_type(up), *b = form_of_type(down);
    assert_string_equal(a, "s(3,8,d(4))");
    assert_string_equal(b, "s(3,-8,d(4))@16");
    free(a), free(b), type_free(up), type_free(down), type_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(boxes), cmocka_unit_test(lists),
                                       cmocka_unit_test(order_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
