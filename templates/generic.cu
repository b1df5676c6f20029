/* @(title): @(plan.family) family, an interpreter of gen/program.c's records. Made by stridec. */
@ include "templates/launch.cuh"

@ include "templates/words.cuh"

@ include "templates/move.cuh"

/* Record fields, in words from the record's first: gen/program.c. */
enum { KIND, OFF, SIZE };
enum { DENSE, STRIDE, SEQ, INDEX };
enum { STRIDE_CHILD_SIZE = 3, STRIDE_STEP, STRIDE_CHILD };
enum { SEQ_COUNT = 3, SEQ_PAIRS };
enum { INDEX_CHILD_SIZE = 3, INDEX_CHILD, INDEX_COUNT, INDEX_OFFSETS };

/* The (start, node) pair of the last part that starts at or before `rest`. The first starts at 0. */
static __device__ const long long *stridec_part(const long long *node, unsigned long long rest)
{
    const long long *pairs = node + SEQ_PAIRS;
    long long low = 0, high = node[SEQ_COUNT];
    while (high - low > 1) {
        const long long middle = (low + high) / 2;
        if ((unsigned long long)pairs[2 * middle] <= rest)
            low = middle;
        else
            high = middle;
    }
    return pairs + 2 * low;
}

template <int WIDTH> struct stridec_layout {
    typedef typename stridec_word<WIDTH>::type word;
    typedef @(index_type) index;

    /* The root's outermost digit is not bounded by its count, so that without wrap its stride goes on. */
    static __device__ __forceinline__ long long place(index word_index, const struct stridec_launch &a)
    {
        const long long *const program = (const long long *)a.program;
        const long long *node = program;
        unsigned long long rest = word_index * WIDTH;
        long long offset = 0;
        if (a.wrap) {
            const unsigned long long element = rest / (unsigned long long)program[SIZE];
            rest -= element * (unsigned long long)program[SIZE];
            offset = (long long)element * a.extent;
        }
        while (node[KIND] != DENSE) {
            if (node[KIND] == STRIDE) {
                const unsigned long long digit = rest / (unsigned long long)node[STRIDE_CHILD_SIZE];
                rest -= digit * (unsigned long long)node[STRIDE_CHILD_SIZE];
                offset += (long long)digit * node[STRIDE_STEP];
                node = program + node[STRIDE_CHILD];
            } else if (node[KIND] == SEQ) {
                const long long *part = stridec_part(node, rest);
                rest -= (unsigned long long)part[0];
                node = program + part[1];
            } else {
                const unsigned long long digit = rest / (unsigned long long)node[INDEX_CHILD_SIZE];
                rest -= digit * (unsigned long long)node[INDEX_CHILD_SIZE];
                offset += node[INDEX_OFFSETS + digit];
                node = program + node[INDEX_CHILD];
            }
            offset += node[OFF];
        }
        return offset + (long long)rest;
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
