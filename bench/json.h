/* json.h: what the heads of all results files share that are written in C. */
#ifndef STRIDEC_BENCH_JSON_H
#define STRIDEC_BENCH_JSON_H
#include <stdio.h>

/* text as a string, up to its first line's end. */
void json_string(FILE *f, const char *text);
/* The MPI's name and version, as a string. */
void json_mpi(FILE *f);
/* The members "date" and "command" (each with a comma). */
void json_run(FILE *f, int argc, char **argv);

#endif
