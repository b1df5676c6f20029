/* table_origin.h: where a tuned table was measured, compared with this system. */
#ifndef STRIDEC_TUNE_TABLE_ORIGIN_H
#define STRIDEC_TUNE_TABLE_ORIGIN_H
#include "device/device.h"
#include "table.h"

/* Writes this system and the date into a table; without a device, `any` machine. */
void tune_set_origin(struct tune_table *t, const struct device *d);

/* Return true if the table is from another MPI or stridec; *why follows the file's name. Missing or `any` is equal. */
bool tune_other_mpi(const struct tune_table *t, struct reason *why);
bool tune_other_stridec(const struct tune_table *t, struct reason *why);
/* Returns true if the table is from a GPU of another name. False for a table without curves and knobs of a GPU. */
bool tune_other_machine(const struct tune_table *t, const char *gpu, struct reason *why);

#endif
