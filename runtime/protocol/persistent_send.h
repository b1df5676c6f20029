/* persistent_send.h: what a persistent send offers (rndv_send.h), or sends in chunks (pipeline_send.h), at each
 * start anew. What can be looked up is looked up once: the start of an offer asks the driver whether the allocation
 * is still the same, and takes a slot. */
#ifndef STRIDEC_STANDING_H
#define STRIDEC_STANDING_H
#include "pipeline_send.h"
#include "rndv_send.h"
#include "rts.h"

struct persistent_send;

/* NULL where the send goes another way, at every start. A peer that has not shown yet that it can read the memory is
 * given a little time: it is mostly about to make the receive that belongs to the send. */
struct persistent_send *persistent_send_open(const void *buf, int64_t count, MPI_Datatype datatype, int dest,
                                             MPI_Comm comm);
/* What the MPI's own persistent request sends: written at each start. */
const struct rts *persistent_send_descriptor(const struct persistent_send *s);
int persistent_send_descriptor_count(const struct persistent_send *s, MPI_Datatype *type);
/* A new offer, to be ended as others are, or, where there is no slot for one, NULL: the payload is under way then.
 * False where the memory can't be offered any more. The sends that one call starts share the site. */
bool persistent_send_start(struct persistent_send *s, struct rndv_send_site *site, struct rndv_send **started);
/* What was started so without an offer is not sent. */
void persistent_send_recall(struct persistent_send *s);
/* True where it goes in chunks; then, in place of persistent_send_start, what is to be fed once the MPI has started its
 * request, and left. NULL without memory. */
bool persistent_send_flows(const struct persistent_send *s);
struct pipeline_send *persistent_send_flow(struct persistent_send *s);
void persistent_send_close(struct persistent_send *s);   /* NULL is allowed */

#endif
