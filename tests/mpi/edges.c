/* edges.c: the corners of what MPI calls a datatype: depth, emptiness, overlap, bounds that lie, markers of old,
 * pairs, Fortran's parametrised types, absolute addresses. The oracle is a map of bytes written down beside each
 * type as it is built, not the MPI: some MPIs crash, or forget padding, where stridec must not.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: SIMGPU_NVRTC_FAIL=1 -n 2
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (1 << 14)

/* A type and its typemap, byte by byte in pack order, relative to the origin. */
struct hand {
    MPI_Datatype type;
    int64_t *at;
    int n;
    int64_t lb, extent;
};

static struct hand hand_named(MPI_Datatype named, int size)
{
    struct hand h = {.n = size, .extent = size, .at = malloc(sizeof(int64_t) * BYTES_MAX)};
    MPI_Type_dup(named, &h.type);
    for (int i = 0; i < size; i++) h.at[i] = i;
    return h;
}

static void hand_free(struct hand *h)
{
    if (h->type != MPI_DATATYPE_NULL) MPI_Type_free(&h->type);
    free(h->at);
}

/* Takes over the new type, and what the MPI tells of its bounds: those steer only what lies above. */
static void hand_type(struct hand *h, MPI_Datatype type)
{
    MPI_Aint lb, extent;
    MPI_Type_free(&h->type);
    h->type = type;
    MPI_Type_get_extent(type, &lb, &extent);
    h->lb = lb, h->extent = extent;
}

/* Copies of the map at the listed places, in blocks of `length` elements: what every constructor amounts to. */
static void hand_place(struct hand *h, int count, int length, const int64_t to[])
{
    int64_t *old = malloc(sizeof *old * (size_t)(h->n + 1)), extent = h->extent;
    int n = h->n, made = 0;
    memcpy(old, h->at, sizeof *old * (size_t)n);
    for (int c = 0; c < count; c++)
        for (int k = 0; k < length; k++)
            for (int i = 0; i < n && made < BYTES_MAX; i++) h->at[made++] = to[c] + k * extent + old[i];
    h->n = made;
    free(old);
}

static void hand_hvector(struct hand *h, int count, int length, int64_t step)
{
    MPI_Datatype t;
    int64_t to[64];
    for (int i = 0; i < count; i++) to[i] = i * step;
    MPI_Type_create_hvector(count, length, (MPI_Aint)step, h->type, &t);
    hand_place(h, count, length, to);
    hand_type(h, t);
}

static void hand_hindexed_block(struct hand *h, int count, int length, const int64_t to[])
{
    MPI_Datatype t;
    MPI_Aint at[64];
    for (int i = 0; i < count; i++) at[i] = (MPI_Aint)to[i];
    MPI_Type_create_hindexed_block(count, length, at, h->type, &t);
    hand_place(h, count, length, to);
    hand_type(h, t);
}

static void hand_resized(struct hand *h, int64_t lb, int64_t extent)
{
    MPI_Datatype t;
    MPI_Type_create_resized(h->type, (MPI_Aint)lb, (MPI_Aint)extent, &t);
    hand_type(h, t);
}

/* ---- `count` elements, packed, unpacked and sent ---- */

static int64_t at_of(const struct hand *h, int i)
{
    return i / h->n * h->extent + h->at[i % h->n];
}

/* The layout, whose map is the hand's. */
static struct layout layout_by_hand(const struct hand *h, int count)
{
    struct layout l = {.type = h->type, .count = count, .bytes = h->n * count};
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int i = 0; i < l.bytes; i++) {
        int64_t at = at_of(h, i);
        low = at < low ? at : low;
        high = at >= high ? at + 1 : high;
    }
    l.low = l.bytes ? low : 0;
    l.span = l.bytes ? high - low : 0;
    unsigned char *seen = calloc((size_t)l.span + 1, 1);
    l.map = calloc((size_t)l.bytes + 1, sizeof *l.map);
    for (int i = 0; i < l.bytes; i++) {
        l.map[i] = (int32_t)(at_of(h, i) - l.low);
        l.overlaps |= seen[l.map[i]]++ != 0;
    }
    free(seen);
    return l;
}

