/* What a kernel reads of its type: the lists of gen/form.h. They never change while a kernel runs. */
template <class ENTRY> struct stridec_plain {
    const char *at;
    __device__ __forceinline__ ENTRY operator[](unsigned long long i) const { return __ldg((const ENTRY *)at + i); }
};

/* Offsets off bases that lie before them (gen/form_code.h). Neither load waits for the other. */
template <class BASE, class ENTRY, int GROUP, int SCALE> struct stridec_based {
    const char *at;
    __device__ __forceinline__ long long operator[](unsigned long long i) const
    {
        const long long base = __ldg((const BASE *)at - 1 - (i >> GROUP));
        return base * (1LL << SCALE) + (long long)__ldg((const ENTRY *)at + i);
    }
};

template <class LIST> static __device__ __forceinline__ LIST stridec_list(const struct stridec_launch &a, int number)
{
    return {(const char *)a.program + a.number[number]};
}

/* By a number of the launch, below 2^32 with its inverse, any other without (form_numbers). */
template <class INDEX>
static __device__ __forceinline__ INDEX stridec_divide(INDEX n, unsigned long long by, unsigned long long inverse)
{
    return sizeof(INDEX) == 4 ? (INDEX)__umul64hi(n, inverse) : (INDEX)(n / by);
}

/* Returns the block that holds packed unit `unit`, and the units of it before that one and from it on, in the unit's own
 * 2^shift. `number` is the first of the list's. Only blocks that begin in those 2^shift are searched, by the low BITS of
 * where. */
template <class STARTS, int BITS, class INDEX>
static __device__ __forceinline__ unsigned int stridec_block_find(INDEX unit, const struct stridec_launch &a,
                                                                  int number, unsigned int &back, unsigned int &left)
{
    const stridec_plain<unsigned int> chunks = stridec_list<stridec_plain<unsigned int>>(a, number);
    const STARTS starts = stridec_list<STARTS>(a, number + 2);
    const unsigned int mask = ~0u >> (32 - BITS);
    const unsigned int shift = (unsigned int)a.number[number + 3];
    const INDEX chunk = unit >> shift;
    const unsigned int begin = (unsigned int)(chunk << shift), within = (unsigned int)(unit - (chunk << shift));
    const unsigned int first = chunks[chunk], last = chunks[chunk + 1];
    unsigned int low = first, high = last;
    while (low < high) {
        const unsigned int middle = (low + high + 1) / 2;
        if ((((unsigned int)starts[middle] - begin) & mask) <= within)
            low = middle;
        else
            high = middle - 1;
    }
    back = low > first ? within - ((starts[low] - begin) & mask) : within;
    left = (low < last ? (starts[low + 1] - begin) & mask : 1u << shift) - within;
    return low;
}

/* How many units further on than in the packed stream the block lies that holds packed unit `unit`. */
template <class OFFSETS, class STARTS, int BITS, class INDEX>
static __device__ __forceinline__ long long stridec_block(INDEX unit, const struct stridec_launch &a, int number,
                                                          unsigned int &back, unsigned int &left)
{
    return stridec_list<OFFSETS>(a, number + 1)[stridec_block_find<STARTS, BITS, INDEX>(unit, a, number, back, left)];
}
template <class OFFSETS, class STARTS, int BITS, class INDEX>
static __device__ __forceinline__ long long stridec_block(INDEX unit, const struct stridec_launch &a, int number)
{
    unsigned int back, left;
    return stridec_block<OFFSETS, STARTS, BITS, INDEX>(unit, a, number, back, left);
}
