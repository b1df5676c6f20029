/* reserve.c: see reserve.h. Its pages are untouched until memory runs out. */
#include "reserve.h"
#include "log.h"
#include "spinlock.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 1024
#define LARGE_BLOCKS 16

atomic_int reserve_taken;   /* small blocks in use */
static struct spinlock spin_lock;
static struct class {
    char *memory;
    size_t bytes;           /* of each block */
    int blocks, taken;
    bool *used;
} classes[] = {
    {(char *)(max_align_t[RESERVE_BLOCKS * SMALL / sizeof(max_align_t)]){{0}}, SMALL, RESERVE_BLOCKS, 0,
     (bool[RESERVE_BLOCKS]){false}},
    {(char *)(max_align_t[LARGE_BLOCKS * RESERVE_MOST / sizeof(max_align_t)]){{0}}, RESERVE_MOST, LARGE_BLOCKS, 0,
     (bool[LARGE_BLOCKS]){false}},
};
enum { CLASSES = sizeof classes / sizeof *classes };

static struct class *owner(const void *p)
{
    for (int i = 0; i < CLASSES; i++)
        if ((uintptr_t)p - (uintptr_t)classes[i].memory < classes[i].bytes * (size_t)classes[i].blocks)
            return &classes[i];
    return NULL;
}

static void count(struct class *c, int more)
{
    c->taken += more;
    if (c == classes) atomic_store_explicit(&reserve_taken, c->taken, memory_order_relaxed);
}

static void *take_from(struct class *c)
{
    void *p = NULL;
    spinlock_lock(&spin_lock);
    for (int i = 0; !p && i < c->blocks; i++)
        if (!c->used[i]) c->used[i] = true, p = c->memory + c->bytes * (size_t)i;
    if (p) count(c, 1);
    spinlock_unlock(&spin_lock);
    return p ? memset(p, 0, c->bytes) : NULL;
}

void *reserve_take(size_t bytes)
{
    void *p = NULL;
    for (int i = 0; !p && i < CLASSES; i++)
        if (bytes <= classes[i].bytes) p = take_from(&classes[i]);
    return p;
}

void *reserve_get(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) p = reserve_take(bytes);
    if (!p) log_fatal("no memory for the record of what has begun");
    return p;
}

void reserve_put(void *p)
{
    struct class *c = owner(p);
    if (!c) {
        free(p);
        return;
    }
    spinlock_lock(&spin_lock);
    c->used[(size_t)((char *)p - c->memory) / c->bytes] = false;
    count(c, -1);
    spinlock_unlock(&spin_lock);
}
