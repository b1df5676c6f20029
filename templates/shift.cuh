/* Moves long runs of words narrower than 16 B, 16 B at a time, wherever they begin: two aligned loads hold them, and a
 * shift puts them in place. LAYOUT also gives run(i, a, back, left): the place of packed word i as place() does, the
 * words of its run that lie before it and those from it on. */

/* Returns the 16 B that begin `bytes`, below 16, behind the begin of the first of two neighbouring groups. */
static __device__ __forceinline__ stridec_16_bytes stridec_shifted(const stridec_16_bytes &low,
                                                                   const stridec_16_bytes &high, unsigned int bytes)
{
    unsigned int run[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; i++) run[i] = bytes & 8 ? run[i + 2] : run[i];
#pragma unroll
    for (int i = 0; i < 5; i++) run[i] = bytes & 4 ? run[i + 1] : run[i];
    const int shift = bytes % 4 * 8;
    return {stridec_funnel(run[0], run[1], shift), stridec_funnel(run[1], run[2], shift),
            stridec_funnel(run[2], run[3], shift), stridec_funnel(run[3], run[4], shift)};
}

/* A launch in groups of 16 B that are aligned on the packed side. The first may begin before the range, the last end
 * behind it: loads take them whole, as no page ends within one. */
template <class LAYOUT, class WAY> struct stridec_groups {
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    static const int EACH = 16 / (int)sizeof(word), FLIGHT = WAY::EACH / EACH;
    const struct stridec_launch &a;
    const index words, skipped, before;
    const unsigned long long groups;

    __device__ __forceinline__ stridec_groups(const struct stridec_launch &launch)
        : a(launch), words(stridec_words<LAYOUT>(launch)), skipped(stridec_skipped<LAYOUT>(launch)),
          before((index)(launch.packed % 16 / sizeof(word))),
          groups(((unsigned long long)words + before + EACH - 1) / EACH)
    {
    }
    /* The range's word that begins group g; wraps below 0 where the range begins within it. */
    __device__ __forceinline__ index first(unsigned long long g) const { return (index)(g * EACH) - before; }
    __device__ __forceinline__ stridec_16_bytes *packed(unsigned long long g) const
    {
        return (stridec_16_bytes *)((char *)a.packed - a.packed % 16) + g;
    }
    /* The words of group g that lie in the range are those from `begin` to before `end`. */
    __device__ __forceinline__ int begin(unsigned long long g) const { return g ? 0 : (int)before; }
    __device__ __forceinline__ int end(unsigned long long g) const
    {
        const index past = words - first(g);
        return past < (index)EACH ? (int)past : EACH;
    }
};

/* Bytes before an address in its group. */
static __device__ __forceinline__ unsigned int stridec_odd(const char *at)
{
    return (unsigned int)((unsigned long long)at % 16);
}

template <class WAY> static __device__ __forceinline__ stridec_16_bytes stridec_load_group(const char *at)
{
    return WAY::load((const stridec_16_bytes *)(at - stridec_odd(at)));
}

/* A group run by run. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_shift_pieces(const stridec_groups<LAYOUT, WAY> &s, unsigned long long g)
{
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    word *const packed = (word *)s.packed(g);
    const int end = s.end(g);

    for (int p = s.begin(g); p < end;) {
        index back, left;
        const word *const from = (const word *)((const char *)s.a.user
                                                + LAYOUT::run(s.skipped + s.first(g) + p, s.a, back, left));
        const int many = left < (index)(end - p) ? (int)left : end - p;
#pragma unroll 4
        for (int i = 0; i < many; i++) packed[p + i] = WAY::load(from + i);
        p += many;
    }
}

/* FLIGHT groups a thread, a block's threads apart. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_shift_pack(const stridec_groups<LAYOUT, WAY> &s, unsigned long long g)
{
    typedef stridec_groups<LAYOUT, WAY> groups;
    typedef typename LAYOUT::index index;
    const char *from[groups::FLIGHT];   /* NULL: not in one run */
    stridec_16_bytes low[groups::FLIGHT], high[groups::FLIGHT];

