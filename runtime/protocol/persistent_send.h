/* persistent_send.h: persistent sends, by rendezvous (rndv_send.h) or in chunks (pipeline_send.h). Peer and layout
 * are looked up once; each rendezvous start only asks the driver if the allocation is unchanged, and takes a slot. */
#ifndef STRIDEC_PERSISTENT_SEND_H
#define STRIDEC_PERSISTENT_SEND_H
#include "pipeline_send.h"
#include "rndv_send.h"
#include "rts.h"

struct message;
struct persistent_send;

/* Returns a send without a plan, for send_plan; NULL without memory. */
struct persistent_send *persistent_send_new(const struct message *m);
/* The plans of rows (protocol.h). */
bool persistent_send_plan_get(struct persistent_send *s, const struct message *m);
bool persistent_send_plan_shared(struct persistent_send *s, const struct message *m);
bool persistent_send_plan_pipelined(struct persistent_send *s, const struct message *m);
/* Returns the RTS header that the MPI's persistent request sends; each start writes it anew. */
const struct rts *persistent_send_rts(const struct persistent_send *s);
int persistent_send_rts_count(const struct persistent_send *s, MPI_Datatype *type);
/* Counts a start for the statistics. */
void persistent_send_count(const struct persistent_send *s);
/* Starts the send, and returns it: the caller ends it. Returns NULL if the memory can't be sent so any more. All sends
 * of one call share `site`. */
struct rndv_send *persistent_send_start(struct persistent_send *s, struct rndv_send_site *site);
/* Returns true if the send goes in chunks. Then persistent_send_flow replaces persistent_send_start: the caller feeds
 * its result after the MPI has started its request. persistent_send_flow returns NULL without memory. */
bool persistent_send_flows(const struct persistent_send *s);
struct pipeline_send *persistent_send_flow(struct persistent_send *s);
void persistent_send_close(struct persistent_send *s);   /* NULL is allowed */

#endif
