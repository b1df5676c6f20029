/* calls_forms.h: functions that MPI-4.0 has twice, with counts of int and of MPI_Count. */
#ifndef STRIDEC_CALLS_FORMS_H
#define STRIDEC_CALLS_FORMS_H
#include <mpi.h>

/* The way down: MPI_X, or MPI_X_c for a call that came in by that one. */
#define FORMS(name, buffer, ...) \
    struct name { \
        int (*small)(buffer, int, MPI_Datatype, __VA_ARGS__); \
        int (*large)(buffer, MPI_Count, MPI_Datatype, __VA_ARGS__); \
    }
#define DOWN(forms, buf, count, ...) \
    ((forms).large ? (forms).large(buf, count, __VA_ARGS__) : (forms).small(buf, (int)(count), __VA_ARGS__))

#endif
