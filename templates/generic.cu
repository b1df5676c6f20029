/* @(title): @(plan.family) family, an interpreter of gen/program.c's records. Made by stridec. */
@ include "templates/launch.cuh"

@ include "templates/words.cuh"

@ include "templates/move.cuh"

@ include "templates/program.cuh"

template <int WIDTH> struct stridec_layout {
    typedef typename stridec_word<WIDTH>::type word;
    typedef @(index_type) index;

    static __device__ __forceinline__ long long place(index word_index, const struct stridec_launch &a)
    {
        const long long *const program = (const long long *)a.program;
        unsigned long long rest = word_index * WIDTH;
        long long offset = 0;
        if (a.wrap) {
            const unsigned long long element = rest / (unsigned long long)program[SIZE];
            rest -= element * (unsigned long long)program[SIZE];
            offset = (long long)element * a.extent;
        }
        return offset + stridec_walk(program, rest);
    }
};

@ for _, entry in ipairs(entries) do
@   for _, way in ipairs { "pack", "unpack" } do
extern "C" __global__ void __launch_bounds__(@(plan.way[way].threads))
stridec_@(way)_w@(entry.width)(const struct stridec_launch a)
{
    stridec_move<stridec_layout<@(entry.width)>, stridec_way_@(way)<1>>(a);
    stridec_done(a);
}

@   end
@ end
