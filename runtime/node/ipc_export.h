/* ipc_export.h: device memory and layouts that peers on the node may read: IPC handles, and which peers accept them. */
#ifndef STRIDEC_IPC_EXPORT_H
#define STRIDEC_IPC_EXPORT_H
#include "datatype/layout.h"
#include "segment.h"

/* An allocation, or a range of mapped memory, as peers open it. */
struct ipc_export {
    uint32_t probe;
    CUipcMemHandle handle;
    uint64_t start, span, id;
    bool synchronous;   /* copies by the application have arrived when they return: no drain */
};
/* Sets *e to the allocation of d, or mapped range, that holds [address, address + bytes). Returns false if CUDA can't
 * share it. */
bool ipc_export_of(struct device *d, uint64_t address, int64_t bytes, struct ipc_export *e);
/* Returns true if CUDA can share the allocation *a, as device_locate returned it. Unless `first` is NULL, the first
 * message of an allocation sets *first to true and gets false: making and opening a handle takes some 100 us. */
bool ipc_export_around(struct device *d, const struct allocation *a, struct ipc_export *e, bool *first);
/* Returns true if the allocation still exists; asks the driver once. */
bool ipc_export_valid(const struct ipc_export *e);
/* Returns true if the range lies in *e; false if *e is all zeros. */
static inline bool ipc_export_holds(const struct ipc_export *e, uint64_t address, int64_t bytes)
{
    return address - e->start <= e->span && (uint64_t)bytes <= e->span - (address - e->start);
}
/* Makes a probe in the memory of d, unless there is one. */
void ipc_export_prepare(struct device *d);
/* Returns false if d has a probe that the peer has not read yet. */
bool ipc_export_probed(struct device *d, const struct peer *p);
/* Returns true if the peer has read a probe in the memory of d. */
bool ipc_export_readable(struct device *d, const struct peer *p);
/* Notes that the MPI may open the allocation around `first`, a device address, in other processes. around: that
 * allocation, or all zeros if unknown. If it is new, tells peers which freed allocations to close
 * (ipc_cache_drop_gone): the driver opens nothing that overlaps them. */
void ipc_export_to_mpi(const void *first, const struct allocation *around);
/* Returns true if the peer has read the device's probe and has not refused this allocation. Gives it the handles of
 * mapped memory. */
bool ipc_export_accepted(const struct ipc_export *e, const struct peer *p);
/* Notes that the peer could not read allocation `id`: later messages to it are packed. */
void ipc_export_nack(uint64_t id, const struct peer *p);
/* Returns how often a peer could not read, or be given, memory so far: until it grows, what a peer has accepted once it
 * accepts again. */
uint64_t ipc_export_refusals(void);
/* Returns the offset of the layout's shape signature in the own file, written there once; 0 if it is too long. */
uint64_t ipc_export_layout(struct layout *l);
/* Waits for the default stream of d. A cudaMemcpy from pageable memory may return before its bytes arrive. The streams
 * of d wait for it, but a peer's kernel does not. Returns 0 or -1. */
int ipc_export_drain(struct device *d);
/* Frees all, at MPI_Finalize. */
void ipc_export_finish(void);

#endif
