/* bounce.h: bounce buffers in host memory for packed bytes, kept for reuse up to a limit. Thread safe. */
#ifndef STRIDEC_BOUNCE_H
#define STRIDEC_BOUNCE_H
#include <stddef.h>
#include <stdint.h>

struct bounce {
    void *memory;          /* the system provides a page when it is touched */
    size_t bytes;
    struct bounce *next;
};

/* Returns a buffer of at least `bytes`, not cleared; NULL without memory. Free it with bounce_put. */
struct bounce *bounce_get(int64_t bytes);
void bounce_put(struct bounce *b);   /* NULL is allowed */
/* Frees all kept buffers. */
void bounce_drop_all(void);

#endif
