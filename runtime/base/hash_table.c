/* hash_table.c: the hash of hash_table.h. */
#include "hash_table.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

unsigned hash_table_hash(const void *key, size_t bytes)
{
    return (unsigned)XXH3_64bits(key, bytes);
}
