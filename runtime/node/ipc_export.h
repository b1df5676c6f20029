/* ipc_export.h: device memory and layouts that peers of the node are to read: handles, and what tells that they can. */
#ifndef STRIDEC_EXPORT_H
#define STRIDEC_EXPORT_H
#include "datatype/layout.h"
#include "segment.h"

/* An allocation as peers open it. */
struct ipc_export {
    uint32_t probe;
    CUipcMemHandle handle;
    uint64_t start, span, id;
    bool synchronous;   /* what the application copies there has arrived when its call returns: no need to drain */
};
/* The allocation of d that holds [address, address + bytes). False where there is none that CUDA IPC can share. */
bool ipc_export_of(struct device *d, uint64_t address, int64_t bytes, struct ipc_export *e);
/* Returns true where CUDA IPC can share an allocation that device_around has just told of. Where `first` is no NULL,
 * *first becomes true if no message has met it yet: then the answer is false, for asking for a handle, and opening it,
 * takes some 100 us. */
bool ipc_export_around(struct device *d, const struct allocation *a, struct ipc_export *e, bool *first);
/* True while the allocation is what it was when e was had: one short question. */
bool ipc_export_stands(const struct ipc_export *e);
/* Whether it is that one; of one that is all zeros, no. */
static inline bool ipc_export_holds(const struct ipc_export *e, uint64_t address, int64_t bytes)
{
    return address - e->start <= e->span && (uint64_t)bytes <= e->span - (address - e->start);
}
/* False of a peer that has not shown yet that it can read the memory of d, though there is something for it to try. */
bool ipc_export_tried(struct device *d, const struct peer *p);
/* Returns true once the peer has shown that it can read memory of d. */
bool ipc_export_reaches(struct device *d, const struct peer *p);
/* Notes that the MPI may open the allocation of `first`, a device address, in other processes; around: that allocation,
 * or all zeros where it is not known. Where it is a new one, peers are told which of those that they have open are gone
 * (ipc_cache_yield): what overlaps them the driver opens for nobody. */
void ipc_export_passes(const void *first, const struct allocation *around);
/* True once the peer has shown that it can read memory of the device, and has not refused this allocation. */
bool ipc_export_accepted(const struct ipc_export *e, const struct peer *p);
/* The peer could not read the allocation of that id: it is not to be offered to it again. */
void ipc_export_refuse(uint64_t id, const struct peer *p);
/* Where the layout's shape signature lies in the own file, written there once; 0 where it is too long. */
uint64_t ipc_export_layout(struct layout *l);
/* Waits for the default stream of d: a cudaMemcpy from pageable memory may return before its bytes arrive, and a peer's
 * kernel is not ordered behind it as the streams of d are. 0 or -1. */
int ipc_export_drain(struct device *d);
/* At MPI_Finalize. */
void ipc_export_finish(void);

#endif
