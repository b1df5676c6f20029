/* table_fit.h: the built-in curves on another GPU. */
#ifndef STRIDEC_TUNE_TABLE_FIT_H
#define STRIDEC_TUNE_TABLE_FIT_H
#include "../../gen/gpu.h"
#include "table.h"

/* Changes the built-in curves of t to what they would be on a GPU: what a call takes beyond its least grows as memory,
 * link or way to the host is slower than the measured GPU's. Ratios up to 1.5 count as equal: H100 and H200 have the
 * figures as they are. */
void tune_fit(struct tune_table *t, const struct gen_gpu *gpu);

#endif
