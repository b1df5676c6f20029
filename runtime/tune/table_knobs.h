/* table_knobs.h: the lines `knobs` of a tuned table (table.h). */
#ifndef STRIDEC_TUNE_TABLE_KNOBS_H
#define STRIDEC_TUNE_TABLE_KNOBS_H
#include "table.h"

const char *tune_direction_name(enum gen_direction direction);
/* Returns the enum gen_direction of a name with `length` characters, or -1. */
int tune_direction_of(const char *word, size_t length);

/* Adds the row in `rest`, the text after `knobs`. Returns NULL, or the reason why not. */
const char *tune_knobs_read(struct tune_table *t, const char *rest, int line);
void tune_knobs_write(const struct tune_table *t, FILE *f);

/* Adds k's row unless tune_knobs_find gives its settings already. Returns false if the table is full. Rows must come
 * with ascending block, then ascending bytes. */
bool tune_knobs_add(struct tune_table *t, const struct tune_knobs *k);

#endif
