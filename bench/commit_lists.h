/* commit_lists.h: rows of bench/commit.c for types of irregular lists. */
#ifndef STRIDEC_BENCH_COMMIT_LISTS_H
#define STRIDEC_BENCH_COMMIT_LISTS_H
#include <mpi.h>
#include <stdio.h>

typedef int commit_function(MPI_Datatype *type);

/* Writes "lists": [...], no comma, of up to `most` blocks; `own` is the MPI's commit past stridec. */
void lists_rows(FILE *f, commit_function *own, int most);

#endif
