/* neighbors.c: the collectives among neighbours, in every form, with typed device buffers: on cartesian grids with and
 * without edges, graphs and distributed graphs. What comes from nobody leaves its block as it was. "many": more
 * grids at once than stridec has edges for; an MPI may have some 2,000 communicators in all.
 *
 * run: -n 1
 * run: -n 3
 * run: -n 4
 * run: STRIDEC_TRANSPORT=zerocopy -n 3 behind
 * run: -n 2 many
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 3 --host packed
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 3
 */
#include "jobs.h"
#include "persistent.h"
#include <stdlib.h>
#include <string.h>

#define ROUNDS 4

static bool packed;   /* in host memory, by stridec */

static void check_calls(struct round *r, const char *where)
{
    for (int i = 0; i < neighbor_call_count; i++) {
        long before = hosted_operands();
        bool any = false;
        for (enum form form = 0; form < FORMS; form++) {
            if (!form_exists(form) || !mpi_can(&neighbor_calls[i], r, form)) continue;
            for (r->number = 0; r->number < ROUNDS; r->number++) run_data(&neighbor_calls[i], r, form);
            any = r->n_sources && r->n_targets;
        }
        expect(!packed || !any || hosted_operands() > before, "not packed by stridec");
        report("%s on %s", neighbor_calls[i].name, where);
    }
    MPI_Comm_free(&r->comm);
}

static void on_grid(int dims, bool periodic, const char *where)
{
    int sizes[3] = {0}, periods[3] = {periodic, periodic, periodic};
    struct round r;
    MPI_Comm grid;
    MPI_Dims_create(num_ranks, dims, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, dims, sizes, periods, 0, &grid);
    round_all(&r, grid);
    r.n_sources = r.n_targets = 2 * dims;
    for (int i = 0; i < dims; i++) MPI_Cart_shift(grid, i, 1, &r.sources[2 * i], &r.sources[2 * i + 1]);
    for (int i = 0; i < 2 * dims; i++) r.targets[i] = r.sources[i];
    check_calls(&r, where);
}

/* A star: everyone and the first rank. */
static void on_graph(void)
{
    int index[PEERS], edges[2 * PEERS], n = 0;
    struct round r;
    MPI_Comm graph;
    for (int i = 1; i < num_ranks; i++) edges[n++] = i;
    for (int i = 0; i < num_ranks; i++) index[i] = num_ranks - 1 + i;
    for (int i = 1; i < num_ranks; i++) edges[n++] = 0;
    MPI_Graph_create(MPI_COMM_WORLD, num_ranks, index, edges, 0, &graph);
    round_all(&r, graph);
    MPI_Graph_neighbors_count(graph, r.rank, &n);
    MPI_Graph_neighbors(graph, r.rank, n, r.sources);
    MPI_Graph_neighbors(graph, r.rank, n, r.targets);
    r.n_sources = r.n_targets = n;
    check_calls(&r, "a graph");
}

/* Everyone sends to the next two; the last rank to nobody. */
static void on_distributed_graph(void)
{
    struct round r;
    MPI_Comm graph;
    int n_in = 0, n_out = 0, in[PEERS], out[PEERS], weights[PEERS] = {0};
    for (int from = 0; from < num_ranks - 1; from++) {
        for (int step = 1; step <= 2; step++) {
            int to = (from + step) % num_ranks;
            if (to == my_rank) in[n_in++] = from;
            if (from == my_rank) out[n_out++] = to;
        }
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n_in, in, weights, n_out, out, weights, MPI_INFO_NULL, 0, &graph);
    round_all(&r, graph);
    r.n_sources = n_in, r.n_targets = n_out;
    for (int i = 0; i < n_in; i++) r.sources[i] = in[i];
    for (int i = 0; i < n_out; i++) r.targets[i] = out[i];
    check_calls(&r, "a distributed graph");
}

/* Several edges between two ranks, and to itself, in orders that differ at the two ends. */
static void on_repeated_edges(void)
{
    struct round r;
    MPI_Comm graph;
    int next = (my_rank + 1) % num_ranks, before = (my_rank + num_ranks - 1) % num_ranks;
    int out[] = {next, my_rank, next, before, next, my_rank}, in[] = {my_rank, before, next, before, my_rank, before};
    int n = sizeof out / sizeof *out, weights[] = {1, 1, 1, 1, 1, 1};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n, in, weights, n, out, weights, MPI_INFO_NULL, 0, &graph);
    round_all(&r, graph);
    r.n_sources = r.n_targets = n;
    for (int i = 0; i < n; i++) r.sources[i] = in[i], r.targets[i] = out[i];
    check_calls(&r, "repeated edges");
}

/* A rank that waits for its peer to read goes on receiving from it, though messages of the next collective are
 * there: one rank is ahead of the first, the reader sends the first a long message before it comes. */
