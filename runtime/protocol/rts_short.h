/* rts_short.h: the short RTS, the first RTS_SHORT_BYTES of an RTS header.
 *
 * Its payload lies in device memory and has from RTS_SHORT_MIN up to RNDV_MIN - 1 bytes. A process that may be sent one
 * looks at each message of that length. It stops for good at its first receive of under RNDV_MIN bytes that goes to the
 * MPI, such as into host memory: those stay fast. Its node file says if it still looks, and counts the short RTS on
 * their way to it. The sender counts, then reads the flag; the receiver clears the flag, then reads the count: at least
 * one of the two sees the other's write. */
#ifndef STRIDEC_RTS_SHORT_H
#define STRIDEC_RTS_SHORT_H
#include "node/segment.h"

/* Sender: returns true if the peer takes a short RTS, and counts it until rts_short_taken or rts_short_take_back. */
bool rts_short_begin(struct peer *to);
void rts_short_take_back(struct peer *to);
/* Receiver: refuses short RTS from now on. If none is on its way, rts_least becomes RNDV_MIN. */
void rts_short_refuse(void);
/* Receiver: one short RTS was received. */
void rts_short_taken(void);

#endif
