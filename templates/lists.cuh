/* What a kernel reads of its type: the lists of gen/form.h. They never change while a kernel runs. */
template <class ENTRY> struct stridec_entries {
    const ENTRY *first;
    __device__ __forceinline__ ENTRY operator[](unsigned long long i) const { return __ldg(first + i); }
};

template <class ENTRY>
static __device__ __forceinline__ stridec_entries<ENTRY> stridec_list(const struct stridec_launch &a, int number)
{
    return {(const ENTRY *)((const char *)a.program + a.number[number])};
}

/* By a number of the launch, below 2^32 with its inverse, any other without (form_numbers). */
template <class INDEX>
static __device__ __forceinline__ INDEX stridec_divide(INDEX n, unsigned long long by, unsigned long long inverse)
{
    return sizeof(INDEX) == 4 ? (INDEX)__umul64hi(n, inverse) : (INDEX)(n / by);
}

/* How many units further on than in the packed stream the block lies that holds packed unit `unit`. `number` is the
 * first of the list's. Only blocks that begin in the unit's own 2^shift are searched, by the low bits of where. */
template <class ENTRY, class START>
static __device__ __forceinline__ long long stridec_block(unsigned long long unit, const struct stridec_launch &a,
                                                          int number)
{
    const stridec_entries<unsigned int> chunks = stridec_list<unsigned int>(a, number);
    const stridec_entries<START> starts = stridec_list<START>(a, number + 2);
    const unsigned int shift = (unsigned int)a.number[number + 3];
    const unsigned long long chunk = unit >> shift;
    const START begin = (START)(chunk << shift), within = (START)(unit - (chunk << shift));
    unsigned int low = chunks[chunk], high = chunks[chunk + 1];
    while (low < high) {
        const unsigned int middle = (low + high + 1) / 2;
        if ((START)(starts[middle] - begin) <= within)
            low = middle;
        else
            high = middle - 1;
    }
    return stridec_list<ENTRY>(a, number + 1)[low];
}
