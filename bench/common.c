/* common.c: see common.h. */
#include "common.h"
#include "json.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)64 << 20)
#define SAMPLES_MAX 2000
#define COPY_BYTES ((size_t)64 << 20)
#define COPIES 16

void cuda_check(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, cudaGetErrorString(status));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

bool gpu_select(int rank)
{
    int count;

    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return false;
    CUDA(cudaSetDevice(rank % count));
    return true;
}

int gpus_used(int ranks)
{
    int gpus;

    CUDA(cudaGetDeviceCount(&gpus));
    return gpus < ranks ? gpus : ranks;
}

void *driver_symbol(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *symbol = driver ? dlsym(driver, name) : NULL;

    if (!symbol) {
        fprintf(stderr, "bench: the CUDA driver has no %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return symbol;
}

CUfunction driver_kernel(const void *image, const char *name)
{
    __typeof__(cuModuleLoadData) *load;
    __typeof__(cuModuleGetFunction) *find;
    CUmodule module;
    CUfunction kernel;

    *(void **)&load = driver_symbol("cuModuleLoadData");
    *(void **)&find = driver_symbol("cuModuleGetFunction");
    return load(&module, image) == CUDA_SUCCESS && find(&kernel, module, name) == CUDA_SUCCESS ? kernel : NULL;
}

bool mpi_takes_device(void)
{
    int (*open_mpi)(void), (*mpich)(int, int *), supported = 0;

    *(void **)&open_mpi = dlsym(RTLD_DEFAULT, "stridec_mpi_cuda_aware");   /* not what stridec says for it */
    if (!open_mpi)
        *(void **)&open_mpi = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    *(void **)&mpich = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
    if (open_mpi)
        return open_mpi() == 1;
    return mpich && mpich(0, &supported) == MPI_SUCCESS && supported;   /* 0: MPIX_GPU_SUPPORT_CUDA */
}

bool stridec_loaded(void)
{
    return dlsym(RTLD_DEFAULT, "stridec_kernel_ready") != NULL;
}

double peer_rate(void)
{
    int device, count, other, reach = 0;
    void *from, *to;
    double best = 0;

    CUDA(cudaGetDevice(&device));
    CUDA(cudaGetDeviceCount(&count));
    other = (device + 1) % count;
    if (other != device)
        CUDA(cudaDeviceCanAccessPeer(&reach, device, other));
    if (!reach)
        return 0;
    from = device_new(COPY_BYTES);
    CUDA(cudaSetDevice(other));
    to = device_new(COPY_BYTES);
    CUDA(cudaSetDevice(device));
    cudaDeviceEnablePeerAccess(other, 0);   /* may be enabled already */
    cudaGetLastError();
    for (int round = 0; round < 5; round++) {
        double t = now_us(), rate;

        for (int i = 0; i < COPIES; i++)
            CUDA(cudaMemcpyPeerAsync(to, other, from, device, COPY_BYTES, NULL));
        CUDA(cudaStreamSynchronize(NULL));
        rate = (double)COPY_BYTES * COPIES / (now_us() - t);
        best = rate > best ? rate : best;
    }
    CUDA(cudaFree(from));
    CUDA(cudaFree(to));
    return best;
}

void *host_new(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);

    if (!p) {
        fprintf(stderr, "bench: out of host memory (%zu bytes)\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

void *device_new(size_t bytes)
{
    void *p = NULL;

    CUDA(cudaMalloc(&p, bytes));
    return p;
}

bool device_equals(const void *device, const void *host, size_t bytes)
{
    static char *copy;   /* pinned, and kept: pieces arrive at the speed of the link */
    bool equal = true;

    if (!copy)
        CUDA(cudaMallocHost((void **)&copy, PIECE));
    for (size_t at = 0; at < bytes && equal; at += PIECE) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;

        CUDA(cudaMemcpy(copy, (const char *)device + at, n, cudaMemcpyDeviceToHost));
        equal = memcmp(copy, (const char *)host + at, n) == 0;
    }
    return equal;
}

void device_write(void *device, const void *host, size_t bytes)
{
    CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());
}

void device_set(void *device, int byte, size_t bytes)
{
    CUDA(cudaMemset(device, byte, bytes));
    CUDA(cudaDeviceSynchronize());
}

double median_us(void (*run)(void *arg), void *arg, double budget_us, int least)
{
    static double sample[SAMPLES_MAX];
    double end = now_us() + budget_us;
    int n = 0;

    for (double t = now_us(); n < SAMPLES_MAX && (n < least || t < end); n++) {
        double next;

        run(arg);
        next = now_us();
        sample[n] = next - t;
        t = next;
    }
    return median_of(sample, n);
}

void json_head(FILE *f, int argc, char **argv)
{
    CUresult (*get_name)(char *, int, CUdevice);
    char gpu[128] = "";
    int device, count, driver, runtime, multiprocessors;
    size_t unused, memory;

    CUDA(cudaGetDevice(&device));
    CUDA(cudaGetDeviceCount(&count));
    *(void **)&get_name = driver_symbol("cuDeviceGetName");
    get_name(gpu, sizeof(gpu), device);
    CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    CUDA(cudaMemGetInfo(&unused, &memory));
    CUDA(cudaDriverGetVersion(&driver));
    CUDA(cudaRuntimeGetVersion(&runtime));
    fprintf(f, "\"machine\": {\"gpu\": ");
    json_string(f, gpu);
    fprintf(f, ", \"gpus\": %d, \"multiprocessors\": %d, \"memory_bytes\": %zu},\n", count, multiprocessors,
            memory);
    fprintf(f, "\"versions\": {\"mpi\": ");
    json_mpi(f);
    fprintf(f, ", \"cuda_driver\": \"%d.%d\", \"cuda_runtime\": \"%d.%d\"},\n", driver / 1000, driver % 1000 / 10,
            runtime / 1000, runtime % 1000 / 10);
    json_run(f, argc, argv);
}

FILE *results_open(const char *out, int argc, char **argv)
{
    FILE *f = out ? fopen(out, "w") : stdout;

    if (!f) {
        perror(out);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fprintf(f, "{\n");
    json_head(f, argc, argv);
    return f;
}

void results_close(FILE *f)
{
    if (f && f != stdout)
        fclose(f);
}

FILE *cases_open(const char *out, int argc, char **argv, const char *benchmark)
{
    FILE *f = results_open(out, argc, argv);

    fprintf(f, "\"benchmark\": \"%s\",\n\"cases\": [\n", benchmark);
    return f;
}

void cases_close(FILE *f)
{
    if (f)
        fprintf(f, "]}\n");
    results_close(f);
}
