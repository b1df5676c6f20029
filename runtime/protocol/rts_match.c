/* rts_match.c: tells an RTS from a payload in what a receive brought. */
#include "base/bounce.h"
#include "base/error.h"
#include "datatype/type_filter.h"
#include "hostpack/host_pack.h"
#include "pack/host_scatter.h"
#include "pipeline.h"
#include "node/ipc_cache.h"
#include "placement.h"
#include "rndv_file.h"
#include "rndv_recv.h"
#include "rts.h"
#include "rts_short.h"
#include <string.h>

#define PEERS_TRIED 64   /* for a receive from MPI_ANY_SOURCE */

bool rndv_recv_from(MPI_Comm comm, int source)
{
    return source == MPI_ANY_SOURCE || node_starting() || node_peer(comm, source) || pipeline_peer(comm, source) >= 0;
}

/* Makes this process refuse short RTS, unless the receive is into device memory and shorter than a short RTS. */
static void refuse_short(const void *buf, int64_t count, MPI_Datatype datatype)
{
    struct layout *l = rts_least() <= RTS_SHORT_MIN ? layout_of(datatype) : NULL;
    bool bare = l && l->size && layout_bytes(l, count) >= 0 && layout_bytes(l, count) < RTS_SHORT_MIN;
    if (!bare || !device_of((const char *)buf + l->low)) rts_short_refuse();
}

/* Returns the device where the first byte lies, or NULL. */
static struct device *first_device(const struct message *m, const struct layout *l)
{
    return m->where.parts ? device_of((const char *)m->buf + l->low) : m->where.device;
}

int rndv_recv_prepare(struct typed_buffer **p, struct message *m, bool carried)
{
    *p = NULL;
    if (!rts_armed() || m->count <= 0 || m->peer == MPI_PROC_NULL || m->comm == MPI_COMM_NULL) return MPI_SUCCESS;
    bool long_enough = filter_receives(m->type, m->count);
    if (long_enough && !m->near && !rndv_recv_from(m->comm, m->peer)) return MPI_SUCCESS;
    if (long_enough && !m->located) message_locate(m);
    struct layout *l = !long_enough || m->layout ? m->layout : layout_of(m->type);
    int64_t bytes = m->layout || !l || !l->size ? m->bytes : layout_bytes(l, m->count);
    if (!carried && (!long_enough || (bytes > 0 && bytes < RNDV_MIN))) refuse_short(m->buf, m->count, m->type);
    if (!long_enough || bytes < rts_least()) return MPI_SUCCESS;
    *p = typed_buffer_new(l, first_device(m, l), m->buf, m->count);
    if (!*p) return raise_error(m->comm, MPI_ERR_NO_MEM, "no memory for the record of a message");
    if (!l->tree) (*p)->datatype = type_like(m->type);
    if ((*p)->device && !carried) typed_buffer_note_recv(*p);
    return MPI_SUCCESS;
}

void rndv_recv_probe(const struct message *m)
{
    struct device *d = m->where.device;
    int size = 0;
    if (!node_armed() || !d) return;
    if (m->peer != MPI_ANY_SOURCE) ipc_cache_probe(m->near, d);
    else PMPI_Comm_size(m->comm, &size);
    for (int i = 0; i < size && i < PEERS_TRIED; i++) ipc_cache_probe(node_peer(m->comm, i), d);
}

void rndv_recv_probing(bool begins)
{
    if (!node_own()) return;
    if (begins) atomic_fetch_add(&node_own()->probing, 1);
    else atomic_fetch_sub(&node_own()->probing, 1);
}

void rndv_recv_probed(const struct rts *d, bool probed)
{
    struct peer *peer = pipeline_named(d) ? NULL : node_world_peer((int)d->rank);
    if (peer && d->slot < SLOTS) atomic_store(&peer->file->slot[d->slot].probed, probed);
    else if (peer) rndv_file_note_probed(peer->rank, d->slot, probed);
}

/* Copies the first packed bytes from device memory to `room`: from `packed`, or, if NULL, from the buffer. Blocks. */
static bool head_from_device(struct device *on, struct typed_buffer *p, const void *packed, char *room, int64_t bytes)
{
    if (device_enter(on)) return false;
    struct stream *s = stream_get(on);
    struct pool_buffer *to = mempool_get(on, BUFFER_PINNED, (size_t)bytes);
    bool read = s && to &&
                (packed ? !driver_get()->cuMemcpyDtoHAsync(to->host, (CUdeviceptr)(uintptr_t)packed, (size_t)bytes,
                                                           stream_use(s))
                        : !typed_buffer_move(p, s, KERNEL_PACK, to->address, bytes));
    if (s && stream_wait(on, s)) read = false;
    if (read) memcpy(room, to->host, (size_t)bytes);
    mempool_put(to);
    if (s) stream_put(on, s);
    device_leave(on);
    return read;
}

/* Returns the device where `packed` lies; asks the driver only about foreign memory. */
static struct device *device_beneath(const struct typed_buffer *p, const void *packed)
{
    bool hosted = p->hosted || (p->wire && packed == p->wire->host) || (p->block && packed == p->block->memory);
    return hosted ? NULL : device_of(packed);
}

const char *rndv_recv_head(struct typed_buffer *p, const void *packed, char *room, int64_t bytes)
{
    struct device *on = packed ? device_beneath(p, packed) : p->device;
    if (packed && !on) return packed;
    if (on && !packed && !p->layout->tree) return typed_buffer_mpi_pack(p) ? p->address : NULL;
    if (on) return head_from_device(on, p, packed, room, bytes) ? room : NULL;
    bool read =
        host_pack_pack(p->layout, p->count, p->user, room, 0, bytes) || host_scatter_move(p, room, 0, bytes, true);
    return read ? room : NULL;
}

/* Copies the first bytes of the message to d. Returns false if they can't be read. */
static bool told(struct typed_buffer *p, const void *packed, struct rts *d, int64_t bytes)
{
    const char *at = rndv_recv_head(p, packed, (char *)d, bytes);
    if (at && at != (char *)d) memcpy(d, at, (size_t)bytes);
    return at != NULL;
}

/* The cookie does not occur in a payload by chance. A message that can't be read must not pass for a payload. */
bool rndv_recv_is_rts(struct typed_buffer *p, const void *packed, int64_t came, struct rts *d)
{
    if (!rts_armed() || !rts_fits(came)) return false;
    bool is_short = came == RTS_SHORT_BYTES;
    if (p->bytes < (is_short ? came : RTS_BYTES)) return false;
    if (!told(p, packed, d, is_short ? came : RTS_TOLD)) return d->bytes = RNDV_RECV_UNREAD, true;
    if (!is_short && pipeline_named(d)) return true;
    struct peer *peer = d->rank <= INT32_MAX ? node_world_peer((int)d->rank) : NULL;
    bool wanted = peer && (d->slot < SLOTS || !is_short) && d->bytes >= (is_short ? RTS_SHORT_MIN : RNDV_MIN) &&
                  rts_marked(d, &peer->cookie, is_short);
    if (wanted) placement_note(peer, p, true);
    return wanted;
}
