/* hash_table.h: uthash that works without memory: a table starts in the reserve, and then does not grow. Hashes are
 * XXH3, since messages look into several tables, and uthash's own takes three times as long. */
#ifndef STRIDEC_HASH_TABLE_H
#define STRIDEC_HASH_TABLE_H
#include "reserve.h"
#include <stddef.h>

/* Returns the hash of a key. */
unsigned hash_table_hash(const void *key, size_t bytes);
#define uthash_fatal(what) ((void)0)   /* called if a table can't grow */
#define uthash_malloc(bytes) ((bytes) <= HASH_FIRST_BYTES ? reserve_get(bytes) : malloc(bytes))
#define uthash_free(p, bytes) reserve_put(p)
#ifndef HASH_FUNCTION   /* a file may have a quicker one for its keys */
#define HASH_FUNCTION(key, bytes, hash) ((hash) = hash_table_hash(key, bytes))
#endif
#include <uthash.h>
/* Takes every item out of a table and ends it. */
#define HASH_END_ALL(table, item, next, end) HASH_ITER(hh, table, item, next) { HASH_DEL(table, item); end(item); }
#define HASH_FIRST_BYTES (HASH_INITIAL_NUM_BUCKETS * sizeof(struct UT_hash_bucket))

#endif
