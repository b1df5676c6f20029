/* pack_call.c: MPI_Pack and MPI_Unpack. Either buffer may lie on a device. If both lie on the host, host_pack.h
 * chooses the packer. */
#include "base/error.h"
#include "hostpack/host_pack.h"
#include "next.h"
#include "pack/typed_buffer.h"
#include <stdlib.h>
#include <string.h>

/* The next MPI_Pack and MPI_Unpack, in the form of the call. */
struct pack_forms {
    int (*small)(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
    int (*large)(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Count *, MPI_Comm);
};
struct unpack_forms {
    int (*small)(const void *, int, int *, void *, int, MPI_Datatype, MPI_Comm);
    int (*large)(const void *, MPI_Count, MPI_Count *, void *, MPI_Count, MPI_Datatype, MPI_Comm);
};

/* The packed side of a call; device is NULL on the host. */
struct packed {
    char *address;
    int64_t bytes;
    struct device *device;
};

/* Packs or unpacks by one kernel, whose device can address the packed bytes. */
static int move_by_kernel(struct typed_buffer *p, enum kernel_direction direction, const struct packed *k)
{
    int64_t start = typed_buffer_clock();
    if (device_enter(p->device)) return -1;
    struct stream *s = stream_get(p->device);
    int rc = s ? typed_buffer_move(p, s, direction, (uint64_t)(uintptr_t)k->address, k->bytes) : -1;
    if (s && stream_wait(p->device, s)) rc = -1;
    if (s) stream_put(p->device, s);
    device_leave(p->device);
    typed_buffer_stats(p, "direct", k->bytes, start);
    return rc;
}

/* Copies between any two addresses that the driver or the host knows. */
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

/* Copies between two devices by way of the host: they may not reach each other's pools and mappings. */
static int copy_by_host(struct device *d, void *to, struct device *d_from, const void *from, int64_t bytes)
{
    char *scratch = malloc((size_t)bytes);
    int rc = scratch && !copy(d_from, scratch, from, bytes) && !copy(d, to, scratch, bytes) ? 0 : -1;
    free(scratch);
    return rc;
}

static int copy_bounce(struct typed_buffer *p, enum kernel_direction direction, const struct packed *k)
{
    bool packs = direction == KERNEL_PACK;
    void *to = packs ? k->address : p->address;
    const void *from = packs ? p->address : k->address;
    struct device *bounce = p->wire->kind == BUFFER_DEVICE ? p->device : NULL;
    if (bounce && k->device && bounce != k->device)
        return copy_by_host(packs ? k->device : bounce, to, packs ? bounce : k->device, from, k->bytes);
    if (k->device || bounce) return copy(k->device ? k->device : bounce, to, from, k->bytes);
    memcpy(to, from, (size_t)k->bytes);
    return 0;
}

static int copy_failed(MPI_Comm comm)
{
    return raise_error(comm, MPI_ERR_OTHER, "copying packed bytes failed");
}

struct sides {
    struct layout *layout;
    struct location where;   /* of the typed side */
    const void *typed;
    int64_t count;
    MPI_Datatype datatype;
    struct packed packed;
    bool fits;
};

static int move_by_transport(const struct sides *s, enum kernel_direction direction, MPI_Comm comm)
{
    struct typed_buffer *p;
    const struct packed *k = &s->packed;
    int rc = typed_buffer_open(&p, s->layout, s->where, s->typed, s->count, s->datatype, comm);
    if (rc != MPI_SUCCESS) return rc;
    bool copied = direction == KERNEL_PACK || !copy_bounce(p, direction, k);
    if (copied) rc = direction == KERNEL_PACK ? typed_buffer_pack(p, comm) : typed_buffer_unpack(p, k->bytes, comm);
    if (copied && rc == MPI_SUCCESS && direction == KERNEL_PACK) copied = !copy_bounce(p, direction, k);
    typed_buffer_close(p);
    return copied ? rc : copy_failed(comm);
}

/* Packs or unpacks a typed buffer that lies on a device, at least in part. Uses one kernel if that can address the
 * packed side. */
static int move_typed(const struct sides *s, enum kernel_direction direction, MPI_Comm comm)
{
    const struct packed *k = &s->packed;
    struct location w = s->where;
    bool apart = !s->layout->tree || w.parts;
    bool reaches = !apart && (k->device ? k->device == w.device : device_accessible(k->address, (size_t)k->bytes));
    if (!reaches) return move_by_transport(s, direction, comm);
    int rc = typed_buffer_check(s->layout, w, s->datatype, comm);
    if (rc != MPI_SUCCESS) return rc;
    struct typed_buffer p = typed_buffer_on(s->layout, w.device, s->typed, s->count);
    return move_by_kernel(&p, direction, k) ? raise_error(comm, MPI_ERR_OTHER, "moving packed bytes on the GPU failed")
                                            : rc;
}

static bool sides_of(struct sides *s, enum kernel_direction direction, const void *typed, int64_t count,
                     MPI_Datatype datatype, const char *packed, int64_t room, int64_t position, MPI_Comm comm)
{
    if (count <= 0 || comm == MPI_COMM_NULL || position < 0 || !packed) return false;
    bool driver = driver_get();
    *s = (struct sides){.typed = typed, .count = count, .datatype = datatype};
    s->layout = driver ? layout_of(datatype) : filter_pack_layout(direction, datatype, count);
    if (!s->layout || s->layout->size == 0) return false;
    s->packed.bytes = layout_bytes(s->layout, count);
    if (s->packed.bytes < 0) return false;
    s->fits = s->packed.bytes <= room - position;
    s->packed.address = (char *)(uintptr_t)packed + position;
    if (!driver) return true;
    s->where = locate(s->layout, typed, count);
    s->packed.device = device_of(s->packed.address);
    return s->where.device || s->packed.device || filter_pack_admits(datatype, s->layout, s->packed.bytes);
}

/* Packs or unpacks in host memory and returns true; false leaves that to the MPI. Call host_pack_end in both cases.
 * For a known layout the MPI says whether the type is committed; *rc is its error. */
static bool move_on_host(struct host_pack_call *c, const struct sides *s, enum kernel_direction direction,
                         MPI_Comm comm, int *rc)
{
    if (s->fits && known_layouts_returns(s->layout)) *rc = layout_committed(s->layout, s->datatype, comm);
    if (*rc != MPI_SUCCESS || !s->fits) return false;
    if (!host_pack_begin(c, s->layout, direction, s->datatype, s->count, s->packed.bytes)) return false;
    if (direction == KERNEL_PACK) host_pack_pack(s->layout, s->count, s->typed, s->packed.address, 0, s->packed.bytes);
    else host_pack_unpack(s->layout, s->count, (void *)(uintptr_t)s->typed, s->packed.address, 0, s->packed.bytes);
    return true;
}

/* Raises the error. Workaround (MPICH 4.0): it does not check the size and writes past the end. */
static int too_small(MPI_Comm comm)
{
    return raise_error(comm, MPI_ERR_TRUNCATE, "the packed buffer of MPI_Pack or MPI_Unpack is too small");
}

static int no_memory(MPI_Comm comm)
{
    return raise_error(comm, MPI_ERR_NO_MEM, "out of memory");
}

static int pack_by_mpi(struct pack_forms next, const struct sides *s, void *outbuf, MPI_Comm comm)
{
    int position = 0;
    MPI_Count at = 0;
    return next.large ? next.large(s->typed, s->count, s->datatype, outbuf, s->packed.bytes, &at, comm)
                      : next.small(s->typed, (int)s->count, s->datatype, outbuf, (int)s->packed.bytes, &position, comm);
}

static int unpack_by_mpi(struct unpack_forms next, const struct sides *s, const void *inbuf, MPI_Comm comm)
{
    int position = 0;
    MPI_Count at = 0;
    void *typed = (void *)(uintptr_t)s->typed;
    return next.large ? next.large(inbuf, s->packed.bytes, &at, typed, s->count, s->datatype, comm)
                      : next.small(inbuf, (int)s->packed.bytes, &position, typed, (int)s->count, s->datatype, comm);
}

/* Packs host data for a device: the MPI packs into host memory, and one copy follows. */
static int pack_from_host(struct pack_forms next, const struct sides *s, MPI_Comm comm)
{
    const struct packed *k = &s->packed;
    char *scratch = malloc((size_t)k->bytes);
    if (!scratch) return no_memory(comm);
    int rc = pack_by_mpi(next, s, scratch, comm);
    if (rc == MPI_SUCCESS && copy(k->device, k->address, scratch, k->bytes)) rc = copy_failed(comm);
    free(scratch);
    return rc;
}

static int unpack_to_host(struct unpack_forms next, const struct sides *s, MPI_Comm comm)
{
    const struct packed *k = &s->packed;
    char *scratch = malloc((size_t)k->bytes);
    if (!scratch) return no_memory(comm);
    int rc = copy(k->device, scratch, k->address, k->bytes) ? copy_failed(comm) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS) rc = unpack_by_mpi(next, s, scratch, comm);
    free(scratch);
    return rc;
}

