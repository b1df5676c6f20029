/* choose.h: the tuned table in use. */
#ifndef STRIDEC_CHOOSE_H
#define STRIDEC_CHOOSE_H
#include "layout.h"
#include "tune_verdict.h"

/* Reads the table of STRIDEC_TUNE or the default place, else takes the built-in figures. At MPI_Init; each
 * rank reads for itself, so that ranks without stridec in the same job are waited for by nobody. */
void choose_start(void);
void choose_finish(void);
/* The table between those two, and its file ("built-in" for the figures that come with the library), which NULL does not
 * ask for; NULL outside. */
const struct tune_table *choose_table(const char **file);

/* Why a message that went from memory to memory did, or one that was packed. */
void choose_explain(const struct layout *l, int64_t count, int64_t bytes, bool direct, char why[TUNE_WHY_MAX]);

#endif
