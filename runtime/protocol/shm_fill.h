/* shm_fill.h: packs a payload: HEAD_BYTES into the RTS header, the rest into a shared segment block (shm_pool.h). */
#ifndef STRIDEC_SHM_FILL_H
#define STRIDEC_SHM_FILL_H
#include "rndv_internal.h"

/* Packs the head and, of a long payload, the first piece; called before the RTS header is sent. */
void shm_fill_begin(struct rndv_send *o);
/* Packs the rest while the receiver reads. */
void shm_fill_rest(struct rndv_send *o);
/* Notes the measured times after the receiver has read the payload (nontemporal.h). */
void shm_fill_read(const struct rndv_send *o);

#endif
