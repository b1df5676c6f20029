/* stream_many.c: many messages in stream order at once: dozens of edges between two ranks in one collective, calls of
 * two dozen messages of all kinds, and several streams that wait at once; also where nothing is compiled. "bare": the
 * last rank has not started CUDA.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: SIMGPU_EAGER=1 -n 3
 * run: -n 1
 * run: -n 2 gpus
 * run: -n 3 bare
 * run: SIMGPU_NVRTC_FAIL=1 -n 2
 */
#include "../../runtime/api/stridec.h"
#include "check.h"
#include "persistent.h"
#include "resources.h"
#include "ring.h"
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 3
#define COUNT 30

static bool gpus;
static cudaStream_t stream;

/* ---- a collective with more edges between two ranks than it has tags ---- */

#define EDGES 130
#define ROOM 8   /* ints of an edge */

struct edges {
    enum mem_kind kind[2];   /* of what is sent, and received */
    int *out, *in, *host;
    int count[EDGES], turn;
    MPI_Aint at[EDGES];
    MPI_Datatype type[EDGES], apart;
    MPI_Comm comm;
    MPI_Request request;
};

static int value(int rank, int turn, int edge, int i)
{
    return ((rank * 100 + turn) * EDGES + edge) * ROOM + i;
}

static MPI_Comm listed(int n)
{
    MPI_Comm comm;
    int from[EDGES], to[EDGES], weight[EDGES];
    for (int i = 0; i < n; i++) from[i] = ring_before(), to[i] = ring_after(), weight[i] = 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n, from, weight, n, to, weight, MPI_INFO_NULL, 0, &comm);
    return comm;
}

/* Edge i has 1 to 4 ints, every second one of its room where i is odd; some have none. */
static bool edges_make(struct edges *e, enum mem_kind out, enum mem_kind in)
{
    e->kind[0] = out, e->kind[1] = in, e->turn = 0;
    e->host = malloc(EDGES * ROOM * sizeof(int));
    e->out = mem_alloc(out, EDGES * ROOM * sizeof(int)), e->in = mem_alloc(in, EDGES * ROOM * sizeof(int));
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &e->apart);
    MPI_Type_commit(&e->apart);
    for (int i = 0; i < EDGES; i++) {
        e->count[i] = i % 5, e->at[i] = (MPI_Aint)((size_t)i * ROOM * sizeof(int));
        e->type[i] = i % 2 ? e->apart : MPI_INT;
    }
    e->comm = listed(EDGES);
    return PERSISTENT_INIT(Neighbor_alltoallw, &e->request, e->out, e->count, e->at, e->type, e->in, e->count, e->at,
                           e->type, e->comm) == MPI_SUCCESS;
}

static void edges_free(struct edges *e)
{
    MPI_Request_free(&e->request);
    MPI_Comm_free(&e->comm);
    MPI_Type_free(&e->apart);
    mem_free(e->kind[0], e->out), mem_free(e->kind[1], e->in), free(e->host);
}

static void edges_fill(struct edges *e)
{
    e->turn++;
    memset(e->host, 0, EDGES * ROOM * sizeof(int));
    mem_write(e->kind[1], e->in, e->host, EDGES * ROOM * sizeof(int));
    for (int i = 0; i < EDGES * ROOM; i++) e->host[i] = value(my_rank, e->turn, i / ROOM, i % ROOM);
    mem_write(e->kind[0], e->out, e->host, EDGES * ROOM * sizeof(int));
}

static void edges_check(struct edges *e, const char *what)
{
    int wrong = 0, at = 0;
    mem_read(e->kind[1], e->host, e->in, EDGES * ROOM * sizeof(int));
    for (int i = 0; i < EDGES * ROOM; i++) {
        int edge = i / ROOM, step = edge % 2 ? 2 : 1, k = i % ROOM;
        bool sent = k % step == 0 && k / step < e->count[edge];
        if (e->host[i] != (sent ? value(ring_before(), e->turn, edge, k) : 0) && !wrong++) at = i;
    }
    expect(!wrong, "%s: %d ints are wrong, the first at %d", what, wrong, at);
}

static void edges_start(void *of)
{
    struct edges *e = of;
    if (e->turn % 2) {
        expect_equal(stridec_exchange_on(1, &e->request, stream), STRIDEC_OK, "an exchange by many edges");
        return;
    }
    expect_equal(stridec_start_on(1, &e->request, stream), STRIDEC_OK, "a start of many edges");
    expect_equal(stridec_wait_on(1, &e->request, stream), STRIDEC_OK, "a wait for many edges");
}

