/* findings.h: what `stridec tune` found, against what was assumed without it: five lines. */
#ifndef STRIDEC_MEASURE_FINDINGS_H
#define STRIDEC_MEASURE_FINDINGS_H
#include "tune/table.h"

/* The search for kernels: layouts, directions of layouts, gains as parts of the model's time. */
struct tune_gains {
    int layouts, measured;   /* all, and those that there was time for */
    int better;              /* directions where another kernel than the model's is quicker */
    double sum, most;
};

/* Prints five lines on standard output. rows: the block lengths, from the shortest on, whose packing was measured
 * (tune_fill added the others). gains: NULL if kernels were not searched. */
void findings_print(const struct tune_table *t, int rows, const struct gen_gpu *gpu, const struct tune_gains *gains);

#endif
