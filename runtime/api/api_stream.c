/* api_stream.c: packs and unpacks on a stream of the application's. */
#include "api.h"
#include "device/device_internal.h"
#include "pack/typed_buffer.h"

/* Returns the device whose kernels serve the call, or NULL. */
static struct device *device_for(struct layout *l, const void *typed, int64_t count, const void *packed,
                                 int64_t bytes)
{
    struct location w = locate(l, typed, count);
    if (!w.device || w.parts) return NULL;
    struct device *d = device_of(packed);
    bool reaches = d ? d == w.device : device_accessible(packed, (size_t)bytes);
    return reaches ? w.device : NULL;
}

/* Enqueues what a stream capture accepts. */
static int enqueue(struct typed_buffer *p, enum kernel_direction direction, const void *packed, stridec_stream stream)
{
    struct stream s = stream_foreign((CUstream)stream);
    if (device_enter(p->device)) return STRIDEC_FAILED;
    int rc = typed_buffer_move(p, &s, direction, (uint64_t)(uintptr_t)packed, p->bytes);
    device_leave(p->device);
    typed_buffer_stats(p, "stream", p->bytes, 0);
    return rc ? STRIDEC_FAILED : STRIDEC_OK;
}

int api_move(enum kernel_direction direction, const void *typed, MPI_Count count, MPI_Datatype datatype,
             const void *packed, MPI_Count room, MPI_Count *position, stridec_stream stream)
{
    struct layout *l = layout_of(datatype);
    if (!l || count < 0 || !position || *position < 0 || *position > room) return STRIDEC_INVALID;
    int64_t bytes = count ? layout_bytes(l, count) : 0;
    if (bytes < 0 || bytes > room - *position || (bytes && !packed)) return STRIDEC_INVALID;
    if (!bytes) return STRIDEC_OK;
    packed = (const char *)packed + *position;
    struct device *d = driver_get() && l->tree ? device_for(l, typed, count, packed, bytes) : NULL;
    if (!d) return STRIDEC_UNABLE;
    if (layout_committed(l, datatype, MPI_COMM_SELF) != MPI_SUCCESS) return STRIDEC_INVALID;
    struct typed_buffer p = typed_buffer_on(l, d, typed, count);
    int result = enqueue(&p, direction, packed, stream);
    if (result == STRIDEC_OK) *position += bytes;
    return result;
}
