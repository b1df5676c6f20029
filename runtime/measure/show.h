/* show.h: prints how messages travel by a tuned table; needs no GPU. */
#ifndef STRIDEC_TUNE_SHOW_H
#define STRIDEC_TUNE_SHOW_H
#include "tune/table.h"

struct tune_shown {
    const char *file;   /* the name of the table, or of the figures that it has from elsewhere */
    const struct tune_table *table;
    int64_t count;      /* elements in a message */
};

/* Prints the table, and the choices by block length and size. */
void tune_show_table(const struct tune_shown *s);
/* Prints how a message of a type travels, to ranks of the node and elsewhere, and why. Its elements are `extent` bytes
 * apart; the tree need not be canonical. Returns 0, or -1 with *why. */
int tune_show_type(const struct tune_shown *s, const char *name, const struct tree *t, int64_t extent,
                   struct reason *why);

#endif
