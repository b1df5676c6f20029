/* halo.c: the 26 faces, edges and corners of a periodic block by MPI_Neighbor_alltoallw in its blocking, nonblocking and
 * persistent forms, in device memory, host memory and both: every cell by its global position; and, with the argument
 * "one", each in one launch; with "few" packed too, all by one module, which with "found" is in the cache. Ranks on both sides
 * of a dimension, and their own neighbours, are part of it.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 1 one
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 one
 * run: STRIDEC_TRANSPORT=zerocopy -n 3 one
 * run: STRIDEC_TRANSPORT=zerocopy -n 4 one
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_DISABLE=1 LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2 one
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcGetMemHandle -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 3
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle:2 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_NVRTC_FAIL=1 -n 2
 * run: STRIDEC_CACHE_DIR=@KEEP STRIDEC_TRANSPORT=zerocopy -n 2 few
 * run: STRIDEC_CACHE_DIR=@KEEP STRIDEC_TRANSPORT=staged -n 3 found
 */
#include "check.h"
#include "persistent.h"
#include "resources.h"
#include <stdlib.h>
#include <string.h>

#define NEAR 26
#define N 6
#define RADIUS 2
#define SIDE (N + 2 * RADIUS)
#define CELLS (SIDE * SIDE * SIDE)
#define SECONDS 50

static struct {
    int dims[3], coords[3];
    MPI_Comm graph;
    MPI_Datatype send[NEAR], recv[NEAR];
    int counts[NEAR];
    MPI_Aint displs[NEAR];
} halo;

static void direction(int s, int d[3])
{
    int k = s < NEAR / 2 ? s : s + 1;
    d[0] = k / 9 - 1, d[1] = k / 3 % 3 - 1, d[2] = k % 3 - 1;
}

static MPI_Datatype box(const int size[3], const int from[3])
{
    MPI_Datatype t;
    MPI_Type_create_subarray(3, (int[]){SIDE, SIDE, SIDE}, size, from, MPI_ORDER_C, MPI_FLOAT, &t);
    type_commit(&t);
    return t;
}

/* Edge s goes out in direction s, and comes in from the opposite side. */
static void halo_make(void)
{
    int out[NEAR], in[NEAR], ones[NEAR], periods[3] = {1, 1, 1}, d[3], at[3], size[3], inner[3], outer[3];
    MPI_Comm grid;
    MPI_Dims_create(num_ranks, 3, halo.dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, halo.dims, periods, 0, &grid);
    MPI_Cart_coords(grid, my_rank, 3, halo.coords);
    for (int s = 0; s < NEAR; s++) {
        direction(s, d);
        for (int i = 0; i < 3; i++) {
            size[i] = d[i] ? RADIUS : N;
            inner[i] = d[i] > 0 ? N : RADIUS;
            outer[i] = d[i] > 0 ? 0 : d[i] < 0 ? N + RADIUS : RADIUS;
            at[i] = halo.coords[i] + d[i];
        }
        MPI_Cart_rank(grid, at, &out[s]);
        for (int i = 0; i < 3; i++) at[i] = halo.coords[i] - d[i];
        MPI_Cart_rank(grid, at, &in[s]);
        halo.send[s] = box(size, inner), halo.recv[s] = box(size, outer);
        halo.counts[s] = ones[s] = 1;
    }
    MPI_Dist_graph_create_adjacent(grid, NEAR, in, ones, NEAR, out, ones, MPI_INFO_NULL, 0, &halo.graph);
    MPI_Comm_free(&grid);
}

static void halo_free(void)
{
    for (int s = 0; s < NEAR; s++) MPI_Type_free(&halo.send[s]), MPI_Type_free(&halo.recv[s]);
    MPI_Comm_free(&halo.graph);
}

/* Of a cell in this round, by its global position. */
static float value(int cell, int round)
{
    int at[3] = {cell / SIDE / SIDE, cell / SIDE % SIDE, cell % SIDE}, all = round;
    for (int i = 0; i < 3; i++) {
        int total = N * halo.dims[i];
        all = all * 61 + (halo.coords[i] * N + at[i] - RADIUS + total) % total;
    }
    return (float)(all % 65521);
}

