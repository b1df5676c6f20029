/* The words of HIP that kernels use. A compiler that brings HIP's headers has them; clang alone
 * (-x hip --cuda-device-only -nogpuinc -nogpulib) gets them here. A wave has 32 or 64 lanes: no kernel asks. */
#ifdef __CLANG_HIP_RUNTIME_WRAPPER_H__
#include <hip/hip_runtime.h>
#elif !defined(__HIPCC_RTC__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#if __clang_major__ < 15   /* a word of later ones */
#define __noinline__ __attribute__((noinline))
#endif
#define STRIDEC_BOUNDS(threads, blocks, ...) \
    __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(blocks)))
#define __launch_bounds__(...) STRIDEC_BOUNDS(__VA_ARGS__, 1, )

struct stridec_index {
    unsigned int x;
};
#define threadIdx (stridec_index{__builtin_amdgcn_workitem_id_x()})
#define blockIdx (stridec_index{__builtin_amdgcn_workgroup_id_x()})
#define blockDim (stridec_index{__builtin_amdgcn_workgroup_size_x()})
#define gridDim (stridec_index{__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()})

__device__ __forceinline__ void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ __forceinline__ void __threadfence()
{
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
}
/* The empty scope is the system's. */
__device__ __forceinline__ void __threadfence_system()
{
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
}
template <class T> __device__ __forceinline__ T __ldg(const T *at)
{
    return *at;
}
template <class T> __device__ __forceinline__ T atomicExch(T *at, T value)
{
    return __hip_atomic_exchange(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> __device__ __forceinline__ T atomicAdd(T *at, T value)
{
    return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ __forceinline__ unsigned int __umulhi(unsigned int a, unsigned int b)
{
    return (unsigned int)((unsigned long long)a * b >> 32);
}
__device__ __forceinline__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
/* Products by themselves: no sum is fused with them. */
__device__ __forceinline__ float __fmul_rn(float a, float b)
{
#pragma clang fp contract(off)
    return a * b;
}
__device__ __forceinline__ double __dmul_rn(double a, double b)
{
#pragma clang fp contract(off)
    return a * b;
}
#endif
