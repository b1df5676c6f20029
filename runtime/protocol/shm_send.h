/* shm_send.h: offers (rndv_send.h) of data in host memory, of derived types.
 *
 * The payload is packed into a room (shm_pool.h) while the receiver, who has that mapped, unpacks behind: both
 * copies go through the caches, by code made for the layouts, at the same time, and the buffer is the application's
 * again without waiting for anybody. Or it stays where it is and the receiver reads it there (peer_access.h): one
 * copy, but page by page through the kernel. */
#ifndef STRIDEC_HOST_OFFER_H
#define STRIDEC_HOST_OFFER_H
#include "rndv_send.h"

/* The payloads of a layout from which on they are offered; INT64_MAX: never. */
int64_t shm_send_least_of(const struct layout *l);

/* True unless STRIDEC_HOST or STRIDEC_TRANSPORT forbids, or there is nobody to offer to. */
bool shm_send_allowed(void);
/* Exposes `count` elements at buf: host memory, not contiguous, of a committed type that stridec can read. Returns NULL
 * where the message goes another way. `promise` is that of struct rndv_send_site. */
struct rndv_send *shm_send_to(struct peer *peer, struct layout *l, const void *buf, int64_t count, bool *promise);
/* Returns SLOT_PROCESS where a payload stays in place for a peer that reaches so much (peer_access.h): under
 * STRIDEC_TRANSPORT=zerocopy. Else SLOT_POOL. */
enum slot_memory shm_send_memory(unsigned reached);
/* True if payloads of so many elements may be offered. */
bool shm_send_wants(const struct layout *l, int64_t count);
/* False where a send that does not wait for its receiver is better the MPI's: all of it would be packed before it is
 * read, and what is long pass through memory instead of the caches. */
bool shm_send_later(const struct peer *p, const struct layout *l, int64_t count);
/* True if shm_send_to never fails for such a message from here on. */
bool shm_send_sure(struct peer *peer);

/* What goes down for the descriptor of one to p: so many of a type. */
int shm_send_count(const struct peer *p, MPI_Datatype *type);
/* The type of one to oneself, that has a gap; MPI_DATATYPE_NULL where it needs none. */
MPI_Datatype shm_send_gapped(void);

/* rndv_send.c's: the receiver has refused. Moves the payload to memory of stridec's own, the slot being held.
 * Leaves one that lies in a room to the receiver. Ends all. */
void shm_send_refused(const struct rndv_send *o);
bool shm_send_move(struct rndv_send *o);
void shm_send_leave(struct rndv_send *o);
void shm_send_finish(void);

/* How many messages this process has offered so far, in rooms or in place (for tests and benchmarks). */
long stridec_host_offers(int in_place);

#endif
