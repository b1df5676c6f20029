/* Moves words one by one. LAYOUT gives `word`, `index` (counts words, the launch's begin included), and place(i,
 * a), the offset in bytes of packed word i from a.user. Addresses become pointers before offsets are added: so the
 * compiler sees that they point to global memory. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_move_one(const struct stridec_launch &a, typename LAYOUT::index at)
{
    typedef typename LAYOUT::word word;
    word *const user = (word *)((char *)a.user + LAYOUT::place(stridec_skipped<LAYOUT>(a) + at, a));
    word *const packed = (word *)a.packed + at;
    if (WAY::PACK)
        WAY::store(packed, WAY::load(user));
    else
        WAY::store(user, WAY::load(packed));
}

/* Words `gap` apart: all are on their way before the first is stored, so that neither list nor layout is waited for
 * twice. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_move_each(const struct stridec_launch &a, typename LAYOUT::index first,
                                                         typename LAYOUT::index gap)
{
    typedef typename LAYOUT::word word;
    const typename LAYOUT::index skipped = stridec_skipped<LAYOUT>(a);
    word *const packed = (word *)a.packed + first;
    word value[WAY::EACH];
    long long at[WAY::EACH];

    if (!WAY::PACK) {
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) value[i] = WAY::load((const word *)packed + i * gap);
    }
#pragma unroll
    for (int i = 0; i < WAY::EACH; i++) at[i] = LAYOUT::place(skipped + (first + i * gap), a);
    if (WAY::PACK) {
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) value[i] = WAY::load((const word *)((const char *)a.user + at[i]));
    }
#pragma unroll
    for (int i = 0; i < WAY::EACH; i++)
        WAY::store(WAY::PACK ? packed + i * gap : (word *)((char *)a.user + at[i]), value[i]);
}

/* Neighbouring threads take neighbouring packed words; blocks go round until all are moved. What counts a whole
 * round is of 64 bits, since a grid may be larger than the words that are left. */
template <class LAYOUT, class WAY> static __device__ __forceinline__ void stridec_move(const struct stridec_launch &a)
{
    typedef typename LAYOUT::index index;
    const index words = stridec_words<LAYOUT>(a);
    const unsigned long long grid = (unsigned long long)WAY::blocks() * WAY::THREADS;
    const unsigned long long gap = WAY::FAR ? grid : WAY::THREADS;
    unsigned long long start = (unsigned long long)WAY::block() * (WAY::FAR ? WAY::THREADS : WAY::THREADS * WAY::EACH);

    for (; start < words; start += grid * WAY::EACH) {
        const index first = (index)start + threadIdx.x;
        if (start + (WAY::EACH - 1) * gap + WAY::THREADS <= words) {
            stridec_move_each<LAYOUT, WAY>(a, first, (index)gap);
            continue;
        }
#pragma unroll 1
        for (int i = 0; i < WAY::EACH; i++)
            if (start + i * gap + threadIdx.x < words) stridec_move_one<LAYOUT, WAY>(a, first + i * (index)gap);
    }
}
