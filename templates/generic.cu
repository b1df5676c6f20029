/* @(title): @(plan.family) family, an interpreter of gen/program.c's records. Made by stridec. */
@ include "templates/launch.cuh"

@ include "templates/words.cuh"

@ include "templates/program.cuh"

/* Returns where byte `rest` lies: of elements `extent` apart (wrap), or of one. One function for all entries: NVRTC
 * takes half as long as for eight copies. */
static __device__ __noinline__ long long stridec_place(const long long *program, unsigned long long rest, bool wrap,
                                                       long long extent)
{
    long long offset = 0;
    if (wrap) {
        const unsigned long long element = rest / (unsigned long long)program[SIZE];
        rest -= element * (unsigned long long)program[SIZE];
        offset = (long long)element * extent;
    }
    return offset + stridec_walk(program, rest);
}

/* Words of any tree, one a thread at a time: each walk waits for memory. */
template <class WAY, class WORD> static __device__ __forceinline__ void stridec_interpret(const struct stridec_launch &a)
{
    const unsigned long long words = (unsigned long long)(a.end - a.begin) / sizeof(WORD);
    const unsigned long long grid = (unsigned long long)WAY::blocks() * WAY::THREADS;
    const long long *const program = (const long long *)a.program;
    for (unsigned long long i = (unsigned long long)WAY::block() * WAY::THREADS + threadIdx.x; i < words; i += grid) {
        const unsigned long long rest = (unsigned long long)a.begin + i * sizeof(WORD);
        WORD *const user = (WORD *)((char *)a.user + stridec_place(program, rest, a.wrap, a.extent));
        WORD *const packed = (WORD *)a.packed + i;
        if (WAY::PACK)
            WAY::store(packed, WAY::load(user));
        else
            WAY::store(user, WAY::load(packed));
    }
}

@ for _, entry in ipairs(entries) do
@   for _, way in ipairs { "pack", "unpack" } do
extern "C" __global__ void __launch_bounds__(@(plan.way[way].threads))
stridec_@(way)_w@(entry.width)(const struct stridec_launch a)
{
    stridec_interpret<stridec_way_@(way)<1>, stridec_word<@(entry.width)>::type>(a);
    stridec_done(a);
}

@   end
@ end
