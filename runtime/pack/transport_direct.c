/* transport_direct.c: one kernel between the typed buffer and the buffer that the MPI sends: device memory for a
 * CUDA-aware MPI (TEMPI §5, "device"), or mapped host memory (Jenkins 2012 §4; TEMPI §5, "one-shot"). */
#include "transport.h"

static bool acquire_device(struct typed_buffer *p)
{
    p->wire = mempool_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
    if (p->wire) p->address = (void *)p->wire->address;
    return p->wire != NULL;
}

static bool acquire_mapped(struct typed_buffer *p)
{
    p->wire = mempool_get(p->device, BUFFER_PINNED, (size_t)p->bytes);
    if (p->wire) p->address = p->wire->host;
    return p->wire != NULL;
}

static int move(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end)
{
    return typed_buffer_move_range(p, p->device, s, direction, p->wire->address + (uint64_t)begin, begin, end);
}

const struct transport transport_device = {"device", acquire_device, move, true, NULL};
const struct transport transport_oneshot = {"oneshot", acquire_mapped, move, true, NULL};
