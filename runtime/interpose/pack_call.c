/* pack_call.c: MPI_Pack and MPI_Unpack. Either buffer may lie on a device. If both lie on the host, host_pack.h
 * chooses the packer. */
#include "base/error.h"
#include "hostpack/host_pack.h"
#include "large_count.h"
#include "pack/typed_buffer.h"
#include <stdlib.h>
#include <string.h>

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

/* One call. */
struct sides {
    const struct next *next;
    /* Calls the next MPI_Pack or MPI_Unpack, with another packed side. */
    int (*by_mpi)(const struct sides *, void *packed, int64_t room, int64_t *position);
    enum kernel_direction direction;
    const void *typed;
    int64_t count;
    MPI_Datatype datatype;
    MPI_Comm comm;
    char *buffer;            /* the packed side, from position 0 */
    int64_t room;
    struct layout *layout;
    struct location where;   /* of the typed side */
    struct packed packed;
    bool fits;
};

static int copy_failed(MPI_Comm comm)
{
    return raise_error(comm, MPI_ERR_OTHER, "copying packed bytes failed");
}

static int move_by_transport(const struct sides *s)
{
    struct typed_buffer *p;
    const struct packed *k = &s->packed;
    MPI_Comm comm = s->comm;
    bool packs = s->direction == KERNEL_PACK;
    int rc = typed_buffer_open(&p, s->layout, s->where, s->typed, s->count, s->datatype, comm);
    if (rc != MPI_SUCCESS) return rc;
    bool copied = packs || !copy_bounce(p, s->direction, k);
    if (copied) rc = packs ? typed_buffer_pack(p, comm) : typed_buffer_unpack(p, k->bytes, comm);
    if (packs && rc == MPI_SUCCESS) copied = !copy_bounce(p, s->direction, k);
    typed_buffer_close(p);
    return copied ? rc : copy_failed(comm);
}

/* Packs or unpacks a typed buffer that lies on a device, at least in part. Uses one kernel if that can address the
 * packed side. */
static int move_typed(const struct sides *s)
{
    const struct packed *k = &s->packed;
    struct location w = s->where;
    bool apart = !s->layout->tree || w.parts;
    bool reaches = !apart && (k->device ? k->device == w.device : device_accessible(k->address, (size_t)k->bytes));
    if (!reaches) return move_by_transport(s);
    int rc = typed_buffer_check(s->layout, w, s->datatype, s->comm);
    if (rc != MPI_SUCCESS) return rc;
    struct typed_buffer p = typed_buffer_on(s->layout, w.device, s->typed, s->count);
    if (!move_by_kernel(&p, s->direction, k)) return rc;
    return raise_error(s->comm, MPI_ERR_OTHER, "moving packed bytes on the GPU failed");
}

/* Moves host data to or from packed bytes on a device: by the MPI in host memory, and one copy. */
static int move_by_scratch(const struct sides *s)
{
    const struct packed *k = &s->packed;
    bool packs = s->direction == KERNEL_PACK;
    int64_t at = 0;
    char *scratch = malloc((size_t)k->bytes);
    if (!scratch) return raise_error(s->comm, MPI_ERR_NO_MEM, "out of memory");
    int rc = MPI_SUCCESS;
    bool copied = packs || !copy(k->device, scratch, k->address, k->bytes);
    if (copied) rc = s->by_mpi(s, scratch, k->bytes, &at);
    if (packs && rc == MPI_SUCCESS) copied = !copy(k->device, k->address, scratch, k->bytes);
    free(scratch);
    return copied ? rc : copy_failed(s->comm);
}

/* Packs or unpacks in host memory and returns true; false leaves that to the MPI. Call host_pack_end in both cases.
 * For a known layout the MPI says whether the type is committed; *rc is its error. */
static bool pack_on_host(struct host_pack_call *c, const struct sides *s, int *rc)
{
    const struct packed *k = &s->packed;
    if (s->fits && known_layouts_returns(s->layout)) *rc = layout_committed(s->layout, s->datatype, s->comm);
    if (*rc != MPI_SUCCESS || !s->fits) return false;
    if (!host_pack_begin(c, s->layout, s->direction, s->datatype, s->count, k->bytes)) return false;
    if (s->direction == KERNEL_PACK) host_pack_pack(s->layout, s->count, s->typed, k->address, 0, k->bytes);
    else host_pack_unpack(s->layout, s->count, (void *)(uintptr_t)s->typed, k->address, 0, k->bytes);
    return true;
}

