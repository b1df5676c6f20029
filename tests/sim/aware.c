/* aware.c: libaware.so, preloaded: says that the MPI is CUDA-aware, in Open MPI's words and in MPICH's. With
 * SIMGPU_OPEN=1 that is true: the MPI may touch the simulated device's memory. */

__attribute__((visibility("default"))) int MPIX_Query_cuda_support(void);
__attribute__((visibility("default"))) int MPIX_GPU_query_support(int gpu, int *supported);

int MPIX_Query_cuda_support(void)
{
    return 1;
}

int MPIX_GPU_query_support(int gpu, int *supported)
{
    *supported = gpu == 0;
    return 0;
}
