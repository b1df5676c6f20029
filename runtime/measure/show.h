/* show.h: what a tuned table makes of messages, for people; no GPU is asked. */
#ifndef STRIDEC_TUNE_SHOW_H
#define STRIDEC_TUNE_SHOW_H
#include "tune/table.h"

struct tune_shown {
    const char *file;   /* the table's name */
    const struct tune_table *table;
    int64_t count;      /* of elements in a message */
};

/* Prints the table, and choices by block length and size. */
void tune_show_table(const struct tune_table *t);
/* Prints which way a message of a type goes, to a rank of the node and elsewhere, and why: elements of the tree, which
 * needs not be canonical, `extent` bytes apart. 0, or -1 with *why. */
int tune_show_type(const struct tune_shown *s, const char *name, const struct tree *t, int64_t extent,
                   struct reason *why);

#endif
