/* Words, each moved by one load and one store. */
template <int WIDTH> struct stridec_word;
struct alignas(16) stridec_16_bytes {
    unsigned int x, y, z, w;
};
template <> struct stridec_word<16> {
    typedef stridec_16_bytes type;
};
template <> struct stridec_word<8> {
    typedef unsigned long long type;
};
template <> struct stridec_word<4> {
    typedef unsigned int type;
};
template <> struct stridec_word<2> {
    typedef unsigned short type;
};
template <> struct stridec_word<1> {
    typedef unsigned char type;
};

@ include "templates/target.cuh"
@ if exchanges then

/* Stores that the L2 cache answers for at once, where words are as wide as an atomic operation. */
struct stridec_exchange {
    template <class WORD> static __device__ __forceinline__ void to(WORD *at, const WORD &value) { *at = value; }
    static __device__ __forceinline__ void to(unsigned int *at, unsigned int value) { atomicExch(at, value); }
    static __device__ __forceinline__ void to(unsigned long long *at, unsigned long long value)
    {
        atomicExch(at, value);
    }
};
@ end

/* What the code that moves words knows of a direction: the threads of a block, the words that EACH of them moves at
 * a time (FAR: a whole grid apart), how one is loaded and how it is stored. */
@ for _, name in ipairs { "pack", "unpack" } do
@   local way = plan.way[name]
template <int WORDS> struct stridec_way_@(name) {
    static const bool PACK = @(name == "pack"), FAR = @(way.order == "far");
    static const int THREADS = @(way.threads), EACH = WORDS;
    static __device__ __forceinline__ unsigned int block() { return blockIdx.x; }
    static __device__ __forceinline__ unsigned int blocks() { return gridDim.x; }
    template <class WORD> static __device__ __forceinline__ WORD load(const WORD *from)
    {
        return @(way.load == "plain" and "*from" or "stridec_load_" .. way.load .. "::of(from)");
    }
    template <class WORD> static __device__ __forceinline__ void store(WORD *to, const WORD &value)
    {
        @(way.store == "exch" and "stridec_exchange::to(to, value)" or "*to = value");
    }
};
@ end

/* A launch's words, and those before its first. */
template <class LAYOUT>
static __device__ __forceinline__ typename LAYOUT::index stridec_words(const struct stridec_launch &a)
{
    return (typename LAYOUT::index)((unsigned long long)(a.end - a.begin) / sizeof(typename LAYOUT::word));
}
template <class LAYOUT>
static __device__ __forceinline__ typename LAYOUT::index stridec_skipped(const struct stridec_launch &a)
{
    return (typename LAYOUT::index)((unsigned long long)a.begin / sizeof(typename LAYOUT::word));
}
