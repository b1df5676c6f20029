/* shm_fill.h: the sender packs an offer into its room (shm_pool.h), and into its descriptor, whose rest is the
 * payload's head. */
#ifndef STRIDEC_HOST_FILL_H
#define STRIDEC_HOST_FILL_H
#include "rndv_internal.h"

/* What the receiver finds when it is told: the head, and of a long payload the first piece. */
void shm_fill_begin(struct rndv_send *o);
/* The rest, while it reads. */
void shm_fill_rest(struct rndv_send *o);
/* The receiver has read it. */
void shm_fill_read(const struct rndv_send *o);

#endif