#pragma unroll
    for (int i = 0; i < groups::FLIGHT; i++) {
        const unsigned long long at = g + (unsigned long long)i * WAY::THREADS;
        from[i] = 0;
        if (at >= s.groups || s.begin(at) > 0 || s.end(at) < groups::EACH) continue;
        index back, left;
        const long long place = LAYOUT::run(s.skipped + s.first(at), s.a, back, left);
        if (left >= (index)groups::EACH) from[i] = (const char *)s.a.user + place;
    }
#pragma unroll
    for (int i = 0; i < groups::FLIGHT; i++) {
        if (!from[i]) continue;
        low[i] = stridec_load_group<WAY>(from[i]);
        high[i] = stridec_load_group<WAY>(from[i] + 15);
    }
#pragma unroll
    for (int i = 0; i < groups::FLIGHT; i++) {
        const unsigned long long at = g + (unsigned long long)i * WAY::THREADS;
        if (from[i])
            *s.packed(at) = stridec_shifted(low[i], high[i], stridec_odd(from[i]));
        else if (at < s.groups)
            stridec_shift_pieces<LAYOUT, WAY>(s, at);
    }
}

/* A run falls into groups of 16 B that are aligned on the user's side, the first and the last one cut. Each belongs to
 * the packed group that holds its first word: so whole ones are stored at once, however the packed side is aligned. */
template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_shift_runs(const stridec_groups<LAYOUT, WAY> &s, unsigned long long g,
                                                          const stridec_16_bytes &low, const stridec_16_bytes &high)
{
    typedef typename LAYOUT::word word;
    typedef typename LAYOUT::index index;
    const index each = stridec_groups<LAYOUT, WAY>::EACH;
    const word *const packed = (const word *)s.packed(g);
    const index end = (index)s.end(g);

    for (index p = (index)s.begin(g); p < end;) {
        index back, left;
        const index at = s.first(g) + p, past = s.words - at;
        char *to = (char *)s.a.user + LAYOUT::run(s.skipped + at, s.a, back, left);
        index head = (index)(stridec_odd(to) / sizeof(word));
        if (left > past) left = past;
        bool other = head && back && at;   /* the group before has stored what `head` words begin */
        while (left && p < end) {
            const index many = each - head < left ? each - head : left;
            if (!other && many == each) {
                WAY::store((stridec_16_bytes *)to, stridec_shifted(low, high, (unsigned int)(p * sizeof(word))));
            } else if (!other) {
#pragma unroll 4
                for (index i = 0; i < many; i++) WAY::store((word *)to + i, packed[p + i]);
            }
            other = false;
            head = 0;
            p += many;
            left -= many;
            to += many * sizeof(word);
        }
    }
}

template <class LAYOUT, class WAY>
static __device__ __forceinline__ void stridec_shift_unpack(const stridec_groups<LAYOUT, WAY> &s, unsigned long long g)
{
    typedef stridec_groups<LAYOUT, WAY> groups;
    stridec_16_bytes low[groups::FLIGHT], high[groups::FLIGHT];

#pragma unroll
    for (int i = 0; i < groups::FLIGHT; i++) {
        const unsigned long long at = g + (unsigned long long)i * WAY::THREADS;
        if (at >= s.groups) continue;
        low[i] = WAY::load((const stridec_16_bytes *)s.packed(at));
        high[i] = at + 1 < s.groups ? WAY::load((const stridec_16_bytes *)s.packed(at + 1)) : low[i];
    }
#pragma unroll
    for (int i = 0; i < groups::FLIGHT; i++) {
        const unsigned long long at = g + (unsigned long long)i * WAY::THREADS;
        if (at < s.groups) stridec_shift_runs<LAYOUT, WAY>(s, at, low[i], high[i]);
    }
}

template <class LAYOUT, class WAY> static __device__ __forceinline__ void stridec_shift(const struct stridec_launch &a)
{
    const stridec_groups<LAYOUT, WAY> s(a);
    const unsigned long long many = (unsigned long long)WAY::THREADS * stridec_groups<LAYOUT, WAY>::FLIGHT;

    for (unsigned long long start = WAY::block() * many; start < s.groups; start += WAY::blocks() * many) {
        if (WAY::PACK)
            stridec_shift_pack<LAYOUT, WAY>(s, start + threadIdx.x);
        else
            stridec_shift_unpack<LAYOUT, WAY>(s, start + threadIdx.x);
    }
}
