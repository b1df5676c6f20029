/* both.h: random nested types, built here and by the MPI at hand. Include after mpi.h. */
#ifndef STRIDEC_TESTS_BOTH_H
#define STRIDEC_TESTS_BOTH_H
#include "../../gen/type.h"
#include "trees.h"

struct both {
    struct type *t;
    MPI_Datatype m;
};

static struct reason why;
static int64_t grain;

/* Implementations part where the standard's words are few, and so do the extents of everything above:
 * - Displacements that break alignment: some pad the parts, some the whole, some not at all. So unaligned
 *   displacements are tried with bytes only, which need no padding.
 * - A struct whose lower bound sinks after a part has been padded: Open MPI keeps the padding. So members of
 *   structs begin at multiples of 8.
 * - A struct with resized members: MPICH 4.0 forgets that their bounds outdo those of the other members.
 *   There, structs get no such members.
 * - Steps of exactly -1 byte: Open MPI 4.1 takes the number for "no step given". They are left out.
 * - Parts without bytes: some let them move the bounds. So counts of zero are tried in the outermost
 *   constructor only, and then sizes and packed bytes are compared, of one element.
 * - MPICH 4.0 takes the bounds of a darray for its true bounds. There, true bounds go unchecked with one inside. */
static bool unaligned, zeros, zeros_now, true_bounds;
#ifdef MPICH_VERSION
static const bool markers_lost = true;
#else
static const bool markers_lost = false;
#endif

static int64_t random_count(int64_t most)
{
    return zeros_now && random_from(0, 3) == 0 ? 0 : random_from(1, most);
}

static int64_t displacement(void)
{
    int64_t d = unaligned ? random_from(-40, 90) : random_from(-5, 12) * 8;
    return d == -1 ? 1 : d;
}

static struct both leaf(void)
{
    const struct {
        int size, align;
        MPI_Datatype m;
    } all[] = {{1, 1, MPI_CHAR}, {2, _Alignof(short), MPI_SHORT}, {4, _Alignof(int), MPI_INT},
               {4, _Alignof(float), MPI_FLOAT}, {8, _Alignof(double), MPI_DOUBLE}, {1, 1, MPI_BYTE}};
    int k = unaligned ? 0 : (int)random_from(0, 5);
    struct both b = {type_named(all[k].size, all[k].align, &why), MPI_DATATYPE_NULL};
    assert_int_equal(MPI_Type_dup(all[k].m, &b.m), MPI_SUCCESS);
    return b;
}

static void both_free(struct both b)
{
    type_free(b.t);
    MPI_Type_free(&b.m);
}

enum { BLOCKS = 5 };

/* Arguments for the constructors with lists, in both widths. */
struct lists {
    int n, length, lengths[BLOCKS], at[BLOCKS];
    MPI_Aint bytes[BLOCKS];
    int64_t n_lengths[BLOCKS], n_at[BLOCKS], n_bytes[BLOCKS];
};

static struct lists random_lists(void)
{
    struct lists l = {.n = (int)random_count(BLOCKS), .length = (int)random_count(3)};
    int64_t equal = random_from(0, 2);
    for (int i = 0; i < l.n; i++) {
        l.n_lengths[i] = l.lengths[i] = equal ? l.length : (int)random_count(3);
        l.n_at[i] = l.at[i] = (int)random_from(-4, 12);
        l.n_bytes[i] = l.bytes[i] = displacement();
    }
    return l;
}

typedef struct both maker(struct both old);

static struct both make_contiguous(struct both old)
{
    struct both b;
    int n = (int)random_count(4);
    b.t = type_contiguous(n, old.t, &why);
    MPI_Type_contiguous(n, old.m, &b.m);
    return b;
}

static struct both make_vector(struct both old)
{
    struct both b;
    int n = (int)random_count(4), length = (int)random_count(3), stride = (int)random_from(-4, 6);
    stride = stride * (old.t->ub - old.t->lb) == -1 ? 1 : stride;
    b.t = type_vector(n, length, stride, old.t, &why);
    MPI_Type_vector(n, length, stride, old.m, &b.m);
    return b;
}

static struct both make_hvector(struct both old)
{
    struct both b;
    int n = (int)random_count(4), length = (int)random_count(3);
    MPI_Aint stride = (MPI_Aint)displacement();
    b.t = type_hvector(n, length, stride, old.t, &why);
    MPI_Type_create_hvector(n, length, stride, old.m, &b.m);
    return b;
}

static struct both make_indexed(struct both old)
{
    struct both b;
    struct lists l = random_lists();
    b.t = type_indexed(l.n, l.n_lengths, l.n_at, old.t, &why);
    MPI_Type_indexed(l.n, l.lengths, l.at, old.m, &b.m);
    return b;
}

static struct both make_hindexed(struct both old)
{
    struct both b;
    struct lists l = random_lists();
    b.t = type_hindexed(l.n, l.n_lengths, l.n_bytes, old.t, &why);
    MPI_Type_create_hindexed(l.n, l.lengths, l.bytes, old.m, &b.m);
    return b;
}

static struct both make_indexed_block(struct both old)
{
    struct both b;
    struct lists l = random_lists();
    b.t = type_indexed_block(l.n, l.length, l.n_at, old.t, &why);
    MPI_Type_create_indexed_block(l.n, l.length, l.at, old.m, &b.m);
    return b;
}

static struct both make_hindexed_block(struct both old)
{
    struct both b;
    struct lists l = random_lists();
    b.t = type_hindexed_block(l.n, l.length, l.n_bytes, old.t, &why);
    MPI_Type_create_hindexed_block(l.n, l.length, l.bytes, old.m, &b.m);
    return b;
}

static struct both random_both(int depth, bool outermost);

