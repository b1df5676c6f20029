/* Moves words by tiles, where neighbouring packed words lie far apart, but words COLUMNS of the packed stream apart
 * lie side by side: a transpose. The packed stream is rows of COLUMNS words. A tile is 32 rows by 32 columns; on
 * the user's side neighbouring threads take neighbouring rows, on the packed side neighbouring columns. In between
 * words lie in `room`, whose lines are a word longer than a tile's, so that a column's words lie in different banks.
 * COLUMNS is below 2^25 (gen/shape.lua): what a tile reaches past the range counts in 32 bits. */
template <class LAYOUT, class WAY> struct stridec_tile_side {
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    const struct stridec_launch &a;
    const index words, skipped;

    /* Of the range's words, the one at a row and a column; `words` or more where there is none. */
    __device__ __forceinline__ index at(index row, index column) const
    {
        return column < LAYOUT::COLUMNS ? row * LAYOUT::COLUMNS + column - skipped : words;
    }
    __device__ __forceinline__ word *user(index i) const
    {
        return (word *)((char *)a.user + LAYOUT::place(skipped + i, a));
    }
    __device__ __forceinline__ word *packed(index i) const { return (word *)a.packed + i; }
};

template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_tile(const struct stridec_launch &a, typename LAYOUT::word *room)
{
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    const stridec_tile_side<LAYOUT, WAY> s = {a, stridec_words<LAYOUT>(a), stridec_skipped<LAYOUT>(a)};
    const index across = (LAYOUT::COLUMNS + 31) / 32;
    const index top = s.skipped / LAYOUT::COLUMNS / 32;
    const unsigned long long bands = (s.skipped + s.words - 1) / LAYOUT::COLUMNS / 32 - top + 1;
    const unsigned int lane = threadIdx.x % 32, line = threadIdx.x / 32;
    const int lines = WAY::THREADS / 32;

    for (unsigned long long t = blockIdx.x; t < bands * across; t += gridDim.x) {
        const index row = (top + (index)(t / across)) * 32, column = (index)(t % across) * 32;
        word value[WAY::EACH];
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) {
            const index y = line + i * lines;
            const index at = WAY::PACK ? s.at(row + lane, column + y) : s.at(row + y, column + lane);
            if (at < s.words) value[i] = WAY::load((const word *)(WAY::PACK ? s.user(at) : s.packed(at)));
        }
        __syncthreads();   /* the tile before has left */
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) room[(line + i * lines) * 33 + lane] = value[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) {
            const index y = line + i * lines;
            const index at = WAY::PACK ? s.at(row + y, column + lane) : s.at(row + lane, column + y);
            if (at < s.words) WAY::store(WAY::PACK ? s.packed(at) : s.user(at), room[lane * 33 + y]);
        }
    }
}
