/* shm_pool.h: memory of a process that its peers of the node map: where messages lie packed while they are read.
 *
 * A file in /dev/shm beside the rank's own (segment.h), made when the first message wants it; memory is taken from
 * the system as it is used, up to ROOMS_BYTES, and kept for the messages that follow. */
#ifndef STRIDEC_ROOM_H
#define STRIDEC_ROOM_H
#include "segment.h"

#define ROOMS_BYTES ((size_t)256 << 20)

/* Of a long message the first so many bytes of its room are written again and again, while its receiver keeps up:
 * what stays in the caches costs no traffic to memory. From byte `turn` on, all lie at places of their own. */
#define SHM_POOL_RING ((int64_t)1 << 20)
/* The place of packed byte `at` in its room, and how many from there on, up to `end`, follow it. */
static inline int64_t shm_pool_place(int64_t at, int64_t turn, int64_t end, int64_t *run)
{
    int64_t place = at < turn ? at % SHM_POOL_RING : at, past = at < turn ? at - place + SHM_POOL_RING : end;
    if (at < turn && past > turn) past = turn;
    *run = (past < end ? past : end) - at;
    return place;
}

/* Makes the own file, once. False where there is no space for it. Any thread. */
bool shm_pool_start(void);
/* A room of so many bytes: its place, to be told to peers; 0 where none is left. */
uint64_t shm_pool_take(int64_t bytes);
void shm_pool_put(uint64_t room, int64_t bytes);
char *shm_pool_address(uint64_t room);
/* The own file was cut: what is written to rooms does not reach peers. */
bool shm_pool_lost(void);
/* Looks whether the peer's rooms can be read. Nothing is mapped yet. Any thread. */
bool shm_pool_open(struct peer *p);
/* Returns the peer's room of so many bytes, which is mapped when its first message is read and stays so until
 * shm_pool_close. NULL where it can't be mapped. Any thread. */
const char *shm_pool_of(const struct peer *p, uint64_t room, int64_t bytes);
/* Copies bytes of such a room from the file. False where they can't be read. */
bool shm_pool_read(const struct peer *p, uint64_t place, char *to, int64_t bytes);
/* The peer is forgotten. */
void shm_pool_close(struct peer *p);
/* At MPI_Finalize, before node_finish. */
void shm_pool_finish(void);

#endif
