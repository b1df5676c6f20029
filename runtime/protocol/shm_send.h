/* shm_send.h: rendezvous sends (rndv_send.h) of derived types in host memory.
 *
 * The sender packs into a shared segment block (shm_pool.h) while the receiver unpacks: the copies go through the
 * caches, and the buffer is free at once. Or the receiver reads the payload in place (peer_access.h): page by page. */
#ifndef STRIDEC_SHM_SEND_H
#define STRIDEC_SHM_SEND_H
#include "message.h"
#include "rndv_send.h"

/* Returns the least payload of layout l, in bytes, that is sent by rendezvous; INT64_MAX if none is. */
int64_t shm_send_least_of(const struct layout *l);

/* Returns false if STRIDEC_HOST or STRIDEC_TRANSPORT forbids these sends, or this process has no file for the node. */
bool shm_send_allowed(void);
/* Returns SLOT_PROCESS if the payload stays in place (STRIDEC_TRANSPORT=zerocopy and REACH_MEMORY), else SLOT_POOL. */
enum slot_memory shm_send_memory(unsigned reached);
/* Returns true if a message with a layout is allowed and long enough for a rendezvous send. */
bool shm_send_wants(const struct message *m);
/* Returns false if the MPI is quicker at a send that does not wait for its receiver. Then stridec would pack all before
 * any byte is read, and long payloads would pass through memory instead of the caches. */
bool shm_send_later(const struct message *m);
/* Returns true if rndv_send_to, with a reserved slot, can't fail for this peer any more. */
bool shm_send_sure(struct peer *peer);

/* Returns the type, with a gap, of an RTS header to the rank itself; MPI_DATATYPE_NULL if no gap is needed. */
MPI_Datatype shm_send_gapped(void);

/* Returns the number of rendezvous sends of this process so far, in place or in blocks (for tests and benchmarks). */
long stridec_host_offers(int in_place);

#endif
