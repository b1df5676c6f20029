/* table_knobs.h: the lines `knobs` of a tuned table (table.h), for those who read and write them. */
#ifndef STRIDEC_TUNE_KNOBS_H
#define STRIDEC_TUNE_KNOBS_H
#include "table.h"

const char *tune_direction_name(enum gen_direction direction);
/* enum gen_direction of a name of so many characters, or -1. */
int tune_direction_of(const char *word, size_t length);

/* Adds the row of a line, what follows the word `knobs`. NULL, or what is wrong with it. */
const char *tune_knobs_read(struct tune_table *t, const char *rest, int line);
void tune_knobs_write(const struct tune_table *t, FILE *f);

/* Makes tune_knobs_find give k's settings for a layout of just its numbers: adds the row unless others do so already.
 * Rows must come in the order of ascending blocks, and of ascending bytes among those. False where there is no room. */
bool tune_knobs_add(struct tune_table *t, const struct tune_knobs *k);

#endif
