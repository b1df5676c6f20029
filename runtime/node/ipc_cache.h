/* ipc_cache.h: device memory and layouts of peers on the node, as this process reads them. */
#ifndef STRIDEC_IPC_CACHE_H
#define STRIDEC_IPC_CACHE_H
#include "device/device.h"
#include "kernel/kernel.h"
#include "segment.h"

/* A peer's allocation, open on a device. It stays open for later messages. It is closed when another allocation has its
 * place, or when others are used more. */
struct import;
/* Opens the allocation of a taken slot; d must be entered. Sets *address to the slot's `user` as d reads it. Returns
 * NULL if the driver refuses; else the caller ends its use by ipc_cache_put. */
struct import *ipc_cache_open(const struct peer *p, const struct slot *s, struct device *d, uint64_t *address);
/* Returns true if the memory is another GPU's than the reading device. */
bool ipc_cache_other_gpu(const struct import *i);
void ipc_cache_put(struct import *i);
/* Returns how many imports were dropped so far: closed, or to be closed by their last users. */
uint64_t ipc_cache_drops(void);
/* Begins another use of each of n imports of peers, which were open when ipc_cache_drops returned `since`. Returns
 * false, and begins none, if one may have been dropped after that. */
bool ipc_cache_use_again(struct import *const of[], int n, uint64_t since);

/* Closes freed allocations of peers (ipc_export_to_mpi), so that the MPI can open memory that overlaps them. Call it
 * before device memory passes to the MPI in a call with ranks of this node. Checks each peer whose memory is open. */
void ipc_cache_drop_gone(void);

/* Reads the layout at offset `at` of the peer's file. Some thousands are cached. The caller ends its use by
 * ipc_cache_layout_put. Returns false if it can't be read. */
struct known;
struct ipc_cache_layout {
    struct tree *tree;
    struct kernel *kernel;
    struct known *known;   /* NULL: nothing to put */
};
bool ipc_cache_layout(const struct peer *p, uint64_t at, struct ipc_cache_layout *l);
void ipc_cache_layout_put(const struct ipc_cache_layout *l);
/* Begins another use of a layout that is in use. */
void ipc_cache_layout_keep(const struct ipc_cache_layout *l);

/* Tries new probes of the peer, so that the peer may send by rendezvous. Cheap without new ones. */
void ipc_cache_probe(struct peer *p, struct device *d);
/* Makes the own probe, and tries those of all ranks of the node, in worlds of up to MEET_MOST ranks: the first messages
 * need not. Returns true when all have been tried. For the worker (kernel_set_chore): the first memory of another
 * process takes 2 ms to open (H200). */
bool ipc_cache_meet(struct device *d);
/* Closes all allocations and frees all layouts, at MPI_Finalize. */
void ipc_cache_finish(void);

#endif
