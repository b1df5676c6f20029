/* several.c: messages from several allocations, by absolute addresses: read where they lie, by one launch of the
 * receiver, none of the sender. Fields, particles, lists that jump between allocations; received into the like, into
 * one allocation, contiguously, cut elsewhere, into host memory; refused; too many parts.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 apart
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle:5+ -n 2 bytes
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 2 bytes
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_MEMORY=1 -n 2 bytes
 * run: -n 2 bytes
 * run: STRIDEC_TRANSPORT=oneshot -n 2 bytes
 */
#include "check.h"
#include "resources.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define ARRAYS 4
#define DOUBLES 4096   /* of an array */
#define PIECES 200
#define SECONDS 60
#define TAG 7

/* n doubles of an array, `step` doubles apart. */
struct piece {
    int array, first, n, step;
};
struct shape {
    const char *name;
    int pieces;
    struct piece piece[PIECES];
    bool list;          /* by MPI_Type_create_hindexed_block: all pieces have one length */
    bool together;      /* the arrays lie in one allocation */
    enum mem_kind kind;
    int launches;       /* of the receiver; -1: any */
};

/* A shape in memory. */
struct place {
    const struct shape *shape;
    double *array[ARRAYS], *shadow[ARRAYS];
    MPI_Datatype type;
};

static int peer;
static bool bytes_only, counts;   /* counts: the simulated GPU counts launches */

static void add(struct shape *s, int array, int first, int n, int step)
{
    s->piece[s->pieces++] = (struct piece){array, first, n, step};
}

static int doubles_of(const struct shape *s)
{
    int n = 0;
    for (int i = 0; i < s->pieces; i++) n += s->piece[i].n;
    return n;
}

static enum mem_kind kind_of(const struct shape *s)
{
    return host_mode ? MEM_HOST : s->kind;
}

static void place_make(struct place *p, const struct shape *s)
{
    static MPI_Datatype parts[PIECES];
    static MPI_Aint at[PIECES];
    static int ones[PIECES];
    double *all = s->together ? mem_alloc(kind_of(s), ARRAYS * DOUBLES * sizeof(double)) : NULL;
    p->shape = s;
    for (int i = 0; i < ARRAYS; i++) {
        p->array[i] = all ? all + i * DOUBLES : mem_alloc(kind_of(s), DOUBLES * sizeof(double));
        p->shadow[i] = malloc(DOUBLES * sizeof(double));
    }
    for (int i = 0; i < s->pieces; i++) {
        const struct piece *q = &s->piece[i];
        MPI_Get_address(p->array[q->array] + q->first, &at[i]);
        ones[i] = 1;
        if (!s->list) MPI_Type_vector(q->n, 1, q->step, MPI_DOUBLE, &parts[i]);
    }
    if (s->list) MPI_Type_create_hindexed_block(s->pieces, s->piece[0].n, at, MPI_DOUBLE, &p->type);
    else MPI_Type_create_struct(s->pieces, ones, at, parts, &p->type);
    for (int i = 0; i < s->pieces && !s->list; i++) MPI_Type_free(&parts[i]);
    type_commit(&p->type);
}

static void place_free(struct place *p)
{
    for (int i = 0; i < ARRAYS; i++) {
        if (!i || !p->shape->together) mem_free(kind_of(p->shape), p->array[i]);
        free(p->shadow[i]);
    }
    MPI_Type_free(&p->type);
}

/* Writes first, first + 1, ... into the pieces of the shadows, and then the shadows into the arrays if `memory_too`. */
static void fill(struct place *p, double first, bool memory_too)
{
    for (int i = 0; i < p->shape->pieces; i++)
        for (int j = 0; j < p->shape->piece[i].n; j++) {
            const struct piece *q = &p->shape->piece[i];
            p->shadow[q->array][q->first + j * q->step] = first++;
        }
    for (int i = 0; i < ARRAYS && memory_too; i++)
        mem_write(kind_of(p->shape), p->array[i], p->shadow[i], DOUBLES * sizeof(double));
}

static void clear(struct place *p)
{
    for (int i = 0; i < ARRAYS; i++) {
        for (int j = 0; j < DOUBLES; j++) p->shadow[i][j] = -1.0 - j;
        mem_write(kind_of(p->shape), p->array[i], p->shadow[i], DOUBLES * sizeof(double));
    }
}

