/* large_count.h: functions that MPI 4.0 declares twice, with counts of int and of MPI_Count. */
#ifndef STRIDEC_LARGE_COUNT_H
#define STRIDEC_LARGE_COUNT_H
#include "next.h"

/* Expands list(name suffix, type of counts) once a form. MPI 4.0 brought all large forms at once.
 * PMPI_LARGE(name, ...) calls PMPI_X_c if the MPI has it, else PMPI_X. */
#ifdef HAVE_Send_c
#define EACH_FORM(list) list(, int) list(_c, MPI_Count)
#define PMPI_LARGE(name, buf, count, ...) PMPI_##name##_c(buf, count, __VA_ARGS__)
#else
#define EACH_FORM(list) list(, int)
#define PMPI_LARGE(name, buf, count, ...) PMPI_##name(buf, (int)(count), __VA_ARGS__)
#endif

#endif
