/* write_type.h: datatypes for receiving into host memory, where the MPI can't take packed bytes by the type that it was given.
 *
 * MPICH before 5 ends a receive with MPI_ERR_TRUNCATE where a part of the message as it crosses the wire ends within a
 * basic element of the receive's type, if its bytes lie apart. A sender with such a type ends its parts between elements; one
 * of packed bytes, which is what stridec sends, ends them anywhere (after 8 KiB over UCX). A type of the same layout made of
 * plain bytes has no element to end within. */
#ifndef STRIDEC_WRITE_TYPE_H
#define STRIDEC_WRITE_TYPE_H
#include "layout.h"

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
#define ELEMENTS_ARE_WHOLE 1
#else
#define ELEMENTS_ARE_WHOLE 0
#endif

/* A committed type of l's bytes and extent, made of MPI_BYTE; it lives as long as the layout. MPI_DATATYPE_NULL without
 * memory, without a tree, and for blocks past 2^31 bytes. */
MPI_Datatype layout_runs_type(struct layout *l);
/* The same where `datatype` is one that the MPI can't take packed bytes by; else, and on any other MPI, `datatype`. */
MPI_Datatype type_to_receive(MPI_Datatype datatype);

#endif