static void pack_one(const struct layout *l, enum mem_kind kind, const char *what)
{
    struct buf user, packed;
    int position = 3;
    buf_make(&user, MEM_DEVICE, l, (int)roll(16), 1);
    buf_bytes(&packed, kind, (size_t)l->bytes + 8, (int)roll(16), 2);
    int rc = MPI_Pack(user.origin, l->count, l->type, packed.origin, l->bytes + 8, &position, MPI_COMM_WORLD);
    expect(rc == MPI_SUCCESS, "MPI_Pack of %s returns %s", what, error_name(error_class(rc)));
    expect(position == l->bytes + 3, "MPI_Pack of %s leaves position %d, not %d", what, position, l->bytes + 3);
    unsigned char *want = layout_packed(l, 1);
    memcpy(packed.shadow + packed.lead + 3, want, (size_t)l->bytes);
    free(want);
    buf_check(&packed, what);
    buf_check(&user, what);
    buf_free(&user), buf_free(&packed);
}

static void unpack_one(const struct layout *l, enum mem_kind kind, const char *what)
{
    struct buf user, packed;
    int position = 3;
    buf_make(&user, MEM_DEVICE, l, (int)roll(16), 3);
    buf_bytes(&packed, kind, (size_t)l->bytes + 8, (int)roll(16), 4);
    int rc = MPI_Unpack(packed.origin, l->bytes + 8, &position, user.origin, l->count, l->type, MPI_COMM_WORLD);
    expect(rc == MPI_SUCCESS, "MPI_Unpack of %s returns %s", what, error_name(error_class(rc)));
    expect(position == l->bytes + 3, "MPI_Unpack of %s leaves position %d, not %d", what, position, l->bytes + 3);
    buf_expect(&user, l, packed.shadow + packed.lead + 3, l->bytes);
    buf_check(&user, what);
    buf_free(&user), buf_free(&packed);
}

/* To the peer, as the type; there it arrives as plain bytes, and goes back into the type. */
static void send_one(const struct layout *l, const char *what)
{
    int peer = my_rank ^ 1, got = -1;
    struct buf user, plain;
    MPI_Status s;
    buf_make(&user, MEM_DEVICE, l, 0, 5 + (uint64_t)my_rank);
    buf_bytes(&plain, MEM_DEVICE, (size_t)l->bytes + 8, 0, 9);
    MPI_Sendrecv(user.origin, l->count, l->type, peer, 1, plain.origin, l->bytes + 8, MPI_PACKED, peer, 1,
                 MPI_COMM_WORLD, &s);
    MPI_Get_count(&s, MPI_PACKED, &got);
    expect_equal(got, l->bytes, what);
    unsigned char *want = layout_packed(l, 5 + (uint64_t)peer);
    memcpy(plain.shadow + plain.lead, want, (size_t)l->bytes);
    buf_check(&plain, what);
    if (!l->overlaps) {
        MPI_Sendrecv(plain.origin, l->bytes, MPI_PACKED, peer, 2, user.origin, l->count, l->type, peer, 2,
                     MPI_COMM_WORLD, &s);
        free(want);
        want = layout_packed(l, 5 + (uint64_t)my_rank);
        buf_expect(&user, l, want, l->bytes);
        buf_check(&user, what);
    }
    free(want);
    buf_free(&user), buf_free(&plain);
}

/* Consumes the hand. Twice: before its own kernel is there, and, likely, after. */
static void try(struct hand h, int count, const char *what)
{
    type_commit(&h.type);
    struct layout l = layout_by_hand(&h, count);
    for (int round = 0; round < 2; round++) {
        for (int kind = 0; kind < MEM_KINDS; kind++) {
            pack_one(&l, (enum mem_kind)kind, what);
            if (!l.overlaps) unpack_one(&l, (enum mem_kind)kind, what);
        }
        send_one(&l, what);
    }
    free(l.map);
    hand_free(&h);
}

/* ---- depth ---- */

/* A level that moves the bytes, or only dresses them. */
static void wrap(struct hand *h, int level)
{
    MPI_Datatype t;
    int one = 1;
    int64_t to = 8 * (int64_t)roll(5) - 16;
    switch (level % 7) {
    case 0:
        hand_hindexed_block(h, 1, 1, &to);
        break;
    case 1:
        hand_resized(h, h->lb - 8, h->extent + 16);
        break;
    case 2:
        MPI_Type_dup(h->type, &t);
        hand_type(h, t);
        break;
    case 3: {
        MPI_Aint at = (MPI_Aint)to;
        MPI_Type_create_struct(1, &one, &at, &h->type, &t);
        hand_place(h, 1, 1, &to);
        hand_type(h, t);
        break;
    }
    case 4:
        hand_hvector(h, 1, 1, 1 << 20);
        break;
    case 5:
        MPI_Type_contiguous(1, h->type, &t);
        hand_type(h, t);
        break;
    default: {
        int64_t two[2] = {0, h->extent + 8 * (int64_t)roll(3)};
        if (h->n < 1024 && level % 2) hand_hindexed_block(h, 2, 1, two);
    }
    }
}

