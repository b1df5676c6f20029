/* pack.c: MPI_Pack, Unpack and Pack_size over random types, every kind of memory, counts and alignments.
 *
 * run: -n 1
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPES 10 /* a family and pair of memory kinds */
#define REPEATS 3

static const struct {
    enum mem_kind user, packed;
} pairs[] = {{MEM_DEVICE, MEM_DEVICE}, {MEM_DEVICE, MEM_HOST},    {MEM_HOST, MEM_DEVICE},    {MEM_HOST, MEM_HOST},
             {MEM_DEVICE, MEM_PINNED}, {MEM_PINNED, MEM_DEVICE},  {MEM_MANAGED, MEM_DEVICE}, {MEM_DEVICE, MEM_MANAGED},
             {MEM_MANAGED, MEM_HOST},  {MEM_MANAGED, MEM_MANAGED}};
#define PAIRS ((int)(sizeof pairs / sizeof *pairs))

static int random_count(void)
{
    static const int counts[] = {1, 3, 0, 2, 1, 7};
    return counts[roll(6)];
}

static void try_pack(const struct layout *l, int pair, int lead, int slack)
{
    struct buf user, packed;
    int position = lead, outsize = lead + l->bytes + slack;
    buf_make(&user, pairs[pair].user, l, (int)roll(16), 1);
    buf_bytes(&packed, pairs[pair].packed, (size_t)outsize, (int)roll(16), 2);
    int rc = MPI_Pack(user.origin, l->count, l->type, packed.origin, outsize, &position, MPI_COMM_WORLD);
    expect(rc == MPI_SUCCESS, "MPI_Pack of %s returns %s", l->text, error_name(error_class(rc)));
    expect(position == lead + l->bytes, "MPI_Pack of %s leaves position %d, not %d", l->text, position,
           lead + l->bytes);
    unsigned char *want = layout_packed(l, 1);
    memcpy(packed.shadow + packed.lead + lead, want, (size_t)l->bytes);
    free(want);
    buf_check(&packed, l->text);
    buf_check(&user, l->text);
    buf_free(&user);
    buf_free(&packed);
}

static void try_unpack(const struct layout *l, int pair, int lead, int slack)
{
    struct buf user, packed;
    int position = lead, insize = lead + l->bytes + slack;
    buf_make(&user, pairs[pair].user, l, (int)roll(16), 3);
    buf_bytes(&packed, pairs[pair].packed, (size_t)insize, (int)roll(16), 4);
    int rc = MPI_Unpack(packed.origin, insize, &position, user.origin, l->count, l->type, MPI_COMM_WORLD);
    expect(rc == MPI_SUCCESS, "MPI_Unpack of %s returns %s", l->text, error_name(error_class(rc)));
    expect(position == lead + l->bytes, "MPI_Unpack of %s leaves position %d, not %d", l->text, position,
           lead + l->bytes);
    buf_expect(&user, l, packed.shadow + packed.lead + lead, l->bytes);
    buf_check(&user, l->text);
    buf_check(&packed, l->text);
    buf_free(&user);
    buf_free(&packed);
}

static void try_size(const struct layout *l)
{
    int size = -1;
    int rc = MPI_Pack_size(l->count, l->type, MPI_COMM_WORLD, &size);
    expect(rc == MPI_SUCCESS && size >= l->bytes, "MPI_Pack_size of %s: %d for %d bytes", l->text, size, l->bytes);
}

static void try_all(const struct layout *l, int pair)
{
    try_size(l);
    for (int i = 0; i < REPEATS; i++) {
        try_pack(l, pair, (int)roll(2) * (int)roll(40), (int)roll(2) * 9);
        if (!l->overlaps) try_unpack(l, pair, (int)roll(2) * (int)roll(40), (int)roll(2) * 9);
    }
}

/* Types stay alive and are tried again at the end, when their own kernels are likely to be ready. */
static void random_types(enum family family)
{
    struct layout l[PAIRS][TYPES];
    for (int pair = 0; pair < PAIRS; pair++) {
        for (int i = 0; i < TYPES; i++) {
            layout_random(&l[pair][i], family, random_count(), roll(4) != 0);
            try_all(&l[pair][i], pair);
        }
        report("pack family %c, %s user, %s packed", "AB"[family], mem_name[pairs[pair].user],
               mem_name[pairs[pair].packed]);
    }
    for (int pair = 0; pair < PAIRS; pair++)
        for (int i = 0; i < TYPES; i++) {
            try_all(&l[pair][i], pair);
            layout_free(&l[pair][i]);
        }
    report("pack family %c, all again", "AB"[family]);
}

