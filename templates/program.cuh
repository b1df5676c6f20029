/* Record fields, in words from the record's first: gen/program.c. */
enum { KIND, OFF, SIZE };
enum { DENSE, STRIDE, SEQ, INDEX, BLOCKS };
enum { STRIDE_CHILD_SIZE = 3, STRIDE_STEP, STRIDE_CHILD };
enum { SEQ_COUNT = 3, SEQ_PAIRS };
enum { INDEX_CHILD_SIZE = 3, INDEX_CHILD, INDEX_COUNT, INDEX_OFFSETS };

/* A division of 64 bits takes ten times as long as one of 32. */
static __device__ __forceinline__ unsigned long long stridec_quotient(unsigned long long a, unsigned long long b)
{
    return (a | b) >> 32 ? a / b : (unsigned int)a / (unsigned int)b;
}

/* The (start, node) pair of the last part that starts at or before `rest`, or a block's (start, place). The first
 * starts at 0. */
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

/* Where byte `rest` of one element lies. The root's outermost digit is not bounded by its count, so that without wrap
 * its stride goes on. */
static __device__ __forceinline__ long long stridec_walk(const long long *program, unsigned long long rest)
{
    const long long *node = program;
    long long offset = 0;
    while (node[KIND] != DENSE) {
        if (node[KIND] == STRIDE) {
            const unsigned long long digit = stridec_quotient(rest, (unsigned long long)node[STRIDE_CHILD_SIZE]);
            rest -= digit * (unsigned long long)node[STRIDE_CHILD_SIZE];
            offset += (long long)digit * node[STRIDE_STEP];
            node = program + node[STRIDE_CHILD];
        } else if (node[KIND] == SEQ) {
            const long long *part = stridec_part(node, rest);
            rest -= (unsigned long long)part[0];
            node = program + part[1];
        } else if (node[KIND] == BLOCKS) {
            return offset + stridec_part(node, rest)[1] + (long long)rest;
        } else {
            const unsigned long long digit = stridec_quotient(rest, (unsigned long long)node[INDEX_CHILD_SIZE]);
            rest -= digit * (unsigned long long)node[INDEX_CHILD_SIZE];
            offset += node[INDEX_OFFSETS + digit];
            node = program + node[INDEX_CHILD];
        }
        offset += node[OFF];
    }
    return offset + (long long)rest;
}
