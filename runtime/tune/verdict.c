/* verdict.c: chooses how a message travels by a tuned table. */
#include "verdict.h"

#define NOISE 1.1   /* figures of `stridec tune` repeat to within a tenth */

/* Returns true if the grid covers the values; longer blocks count as the longest row. */
static bool measured(const struct tune_grid *g, double block, double bytes)
{
    return g->blocks && (block >= g->block[0] || g->blocks == 1) && bytes <= g->bytes[g->sizes - 1];
}

struct tune_verdict tune_judge(const struct tune_table *t, const struct tune_message *m)
{
    double block = m->contiguous ? m->bytes : m->block;
    bool plain = m->contiguous && m->aware;
    struct tune_verdict v = {.way = plain ? TUNE_DEVICE : TUNE_ONESHOT, .zerocopy_us = -1};
    if (!m->contiguous) v.way = tune_choose(t, m->aware, block, m->bytes);
    v.transport_us = plain ? tune_time(t, TUNE_MESSAGE_DEVICE, block, m->bytes)
                           : tune_transport_time(t, v.way, block, m->bytes);
    if (!m->foreign && measured(&t->grid[TUNE_ZEROCOPY], block, m->bytes))
        v.zerocopy_us = tune_time(t, TUNE_ZEROCOPY, block, m->bytes);
    /* Contiguous messages, too: else the MPI would open the memory, and derived types could not (one owner). */
    v.direct = plain || v.zerocopy_us < 0 || v.transport_us < 0 || v.zerocopy_us <= NOISE * v.transport_us;
    return v;
}

void tune_explain(const struct tune_verdict *v, bool direct, const char *file, char why[TUNE_WHY_MAX])
{
    char other[64] = "";
    const char *name = direct ? tune_transport_name(v->way) : "zerocopy";
    double us = direct ? v->zerocopy_us : v->transport_us, other_us = direct ? v->transport_us : v->zerocopy_us;
    if (other_us >= 0) snprintf(other, sizeof other, ", %s %.1f", name, other_us);
    if (us >= 0) snprintf(why, TUNE_WHY_MAX, "%.1f us%s by %.100s", us, other, file);
    else if (direct) snprintf(why, TUNE_WHY_MAX, "the rule within a node (no figures of it in %.100s)", file);
    else snprintf(why, TUNE_WHY_MAX, "not in %.100s", file);
}
