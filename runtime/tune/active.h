/* active.h: the tuned table in use. */
#ifndef STRIDEC_TUNE_ACTIVE_H
#define STRIDEC_TUNE_ACTIVE_H
#include "../../gen/gpu.h"
#include "table.h"
#include <stdbool.h>

/* Reads the table of STRIDEC_TUNE or the default file, else the built-in one. Called at MPI_Init; each rank reads its
 * own, so that none waits for a rank without stridec. */
void table_start(void);
void table_finish(void);
/* Returns the table from table_start on, else NULL. Sets *file, unless NULL, to the table's file or "built-in". */
const struct tune_table *table_active(const char **file);
/* Returns the table for messages of a GPU: the active one, or if its curves are the built-in ones, these as they would
 * be on the GPU (table_fit.h). One fitted table serves the whole process: that of the GPU asked for first, which holds
 * for a rank's other GPUs too, of another kind as well. NULL gpu: the active one. Thread safe. */
const struct tune_table *table_for(const struct gen_gpu *gpu);
/* Returns true if the table was read from a file. */
bool table_from_file(void);

#endif
