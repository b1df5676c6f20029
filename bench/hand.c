/* hand.c: messages of device memory between two ranks, by stridec and as the best would write them by hand.
 *
 * usage: mpirun -n 2 stridec run -- hand [OUT.json]
 *
 * Rank r on GPU r; half round trips. By hand, everything is known before: the layouts are constants of kernels, the
 * other rank's memory is mapped, and the MPI carries a header of 64 bytes, which says that a message is there, in the
 * place that matching gives it. "One kernel": the receiver's kernel reads the other GPU's memory where it lies, and
 * the receiver sets a flag in shared memory when the sender may go on. "Two kernels", for memory that no other process
 * can map (pools): the sender's kernel packs into memory of the receiver's, and each of its blocks sets a flag there,
 * for which the same block of the receiver's kernel waits. Kernels are launched as graphs of one node, whose arguments
 * never change, and tell by a word in pinned memory when they have ended: both is sooner than the plain way.
 *
 * "Contiguous" is MPI_Send and MPI_Recv of as many bytes of memory from cudaMalloc. A ratio to it is what a layout can
 * cost at best; what stridec costs above the ways by hand is its own. Ways are timed by turns, and medians are given.
 * All bytes that arrive are compared, before the timing and after it. Exit status 1 where a byte was wrong. */
#include "hand.h"
#include "together.h"
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)2 << 20)   /* shorter allocations share one, and can't be mapped each */
#define TURNS 12
#define TRIPS 60          /* a turn */

static const struct shape shapes[] = {
    { "1 KiB, rows of 8 B", false, 1, 8, 16, { 128 } },
    { "64 KiB, rows of 256 B", false, 1, 256, 512, { 256 } },
    { "WRF x: 9 arrays, 174 kB, rows of 12 B", false, 9, 12, 128, { 44, 44, 44, 44, 2860, 2860, 2860, 2860, 2860 } },
    { "WRF x: 9 arrays, 63 kB, rows of 12 B", false, 9, 12, 76, { 16, 16, 16, 16, 1040, 1040, 1040, 1040, 1040 } },
    { "pool: 1 KiB, rows of 8 B", true, 1, 8, 16, { 128 } },
    { "pool: 64 KiB, rows of 256 B", true, 1, 256, 512, { 256 } },
    { "pool: 1 MiB, rows of 256 B", true, 1, 256, 512, { 4096 } },
};
#define SHAPES (int)(sizeof(shapes) / sizeof(shapes[0]))

/* --- by the MPI --- */

static bool in_fields(const struct pong *p)
{
    return p->s->fields > 1;
}

static void type_send(struct pong *p)
{
    MPI_Send(in_fields(p) ? MPI_BOTTOM : p->from[0], 1, p->type[0], 1 - p->rank, 2, MPI_COMM_WORLD);
}

