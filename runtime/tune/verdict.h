/* verdict.h: chooses how a message travels by a tuned table, for MPI calls and `stridec tune --show` alike. */
#ifndef STRIDEC_TUNE_VERDICT_H
#define STRIDEC_TUNE_VERDICT_H
#include "table.h"

struct tune_message {
    bool aware;             /* the MPI is CUDA-aware */
    bool contiguous;
    bool foreign;           /* the table was measured on another GPU */
    double block, bytes;    /* of the layout; of the message, packed */
};

struct tune_verdict {
    bool direct;            /* zero-copy, where the ranks of a node can (rndv_send.h) */
    enum tune_transport way;      /* otherwise */
    double zerocopy_us, transport_us;   /* negative: not known */
};

/* Returns zero-copy, unless figures of this block, size and GPU say that packing is faster by more than noise. */
struct tune_verdict tune_judge(const struct tune_table *t, const struct tune_message *m);

/* Writes the reason for the choice; `file` is the table's name. */
#define TUNE_WHY_MAX 192
void tune_explain(const struct tune_verdict *v, bool direct, const char *file, char why[TUNE_WHY_MAX]);

#endif
