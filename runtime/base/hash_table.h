/* hash_table.h: uthash, whose tables are there without memory too: they begin in the reserve, and do not grow where
 * there is none. */
#ifndef STRIDEC_DICTIONARY_H
#define STRIDEC_DICTIONARY_H
#include "reserve.h"
#define uthash_fatal(what) ((void)0)   /* said of a table that does not grow */
#define uthash_malloc(bytes) ((bytes) <= DICTIONARY_FIRST ? reserve_get(bytes) : malloc(bytes))
#define uthash_free(p, bytes) reserve_put(p)
#include <uthash.h>
#define DICTIONARY_FIRST (HASH_INITIAL_NUM_BUCKETS * sizeof(struct UT_hash_bucket))

#endif