static void type_recv(struct pong *p)
{
    MPI_Recv(in_fields(p) ? MPI_BOTTOM : p->to[0], 1, p->type[1], 1 - p->rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void plain_send(struct pong *p)
{
    MPI_Send(p->plain_from, (int)p->bytes, MPI_BYTE, 1 - p->rank, 3, MPI_COMM_WORLD);
}

static void plain_recv(struct pong *p)
{
    MPI_Recv(p->plain_to, (int)p->bytes, MPI_BYTE, 1 - p->rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Their names begin those of a row's members in JSON. */
static const struct way {
    const char *name;
    void (*send)(struct pong *p), (*recv)(struct pong *p);
    bool moves;                       /* the fields */
} ways[] = {
    { "contiguous", plain_send, plain_recv, false },
    { "stridec", type_send, type_recv, true },
    { "hand", hand_send, hand_recv, true },
};
#define WAYS (int)(sizeof(ways) / sizeof(ways[0]))

/* A message each way. */
struct trip {
    struct pong *p;
    const struct way *way;
};

static void trip(void *arg)
{
    struct trip *t = arg;

    if (t->p->rank == 0)
        t->way->send(t->p), t->way->recv(t->p);
    else
        t->way->recv(t->p), t->way->send(t->p);
}

/* --- set-up --- */

static char *memory(const struct shape *s, size_t bytes)
{
    void *at = NULL;

    if (!s->pool)
        return device_new(bytes < BLOCK ? BLOCK : bytes);
    CUDA(cudaMallocAsync(&at, bytes, NULL));
    CUDA(cudaStreamSynchronize(NULL));
    return at;
}

static void memory_free(const struct shape *s, char *at)
{
    if (s->pool)
        CUDA(cudaFreeAsync(at, NULL));
    else
        CUDA(cudaFree(at));
}

static MPI_Datatype type_of(const struct shape *s, char *const at[FIELDS])
{
    MPI_Datatype part[FIELDS], type;
    MPI_Aint places[FIELDS];
    int ones[FIELDS];

    for (int i = 0; i < s->fields; i++) {
        MPI_Type_vector(s->rows[i], s->row, s->stride, MPI_BYTE, &part[i]);
        MPI_Get_address(at[i], &places[i]);
        ones[i] = 1;
    }
    if (s->fields > 1)
        MPI_Type_create_struct(s->fields, ones, places, part, &type);
    else
        MPI_Type_dup(part[0], &type);
    for (int i = 0; i < s->fields; i++)
        MPI_Type_free(&part[i]);
    MPI_Type_commit(&type);
    return type;
}

/* Exchanges handles, and maps the other rank's memory. */
static char *mapped(struct pong *p, void *own)
{
    cudaIpcMemHandle_t mine, theirs;
    void *at;

    CUDA(cudaIpcGetMemHandle(&mine, own));
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, 1 - p->rank, 4, &theirs, sizeof(theirs), MPI_BYTE, 1 - p->rank, 4,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CUDA(cudaIpcOpenMemHandle(&at, theirs, cudaIpcMemLazyEnablePeerAccess));
    return at;
}

static void flags_make(struct pong *p)
{
    MPI_Aint bytes;
    int unit;
    unsigned *own;
    void *there;

    MPI_Win_allocate_shared(sizeof(unsigned), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &p->window);
    MPI_Win_shared_query(p->window, 1 - p->rank, &bytes, &unit, &there);
    p->mine = own, p->others = there;
    *own = 0;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* False where a kernel does not compile. */
static bool pong_make(struct pong *p, const struct shape *s, int rank)
{
    size_t staged;
    void *told;

    *p = (struct pong){ .s = s, .rank = rank };
    for (int i = 0; i < s->fields; i++) {
        p->bytes += (size_t)s->rows[i] * (size_t)s->row;
        p->from[i] = memory(s, field_span(s, i)), p->to[i] = memory(s, field_span(s, i));
        if (!s->pool)
            p->theirs[i] = mapped(p, p->from[i]);
    }
    staged = STAGED(p->bytes) + FLAGS_MOST * sizeof(unsigned);
    p->type[0] = type_of(s, p->from), p->type[1] = type_of(s, p->to);
    p->plain_from = device_new(p->bytes), p->plain_to = device_new(p->bytes);
    p->staging = device_new(BLOCK + staged);
    device_set(p->staging, 0, BLOCK + staged);
    p->their_staging = mapped(p, p->staging);
    p->ran = device_new(2 * KERNELS * sizeof(unsigned));
    device_set(p->ran, 0, 2 * KERNELS * sizeof(unsigned));
    CUDA(cudaMallocHost(&told, KERNELS * sizeof(unsigned)));
    memset(told, 0, KERNELS * sizeof(unsigned));
    p->told = told;
    CUDA(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
    flags_make(p);
    return hand_make(p);
}

static void pong_free(struct pong *p)
{
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < p->s->fields; i++)
        if (p->theirs[i])
            CUDA(cudaIpcCloseMemHandle(p->theirs[i]));
    CUDA(cudaIpcCloseMemHandle(p->their_staging));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < p->s->fields; i++)
        memory_free(p->s, p->from[i]), memory_free(p->s, p->to[i]);
    for (int k = 0; k < 2; k++)
        MPI_Type_free(&p->type[k]);
    MPI_Win_free(&p->window);
    CUDA(cudaFree(p->plain_from)), CUDA(cudaFree(p->plain_to)), CUDA(cudaFree(p->staging)), CUDA(cudaFree(p->ran));
    CUDA(cudaFreeHost((void *)p->told));
    for (int k = 0; k < KERNELS; k++)
        if (p->graph[k])
            CUDA(cudaGraphExecDestroy(p->graph[k]));
    CUDA(cudaStreamDestroy(p->stream));
}

/* --- checked and timed --- */

static bool all_right(struct pong *p)
{
    const struct shape *s = p->s;
    size_t span[FIELDS];
    struct together_fields d = { s->fields, p->from, p->to, span, (size_t)s->row, (size_t)s->stride };
    bool ok = true;

    for (int i = 0; i < s->fields; i++)
        span[i] = field_span(s, i);
    for (int w = 0; w < WAYS; w++)
        ok = (!ways[w].moves || together_right(&d, trip, &(struct trip){ p, &ways[w] }, ways[w].name, NULL)) && ok;
    return ok;
}

/* Returns whether all bytes were right. */
static bool run_shape(FILE *f, const struct shape *s, int rank, bool last)
{
    static double us[WAYS][(TURNS + 1) * TRIPS];
    struct pong p;
    bool made = pong_make(&p, s, rank), ok;

    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    if (!made && rank == 0)
        fprintf(stderr, "hand: its kernels did not compile\n");
    if (!made)
        return pong_free(&p), false;
    together_ready(2, p.type, s->fields > 1 ? MPI_BOTTOM : p.from[0]);
    ok = all_right(&p);
    for (int turn = 0; turn <= TURNS; turn++)   /* the first one warms */
        for (int w = 0; w < WAYS; w++)
            together_trips(trip, &(struct trip){ &p, &ways[w] }, TRIPS, us[w] + (turn ? turn - 1 : TURNS) * TRIPS);
    ok = all_right(&p) && ok;
    if (f)
        fprintf(f, "{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s", s->name, p.bytes, ok ? "true" : "false");
    for (int w = 0; w < WAYS; w++) {
        double median = median_of(us[w], TURNS * TRIPS);

        if (f)
            fprintf(f, ", \"%s_us\": %.2f", ways[w].name, median);
        if (rank == 0)
            fprintf(stderr, "hand: %s: %s %.1f us%s\n", s->name, ways[w].name, median, ok ? "" : ", WRONG BYTES");
    }
    if (f)
        fprintf(f, "}%s\n", last ? "" : ",");
    pong_free(&p);
    return ok;
}

int main(int argc, char **argv)
{
    int rank, ranks, wrong = 0;
    FILE *f = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || !stridec_loaded() || !gpu_select(rank)) {
        if (rank == 0)
            printf("hand: %s\n", ranks != 2 ? "takes two ranks" : !stridec_loaded() ? "stridec is not loaded"
                                                                               : "no GPU found: nothing to measure");
        MPI_Finalize();
        return ranks != 2;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        f = cases_open(argc > 1 ? argv[1] : NULL, argc, argv, "hand");
    for (int i = 0; i < SHAPES; i++)
        wrong += !run_shape(f, &shapes[i], rank, i == SHAPES - 1);
    cases_close(f);
    MPI_Finalize();
    return wrong != 0;
}
