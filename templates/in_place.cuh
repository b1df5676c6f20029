/* How an argument is declared that is read where it lies. GPUs older than Volta know no such thing, and copy it. */
#if defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ < 700
#define STRIDEC_IN_PLACE
#else
#define STRIDEC_IN_PLACE __grid_constant__
#endif
