/* Loads with a word to the caches. Other compilers and older GPUs take plain ones, and so do words below 4 bytes. */
@ local accesses = {
@   { type = "unsigned int", ptx = "u32 %0", out = '"=r"(v)', next = 1 },
@   { type = "unsigned long long", ptx = "u64 %0", out = '"=l"(v)', next = 1 },
@   { type = "stridec_16_bytes", ptx = "v4.u32 {%0, %1, %2, %3}", next = 4,
@     out = '"=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)' },
@ }
@ for _, name in ipairs(loads) do
struct stridec_load_@(name) {
    template <class WORD> static __device__ __forceinline__ WORD of(const WORD *from) { return *from; }
#if defined(__CUDACC_VER_MAJOR__) && __CUDA_ARCH__ >= 800
@   for _, access in ipairs(accesses) do
    static __device__ __forceinline__ @(access.type) of(const @(access.type) *from)
    {
        @(access.type) v;
@     if name == "nc" then
        asm volatile("ld.global.nc.L1::no_allocate.@(access.ptx), [%@(access.next)];"
                     : @(access.out) : "l"(from));
@     else
        unsigned long long policy;
        asm volatile("createpolicy.fractional.L2::evict_@(name).b64 %0, 1.0;" : "=l"(policy));
        asm volatile("ld.global.L2::cache_hint.@(access.ptx), [%@(access.next)], %@(access.next + 1);"
                     : @(access.out) : "l"(from), "l"(policy));
@     end
        return v;
    }
@   end
#endif
};
@ end
