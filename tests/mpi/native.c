/* native.c: packing in host memory, against the MPI's own MPI_Pack and MPI_Unpack: random types, by the walk and by
 * code made for them; and who serves what, when calls take turns.
 *
 * usage: native [TYPES [COMPILED]]
 * TYPES on each rank, one by one, each at once; of the first COMPILED the code is waited for. Under STRIDEC_HOST=on
 * all of them are stridec's; else (auto) some large ones are tried often.
 *
 * run: STRIDEC_HOST=on -n 2 150 3 --host
 * run: STRIDEC_HOST=on STRIDEC_CC=/nowhere -n 1 100 0
 * run: -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 1 80 2 --host
 * run: MPI_TEST_SIM=0 -n 1 --host
 * run: STRIDEC_HOST=off -n 1 20 0
 */
#include "check.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 32

static int (*host_ready)(MPI_Datatype, int);
static long (*host_served)(MPI_Datatype);
static bool on, off;

static unsigned char *random_room(size_t bytes)
{
    unsigned char *p = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)roll(256);
    return p;
}

static void *origin(unsigned char *span, const struct layout *l)
{
    return (void *)((uintptr_t)span - (uintptr_t)l->low);
}

/* With the MPI's own call on copies of the same bytes; guards, gaps and position are compared too. */
static void try(const struct layout *l, bool pack)
{
    size_t at = GUARD + roll(16), to = GUARD + roll(16);
    size_t user_bytes = (size_t)l->span + 2 * GUARD + 16, packed_bytes = (size_t)l->bytes + 2 * GUARD + 16;
    unsigned char *user[2] = {random_room(user_bytes), malloc(user_bytes)};
    unsigned char *packed[2] = {random_room(packed_bytes), malloc(packed_bytes)};
    int position[2] = {0, 0};
    memcpy(user[1], user[0], user_bytes), memcpy(packed[1], packed[0], packed_bytes);
    for (int own = 0; own < 2; own++) {
        void *u = origin(user[own] + at, l), *p = packed[own] + to;
        if (pack)
            (own ? own_pack() : MPI_Pack)(u, l->count, l->type, p, l->bytes, &position[own], MPI_COMM_WORLD);
        else
            (own ? own_unpack() : MPI_Unpack)(p, l->bytes, &position[own], u, l->count, l->type, MPI_COMM_WORLD);
    }
    const char *call = pack ? "MPI_Pack" : "MPI_Unpack";
    expect(position[0] == position[1], "%s of %s leaves position %d, not %d", call, l->text, position[0], position[1]);
    expect(!memcmp(user[0], user[1], user_bytes), "%s of %s: the typed buffer differs", call, l->text);
    expect(!memcmp(packed[0], packed[1], packed_bytes), "%s of %s: the packed buffer differs", call, l->text);
    for (int own = 0; own < 2; own++) free(user[own]), free(packed[own]);
}

static void random_types(int types, int compiled)
{
    struct layout l;
    long served = 0;
    int ready = 0;
    for (int i = 0; i < types; i++) {
        layout_random(&l, roll(3) ? FAMILY_B : FAMILY_A, 1 + (int)roll(4), true);
        for (int k = 0; k < 2; k++) try(&l, true), try(&l, false);
        if (ready < compiled && host_ready && host_ready(l.type, 1) > 0) {
            for (int k = 0; k < 2; k++) try(&l, true), try(&l, false);
            ready++;
        }
        if (host_served) served += host_served(l.type);
        layout_free(&l);
    }
    if (on && host_served) expect(served > types, "stridec served %ld calls of %d types", served, types);
    if (off && host_served) expect(served == 0, "stridec served %ld calls", served);
    report("%d random types on each of %d ranks, code for %d", types, num_ranks, ready);
}

/* Who packs a type after so many calls. */
static long served_of(MPI_Datatype type, int calls, int count, char *user, char *packed, int room)
{
    for (int i = 0; i < calls; i++) {
        int position = 0;
        MPI_Pack(user, count, type, packed, room, &position, MPI_COMM_WORLD);
    }
    return host_served ? host_served(type) : -1;
}

enum { BLOCKS = 1 << 13, ROOM = 8 * BLOCKS };

