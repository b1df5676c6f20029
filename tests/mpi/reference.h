/* reference.h: MPI's predefined operations in plain C, for results that tests compare with. */
#ifndef STRIDEC_TESTS_MPI_REFERENCE_H
#define STRIDEC_TESTS_MPI_REFERENCE_H
#include <mpi.h>
#include <stddef.h>

enum operation { SUM, PROD, MAX, MIN, LAND, LOR, LXOR, BAND, BOR, BXOR, MAXLOC, MINLOC, OPERATIONS };
extern const char *const operation_name[OPERATIONS];
extern MPI_Op operation_mpi[OPERATIONS];

/* A predefined type that MPI defines operations for. */
struct number {
    const char *name;
    MPI_Datatype type;       /* MPI_DATATYPE_NULL where the MPI lacks it */
    int bytes;               /* packed, of the C type that stands for it here */
    size_t extent;
    unsigned operations;     /* a bit each */
    /* Fills n elements with random values, whose sums and products of up to four are exact; never what lies in gaps. */
    void (*fill)(void *to, size_t n);
    void (*copy)(void *to, const void *from);   /* one element, without gaps */
    /* inout = in OP inout */
    void (*reduce)(enum operation op, const void *in, void *inout, size_t n);
};
extern const struct number numbers[];
extern const int number_total;
const struct number *number_of(MPI_Datatype type);

#endif
