/* freelist.c: free lists. Blocks of one kind have one size; arrays grow to the largest size asked for. */
#include "freelist.h"
#include "reserve.h"
#include "spinlock.h"
#include <stdbool.h>
#include <stdlib.h>

struct block {
    struct block *next;
    size_t bytes;           /* of memory[] */
    bool reserved;          /* from the reserve, which gets it back */
    max_align_t memory[];
};

/* ORDER LIMITS: how many blocks to keep, for messages in flight and for concurrent calls on arrays of requests. */
static const int LIMITS[FREELIST_KINDS] = {4096, 4096, 4096, 8};

static struct {
    struct spinlock spin_lock;
    struct block *first;
    int kept;
} lists[FREELIST_KINDS];

static struct block *take(enum freelist kind)
{
    spinlock_enter(&lists[kind].spin_lock);
    struct block *b = lists[kind].first;
    if (b) {
        lists[kind].first = b->next;
        lists[kind].kept--;
    }
    spinlock_leave(&lists[kind].spin_lock);
    return b;
}

void *freelist_get(enum freelist kind, size_t bytes)
{
    struct block *b = take(kind);
    if (b && b->bytes >= bytes) return b->memory;
    free(b);
    b = malloc(sizeof *b + bytes);
    bool reserved = !b;
    if (!b) b = reserve_take(sizeof *b + bytes);
    if (!b) return NULL;
    b->bytes = bytes, b->reserved = reserved;
    return b->memory;
}

void freelist_put(enum freelist kind, void *block)
{
    if (!block) return;
    struct block *b = (struct block *)((char *)block - offsetof(struct block, memory));
    spinlock_enter(&lists[kind].spin_lock);
    bool keep = lists[kind].kept < LIMITS[kind] && !b->reserved;
    if (keep) {
        b->next = lists[kind].first;
        lists[kind].first = b;
        lists[kind].kept++;
    }
    spinlock_leave(&lists[kind].spin_lock);
    if (!keep) reserve_put(b);
}

void freelist_drop(void)
{
    struct block *b;
    for (enum freelist kind = 0; kind < FREELIST_KINDS; kind++)
        while ((b = take(kind))) free(b);
}
