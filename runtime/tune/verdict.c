/* verdict.c: what a tuned table makes of a message. */
#include "verdict.h"

#define NOISE 1.1   /* `stridec tune` repeats its figures to within a tenth */

/* Within the grid; rows of longer blocks are as the longest. */
static bool measured(const struct tune_grid *g, double block, double bytes)
{
    return g->blocks && (block >= g->block[0] || g->blocks == 1) && bytes <= g->bytes[g->sizes - 1];
}

struct tune_verdict tune_judge(const struct tune_table *t, const struct tune_message *m)
{
    double block = m->contiguous ? m->bytes : m->block;
    bool plain = m->contiguous && m->aware;
    struct tune_verdict v = {.way = plain ? TUNE_DEVICE : TUNE_ONESHOT, .direct_us = -1};
    if (!m->contiguous) v.way = tune_choose(t, m->aware, block, m->bytes);
    v.way_us = plain ? tune_time(t, TUNE_MESSAGE_DEVICE, block, m->bytes) : tune_way_time(t, v.way, block, m->bytes);
    if (!m->foreign && measured(&t->grid[TUNE_ZEROCOPY], block, m->bytes))
        v.direct_us = tune_time(t, TUNE_ZEROCOPY, block, m->bytes);
    /* Memory that the MPI opens for contiguous messages would be in the way of derived ones: one owner for both. */
    v.direct = plain || v.direct_us < 0 || v.way_us < 0 || v.direct_us <= NOISE * v.way_us;
    return v;
}

void tune_explain(const struct tune_verdict *v, bool direct, const char *file, char why[TUNE_WHY_MAX])
{
    char other[64] = "";
    const char *name = direct ? tune_way_name(v->way) : "zerocopy";
    double us = direct ? v->direct_us : v->way_us, other_us = direct ? v->way_us : v->direct_us;
    if (other_us >= 0) snprintf(other, sizeof other, ", %s %.1f", name, other_us);
    if (us >= 0) snprintf(why, TUNE_WHY_MAX, "%.1f us%s by %.100s", us, other, file);
    else if (direct) snprintf(why, TUNE_WHY_MAX, "the rule within a node (no figures of it in %.100s)", file);
    else snprintf(why, TUNE_WHY_MAX, "not in %.100s", file);
}
