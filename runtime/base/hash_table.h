/* hash_table.h: uthash that works without memory: a table starts in the reserve, and then does not grow. */
#ifndef STRIDEC_HASH_TABLE_H
#define STRIDEC_HASH_TABLE_H
#include "reserve.h"
#define uthash_fatal(what) ((void)0)   /* called if a table can't grow */
#define uthash_malloc(bytes) ((bytes) <= HASH_FIRST_BYTES ? reserve_get(bytes) : malloc(bytes))
#define uthash_free(p, bytes) reserve_put(p)
#include <uthash.h>
#define HASH_FIRST_BYTES (HASH_INITIAL_NUM_BUCKETS * sizeof(struct UT_hash_bucket))

#endif
