/* pack.h: packs and unpacks bytes in host memory by walking a tree: what serves a layout without code of its own. */
#ifndef STRIDEC_GEN_PACK_H
#define STRIDEC_GEN_PACK_H
#include "tree.h"

/* Bytes [begin, end) of the packed stream of elements of t laid `extent` apart: 0 <= begin <= end. `packed` is where
 * byte `begin` lies or goes, `user` the address of the origin of element 0 (0 for MPI_BOTTOM). Needs no memory. */
void tree_pack(const struct tree *t, void *packed, uintptr_t user, int64_t extent, int64_t begin, int64_t end);
void tree_unpack(const struct tree *t, const void *packed, uintptr_t user, int64_t extent, int64_t begin, int64_t end);

#endif
