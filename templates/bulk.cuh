/* Packs by blocks of words that lie together in the packed stream: gathered in shared memory, each leaves in one
 * asynchronous copy. Where there are none (target.cuh), and where the packed bytes do not begin at a multiple of
 * 16, words are moved one by one. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_bulk(const struct stridec_launch &a, typename LAYOUT::word *room)
{
#ifdef STRIDEC_BULK
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    const int many = WAY::THREADS * WAY::EACH;
    const index words = stridec_words<LAYOUT>(a), skipped = stridec_skipped<LAYOUT>(a);
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
            if (threadIdx.x == 0) stridec_bulk_read();
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) room[i * WAY::THREADS + threadIdx.x] = value[i];
        stridec_bulk_fence();
        __syncthreads();
        if (threadIdx.x == 0) stridec_bulk_begin((word *)a.packed + start, room, many * (int)sizeof(word));
        sent = true;
    }
    if (sent && threadIdx.x == 0) stridec_bulk_end();
#else
    (void)room;
    stridec_move<LAYOUT, WAY>(a);
#endif
}
