/* table_origin.h: where a tuned table was measured, and whether that is here. */
#ifndef STRIDEC_TUNE_ORIGIN_H
#define STRIDEC_TUNE_ORIGIN_H
#include "device/device.h"
#include "table.h"

/* Writes this system, and today, into a table; without a device, a table for any. */
void tune_sign(struct tune_table *t, const struct device *d);

/* True where the table is of something else than what there is here; *why then says so, to follow the file's name. What
 * a table does not say, or says is `any`, is as here. */
bool tune_other_mpi(const struct tune_table *t, struct reason *why);
bool tune_other_stridec(const struct tune_table *t, struct reason *why);
/* gpu: its name. False too of a table of no GPU's figures: neither curves nor knobs. */
bool tune_other_machine(const struct tune_table *t, const char *gpu, struct reason *why);

#endif
