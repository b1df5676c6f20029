/* stream_collectives.c: persistent collectives in the order of a CUDA stream: neighbourhoods, which make a halo, and
 * others of a node, step by step and in a graph. "plain": where the MPI must carry them the calls say so, and the bytes
 * are the same. "absent": so they do without the library.
 * "gpus": a GPU for each rank, so that kernels wait for each other. "posted": on several nodes neighbourhoods are in
 * stream order from their second time on, others the host's.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: -n 4
 * run: SIMGPU_EAGER=1 -n 3
 * run: -n 1
 * run: -n 2 gpus
 * run: -n 3 gpus
 * run: SIMGPU_MEM_OPS=0 -n 2 plain
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2
 * run: STRIDEC_DISABLE=1 -n 3 --host plain absent
 * run: -n 2 --host plain
 * run: NODES=2 -n 2 posted
 * run: NODES=2 -n 3 posted
 * run: NODES=2 -n 4 posted
 */
#include "../../runtime/api/stridec.h"
#include "check.h"
#include "persistent.h"
#include "resources.h"
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 300   /* a column is longer than a piece that is left to the MPI (exchange.h) */
#define COLS 10
#define CELLS (ROWS * COLS)
#define STEPS 4
#define LAUNCHES 20

static bool plain, posted;
static cudaStream_t stream;
static int turn;

static void *new(size_t bytes)
{
    void *p = NULL;
    if (host_mode) p = malloc(bytes);
    else cudaMalloc(&p, bytes);
    return p;
}
static void delete(void *p)
{
    if (host_mode) free(p);
    else cudaFree(p);
}

/* A field, and the one that a step copies to it before its messages. */
struct field {
    int *source, *cells, *seen;   /* seen: on the host */
    MPI_Request request;
    MPI_Datatype type[2];         /* and the arguments that the MPI may read at each start */
    int count[2];
    MPI_Aint out[2], in[2];
};

static int value(int rank, int step, int cell)
{
    return (rank * 1000 + step) * 10000 + cell;
}

static void field_make(struct field *f)
{
    f->source = new(CELLS * sizeof(int)), f->cells = new(CELLS * sizeof(int));
    f->seen = malloc(CELLS * sizeof(int));
    MPI_Type_vector(ROWS, 1, COLS, MPI_INT, &f->type[0]);
    MPI_Type_create_resized(f->type[0], 0, sizeof(int), &f->type[1]);
    MPI_Type_commit(&f->type[0]), MPI_Type_commit(&f->type[1]);
}
static void field_free(struct field *f)
{
    MPI_Request_free(&f->request);
    MPI_Type_free(&f->type[0]), MPI_Type_free(&f->type[1]);
    delete(f->source), delete(f->cells), free(f->seen);
}
static void field_fill(struct field *f, int step)
{
    for (int i = 0; i < CELLS; i++) f->seen[i] = value(my_rank, step, i);
    if (host_mode) memcpy(f->source, f->seen, CELLS * sizeof(int));
    else cudaMemcpy(f->source, f->seen, CELLS * sizeof(int), cudaMemcpyHostToDevice), cudaDeviceSynchronize();
}
static void field_fetch(struct field *f)
{
    if (host_mode) memcpy(f->seen, f->cells, CELLS * sizeof(int));
    else cudaStreamSynchronize(stream), cudaMemcpy(f->seen, f->cells, CELLS * sizeof(int), cudaMemcpyDeviceToHost);
}

static void expect_columns(const struct field *f, int at, int rank, int from, int step, const char *name)
{
    for (int i = 0; i < ROWS; i++) {
        int want = value(rank, step, i * COLS + from), got = f->seen[i * COLS + at];
        if (got != want) {
            expect(false, "%s, step %d: row %d of column %d is %d, not %d", name, step, i, at, got, want);
            return;
        }
    }
    expect(true, "%s", name);
}

/* ---- kinds: each makes its request on a field, and checks a field after a step ---- */

