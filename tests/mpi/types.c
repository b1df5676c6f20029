/* types.c: random derived types, layouts of one signature, and what the host MPI packs of them. */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>

#define SPAN_MAX (256 * 1024) /* of a random type */
#define PARTS 4

/* A type under construction: its text tells how to build it again. */
struct made {
    MPI_Datatype type;
    bool named;
    char text[TEXT_MAX];
};

void type_commit(MPI_Datatype *type)
{
    int rc = MPI_Type_commit(type);
    if (rc != MPI_SUCCESS) fail("MPI_Type_commit returns %s", error_name(error_class(rc)));
}

/* ---- the oracle ---- */

/* Packs a span whose bytes hold one byte of their own offset, once for each byte of the offset. */
static void find_map(struct layout *l)
{
    unsigned char *span = malloc((size_t)l->span + 1), *packed = malloc((size_t)l->bytes + 1);
    l->map = calloc((size_t)l->bytes + 1, sizeof *l->map);
    for (int plane = 0; plane < 4; plane++) {
        int position = 0;
        for (int64_t i = 0; i < l->span; i++) span[i] = (unsigned char)(i >> 8 * plane);
        own_pack()((void *)((uintptr_t)span - (uintptr_t)l->low), l->count, l->type, packed, l->bytes, &position,
                   check_comm);
        for (int i = 0; i < l->bytes; i++) l->map[i] |= (int32_t)((uint32_t)packed[i] << 8 * plane);
    }
    for (int i = 0; i < l->bytes; i++) span[l->map[i]] = 0;
    for (int i = 0; i < l->bytes; i++) l->overlaps |= span[l->map[i]]++ != 0;
    free(span);
    free(packed);
}

/* Low, span and bytes. */
static void measure(struct layout *l)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    int size;
    MPI_Type_size(l->type, &size);
    MPI_Type_get_extent(l->type, &lb, &extent);
    MPI_Type_get_true_extent(l->type, &true_lb, &true_extent);
    int64_t reach = l->count > 0 ? (int64_t)(l->count - 1) * extent : 0;
    l->bytes = size * l->count;
    l->low = l->bytes ? true_lb + (reach < 0 ? reach : 0) : 0;
    l->span = l->bytes ? true_extent + (reach < 0 ? -reach : reach) : 0;
}

void layout_of(struct layout *l, MPI_Datatype type, int count, const char *text)
{
    *l = (struct layout){.type = type, .count = count};
    snprintf(l->text, sizeof l->text, "%d x %s", count, text);
    measure(l);
    find_map(l);
}

static bool is_named(MPI_Datatype t)
{
    int ni, na, nt, combiner;
    MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

void layout_free(struct layout *l)
{
    if (l->type != MPI_DATATYPE_NULL && !is_named(l->type)) MPI_Type_free(&l->type);
    free(l->map);
    l->map = NULL;
}

/* ---- random types ---- */

static void write_list(char *out, size_t room, const char *name, int n, const int v[])
{
    size_t at = (size_t)snprintf(out, room, "%s{", name);
    for (int i = 0; i < n && at < room; i++) at += (size_t)snprintf(out + at, room - at, "%s%d", i ? "," : "", v[i]);
    if (at < room) snprintf(out + at, room - at, "}");
}

static MPI_Aint extent_of(MPI_Datatype t)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(t, &lb, &extent);
    return extent;
}

static int some(int n)
{
    return 1 + (int)roll((uint32_t)n);
}

