/* freelist.h: memory that each message needs for a while: what is given back is kept for the next one, up to a
 * limit, so that a program whose messages go round takes none from the system. For calls of the MPI alone, by any
 * thread (spinlock.h). */
#ifndef STRIDEC_SPARE_H
#define STRIDEC_SPARE_H
#include <stddef.h>

/* ORDER LIMITS (freelist.c) */
enum freelist { SPARE_PARCEL, SPARE_RECORD, SPARE_PULL, SPARE_LIST, SPARE_KINDS };

/* At least `bytes`, not cleared; NULL where memory is out. */
void *freelist_get(enum freelist kind, size_t bytes);
void freelist_put(enum freelist kind, void *block);   /* NULL is allowed */
/* Gives back to the system all that is kept. */
void freelist_drop(void);

#endif
