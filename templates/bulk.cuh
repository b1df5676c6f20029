/* Packs by blocks of words that lie together in the packed stream: gathered in shared memory, each leaves in one
 * asynchronous copy. Where the GPU has none or CUDA, before 12, knows none, and where the packed bytes do not begin at a
 * multiple of 16, words are moved one by one. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_bulk(const struct stridec_launch &a, typename LAYOUT::word *room)
{
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ >= 12 && __CUDA_ARCH__ >= 900
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    const int many = WAY::THREADS * WAY::EACH;
    const index words = stridec_words<LAYOUT>(a), skipped = stridec_skipped<LAYOUT>(a);
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(room);
    bool sent = false;

    if (a.packed % 16) {
        stridec_move<LAYOUT, WAY>(a);
        return;
    }
    for (unsigned long long start = (unsigned long long)blockIdx.x * many; start < words;
         start += (unsigned long long)gridDim.x * many) {
        const index first = (index)start + threadIdx.x;
        if (start + many > words) {
#pragma unroll 1
            for (int i = 0; i < WAY::EACH; i++)
                if (first + i * WAY::THREADS < words) stridec_move_one<LAYOUT, WAY>(a, first + i * WAY::THREADS);
            break;
        }
        word value[WAY::EACH];
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++)
            value[i] = WAY::load((const word *)((const char *)a.user
                                                + LAYOUT::place(skipped + first + i * WAY::THREADS, a)));
        if (sent) {   /* the block before must have been read */
            if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) room[i * WAY::THREADS + threadIdx.x] = value[i];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0)
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;"
                         ::"l"((word *)a.packed + start), "r"(shared), "r"(many * (int)sizeof(word)) : "memory");
        sent = true;
    }
    if (sent && threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#else
    (void)room;
    stridec_move<LAYOUT, WAY>(a);
#endif
}
