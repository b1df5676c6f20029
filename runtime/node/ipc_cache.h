/* ipc_cache.h: memory and layouts of peers of the node, as this process reads them. */
#ifndef STRIDEC_IMPORT_H
#define STRIDEC_IMPORT_H
#include "device/device.h"
#include "kernel/kernel.h"
#include "segment.h"

/* An allocation of a peer, open for a device. Kept open for the next message, and closed when the peer's allocation is
 * another one, or others are wanted more. */
struct import;
/* Of what a taken slot offers; d must be entered. *address is the slot's `user` as d reads it. NULL where it can't. */
struct import *ipc_cache_open(const struct peer *p, const struct slot *s, struct device *d, uint64_t *address);
/* True of memory of another GPU than the device that reads it. */
bool ipc_cache_across(const struct import *i);
void ipc_cache_put(struct import *i);

/* Closes what is open of peers' allocations that are gone (ipc_export_passes), so that the MPI can open what overlaps
 * them. Before device memory goes down in a call in which ranks of this node may take part; costs a look at each
 * peer whose memory is open. */
void ipc_cache_yield(void);

/* The layout at that place of the peer's file, which stays until it is put; some thousands are kept for the next
 * message. False where it can't be read. */
struct known;
struct ipc_cache_layout {
    struct tree *tree;
    struct kernel *kernel;
    struct known *known;   /* NULL: there is nothing to put */
};
bool ipc_cache_layout(const struct peer *p, uint64_t at, struct ipc_cache_layout *l);
void ipc_cache_layout_put(const struct ipc_cache_layout *l);

/* Tries what the peer has put out to be tried, so that it may offer: cheap when there is nothing new. */
void ipc_cache_try(struct peer *p, struct device *d);
/* The same for all that a receive from `source` may have its message from. */
void ipc_cache_try_source(int source, MPI_Comm comm, struct device *d);
/* At MPI_Finalize. */
void ipc_cache_finish(void);

#endif
