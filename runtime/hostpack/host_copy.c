/* host_copy.c: copies from one buffer in host memory to another of this process. */
#include "host_pack.h"
#include "host_pack_internal.h"

#define PIECE ((int64_t)16 << 10)   /* packed bytes that stay in the L1 cache */

/* Copies whole elements in one pass if both layouts are equal. Else returns false. */
static bool alike(struct layout *from, const void *source, struct layout *to, void *target, int64_t bytes)
{
    if (!from->kernel || from->kernel != to->kernel || from->extent != to->extent || bytes % from->size) return false;
    struct stridec_host a = {.packed = (char *)target + to->tree->off, .user = (uint64_t)(uintptr_t)source,
                             .extent = from->extent, .end = bytes};
    return host_pack_run_code(from, GEN_HOST_COPY, &a);
}

bool host_pack_copy(struct layout *from, int64_t from_count, const void *source, struct layout *to, int64_t to_count,
                    void *target, int64_t bytes)
{
    _Alignas(64) char piece[PIECE];
    if (alike(from, source, to, target, bytes)) return true;
    for (int64_t at = 0, end; at < bytes; at = end) {
        end = bytes - at < PIECE ? bytes : at + PIECE;
        if (!host_pack_pack(from, from_count, source, piece, at, end)) return false;
        if (!host_pack_unpack(to, to_count, target, piece, at, end)) return false;
    }
    return true;
}
