/* byte_types.h: datatypes for receiving into host memory, where the MPI can't take packed bytes by the type that it
 * was given.
 *
 * MPICH ends a receive with MPI_ERR_TRUNCATE where the message ends within a basic element of the receive's type, if
 * the type's bytes lie apart, or seem to (a resized struct without gaps); before version 5 also where a part of the
 * message as it crosses the wire does. A sender with such a type ends both between elements; packed bytes, which is
 * what stridec sends, have their parts end anywhere (after 8 KiB over UCX), and a descriptor (segment.h) ends after
 * 512. A type of the same layout made of plain bytes has no element to end within. */
#ifndef STRIDEC_WRITE_TYPE_H
#define STRIDEC_WRITE_TYPE_H
#include "layout.h"

#ifdef MPICH_VERSION
#define ELEMENTS_ARE_WHOLE 1
#else
#define ELEMENTS_ARE_WHOLE 0
#endif
/* Not only a message, but each part of one on the wire has to end between elements: of SHM_SEND_MIN bytes and
 * more. */
#if ELEMENTS_ARE_WHOLE && MPICH_NUMVERSION < 50000000
#define PARTS_ARE_WHOLE 1
#else
#define PARTS_ARE_WHOLE 0
#endif

/* A committed type of l's bytes and extent, made of MPI_BYTE; it lives as long as the layout. MPI_DATATYPE_NULL without
 * memory, without a tree, and for blocks past 2^31 bytes. */
MPI_Datatype layout_runs_type(struct layout *l);
/* True if no part of l's packed bytes, as they cross the wire or as a descriptor, ends within an element. */
bool type_cuts_nothing(const struct layout *l);
/* The same where `datatype` is one that the MPI can't take packed bytes by; else, and on any other MPI, `datatype`.
 * comm is the receive's. */
MPI_Datatype type_to_receive(MPI_Datatype datatype, MPI_Comm comm);
/* Parts on the wire, and descriptors, are multiples of so many bytes: elements of one size that divides it are not
 * cut. */
#define TYPE_CUT_BYTES 16

#endif