static void many_edges(void)
{
    struct edges e;
    if (!edges_make(&e, MEM_DEVICE, MEM_DEVICE)) expect(false, "no request");
    for (int i = 0; i < STEPS; i++) {
        edges_fill(&e), edges_start(&e);
        cudaStreamSynchronize(stream);
        edges_check(&e, "many edges");
    }
    cudaGraphExec_t ready = ring_graph(stream, edges_start, &e);
    for (int i = 0; i < STEPS; i++) {
        edges_fill(&e);
        cudaGraphLaunch(ready, stream), cudaStreamSynchronize(stream);
        edges_check(&e, "many edges in a graph");
    }
    cudaGraphExecDestroy(ready);
    edges_free(&e);
}

/* The last rank's data lie in host memory: on all ranks the MPI carries some of the messages. */
static void host_memory(void)
{
    enum mem_kind kind = my_rank == num_ranks - 1 ? MEM_HOST : MEM_DEVICE;
    struct edges e;
    if (!edges_make(&e, kind, kind)) expect(false, "no request");
    for (int i = 0; i < STEPS; i++) {
        edges_fill(&e);
        int started = stridec_start_on(1, &e.request, stream), waited = stridec_wait_on(1, &e.request, stream);
        expect_equal(waited, STRIDEC_HOST, "a wait beside host memory");
        if (i) expect_equal(started, STRIDEC_HOST, "a start beside host memory");
        if (stream) cudaStreamSynchronize(stream);   /* others of the messages go by it */
        edges_check(&e, "beside host memory");
    }
    edges_free(&e);
}

/* One rank sends from one device and receives on the other, which the other ranks don't know. */
static void two_devices(void)
{
    struct edges e;
    int *first, devices = 0;
    cudaGetDeviceCount(&devices);
    if (devices < 2) return;
    if (!edges_make(&e, MEM_DEVICE, MEM_DEVICE)) expect(false, "no request");
    MPI_Request_free(&e.request);
    first = e.in;
    cudaSetDevice(my_rank ? 0 : 1), e.in = mem_alloc(MEM_DEVICE, EDGES * ROOM * sizeof(int)), cudaSetDevice(0);
    PERSISTENT_INIT(Neighbor_alltoallw, &e.request, e.out, e.count, e.at, e.type, e.in, e.count, e.at, e.type, e.comm);
    for (int i = 0; i < STEPS; i++) {
        edges_fill(&e);
        int result = my_rank == 0 || my_rank == num_ranks - 1 ? STRIDEC_HOST : STRIDEC_OK;   /* who sends to rank 0 */
        int started = stridec_start_on(1, &e.request, stream);
        if (i) expect_equal(started, result, "a start on two devices");
        expect_equal(stridec_wait_on(1, &e.request, stream), result, "a wait on two devices");
        cudaStreamSynchronize(stream);
        edges_check(&e, "two devices");
    }
    mem_free(MEM_DEVICE, first);
    edges_free(&e);
}

/* ---- calls of many messages ---- */

#define MESSAGES 24
#define LONG 4600   /* elements: more than 4 MiB */

/* Two links of a kernel's list each (an odd number of bytes), irregular layouts, and one that is long. */
static void messages_make(struct ring r[])
{
    for (int k = 0; k < MESSAGES; k++) {
        if (k % 8 == 3) ring_make(&r[k], 6, 1, COUNT, 20 + k, MPI_COMM_WORLD);
        else if (k == 0) ring_make(&r[k], 1, 0, LONG, 20 + k, MPI_COMM_WORLD);
        else ring_bytes(&r[k], 1001 + 2 * k, 20 + k, MPI_COMM_WORLD);
    }
}

struct call {
    struct ring *ring;
    int n;
};

static void call_enqueue(void *of)
{
    const struct call *c = of;
    MPI_Request all[2 * MESSAGES];
    for (int k = 0; k < c->n; k++) {
        memcpy(&all[2 * k], c->ring[k].request, 2 * sizeof *all);
        ring_copy(&c->ring[k], stream);
    }
    if (c->n % 2 == 0 || my_rank == 0) {
        expect_equal(stridec_start_on(2 * c->n, all, stream), STRIDEC_OK, "a start of many");
        expect_equal(stridec_wait_on(2 * c->n, all, stream), STRIDEC_OK, "a wait for many");
    } else {
        expect_equal(stridec_exchange_on(2 * c->n, all, stream), STRIDEC_OK, "an exchange of many");
    }
}

