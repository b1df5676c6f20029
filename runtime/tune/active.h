/* active.h: the tuned table in use. */
#ifndef STRIDEC_TUNE_ACTIVE_H
#define STRIDEC_TUNE_ACTIVE_H
#include "table.h"
#include <stdbool.h>

/* Reads the table of STRIDEC_TUNE or the default place, else takes the built-in figures. At MPI_Init; each rank
 * reads for itself, so that no rank waits for one without stridec. */
void table_start(void);
void table_finish(void);
/* Returns the table between those two, NULL outside. Sets *file, unless `file` is NULL, to the table's file; to
 * "built-in" for the figures that come with the library. */
const struct tune_table *table_active(const char **file);
/* Returns true if the table was read from a file. */
bool table_is_read(void);

#endif