static int pack(struct pack_forms next, const struct sides *s, MPI_Comm comm)
{
    if (!s->fits) return too_small(comm);
    return s->where.device ? move_typed(s, KERNEL_PACK, comm) : pack_from_host(next, s, comm);
}

static int unpack(struct unpack_forms next, const struct sides *s, MPI_Comm comm)
{
    if (!s->fits) return too_small(comm);
    return s->where.device ? move_typed(s, KERNEL_UNPACK, comm) : unpack_to_host(next, s, comm);
}

/* Defines call_NAME: `form` is the member of pack_forms for it, `number` the type of its counts and positions. */
#define PACK(name, form, number) \
    int call_##name(const struct next *next, const void *inbuf, number incount, MPI_Datatype datatype, void *outbuf, \
                    number outsize, number *position, MPI_Comm comm) \
    { \
        struct sides s; \
        if (!sides_of(&s, KERNEL_PACK, inbuf, incount, datatype, outbuf, outsize, position ? *position : -1, comm)) \
            return next->name(inbuf, incount, datatype, outbuf, outsize, position, comm); \
        if (!s.where.device && !s.packed.device) { \
            struct host_pack_call c = {.layout = s.layout}; \
            int rc = MPI_SUCCESS; \
            bool ours = move_on_host(&c, &s, KERNEL_PACK, comm, &rc); \
            if (!ours && rc == MPI_SUCCESS) \
                rc = next->name(inbuf, incount, datatype, outbuf, outsize, position, comm); \
            host_pack_end(&c, rc); \
            if (ours) *position += (number)s.packed.bytes; \
            return rc; \
        } \
        int rc = pack((struct pack_forms){.form = next->name}, &s, comm); \
        if (rc == MPI_SUCCESS) *position += (number)s.packed.bytes; \
        return rc; \
    }
