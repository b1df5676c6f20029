/* typed_buffer.c: selects, packs and unpacks typed buffers. */
#include "typed_buffer.h"
#include "../../gen/hash.h"
#include "base/bounce.h"
#include "base/error.h"
#include "base/freelist.h"
#include <stdlib.h>

static bool acquire(struct typed_buffer *p, const struct transport *t)
{
    p->transport = t;
    if (t->acquire(p)) return true;
    mempool_put(p->wire), mempool_put(p->stage);
    p->wire = p->stage = NULL;
    return false;
}

/* Selects the transport. Open MPI is slow with device memory sent to the own rank. A 256^3 halo with two axes of own
 * neighbours takes 3.2 ms so, and 0.84 with these messages in host memory (two H200s). */
static const struct transport *choose(const struct typed_buffer *p)
{
    if (p->parts) return &transport_parts;
    return p->layout->tree ? transport_choose(p->layout, p->count, p->bytes, p->on_host) : &transport_by_mpi;
}

static bool acquire_buffers(struct typed_buffer *p, MPI_Datatype datatype)
{
    const struct transport *t = choose(p);
    if (!p->layout->tree) p->datatype = type_like(datatype);
    bool again = p->layout->tree && !p->parts && t != &transport_oneshot;
    return acquire(p, t) || (again && acquire(p, &transport_oneshot));
}

int typed_buffer_check(struct layout *l, struct location w, MPI_Datatype datatype, MPI_Comm comm)
{
    int rc = layout_committed(l, datatype, comm);
    if (rc != MPI_SUCCESS || !w.parts || l->tree) return rc;
    return raise_error(comm, MPI_ERR_BUFFER, TYPED_BUFFER_UNABLE);
}

struct typed_copy_side typed_buffer_side(const struct layout *l, uint64_t address, int64_t count)
{
    uint64_t user = address + (uint64_t)l->tree->off;
    if (layout_contiguous(l, count)) return (struct typed_copy_side){.user = user};
    return (struct typed_copy_side){l->tree, l->kernel, user, l->extent, count};
}

struct typed_buffer *typed_buffer_new(struct layout *l, struct device *d, const void *buf, int64_t count)
{
    struct typed_buffer *p = freelist_get(FREELIST_TYPED_BUFFER, sizeof *p);
    if (!p) return NULL;
    typed_buffer_set(p, l, d, buf, count);
    layout_ref(l);
    return p;
}

static struct layout *movable(int64_t count, MPI_Datatype datatype, MPI_Comm comm)
{
    if (count <= 0 || comm == MPI_COMM_NULL || !driver_get()) return NULL;
    struct layout *l = layout_of(datatype);
    return l && l->size && layout_bytes(l, count) >= 0 ? l : NULL;
}

struct layout *typed_buffer_find(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm,
                                  struct location *w)
{
    struct layout *l = movable(count, datatype, comm);
    if (l) locate_to(w, l, buf, count);
    return l && w->device ? l : NULL;
}

struct layout *typed_buffer_claim(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm,
                                  struct location *w)
{
    struct layout *l = movable(count, datatype, comm);
    /* One piece passes to the MPI wherever it lies; only absolute addresses can put it into several memories. */
    if (!l || (mpi_cuda_aware() && !l->low && layout_contiguous(l, count))) return NULL;
    locate_to(w, l, buf, count);
    return w->device && !typed_buffer_mpi_takes(l, buf, count, *w) ? l : NULL;
}

bool typed_buffer_mpi_takes(const struct layout *l, const void *buf, int64_t count, struct location w)
{
    if (!mpi_cuda_aware() || (l->tree && (w.parts || !layout_contiguous(l, count)))) return false;
    return !l->low || (uint64_t)(uintptr_t)buf - w.around.start < w.around.span || device_of(buf);
}

/* Receives under way directly into device buffers, counted by a hash of the address. */
static atomic_int recv_counts[256];

static atomic_int *recv_count_of(const void *buf)
{
    return &recv_counts[hash_place((uintptr_t)buf, 8)];
}

void typed_buffer_note_recv(struct typed_buffer *p)
{
    p->recv_noted = true;
    atomic_fetch_add_explicit(recv_count_of(p->user), 1, memory_order_relaxed);
}

bool typed_buffer_has_recv(const void *buf)
{
    return atomic_load_explicit(recv_count_of(buf), memory_order_relaxed) != 0;
}

bool typed_buffer_claims(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm)
{
    struct location w;
    return typed_buffer_claim(buf, count, datatype, comm, &w) != NULL;
}

const struct transport *typed_buffer_transport(struct layout *l, struct location w, int64_t count)
{
    struct typed_buffer p = typed_buffer_on(l, w.device, NULL, count);
    p.parts = w.parts, p.on_host = w.on_host;
    return choose(&p);
}

int typed_buffer_open(struct typed_buffer **out, struct layout *l, struct location w, const void *buf, int64_t count,
                      MPI_Datatype datatype, MPI_Comm comm)
{
    int rc = typed_buffer_check(l, w, datatype, comm);
    if (rc != MPI_SUCCESS) return rc;
    struct typed_buffer *p = typed_buffer_new(l, w.device, buf, count);
    if (!p) return raise_error(comm, MPI_ERR_NO_MEM, "out of memory");
    p->parts = w.parts, p->on_host = w.on_host;
    if (acquire_buffers(p, datatype)) return *out = p, MPI_SUCCESS;
    typed_buffer_close(p);
    return raise_error(comm, MPI_ERR_NO_MEM, "no memory for a message's packed bytes");
}

void typed_buffer_end_batch(struct typed_buffer *p)
{
    if (p->moved) typed_buffer_stats(p, p->transport->name, p->moved, p->started);
    p->moved = 0;
}

void typed_buffer_close(struct typed_buffer *p)
{
    if (!p) return;
    typed_buffer_end_batch(p);
    if (p->recv_noted) atomic_fetch_sub_explicit(recv_count_of(p->user), 1, memory_order_relaxed);
    mempool_put(p->wire), mempool_put(p->stage), bounce_put(p->block);
    if (p->datatype != MPI_DATATYPE_NULL) PMPI_Type_free(&p->datatype);
    layout_unref(p->layout);
    freelist_put(FREELIST_TYPED_BUFFER, p);
}

/* Packs or unpacks on an own stream and waits. */
static int typed_buffer_run(struct typed_buffer *p, enum kernel_direction direction, int64_t bytes)
{
    int64_t start = stats_now();
    if (device_enter(p->device)) return -1;
    struct stream *s = stream_get(p->device);
    int rc = s ? p->transport->move(p, s, direction, 0, bytes) : -1;
    if (s && stream_wait(p->device, s)) rc = -1;
    if (s) stream_put(p->device, s);
    device_leave(p->device);
    typed_buffer_stats(p, p->transport->name, bytes, start);
    return rc;
}

int typed_buffer_pack(struct typed_buffer *p, MPI_Comm comm)
{
    return typed_buffer_run(p, KERNEL_PACK, p->bytes) ? raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed")
                                                      : MPI_SUCCESS;
}

bool typed_buffer_mpi_pack(struct typed_buffer *p)
{
    return (p->wire || acquire(p, &transport_by_mpi)) && !typed_buffer_run(p, KERNEL_PACK, p->bytes);
}

int typed_buffer_unpack(struct typed_buffer *p, int64_t bytes, MPI_Comm comm)
{
    if (bytes == 0) return MPI_SUCCESS;
    return typed_buffer_run(p, KERNEL_UNPACK, bytes)
               ? raise_error(comm, MPI_ERR_OTHER, "unpacking on the GPU failed") : MPI_SUCCESS;
}
