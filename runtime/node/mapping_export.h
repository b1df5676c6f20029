/* mapping_export.h: mapped memory (device/mapping.h) that peers on the node may read.
 *
 * An export is a range of addresses with all pieces that a message touches, one behind the other. Each peer gets the
 * pieces' handles once, by a socket (fd_socket.h); slots then tell the export's number alone. No handle is kept here,
 * so memory that the application unmaps is freed when the peers close it.
 *
 * ipc_export.c calls these functions, under its lock. */
#ifndef STRIDEC_MAPPING_EXPORT_H
#define STRIDEC_MAPPING_EXPORT_H
#include "fd_socket.h"
#include "ipc_export.h"

#define MAPPING_PIECES FD_SOCKET_MOST
/* CU_MEM_HANDLE_TYPE_FABRIC, from CUDA 12.3 on: a handle that needs no descriptor, and its length. */
#define MAPPING_FABRIC 8u
#define MAPPING_FABRIC_BYTES 64
/* Tells a peer the pieces of an export, with their descriptors or fabric handles. */
struct mapping_record {
    uint64_t id;
    int32_t rank;      /* of the sender */
    int32_t pieces;
    uint64_t fabric;   /* 1: the handles are in the record */
    uint64_t span[MAPPING_PIECES];
    unsigned char handle[MAPPING_PIECES][MAPPING_FABRIC_BYTES];
};

/* Sets *e to the export of d for [address, address + bytes); e->probe is the caller's. Checks that all its pieces are
 * still mapped. Returns false if the memory has no handle that can be shared. `first`: ipc_export_around. */
bool mapping_export_of(struct device *d, uint64_t address, int64_t bytes, struct ipc_export *e, bool *first);
/* Returns true if all pieces of the export are still mapped. */
bool mapping_export_valid(uint64_t id);
/* Returns true if the peer has the handles; sends them at the first call. */
bool mapping_export_offer(uint64_t id, const struct peer *p);
/* Notes that the peer needs the handles once more. */
void mapping_export_again(uint64_t id, const struct peer *p);
/* Frees all, at MPI_Finalize. */
void mapping_export_finish(void);

#endif
