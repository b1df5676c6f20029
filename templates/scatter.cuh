/* Moves this thread's words. Neighbouring threads take neighbouring packed words; a thread finds all its places, then
 * loads all its words, then stores them, so that neither list nor layout is waited for twice. LAYOUT is as in
 * templates/move.cuh. */
template <class LAYOUT, bool PACK>
static __device__ __forceinline__ void stridec_move(const struct stridec_launch &a)
{
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    const int each = @(plan.words_per_thread);
    const index threads = @(plan.threads);
    const index words = (index)((unsigned long long)(a.end - a.begin) / sizeof(word));
    const index skipped = (index)((unsigned long long)a.begin / sizeof(word));
    const index block = (index)blockIdx.x * (threads * each);
    const index first = block + threadIdx.x;

    if (block + threads * each <= words) {
        long long at[each];
        word value[each];
#pragma unroll
        for (int i = 0; i < each; i++) at[i] = LAYOUT::place(skipped + (first + i * threads), a);
#pragma unroll
        for (int i = 0; i < each; i++)
            value[i] = PACK ? *(const word *)((const char *)a.user + at[i]) : ((const word *)a.packed)[first + i * threads];
#pragma unroll
        for (int i = 0; i < each; i++) {
            if (PACK)
                ((word *)a.packed)[first + i * threads] = value[i];
            else
                *(word *)((char *)a.user + at[i]) = value[i];
        }
        return;
    }
    for (index at = first; at < words; at += threads) {
        word *const user = (word *)((char *)a.user + LAYOUT::place(skipped + at, a));
        word *const packed = (word *)a.packed + at;
        if (PACK)
            *packed = *user;
        else
            *user = *packed;
    }
}
