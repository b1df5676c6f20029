/* rts_short.h: descriptors of payloads that are shorter than a descriptor.
 *
 * The payload of a brief one lies in device memory and has RTS_SHORT_MIN bytes or more, but fewer than RNDV_MIN; what
 * travels are the first RTS_SHORT_BYTES of a descriptor. Whoever may be sent one has to look at each message of that
 * length: a process does so until it first makes a receive of fewer than RNDV_MIN bytes that stridec leaves to the
 * MPI, as into host memory, and never after, so that those stay as quick as they are. Its file says whether it still
 * looks, and counts those that are under way to it. A sender counts first and asks then, the receiver refuses first
 * and looks at the count then: one of the two sees what the other did. */
#ifndef STRIDEC_BRIEF_H
#define STRIDEC_BRIEF_H
#include "node/segment.h"

/* The sender's: true if the peer takes one, which is then counted, until it is pulled or taken back. */
bool rts_short_begin(struct peer *to);
void rts_short_take_back(struct peer *to);
/* The receiver's: it makes such a receive now. Where no brief one is under way, rts_least is RNDV_MIN after. */
void rts_short_refuse(void);
/* One was pulled. */
void rts_short_taken(void);

#endif
