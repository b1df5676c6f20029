/* bounce.c: bounce buffers in lists, by powers of two. */
#include "bounce.h"
#include "spinlock.h"
#include <stdbool.h>
#include <stdlib.h>

#define SMALLEST 12   /* log2 of bytes */
#define CLASSES 16    /* larger buffers are not kept */
#define LISTS_BYTES ((size_t)32 << 20)

static struct spinlock spin_lock;
static struct bounce *lists[CLASSES];
static size_t kept;

static int class_of(size_t bytes)
{
    int c = 64 - __builtin_clzll((bytes - 1) | 1) - SMALLEST;
    return c < 0 ? 0 : c;
}

static struct bounce *take(int c)
{
    spinlock_lock(&spin_lock);
    struct bounce *b = lists[c];
    if (b) lists[c] = b->next, kept -= b->bytes;
    spinlock_unlock(&spin_lock);
    return b;
}

static void release(struct bounce *b)
{
    free(b->memory);
    free(b);
}

struct bounce *bounce_get(int64_t bytes)
{
    int c = class_of((size_t)bytes);
    struct bounce *b = c < CLASSES ? take(c) : NULL;
    if (b) return b;
    b = malloc(sizeof *b);
    if (!b) return NULL;
    b->bytes = c < CLASSES ? (size_t)1 << (c + SMALLEST) : (size_t)bytes;
    b->memory = malloc(b->bytes);
    if (b->memory) return b;
    free(b);
    return NULL;
}

void bounce_put(struct bounce *b)
{
    if (!b) return;
    int c = class_of(b->bytes);
    spinlock_lock(&spin_lock);
    bool keep = c < CLASSES && kept + b->bytes <= LISTS_BYTES;
    if (keep) b->next = lists[c], lists[c] = b, kept += b->bytes;
    spinlock_unlock(&spin_lock);
    if (!keep) release(b);
}

void bounce_drop_all(void)
{
    for (int c = 0; c < CLASSES; c++)
        for (struct bounce *b; (b = take(c));) release(b);
}