static void behind(void)
{
    enum { FIRST, READER, AHEAD, LONG = 1 << 20, BLOCKS = 4096, ROUNDS_WARM = 3 };
    int from = my_rank == READER ? FIRST : AHEAD, to = my_rank == FIRST ? READER : FIRST, weight = 1;
    char *message = calloc(LONG, 1);
    struct layout l;
    struct buf b;
    MPI_Comm graph;
    MPI_Datatype strided;
    MPI_Request request;
    MPI_Type_vector(BLOCKS, 2, 4, MPI_INT, &strided);
    type_commit(&strided);
    layout_of(&l, strided, 1, "pairs of ints");
    buf_make(&b, MEM_DEVICE, &l, 0, 40 + (uint64_t)my_rank);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, my_rank != AHEAD, &from, &weight, my_rank != READER, &to, &weight,
                                   MPI_INFO_NULL, 0, &graph);
    for (int round = 0; round < ROUNDS_WARM + 2; round++) {
        bool now = round == ROUNDS_WARM;
        if (now && my_rank == FIRST) {
            MPI_Irecv(message, LONG, MPI_CHAR, READER, 1, MPI_COMM_WORLD, &request);
            MPI_Recv(NULL, 0, MPI_CHAR, AHEAD, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(NULL, 0, MPI_CHAR, READER, 2, MPI_COMM_WORLD);
        }
        if (now && my_rank == READER) {
            MPI_Recv(NULL, 0, MPI_CHAR, FIRST, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(message, LONG, MPI_CHAR, FIRST, 1, MPI_COMM_WORLD);
        }
        MPI_Neighbor_alltoall(b.origin, my_rank == FIRST, strided, b.origin, my_rank == READER, strided, graph);
        if (round == ROUNDS_WARM + 1 && my_rank == AHEAD) MPI_Send(NULL, 0, MPI_CHAR, FIRST, 2, MPI_COMM_WORLD);
    }
    if (my_rank == FIRST) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (my_rank == READER) buf_expect_from(&b, &l, &l, 40 + FIRST);
    buf_check(&b, "of a neighbourhood whose first rank waits");
    report("a rank that waits for its peer to read receives from it");
    buf_free(&b), layout_free(&l);
    free(message);
    MPI_Comm_free(&graph);
}

static void many_grids(void)
{
    enum { MANY = 1200 };
    static MPI_Comm comm[MANY];
    int period = 1, wrong = 0;
    void *device = mem_alloc(MEM_DEVICE, 64);
    for (int i = 0; i < MANY; i++) MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &period, 0, &comm[i]);
    for (int i = 0; i < MANY; i += 99) {
        int own = my_rank + i, got[2] = {-1, -1};
        mem_write(MEM_DEVICE, device, &own, sizeof own);
        mem_write(MEM_DEVICE, (int *)device + 2, got, sizeof got);
        MPI_Neighbor_allgather(device, 1, MPI_INT, (int *)device + 2, 1, MPI_INT, comm[i]);
        mem_read(MEM_DEVICE, got, (int *)device + 2, sizeof got);
        wrong += got[0] != 1 - my_rank + i || got[1] != 1 - my_rank + i;
    }
    expect_equal(wrong, 0, "grids whose neighbours bring something else");
    for (int i = 0; i < MANY; i++) MPI_Comm_free(&comm[i]);
    mem_free(MEM_DEVICE, device);
    report("many grids");
}

/* Two persistent exchanges, of which one is made long after the other, and which ranks start in different orders. */
static void many_requests(void)
{
#if HAVE_PERSISTENT
    enum { MANY = 495 };   /* as many as have tags of their own among the 32768 that any MPI has */
    MPI_Request q[2];
    MPI_Comm ring;
    struct layout l;
    struct buf in[2], out[2];
    int wrong = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &(int){1}, 0, &ring);
    layout_number(&l, 1, 30);
    for (int i = 0; i < 2; i++) {
        buf_make(&in[i], MEM_DEVICE, &l, 0, 5), buf_make(&out[i], MEM_DEVICE, &l, 0, (uint64_t)(100 * i + my_rank));
        int half = l.count / 2;
        PERSISTENT_INIT(Neighbor_alltoall, &q[i], out[i].origin, half, l.type, in[i].origin, half, l.type, ring);
        for (int k = 0; k < MANY - 1 && !i; k++) {
            MPI_Request other;
            PERSISTENT_INIT(Neighbor_alltoall, &other, out[i].origin, 1, l.type, in[i].origin, 1, l.type, ring);
            MPI_Request_free(&other);
        }
    }
    for (int i = 0; i < 2; i++) MPI_Start(&q[my_rank % 2 ? 1 - i : i]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        int half = l.bytes / 2;
        unsigned char *all = layout_packed(&l, (uint64_t)(100 * i + (my_rank ^ 1))), *turned = malloc((size_t)l.bytes);
        memcpy(turned, all + half, (size_t)half), memcpy(turned + half, all, (size_t)half);
        buf_expect(&in[i], &l, turned, l.bytes);
        wrong += !buf_check(&in[i], i ? "the later one" : "the first one");
        free(all), free(turned);
        MPI_Request_free(&q[i]), buf_free(&in[i]), buf_free(&out[i]);
    }
    expect_equal(wrong, 0, "wrong exchanges");
    layout_free(&l);
    MPI_Comm_free(&ring);
    report("many persistent requests");
#endif
}

int main(int argc, char **argv)
{
    if (!strcmp(argv[argc - 1], "many")) {
        check_start(&argc, &argv, -1);
        many_grids();
        many_requests();
        return check_finish();
    }
    bool alone = !strcmp(argv[argc - 1], "behind");
    packed = !strcmp(argv[argc - 1], "packed") && !getenv("MPI_TEST_HOST");
    check_start(&argc, &argv, -1);
    if (alone) return behind(), check_finish();
    on_grid(1, true, "a ring");
    on_grid(1, false, "a line");
    on_grid(2, true, "a torus");
    on_grid(2, false, "a grid with edges");
    on_grid(3, true, "a torus of three dimensions");
    on_grid(3, false, "a box with edges");
    if (num_ranks > 1) on_graph();
    on_distributed_graph();
    on_repeated_edges();
    return check_finish();
}
