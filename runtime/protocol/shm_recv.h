/* shm_recv.h: rendezvous receives of host memory (shm_send.h). */
#ifndef STRIDEC_SHM_RECV_H
#define STRIDEC_SHM_RECV_H
#include "node/segment.h"
#include "pack/typed_buffer.h"

/* The destination of a payload: the typed buffer, if that is host memory and stridec can read its layout (`packed` is
 * NULL); else `packed`. `came` is where the RTS header lies (rndv_recv_is_rts). */
struct host_side {
    struct typed_buffer *tbuf;
    char *packed;
    const void *came;
};
/* Reads the payload of the TAKEN slot s into `to`. Returns false if the payload can't be read. */
bool shm_recv(const struct peer *peer, struct slot *s, const struct host_side *to, int64_t bytes);

#endif
