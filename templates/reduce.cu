/* @(title): rows of elements reduced to one, in the order of the rows. Made by stridec. */
@ include "templates/launch.cuh"

/* struct stridec_reduce of gen/gen.h. */
struct stridec_reduce {
    unsigned long long from, to;
    long long step, count, words;
    unsigned int rows, op, all, unused;
    unsigned long long done, ticket, ended;
};

@ if own then
@   include("templates/reduce_" .. type.class .. ".cuh")
@ else
typedef @(type.c) element;

@   for _, op in ipairs(ops) do
struct stridec_@(op.name) {
    static __device__ __forceinline__ element of(element a, element b) { return @(op.text); }
};
@   end
@ end

static __device__ __forceinline__ void stridec_put(element *to, const element &value)
{
@ if type.class == "pair" then
    to->value = value.value;   /* never the gap behind them */
    to->place = value.place;
@ else
    *to = value;
@ end
}

template <class OP> static __device__ __forceinline__ element stridec_both(const element &a, const element &b)
{
    return OP::of(a, b);
}
@ if wide then

/* Elements that one load brings. */
struct alignas(16) stridec_elements {
    element at[16 / sizeof(element)];
};

static __device__ __forceinline__ void stridec_put(stridec_elements *to, const stridec_elements &value)
{
    *to = value;
}

template <class OP>
static __device__ __forceinline__ stridec_elements stridec_both(const stridec_elements &a, const stridec_elements &b)
{
    stridec_elements both;
#pragma unroll
    for (unsigned int i = 0; i < 16 / sizeof(element); i++) both.at[i] = OP::of(a.at[i], b.at[i]);
    return both;
}
@ end

/* WORD number first and the following. */
template <class OP, class WORD>
static __device__ __forceinline__ void stridec_rows(const struct stridec_reduce &a, long long first, long long past)
{
    const long long all = (long long)gridDim.x * blockDim.x;
    for (long long i = first + (long long)blockIdx.x * blockDim.x + threadIdx.x; i < past; i += all) {
        unsigned long long at = a.from + (unsigned long long)i * sizeof(WORD);
        WORD value = *(const WORD *)at;
#pragma unroll 4
        for (unsigned int row = 1; row < a.rows; row++) {
            at += (unsigned long long)a.step;
            value = stridec_both<OP>(value, *(const WORD *)at);
            if (a.all) stridec_put((WORD *)at, value);
        }
        stridec_put((WORD *)(a.to + (unsigned long long)i * sizeof(WORD)), value);
    }
}

template <class OP> static __device__ __forceinline__ void stridec_reduce_all(const struct stridec_reduce &a)
{
@ if wide then
    stridec_rows<OP, stridec_elements>(a, 0, a.words);
    stridec_rows<OP, element>(a, a.words * (long long)(16 / sizeof(element)), a.count);
@ else
    stridec_rows<OP, element>(a, 0, a.count);
@ end
}

extern "C" __global__ void __launch_bounds__(@(plan.way.pack.threads))
stridec_reduce_w16(const struct stridec_reduce a)
{
    switch (a.op) {
@ for _, op in ipairs(ops) do
    case @(op.number): stridec_reduce_all<stridec_@(op.name)>(a); break;
@ end
    }
    stridec_done(a);
}
