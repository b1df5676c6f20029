/* calls_pack.c: MPI_Pack and MPI_Unpack with the typed buffer, the packed one, or both on a device. */
#include "next.h"
#include "parcel.h"
#include <stdlib.h>
#include <string.h>

/* The packed side of a pack or unpack: `bytes` at `address`, on `device` or (NULL) the host. */
struct packed {
    char *address;
    int64_t bytes;
    struct device *device;
};

/* One kernel between the typed buffer and packed bytes that its device can address. */
static int direct(struct parcel *p, enum kernel_direction direction, const struct packed *k)
{
    int64_t start = stats_now();
    if (device_enter(p->device)) return -1;
    struct stream *s = stream_get(p->device);
    int rc = s ? parcel_move(p, s, direction, (uint64_t)(uintptr_t)k->address, k->bytes) : -1;
    if (s && stream_wait(p->device, s)) rc = -1;
    if (s) stream_put(p->device, s);
    device_leave(p->device);
    parcel_count(p, "direct", k->bytes, stats_now() - start);
    return rc;
}

/* A plain copy between any two places that the driver knows or the host has. */
static int copy(struct device *d, void *to, const void *from, int64_t bytes)
{
    if (device_enter(d)) return -1;
    struct stream *s = stream_get(d);
    bool ok = s && !driver_get()->cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, (size_t)bytes, stream_use(s));
    int rc = ok ? 0 : -1;
    if (s && stream_wait(d, s)) rc = -1;
    if (s) stream_put(d, s);
    device_leave(d);
    return rc;
}

/* Between the parcel's wire buffer and the packed side, wherever that is. */
static int copy_wire(struct parcel *p, enum kernel_direction direction, const struct packed *k)
{
    void *to = direction == KERNEL_PACK ? k->address : p->address;
    const void *from = direction == KERNEL_PACK ? p->address : k->address;
    if (k->device || p->wire->kind == BUFFER_DEVICE) return copy(p->device, to, from, k->bytes);
    memcpy(to, from, (size_t)k->bytes);
    return 0;
}

static int copy_failed(MPI_Comm comm)
{
    return raise_error(comm, MPI_ERR_OTHER, "copying packed bytes failed");
}

/* By way of a transport's buffers. */
static int by_parcel(struct layout *l, struct where w, const void *typed, int count, MPI_Datatype datatype,
                     const struct packed *k, enum kernel_direction direction, MPI_Comm comm)
{
    struct parcel *p;
    int rc = parcel_open_on(&p, l, w, typed, count, datatype, MPI_PROC_NULL, comm);
    if (rc != MPI_SUCCESS) return rc;
    bool copied = direction == KERNEL_PACK || !copy_wire(p, direction, k);
    if (copied) rc = direction == KERNEL_PACK ? parcel_pack(p, comm) : parcel_unpack(p, k->bytes, comm);
    if (copied && rc == MPI_SUCCESS && direction == KERNEL_PACK) copied = !copy_wire(p, direction, k);
    parcel_close(p);
    return copied ? rc : copy_failed(comm);
}

/* Typed buffer on a device, or in part. The kernel addresses the packed side itself where it can. */
static int move_typed(struct layout *l, struct where w, const void *typed, int count, MPI_Datatype datatype,
                      const struct packed *k, enum kernel_direction direction, MPI_Comm comm)
{
    bool apart = !l->tree || w.parts;
    bool reaches = !apart && (k->device ? k->device == w.device : device_accessible(k->address, (size_t)k->bytes));
    if (!reaches) return by_parcel(l, w, typed, count, datatype, k, direction, comm);
    int rc = parcel_check(l, w, datatype, comm);
    if (rc != MPI_SUCCESS) return rc;
    struct parcel p = parcel_on(l, w.device, typed, count);
    return direct(&p, direction, k) ? raise_error(comm, MPI_ERR_OTHER, "moving packed bytes on the GPU failed") : rc;
}

/* What stridec needs to know of a call before it takes it: a layout, and at least one device. */
struct sides {
    struct layout *layout;
    struct where typed;
    struct device *packed;
    int64_t bytes;
    bool fits;
};

