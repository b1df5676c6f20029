/* partitioned.h: partitioned operations (MPI-4.0 §4.2) on bounced buffers. Each partition is packed when it is
 * ready. It is unpacked when it has arrived or, at the latest, when the request completes.
 *
 * The request's record owns the arguments; their flags are 0, so args_pack and args_unpack skip them. Any number of
 * threads may call MPI_Pready or MPI_Parrived while another waits for the request and has taken its record. So a
 * table of its own finds these operations. */
#ifndef STRIDEC_PARTITIONED_H
#define STRIDEC_PARTITIONED_H
#include "args.h"

struct partitioned;

/* Prepares a start of the request. */
void partitioned_start(struct partitioned *p);
/* Unpacks the partitions that MPI_Parrived has not, and waits. Returns 0 or -1. */
int partitioned_complete(struct partitioned *p);
void partitioned_free(struct partitioned *p);   /* p may be NULL */

#endif
