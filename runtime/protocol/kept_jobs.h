/* kept_jobs.h: how payloads in several allocations were read lately. The sender tells by a number that it describes one
 * as before (struct slot, `description`); then the receiver looks nothing up. */
#ifndef STRIDEC_KEPT_JOBS_H
#define STRIDEC_KEPT_JOBS_H
#include "kernel/typed_copy.h"
#include "node/ipc_cache.h"
#include "pack/typed_buffer.h"

struct kept_jobs;
/* Tells what jobs were made of: those of equal keys are the same. */
struct kept_jobs_key {
    uint64_t description;   /* the sender's; 0: nothing is kept */
    int rank;               /* the sender */
    struct device *device;  /* that reads */
    uint64_t layout;        /* of the receiver, its number; elements at `user` */
    const void *user;
    int64_t count;
};
struct kept_jobs_key kept_jobs_key_of(const struct peer *p, const struct slot *s, struct device *d,
                                      const struct typed_buffer *to);
/* Returns the jobs, all memory open until kept_jobs_put; NULL if they are not kept. */
struct kept_jobs *kept_jobs_get(const struct kept_jobs_key *key);
/* Returns their number, at most LAYOUT_PARTS. */
int kept_jobs_n(const struct kept_jobs *k);
/* Copies the jobs, of which there is room for all. Returns their number. */
int kept_jobs_copy(const struct kept_jobs *k, struct typed_copy_job jobs[]);
/* Enqueues all of them, but no others, on s of the key's device. Returns like typed_copy_move_links. */
int kept_jobs_move(const struct kept_jobs *k, struct stream *s, int *launches);
/* Ends the use of k, which may be NULL. */
void kept_jobs_put(struct kept_jobs *k);

/* Lists what jobs use: allocations of peers, and layouts; all were in use since ipc_cache_drops returned `drops`. */
struct kept_uses {
    struct import *const *import;
    const struct ipc_cache_layout *layout;
    int imports, layouts;
    uint64_t drops;
};
/* Keeps jobs on an entered device, in place of others that nobody uses, if their key comes for the second time in a row
 * at its place in the table. */
void kept_jobs_add(const struct kept_jobs_key *key, const struct typed_copy_job jobs[], int n,
                   const struct kept_uses *uses);
/* Forgets all, at MPI_Finalize. */
void kept_jobs_finish(void);

#endif
