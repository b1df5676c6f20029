/* host_scatter.h: packed bytes and a buffer in host memory. */
#ifndef STRIDEC_SCATTER_H
#define STRIDEC_SCATTER_H
#include "typed_buffer.h"

/* The packed range [begin, end) of a parcel in host memory, `out` of it to packed + begin, or from there into it. Of
 * a type that stridec can't read the MPI moves the bytes, from the first one on: begin is 0. False where it can't. */
bool host_scatter_move(struct typed_buffer *p, char *packed, int64_t begin, int64_t end, bool out);

#endif