static bool sides_of(struct sides *s, const void *typed, int count, MPI_Datatype datatype, const char *packed, int room,
                     const int *position, MPI_Comm comm)
{
    if (count <= 0 || comm == MPI_COMM_NULL || !position || *position < 0 || !packed) return false;
    s->layout = layout_of(datatype);
    if (!s->layout || s->layout->size == 0) return false;
    s->bytes = layout_bytes(s->layout, count);
    if (s->bytes < 0) return false;
    s->fits = s->bytes <= (int64_t)room - *position;
    s->typed = where_of(s->layout, typed, count);
    s->packed = device_of(packed + *position);
    return s->typed.device || s->packed;
}

/* Not every MPI looks: MPICH would write past the end. */
static int too_small(MPI_Comm comm)
{
    return raise_error(comm, MPI_ERR_TRUNCATE, "the packed buffer of MPI_Pack or MPI_Unpack is too small");
}

/* Typed side on the host, packed side on a device: the MPI packs in host memory, and a copy does the rest. */
static int pack_from_host(const struct next *next, const struct sides *s, const void *inbuf, int incount,
                          MPI_Datatype datatype, char *packed, MPI_Comm comm)
{
    int position = 0;
    char *scratch = malloc((size_t)s->bytes);
    if (!scratch) return raise_error(comm, MPI_ERR_NO_MEM, "out of memory");
    int rc = next->Pack(inbuf, incount, datatype, scratch, (int)s->bytes, &position, comm);
    if (rc == MPI_SUCCESS && copy(s->packed, packed, scratch, s->bytes)) rc = copy_failed(comm);
    free(scratch);
    return rc;
}

static int unpack_to_host(const struct next *next, const struct sides *s, const char *packed, void *outbuf,
                          int outcount, MPI_Datatype datatype, MPI_Comm comm)
{
    int position = 0;
    char *scratch = malloc((size_t)s->bytes);
    if (!scratch) return raise_error(comm, MPI_ERR_NO_MEM, "out of memory");
    int rc = copy(s->packed, scratch, packed, s->bytes) ? copy_failed(comm) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS) rc = next->Unpack(scratch, (int)s->bytes, &position, outbuf, outcount, datatype, comm);
    free(scratch);
    return rc;
}

int call_Pack(const struct next *next, const void *inbuf, int incount, MPI_Datatype datatype, void *outbuf, int outsize,
              int *position, MPI_Comm comm)
{
    struct sides s;
    if (!sides_of(&s, inbuf, incount, datatype, outbuf, outsize, position, comm))
        return next->Pack(inbuf, incount, datatype, outbuf, outsize, position, comm);
    if (!s.fits) return too_small(comm);
    struct packed k = {(char *)outbuf + *position, s.bytes, s.packed};
    int rc = s.typed.device ? move_typed(s.layout, s.typed, inbuf, incount, datatype, &k, KERNEL_PACK, comm)
                     : pack_from_host(next, &s, inbuf, incount, datatype, k.address, comm);
    if (rc == MPI_SUCCESS) *position += (int)s.bytes;
    return rc;
}

int call_Unpack(const struct next *next, const void *inbuf, int insize, int *position, void *outbuf, int outcount,
                MPI_Datatype datatype, MPI_Comm comm)
{
    struct sides s;
    if (!sides_of(&s, outbuf, outcount, datatype, inbuf, insize, position, comm))
        return next->Unpack(inbuf, insize, position, outbuf, outcount, datatype, comm);
    if (!s.fits) return too_small(comm);
    struct packed k = {(char *)inbuf + *position, s.bytes, s.packed};
    int rc = s.typed.device ? move_typed(s.layout, s.typed, outbuf, outcount, datatype, &k, KERNEL_UNPACK, comm)
                     : unpack_to_host(next, &s, k.address, outbuf, outcount, datatype, comm);
    if (rc == MPI_SUCCESS) *position += (int)s.bytes;
    return rc;
}
