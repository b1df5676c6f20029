/* mapping_import.h: mapped memory of peers (mapping_export.h), mapped here too: the pieces of an export one behind the
 * other. ipc_cache.c calls these functions, under its lock. */
#ifndef STRIDEC_MAPPING_IMPORT_H
#define STRIDEC_MAPPING_IMPORT_H
#include "device/device.h"
#include "segment.h"

struct mapping_import;
/* Maps the slot's export for d, which is entered, and sets *base to its first byte. Returns NULL without its handles,
 * or if the driver refuses. */
struct mapping_import *mapping_import_open(const struct peer *p, const struct slot *s, const struct device *d,
                                           CUdeviceptr *base);
/* Unmaps an import that no work uses; its device is entered. */
void mapping_import_close(struct mapping_import *m);
/* Closes handles of exports that are gone, before a message needed them. */
void mapping_import_drop_gone(bool (*is_gone)(int64_t rank, uint64_t id));
/* Closes handles that no message has needed, at MPI_Finalize. */
void mapping_import_finish(void);

#endif
