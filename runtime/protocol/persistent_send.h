/* persistent_send.h: what a persistent send offers (rndv_send.h), or sends in chunks (pipeline_send.h), at each
 * start anew. What can be looked up is looked up once: the start of an offer asks the driver whether the allocation
 * is still the same, and takes a slot. */
#ifndef STRIDEC_STANDING_H
#define STRIDEC_STANDING_H
#include "pipeline_send.h"
#include "rndv_send.h"
#include "rts.h"

struct standing;

/* NULL where the send goes another way, at every start. A peer that has not shown yet that it can read the memory is
 * given a little time: it is mostly about to make the receive that belongs to the send. */
struct standing *standing_open(const void *buf, int64_t count, MPI_Datatype datatype, int dest, MPI_Comm comm);
/* What the MPI's own persistent request sends: written at each start. */
const struct descriptor *standing_descriptor(const struct standing *s);
int standing_descriptor_count(const struct standing *s, MPI_Datatype *type);
/* A new offer, to be ended as others are, or, where there is no slot for one, NULL: the payload is under way then.
 * False where the memory can't be offered any more. The sends that one call starts share the site. */
bool standing_start(struct standing *s, struct offer_site *site, struct offer **started);
/* What was started so without an offer is not sent. */
void standing_recall(struct standing *s);
/* True where it goes in chunks; then, in place of standing_start, what is to be fed once the MPI has started its
 * request, and left. NULL without memory. */
bool standing_flows(const struct standing *s);
struct outflow *standing_flow(struct standing *s);
void standing_close(struct standing *s);   /* NULL is allowed */

#endif
