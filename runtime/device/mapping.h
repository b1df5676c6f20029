/* mapping.h: memory of cuMemCreate where the application has mapped it (cuMemMap), a piece for each mapping.
 *
 * The application may unmap a piece and map other memory there, without anybody being told. The driver's number at an
 * address, and the piece's range, tell whether the memory is the same. That is tried once; if these numbers do not tell
 * memories apart, no piece is found. */
#ifndef STRIDEC_MAPPING_H
#define STRIDEC_MAPPING_H
#include "device.h"

/* Sets *a to the piece of d that holds p, which is no pool's. Returns false, and *a is all zeros, for other memory.
 * Enters d. */
bool mapping_locate(struct device *d, const void *p, struct allocation *a);
/* Returns true if the piece is still mapped there. Asks the driver twice; false too if no context is current. */
bool mapping_same(const struct allocation *piece);
/* Returns true if the piece of d shows all of its memory: a part might not begin with the memory's first byte. Tries to
 * map more; d is entered. */
bool mapping_whole(const struct device *d, const struct allocation *piece, CUmemGenericAllocationHandle memory);

#endif
