/* freelist.h: free lists for memory that each message needs. Only for MPI calls, by any thread (spinlock.h). */
#ifndef STRIDEC_FREELIST_H
#define STRIDEC_FREELIST_H
#include <stddef.h>

/* ORDER LIMITS (freelist.c) */
enum freelist { FREELIST_TYPED_BUFFER, FREELIST_RECORD, FREELIST_RNDV_RECV, FREELIST_ARRAY, FREELIST_KINDS };

/* Returns at least `bytes`, not cleared; NULL without memory. */
void *freelist_get(enum freelist kind, size_t bytes);
void freelist_put(enum freelist kind, void *block);   /* NULL is allowed */
/* Frees all kept blocks. */
void freelist_drop(void);

#endif