/* The error class of a pack into, or unpack from, `size` bytes that are too few. */
static int short_class(const struct layout *l, enum mem_kind kind, int lead, int size, bool unpack)
{
    struct buf user, packed;
    int position = lead;
    buf_make(&user, kind, l, 0, 5);
    buf_bytes(&packed, kind, (size_t)(lead + l->bytes), 0, 6);
    int rc = unpack ? MPI_Unpack(packed.origin, size, &position, user.origin, l->count, l->type, MPI_COMM_WORLD)
                    : MPI_Pack(user.origin, l->count, l->type, packed.origin, size, &position, MPI_COMM_WORLD);
    if (unpack)
        buf_check(&packed, "packed bytes after a refused MPI_Unpack");
    else if (kind == MEM_DEVICE && !host_mode) /* MPICH itself writes past the end */
        buf_check_but(&packed, (size_t)lead, (size_t)size, "MPI_Pack wrote past its buffer");
    if (!unpack) buf_check(&user, l->text);
    buf_free(&user);
    buf_free(&packed);
    return error_class(rc);
}

static void too_small(bool unpack)
{
    const char *what = unpack ? "MPI_Unpack" : "MPI_Pack";
    struct layout l;
    layout_number(&l, 1, 2);
    for (int lead = 0; lead <= 16; lead += 16)
        for (int missing = 1; missing <= 961; missing += 480) {
            int size = lead + l.bytes - missing;
            int host = short_class(&l, MEM_HOST, lead, size, unpack);
            int device = short_class(&l, MEM_DEVICE, lead, size, unpack);
            /* MPICH does not check, and packs what fits. */
            expect(host == device || host == MPI_SUCCESS, "%s, %d bytes short: %s on the device, %s on the host", what,
                   missing, error_name(device), error_name(host));
        }
    layout_free(&l);
    report("%s with a buffer that is too small", what);
}

/* The origin may lie far outside the allocation, before or behind it; only the bytes touched count. */
static void far_origins(void)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct layout l;
        MPI_Datatype vector, t;
        int one = 1;
        MPI_Aint at = (MPI_Aint)sign * (1 << 30);
        MPI_Type_vector(9, 3, 7, MPI_FLOAT, &vector);
        MPI_Type_create_hindexed(1, &one, &at, vector, &t);
        MPI_Type_free(&vector);
        type_commit(&t);
        layout_of(&l, t, 1, sign > 0 ? "vector at +1 GiB" : "vector at -1 GiB");
        for (int pair = 0; pair < PAIRS; pair++) try_all(&l, pair);
        layout_free(&l);
    }
    report("pack with the origin outside the allocation");
}

/* Packs from MPI_BOTTOM, the buffer's absolute address in the type; the error class. */
static int pack_absolute(enum mem_kind kind)
{
    struct buf user, packed;
    struct layout base;
    MPI_Datatype t;
    MPI_Aint at;
    int one = 1, position = 0;
    layout_number(&base, 1, 1);
    buf_make(&user, kind, &base, 0, 7);
    buf_bytes(&packed, kind, (size_t)base.bytes, 0, 8);
    MPI_Get_address(user.origin, &at);
    MPI_Type_create_hindexed(1, &one, &at, base.type, &t);
    type_commit(&t);
    int rc = MPI_Pack(MPI_BOTTOM, 1, t, packed.origin, base.bytes, &position, MPI_COMM_WORLD);
    unsigned char *want = layout_packed(&base, 7);
    if (rc == MPI_SUCCESS) memcpy(packed.shadow + packed.lead, want, (size_t)base.bytes);
    buf_check(&packed, "MPI_Pack from MPI_BOTTOM");
    free(want);
    MPI_Type_free(&t);
    buf_free(&user);
    buf_free(&packed);
    layout_free(&base);
    return error_class(rc);
}

/* MPICH 4.0 refuses MPI_BOTTOM here. */
static void absolute(void)
{
    int host = pack_absolute(MEM_HOST), device = pack_absolute(MEM_DEVICE);
    expect(host == device || device == MPI_SUCCESS, "%s, on the host %s", error_name(device), error_name(host));
    report("pack from MPI_BOTTOM with an absolute device address");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    random_types(FAMILY_A);
    random_types(FAMILY_B);
    too_small(false);
    too_small(true);
    far_origins();
    absolute();
    return check_finish();
}
