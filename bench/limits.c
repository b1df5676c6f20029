/* limits.c: what no packing call can beat on this machine: see pack.h. */
#include "pack.h"

#define WARM_US 0.5e6
#define BUDGET_US 0.4e6

/* Launching an empty kernel and waiting for it. */
struct empty {
    CUfunction kernel;
    CUstream stream;
    __typeof__(cuLaunchKernel) *launch;
    __typeof__(cuStreamSynchronize) *wait;
};

static void launch_empty(void *arg)
{
    struct empty *e = arg;

    e->launch(e->kernel, 1, 1, 1, 32, 1, 1, 0, e->stream, NULL, NULL);
    e->wait(e->stream);
}

static CUfunction empty_kernel(void)
{
    static const char ptx[] = ".version 6.5\n.target sm_75\n.address_size 64\n.visible .entry empty() { ret; }\n";
    CUfunction kernel = driver_kernel(ptx, "empty");

    if (!kernel)   /* the simulated GPU takes no PTX */
        kernel = source_kernel("extern \"C\" __global__ void empty() {}", "empty");
    if (!kernel) {
        fprintf(stderr, "pack: the driver refused an empty kernel\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return kernel;
}

static double measure_launch(cudaStream_t stream)
{
    struct empty e = { .kernel = empty_kernel(), .stream = (CUstream)stream };

    *(void **)&e.launch = driver_symbol("cuLaunchKernel");
    *(void **)&e.wait = driver_symbol("cuStreamSynchronize");
    /* The least of several medians: a floor must not be a cold GPU's. */
    double least = median_us(launch_empty, &e, WARM_US, 100);
    for (int i = 0; i < 5; i++) {
        double us = median_us(launch_empty, &e, BUDGET_US, 100);
        if (us < least) least = us;
    }
    return least;
}

struct limits limits_measure(size_t bytes)
{
    const int copies = 16;
    struct limits m;
    cudaStream_t stream;
    void *from = device_new(bytes), *to = device_new(bytes);
    double best = 0;

    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    m.launch_us = measure_launch(stream);
    for (int round = 0; round < 5; round++) {
        double t = now_us(), rate;

        for (int i = 0; i < copies; i++)
            CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
        CUDA(cudaStreamSynchronize(stream));
        rate = 2.0 * (double)bytes * copies / (now_us() - t);
        best = rate > best ? rate : best;
    }
    m.bytes_per_us = best;
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFree(from));
    CUDA(cudaFree(to));
    return m;
}
