/* transport_oneshot.c: kernels write to and read from mapped host memory (Jenkins 2012 §4; TEMPI §5). */
#include "transport.h"

static bool acquire(struct parcel *p)
{
    p->wire = buffer_get(p->device, BUFFER_PINNED, (size_t)p->bytes);
    if (p->wire) p->address = p->wire->host;
    return p->wire != NULL;
}

static int pack(struct parcel *p, CUstream s)
{
    return parcel_move(p, s, KERNEL_PACK, p->wire->address, p->bytes);
}

static int unpack(struct parcel *p, CUstream s, int64_t bytes)
{
    return parcel_move(p, s, KERNEL_UNPACK, p->wire->address, bytes);
}

const struct transport transport_oneshot = {"oneshot", acquire, pack, unpack};
