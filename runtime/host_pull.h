/* host_pull.h: the receiver's side of offers of host memory (host_offer.h). */
#ifndef STRIDEC_HOST_PULL_H
#define STRIDEC_HOST_PULL_H
#include "node.h"
#include "parcel.h"

/* Brings the payload of a taken slot into the buffer of p, or, where that is not host memory of a layout that stridec can read,
 * packed, to `packed`, which is NULL else.
 * False where it can't be read. */
bool host_pull(const struct peer *peer, struct slot *s, struct parcel *p, char *packed, int64_t bytes);

#endif
