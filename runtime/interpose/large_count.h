/* large_count.h: functions that MPI 4.0 declares twice, with counts of int and of MPI_Count. */
#ifndef STRIDEC_CALLS_FORMS_H
#define STRIDEC_CALLS_FORMS_H
#include "next.h"

/* The next function to call: `small` is MPI_X, `large` is MPI_X_c; one of them is NULL. */
#define FORMS(name, buffer, ...) \
    struct name { \
        int (*small)(buffer, int, MPI_Datatype, __VA_ARGS__); \
        int (*large)(buffer, MPI_Count, MPI_Datatype, __VA_ARGS__); \
    }
#define CALL_NEXT(forms, buf, count, ...) \
    ((forms).large ? (forms).large(buf, count, __VA_ARGS__) : (forms).small(buf, (int)(count), __VA_ARGS__))

/* Expands list(name suffix, form, type of counts) once a form. MPI 4.0 brought all large forms at once. */
#ifdef HAVE_Send_c
#define EACH_FORM(list) list(, small, int) list(_c, large, MPI_Count)
#else
#define EACH_FORM(list) list(, small, int)
#endif

#endif
