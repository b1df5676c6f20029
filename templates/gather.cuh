@ if record then
@ include "templates/record.cuh"
@ end
/* Moves narrow words, the packed side in aligned groups of WAY::EACH: a thread owns a group, which it loads
 * or stores at once, and finds the place of each word in it. Groups are aligned in memory wherever the range begins;
 * the ragged first and last one move word by word. LAYOUT is as in templates/move.cuh. */
template <class LAYOUT, class WAY> static __device__ __forceinline__ void stridec_gather(const struct stridec_launch &a)
{
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    const bool PACK = WAY::PACK;
    const int each = WAY::EACH;
    typedef typename stridec_word<each * (int)sizeof(word)>::type group_word;
    union group {
        group_word whole;
        word part[each];
    };
    const index words = stridec_words<LAYOUT>(a), skipped = stridec_skipped<LAYOUT>(a);
    const index before = (index)(a.packed % sizeof(group) / sizeof(word));
    const unsigned long long groups = ((unsigned long long)words + before + each - 1) / each;
    const unsigned long long threads = (unsigned long long)WAY::blocks() * WAY::THREADS;

@ if record then
    const bool aligned = stridec_records_aligned(a);
    if (!PACK && aligned) {
        stridec_unpack_records<LAYOUT, WAY>(a);
        return;
    }
@ end
    for (unsigned long long g = (unsigned long long)WAY::block() * WAY::THREADS + threadIdx.x; g < groups; g += threads) {
        const index first = (index)(g * each) - before;   /* wraps below 0 in the first group */
        if ((g > 0 || before == 0) && first + each <= words) {
            group_word *const packed = (group_word *)((word *)a.packed + first);
@ if record then
            if (PACK && aligned) {
                *packed = stridec_pack_records<LAYOUT>(skipped + first, a);
                continue;
            }
@ end
            group v;
            long long at[each];
#pragma unroll
            for (int i = 0; i < each; i++) at[i] = LAYOUT::place(skipped + first + i, a);
            if (!PACK) v.whole = *packed;
#pragma unroll
            for (int i = 0; i < each; i++) {
                if (PACK)
                    v.part[i] = *(const word *)((const char *)a.user + at[i]);
                else
                    *(word *)((char *)a.user + at[i]) = v.part[i];
            }
            if (PACK) *packed = v.whole;
            continue;
        }
        for (int i = 0; i < each; i++) {
            const index one = first + i;
            if (one < words) stridec_move_one<LAYOUT, WAY>(a, one);
        }
    }
}