/* No MPI_LONG_DOUBLE: its padding is not data, and MPICH does not pack it. */
static void named(struct made *m, enum family family)
{
    const struct {
        MPI_Datatype type;
        const char *name;
    } table[] = {{MPI_INT, "int"},
                 {MPI_CHAR, "char"},
                 {MPI_SHORT, "short"},
                 {MPI_DOUBLE, "double"},
                 {MPI_FLOAT, "float"},
                 {MPI_LONG_LONG, "long_long"},
                 {MPI_BYTE, "byte"},
                 {MPI_C_DOUBLE_COMPLEX, "double_complex"},
                 {MPI_UNSIGNED, "uint32"},
                 {MPI_DOUBLE_INT, "MPI_DOUBLE_INT"},
                 {MPI_SHORT_INT, "MPI_SHORT_INT"},
                 {MPI_2INT, "MPI_2INT"}};
    uint32_t i = roll(family == FAMILY_A ? 9 : 12);
    m->type = table[i].type;
    m->named = true;
    snprintf(m->text, sizeof m->text, "%s", table[i].name);
}

typedef void construct(const struct made *old, struct made *new, char *args, size_t room);

static void contiguous(const struct made *old, struct made *new, char *args, size_t room)
{
    int n = roll(16) ? some(5) : 0;
    MPI_Type_contiguous(n, old->type, &new->type);
    snprintf(args, room, "contiguous(%d", n);
}

static void vector(const struct made *old, struct made *new, char *args, size_t room)
{
    int n = some(5), b = roll(16) ? some(4) : 0, s = roll(8) ? b + (int)roll(5) : (int)roll(9) - 4;
#ifdef MPICH_VERSION
    if (b == 0) b = 1;   /* MPICH 4.0's own MPI_Pack divides by zero where such a vector is a member of a struct */
#endif
    if (s * extent_of(old->type) == -1) s = -2;   /* Open MPI 4.1's own MPI_Pack misreads a step of -1 byte */
    MPI_Type_vector(n, b, s, old->type, &new->type);
    snprintf(args, room, "vector(%d,%d,%d", n, b, s);
}

static void hvector(const struct made *old, struct made *new, char *args, size_t room)
{
    int n = some(5), b = some(3), s = (int)extent_of(old->type) * (b + (int)roll(3)) + (int)roll(12);
    if (roll(8) == 0) s = s == 1 ? -2 : -s;   /* not -1: see vector */
    MPI_Type_create_hvector(n, b, s, old->type, &new->type);
    snprintf(args, room, "hvector(%d,%d,%d", n, b, s);
}

