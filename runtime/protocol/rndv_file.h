/* rndv_file.h: the way out where a peer that could read the sender's memory once can't any more, or where an offer
 * finds no slot and must go all the same: the payload goes through a file in the node's shared memory. */
#ifndef STRIDEC_SPILL_H
#define STRIDEC_SPILL_H
#include "node/segment.h"
#include "pack/typed_buffer.h"

/* The owner of the slot: packs what the parcel offers into the slot's file. 0 or -1 (logged). */
int rndv_file_out(struct typed_buffer *p, uint32_t slot);
/* The same without a slot, of a payload for one peer: a number for the file, SLOTS and more, that no other has. 0:
 * there is no room (logged). The file is the receiver's. */
uint32_t rndv_file_apart(struct typed_buffer *p, struct peer *peer);
/* It is not sent. */
void rndv_file_recall(int rank, uint32_t number);
/* At MPI_Finalize, again and again: true where all of these were received, or never will be. */
bool rndv_file_finish(bool (*in_vain)(const struct peer *p));
/* The receiver: the slot's payload, to be unmapped by rndv_file_done, which also removes the file. NULL on failure. */
const char *rndv_file_in(int rank, uint32_t slot, int64_t bytes);
void rndv_file_done(const char *payload, int rank, uint32_t slot);

#endif
