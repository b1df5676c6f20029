/* transport_staged.c: pack on the GPU, copy between device and pinned host memory (TEMPI §5, "staged"). */
#include "transport.h"

static bool acquire(struct parcel *p)
{
    p->stage = buffer_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
    p->wire = p->stage ? buffer_get(p->device, BUFFER_PINNED, (size_t)p->bytes) : NULL;
    if (p->wire) p->address = p->wire->host;
    return p->wire != NULL;
}

static int copy(struct parcel *p, struct stream *s, enum kernel_direction direction, int64_t bytes)
{
    const struct driver *driver = driver_get();
    uint64_t stage = p->stage->address;
    p->launches++;
    return (direction == KERNEL_PACK ? driver->cuMemcpyDtoHAsync(p->wire->host, stage, (size_t)bytes, stream_use(s))
                                     : driver->cuMemcpyHtoDAsync(stage, p->wire->host, (size_t)bytes, stream_use(s)))
               ? -1 : 0;
}

static int pack(struct parcel *p, struct stream *s)
{
    if (parcel_move(p, s, KERNEL_PACK, p->stage->address, p->bytes)) return -1;
    return copy(p, s, KERNEL_PACK, p->bytes);
}

static int unpack(struct parcel *p, struct stream *s, int64_t bytes)
{
    if (bytes && copy(p, s, KERNEL_UNPACK, bytes)) return -1;
    return parcel_move(p, s, KERNEL_UNPACK, p->stage->address, bytes);
}

const struct transport transport_staged = {"staged", acquire, pack, unpack, true, copy};