static void subarray(const struct made *old, struct made *new, char *args, size_t room)
{
    int nd = some(3), order = roll(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, sizes[3], sub[3], starts[3];
    char a[64], b[64], c[64];
    for (int i = 0; i < nd; i++) {
        sizes[i] = some(6);
        sub[i] = some(sizes[i]);
        starts[i] = (int)roll((uint32_t)(sizes[i] - sub[i] + 1));
    }
    MPI_Type_create_subarray(nd, sizes, sub, starts, order, old->type, &new->type);
    write_list(a, sizeof a, "", nd, sizes);
    write_list(b, sizeof b, "", nd, sub);
    write_list(c, sizeof c, "", nd, starts);
    snprintf(args, room, "subarray(%s,%s,%s,%s", a, b, c, order == MPI_ORDER_C ? "C" : "Fortran");
}

static void resized(const struct made *old, struct made *new, char *args, size_t room)
{
    int lb = (int)roll(33) - 16, extent = (int)extent_of(old->type) + (int)roll(24);
    if (roll(8) == 0) extent = (int)roll(16);
    MPI_Type_create_resized(old->type, lb, extent, &new->type);
    snprintf(args, room, "resized(%d,%d", lb, extent);
}

static void dup(const struct made *old, struct made *new, char *args, size_t room)
{
    MPI_Type_dup(old->type, &new->type);
    snprintf(args, room, "dup(");
}

/* Blocks of random length at growing displacements, in shuffled order. */
static int blocks(int lengths[PARTS], int at[PARTS], int length, int scale)
{
    int n = some(PARTS), next = (int)roll(9) - 4;
    for (int i = 0; i < n; i++) {
        lengths[i] = length ? length : roll(12) ? some(3) : 0;
        at[i] = next * scale;
        next += lengths[i] + (int)roll(4);
    }
    for (int i = n - 1; i > 0 && roll(2); i--) {
        int j = (int)roll((uint32_t)i + 1), a = at[i], b = lengths[i];
        at[i] = at[j], lengths[i] = lengths[j];
        at[j] = a, lengths[j] = b;
    }
    return n;
}

static void write_blocks(char *args, size_t room, const char *name, int n, const int lengths[], const int at[])
{
    char a[64], b[64];
    write_list(a, sizeof a, "", n, lengths);
    write_list(b, sizeof b, "", n, at);
    snprintf(args, room, "%s(%s,%s", name, a, b);
}

static void indexed(const struct made *old, struct made *new, char *args, size_t room)
{
    int lengths[PARTS], at[PARTS], n = blocks(lengths, at, 0, 1);
    MPI_Type_indexed(n, lengths, at, old->type, &new->type);
    write_blocks(args, room, "indexed", n, lengths, at);
}

static void hindexed(const struct made *old, struct made *new, char *args, size_t room)
{
    MPI_Aint bytes[PARTS];
    int lengths[PARTS], at[PARTS], n = blocks(lengths, at, 0, (int)extent_of(old->type) + (int)roll(3));
    for (int i = 0; i < n; i++) bytes[i] = at[i];
    MPI_Type_create_hindexed(n, lengths, bytes, old->type, &new->type);
    write_blocks(args, room, "hindexed", n, lengths, at);
}

static void indexed_block(const struct made *old, struct made *new, char *args, size_t room)
{
    int lengths[PARTS], at[PARTS], n = blocks(lengths, at, some(3), 1);
    MPI_Type_create_indexed_block(n, lengths[0], at, old->type, &new->type);
    write_blocks(args, room, "indexed_block", n, lengths, at);
}

static void hindexed_block(const struct made *old, struct made *new, char *args, size_t room)
{
    MPI_Aint bytes[PARTS];
    int lengths[PARTS], at[PARTS], n = blocks(lengths, at, some(3), (int)extent_of(old->type) + (int)roll(3));
    for (int i = 0; i < n; i++) bytes[i] = at[i];
    MPI_Type_create_hindexed_block(n, lengths[0], bytes, old->type, &new->type);
    write_blocks(args, room, "hindexed_block", n, lengths, at);
}

/* The old type between two named ones. */
static void structure(const struct made *old, struct made *new, char *args, size_t room)
{
    struct made first, last;
    named(&first, FAMILY_B);
    named(&last, FAMILY_B);
    int lengths[3] = {some(3), some(2), some(3)}, at[3] = {(int)roll(8), 0, 0};
    at[1] = at[0] + lengths[0] * (int)extent_of(first.type) + (int)roll(16);
    at[2] = at[1] + lengths[1] * (int)extent_of(old->type) + (int)roll(16);
    MPI_Aint bytes[3] = {at[0], at[1], at[2]};
    MPI_Datatype types[3] = {first.type, old->type, last.type};
    MPI_Type_create_struct(3, lengths, bytes, types, &new->type);
    char head[160];
    write_blocks(head, sizeof head, "struct", 3, lengths, at);
    snprintf(args, room, "%s,%s,%s", head, first.text, last.text);
}

static void darray(const struct made *old, struct made *new, char *args, size_t room)
{
    static const int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
    int order = roll(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, nd = some(3), size = 1;
    int gsizes[3], distribs[3], dargs[3], psizes[3];
    char g[64], d[64], k[64], q[64];
    for (int i = 0; i < nd; i++) {
        gsizes[i] = some(7);
        distribs[i] = kinds[roll(3)];
        psizes[i] = distribs[i] == MPI_DISTRIBUTE_NONE ? 1 : some(3);
        dargs[i] = distribs[i] == MPI_DISTRIBUTE_CYCLIC && roll(2) ? some(3) : MPI_DISTRIBUTE_DFLT_DARG;
        size *= psizes[i];
    }
    int rank = (int)roll((uint32_t)size);
    MPI_Type_create_darray(size, rank, nd, gsizes, distribs, dargs, psizes, order, old->type, &new->type);
    write_list(g, sizeof g, "", nd, gsizes);
    write_list(d, sizeof d, "", nd, distribs);
    write_list(k, sizeof k, "", nd, dargs);
    write_list(q, sizeof q, "", nd, psizes);
    snprintf(args, room, "darray(%d,%d,%s,%s,%s,%s,%s", size, rank, g, d, k, q, order == MPI_ORDER_C ? "C" : "Fortran");
}

/* Levels that leave the layout as it is. MPICH 4.0's own MPI_Pack crashes where they are many. */
#ifdef MPICH_VERSION
#define LEVELS 4
#else
#define LEVELS 64
#endif
static void deep(const struct made *old, struct made *new, char *args, size_t room)
{
    MPI_Datatype t;
    MPI_Type_dup(old->type, &new->type);
    for (int i = 0; i < LEVELS; i++) {
        if (i % 2)
            MPI_Type_contiguous(1, new->type, &t);
        else
            MPI_Type_create_hvector(1, 1, 8 * i, new->type, &t);
        MPI_Type_free(&new->type);
        new->type = t;
    }
    snprintf(args, room, "deep(");
}

#define FAMILY_A_CONSTRUCTS 8 /* the first ones; the common ones are listed twice */

static construct *const constructs[] = {vector,        subarray,  contiguous, hvector,       vector,
                                        subarray,      resized,   dup,        indexed,       hindexed,
                                        indexed_block, structure, darray,     hindexed_block, deep};

/* Some darrays are refused by Open MPI 4.1: then the type stays as it is. */
static void grow(struct made *m, enum family family)
{
    uint32_t n = family == FAMILY_A ? FAMILY_A_CONSTRUCTS : sizeof constructs / sizeof *constructs;
    struct made new = {.type = MPI_DATATYPE_NULL};
    char args[256];
    constructs[roll(n)](m, &new, args, sizeof args);
    if (new.type == MPI_DATATYPE_NULL) return;
    snprintf(new.text, sizeof new.text, "%s,%.240s)", args, m->text);
    if (!m->named) MPI_Type_free(&m->type);
    *m = new;
}

static bool too_large(MPI_Datatype t)
{
    MPI_Aint lb, extent;
    int size;
    MPI_Type_get_true_extent(t, &lb, &extent);
    MPI_Type_size(t, &size);
    return size > SPAN_MAX || extent > SPAN_MAX || size < 0;
}

static bool try_random(struct layout *l, enum family family, int count, bool receivable)
{
    struct made m;
    named(&m, family);
    int levels = some(3);
    for (int i = 0; i < levels && !too_large(m.type); i++) grow(&m, family);
    type_commit(&m.type);
    *l = (struct layout){.type = m.type, .count = count ? count : 1};
    measure(l);
    bool fits = l->bytes > 0 && l->bytes <= SPAN_MAX && l->span <= SPAN_MAX;
    if (fits) find_map(l);
    if (fits && !(receivable && l->overlaps)) {
        if (count == 0) l->count = l->bytes = 0;
        snprintf(l->text, sizeof l->text, "%d x %.*s", count, TEXT_MAX - 16, m.text);
        return true;
    }
    layout_free(l);
    return false;
}

void layout_random(struct layout *l, enum family family, int count, bool receivable)
{
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (!try_random(l, family, count, receivable))
        ;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
}

/* ---- layouts of one signature ---- */

static MPI_Datatype fixed_subarray(int order)
{
    int c_sizes[3] = {7, 6, 9}, c_sub[3] = {5, 4, 6}, c_starts[3] = {1, 0, 2};
    int f_sizes[3] = {8, 5, 11}, f_sub[3] = {3, 5, 8}, f_starts[3] = {5, 0, 1};
    bool c = order == MPI_ORDER_C;
    MPI_Datatype t;
    MPI_Type_create_subarray(3, c ? c_sizes : f_sizes, c ? c_sub : f_sub, c ? c_starts : f_starts, order, MPI_DOUBLE,
                             &t);
    return t;
}

static MPI_Datatype column(void)
{
    MPI_Datatype column, t;
    MPI_Type_vector(LAYOUT_DOUBLES, 1, 5, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &t); /* up to five columns interleave */
    MPI_Type_free(&column);
    return t;
}

static MPI_Datatype nested(void)
{
    MPI_Datatype row, t;
    MPI_Type_vector(4, 3, 5, MPI_DOUBLE, &row);
    MPI_Type_create_hvector(10, 1, 20 * sizeof(double) + 4, row, &t); /* misaligned on purpose */
    MPI_Type_free(&row);
    return t;
}

static MPI_Datatype triangle(void)
{
    int lengths[15], at[15];
    MPI_Datatype t;
    for (int i = 0; i < 15; i++) lengths[i] = i + 1, at[i] = 16 * i; /* 1 + ... + 15 = 120 */
    MPI_Type_indexed(15, lengths, at, MPI_DOUBLE, &t);
    return t;
}

static MPI_Datatype two_parts(void)
{
    MPI_Datatype half, t;
    MPI_Type_vector(20, 3, 4, MPI_DOUBLE, &half);
    int lengths[2] = {1, 60};
    MPI_Aint at[2] = {640, 0};
    MPI_Datatype types[2] = {half, MPI_DOUBLE};
    MPI_Type_create_struct(2, lengths, at, types, &t);
    MPI_Type_free(&half);
    return t;
}

void layout_number(struct layout *l, int number, int count)
{
    static const char *const names[LAYOUTS] = {"contiguous", "vector", "C subarray",     "Fortran subarray",
                                               "nested",     "column", "lower triangle", "struct"};
    MPI_Datatype t = MPI_DATATYPE_NULL;
    switch (number) {
    case 0:
        MPI_Type_contiguous(LAYOUT_DOUBLES, MPI_DOUBLE, &t);
        break;
    case 1:
        MPI_Type_vector(12, 10, 15, MPI_DOUBLE, &t);
        break;
    case 2:
        t = fixed_subarray(MPI_ORDER_C);
        break;
    case 3:
        t = fixed_subarray(MPI_ORDER_FORTRAN);
        break;
    case 4:
        t = nested();
        break;
    case 5:
        t = column();
        break;
    case 6:
        t = triangle();
        break;
    default:
        t = two_parts();
        break;
    }
    type_commit(&t);
    layout_of(l, t, count, names[number]);
}

/* ---- layouts of ints ---- */

static MPI_Datatype pairs_resized(void)
{
    MPI_Datatype few, type;
    MPI_Type_vector(4, 2, 3, MPI_INT, &few);
    MPI_Type_create_resized(few, 0, 56, &type);
    MPI_Type_free(&few);
    return type;
}

void layouts_of_ints(struct layout lists[LISTS])
{
    MPI_Datatype type[LISTS];
    int lengths[4] = {100, 1, 59, 80}, at[4] = {300, 2, 100, 10};
    MPI_Type_vector(80, 3, 7, MPI_INT, &type[0]);
    MPI_Type_indexed(4, lengths, at, MPI_INT, &type[1]);
    MPI_Type_contiguous(240, MPI_INT, &type[2]);
    type[3] = pairs_resized();
    for (int i = 0; i < LISTS; i++) type_commit(&type[i]);
    layout_of(&lists[0], type[0], 1, "vector");
    layout_of(&lists[1], type[1], 1, "indexed");
    layout_of(&lists[2], type[2], 1, "contiguous");
    layout_of(&lists[3], type[3], 30, "resized");
}
