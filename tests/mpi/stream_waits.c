/* stream_waits.c: waits for messages in stream order that do not simply follow their start: on another stream, by
 * several threads, on two devices' default streams, after a graph that was thrown away, and where a later message can't
 * be moved.
 *
 * run: -n 2
 * run: SIMGPU_EAGER=1 -n 2
 * run: -n 1
 */
#include "../../runtime/api/stridec.h"
#include "check.h"
#include "resources.h"
#include "ring.h"
#include <pthread.h>
#include <stdlib.h>

#define COUNT 30
#define STEPS 3
#define ROUNDS 100

static cudaStream_t stream, other;

static void start(struct ring *r, cudaStream_t s)
{
    ring_fill(r), ring_copy(r, s);
    expect_equal(stridec_start_on(2, r->request, s), STRIDEC_OK, "a start");
}
static void wait_for(struct ring *r, cudaStream_t s)
{
    expect_equal(stridec_wait_on(2, r->request, s), STRIDEC_OK, "a wait");
}
static void step(struct ring *r, const char *what)
{
    start(r, stream), wait_for(r, stream);
    cudaStreamSynchronize(stream);
    ring_check(r, 1, what);
}

/* Puts a stream behind what has been put on `stream`. */
static void follow(cudaStream_t s)
{
    cudaEvent_t e;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaEventRecord(e, stream), cudaStreamWaitEvent(s, e, 0);
    cudaEventDestroy(e);
}

/* The wait for a, on the stream of both starts, moves b, too; b's own wait is on another stream. */
static void elsewhere(struct ring *a, struct ring *b)
{
    for (int i = 0; i < STEPS; i++) {
        start(a, stream), start(b, stream);
        follow(other);
        wait_for(a, stream), wait_for(b, other);
        cudaStreamSynchronize(other);
        ring_check(b, 1, "what was waited for on another stream");
        cudaStreamSynchronize(stream);
        ring_check(a, 1, "what was waited for on its own");
    }
    report("waits on two streams");
}

/* Two devices, and the handle of the default stream for both. */
static void devices(void)
{
    struct ring r[2];
    for (int d = 0; d < 2; d++) {
        cudaSetDevice(d);
        ring_make(&r[d], 1, 2, COUNT, 7 + d, MPI_COMM_WORLD);
        start(&r[d], NULL), wait_for(&r[d], NULL);
    }
    for (int i = 0; i < STEPS; i++) {
        for (int d = 0; d < 2; d++) cudaSetDevice(d), start(&r[d], NULL);
        for (int d = 0; d < 2; d++) cudaSetDevice(d), wait_for(&r[d], NULL);
        for (int d = 0; d < 2; d++) {
            cudaSetDevice(d);
            expect_equal(cudaDeviceSynchronize(), cudaSuccess, "a device");
            ring_check(&r[d], 1, "by a default stream");
        }
    }
    for (int d = 0; d < 2; d++) cudaSetDevice(d), ring_free(&r[d]);
    cudaSetDevice(0);
    report("the default streams of two devices");
}

/* A start is captured, and its graph thrown away. */
static void thrown(struct ring *a, struct ring *b)
{
    cudaGraph_t graph = NULL;
    ring_fill(a);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    expect_equal(stridec_start_on(2, a->request, stream), STRIDEC_OK, "a captured start");
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    expect_equal(stridec_wait_on(2, a->request, stream), STRIDEC_INVALID, "a wait for what a graph starts");
    step(a, "after a graph that was thrown away");
    start(b, stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    expect_equal(stridec_wait_on(2, b->request, stream), STRIDEC_UNABLE, "a graph's wait for what it doesn't start");
    graph = NULL;
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    wait_for(b, stream);
    cudaStreamSynchronize(stream);
    ring_check(b, 1, "a wait that a graph can't have");
    report("graphs that are thrown away");
}

/* No kernel can be launched for a's receive, nor for b's, which the wait for a's moves, too: the senders go on. */
static void lost(struct ring *a, struct ring *b)
{
    start(a, stream), start(b, stream);
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 0) {
        setenv("SIMGPU_FAIL", "cuLaunchKernel,cuLaunchKernelEx,cuGraphLaunch", 1);
        expect_equal(stridec_wait_on(1, &a->request[0], stream), STRIDEC_FAILED, "a receive that can't be moved");
        unsetenv("SIMGPU_FAIL");
        expect_equal(stridec_wait_on(1, &b->request[0], stream), STRIDEC_FAILED, "one that was to be moved with it");
        expect_equal(stridec_wait_on(1, &a->request[1], stream), STRIDEC_OK, "a send");
        expect_equal(stridec_wait_on(1, &b->request[1], stream), STRIDEC_OK, "another send");
    } else {
        wait_for(a, stream), wait_for(b, stream);
    }
    expect_equal(cudaStreamSynchronize(stream), cudaSuccess, "the stream");
    step(a, "after a message that was lost"), step(b, "after another one");
    report("later messages that can't be moved");
}

/* ---- threads ---- */

static pthread_barrier_t both;

/* Both have started before one waits, so that each wait finds both receives. */
static void *rounds(void *of)
{
    struct ring *r = of;
    for (int i = 0; i < ROUNDS; i++) {
        start(r, stream);
        pthread_barrier_wait(&both);
        wait_for(r, stream);
        pthread_barrier_wait(&both);
        cudaStreamSynchronize(stream);
        ring_check(r, 1, "a thread's message");
        pthread_barrier_wait(&both);
    }
    return NULL;
}

static void threads(struct ring *a, struct ring *b)
{
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&thread, NULL, rounds, b)) exit(2);
    rounds(a);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&both);
    report("two threads on one stream");
}

int main(int argc, char **argv)
{
    struct ring a, b;
    struct resources now;
    check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    ring_make(&a, 1, 2, COUNT, 4, MPI_COMM_WORLD), ring_make(&b, 3, 4, COUNT, 5, MPI_COMM_WORLD);
    step(&a, "a first message"), step(&b, "another one");
    resources_now(&now);
    int count = 0;
    cudaGetDeviceCount(&count);
    elsewhere(&a, &b);
    if (count > 1) devices();
    thrown(&a, &b);
    if (now.simulated) lost(&a, &b);
    threads(&a, &b);
    ring_free(&a), ring_free(&b);
    cudaStreamDestroy(stream), cudaStreamDestroy(other);
    return check_finish();
}