static void deep(int levels)
{
    struct hand h = hand_named(MPI_DOUBLE, 8);
    for (int i = 0; i < levels; i++) wrap(&h, i);
    try(h, 1, "a deep type");
    report("types nested %d deep", levels);
}

/* Every level a stride that no rule can merge: the tree stays as deep as it was built. */
static void deep_strides(void)
{
    struct hand h = hand_named(MPI_SHORT, 2);
    for (int i = 0; i < 64; i++) {
        if (i % 6 == 5 && h.n < 1024)
            hand_hvector(&h, 2, 1, h.extent + 4 + 2 * (i % 5));
        else
            wrap(&h, i);
    }
    try(h, 2, "64 levels with strides among them");
    report("64 levels with strides among them");
}

/* ---- nothing ---- */

static void try_nothing(MPI_Datatype t, const char *what)
{
    struct buf user, packed;
    struct layout l = {.type = t, .count = 3};
    MPI_Status s;
    int position = 2, got = -1, peer = my_rank ^ 1;
    type_commit(&t);
    buf_make(&user, MEM_DEVICE, &l, 0, 1);
    buf_bytes(&packed, MEM_DEVICE, 16, 0, 2);
    int rc = MPI_Pack(user.origin, 3, t, packed.origin, 16, &position, MPI_COMM_WORLD);
    expect(rc == MPI_SUCCESS && position == 2, "MPI_Pack of %s: %s, position %d", what, error_name(error_class(rc)),
           position);
#ifndef MPICH_VERSION /* MPICH 4.0's own MPI_Unpack divides by the size */
    rc = MPI_Unpack(packed.origin, 16, &position, user.origin, 3, t, MPI_COMM_WORLD);
    expect(rc == MPI_SUCCESS && position == 2, "MPI_Unpack of %s: %s, position %d", what, error_name(error_class(rc)),
           position);
#endif
    MPI_Sendrecv(user.origin, 3, t, peer, 1, packed.origin, 16, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &s);
    MPI_Get_count(&s, MPI_BYTE, &got);
    expect_equal(got, 0, what);
    MPI_Sendrecv(packed.origin, 0, MPI_BYTE, peer, 1, user.origin, 3, t, peer, 1, MPI_COMM_WORLD, &s);
    buf_check(&user, what), buf_check(&packed, what);
    buf_free(&user), buf_free(&packed);
    MPI_Type_free(&t);
}

static void nothing(void)
{
    MPI_Datatype t, inner;
    int zeros[2] = {0, 0};
    MPI_Aint at[2] = {8, 1 << 30};
    MPI_Type_contiguous(0, MPI_DOUBLE, &t);
    try_nothing(t, "contiguous of none");
    MPI_Type_vector(0, 3, 7, MPI_INT, &t);
    try_nothing(t, "vector of none");
    MPI_Type_vector(5, 0, 7, MPI_INT, &t);
    try_nothing(t, "vector of empty blocks");
    MPI_Type_create_hindexed(2, zeros, at, MPI_INT, &t);
    try_nothing(t, "hindexed of empty blocks");
    MPI_Type_create_struct(0, NULL, NULL, NULL, &t);
    try_nothing(t, "struct of none");
    MPI_Type_contiguous(0, MPI_CHAR, &inner);
    MPI_Type_create_hvector(4, 2, 64, inner, &t);
    try_nothing(t, "hvector of nothing");
    MPI_Type_create_resized(inner, 0, 64, &t);
    try_nothing(t, "nothing with an extent");
    MPI_Type_free(&inner);
    report("types without bytes");
}