static void check(const struct place *p, const char *name)
{
    double *is = malloc(DOUBLES * sizeof(double));
    int wrong = 0;
    for (int i = 0; i < ARRAYS; i++) {
        mem_read(kind_of(p->shape), is, p->array[i], DOUBLES * sizeof(double));
        for (int j = 0; j < DOUBLES; j++) wrong += is[j] != p->shadow[i][j];
    }
    expect(!wrong, "%s into %s: %d doubles are wrong", name, p->shape->name, wrong);
    free(is);
}

static bool everywhere(bool here)
{
    int mine = here, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* One message from rank 0. Returns true if it took the launches of the shape, none of the sender's. */
static bool pass(struct place *from, struct place *to, int round)
{
    struct resources before, after;
    clear(from), clear(to);
    fill(from, 100.0 * round, true);
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&before);
    if (my_rank == 0) MPI_Send(MPI_BOTTOM, 1, from->type, peer, TAG, MPI_COMM_WORLD);
    else MPI_Recv(MPI_BOTTOM, 1, to->type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    resources_now(&after);
    if (my_rank) fill(to, 100.0 * round, false);
    check(from, "sent"), check(to, from->shape->name);
    int64_t launches = after.launches - before.launches;
    return everywhere(my_rank ? launches == to->shape->launches : launches == 0);
}

static void several(const struct shape *a, const struct shape *b)
{
    struct place from, to;
    double since = 0;
    bool so = false, counted = counts && a->launches >= 0 && b->launches >= 0;
    place_make(&from, a), place_make(&to, b);
    for (int round = 0; round < 3 || (counted && !so && everywhere(within(&since, SECONDS))); round++)
        so = pass(&from, &to, round);
    expect(so || !counted, "%s into %s takes other launches", a->name, b->name);
    report("%s into %s", a->name, b->name);
    place_free(&from), place_free(&to);
}

/* ---- shapes of 1,500 doubles ---- */

static void shapes_make(struct shape *fields, struct shape *particles, struct shape *list, struct shape *many)
{
    *fields = (struct shape){.name = "four fields", .kind = MEM_DEVICE, .launches = 1};
    add(fields, 0, 5, 300, 3), add(fields, 1, 0, 500, 2), add(fields, 2, 17, 400, 1), add(fields, 3, 1, 300, 12);
    *particles = (struct shape){.name = "particles of three arrays", .kind = MEM_DEVICE, .launches = 1};
    for (int i = 0; i < 50; i++) add(particles, i / 17, (i % 17 * 89) % 4000, 30, 1);
    *list = (struct shape){.name = "a list over two arrays", .kind = MEM_DEVICE, .launches = 1, .list = true};
    for (int i = 0; i < 150; i++) add(list, i / 40 % 2, (i * 37) % 400 * 10, 10, 1);
    *many = (struct shape){.name = "a list that changes often", .kind = MEM_DEVICE, .launches = -1, .list = true};
    for (int i = 0; i < 150; i++) add(many, i % 2, (i * 37) % 400 * 10, 10, 1);
}

int main(int argc, char **argv)
{
    static struct shape from[4], flat, one, other, host;
    bool apart = false;
    for (int i = 1; i < argc; i++) bytes_only |= !strcmp(argv[i], "bytes"), apart |= !strcmp(argv[i], "apart");
    check_start(&argc, &argv, -1);
    struct resources r;
    resources_now(&r);
    counts = r.simulated && !bytes_only && !host_mode;
    peer = 1 - my_rank;
    if (apart && !host_mode) cudaSetDevice(my_rank);
    shapes_make(&from[0], &from[1], &from[2], &from[3]);
    flat = (struct shape){.name = "contiguous memory", .kind = MEM_DEVICE, .launches = 1};
    add(&flat, 2, 100, 1500, 1);
    other = (struct shape){.name = "two arrays, cut elsewhere", .kind = MEM_DEVICE, .launches = 2};
    add(&other, 1, 0, 700, 5), add(&other, 0, 0, 800, 4);
    host = (struct shape){.name = "host memory", .kind = MEM_HOST, .launches = 1};
    add(&host, 1, 0, 700, 5), add(&host, 0, 0, 800, 4);
    for (int i = 0; i < 4; i++) {
        expect_equal(doubles_of(&from[i]), 1500, from[i].name);
        one = from[i], one.name = "the same in one allocation", one.together = true;
        several(&from[i], &from[i]);
        several(&from[i], &one);
        several(&from[i], &flat);
        several(&from[i], &other);
        several(&from[i], &host);
    }
    return check_finish();
}
