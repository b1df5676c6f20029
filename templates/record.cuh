/* Records of @(record.size) bytes, moved by their members: @(#record.pieces) accesses of up to @(record.align) bytes
 * each. */
static __device__ __forceinline__ bool stridec_records_aligned(const struct stridec_launch &a)
{
    return a.user % @(record.align) == 0 && (a.wrap ? a.extent : @(record.step)) % @(record.align) == 0;
}

/* Bytes from `at` on of a run of 4-byte words. `at` is known when this is compiled. */
template <class T> static __device__ __forceinline__ void stridec_put(unsigned int *run, int at, T value)
{
    const unsigned long long bits = value;
    const int shift = at % 4 * 8, past = (int)sizeof(T) * 8 + shift;
    run[at / 4] |= (unsigned int)(bits << shift);
    if (past > 32) run[at / 4 + 1] |= (unsigned int)(bits >> (32 - shift));
    if (past > 64) run[at / 4 + 2] |= (unsigned int)(bits >> (64 - shift) % 64);
}

template <class T> static __device__ __forceinline__ T stridec_take(const unsigned int *run, int at)
{
    const int shift = at % 4 * 8, past = (int)sizeof(T) * 8 + shift;
    unsigned long long bits = run[at / 4] >> shift;
    if (past > 32) bits |= (unsigned long long)run[at / 4 + 1] << (32 - shift);
    if (past > 64) bits |= (unsigned long long)run[at / 4 + 2] << (64 - shift) % 64;
    return (T)bits;
}

/* The 16 packed bytes from `position` on: the records that they touch are laid end to end in registers, then moved down
 * by where in the first one they begin. */
template <class LAYOUT>
static __device__ __forceinline__ stridec_16_bytes stridec_pack_records(typename LAYOUT::index position,
                                                                        const struct stridec_launch &a)
{
    const int size = @(record.size), copies = @(record.copies), words = (size * copies + 3) / 4 + 5;
    const typename LAYOUT::index first = position / size;
    const int phase = (int)(position - first * size);
    unsigned int run[words] = {};
#pragma unroll
    for (int i = 0; i < copies; i++) {
        if (i * size >= phase + 16) continue;
        const char *const from = (const char *)a.user + LAYOUT::place((first + i) * size, a);
@ for _, piece in ipairs(record.pieces) do
        stridec_put(run, i * size + @(piece.place), *(const stridec_word<@(piece.width)>::type *)(from + @(piece.at)));
@ end
    }
@ for _, step in ipairs { 8, 4, 2, 1 } do
@   if step * 4 < record.size then
#pragma unroll
    for (int i = 0; i < words - @(step); i++) run[i] = phase & @(step * 4) ? run[i + @(step)] : run[i];
@   end
@ end
    const int shift = phase % 4 * 8;
    return {stridec_funnel(run[0], run[1], shift), stridec_funnel(run[1], run[2], shift),
            stridec_funnel(run[2], run[3], shift), stridec_funnel(run[3], run[4], shift)};
}

/* A thread takes whole records. The first and last ones, where aligned words would reach out of the range, and those that
 * the range cuts go byte by byte. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_unpack_records(const struct stridec_launch &a)
{
    typedef typename LAYOUT::index index;
    const int size = @(record.size), words = (size + 3) / 4 + 1;
    const index begin = (index)a.begin, end = (index)a.end, past = (end + size - 1) / size;
    const unsigned long long threads = (unsigned long long)WAY::blocks() * WAY::THREADS;
    const unsigned long long first = (unsigned long long)WAY::block() * WAY::THREADS + threadIdx.x;

    for (unsigned long long r = begin / size + first; r < past; r += threads) {
        const index low = (index)r * size;
        if (low < begin + 4 || low + size + 8 > end) {
            for (index p = low < begin ? begin : low; p < low + size && p < end; p++)
                *((char *)a.user + LAYOUT::place(p, a)) = ((const char *)a.packed)[p - begin];
            continue;
        }
        char *const to = (char *)a.user + LAYOUT::place(low, a);
        const int odd = (int)((a.packed + (low - begin)) % 4), shift = odd * 8;
        const unsigned int *const from = (const unsigned int *)((const char *)a.packed + (low - begin) - odd);
        unsigned int run[words + 1];
#pragma unroll
        for (int i = 0; i < words; i++) run[i] = from[i];
        run[words] = 0;
#pragma unroll
        for (int i = 0; i < words; i++) run[i] = stridec_funnel(run[i], run[i + 1], shift);
@ for _, piece in ipairs(record.pieces) do
        *(stridec_word<@(piece.width)>::type *)(to + @(piece.at)) = stridec_take<stridec_word<@(piece.width)>::type>(run, @(piece.place));
@ end
    }
}

