/* Holds all that compilers and GPUs do not share, with a plain way for those without it: no other template asks which
 * they are. NVCC and NVRTC define __CUDACC_VER_MAJOR__; HIP's compilers __HIP__; those for a processor neither. */
@ if in_place then

/* How an argument is declared that is read where it lies. GPUs older than Volta know no such thing, and copy it; HIP's
 * compilers need no word for it. */
#if defined(__HIP__) || defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ < 700
#define STRIDEC_IN_PLACE
#else
#define STRIDEC_IN_PLACE __grid_constant__
#endif
@ end
@ if loads and #loads > 0 then

/* Loads with a word to the caches. Other compilers and older GPUs take plain ones, and so do words below 4 bytes. */
@   local accesses = {
@     { type = "unsigned int", ptx = "u32 %0", out = '"=r"(v)', next = 1 },
@     { type = "unsigned long long", ptx = "u64 %0", out = '"=l"(v)', next = 1 },
@     { type = "stridec_16_bytes", ptx = "v4.u32 {%0, %1, %2, %3}", next = 4,
@       out = '"=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)' },
@   }
@   for _, name in ipairs(loads) do
struct stridec_load_@(name) {
    template <class WORD> static __device__ __forceinline__ WORD of(const WORD *from) { return *from; }
#if defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ >= 800
@     for _, access in ipairs(accesses) do
    static __device__ __forceinline__ @(access.type) of(const @(access.type) *from)
    {
        @(access.type) v;
@       if name == "nc" then
        asm volatile("ld.global.nc.L1::no_allocate.@(access.ptx), [%@(access.next)];"
                     : @(access.out) : "l"(from));
@       else
        unsigned long long policy;
        asm volatile("createpolicy.fractional.L2::evict_@(name).b64 %0, 1.0;" : "=l"(policy));
        asm volatile("ld.global.L2::cache_hint.@(access.ptx), [%@(access.next)], %@(access.next + 1);"
                     : @(access.out) : "l"(from), "l"(policy));
@       end
        return v;
    }
@     end
#endif
};
@   end
@ end
@ if bulk then

/* Asynchronous copies of shared memory, each begun by one thread. STRIDEC_BULK is not defined where the GPU has none or
 * CUDA, before 12, knows none. */
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ >= 12 && __CUDA_ARCH__ >= 900
#define STRIDEC_BULK
/* Every thread's stores to shared memory come before a copy that begins behind the next barrier. */
static __device__ __forceinline__ void stridec_bulk_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
template <class WORD> static __device__ __forceinline__ void stridec_bulk_begin(WORD *to, const WORD *room, int bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;"
                 ::"l"(to), "r"((unsigned int)__cvta_generic_to_shared(room)), "r"(bytes) : "memory");
}
/* The copies have read shared memory. */
static __device__ __forceinline__ void stridec_bulk_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
static __device__ __forceinline__ void stridec_bulk_end()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
#endif
@ end
@ if streams then

/* A kernel may begin while the one before it in the stream ends, and is held here until that has ended and its stores
 * are seen. */
static __device__ __forceinline__ void stridec_in_order()
{
#if defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* From here on, in all blocks, the next kernel may begin so. */
static __device__ __forceinline__ void stridec_let_next_begin()
{
#if defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Waits until a word that another GPU sets is 1. What was written before it is found after it. */
static __device__ __forceinline__ void stridec_await(unsigned long long at)
{
#if defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ >= 700
    unsigned int value;
    do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    while (value != 1);
#else
    while (*(const volatile unsigned int *)at != 1) continue;
    __threadfence_system();
#endif
}
@ end
@ if plan.marked then

/* Marks, which another GPU reads or writes: what one thread has seen of the others' stores before it writes, the other
 * sees once it has read. stridec_clock counts up for longer than any kernel runs. */
#if defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ >= 700
static __device__ __forceinline__ unsigned long long stridec_mark_read(const unsigned long long *at)
{
    unsigned long long mark;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(mark) : "l"(at) : "memory");
    return mark;
}
static __device__ __forceinline__ void stridec_mark_write(unsigned long long *at, unsigned long long mark)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(mark) : "memory");
}
#elif defined(__HIP__)
static __device__ __forceinline__ unsigned long long stridec_mark_read(const unsigned long long *at)
{
    return __hip_atomic_load(at, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}
static __device__ __forceinline__ void stridec_mark_write(unsigned long long *at, unsigned long long mark)
{
    __hip_atomic_store(at, mark, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}
#else
static __device__ __forceinline__ unsigned long long stridec_mark_read(const unsigned long long *at)
{
    const unsigned long long mark = *(const volatile unsigned long long *)at;
    __threadfence_system();
    return mark;
}
static __device__ __forceinline__ void stridec_mark_write(unsigned long long *at, unsigned long long mark)
{
    __threadfence_system();
    *(volatile unsigned long long *)at = mark;
}
#endif
static __device__ __forceinline__ long long stridec_clock()
{
#if !defined(__HIP__)
    return clock64();
/* HIP's clock64 has 20 bits on some GPUs. These count 100 MHz on most. */
#elif __has_builtin(__builtin_readsteadycounter)
    return (long long)__builtin_readsteadycounter();
#elif defined(__GFX11__) || defined(__GFX12__)   /* without s_memrealtime; the message is GET_REALTIME */
    return (long long)__builtin_amdgcn_s_sendmsg_rtnl(0x83);
#else
    return (long long)__builtin_amdgcn_s_memrealtime();
#endif
}
@   if plan.marked.pace > 0 then

/* Each block begins @(plan.marked.pace) clocks after the one before (plan.lua). */
static __device__ __forceinline__ void stridec_pace()
{
#if defined(__CUDACC_VER_MAJOR__)
    const unsigned int begun = (unsigned int)clock();
    while ((unsigned int)clock() - begun < blockIdx.x * @(plan.marked.pace)) continue;
#endif
}
@   end
@ end
