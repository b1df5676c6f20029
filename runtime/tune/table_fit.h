/* table_fit.h: the built-in curves on another GPU. */
#ifndef STRIDEC_TUNE_TABLE_FIT_H
#define STRIDEC_TUNE_TABLE_FIT_H
#include "../../gen/gpu.h"
#include "table.h"
#include <stdbool.h>

/* Changes the built-in curves of t to what they would be on a GPU: what a call takes beyond its least grows as memory,
 * link or way to the host is slower than the measured GPU's. Ratios up to 1.5 count as equal: H100 and H200 have the
 * figures as they are. */
void tune_fit(struct tune_table *t, const struct gen_gpu *gpu);
/* Appends rows to curves of packing and unpacking that end before the last of these block lengths, which ascend: the
 * built-in curves' times on the GPU. Else longer blocks would have the times of the longest measured ones. Returns
 * false without memory. */
bool tune_fill(struct tune_table *t, const struct gen_gpu *gpu, const double *block, int blocks);

#endif
