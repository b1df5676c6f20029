/* large_count.h: functions that MPI-4.0 has twice, with counts of int and of MPI_Count. */
#ifndef STRIDEC_CALLS_FORMS_H
#define STRIDEC_CALLS_FORMS_H
#include "next.h"

/* The way down: MPI_X, or MPI_X_c for a call that came in by that one. */
#define FORMS(name, buffer, ...) \
    struct name { \
        int (*small)(buffer, int, MPI_Datatype, __VA_ARGS__); \
        int (*large)(buffer, MPI_Count, MPI_Datatype, __VA_ARGS__); \
    }
#define DOWN(forms, buf, count, ...) \
    ((forms).large ? (forms).large(buf, count, __VA_ARGS__) : (forms).small(buf, (int)(count), __VA_ARGS__))

/* list(suffix of the name, form, type of the counts), once a form; those of MPI-4.0 came all at once. */
#ifdef HAVE_Send_c
#define EACH_FORM(list) list(, small, int) list(_c, large, MPI_Count)
#else
#define EACH_FORM(list) list(, small, int)
#endif

#endif
