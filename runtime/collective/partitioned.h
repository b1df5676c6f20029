/* partitioned.h: partitioned operations (MPI-4.0 §4.2) on carried buffers: each partition is packed when it is ready,
 * and unpacked when it has arrived or, at the latest, when the request completes.
 *
 * The record of the request has the operands, whose flags are 0: the engine moves nothing of them by itself. Any number
 * of threads may make partitions ready, or ask for them, while another waits for the request and has taken its record:
 * so these are found by a table of their own. */
#ifndef STRIDEC_PARTITIONED_H
#define STRIDEC_PARTITIONED_H
#include "args.h"

struct partitioned;

/* The request is about to be started. */
void partitioned_start(struct partitioned *p);
/* All partitions are there: unpacks those that nobody has asked for, and waits. 0 or -1. */
int partitioned_complete(struct partitioned *p);
void partitioned_free(struct partitioned *p);   /* NULL is allowed */

#endif
