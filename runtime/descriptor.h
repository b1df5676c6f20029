/* descriptor.h: what travels in place of a message on its own communicator and tag, where both ends run stridec: of one that
 * is read from the sender's memory (offer.h), or that comes in chunks (pipeline.h). */
#ifndef STRIDEC_DESCRIPTOR_H
#define STRIDEC_DESCRIPTOR_H
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Payloads below this never have one: receives of less need no look, and the descriptor of a longer message, which has
 * as many bytes, is too long for them as well. */
#define OFFER_MIN 512

struct descriptor {
    unsigned char cookie[32];   /* the sender's, or the pipeline's */
    uint32_t rank;              /* the sender in MPI_COMM_WORLD */
    uint32_t slot;              /* which of its slots; of chunks their tag */
    int64_t bytes;              /* of the payload */
    int64_t chunk;              /* bytes of each chunk but the last */
    unsigned char rest[OFFER_MIN - 56];
};
#define DESCRIPTOR_BYTES ((int64_t)sizeof(struct descriptor))

extern atomic_bool descriptors_come;
/* True if messages may come as descriptors. */
static inline bool descriptors_armed(void)
{
    return atomic_load_explicit(&descriptors_come, memory_order_relaxed);
}
/* What a stub asks: so few elements of a plain type, of 32 bytes at most each, never do. */
static inline __attribute__((always_inline)) bool descriptors_ignore(MPI_Count count)
{
    return count < OFFER_MIN / 32 || !descriptors_armed();
}

#endif
