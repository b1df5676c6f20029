/* partitioned.c: partitioned messages of derived types, of device buffers mostly, where the MPI has them.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include <stdlib.h>
#include <string.h>

#if MPI_VERSION >= 4

#define PARTITIONS 6
#define COUNT 2   /* elements of a partition */
#define ROUNDS 3
#define TIMES 5
#define SHORT_RUNS 3   /* the number of a layout */

static int peer;

enum ready { ONE_BY_ONE, BACKWARDS, RANGES, LIST, READY };
static const char *const ready_name[READY] = {"MPI_Pready", "MPI_Pready, backwards", "MPI_Pready_range",
                                              "MPI_Pready_list"};

/* Partition i of the buffer gets its bytes only now. */
static void fill(struct buf *b, const struct layout *all, const unsigned char *packed, int i)
{
    int bytes = all->bytes / PARTITIONS;
    for (int k = i * bytes; k < (i + 1) * bytes; k++) b->shadow[b->lead + (size_t)all->map[k]] = packed[k];
    mem_write(b->kind, b->base, b->shadow, b->bytes);
}

static void make_ready(struct buf *b, const struct layout *all, const unsigned char *packed, enum ready how,
                       MPI_Request r)
{
    int rest[3] = {5, 0, 3};
    if (how == ONE_BY_ONE || how == BACKWARDS) {
        for (int k = 0; k < PARTITIONS; k++) {
            int i = how == BACKWARDS ? PARTITIONS - 1 - k : k;
            fill(b, all, packed, i);
            MPI_Pready(i, r);
        }
        return;
    }
    for (int i = 1; i < PARTITIONS; i++)
        if (how == RANGES || (i != 5 && i != 3)) fill(b, all, packed, i);
    if (how == RANGES) {
        MPI_Pready_range(1, 4, r);
        MPI_Pready_range(5, 5, r);
        fill(b, all, packed, 0);
        MPI_Pready_range(0, 0, r);
        return;
    }
    for (int i = 1; i < PARTITIONS; i++)
        if (i != 5 && i != 3) MPI_Pready(i, r);
    for (int i = 0; i < 3; i++) fill(b, all, packed, rest[i]);
    MPI_Pready_list(3, rest, r);
}

/* Every partition that has arrived is in place before the request is complete. */
static void await(const struct buf *b, const struct layout *all, const unsigned char *want, MPI_Request *r)
{
    unsigned char *now = malloc(b->bytes);
    int bytes = all->bytes / PARTITIONS;
    for (int i = 0; i < PARTITIONS; i++) {
        int flag = 0;
        while (!flag) MPI_Parrived(*r, i, &flag);
        /* MPICH 4.0.2 alone says so early of some derived types. */
        if (i % 2 || host_mode) continue;
        mem_read(b->kind, now, b->base, b->bytes);
        for (int k = i * bytes; k < (i + 1) * bytes; k++)
            if (now[b->lead + (size_t)all->map[k]] != want[k]) {
                fail("partition %d of %s has arrived, but not its byte %d", i, all->text, k - i * bytes);
                break;
            }
    }
    free(now);
    MPI_Wait(r, MPI_STATUS_IGNORE);
}

static void exchange(struct buf *s, struct buf *t, const struct layout *from, const struct layout *to, enum ready how,
                     uint64_t salt, MPI_Request r[2])
{
    unsigned char *mine = layout_packed(from, salt + (uint64_t)my_rank);
    unsigned char *other = layout_packed(from, salt + (uint64_t)peer);
    buf_fill(s, salt + 50), buf_fill(t, salt + 60);
    MPI_Startall(2, r);
    make_ready(s, from, mine, how, r[0]);
    if (how == RANGES) MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    else await(t, to, other, &r[1]);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    buf_expect(t, to, other, to->bytes);
    buf_check(t, "received");
    buf_check(s, "sent");
    free(mine), free(other);
}

static void try_buffers(struct buf *s, const struct layout *from, struct buf *t, const struct layout *to, enum ready how)
{
    MPI_Request r[2];
    MPI_Psend_init(s->origin, PARTITIONS, COUNT, from->type, peer, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]);
    MPI_Precv_init(t->origin, PARTITIONS, COUNT, to->type, peer, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    for (int round = 0; round < ROUNDS; round++) exchange(s, t, from, to, how, (uint64_t)round * 7, r);
    MPI_Request_free(&r[0]), MPI_Request_free(&r[1]);
}

static void try_layouts(int from, int to, enum mem_kind there, enum ready how)
{
    struct layout f, t;
    struct buf s, b;
    layout_number(&f, from, PARTITIONS * COUNT), layout_number(&t, to, PARTITIONS * COUNT);
    if (t.overlaps) {   /* the column, past five elements: MPI forbids to receive into it */
        layout_free(&t);
        layout_number(&t, 0, PARTITIONS * COUNT);
    }
    buf_make(&s, MEM_DEVICE, &f, 0, 0), buf_make(&b, there, &t, 0, 0);
    try_buffers(&s, &f, &b, &t, how);
    buf_free(&s), buf_free(&b);
    layout_free(&f), layout_free(&t);
}

/* Collectives get packed bytes of such a type. */
static void on_the_host(void)
{
    struct layout l;
    struct buf s, t;
    layout_number(&l, SHORT_RUNS, PARTITIONS * COUNT);
    buf_make(&s, MEM_HOST, &l, 0, 0), buf_make(&t, MEM_HOST, &l, 0, 0);
    for (int i = 0; i < TIMES; i++) try_buffers(&s, &l, &t, &l, RANGES);
    buf_free(&s), buf_free(&t);
    layout_free(&l);
    report("in host memory, of short runs again and again");
}

static void all(void)
{
    peer = 1 - my_rank;
    for (int how = 0; how < READY; how++) {
        for (int from = 0; from < LAYOUTS; from++) try_layouts(from, (from * 3 + 1) % LAYOUTS, MEM_DEVICE, how);
        report("%s", ready_name[how]);
    }
    try_layouts(2, 0, MEM_HOST, ONE_BY_ONE);
    report("into host memory");
    on_the_host();
}
#else
static void all(void)
{
    note("this MPI has no partitioned communication");
    report("nothing to test");
}
#endif

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    all();
    return check_finish();
}
