/* reset.c: programs that reset their device (cudaDeviceReset), as many do before MPI_Finalize, or destroy a context of
 * their own: what stridec has there is gone. The program ends well; and messages of memory that it takes afterwards are
 * right, by the types that there were. Not on a real device above a CUDA-aware MPI, whose own state is gone too.
 *
 * usage: reset [again | own | first]
 * "first": the program's own context is used before the device's, and destroyed: what stridec keeps for the device's
 * does not lie in another.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 again
 * run: STRIDEC_TRANSPORT=staged -n 2 again
 * run: STRIDEC_TRANSPORT=oneshot -n 2 again
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2 again
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 own
 * run: STRIDEC_TRANSPORT=staged -n 2 own
 * run: STRIDEC_TRANSPORT=oneshot -n 2 first
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 first
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 STRIDEC_TRANSPORT=zerocopy -n 2 first
 */
#include "check.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 3, TIMES = 4, SIZES = 4 };
static const int runs[SIZES] = {20, 300, 20000, 200000};
static struct layout layouts[SIZES];
static int peer;

static void exchange(int i, uint64_t salt)
{
    const struct layout *l = &layouts[i];
    struct buf out, in;
    buf_make(&out, MEM_DEVICE, l, 0, salt + (uint64_t)my_rank), buf_make(&in, MEM_DEVICE, l, 0, 1);
    for (int k = 0; k < TIMES; k++) {
        buf_fill(&in, 1);
        MPI_Sendrecv(out.origin, 1, l->type, peer, TAG, in.origin, 1, l->type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&in, l, l, salt + (uint64_t)peer);
        buf_check(&in, "a message");
    }
    int position = 0, from = 0;
    void *packed = NULL;
    cudaMalloc(&packed, (size_t)l->bytes);
    buf_fill(&in, 1);
    MPI_Pack(out.origin, 1, l->type, packed, (int)l->bytes, &position, MPI_COMM_WORLD);
    MPI_Unpack(packed, (int)l->bytes, &from, in.origin, 1, l->type, MPI_COMM_WORLD);
    buf_expect_from(&in, l, l, salt + (uint64_t)my_rank);
    buf_check(&in, "packed and unpacked");
    cudaFree(packed);
    buf_free(&out), buf_free(&in);
}

static void exchanges(const char *when)
{
    for (int i = 0; i < SIZES; i++) exchange(i, 10 + (uint64_t)i);
    report("messages %s", when);
}

/* What stridec keeps plans for: they are freed after the reset. */
static MPI_Request persistent[2];
static MPI_Comm ring;

static void begin_plans(void)
{
    const struct layout *l = &layouts[2];
    struct buf out, in;
    MPI_Aint at[2] = {0, 0};
    int counts[2] = {1, 0};
    buf_make(&out, MEM_DEVICE, l, 0, 40 + (uint64_t)my_rank), buf_make(&in, MEM_DEVICE, l, 0, 1);
    MPI_Send_init(out.origin, 1, l->type, peer, TAG, MPI_COMM_WORLD, &persistent[0]);
    MPI_Recv_init(in.origin, 1, l->type, peer, TAG, MPI_COMM_WORLD, &persistent[1]);
    for (int k = 0; k < TIMES; k++) {
        buf_fill(&in, 1);
        MPI_Startall(2, persistent);
        MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
        buf_expect_from(&in, l, l, 40 + (uint64_t)peer);
        buf_check(&in, "a persistent message");
    }
    MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){num_ranks}, (int[]){0}, 0, &ring);
    counts[0] = my_rank > 0, counts[1] = my_rank + 1 < num_ranks;
    for (int k = 0; k < TIMES; k++) {
        buf_fill(&in, 1);
        MPI_Neighbor_alltoallw(out.origin, counts, at, (MPI_Datatype[]){l->type, l->type}, in.origin, counts, at,
                               (MPI_Datatype[]){l->type, l->type}, ring);
        buf_expect_from(&in, l, l, 40 + (uint64_t)peer);
        buf_check(&in, "from a neighbour");
    }
    buf_free(&out), buf_free(&in);
    report("persistent and neighbours' messages");
}

