/* tuned.c: a tuned table in use touches no GPU that the application does not: a thread without a context sends from
 * GPU 1, and GPU 0 gets no context. The ranks write the table themselves: it is read at MPI_Init.
 *
 * run: SIMGPU_DEVICES=2 -n 2
 */
#include "check.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const curves[] = {"pack_mapped", "unpack_mapped", "pack_staged", "unpack_staged", "message_host"};
static struct layout vector;
static struct buf source, target;

static void write_table(char *path)
{
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) exit(2);
    fprintf(f, "stridec tune 1\nmachine Simulated GPU\nmpi any\ndate 2026-01-01\n");
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) fprintf(f, "curve %s\nbytes 1\nany 1\n", curves[i]);
    if (fclose(f)) exit(2);
    setenv("STRIDEC_TUNE", path, 1);
}

static void *exchange(void *arg)
{
    int peer = my_rank ^ 1;
    (void)arg;
    MPI_Sendrecv(source.origin, vector.count, vector.type, peer, 1, target.origin, vector.count, vector.type, peer, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static void check_gpu0(void)
{
    CUresult (*state)(CUdevice, unsigned *, int *) = NULL;
    unsigned flags = 0;
    int active = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) *(void **)&state = dlsym(driver, "cuDevicePrimaryCtxGetState");
    if (state && state(0, &flags, &active) == CUDA_SUCCESS) expect(!active, "GPU 0 has a context");
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/stridec-table.XXXXXX";
    int devices = 1;
    pthread_t id;
    write_table(path);
    check_start(&argc, &argv, MPI_THREAD_SERIALIZED);
    unlink(path);
    if (!host_mode && (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2)) {
        note("needs two GPUs");
    } else {
        if (!host_mode) cudaSetDevice(1);
        layout_number(&vector, 1, 2);
        buf_make(&source, MEM_DEVICE, &vector, 0, 1 + (uint64_t)my_rank);
        buf_make(&target, MEM_DEVICE, &vector, 0, 9);
        pthread_create(&id, NULL, exchange, NULL);
        pthread_join(id, NULL);
        buf_expect_from(&target, &vector, &vector, 1 + (uint64_t)(my_rank ^ 1));
        buf_check(&target, "received by a thread without a context");
        if (!host_mode) check_gpu0();
        buf_free(&source);
        buf_free(&target);
        layout_free(&vector);
    }
    report("a tuned table touches no other GPU");
    return check_finish();
}
