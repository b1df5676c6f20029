/* hash.h: where keys that are addresses, handles or small sums of them go in a table. */
#ifndef STRIDEC_HASH_H
#define STRIDEC_HASH_H
#include <stdint.h>

/* One of 2^bits places, 1 <= bits <= 64: the upper bits of one product (Fibonacci hashing). */
static inline __attribute__((always_inline)) uint64_t hash_place(uint64_t key, int bits)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits);
}

#endif
