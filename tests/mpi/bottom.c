/* bottom.c: collectives at MPI_BOTTOM: types with absolute addresses, of two parts on the device, or one on the
 * device and one in host memory, or on another device; against the same with all parts in host memory.
 *
 * run: -n 2
 * run: -n 3
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: NODES=2 STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: LD_PRELOAD=@ADDRESS SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "jobs.h"
#include <cuda_runtime_api.h>

static MPI_Datatype vector;

/* Where a call reads and writes: absolute parts, and flat memory for one vector for each rank. */
struct place {
    MPI_Datatype parts, each[PEERS];   /* both parts; two ints for each rank */
    void *flat;
};
typedef void call(struct place *p);

static void bcast(struct place *p)
{
    MPI_Bcast(MPI_BOTTOM, 1, p->parts, num_ranks - 1, MPI_COMM_WORLD);
}

static void ibcast(struct place *p)
{
    MPI_Request r;
    MPI_Ibcast(MPI_BOTTOM, 1, p->parts, 0, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void gather(struct place *p)
{
    MPI_Gather(MPI_BOTTOM, 1, p->parts, p->flat, 1, vector, 0, MPI_COMM_WORLD);
}

static void scatter(struct place *p)
{
    MPI_Scatter(p->flat, 1, vector, MPI_BOTTOM, 1, p->parts, num_ranks - 1, MPI_COMM_WORLD);
}

static void allgather(struct place *p)
{
    MPI_Allgather(MPI_BOTTOM, 1, p->parts, p->flat, 1, vector, MPI_COMM_WORLD);
}

static void lists(struct place *p, bool sends_parts)
{
    int ones[PEERS], twos[PEERS], none[PEERS] = {0}, displs[PEERS];
    MPI_Datatype ints[PEERS];
    for (int i = 0; i < PEERS; i++) ones[i] = 1, twos[i] = 2, displs[i] = i * 128, ints[i] = MPI_INT;
    if (sends_parts)
        MPI_Alltoallw(MPI_BOTTOM, ones, none, p->each, p->flat, twos, displs, ints, MPI_COMM_WORLD);
    else
        MPI_Alltoallw(p->flat, twos, displs, ints, MPI_BOTTOM, ones, none, p->each, MPI_COMM_WORLD);
}

static void from_lists(struct place *p)
{
    lists(p, true);
}

static void to_lists(struct place *p)
{
    lists(p, false);
}

static const struct {
    const char *name;
    call *call;
} calls[] = {{"MPI_Bcast", bcast},         {"MPI_Ibcast", ibcast},       {"MPI_Gather", gather},
             {"MPI_Scatter", scatter},     {"MPI_Allgather", allgather}, {"MPI_Alltoallw from", from_lists},
             {"MPI_Alltoallw to", to_lists}};

static MPI_Datatype at_addresses(void *a, void *b, int in_a, int in_b)
{
    MPI_Aint at[2];
    MPI_Datatype t;
    MPI_Get_address(a, &at[0]);
    MPI_Get_address(b, &at[1]);
    MPI_Type_create_hindexed(in_b ? 2 : 1, (int[]){in_a, in_b}, at, MPI_INT, &t);
    type_commit(&t);
    return t;
}

/* Two ints for each rank, with a gap, lie in either part in turn, behind what `parts` names. */
static void run(call *c, void *a, void *b, void *flat)
{
    struct place p = {.parts = at_addresses(a, b, 7, SHAPE_INTS - 7), .flat = flat};
    for (int i = 0; i < num_ranks; i++) {
        int *block = (int *)(i % 2 ? b : a) + 20 + i * 3;
        p.each[i] = at_addresses(block, block + 2, 1, 1);
    }
    c(&p);
    for (int i = 0; i < num_ranks; i++) MPI_Type_free(&p.each[i]);
    MPI_Type_free(&p.parts);
}

/* Memories of the second part. */
enum second { ON_DEVICE, ON_HOST, ELSEWHERE };

static void second_make(struct pair *b, enum second where)
{
    if (where == ELSEWHERE && !host_mode) cudaSetDevice(1);
    pair_make(b, where == ON_HOST ? MEM_HOST : MEM_DEVICE, 1);
    if (where == ELSEWHERE && !host_mode) cudaSetDevice(0);
}

static void check_calls(enum second where)
{
    static const char *const names[] = {"two parts on the device", "device and host", "two devices"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct pair a, b, flat;
        uint64_t salt = 100 * i + (uint64_t)my_rank;
        pair_make(&a, MEM_DEVICE, 1), second_make(&b, where), pair_make(&flat, MEM_DEVICE, 1);
        pair_fill(&a, salt), pair_fill(&b, salt + 20), pair_fill(&flat, salt + 40);
        run(calls[i].call, pair_origin(&a.host, 1), pair_origin(&b.host, 1), pair_origin(&flat.host, 1));
        run(calls[i].call, pair_origin(&a.tested, 1), pair_origin(&b.tested, 1), pair_origin(&flat.tested, 1));
        pair_check(&a, "the first part"), pair_check(&b, "the second part"), pair_check(&flat, "flat memory");
        pair_free(&a), pair_free(&b), pair_free(&flat);
        report("%s MPI_BOTTOM, %s", calls[i].name, names[where]);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    vector = shape_make(1, 1);
    int devices = 1;
    if (!host_mode) cudaGetDeviceCount(&devices);
    check_calls(ON_DEVICE);
    check_calls(ON_HOST);
    if (devices > 1) check_calls(ELSEWHERE);
    MPI_Type_free(&vector);
    return check_finish();
}