static void end_plans(void)
{
    for (int i = 0; i < 2; i++) MPI_Request_free(&persistent[i]);
    MPI_Comm_free(&ring);
}

/* Contexts of the program's, on the same device. The first one made stays current. */
static int (*create)(void **context, unsigned flags, int device), (*destroy)(void *context), (*pop)(void **context);

static void *context_make(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    cudaFree(NULL);   /* begins */
    if (driver) *(void **)&create = dlsym(driver, "cuCtxCreate_v2");
    if (driver) *(void **)&destroy = dlsym(driver, "cuCtxDestroy_v2");
    if (driver) *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
    bool made = create && destroy && pop && !create(&context, 0, 0);
    expect(made, "no context");
    return made ? context : NULL;
}

static void in_own_context(void)
{
    void *context = context_make();
    if (context) exchanges("in a context of the program's");
    MPI_Barrier(MPI_COMM_WORLD);
    if (context) destroy(context);
}

/* Many sends under way at once, so that stridec keeps what it needs for them. */
static void outstanding(void)
{
    enum { MANY = 40 };
    const struct layout *l = &layouts[2];
    MPI_Request request[2 * MANY];
    struct buf out, in[MANY];
    buf_make(&out, MEM_DEVICE, l, 0, 70 + (uint64_t)my_rank);
    for (int i = 0; i < MANY; i++) {
        buf_make(&in[i], MEM_DEVICE, l, 0, 1);
        MPI_Irecv(in[i].origin, 1, l->type, peer, TAG, MPI_COMM_WORLD, &request[i]);
        MPI_Isend(out.origin, 1, l->type, peer, TAG, MPI_COMM_WORLD, &request[MANY + i]);
    }
    MPI_Waitall(2 * MANY, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) {
        buf_expect_from(&in[i], l, l, 70 + (uint64_t)peer);
        buf_check(&in[i], "one of many"), buf_free(&in[i]);
    }
    buf_free(&out);
}

static void own_context_first(void)
{
    void *context = context_make();
    if (!context) return;
    exchanges("in a context of the program's"), outstanding();
    pop(&context);
    exchanges("in the device's own");

    /* A receive that waits while the other context ends. */
    const struct layout *l = &layouts[2];
    struct buf out, in;
    MPI_Request request;
    buf_make(&out, MEM_DEVICE, l, 0, 80 + (uint64_t)my_rank), buf_make(&in, MEM_DEVICE, l, 0, 1);
    MPI_Irecv(in.origin, 1, l->type, peer, TAG, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    destroy(context);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(out.origin, 1, l->type, peer, TAG, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    buf_expect_from(&in, l, l, 80 + (uint64_t)peer);
    buf_check(&in, "what was waited for");
    buf_free(&out), buf_free(&in);
    outstanding(), exchanges("after that of the program's");
}

int main(int argc, char **argv)
{
    bool own = argc > 1 && !strcmp(argv[argc - 1], "own"), again = argc > 1 && !strcmp(argv[argc - 1], "again");
    bool first = argc > 1 && !strcmp(argv[argc - 1], "first");
    int resets = again ? 2 : 1;
    check_start(&argc, &argv, -1);
    peer = 1 - my_rank;
    for (int i = 0; i < SIZES; i++) {
        MPI_Datatype type;
        MPI_Type_vector(runs[i], 1, 2, MPI_DOUBLE, &type);
        type_commit(&type);
        layout_of(&layouts[i], type, 1, "every second double");
    }
    if (first) {
        own_context_first();
        for (int i = 0; i < SIZES; i++) layout_free(&layouts[i]);
        return check_finish();
    }
    exchanges("before a reset");
    begin_plans();
    for (int i = 0; own && i < 3; i++) in_own_context();
    if (own) exchanges("after other contexts");
    if (cuda_aware() && !getenv("SIMGPU_OPEN")) resets = 0, end_plans();
    for (int n = 0; n < resets; n++) {
        MPI_Barrier(MPI_COMM_WORLD);
        cudaDeviceReset();
        if (n == 0) end_plans();
        MPI_Barrier(MPI_COMM_WORLD);
        if (again) exchanges("after a reset");
    }
    for (int i = 0; i < SIZES; i++) layout_free(&layouts[i]);
    return check_finish();
}