/* Blocks of 8 bytes in large numbers are nothing that any MPI is quick at: stridec takes them once it knows; not
 * those that are few, nor what is contiguous. */
static void turns(void)
{
    MPI_Datatype many, few, whole;
    char *user = calloc(3, ROOM), *packed = malloc(ROOM);
    MPI_Type_vector(BLOCKS, 1, 3, MPI_DOUBLE, &many);
    MPI_Type_vector(20, 1, 3, MPI_DOUBLE, &few);
    MPI_Type_contiguous(BLOCKS, MPI_DOUBLE, &whole);
    MPI_Type_commit(&many), MPI_Type_commit(&few), MPI_Type_commit(&whole);
    served_of(many, 40, 1, user, packed, ROOM);
    if (host_ready) host_ready(many, 1);
    served_of(many, 40, 1, user, packed, ROOM);
    long before = served_of(many, 0, 1, user, packed, ROOM), after = served_of(many, 20, 1, user, packed, ROOM);
    expect(!host_served || before > 0, "stridec took no turn");
    note("of 20 calls stridec served %ld", after - before);
    expect(served_of(few, 100, 1, user, packed, ROOM) <= 0, "few blocks were stridec's");
    expect(served_of(whole, 100, 1, user, packed, ROOM) <= 0, "contiguous data was stridec's");
    MPI_Type_free(&many), MPI_Type_free(&few), MPI_Type_free(&whole);
    free(user), free(packed);
    report("turns");
}

/* Handles come again: what was known of a small type must not stand for a large one, nor the other way. */
static void handles(void)
{
    char *user = calloc(3, ROOM), *packed = malloc(ROOM), *want = malloc(ROOM);
    for (int i = 0; i < 3 * ROOM; i++) user[i] = (char)roll(256);
    for (int i = 0; i < 60; i++) {
        int blocks = i % 3 ? BLOCKS - 7 * i : 5, position = 0;
        MPI_Datatype type;
        MPI_Type_vector(blocks, 1, i % 2 ? 2 : 3, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        own_pack()(user, 1, type, want, ROOM, &position, MPI_COMM_WORLD);
        for (int k = 0; k < 25; k++) {
            memset(packed, 0, (size_t)position);
            served_of(type, 1, 1, user, packed, ROOM);
            expect(!memcmp(packed, want, (size_t)position), "a type of %d blocks is packed wrong", blocks);
        }
        MPI_Type_free(&type);
    }
    free(user), free(packed), free(want);
    report("handles that come again");
}

/* Errors are the MPI's. MPICH 4.0 sees none here, and writes on. */
static void errors(void)
{
    MPI_Datatype type;
    char *user = calloc(3, ROOM), *packed = malloc(ROOM + 16);
    int position = 0, rc = MPI_SUCCESS;
    MPI_Type_vector(BLOCKS, 1, 3, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    served_of(type, 20, 1, user, packed, ROOM);
    if (host_ready) host_ready(type, 1);
    served_of(type, 20, 1, user, packed, ROOM);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20 && rc == MPI_SUCCESS; i++) {
        position = 16;
        rc = MPI_Pack(user, 1, type, packed, ROOM, &position, MPI_COMM_WORLD);
    }
#ifndef MPICH_VERSION
    expect(rc != MPI_SUCCESS && position == 16, "packing past the end returns %d, position %d", rc, position);
#endif
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&type);
    free(user), free(packed);
    report("errors");
}

int main(int argc, char **argv)
{
    int numbers[2] = {40, 1}, given = 0;
    const char *mode = getenv("STRIDEC_HOST");
    check_start(&argc, &argv, -1);
    for (int i = 1; i < argc && given < 2; i++)
        if (argv[i][0] != '-') numbers[given++] = atoi(argv[i]);
    on = mode && !strcmp(mode, "on"), off = mode && !strcmp(mode, "off");
    *(void **)&host_ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    *(void **)&host_served = dlsym(RTLD_DEFAULT, "stridec_host_served");
    roll_apart();
    random_types(numbers[0], numbers[1]);
    if (!on && !off) turns();
    handles();
    errors();
    return check_finish();
}
