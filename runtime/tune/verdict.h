/* verdict.h: what a tuned table makes of a message: the one place that decides, for MPI calls and for
 * `stridec tune --show` alike. */
#ifndef STRIDEC_TUNE_VERDICT_H
#define STRIDEC_TUNE_VERDICT_H
#include "table.h"

struct tune_message {
    bool aware;             /* the MPI takes device memory */
    bool contiguous;        /* all in one piece */
    bool foreign;           /* the table was measured on another GPU */
    double block, bytes;    /* of the layout; of the message, packed */
};

struct tune_verdict {
    bool direct;            /* between ranks of a node that can: from memory to memory (rndv_send.h) */
    enum tune_way way;      /* else */
    double direct_us, way_us;   /* negative: not known */
};

/* Messages go from memory to memory unless the table has figures of that at their block length and size, measured on
 * this GPU, and packed ones are quicker by more than two runs of `stridec tune` differ. */
struct tune_verdict tune_judge(const struct tune_table *t, const struct tune_message *m);

/* Why a message went by `path`, in words; file is the table's name. */
#define TUNE_WHY_MAX 192
void tune_explain(const struct tune_verdict *v, bool direct, const char *file, char why[TUNE_WHY_MAX]);

#endif