#define UNPACK(name, form, number) \
    int call_##name(const struct next *next, const void *inbuf, number insize, number *position, void *outbuf, \
                    number outcount, MPI_Datatype datatype, MPI_Comm comm) \
    { \
        struct sides s; \
        if (!sides_of(&s, KERNEL_UNPACK, outbuf, outcount, datatype, inbuf, insize, position ? *position : -1, comm)) \
            return next->name(inbuf, insize, position, outbuf, outcount, datatype, comm); \
        if (!s.where.device && !s.packed.device) { \
            struct host_pack_call c = {.layout = s.layout}; \
            int rc = MPI_SUCCESS; \
            bool ours = move_on_host(&c, &s, KERNEL_UNPACK, comm, &rc); \
            if (!ours && rc == MPI_SUCCESS) \
                rc = next->name(inbuf, insize, position, outbuf, outcount, datatype, comm); \
            host_pack_end(&c, rc); \
            if (ours) *position += (number)s.packed.bytes; \
            return rc; \
        } \
        int rc = unpack((struct unpack_forms){.form = next->name}, &s, comm); \
        if (rc == MPI_SUCCESS) *position += (number)s.packed.bytes; \
        return rc; \
    }

PACK(Pack, small, int)
UNPACK(Unpack, small, int)
#ifdef HAVE_Pack_c
PACK(Pack_c, large, MPI_Count)
UNPACK(Unpack_c, large, MPI_Count)
#endif
