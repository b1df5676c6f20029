/* shm_recv.h: the receiver's side of offers of host memory (shm_send.h). */
#ifndef STRIDEC_HOST_PULL_H
#define STRIDEC_HOST_PULL_H
#include "node/segment.h"
#include "pack/typed_buffer.h"

/* Where a payload goes: into the parcel's buffer, or, where that is not host memory of a layout that stridec can
 * read, packed, to `packed`, which is NULL else. `came`: where its descriptor lies, as rndv_recv_wanted was told. */
struct host_side {
    struct typed_buffer *parcel;
    char *packed;
    const void *came;
};
/* Brings the payload of a taken slot there. False where it can't be read. */
bool shm_recv(const struct peer *peer, struct slot *s, const struct host_side *to, int64_t bytes);

#endif
