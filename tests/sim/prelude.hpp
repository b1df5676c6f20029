// What CUDA C has and C++ has not, for kernels that run on the host, one thread at a time. No header is
// included: NVRTC knows no <stdint.h> either, and kernels may declare such names themselves.
#define __global__
#define __device__
#define __host__
#define __constant__
// Thread-local, so that shared memory is one segment that the driver can find; one host thread runs a block.
#define __shared__ static __thread
// May follow __shared__ in this form only; so it takes a number, never a type.
#define alignas(n) __attribute__((aligned(n)))
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

static inline float __fmul_rn(float a, float b) { return a * b; }
static inline double __dmul_rn(double a, double b) { return a * b; }

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
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// Who asks for the time waits for another process: its looks are what is counted.
extern "C" int sched_yield() noexcept;
static inline long long clock64()
{
    static __thread long long looks;
    sched_yield();
    return ++looks;
}
static inline void __trap() { __builtin_trap(); }

// One thread at a time runs, so plain accesses are atomic.
#define SIMGPU_ATOMIC(type)                                                                                            \
    static inline type atomicExch(type *p, type v)                                                                     \
    {                                                                                                                  \
        type old = *p;                                                                                                 \
        *p = v;                                                                                                        \
        return old;                                                                                                    \
    }                                                                                                                  \
    static inline type atomicAdd(type *p, type v) { return atomicExch(p, (type)(*p + v)); }                            \
    static inline type atomicCAS(type *p, type expected, type v)                                                       \
    {                                                                                                                  \
        return atomicExch(p, *p == expected ? v : *p);                                                                 \
    }
SIMGPU_ATOMIC(int)
SIMGPU_ATOMIC(unsigned int)
SIMGPU_ATOMIC(unsigned long long)

// struct block_calls of block.h.
struct simgpu_block_calls {
    void (*run)(void (*threads)(void *), void *launch);
    void (*meet)(unsigned thread, unsigned mask, int line);
};
static const simgpu_block_calls *simgpu_block;

static inline void simgpu_meet(unsigned mask, int line)
{
    const uint3 self = threadIdx;
    asm volatile("" ::: "memory");
    simgpu_block->meet((self.z * blockDim.y + self.y) * blockDim.x + self.x, mask, line);
    asm volatile("" ::: "memory");
    threadIdx = self;
}
static inline void __syncthreads(int line = __builtin_LINE()) { simgpu_meet(0, line); }
static inline void __syncwarp(unsigned mask = 0xffffffff, int line = __builtin_LINE()) { simgpu_meet(mask, line); }

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

// Threads of the current block that have not begun, and the first of them.
static unsigned simgpu_left;
static uint3 simgpu_next;

template <class... A> struct simgpu_launch {
    void (*kernel)(A...);
    void **arguments;

    static void threads(void *launch)
    {
        const simgpu_launch l = *(const simgpu_launch *)launch;
        while (simgpu_left) {
            simgpu_left--;
            threadIdx = simgpu_next;
            if (++simgpu_next.x == blockDim.x) {
                simgpu_next.x = 0;
                if (++simgpu_next.y == blockDim.y) {
                    simgpu_next.y = 0;
                    simgpu_next.z++;
                }
            }
            simgpu_call(l.kernel, l.arguments, typename simgpu_count<sizeof...(A)>::type());
        }
    }
};

template <class... A>
static inline void simgpu_run(void (*kernel)(A...), void **arguments, const unsigned *grid, const unsigned *block)
{
    simgpu_launch<A...> launch = {kernel, arguments};
    gridDim = dim3{grid[0], grid[1], grid[2]};
    blockDim = dim3{block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) {
                simgpu_left = block[0] * block[1] * block[2];
                simgpu_next = uint3();
                simgpu_block->run(launch.threads, &launch);
            }
}

template <class... A> static inline unsigned simgpu_sizes(void (*)(A...), unsigned long *bytes)
{
    const unsigned long each[] = {sizeof(A)..., 0};
    for (unsigned i = 0; bytes && i < sizeof...(A); i++) bytes[i] = each[i];
    return sizeof...(A);
}

#define SIMGPU_ENTRY extern "C" __attribute__((visibility("default")))
#define SIMGPU_KERNEL(name)                                                                                            \
    SIMGPU_ENTRY void simgpu_run_##name(void **arguments, const unsigned *grid, const unsigned *block,                 \
                                        const simgpu_block_calls *calls)                                               \
    {                                                                                                                  \
        simgpu_block = calls;                                                                                          \
        simgpu_run(name, arguments, grid, block);                                                                      \
    }                                                                                                                  \
    SIMGPU_ENTRY unsigned simgpu_sizes_##name(unsigned long *bytes)                                                    \
    {                                                                                                                  \
        return simgpu_sizes(name, bytes);                                                                              \
    }
