/* transport_device.c: pack into device memory, which a CUDA-aware MPI sends as it is (TEMPI §5, "device"). */
#include "transport.h"

static bool acquire(struct parcel *p)
{
    p->wire = buffer_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
    if (p->wire) p->address = (void *)p->wire->address;
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

const struct transport transport_device = {"device", acquire, pack, unpack};
