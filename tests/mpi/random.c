/* random.c: very many random types through the device, against the host MPI's own MPI_Pack and MPI_Unpack.
 *
 * usage: random [TYPES [SECONDS]]
 * TYPES over all ranks (200), each tried at once, by the interpreter or copies mostly, in groups that stay committed.
 * Of some groups the kernels are waited for, SECONDS in all (2), and the whole group is tried again.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 400 3 --host
 * run: -n 2 160 3
 * run: SIMGPU_NVRTC_FAIL=1 -n 2 400 0
 */
#include "check.h"
#include "resources.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP 40
#define ROOM ((1 << 18) + 64) /* types.c: no span is longer, nor the packed bytes */
#define GUARD 32

struct room {
    unsigned char *device, *before, *after; /* two host copies: as it was filled, and as it ought to be */
};

static struct room user, packed;

static void room_make(struct room *r)
{
    r->device = mem_alloc(MEM_DEVICE, ROOM);
    r->before = malloc(ROOM), r->after = malloc(ROOM);
}

static void room_free(struct room *r)
{
    mem_free(MEM_DEVICE, r->device);
    free(r->before), free(r->after);
}

static void room_fill(struct room *r, size_t bytes)
{
    uint64_t z = (uint64_t)roll(UINT32_MAX) << 32 | 1;
    for (size_t i = 0; i + 8 <= ROOM && i < bytes; i += 8) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        uint64_t mixed = z ^ z >> 29;
        memcpy(r->before + i, &mixed, 8);
    }
    memcpy(r->after, r->before, bytes);
    mem_write(MEM_DEVICE, r->device, r->before, bytes);
}

static void room_check(const struct room *r, size_t bytes, const char *call, const struct layout *l)
{
    static unsigned char got[ROOM];
    mem_read(MEM_DEVICE, got, r->device, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] == r->after[i]) continue;
        fail("%s of %s: byte %zu is 0x%02x, not 0x%02x", call, l->text, i, got[i], r->after[i]);
        return;
    }
}

/* Everything between two guards, at chance alignments. */
static void try_pack(const struct layout *l)
{
    size_t at = GUARD / 2 + roll(16), to = GUARD / 2 + roll(16);
    size_t user_bytes = (size_t)l->span + 2 * GUARD, packed_bytes = (size_t)l->bytes + 2 * GUARD;
    int position = 0;
    room_fill(&user, user_bytes), room_fill(&packed, packed_bytes);
    MPI_Pack((void *)((uintptr_t)user.device + at - (uintptr_t)l->low), l->count, l->type, packed.device + to, l->bytes,
             &position, MPI_COMM_WORLD);
    for (int i = 0; i < l->bytes; i++) packed.after[to + (size_t)i] = user.before[at + (size_t)l->map[i]];
    expect(position == l->bytes, "MPI_Pack of %s leaves position %d, not %d", l->text, position, l->bytes);
    room_check(&packed, packed_bytes, "MPI_Pack", l);
}

static void try_unpack(const struct layout *l)
{
    size_t at = GUARD / 2 + roll(16), from = GUARD / 2 + roll(16);
    size_t user_bytes = (size_t)l->span + 2 * GUARD, packed_bytes = (size_t)l->bytes + 2 * GUARD;
    int position = 0;
    room_fill(&user, user_bytes), room_fill(&packed, packed_bytes);
    MPI_Unpack(packed.device + from, l->bytes, &position, (void *)((uintptr_t)user.device + at - (uintptr_t)l->low),
               l->count, l->type, MPI_COMM_WORLD);
    for (int i = 0; i < l->bytes; i++) user.after[at + (size_t)l->map[i]] = packed.before[from + (size_t)i];
    expect(position == l->bytes, "MPI_Unpack of %s leaves position %d, not %d", l->text, position, l->bytes);
    room_check(&user, user_bytes, "MPI_Unpack", l);
}

static void try(const struct layout *l)
{
    try_pack(l);
    if (!l->overlaps) try_unpack(l);
}

/* The group's kernels are made meanwhile. */
static void try_for(struct layout l[], int n, double seconds)
{
    double start = 0;
    while (within(&start, seconds))
        for (int i = 0; i < n; i++) try(&l[i]);
}

static void group(int n, double seconds)
{
    static struct layout l[GROUP];
    for (int i = 0; i < n; i++) {
        layout_random(&l[i], roll(3) ? FAMILY_B : FAMILY_A, 1 + (int)roll(4), roll(4) != 0);
        try(&l[i]);
    }
    try_for(l, n, seconds);
    for (int i = 0; i < n; i++) {
        try(&l[i]);
        layout_free(&l[i]);
    }
}

int main(int argc, char **argv)
{
    double numbers[2] = {200, 2};
    struct resources r;
    int given = 0;
    check_start(&argc, &argv, -1);
    for (int i = 1; i < argc && given < 2; i++)
        if (argv[i][0] != '-') numbers[given++] = atof(argv[i]);
    resources_watch_compiles();
    roll_apart();
    room_make(&user), room_make(&packed);
    int mine = ((int)numbers[0] + num_ranks - 1) / num_ranks, groups = (mine + GROUP - 1) / GROUP;
    int patient = (groups + 3) / 4; /* groups that wait */
    for (int g = 0; g < groups; g++) {
        int n = mine - g * GROUP < GROUP ? mine - g * GROUP : GROUP;
        group(n, g % 4 == 0 ? numbers[1] / patient : 0);
    }
    resources_now(&r);
    note("%lld kernels in the cache", (long long)r.files);
    room_free(&user), room_free(&packed);
    report("%d random types on each of %d ranks", mine, num_ranks);
    return check_finish();
}