/* Blocks of no elements at places where nothing lies, and members without bytes, among others that have some. */
static void partly_nothing(void)
{
    struct hand h = hand_named(MPI_FLOAT, 4);
    int lengths[5] = {0, 2, 0, 1, 0};
    MPI_Aint at[5] = {(MPI_Aint)1 << 40, 24, -((MPI_Aint)1 << 40), 0, (MPI_Aint)1 << 40};
    int64_t to[3] = {24, 28, 0};
    MPI_Datatype t, none;
    MPI_Type_create_hindexed(5, lengths, at, h.type, &t);
    hand_place(&h, 3, 1, to);
    hand_type(&h, t);
    try(h, 1, "hindexed with empty blocks far away");

    h = hand_named(MPI_INT, 4);
    int ones[3] = {3, 1, 2};
    MPI_Aint places[3] = {0, 40, 16};
    int64_t ints[3] = {40, 16, 20};
    MPI_Type_contiguous(0, MPI_DOUBLE, &none);
    MPI_Datatype members[3] = {none, MPI_INT, MPI_INT};
    MPI_Type_create_struct(3, ones, places, members, &t);
    hand_place(&h, 3, 1, ints);
    hand_type(&h, t);
    MPI_Type_free(&none);
    try(h, 1, "struct with a member without bytes");
    report("empty parts among others");
}

/* ---- overlap and bounds ---- */

static void overlap(void)
{
    static const int64_t twice[5] = {0, 16, 8, 16, -4};
    for (int step = -4; step <= 4; step++) {
        if (step == -1) continue; /* Open MPI 4.1 takes it for "no step given" */
        struct hand h = hand_named(MPI_INT, 4);
        hand_hvector(&h, 6, 3, step);
        try(h, 1, "blocks that overlap");
    }
    struct hand h = hand_named(MPI_DOUBLE, 8);
    hand_hindexed_block(&h, 5, 2, twice);
    hand_resized(&h, 0, 8);
    try(h, 4, "a list that names bytes twice, with elements that overlap");
    h = hand_named(MPI_SHORT, 2);
    hand_hvector(&h, 40, 5, 6);
    hand_hvector(&h, 9, 1, 0);
    try(h, 2, "copies at one place");
    report("overlapping source blocks");
}

static void bounds(void)
{
    static const int64_t around[4] = {-640, 96, -8, 320};
    struct hand h = hand_named(MPI_DOUBLE, 8);
    hand_hindexed_block(&h, 4, 3, around);
    try(h, 3, "bytes on both sides of the origin");
    h = hand_named(MPI_INT, 4);
    hand_hvector(&h, 20, 2, -24);
    try(h, 3, "a step below zero");
    h = hand_named(MPI_FLOAT, 4);
    hand_hvector(&h, 12, 2, 64);
    hand_resized(&h, -32, 8);
    try(h, 8, "an extent smaller than the true extent");
    h = hand_named(MPI_FLOAT, 4);
    hand_hvector(&h, 12, 2, 64);
    hand_resized(&h, -32, 8);
    hand_hvector(&h, 3, 2, 1024);
    try(h, 2, "interleaved elements, nested");
    h = hand_named(MPI_SHORT, 2);
    hand_hvector(&h, 10, 3, 16);
    hand_resized(&h, 64, 512);
    try(h, 3, "a lower bound above the first byte");
    report("lower bounds below zero, extents that lie");
}

/* MPI_LB and MPI_UB went with MPI-3; some headers still have them. */
static void markers(void)
{
#if defined MPICH_VERSION || (defined OPEN_MPI && OMPI_ENABLE_MPI1_COMPAT)
    struct hand h = hand_named(MPI_INT, 4);
    int lengths[3] = {1, 2, 1};
    MPI_Aint at[3] = {-8, 4, 40};
    int64_t to[2] = {4, 8};
    MPI_Datatype types[3] = {MPI_LB, MPI_INT, MPI_UB}, t;
    MPI_Type_create_struct(3, lengths, at, types, &t);
    hand_place(&h, 2, 1, to);
    hand_type(&h, t);
    expect_equal(h.lb, -8, "the marked lower bound");
    expect_equal(h.extent, 48, "the marked extent");
    hand_hvector(&h, 3, 2, 200);
    try(h, 3, "a struct with MPI_LB and MPI_UB");
    report("markers of old");
#else
    note("this MPI has no MPI_LB and MPI_UB: not tested");
#endif
}

/* ---- named types with a shape of their own ---- */

#define PAIR(handle, value) {handle, #handle, sizeof(value), offsetof(struct { value v; int i; }, i)}

