/* bounce.h: memory of the process for packed bytes: what is given back is kept for the next message, up to a limit.
 * Thread safe. */
#ifndef STRIDEC_BLOCK_H
#define STRIDEC_BLOCK_H
#include <stddef.h>
#include <stdint.h>

struct bounce {
    void *memory;          /* untouched pages are none of the system's */
    size_t bytes;
    struct bounce *next;
};

/* At least so many bytes, not cleared; NULL where memory is out. */
struct bounce *bounce_get(int64_t bytes);
void bounce_put(struct bounce *b);   /* NULL is allowed */
/* Gives back to the system all that is kept. */
void bounces_drop(void);

#endif
