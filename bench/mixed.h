/* mixed.h: contiguous and derived messages of the same device memory, by turns in one process (pingpong --mixed, and
 * --first). */
#ifndef STRIDEC_BENCH_MIXED_H
#define STRIDEC_BENCH_MIXED_H
#include <stdio.h>

/* Checks and times all rows between ranks 0 and 1; rank 0 writes them to f as members of a JSON array, where f is not NULL.
 * Without f it only checks. Returns how many rows had wrong bytes. Collective. */
int mixed_run(FILE *f, int rank);
/* Times and checks the first message of each type in this process, as mixed_run does. Call it before any other one. */
int mixed_first(FILE *f, int rank);

#endif
