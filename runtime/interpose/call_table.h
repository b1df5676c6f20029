/* call_table.h: the table of MPI functions and how stridec serves each, made from calls.lua. */
#ifndef STRIDEC_CALLS_H
#define STRIDEC_CALLS_H

struct call_row {
    const char *name;   /* "MPI_Send" */
    const char *how;    /* "accelerated", "staged", "passed" */
    const char *why;
};
extern const struct call_row call_rows[];
extern const int call_row_total;

#endif
