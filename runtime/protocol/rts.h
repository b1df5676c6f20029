/* rts.h: the RTS header. It replaces the payload on the message's communicator and tag if both ends run stridec:
 * for zero-copy messages (rndv_send.h) and for messages in chunks (pipeline.h). */
#ifndef STRIDEC_RTS_H
#define STRIDEC_RTS_H
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
#define SHM_SEND_GAP 8   /* bytes inside a rank's RTS to itself (shm_send.c) */

struct rts {
    unsigned char cookie[16];   /* first half of the sender's or the pipeline's */
    uint32_t rank;              /* sender in MPI_COMM_WORLD */
    uint32_t slot;              /* sender's slot, or its file from SLOTS on; tag of the chunks */
    int64_t bytes;              /* of the payload; a short RTS ends here */
    unsigned char other[16];    /* second half of the cookie */
    int64_t chunk;              /* bytes of each chunk but the last */
    unsigned char rest[RNDV_MIN - 56];
};
#define RTS_BYTES ((int64_t)sizeof(struct rts))
#define RTS_SHORT_BYTES ((int64_t)offsetof(struct rts, other))
#define RTS_TOLD ((int64_t)offsetof(struct rts, rest))   /* the bytes behind have no meaning */
_Static_assert(RNDV_MIN % TYPE_CUT_BYTES == 0 && RTS_SHORT_BYTES % TYPE_CUT_BYTES == 0, "where an RTS header ends");
_Static_assert(HEAD_AT >= offsetof(struct rts, rest), "a head lies behind what an RTS header tells");
/* The RTS of a payload in host memory, as sent. */
union shm_rts {
    struct rts rts;
    char bytes[SHM_SEND_MIN + SHM_SEND_GAP];
};
_Static_assert(offsetof(struct rts, other) <= RTS_SHORT_MIN, "a short RTS is no longer than its payload");
/* Returns true if the bytes at `from`, at least 8, may begin an RTS. */
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
static inline bool rts_marked(const struct rts *d, const struct cookie *c, bool is_short)
{
    return !memcmp(d->cookie, c->half[0], sizeof d->cookie) &&
           (is_short || !memcmp(d->other, c->half[1], sizeof d->other));
}
/* Returns true if a message of `bytes` may be an RTS. */
static inline bool rts_fits(int64_t bytes)
{
    return bytes == RTS_BYTES || bytes == SHM_SEND_MIN || (bytes == RTS_SHORT_BYTES && rts_least() <= RTS_SHORT_MIN);
}

#endif