static bool inside(int cell)
{
    int at[3] = {cell / SIDE / SIDE, cell / SIDE % SIDE, cell % SIDE};
    bool in = true;
    for (int i = 0; i < 3; i++) in &= at[i] >= RADIUS && at[i] < RADIUS + N;
    return in;
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static const char *const form_name[FORMS] = {"MPI_Neighbor_alltoallw", "MPI_Ineighbor_alltoallw",
                                             "MPI_Neighbor_alltoallw_init"};

static int call(enum form form, float *block)
{
    MPI_Request q = MPI_REQUEST_NULL;
    int rc = MPI_SUCCESS;
#if HAVE_PERSISTENT
    if (form == PERSISTENT) {
        rc = MPI_Neighbor_alltoallw_init(block, halo.counts, halo.displs, halo.send, block, halo.counts, halo.displs,
                                         halo.recv, halo.graph, MPI_INFO_NULL, &q);
        for (int i = 0; i < 2 && rc == MPI_SUCCESS; i++) {
            rc = MPI_Start(&q);
            if (rc == MPI_SUCCESS) rc = MPI_Wait(&q, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&q);
        return rc;
    }
#endif
    if (form == BLOCKING)
        return MPI_Neighbor_alltoallw(block, halo.counts, halo.displs, halo.send, block, halo.counts, halo.displs, halo.recv,
                                      halo.graph);
    rc = MPI_Ineighbor_alltoallw(block, halo.counts, halo.displs, halo.send, block, halo.counts, halo.displs, halo.recv,
                                 halo.graph, &q);
    return rc != MPI_SUCCESS ? rc : MPI_Wait(&q, MPI_STATUS_IGNORE);
}

/* Launches that it took: a persistent one is started twice. */
static int64_t exchange(enum form form, enum mem_kind kind, float *block, int round)
{
    static float cells[CELLS];
    struct resources before, after;
    for (int i = 0; i < CELLS; i++) cells[i] = inside(i) ? value(i, round) : -1;
    mem_write(kind, block, cells, sizeof cells);
    MPI_Barrier(halo.graph);   /* an offer to a rank that is late is packed after all */
    resources_now(&before);
    int rc = call(form, block);
    resources_now(&after);
    expect_equal(rc, MPI_SUCCESS, "the return code");
    mem_read(kind, cells, block, sizeof cells);
    int wrong = 0;
    for (int i = 0; i < CELLS; i++) wrong += cells[i] != value(i, round);
    expect(!wrong, "%d of %d cells are wrong in round %d", wrong, CELLS, round);
    return after.launches - before.launches;
}

static bool everywhere(bool here)
{
    int in = here, all = 0;
    MPI_Allreduce(&in, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* The kernel of links is compiled in the background meanwhile. */
static void in_one_launch(enum form form)
{
    enum mem_kind kind = MEM_DEVICE;
    float *block = mem_alloc(kind, CELLS * sizeof *block);
    struct resources now;
    double since = 0;
    int64_t launches = 0;
    int round = 0, wanted = form == PERSISTENT ? 2 : 1;
    bool one = false;
    resources_now(&now);
    do {
        launches = exchange(form, kind, block, round++);
        one = everywhere(launches == wanted);
    } while (now.simulated && !one && everywhere(within(&since, SECONDS)));
    if (now.simulated) expect_equal(launches, wanted, "the number of launches");
    report("26 neighbours in one launch: %s", form_name[form]);
    mem_free(kind, block);
}

/* A form that the MPI has. */
static enum form form_of(int round)
{
    enum form form = (enum form)(round % FORMS);
    return form == PERSISTENT && !HAVE_PERSISTENT ? NONBLOCKING : form;
}

/* Packs and unpacks the cells of all 52 types. */
static void pack_all(float *block)
{
    float *packed = mem_alloc(MEM_DEVICE, CELLS * sizeof *packed);
    for (int s = 0; s < 2 * NEAR; s++) {
        MPI_Datatype t = s < NEAR ? halo.send[s] : halo.recv[s - NEAR];
        int at = 0, bytes;
        MPI_Type_size(t, &bytes);
        MPI_Pack(block, 1, t, packed, bytes, &at, halo.graph);
        at = 0;
        MPI_Unpack(packed, bytes, &at, block, 1, t, halo.graph);
    }
    mem_free(MEM_DEVICE, packed);
}

/* One module serves all 52 types and both directions, and one rank compiles it. With STRIDEC_SPECIAL=0 the types' seven
 * shapes and the interpreter have eight more, which are waited for. */
static void few_compiles(bool found)
{
    enum { ROUNDS = 12, ALL = 9 };
    int modules = getenv("STRIDEC_SPECIAL") ? ALL : 1;
    float *block = mem_alloc(MEM_DEVICE, CELLS * sizeof *block);
    struct resources now;
    resources_wait_modules(modules, MPI_DATATYPE_NULL, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        exchange(form_of(round), MEM_DEVICE, block, round);
        pack_all(block);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&now);
    if (now.simulated) expect_equal(now.compiles, found ? 0 : modules, "compiles of all ranks");
    if (now.simulated) expect_equal(now.modules, modules, "modules of this rank");
    report("few kernels for 26 neighbours");
    mem_free(MEM_DEVICE, block);
}

static void in_memory(int host_ranks, const char *where)
{
    enum mem_kind kind = host_ranks >> my_rank & 1 ? MEM_HOST : MEM_DEVICE;
    float *block = mem_alloc(kind, CELLS * sizeof *block);
    for (int round = 0; round < 6; round++) exchange(form_of(round), kind, block, round);
    report("26 neighbours, %s", where);
    mem_free(kind, block);
}

/* Receives that are too small, and arguments that no rank's MPI takes. */
static void errors(void)
{
    int beside[2], period = 1;
    MPI_Comm ring;
    float *block = mem_alloc(MEM_DEVICE, 4096);
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, MPI_FLOAT, &pair);
    type_commit(&pair);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &period, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &beside[0], &beside[1]);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    int rc = MPI_Neighbor_alltoall(block, -1, pair, block, -1, pair, ring);
    expect_equal(error_class(rc), MPI_ERR_COUNT, "the class of a negative count");
    for (int i = 0; i < 3; i++) {
        rc = MPI_Neighbor_alltoall(block, 4, pair, block + 512, 4, pair, ring);
        expect_equal(rc, MPI_SUCCESS, "the return code");
        rc = MPI_Neighbor_alltoall(block, 4, pair, block + 512, 2, pair, ring);
        expect_equal(error_class(rc), MPI_ERR_TRUNCATE, "the class of a receive that is too small");
    }
    report("errors");
    MPI_Comm_free(&ring);
    MPI_Type_free(&pair);
    mem_free(MEM_DEVICE, block);
}

#define COMMS 2100   /* more than MPICH has at a time */

static void comms_come_and_go(void)
{
    int period = 1, out = my_rank, in[2], beside[2];
    for (int i = 0; i < COMMS; i++, out++) {
        MPI_Comm ring;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &period, 0, &ring);
        MPI_Cart_shift(ring, 0, 1, &beside[0], &beside[1]);
        MPI_Neighbor_allgather(&out, 1, MPI_INT, in, 1, MPI_INT, ring);
        for (int k = 0; k < 2; k++) expect_equal(in[k], beside[k] + i, "what came");
        MPI_Comm_free(&ring);
    }
    report("%d communicators", COMMS);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    const char *what = argc > 1 ? argv[argc - 1] : "";
    bool one = !strcmp(what, "one"), found = !strcmp(what, "found"), few = found || !strcmp(what, "few");
    if (few) resources_watch_compiles();
    if (few) mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));   /* a device is in use: commits compile for it */
    if (one && num_ranks > 1) errors();   /* before the types of the halo: its kernel is compiled before theirs */
    halo_make();
    if (few) few_compiles(found);
    for (int i = 0; one && i < FORMS; i++)
        if (form_of(i) == (enum form)i) in_one_launch((enum form)i);
    if (!few) in_memory(0, "device memory");
    if (!few) in_memory(~0, "host memory");
    if (!few) in_memory(0x55, "host memory on some ranks");
    halo_free();
    if (one && num_ranks == 2) comms_come_and_go();
    return check_finish();
}