static void call_check(const struct call *c, const char *what)
{
    cudaStreamSynchronize(stream);
    for (int k = 0; k < c->n; k++)
        if (!ring_check(&c->ring[k], 1, what)) expect(false, "%s, number %d of %d", what, k, c->n);
}

static void many_messages(void)
{
    struct ring r[MESSAGES];
    const int few[] = {MESSAGES, 13, 14, 15, 16, 17};
    messages_make(r);
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        struct call c = {few[i] < MESSAGES ? r + MESSAGES - few[i] : r, few[i]};   /* without the long one */
        for (int k = 0; k < c.n; k++) ring_fill(&c.ring[k]);
        call_enqueue(&c);
        call_check(&c, "many messages");
    }
    for (int n = MESSAGES; n >= 15; n -= MESSAGES - 15) {
        struct call c = {r + MESSAGES - n, n};
        cudaGraphExec_t ready = ring_graph(stream, call_enqueue, &c);
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < n; k++) ring_fill(&c.ring[k]);
            cudaGraphLaunch(ready, stream);
            call_check(&c, "many messages in a graph");
        }
        cudaGraphExecDestroy(ready);
    }
    for (int k = 0; k < MESSAGES; k++) ring_free(&r[k]);
}

/* ---- streams that wait at once ---- */

#define STREAMS 4

/* Each stream waits for a message, and sends on what it brought as the next stream's message. The first message is sent
 * by one more stream, when all wait. */
static void streams_wait(void)
{
    struct ring r[STREAMS];
    cudaStream_t s[STREAMS];
    for (int k = 0; k < STREAMS; k++) {
        ring_make(&r[k], 1, 1, COUNT, 50 + k, MPI_COMM_WORLD);
        cudaStreamCreateWithFlags(&s[k], cudaStreamNonBlocking);
        ring_fill(&r[k]), ring_copy(&r[k], stream);
        stridec_start_on(2, r[k].request, stream), stridec_wait_on(2, r[k].request, stream);
    }
    cudaStreamSynchronize(stream);
    for (int i = 0; i < STEPS; i++) {
        ring_fill(&r[0]);
        ring_copy(&r[0], stream);
        cudaStreamSynchronize(stream);
        for (int k = STREAMS; k--;) {
            stridec_start_on(1, &r[k].request[0], s[k]);
            expect_equal(stridec_wait_on(1, &r[k].request[0], s[k]), STRIDEC_OK, "a wait of one of the streams");
            if (k == STREAMS - 1) continue;
            cudaMemcpyAsync(r[k + 1].out.base, r[k].in.base, r[k].out.bytes, cudaMemcpyDeviceToDevice, s[k]);
            stridec_start_on(1, &r[k + 1].request[1], s[k]);
        }
        stridec_start_on(1, &r[0].request[1], stream);
        for (int k = 0; k < STREAMS; k++)
            expect_equal(stridec_wait_on(1, &r[k].request[1], stream), STRIDEC_OK, "a wait for a send");
        cudaDeviceSynchronize();
        for (int k = 0; k < STREAMS; k++) {
            r[k].salt = r[0].salt;
            ring_check(&r[k], k + 1, "a message of one of the streams");
        }
    }
    for (int k = 0; k < STREAMS; k++) ring_free(&r[k]), cudaStreamDestroy(s[k]);
}

static void run(void)
{
    struct resources now;
    resources_now(&now);
    bool at_once = !now.simulated || (num_ranks > 1 && !gpus);   /* a simulated kernel that waits runs alone */
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (HAVE_PERSISTENT) many_edges();
    report("more edges between two ranks than tags");
    if (HAVE_PERSISTENT) host_memory();
    report("a rank with host memory");
    if (HAVE_PERSISTENT && !gpus) two_devices();
    report("memory of two devices");
    many_messages();
    report("many messages in a call");
    if (at_once) streams_wait();
    report("streams that wait at once");
    cudaStreamDestroy(stream);
}

int main(int argc, char **argv)
{
    bool bare = false;
    for (int i = 1; i < argc; i++) gpus |= !strcmp(argv[i], "gpus"), bare |= !strcmp(argv[i], "bare");
    check_start(&argc, &argv, -1);
    if (gpus) cudaSetDevice(my_rank);
    if (bare && my_rank < num_ranks - 1) cudaFree(NULL);
    MPI_Barrier(MPI_COMM_WORLD);   /* from here on collectives may go zero-copy */
    if (!bare) run();
    else if (HAVE_PERSISTENT) host_memory();
    report("all of it");
    return check_finish();
}
