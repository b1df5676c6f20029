/* rts_short.c: which peers take a short RTS. */
#include "rts_short.h"
#include "datatype/type_filter.h"

bool rts_short_begin(struct peer *to)
{
    struct node_file *f = to->file;
    if (!atomic_load_explicit(&f->takes_short, memory_order_relaxed)) return false;
    atomic_fetch_add(&f->short_msgs, 1);
    if (atomic_load(&f->takes_short)) return true;
    atomic_fetch_sub(&f->short_msgs, 1);
    return false;
}

void rts_short_take_back(struct peer *to)
{
    atomic_fetch_sub(&to->file->short_msgs, 1);
}

void rts_short_refuse(void)
{
    int64_t least = RTS_SHORT_MIN, look = RTS_SHORT_MIN;
    if (rts_least() > least) return;
    atomic_store(&node_own()->takes_short, 0);
    bool none = !atomic_load(&node_own()->short_msgs) && !node_lost();   /* a truncated file says 0 */
    if (none && atomic_compare_exchange_strong(&rts_least_now, &least, RNDV_MIN))
        atomic_compare_exchange_strong(&rts_check_least, &look, RNDV_MIN);
}

void rts_short_taken(void)
{
    atomic_fetch_sub(&node_own()->short_msgs, 1);
}
