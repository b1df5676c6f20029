/* host_scatter.h: moves packed bytes from and to a typed buffer in host memory. */
#ifndef STRIDEC_HOST_SCATTER_H
#define STRIDEC_HOST_SCATTER_H
#include "typed_buffer.h"

/* Copies the packed range [begin, end) of p in host memory to packed + begin (`out`), or back. For types that stridec
 * can't read the MPI moves the bytes, and begin must be 0. Returns false on failure. */
bool host_scatter_move(struct typed_buffer *p, char *packed, int64_t begin, int64_t end, bool out);

#endif
