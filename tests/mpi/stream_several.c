/* stream_several.c: messages from several allocations, by absolute addresses, in the order of a CUDA stream, and in
 * graphs: fields, particles, lists, received into the like, into one allocation, contiguously, cut elsewhere; too many
 * parts. "gpus": a GPU for each rank, so that kernels wait for each other; the simulated one counts them. "posted": to
 * other nodes. "plain": the MPI carries all.
 *
 * run: -n 2
 * run: -n 2 gpus
 * run: -n 1
 * run: -n 3
 * run: SIMGPU_EAGER=1 -n 2
 * run: SIMGPU_FAIL=cuIpcOpenMemHandle:7+ -n 2 bytes
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2
 * run: NODES=2 -n 2 posted
 * run: SIMGPU_MEM_OPS=0 -n 2 plain
 */
#include "../../runtime/api/stridec.h"
#include "places.h"
#include "resources.h"
#include "ring.h"
#include <stdlib.h>
#include <string.h>

#define STEPS 3
#define LAUNCHES 5
#define SHAPES 4

static bool gpus, posted, plain, bytes_only;
static cudaStream_t stream;
static double number = 1;   /* of the next step's data on rank 0 */

/* A message to the next rank and one from the rank before. */
struct message {
    struct place from, to;
    MPI_Request request[2];
};

static void message_make(struct message *m, const struct shape *from, const struct shape *to)
{
    place_make(&m->from, from), place_make(&m->to, to);
    MPI_Recv_init(MPI_BOTTOM, 1, m->to.type, ring_before(), 7, MPI_COMM_WORLD, &m->request[0]);
    MPI_Send_init(MPI_BOTTOM, 1, m->from.type, ring_after(), 7, MPI_COMM_WORLD, &m->request[1]);
}

static void message_free(struct message *m)
{
    MPI_Request_free(&m->request[0]), MPI_Request_free(&m->request[1]);
    place_free(&m->from), place_free(&m->to);
}

static double number_of(int rank)
{
    return number + 10000 * rank;
}

static void begin(struct message *m)
{
    number += 1000000;
    place_clear(&m->from), place_clear(&m->to);
    place_fill(&m->from, number_of(my_rank), true);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void end(struct message *m)
{
    cudaStreamSynchronize(stream);
    place_fill(&m->to, number_of(ring_before()), false);
    place_check(&m->from, "what was sent"), place_check(&m->to, m->from.shape->name);
}

static void expect_result(int got, const struct message *m)
{
    int want = plain ? STRIDEC_HOST : STRIDEC_OK;
    expect(bytes_only || got == want, "%s into %s ends with %d, not %d", m->from.shape->name, m->to.shape->name, got,
           want);
}

static void steps(struct message *m)
{
    for (int i = 0; i < STEPS; i++) {
        begin(m);
        int result;
        if (i % 2) result = stridec_exchange_on(2, m->request, stream);
        else stridec_start_on(2, m->request, stream), result = stridec_wait_on(2, m->request, stream);
        if (i || !posted) expect_result(result, m);
        end(m);
    }
}

static void exchange(void *of)
{
    struct message *m = of;
    expect_result(stridec_exchange_on(2, m->request, stream), m);
}

static void graph(struct message *m)
{
    cudaGraphExec_t ready = ring_graph(stream, exchange, m);
    for (int i = 0; i < LAUNCHES && ready; i++) {
        begin(m);
        cudaGraphLaunch(ready, stream);
        end(m);
    }
    if (ready) cudaGraphExecDestroy(ready);
}

/* Short nests of all allocations are one kernel. */
static void one_kernel(struct message *m)
{
    struct resources before, after;
    begin(m);
    resources_now(&before);
    exchange(m);
    end(m);
    resources_now(&after);
    if (before.simulated) expect_equal(after.launches - before.launches, 1, "kernels of an exchange");
}

static void pass(const struct shape *from, const struct shape *to)
{
    struct message m;
    message_make(&m, from, to);
    steps(&m);
    if (!plain && !bytes_only) graph(&m);
    if (gpus && !strcmp(from->name, "four fields") && from == to) one_kernel(&m);
    message_free(&m);
    report("%s into %s", from->name, to->name);
}

int main(int argc, char **argv)
{
    static struct shape from[SHAPES], flat, one, other;
    for (int i = 1; i < argc; i++) {
        gpus |= !strcmp(argv[i], "gpus"), posted |= !strcmp(argv[i], "posted");
        plain |= !strcmp(argv[i], "plain"), bytes_only |= !strcmp(argv[i], "bytes");
    }
    check_start(&argc, &argv, posted ? MPI_THREAD_MULTIPLE : -1);
    if (gpus) cudaSetDevice(my_rank);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    shapes_make(&from[0], &from[1], &from[2], &from[3]);
    flat = (struct shape){.name = "contiguous memory", .kind = MEM_DEVICE};
    shape_add(&flat, 2, 100, 1500, 1);
    other = (struct shape){.name = "two arrays, cut elsewhere", .kind = MEM_DEVICE};
    shape_add(&other, 1, 0, 700, 5), shape_add(&other, 0, 0, 800, 4);
    for (int i = 0; i < SHAPES; i++) {
        one = from[i], one.name = "the same in one allocation", one.together = true;
        pass(&from[i], &from[i]);
        pass(&from[i], &one);
        pass(&one, &from[i]);
        pass(&from[i], &flat);
        pass(&from[i], &other);
        pass(&one, &other);
    }
    cudaStreamDestroy(stream);
    return check_finish();
}
