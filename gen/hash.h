/* hash.h: where keys that are addresses, handles or small sums of them go in a table; hashes of long lists. */
#ifndef STRIDEC_HASH_H
#define STRIDEC_HASH_H
#include <stdint.h>

/* One of 2^bits places, 1 <= bits <= 64: the upper bits of one product (Fibonacci hashing). */
static inline __attribute__((always_inline)) uint64_t hash_place(uint64_t key, int bits)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits);
}

__extension__ typedef unsigned __int128 hash_product;
#define HASH_FACTOR UINT64_C(0x1b873593cc9e2d51)

/* The hash of what `h` is the hash of, then two words: both halves of a product. Where b is HASH_FACTOR, nothing else
 * matters: who finds a hash must compare what was hashed. */
static inline uint64_t hash_pair(uint64_t h, uint64_t a, uint64_t b)
{
    hash_product p = (hash_product)(a ^ h) * (b ^ HASH_FACTOR);
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

#endif
