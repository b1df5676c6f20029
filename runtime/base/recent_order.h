/* recent_order.h: finds items of a small table that are asked for in the same order again and again, such as the
 * allocations of a message. Tries the one found last, then the one that was found after it the last time, then all. */
#ifndef STRIDEC_RECENT_ORDER_H
#define STRIDEC_RECENT_ORDER_H
#include <stdbool.h>

#define RECENT_MOST 64   /* items of a table */

struct recent_order {
    unsigned used;          /* items; the others are free */
    unsigned next, found;   /* the oldest one, once all are used; the one found last */
    unsigned after[RECENT_MOST];   /* by item: the one that was found after it the last time */
};

static inline bool recent_is(struct recent_order *o, unsigned item, bool is(unsigned item, const void *key),
                             const void *key)
{
    if (!is(item, key)) return false;
    if (item != o->found) o->after[o->found] = item;
    o->found = item;
    return true;
}

/* Returns the item for which `is` returns true, or -1. Free items are asked about, too, and are no key's. */
static inline __attribute__((always_inline)) int recent_find(struct recent_order *o,
                                                             bool is(unsigned item, const void *key), const void *key)
{
    if (recent_is(o, o->found, is, key) || recent_is(o, o->after[o->found], is, key)) return (int)o->found;
    for (unsigned item = 0; item < o->used; item++)
        if (recent_is(o, item, is, key)) return (int)item;
    return -1;
}

/* Returns the item that a new one takes: a free one, else the oldest. */
static inline unsigned recent_add(struct recent_order *o)
{
    unsigned item = o->next++ % RECENT_MOST;
    if (o->used < RECENT_MOST) o->used++;
    o->after[item] = 0;
    return item;
}

#endif
