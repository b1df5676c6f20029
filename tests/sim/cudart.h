/* cudart.h: the inside of the simulated CUDA runtime. */
#ifndef SIM_CUDART_H
#define SIM_CUDART_H
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

/* Makes the thread's device current if no context is. */
CUresult rt_ensure(void);
/* Remembers an error for cudaGetLastError. */
cudaError_t rt_keep(CUresult r);

#define CALL(expression) \
    CUresult r = rt_ensure(); \
    return rt_keep(r ? r : (expression))
#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

#endif
