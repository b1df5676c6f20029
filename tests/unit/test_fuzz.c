/* test_fuzz.c: random nested types, built here, built by the MPI at hand, and read back from it, must agree in
 * size, bounds and layout; what they pack and unpack must be the MPI's bytes. Runs as a single process.
 * FUZZ_TYPES is how many types (21000); TEST_SEED where they begin. */
#include <mpi.h>

#include "../../runtime/datatype/type_reader.h"
#include "both.h"

static char *form_of(const struct tree *t)
{
    struct tree *c = made(tree_canonical(t, &why));
    char *text = tree_signature(c, &why);
    assert_non_null(text);
    tree_unref(c);
    return text;
}

/* The layout read from the MPI has the same form, and the form is its own. */
static void check_form(struct both b)
{
    struct type *read = read_type(b.m, &grain, NULL, &why);
    if (!read)
        fail_msg("%s, of %s", why.text, tree_signature(b.t->tree, &why));
    char *built = form_of(b.t->tree), *theirs = form_of(read->tree);
    struct tree *again = parsed(built);
    char *settled = form_of(again);
    assert_string_equal(built, theirs);
    assert_string_equal(built, settled);
    free(built), free(theirs), free(settled), tree_unref(again), type_free(read);
}

enum { SPAN_MAX = 1 << 20, PACKED_MAX = 1 << 14 };

static unsigned char user[SPAN_MAX], ours[SPAN_MAX], theirs[SPAN_MAX], packed[PACKED_MAX], sent[PACKED_MAX];

struct side {
    unsigned char *origin, *packed;
};

static int gather_run(void *arg, int64_t at, int64_t from, int64_t len)
{
    struct side *s = arg;
    memcpy(s->packed + from, s->origin + at, (size_t)len);
    return 0;
}

static int scatter_run(void *arg, int64_t at, int64_t from, int64_t len)
{
    struct side *s = arg;
    memcpy(s->origin + at, s->packed + from, (size_t)len);
    return 0;
}

static int mark_run(void *arg, int64_t at, int64_t from, int64_t len)
{
    struct side *s = arg;
    (void)from;
    for (int64_t i = 0; i < len; i++) {
        if (s->origin[at + i]++)
            return 1;
    }
    return 0;
}

/* The whole, in up to three ranges. */
static void in_ranges(const struct tree *c, int count, int64_t extent, tree_run *run, struct side *s)
{
    int64_t all = count * c->size, first = random_from(0, all), second = random_from(first, all);
    assert_int_equal(tree_walk(c, count, extent, 0, first, run, s), 0);
    assert_int_equal(tree_walk(c, count, extent, second, all, run, s), 0);
    assert_int_equal(tree_walk(c, count, extent, first, second, run, s), 0);
}

static void random_bytes(unsigned char *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (unsigned char)random_from(0, 255);
}

static void check_unpack(struct both b, const struct tree *c, int count, int64_t extent, int64_t low, int64_t span)
{
    int size = (int)(count * c->size), position = 0;
    memset(ours, 0, (size_t)span);
    if (tree_walk(c, count, extent, 0, size, mark_run, &(struct side){ours - low, NULL}) != 0)
        return;   /* unpacking to overlapping bytes is not MPI's */
    memcpy(ours, user, (size_t)span), memcpy(theirs, user, (size_t)span);
    random_bytes(sent, size);
    in_ranges(c, count, extent, scatter_run, &(struct side){ours - low, sent});
    assert_int_equal(MPI_Unpack(sent, size, &position, theirs - low, count, b.m, MPI_COMM_SELF), MPI_SUCCESS);
    if (memcmp(ours, theirs, (size_t)span) != 0)
        fail_msg("MPI_Unpack differs for %d elements, %ld apart, of %s", count, (long)extent,
                 tree_signature(b.t->tree, &why));
}

/* MPI_Pack and MPI_Unpack of `count` elements do what the canonical tree says, byte for byte. */
static void check_bytes(struct both b, int count)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(b.m, &lb, &extent);
    int64_t reach = (count - 1) * (int64_t)extent, size = count * b.t->size;
    int64_t low = b.t->tree->low + (reach < 0 ? reach : 0), high = b.t->tree->high + (reach > 0 ? reach : 0);
    if (high - low > SPAN_MAX || size > PACKED_MAX)
        return;
    random_bytes(user, high - low);
    struct tree *c = made(tree_canonical(b.t->tree, &why));
    in_ranges(c, count, extent, gather_run, &(struct side){user - low, packed});
    int position = 0;
    MPI_Type_commit(&b.m);
    assert_int_equal(MPI_Pack(user - low, count, b.m, theirs, PACKED_MAX, &position, MPI_COMM_SELF), MPI_SUCCESS);
    assert_int_equal(position, size);
    if (memcmp(packed, theirs, (size_t)size) != 0)
        fail_msg("MPI_Pack differs for %d elements, %ld apart, of %s", count, (long)extent,
                 tree_signature(b.t->tree, &why));
    check_unpack(b, c, count, extent, low, high - low);
    tree_unref(c);
}

static void compare(const char *name)
{
    const char *types = getenv("FUZZ_TYPES");
    random_begin(name);
    for (long round = 0; round < (types ? strtol(types, NULL, 0) : 21000) / 3; round++) {
        struct both b = random_both((int)random_from(1, 4), true);
        check_form(b);
        check_bytes(b, zeros ? 1 : (int)random_from(1, 3));
        both_free(b);
    }
}

static void aligned_types(void **state)
{
    (void)state;
    unaligned = zeros = false;
    compare("aligned");
}

static void unaligned_types(void **state)
{
    (void)state;
    unaligned = true, zeros = false;
    compare("unaligned");
}

static void counts_of_zero(void **state)
{
    (void)state;
    unaligned = false, zeros = true;
    compare("zeros");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(aligned_types), cmocka_unit_test(unaligned_types),
                                       cmocka_unit_test(counts_of_zero)};
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
