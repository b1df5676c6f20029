// What CUDA C has and C++ has not, for kernels that run one thread after another on the host. No header is
// included: NVRTC knows no <stdint.h> either, and kernels may declare such names themselves.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

#define SIMGPU_VECTOR(name, type, a2, a4)                                                                              \
    struct name##1 { type x; };                                                                                        \
    struct __align__(a2) name##2 { type x, y; };                                                                       \
    struct name##3 { type x, y, z; };                                                                                  \
    struct __align__(a4) name##4 { type x, y, z, w; };                                                                 \
    static inline name##1 make_##name##1(type x) { return name##1{x}; }                                                \
    static inline name##2 make_##name##2(type x, type y) { return name##2{x, y}; }                                     \
    static inline name##3 make_##name##3(type x, type y, type z) { return name##3{x, y, z}; }                          \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return name##4{x, y, z, w}; }
SIMGPU_VECTOR(char, signed char, 2, 4)
SIMGPU_VECTOR(uchar, unsigned char, 2, 4)
SIMGPU_VECTOR(short, short, 4, 8)
SIMGPU_VECTOR(ushort, unsigned short, 4, 8)
SIMGPU_VECTOR(int, int, 8, 16)
SIMGPU_VECTOR(uint, unsigned int, 8, 16)
SIMGPU_VECTOR(long, long, 16, 16)
SIMGPU_VECTOR(ulong, unsigned long, 16, 16)
SIMGPU_VECTOR(longlong, long long, 16, 16)
SIMGPU_VECTOR(ulonglong, unsigned long long, 16, 16)
SIMGPU_VECTOR(float, float, 8, 16)
SIMGPU_VECTOR(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
};
static dim3 gridDim, blockDim;
static uint3 blockIdx, threadIdx;
enum { warpSize = 32 };

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldca(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline T __ldcv(const T *p) { return *p; }
template <class T> static inline T __ldlu(const T *p) { return *p; }
template <class T> static inline void __stwb(T *p, T v) { *p = v; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }
template <class T> static inline void __stwt(T *p, T v) { *p = v; }

#define SIMGPU_ORDER(type)                                                                                             \
    static inline type min(type a, type b) { return b < a ? b : a; }                                                   \
    static inline type max(type a, type b) { return a < b ? b : a; }
SIMGPU_ORDER(int)
SIMGPU_ORDER(unsigned int)
SIMGPU_ORDER(long)
SIMGPU_ORDER(unsigned long)
SIMGPU_ORDER(long long)
SIMGPU_ORDER(unsigned long long)
SIMGPU_ORDER(float)
SIMGPU_ORDER(double)

static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline void __threadfence() {}
static inline void __threadfence_system() {}
static inline void __trap() { __builtin_trap(); }

// Entry points that the driver finds: simgpu_run_NAME and simgpu_sizes_NAME, by SIMGPU_KERNEL(NAME) at the end.
template <unsigned... I> struct simgpu_indices {
};
template <unsigned N, unsigned... I> struct simgpu_count : simgpu_count<N - 1, N - 1, I...> {
};
template <unsigned... I> struct simgpu_count<0, I...> {
    typedef simgpu_indices<I...> type;
};
template <class T> struct simgpu_plain {
    typedef T type;
};
template <class T> struct simgpu_plain<const T> {
    typedef T type;
};

template <class... A, unsigned... I>
static inline void simgpu_call(void (*kernel)(A...), void **arguments, simgpu_indices<I...>)
{
    (void)arguments;
    kernel(*(typename simgpu_plain<A>::type *)arguments[I]...);
}

template <class... A>
static inline void simgpu_run(void (*kernel)(A...), void **arguments, const unsigned *grid, const unsigned *block)
{
    gridDim = dim3{grid[0], grid[1], grid[2]};
    blockDim = dim3{block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++)
                for (threadIdx.z = 0; threadIdx.z < block[2]; threadIdx.z++)
                    for (threadIdx.y = 0; threadIdx.y < block[1]; threadIdx.y++)
                        for (threadIdx.x = 0; threadIdx.x < block[0]; threadIdx.x++)
                            simgpu_call(kernel, arguments, typename simgpu_count<sizeof...(A)>::type());
}

template <class... A> static inline unsigned simgpu_sizes(void (*)(A...), unsigned long *bytes)
{
    const unsigned long each[] = {sizeof(A)..., 0};
    for (unsigned i = 0; bytes && i < sizeof...(A); i++) bytes[i] = each[i];
    return sizeof...(A);
}

#define SIMGPU_KERNEL(name)                                                                                            \
    extern "C" void simgpu_run_##name(void **arguments, const unsigned *grid, const unsigned *block)                   \
    {                                                                                                                  \
        simgpu_run(name, arguments, grid, block);                                                                      \
    }                                                                                                                  \
    extern "C" unsigned simgpu_sizes_##name(unsigned long *bytes)                                                      \
    {                                                                                                                  \
        return simgpu_sizes(name, bytes);                                                                              \
    }
