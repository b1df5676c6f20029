/* Moves words by tiles, where neighbouring packed words lie far apart, but words COLUMNS of the packed stream apart
 * lie side by side: a transpose. The packed stream is rows of COLUMNS words. A tile is @(edge) rows by @(edge) columns;
 * on the user's side neighbouring threads take neighbouring rows, on the packed side neighbouring columns. In between
 * words lie in `room`, whose lines are a word longer than a tile's, so that a column's words lie in different banks.
 * COLUMNS is below 2^25 (gen/shape.lua): what a tile reaches past the range counts in 32 bits. Threads
 * meet at barriers of the block alone, so that a wave of the GPU may have any number of lanes. */
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
    const index across = (LAYOUT::COLUMNS + @(edge - 1)) / @(edge);
    const index top = s.skipped / LAYOUT::COLUMNS / @(edge);
    const unsigned long long bands = (s.skipped + s.words - 1) / LAYOUT::COLUMNS / @(edge) - top + 1;
    const unsigned int lane = threadIdx.x % @(edge), line = threadIdx.x / @(edge);
    const int lines = WAY::THREADS / @(edge);

    for (unsigned long long t = blockIdx.x; t < bands * across; t += gridDim.x) {
        const index row = (top + (index)(t / across)) * @(edge), column = (index)(t % across) * @(edge);
        word value[WAY::EACH];
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) {
            const index y = line + i * lines;
            const index at = WAY::PACK ? s.at(row + lane, column + y) : s.at(row + y, column + lane);
            if (at < s.words) value[i] = WAY::load((const word *)(WAY::PACK ? s.user(at) : s.packed(at)));
        }
        __syncthreads();   /* the tile before has left */
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) room[(line + i * lines) * @(edge + 1) + lane] = value[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < WAY::EACH; i++) {
            const index y = line + i * lines;
            const index at = WAY::PACK ? s.at(row + y, column + lane) : s.at(row + lane, column + y);
            if (at < s.words) WAY::store(WAY::PACK ? s.packed(at) : s.user(at), room[lane * @(edge + 1) + y]);
        }
    }
}