static struct both both_dup(struct both old)
{
    struct both b;
    b.t = type_dup(old.t, &why);
    MPI_Type_dup(old.m, &b.m);
    return b;
}

static struct both make_struct(struct both old)
{
    struct both b, member[BLOCKS];
    struct lists l = random_lists();
    const struct type *t[BLOCKS];
    MPI_Datatype m[BLOCKS];
    for (int i = 0; i < l.n; i++) {
        member[i] = random_from(0, 1) ? random_both(2, false) : both_dup(old);
        if ((!unaligned && member[i].t->lb % 8 != 0) || (member[i].t->lb_set && markers_lost)) {
            both_free(member[i]);
            member[i] = leaf();
        }
        t[i] = member[i].t, m[i] = member[i].m;
    }
    b.t = type_struct(l.n, l.n_lengths, l.n_bytes, t, &why);
    MPI_Type_create_struct(l.n, l.lengths, l.bytes, m, &b.m);
    for (int i = 0; i < l.n; i++)
        both_free(member[i]);
    return b;
}

static struct both make_subarray(struct both old)
{
    struct both b;
    int n = (int)random_from(1, 3), size[3], sub[3], start[3], c = (int)random_from(0, 1);
    int64_t n_size[3], n_sub[3], n_start[3];
    for (int d = 0; d < n; d++) {
        n_size[d] = size[d] = (int)random_from(1, 5);
        n_sub[d] = sub[d] = (int)random_from(1, size[d]);
        n_start[d] = start[d] = (int)random_from(0, size[d] - sub[d]);
    }
    b.t = type_subarray(n, n_size, n_sub, n_start, c ? TYPE_ORDER_C : TYPE_ORDER_FORTRAN, old.t, &why);
    MPI_Type_create_subarray(n, size, sub, start, c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old.m, &b.m);
    return b;
}

static struct both make_resized(struct both old)
{
    struct both b;
    int64_t lb = displacement(), extent = unaligned ? random_from(1, 80) : random_from(1, 10) * 8;
    b.t = type_resized(lb, extent, old.t, &why);
    MPI_Type_create_resized(old.m, (MPI_Aint)lb, (MPI_Aint)extent, &b.m);
    return b;
}

static struct both make_darray(struct both old)
{
    static const int kinds[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    struct both b = {NULL, MPI_DATATYPE_NULL};
    int n = (int)random_from(1, 3), size = 1, c = (int)random_from(0, 1), g[3], k[3], darg[3], p[3];
    int64_t n_g[3], n_darg[3], n_p[3];
    enum type_distribution n_k[3];
    for (int d = 0; d < n; d++) {
        n_k[d] = (enum type_distribution)random_from(0, 2), k[d] = kinds[n_k[d]];
        n_g[d] = g[d] = (int)random_from(1, 7);
        n_p[d] = p[d] = n_k[d] == TYPE_DISTRIBUTE_NONE ? 1 : (int)random_from(1, 3);
        n_darg[d] = darg[d] = (int)random_from(n_k[d] == TYPE_DISTRIBUTE_BLOCK ? (g[d] + p[d] - 1) / p[d] : 1, 7);
        if (n_k[d] == TYPE_DISTRIBUTE_NONE || random_from(0, 2) == 0)
            n_darg[d] = TYPE_DARG_DEFAULT, darg[d] = MPI_DISTRIBUTE_DFLT_DARG;
        size *= p[d];
    }
    int rank = (int)random_from(0, size - 1);
    b.t = type_darray(size, rank, n, n_g, n_k, n_darg, n_p, c ? TYPE_ORDER_C : TYPE_ORDER_FORTRAN, old.t, &why);
    if (!b.t)
        return b;
    if (b.t->size > 0)
        MPI_Type_create_darray(size, rank, n, g, k, darg, p, c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old.m, &b.m);
    if (b.m != MPI_DATATYPE_NULL) {
        true_bounds = !markers_lost;
        return b;
    }
    type_free(b.t);   /* a part without elements, which some refuse */
    return both_dup(old);
}

static void assert_number(const struct type *t, const char *what, int64_t ours, int64_t theirs)
{
    if (ours != theirs)
        fail_msg("%s is %lld, by the MPI %lld, of %s", what, (long long)ours, (long long)theirs,
                 tree_signature(t->tree, &why));
}

static void check_bounds(struct both b)
{
    MPI_Count size;
    MPI_Aint lb, extent, true_lb, true_extent;
    MPI_Type_size_x(b.m, &size);
    assert_number(b.t, "the size", b.t->size, size);
    if (zeros_now)
        return;
    MPI_Type_get_true_extent(b.m, &true_lb, &true_extent);
    if (true_bounds) {
        assert_number(b.t, "the true lb", b.t->tree->low, true_lb);
        assert_number(b.t, "the true extent", b.t->tree->high - b.t->tree->low, true_extent);
    }
    MPI_Type_get_extent(b.m, &lb, &extent);
    assert_number(b.t, "lb", b.t->lb, lb);
    assert_number(b.t, "the extent", b.t->ub - b.t->lb, extent);
}

static struct both random_both(int depth, bool outermost)
{
    static maker *const makers[] = {
        make_contiguous, make_vector, make_hvector, make_indexed, make_hindexed, make_indexed_block,
        make_hindexed_block, make_struct, make_subarray, make_darray, make_resized, both_dup,
    };
    true_bounds = outermost || true_bounds;
    if (depth <= 1)
        return leaf();
    struct both old = random_both(depth - 1, false);
    zeros_now = zeros && outermost;
    struct both b = makers[random_from(0, (int64_t)(sizeof makers / sizeof *makers) - 1)](old);
    if (!b.t)
        fail_msg("%s", why.text);
    both_free(old);
    check_bounds(b);
    return b;
}

#endif