struct kind {
    const char *name;
    int (*make)(struct field *f);
    void (*check)(const struct field *f, int step, const char *name);
    bool several;   /* the MPI's own in a world of one rank, and on several nodes */
};

static MPI_Comm ring = MPI_COMM_NULL;   /* periodic, one dimension */

static int before(void)
{
    return (my_rank + num_ranks - 1) % num_ranks;
}
static int after(void)
{
    return (my_rank + 1) % num_ranks;
}

/* The second column goes to the rank before, the last but one to the next; halos are the outermost. */
static int make_halo(struct field *f)
{
    MPI_Type_free(&f->type[1]), MPI_Type_dup(f->type[0], &f->type[1]);
    f->count[0] = f->count[1] = 1;
    f->out[0] = sizeof(int), f->out[1] = (COLS - 2) * sizeof(int);
    f->in[0] = 0, f->in[1] = (COLS - 1) * sizeof(int);
    return PERSISTENT_INIT(Neighbor_alltoallw, &f->request, f->cells, f->count, f->out, f->type, f->cells, f->count,
                           f->in, f->type, ring);
}
static void check_halo(const struct field *f, int step, const char *name)
{
    expect_columns(f, 0, before(), COLS - 2, step, name);
    expect_columns(f, COLS - 1, after(), 1, step, name);
    expect_columns(f, 2, my_rank, 2, step, name);
}

/* The first column goes to both; columns 4 and 5 receive. */
static int make_gather(struct field *f)
{
    return PERSISTENT_INIT(Neighbor_allgather, &f->request, f->cells, 1, f->type[1], f->cells + 4, 1, f->type[1], ring);
}
static void check_gather(const struct field *f, int step, const char *name)
{
    expect_columns(f, 4, before(), 0, step, name);
    expect_columns(f, 5, after(), 0, step, name);
    expect_columns(f, 6, my_rank, 6, step, name);
}

/* Column r goes to rank r and arrives in column 4 + the sender. */
static int make_alltoall(struct field *f)
{
    return PERSISTENT_INIT(Alltoall, &f->request, f->cells, 1, f->type[1], f->cells + 4, 1, f->type[1], MPI_COMM_WORLD);
}
static void check_alltoall(const struct field *f, int step, const char *name)
{
    for (int r = 0; r < num_ranks; r++) expect_columns(f, 4 + r, r, my_rank, step, name);
}

static int make_bcast(struct field *f)
{
    return PERSISTENT_INIT(Bcast, &f->request, f->cells + 3, 1, f->type[0], num_ranks - 1, MPI_COMM_WORLD);
}
static void check_bcast(const struct field *f, int step, const char *name)
{
    expect_columns(f, 3, num_ranks - 1, 3, step, name);
    expect_columns(f, 4, my_rank, 4, step, name);
}

static const struct kind kinds[] = {
    {"MPI_Neighbor_alltoallw_init", make_halo, check_halo, false},
    {"MPI_Neighbor_allgather_init", make_gather, check_gather, false},
    {"MPI_Alltoall_init", make_alltoall, check_alltoall, true},
    {"MPI_Bcast_init", make_bcast, check_bcast, true},
};

/* ---- steps ---- */

static void exchange(struct field *f, bool first, const struct kind *k)
{
    bool hosts = plain || (posted && (k->several || first));
    if (host_mode) memcpy(f->cells, f->source, CELLS * sizeof(int));
    else cudaMemcpyAsync(f->cells, f->source, CELLS * sizeof(int), cudaMemcpyDeviceToDevice, stream);
    int started = stridec_start_on(1, &f->request, stream), waited = stridec_wait_on(1, &f->request, stream);
    expect_equal(waited, hosts ? STRIDEC_HOST : STRIDEC_OK, k->name);
    if (!first) expect_equal(started, waited, k->name);
}

static void steps(const struct kind *k, struct field *f, bool first)
{
    for (int i = 0; i < STEPS; i++) {
        field_fill(f, ++turn);
        exchange(f, first && i == 0, k);
        field_fetch(f);
        k->check(f, turn, k->name);
    }
}

