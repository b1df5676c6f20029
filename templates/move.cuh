/* Moves this thread's words. Neighbouring threads take neighbouring packed words, and every load of a
 * thread is issued before its first store. LAYOUT gives `word`, `index` (counts words, the launch's
 * begin included), and place(i, a), the offset in bytes of packed word i from a.user. Addresses become
 * pointers before offsets are added: so the compiler sees that they point to global memory. */
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
        word value[each];
#pragma unroll
        for (int i = 0; i < each; i++) {
            const index at = first + i * threads;
            value[i] = PACK ? *(const word *)((const char *)a.user + LAYOUT::place(skipped + at, a))
                            : ((const word *)a.packed)[at];
        }
#pragma unroll
        for (int i = 0; i < each; i++) {
            const index at = first + i * threads;
            if (PACK)
                ((word *)a.packed)[at] = value[i];
            else
                *(word *)((char *)a.user + LAYOUT::place(skipped + at, a)) = value[i];
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
