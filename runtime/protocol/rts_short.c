/* rts_short.c: who is sent brief descriptors. */
#include "rts_short.h"
#include "datatype/type_filter.h"

bool rts_short_begin(struct peer *to)
{
    struct node_file *f = to->file;
    if (!atomic_load_explicit(&f->takes_briefs, memory_order_relaxed)) return false;
    atomic_fetch_add(&f->briefs, 1);
    if (atomic_load(&f->takes_briefs)) return true;
    atomic_fetch_sub(&f->briefs, 1);
    return false;
}

void rts_short_take_back(struct peer *to)
{
    atomic_fetch_sub(&to->file->briefs, 1);
}

void rts_short_refuse(void)
{
    int64_t least = RTS_SHORT_MIN, look = RTS_SHORT_MIN;
    if (rts_least() > least) return;
    atomic_store(&node_own()->takes_briefs, 0);
    if (!atomic_load(&node_own()->briefs) && atomic_compare_exchange_strong(&rts_least_now, &least, RNDV_MIN))
        atomic_compare_exchange_strong(&rts_look, &look, RNDV_MIN);
}

void rts_short_taken(void)
{
    atomic_fetch_sub(&node_own()->briefs, 1);
}
