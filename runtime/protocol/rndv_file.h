/* rndv_file.h: the fallback copy, a file in the node's shared memory, or on its disk. It is used if the peer can no
 * longer read the sender's memory, or if a message that must be sent finds no slot. */
#ifndef STRIDEC_RNDV_FILE_H
#define STRIDEC_RNDV_FILE_H
#include "node/segment.h"
#include "pack/typed_buffer.h"

/* Slot owner: packs the payload into the slot's file, on the disk if the peer `to` shares it and shared memory has no
 * room. Returns 0 or -1 (logged). */
int rndv_file_out(struct typed_buffer *p, uint32_t slot, const struct peer *to);
/* Packs a payload for `peer` into a file without a slot; the receiver owns the file once the RTS is out. Returns the
 * file's number, unique and at least SLOTS, or 0 if there is no space (logged). */
uint32_t rndv_file_apart(struct typed_buffer *p, struct peer *peer);
/* Removes a file that nobody will read. */
void rndv_file_recall(int rank, uint32_t number);
/* Receiver: notes in a file without a slot that a probe has taken its RTS and no receive yet; or that a receive has. */
void rndv_file_note_probed(int rank, uint32_t number, bool probed);
/* Sender: returns true if the file is there with that note. */
bool rndv_file_probed(uint32_t number);
/* Called repeatedly in MPI_Finalize: returns true once every file without a slot was received or never will be. */
bool rndv_file_finish(bool (*in_vain)(const struct peer *p));
/* Receiver: maps the payload; rndv_file_done unmaps it and removes the file. Returns NULL on failure. */
const char *rndv_file_in(int rank, uint32_t slot, int64_t bytes);
void rndv_file_done(const char *payload, int rank, uint32_t slot);

#endif
