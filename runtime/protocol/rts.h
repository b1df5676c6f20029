/* rts.h: what travels in place of a message on its own communicator and tag, where both ends run stridec: of one that
 * is read from the sender's memory (rndv_send.h), or that comes in chunks (pipeline.h). */
#ifndef STRIDEC_DESCRIPTOR_H
#define STRIDEC_DESCRIPTOR_H
#include "datatype/type_filter.h"
#include "node/segment.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEAD_AT 64
#define HEAD_BYTES (SHM_SEND_MIN - HEAD_AT)
#define SHM_SEND_GAP 8   /* bytes amid a rank's descriptors to itself (shm_send.c) */

struct rts {
    unsigned char cookie[16];   /* the sender's, or the pipeline's: the first half */
    uint32_t rank;              /* the sender in MPI_COMM_WORLD */
    uint32_t slot;              /* which of its slots; of chunks their tag */
    int64_t bytes;              /* of the payload; so far goes a brief one */
    unsigned char other[16];    /* half of the cookie */
    int64_t chunk;              /* bytes of each chunk but the last */
    unsigned char rest[RNDV_MIN - 56];
};
#define RTS_BYTES ((int64_t)sizeof(struct rts))
#define RTS_SHORT_BYTES ((int64_t)offsetof(struct rts, other))
#define RTS_TOLD ((int64_t)offsetof(struct rts, rest))   /* what follows tells nothing */
_Static_assert(RNDV_MIN % TYPE_CUT_BYTES == 0 && RTS_SHORT_BYTES % TYPE_CUT_BYTES == 0, "where a descriptor ends");
_Static_assert(HEAD_AT >= offsetof(struct rts, rest), "a head lies behind what a descriptor tells");
/* One of a payload in host memory, as it is sent. */
union shm_rts {
    struct rts descriptor;
    char bytes[SHM_SEND_MIN + SHM_SEND_GAP];
};
_Static_assert(offsetof(struct rts, other) <= RTS_SHORT_MIN, "a brief descriptor is no longer than its payload");
/* False where what lies at `from`, 8 bytes or more, is no descriptor. */
static inline bool rts_begins(const void *from)
{
    uint64_t a, b;
    memcpy(&a, from, sizeof a), memcpy(&b, COOKIE_MARK, sizeof b);
    return a == b;
}

static inline void rts_mark(struct rts *d, const struct cookie *c)
{
    memcpy(d->cookie, c->half[0], sizeof d->cookie), memcpy(d->other, c->half[1], sizeof d->other);
}
static inline bool rts_marked(const struct rts *d, const struct cookie *c, bool brief)
{
    return !memcmp(d->cookie, c->half[0], sizeof d->cookie) &&
           (brief || !memcmp(d->other, c->half[1], sizeof d->other));
}
/* True of as many bytes as a descriptor that may come has. */
static inline bool rts_fits(int64_t bytes)
{
    return bytes == RTS_BYTES || bytes == SHM_SEND_MIN || (bytes == RTS_SHORT_BYTES && rts_least() <= RTS_SHORT_MIN);
}

#endif
