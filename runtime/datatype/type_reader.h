/* type_reader.h: an MPI datatype as a stride tree, by MPI_Type_get_envelope and MPI_Type_get_contents. */
#ifndef STRIDEC_READ_TYPE_H
#define STRIDEC_READ_TYPE_H
#include "../../gen/type.h"
#include <mpi.h>

/* A type that lays out bytes as `datatype` does, with the lower bound and extent that the MPI reports at every
 * level; the caller frees it. NULL with *why for what cannot be read: combiners that have no reader here, and any
 * type for which the tree's size differs from the MPI's. *grain is the size of its basic elements in bytes, 0 where
 * they differ or are value-index pairs. *basic, unless basic is NULL, is the named type that all of them are, or
 * MPI_DATATYPE_NULL. */
struct type *read_type(MPI_Datatype datatype, int64_t *grain, MPI_Datatype *basic, struct reason *why);

/* How it was made, by whichever form of constructor; MPI_UNDEFINED where the MPI does not tell. */
int read_combiner(MPI_Datatype datatype);

#endif
