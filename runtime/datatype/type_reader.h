/* type_reader.h: converts an MPI datatype into a type with a stride tree, by its envelope and contents. */
#ifndef STRIDEC_TYPE_READER_H
#define STRIDEC_TYPE_READER_H
#include "../../gen/type.h"
#include <mpi.h>

/* Returns a type with the layout of `datatype`, and the MPI's lower bound and extent at every level; the caller frees
 * it. Returns NULL with *why for an unknown combiner, or if the tree's size differs from the MPI's. Sets *grain to the
 * bytes of each basic element; 0 if they differ or are value-index pairs. Sets *basic, unless basic is NULL, to the
 * named type of all elements, or MPI_DATATYPE_NULL. */
struct type *read_type(MPI_Datatype datatype, int64_t *grain, MPI_Datatype *basic, struct reason *why);

/* Returns the type's combiner, for every form of constructor; MPI_UNDEFINED if the MPI reports none. */
int read_combiner(MPI_Datatype datatype);

#endif