/* Every byte counts, the padding of a long double included. */
static void pairs(void)
{
    const struct {
        MPI_Datatype type;
        const char *name;
        size_t value, at;
    } all[] = {PAIR(MPI_FLOAT_INT, float), PAIR(MPI_DOUBLE_INT, double), PAIR(MPI_LONG_INT, long),
               PAIR(MPI_SHORT_INT, short), PAIR(MPI_2INT, int),          PAIR(MPI_LONG_DOUBLE_INT, long double)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int nested = 0; nested < 3; nested++) {
            struct hand h = hand_named(all[i].type, (int)all[i].value + 4);
            MPI_Datatype same;
            for (int k = 0; k < 4; k++) h.at[all[i].value + (size_t)k] = (int64_t)all[i].at + k;
            MPI_Type_dup(h.type, &same);
            hand_type(&h, same);
            if (nested > 0) hand_hvector(&h, 5, 2, 100 + 4 * nested);
            if (nested > 1) hand_resized(&h, 0, 20);
            if (nested > 1) hand_hvector(&h, 2, 1, 700);
            try(h, nested ? 1 : 6, all[i].name);
        }
    report("value-index pairs");
}

static void try_f90(MPI_Datatype t, int size, const char *what)
{
    struct hand h = hand_named(t, size);
    hand_hvector(&h, 7, 2, 5 * size);
    try(h, 2, what);
}

/* Open MPI 4.1 built without Fortran makes complex ones of no bytes. */
static bool is_made(int rc, const MPI_Datatype *t)
{
    int size = 0;
    if (rc == MPI_SUCCESS && *t != MPI_DATATYPE_NULL) MPI_Type_size(*t, &size);
    return size > 0;
}

static void f90_types(void)
{
    MPI_Datatype t;
    int made = 0;
    if (is_made(MPI_Type_create_f90_real(15, 300, &t), &t))
        made++, try_f90(t, 8, "an f90 real");
    if (is_made(MPI_Type_create_f90_complex(6, 30, &t), &t))
        made++, try_f90(t, 8, "an f90 complex");
    if (is_made(MPI_Type_create_f90_integer(9, &t), &t))
        made++, try_f90(t, 4, "an f90 integer");
    if (made == 0) note("this MPI makes no f90 types: not tested");
    report("%d of Fortran's parametrised types", made);
}

/* ---- absolute addresses ---- */

static MPI_Datatype at_addresses(const struct buf *a, const struct buf *b)
{
    int lengths[2] = {3, 5};
    MPI_Aint at[2];
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, t;
    MPI_Get_address(a->origin, &at[0]);
    MPI_Get_address(b->origin, &at[1]);
    MPI_Type_create_struct(2, lengths, at, types, &t);
    type_commit(&t);
    return t;
}

/* A struct over two allocations, whichever lies lower, sent from MPI_BOTTOM and received into MPI_BOTTOM. */
static void absolute(void)
{
    enum { BYTES = 3 * 4 + 5 * 8 };
    int peer = my_rank ^ 1;
    struct buf in[2], out[2];
    for (int i = 0; i < 2; i++) buf_bytes(&out[i], MEM_DEVICE, 64, 0, 20 + (uint64_t)i + 2 * (uint64_t)my_rank);
    for (int i = 0; i < 2; i++) buf_bytes(&in[i], MEM_DEVICE, 64, 0, 30);
    for (int order = 0; order < 2; order++) {
        MPI_Datatype from = at_addresses(&out[order], &out[!order]), to = at_addresses(&in[order], &in[!order]);
        struct buf theirs[2];
        MPI_Sendrecv(MPI_BOTTOM, 1, from, peer, 1, MPI_BOTTOM, 1, to, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2; i++) buf_bytes(&theirs[i], MEM_HOST, 64, 0, 20 + (uint64_t)i + 2 * (uint64_t)peer);
        memcpy(in[order].shadow + in[order].lead, theirs[order].shadow + theirs[order].lead, 12);
        memcpy(in[!order].shadow + in[!order].lead, theirs[!order].shadow + theirs[!order].lead, 40);
        for (int i = 0; i < 2; i++) {
            buf_check(&in[i], "received at absolute addresses");
            buf_check(&out[i], "sent from absolute addresses");
            buf_fill(&in[i], 31);
            buf_free(&theirs[i]);
        }
        MPI_Type_free(&from), MPI_Type_free(&to);
    }
    for (int i = 0; i < 2; i++) buf_free(&in[i]), buf_free(&out[i]);
    report("absolute addresses in two allocations, from MPI_BOTTOM to MPI_BOTTOM");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    deep(64);
    deep(200);
    deep_strides();
    nothing();
    partly_nothing();
    overlap();
    bounds();
    markers();
    pairs();
    f90_types();
    absolute();
    return check_finish();
}