static void launches(const struct kind *k, struct field *f)
{
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    exchange(f, false, k);
    cudaStreamEndCapture(stream, &graph);
    expect(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess, "%s: a graph", k->name);
    for (int i = 0; i < LAUNCHES; i++) {
        field_fill(f, ++turn);
        cudaGraphLaunch(ready, stream);
        field_fetch(f);
        k->check(f, turn, k->name);
    }
    cudaGraphExecDestroy(ready), cudaGraphDestroy(graph);
}

/* In a graph alone, and by MPI_Start beside: both are refused, and nothing has begun. */
static void refused(const struct kind *k, struct field *f)
{
    cudaGraph_t graph = NULL;
    struct field fresh;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect_equal(error_class(MPI_Start(&f->request)), MPI_ERR_REQUEST, k->name);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    field_make(&fresh);
    k->make(&fresh);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    expect_equal(stridec_start_on(1, &fresh.request, stream), STRIDEC_UNABLE, "a first start in a graph");
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    field_free(&fresh);
}

/* In a world of one rank, where no other process shares the GPU: one kernel tells, one waits, moves and answers. */
static void counted(const struct kind *k, struct field *f)
{
    struct resources before, after;
    field_fetch(f);
    resources_now(&before);
    exchange(f, false, k);
    field_fetch(f);
    resources_now(&after);
    if (before.simulated) expect_equal(after.launches - before.launches, 2, "launches of a step");
}

/* Runs a request that the MPI starts, as without stridec's calls, and makes one that nobody starts. Of two ranks on a
 * ring Open MPI 4.1 takes the one neighbour's message for the other's. */
static void by_mpi(const struct kind *k)
{
    struct field f[2];
    for (int i = 0; i < 2; i++) {
        field_make(&f[i]);
        if (k->make(&f[i]) != MPI_SUCCESS) expect(false, "%s: no request", k->name);
    }
    for (int i = 0; i < 2; i++) {
        field_fill(&f[0], ++turn);
        cudaMemcpy(f[0].cells, f[0].source, CELLS * sizeof(int), cudaMemcpyDeviceToDevice), cudaDeviceSynchronize();
        MPI_Start(&f[0].request), MPI_Wait(&f[0].request, MPI_STATUS_IGNORE);
        field_fetch(&f[0]);
        k->check(&f[0], turn, k->name);
    }
    for (int i = 0; i < 2; i++) field_free(&f[i]);
}

static void run(const struct kind *k)
{
    struct field f;
    field_make(&f);
    if (k->make(&f) != MPI_SUCCESS) expect(false, "%s: no request", k->name);
    if (posted && num_ranks > 2) by_mpi(k);
    bool ordered = !plain && !(posted && k->several);
    steps(k, &f, true);
    if (ordered) launches(k, &f), refused(k, &f), steps(k, &f, false);
    if (!plain && num_ranks == 1) counted(k, &f);
    field_free(&f);
    report("%s", k->name);
}

int main(int argc, char **argv)
{
    bool absent = false, gpus = false;
    int periodic = 1, size;
    for (int i = 1; i < argc; i++) {
        plain |= !strcmp(argv[i], "plain"), absent |= !strcmp(argv[i], "absent");
        gpus |= !strcmp(argv[i], "gpus"), posted |= !strcmp(argv[i], "posted");
    }
    check_start(&argc, &argv, posted ? MPI_THREAD_MULTIPLE : -1);
    if (gpus) cudaSetDevice(my_rank);
    expect(!absent || !stridec_present(), "the library is there");
    if (!host_mode) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);   /* from here on calls of all ranks may go zero-copy */
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    for (size_t i = 0; HAVE_PERSISTENT && i < sizeof kinds / sizeof *kinds; i++)
        if (num_ranks > 1 || !kinds[i].several) run(&kinds[i]);
    report("collectives in stream order");
    MPI_Comm_free(&ring);
    if (stream) cudaStreamDestroy(stream);
    return check_finish();
}
