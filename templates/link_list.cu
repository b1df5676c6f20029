/* @(title): many strided layouts into as many others. Made by stridec. */
@ include "templates/launch.cuh"

@ include "templates/words.cuh"

@ include "templates/program.cuh"

/* struct stridec_link of gen/gen.h. */
struct stridec_link_program {
    unsigned long long at[2];
    long long extent[2];
};
struct stridec_link {
    unsigned long long from, to;
    union {
        int step[@(levels)][2];
        struct stridec_link_program program;
    };
    unsigned int magic[@(levels - 1)], count[@(levels - 1)];
    unsigned int code, start, words, first;
};

/* The argument: struct stridec_links, cut after the first MANY. */
struct stridec_links {
    unsigned long long done, ticket, ended;
    unsigned long long list;
    unsigned int n, blocks;
};
template <int MANY> struct stridec_links_here : stridec_links {
    struct stridec_link job[MANY];
};

static const unsigned int STRIDEC_THREADS = @(plan.way.pack.threads), STRIDEC_EACH = @(plan.way.pack.each);

/* The one that block number `block` belongs to: the last whose `first` is no greater. */
static __device__ __forceinline__ unsigned int stridec_link_of(const struct stridec_link *job, unsigned int n,
                                                               unsigned int block)
{
    unsigned int low = 0, high = n - 1;
    while (low < high) {
        const unsigned int middle = (low + high + 1) / 2;
        if (job[middle].first <= block)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Offsets from nests count words, those from programs bytes. */
template <class WORD> static __device__ __forceinline__ WORD *stridec_link_at(unsigned long long base, int offset)
{
    return (WORD *)base + offset;
}
template <class WORD> static __device__ __forceinline__ WORD *stridec_link_at(unsigned long long base, long long offset)
{
    return (WORD *)((char *)base + offset);
}

/* `many` words: all are on their way before the first is stored. */
template <int WIDTH, class OFFSET>
static __device__ __forceinline__ void stridec_link_words(const struct stridec_link &job, const OFFSET *from,
                                                          const OFFSET *to, unsigned int many)
{
    typedef typename stridec_word<WIDTH>::type word;
    word value[STRIDEC_EACH];
#pragma unroll
    for (unsigned int i = 0; i < STRIDEC_EACH; i++)
        if (i < many) value[i] = *stridec_link_at<const word>(job.from, from[i]);
#pragma unroll
    for (unsigned int i = 0; i < STRIDEC_EACH; i++)
        if (i < many) *stridec_link_at<word>(job.to, to[i]) = value[i];
}

template <class OFFSET>
static __device__ __forceinline__ void stridec_link_all(const struct stridec_link &job, const OFFSET *from,
                                                        const OFFSET *to, unsigned int many)
{
    switch (job.code >> 23 & 7) {
@ for log, width in ipairs { 2, 4, 8, 16 } do
    case @(log): stridec_link_words<@(width)>(job, from, to, many); break;
@ end
    default: stridec_link_words<1>(job, from, to, many);
    }
}

/* Of one side; 0 for packed bytes, which lie where they are counted. */
static __device__ __forceinline__ long long stridec_link_walk(const struct stridec_link &job, int side,
                                                              unsigned long long rest)
{
    const long long *const program = (const long long *)job.program.at[side];
    if (!program) return (long long)rest;
    const unsigned long long element = stridec_quotient(rest, (unsigned long long)program[SIZE]);
    return (long long)element * job.program.extent[side]
           + stridec_walk(program, rest - element * (unsigned long long)program[SIZE]);
}

/* A job without levels: its sides' programs are walked, for one word a thread, as each walk waits for memory. */
static __device__ __forceinline__ void stridec_link_interpret(const struct stridec_link &job, unsigned int block)
{
    const unsigned int at = (block - job.first) * STRIDEC_THREADS + threadIdx.x;
    if (at >= job.words) return;
    const unsigned long long rest = (unsigned long long)(job.start + at) << (job.code >> 23 & 7);
    const long long from = stridec_link_walk(job, 0, rest), to = stridec_link_walk(job, 1, rest);
    stridec_link_all(job, &from, &to, 1);
}

/* A block's part of one job with levels: STRIDEC_EACH words a thread, a block's threads apart. */
template <bool PROGRAMS>
static __device__ __forceinline__ void stridec_link_move(const struct stridec_link &job, unsigned int block)
{
    const unsigned int first = (block - job.first) * STRIDEC_THREADS * STRIDEC_EACH + threadIdx.x;
    const unsigned int levels = job.code >> 20 & 7, outermost = levels - 1;
    const unsigned int many = (job.words - first + STRIDEC_THREADS - 1) / STRIDEC_THREADS;
    unsigned int rest[STRIDEC_EACH];
    int from[STRIDEC_EACH], to[STRIDEC_EACH];

    if (PROGRAMS && !levels) {
        stridec_link_interpret(job, block);
        return;
    }
    if (first >= job.words) return;
#pragma unroll
    for (unsigned int i = 0; i < STRIDEC_EACH; i++) {
        rest[i] = job.start + first + i * STRIDEC_THREADS;
        from[i] = to[i] = 0;
    }
#pragma unroll 1
    for (unsigned int l = 0; l < outermost; l++) {
        const unsigned int magic = job.magic[l], count = job.count[l], shift = job.code >> 5 * l & 31;
        const int step = job.step[l][0], step_to = job.step[l][1];
#pragma unroll
        for (unsigned int i = 0; i < STRIDEC_EACH; i++) {
            const unsigned int quotient = __umulhi(rest[i], magic) >> shift;
            const int digit = (int)(rest[i] - quotient * count);
            from[i] += digit * step;
            to[i] += digit * step_to;
            rest[i] = quotient;
        }
    }
#pragma unroll
    for (unsigned int i = 0; i < STRIDEC_EACH; i++) {
        from[i] += (int)rest[i] * job.step[outermost][0];
        to[i] += (int)rest[i] * job.step[outermost][1];
    }
    stridec_link_all(job, from, to, many);
}

@ -- What a multiprocessor holds must cover another device's latency: four blocks, so no more than 64 registers.
@ -- Programs take more, and longer than that anyway: only the longest list and the one in device memory have them.
@ for i, many in ipairs(plan.words) do
@   local programs = i == 1 or many == 0
extern "C" __global__ void __launch_bounds__(@(plan.way.pack.threads)@(programs and "" or ", 4"))
stridec_link_@(many)(const STRIDEC_IN_PLACE @(many > 0 and "stridec_links_here<" .. many .. ">" or "stridec_links") a)
{
@   if many == 0 then
    const struct stridec_link *const job = (const struct stridec_link *)a.list;
@   else
    const struct stridec_link *const job = a.job;
@   end
    for (unsigned int block = blockIdx.x; block < a.blocks; block += gridDim.x)
        stridec_link_move<@(programs)>(job[stridec_link_of(job, a.n, block)], block);
    stridec_done(a);
}

@ end
/* Words by which streams wait for each other: struct stridec_flags of gen/gen.h. */
template <int MANY> struct stridec_flag_list {
    unsigned int sets, waits;
    unsigned long long at[MANY];
};
template <class LIST> static __device__ __forceinline__ void stridec_flag_all(const LIST &a)
{
    stridec_in_order();
    __threadfence_system();
    for (unsigned int i = threadIdx.x; i < a.sets; i += blockDim.x) *(volatile unsigned int *)a.at[i] = 1;
    __syncthreads();   /* a rank may wait for itself */
    for (unsigned int i = threadIdx.x; i < a.waits; i += blockDim.x) {
        stridec_await(a.at[a.sets + i]);
        *(volatile unsigned int *)a.at[a.sets + i] = 0;
    }
    __syncthreads();   /* one thread lets the next begin for all: none may wait any more */
    stridec_let_next_begin();
}
@ for _, many in ipairs(streams.flags) do
extern "C" __global__ void stridec_flags_@(many)(const STRIDEC_IN_PLACE stridec_flag_list<@(many)> a)
{
    stridec_flag_all(a);
}
@ end

/* Links that wait for words: struct stridec_exchange of gen/gen.h. */
template <int MANY> struct stridec_exchange_list {
    unsigned long long ended;
    unsigned int n, blocks;
    unsigned int ready, sets, ends, begins;
    unsigned long long at[MANY];
};
template <class LIST> static __device__ __forceinline__ void stridec_exchange_all(const LIST &a)
{
    __shared__ unsigned int before;
    const struct stridec_link *const jobs = (const struct stridec_link *)(a.at + a.ready + a.sets + a.ends + a.begins);
    unsigned int awaited = 0;   /* of the words, counted from 1: none */
    stridec_in_order();
    if (blockIdx.x == 0 && threadIdx.x < a.begins) {
        __threadfence_system();
        *(volatile unsigned int *)a.at[a.ready + a.sets + a.ends + threadIdx.x] = 1;
    }
    for (unsigned int block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const struct stridec_link &job = jobs[stridec_link_of(jobs, a.n, block)];
        if (job.code >> 26 != awaited) {
            awaited = job.code >> 26;
            if (threadIdx.x == 0) stridec_await(a.at[awaited - 1]);
            __syncthreads();
        }
        stridec_link_move<false>(job, block);
    }
    if (!a.ends) stridec_let_next_begin();   /* what this kernel still waits for may need the room */
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        before = atomicAdd((unsigned int *)a.ended, 1u);
        __threadfence();
    }
    __syncthreads();
    if (before != gridDim.x - 1) return;
    /* All others have ended. */
    if (threadIdx.x == 0) *(volatile unsigned int *)a.ended = 0;
    if (threadIdx.x < a.ready) *(volatile unsigned int *)a.at[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x < a.sets) {
        __threadfence_system();
        *(volatile unsigned int *)a.at[a.ready + threadIdx.x] = 1;
    }
    __syncthreads();   /* the others may wait for any of them */
    if (threadIdx.x < a.ends) {
        stridec_await(a.at[a.ready + a.sets + threadIdx.x]);
        *(volatile unsigned int *)a.at[a.ready + a.sets + threadIdx.x] = 0;
    }
}
@ for _, many in ipairs(streams.exchanges) do
extern "C" __global__ void __launch_bounds__(@(plan.way.pack.threads), 4)
stridec_exchange_@(many)(const STRIDEC_IN_PLACE stridec_exchange_list<@(many)> a)
{
    stridec_exchange_all(a);
}
@ end

/* A nest from or to packed bytes, in step with another GPU's kernel: struct stridec_link_marked of gen/gen.h. */
struct stridec_link_marks {
    unsigned long long done, ticket, ended;
    unsigned long long late, late_ticket;
    unsigned long long marks, mark;
    long long chunk, patience;
    long long bytes;
    unsigned int packs, n, blocks;
    struct stridec_link job[2];
};

/* Waits for the marks of packed bytes `first` to `past`, a thread for each. A thread that waits longer than `patience`
 * waits for no other, and tells all; what is moved is then worth nothing. */
static __device__ __forceinline__ void stridec_link_await(const stridec_link_marks &a, long long first, long long past,
                                                          bool &late)
{
    volatile unsigned int *const told = (volatile unsigned int *)a.late;
    const long long begun = stridec_clock();
    for (long long i = first / a.chunk + threadIdx.x; i * a.chunk < past && !late; i += blockDim.x) {
        for (int looks = 1; !late && stridec_mark_read((const unsigned long long *)a.marks + i) != a.mark; looks++) {
            late = stridec_clock() - begun > a.patience;
            if (looks % 32 == 16) late = late || *told == (unsigned int)a.late_ticket;
        }
        if (late) *told = (unsigned int)a.late_ticket;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(@(plan.way.pack.threads), 4)
stridec_link_marked(const STRIDEC_IN_PLACE stridec_link_marks a)
{
    const long long bytes = (long long)(STRIDEC_THREADS * STRIDEC_EACH) << (a.job[0].code >> 23 & 7);
    bool late = false;
    for (unsigned int block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const bool last = block == a.blocks - 1;
        const long long first = block * bytes;
        if (!a.packs) stridec_link_await(a, first, last ? a.bytes : first + bytes, late);
#pragma unroll 1
        for (unsigned int i = 0; i < (last ? a.n : 1); i++) stridec_link_move<false>(a.job[i], i ? 0 : block);
        if (!a.packs) continue;
        __syncthreads();
        if (threadIdx.x == 0) stridec_mark_write((unsigned long long *)a.marks + block, a.mark);
    }
    stridec_done(a);
}
