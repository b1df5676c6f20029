/* transport_staged.c: packs on the GPU, and copies between device and pinned host memory (TEMPI §5, "staged"). */
#include "transport.h"

static bool acquire(struct typed_buffer *p)
{
    p->stage = mempool_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
    p->wire = p->stage ? mempool_get(p->device, BUFFER_PINNED, (size_t)p->bytes) : NULL;
    if (p->wire) p->address = p->wire->host;
    return p->wire != NULL;
}

static int copy(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end)
{
    const struct driver *driver = driver_get();
    uint64_t stage = p->stage->address + (uint64_t)begin;
    char *host = (char *)p->wire->host + begin;
    size_t bytes = (size_t)(end - begin);
    p->launches++;
    if (!bytes) return 0;
    return (direction == KERNEL_PACK ? driver->cuMemcpyDtoHAsync(host, stage, bytes, stream_use(s))
                                     : driver->cuMemcpyHtoDAsync(stage, host, bytes, stream_use(s)))
               ? -1 : 0;
}

static int move(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end)
{
    uint64_t stage = p->stage->address + (uint64_t)begin;
    if (direction == KERNEL_UNPACK && copy(p, s, direction, begin, end)) return -1;
    if (typed_buffer_move_range(p, p->device, s, direction, stage, begin, end)) return -1;
    return direction == KERNEL_PACK ? copy(p, s, direction, begin, end) : 0;
}

const struct transport transport_staged = {"staged", acquire, move, true, copy};
