/* byte_types.h: datatypes to receive into host memory where the MPI can't take packed bytes by the given type.
 *
 * MPICH returns MPI_ERR_TRUNCATE if a message ends within a basic element of a type with gaps, or of a resized struct
 * without; before version 5 also if a part on the network ends so. Senders with such a type cut between elements.
 * stridec's packed bytes are cut anywhere (after 8 KiB over UCX), an RTS header (segment.h) ends after 512. A type of
 * the same layout made of MPI_BYTE has no elements to cut. */
#ifndef STRIDEC_BYTE_TYPES_H
#define STRIDEC_BYTE_TYPES_H
#include "layout.h"
#include "base/mpi_workarounds.h"

/* Makes a type of so many packed bytes, of `byte`, which is MPI_BYTE or MPI_PACKED. Returns an MPI error code. */
int type_of_bytes(int64_t bytes, MPI_Datatype byte, MPI_Datatype *out);
/* Returns a committed type of one element's packed bytes, made of MPI_BYTE; l owns it. Returns MPI_DATATYPE_NULL
 * without memory. */
MPI_Datatype layout_bytes_type(struct layout *l);
/* Returns true if neither a part of l's packed bytes on the network nor an RTS header ends within an element. */
bool type_parts_whole(const struct layout *l);
/* Returns `datatype` if the MPI can receive packed bytes by it. Else returns a committed type of its layout and extent,
 * made of MPI_BYTE, which the layout owns; `datatype` for blocks past 2^31 bytes. comm: for errors. */
MPI_Datatype type_to_receive(MPI_Datatype datatype, MPI_Comm comm);
/* Parts on the network and RTS headers are multiples of this many bytes: no element of a size dividing it is cut. */
#define TYPE_CUT_BYTES 16

#endif
