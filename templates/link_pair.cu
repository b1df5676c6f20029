/* @(title): from one layout into another. Made by stridec. */
@ include "templates/launch.cuh"

@ include "templates/words.cuh"

@ if numbers > 0 then
@ include "templates/lists.cuh"

@ end
/* The argument: a launch a side, each with its own user, extent, begin, end, wrap, program and numbers; what else there
 * is of the second serves both. `packed` of the first is not 0 where the sides lie alike. */
struct stridec_pair {
    struct stridec_launch from, to;
};

/* Words at `first` and THREADS apart: all are on their way before the first is stored. */
template <class FROM, class TO, class WAY, bool ALIKE, int EACH>
static __device__ __forceinline__ void stridec_pair_each(const struct stridec_pair &a, typename FROM::index first)
{
    typedef typename FROM::word word;
    const typename FROM::index from = stridec_skipped<FROM>(a.from) + first, to = stridec_skipped<TO>(a.to) + first;
    word value[EACH];
    long long at[EACH];

#pragma unroll
    for (int i = 0; i < EACH; i++) at[i] = FROM::place(from + i * WAY::THREADS, a.from);
#pragma unroll
    for (int i = 0; i < EACH; i++) value[i] = WAY::load((const word *)((const char *)a.from.user + at[i]));
#pragma unroll
    for (int i = 0; i < EACH; i++)
        WAY::store((word *)((char *)a.to.user + (ALIKE ? at[i] : TO::place(to + i * WAY::THREADS, a.to))), value[i]);
}

/* Neighbouring threads take neighbouring words of the packed order, in which both sides are walked. */
template <class FROM, class TO, class WAY, bool ALIKE>
static __device__ __forceinline__ void stridec_pair_move(const struct stridec_pair &a)
{
    typedef typename FROM::index index;
    const unsigned int many = WAY::THREADS * WAY::EACH;
    const index words = stridec_words<FROM>(a.from);

    for (unsigned long long start = (unsigned long long)blockIdx.x * many; start < words;
         start += (unsigned long long)gridDim.x * many) {
        const index first = (index)start + threadIdx.x;
        if (start + many <= words) {
            stridec_pair_each<FROM, TO, WAY, ALIKE, WAY::EACH>(a, first);
            continue;
        }
#pragma unroll 1
        for (int i = 0; i < WAY::EACH; i++)
            if (first + i * WAY::THREADS < words)
                stridec_pair_each<FROM, TO, WAY, ALIKE, 1>(a, first + i * WAY::THREADS);
    }
}

@ for _, entry in ipairs(entries) do
@   for _, side in ipairs { "from", "to" } do
template <bool WRAP> struct stridec_@(side)_w@(entry.width) {
    typedef stridec_word<@(entry.width)>::type word;
    typedef @(index_type) index;
    static __device__ __forceinline__ long long place(index word_index, const struct stridec_launch &a)
    {
@     for _, line in ipairs(entry[side]) do
        @(line)
@     end
    }
};

@   end
extern "C" __global__ void __launch_bounds__(@(plan.way.pack.threads))
stridec_link_@(entry.width)(const STRIDEC_IN_PLACE struct stridec_pair a)
{
@   -- A wrapped layout finds whatever one without finds: widths that are seldom taken have no other.
@   for _, case in ipairs(entry.cases) do
    @(case.test)stridec_pair_move<stridec_from_w@(entry.width)<@(case.wrap)>, stridec_to_w@(entry.width)<@(case.wrap)>,
        stridec_way_pack<@(entry.each)>, @(case.alike)>(a);
@   end
    stridec_done(a.to);
}

@ end
