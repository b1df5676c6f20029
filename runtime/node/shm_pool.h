/* shm_pool.h: shared segment blocks: memory of a process that peers map, for packed messages until they are read.
 *
 * A file in /dev/shm beside the rank's own (segment.h), made at the first use. Memory is allocated as it is used, up to
 * SHM_POOL_BYTES, and kept for later messages. */
#ifndef STRIDEC_SHM_POOL_H
#define STRIDEC_SHM_POOL_H
#include "segment.h"

#define SHM_POOL_BYTES ((size_t)256 << 20)

/* A long message reuses the first SHM_POOL_RING bytes of its block while its receiver keeps up: data in the caches
 * costs no memory traffic. From byte `turn` on, all bytes have places of their own. */
#define SHM_POOL_RING ((int64_t)1 << 20)
/* Returns the offset of packed byte `at` in its block; sets *run to how many bytes up to `end` follow it there. */
static inline int64_t shm_pool_offset(int64_t at, int64_t turn, int64_t end, int64_t *run)
{
    int64_t place = at < turn ? at % SHM_POOL_RING : at, past = at < turn ? at - place + SHM_POOL_RING : end;
    if (at < turn && past > turn) past = turn;
    *run = (past < end ? past : end) - at;
    return place;
}

/* Makes the own file once. Returns false without space for it. Any thread. */
bool shm_pool_start(void);
/* Returns the offset of a block of `bytes`, valid in peers too; 0 if none is left. */
uint64_t shm_pool_take(int64_t bytes);
void shm_pool_put(uint64_t block, int64_t bytes);
char *shm_pool_address(uint64_t block);
/* Returns true if the own file was truncated: peers do not see what is written to blocks. */
bool shm_pool_lost(void);
/* Returns true if the peer's blocks can be read. Maps nothing yet. Any thread. */
bool shm_pool_open(struct peer *p);
/* Returns a peer's block, mapped at its first message until shm_pool_close; NULL on failure. Any thread. */
const char *shm_pool_map(const struct peer *p, uint64_t block, int64_t bytes);
/* Copies bytes of a peer's block from its file. Returns false if they can't be read. */
bool shm_pool_read(const struct peer *p, uint64_t place, char *to, int64_t bytes);
/* Unmaps all of the peer's blocks. */
void shm_pool_close(struct peer *p);
/* Removes the own file, at MPI_Finalize before node_finish. */
void shm_pool_finish(void);

#endif
