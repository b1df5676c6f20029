/* Moves a range in chunks, in their order, each by one block: packing marks those that are there, and unpacking, on another
 * GPU, waits for the marks. A block that waits for one longer than `patience` waits for no other: `done` then becomes
 * `ticket`, which tells all blocks that have to wait, and what is moved is worth nothing. Of short messages each block first
 * reads what it will overwrite (plan.lua): parts of sectors are stored at once where the L2 cache has the rest, and there is
 * time until the first mark. Blocks that pack begin one after the other (stridec_pace). */
template <class WAY> struct stridec_marked : WAY {
    static const int THREADS = @(plan.marked.threads);
    static __device__ __forceinline__ unsigned int block() { return 0; }
    static __device__ __forceinline__ unsigned int blocks() { return 1; }
    /* Plain ones. Packed words are written while the kernel runs: no load may take them for constant. And where the model has
     * packing load past the L1 cache, that is slower here: 4 MiB of 8 B blocks, 47.6 us, plain 43.6 (two H200s). */
    template <class WORD> static __device__ __forceinline__ WORD load(const WORD *from) { return *from; }
};

/* All threads of the block have moved the chunk. */
static __device__ __forceinline__ void stridec_mark(const struct stridec_launch &a, long long chunk)
{
    __syncthreads();
    if (threadIdx.x == 0) stridec_mark_write((unsigned long long *)a.marks + chunk, a.mark);
}

/* `late` is the first thread's: a block has waited in vain. What the others say lies with the host: that is looked at seldom. */
static __device__ __forceinline__ void stridec_await(const struct stridec_launch &a, long long chunk, bool &late)
{
    if (threadIdx.x == 0 && !late) {
        volatile unsigned int *const done = (volatile unsigned int *)a.done;
        const long long begun = stridec_clock();
        for (int looks = 1; !late && stridec_mark_read((const unsigned long long *)a.marks + chunk) != a.mark; looks++) {
            late = stridec_clock() - begun > a.patience;
            if (looks % 32 == 16) late = late || *done == (unsigned int)a.ticket;
        }
        if (late) *done = (unsigned int)a.ticket;
    }
    __syncthreads();
}

@ if plan.marked.touched > 0 then
template <class LAYOUT, class WAY> static __device__ __forceinline__ void stridec_touch(const struct stridec_launch &a)
{
    const typename LAYOUT::index words = stridec_words<LAYOUT>(a), skipped = stridec_skipped<LAYOUT>(a);
    for (typename LAYOUT::index i = threadIdx.x; i < words; i += WAY::THREADS)
        (void)*((const volatile char *)a.user + LAYOUT::place(skipped + i, a));
}

@ end
static __device__ __forceinline__ struct stridec_launch stridec_chunk(const struct stridec_launch &a, long long chunk)
{
    struct stridec_launch part = a;
    part.packed += (unsigned long long)(chunk * a.chunk);
    part.begin += chunk * a.chunk;
    if (part.end - part.begin > a.chunk) part.end = part.begin + a.chunk;
    return part;
}