static int move_on_host(const struct sides *s, int64_t *position)
{
    struct host_pack_call c = {.layout = s->layout};
    int rc = MPI_SUCCESS;
    bool ours = pack_on_host(&c, s, &rc);
    if (!ours && rc == MPI_SUCCESS) rc = s->by_mpi(s, s->buffer, s->room, position);
    host_pack_end(&c, rc);
    if (ours) *position += s->packed.bytes;
    return rc;
}

static int move(const struct sides *s, int64_t *position)
{
    if (!s->where.device && !s->packed.device) return move_on_host(s, position);
    /* Workaround (MPICH 4.0): it does not check the size and writes past the end. */
    if (!s->fits)
        return raise_error(s->comm, MPI_ERR_TRUNCATE, "the packed buffer of MPI_Pack or MPI_Unpack is too small");
    int rc = s->where.device ? move_typed(s) : move_by_scratch(s);
    if (rc == MPI_SUCCESS) *position += s->packed.bytes;
    return rc;
}

/* Fills the rest of s. Returns false if the call is the MPI's. */
static bool sides_open(struct sides *s, int64_t position)
{
    struct packed *k = &s->packed;
    if (s->count <= 0 || s->comm == MPI_COMM_NULL || position < 0 || !s->buffer) return false;
    bool driver = driver_get();
    s->layout = driver ? layout_of(s->datatype) : filter_pack_layout(s->direction, s->datatype, s->count);
    if (!s->layout || s->layout->size == 0) return false;
    k->bytes = layout_bytes(s->layout, s->count);
    if (k->bytes < 0) return false;
    s->fits = k->bytes <= s->room - position;
    k->address = s->buffer + position;
    if (!driver) return true;
    s->where = locate(s->layout, s->typed, s->count);
    k->device = device_of(k->address);
    return s->where.device || k->device || filter_pack_admits(s->datatype, s->layout, k->bytes);
}

#define SIDES(name, way, typed, count, packed, room) \
    {next, name##_by_mpi, way, typed, count, datatype, comm, (char *)(uintptr_t)packed, room, .fits = false}
/* `number` is the type of the counts and positions. */
#define PACK(c, number) \
    static int Pack##c##_by_mpi(const struct sides *s, void *packed, int64_t room, int64_t *position) \
    { \
        number at = (number)*position; \
        int rc = s->next->Pack##c(s->typed, (number)s->count, s->datatype, packed, (number)room, &at, s->comm); \
        *position = at; \
        return rc; \
    } \
    int call_Pack##c(const struct next *next, const void *inbuf, number incount, MPI_Datatype datatype, void *outbuf, \
                     number outsize, number *position, MPI_Comm comm) \
    { \
        struct sides s = SIDES(Pack##c, KERNEL_PACK, inbuf, incount, outbuf, outsize); \
        int64_t at = position ? *position : -1; \
        if (!sides_open(&s, at)) return next->Pack##c(inbuf, incount, datatype, outbuf, outsize, position, comm); \
        int rc = move(&s, &at); \
        *position = (number)at; \
        return rc; \
    }
#define UNPACK(c, number) \
    static int Unpack##c##_by_mpi(const struct sides *s, void *packed, int64_t room, int64_t *position) \
    { \
        number at = (number)*position; \
        int rc = s->next->Unpack##c(packed, (number)room, &at, (void *)(uintptr_t)s->typed, (number)s->count, \
                                    s->datatype, s->comm); \
        *position = at; \
        return rc; \
    } \
    int call_Unpack##c(const struct next *next, const void *inbuf, number insize, number *position, void *outbuf, \
                       number outcount, MPI_Datatype datatype, MPI_Comm comm) \
    { \
        struct sides s = SIDES(Unpack##c, KERNEL_UNPACK, outbuf, outcount, inbuf, insize); \
        int64_t at = position ? *position : -1; \
        if (!sides_open(&s, at)) return next->Unpack##c(inbuf, insize, position, outbuf, outcount, datatype, comm); \
        int rc = move(&s, &at); \
        *position = (number)at; \
        return rc; \
    }

EACH_FORM(PACK)
EACH_FORM(UNPACK)
