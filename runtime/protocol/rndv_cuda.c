/* rndv_cuda.c: rendezvous sends (rndv_send.h) of device memory. */
#include "datatype/layout_parts.h"
#include "device/device_internal.h"
#include "progress_thread.h"
#include "rndv_internal.h"

void rndv_describe(struct slot *s, struct device *d, const struct ipc_export *e, uint64_t user, uint64_t layout)
{
    SLOT_SET(s->memory, SLOT_DEVICE);
    SLOT_SET(s->description, 0);
    /* The rest of the line that the receiver reads tells the allocation by its number: it mostly knows it already. */
    if (s->id != e->id || s->start != e->start || s->span != e->span)
        s->handle = e->handle, s->start = e->start, s->span = e->span, s->id = e->id, s->gpu = device_gpu_id(d);
    SLOT_SET(s->user, user);
    SLOT_SET(s->layout, layout);
}

/* Writes how many bytes, of which elements, the memory that rndv_describe tells of holds. No chunk flags are there. */
static void describe_elements(struct slot *s, int64_t bytes, int64_t count, int64_t extent)
{
    SLOT_SET(s->bytes, bytes);
    SLOT_SET(s->count, count);
    SLOT_SET(s->extent, extent);
    SLOT_SET(s->chunk, 0);
}

void rndv_send_describe(struct rndv_send *o, const struct ipc_export *e, uint64_t user, uint64_t layout)
{
    struct slot *s = o->slot;
    const struct typed_buffer *p = o->tbuf;
    rndv_describe(s, p->device, e, user, layout);
    describe_elements(s, p->bytes, p->count, p->layout->extent);
    s->next = 0;
    atomic_store_explicit(&s->flags_unread, 0, memory_order_relaxed);
    atomic_store_explicit(&s->ready, o->pushes ? 0 : p->bytes, memory_order_relaxed);
}

/* Sets *e to the allocation around the range. Returns false if the peer can't open it. */
static bool export_range(struct device *d, uint64_t first, int64_t bytes, bool located, struct ipc_export *e)
{
    struct allocation a = {0};
    bool found = located && device_located((const void *)(uintptr_t)first, &a);
    /* Located memory without an allocation of its own (of a pool, managed) is not shared: nobody is asked again. */
    if (located && !found && !device_forgets()) return false;
    /* A range of mapped memory may have several pieces. */
    if (!found || a.mapped) return ipc_export_of(d, first, bytes, e);
    return ipc_export_around(d, &a, e, NULL) && ipc_export_holds(e, first, bytes);
}

/* Sets *e to the allocation around a range of a layout that lies as before; asks nobody. Returns false if the peer
 * can't open it. */
static bool export_before(const struct layout *l, struct device *d, uint64_t first, int64_t bytes, struct ipc_export *e)
{
    struct allocation a;
    return locate_before(l, first, &a) && ipc_export_around(d, &a, e, NULL) && ipc_export_holds(e, first, bytes);
}

static bool fill(struct rndv_send *o, struct rndv_send_site *site)
{
    struct typed_buffer *p = o->tbuf;
    struct ipc_export *e = &site->allocation;
    int64_t first, past;
    uint64_t layout = 0, user = (uint64_t)(uintptr_t)p->user;
    bool packed = layout_contiguous(p->layout, p->count);
    if (site->as_before && !e->span) return false;   /* in several allocations, or in one that is not shared */
    layout_span(p->layout, p->count, &first, &past);
    if (!ipc_export_holds(e, user + (uint64_t)first, past - first) &&
        !export_range(p->device, user + (uint64_t)first, past - first, site->located, e))
        return e->span = 0, false;
    if (!ipc_export_accepted(e, o->peer)) return false;
    if (!packed && !(layout = ipc_export_layout(p->layout))) return false;
    if (!e->synchronous && site->drained != p->device && ipc_export_drain(p->device)) return false;
    if (!e->synchronous) site->drained = p->device;
    rndv_send_describe(o, e, user + (uint64_t)p->layout->tree->off, layout);
    return true;
}

/* Describes a part of the payload, which must lie in one allocation. Returns false if the peer can't read it. */
static bool fill_part(struct rndv_send *o, struct slot *s, struct layout *part, struct rndv_send_site *site)
{
    struct ipc_export *e = &site->allocation;
    struct device *d = o->tbuf->device;
    uint64_t first = (uint64_t)part->low, layout = 0;
    int64_t bytes = part->high - part->low;
    if (!ipc_export_holds(e, first, bytes) &&
        !(site->as_before ? export_before(o->tbuf->layout, d, first, bytes, e)
                          : export_range(d, first, bytes, site->located, e)))
        return e->span = 0, false;
    if (!ipc_export_accepted(e, o->peer)) return false;
    if (!layout_contiguous(part, 1) && !(layout = ipc_export_layout(part))) return false;
    if (!e->synchronous && site->drained != d && ipc_export_drain(d)) return false;
    if (!e->synchronous) site->drained = d;
    rndv_describe(s, d, e, (uint64_t)part->tree->off, layout);
    describe_elements(s, part->size, 1, part->extent);
    return true;
}

/* Tells, by the first slot, which payload was described last from it on: as long as the slots have its numbers. */
static struct described {
    uint64_t first;    /* `description` of the first slot */
    uint64_t layout;   /* its number */
    int rank;
    uint64_t refusals;
} described[SLOTS];

/* Returns true if the n slots still describe this payload to this peer. Each then has the number of the description,
 * and in its low bits that of the part: slots are taken in any order. */
static bool is_described(const struct rndv_send *o, int n)
{
    const struct slot *s = o->slot;
    const struct described *k = &described[s - node_own()->slot];
    uint64_t at = k->first;
    if (!at || k->layout != o->tbuf->layout->number || k->rank != o->peer->rank) return false;
    if (k->refusals != ipc_export_refusals()) return false;
    for (int i = 0; i < n; i++, at++, s = rndv_send_next_slot(s))
        if (s->description != at) return false;
    return true;
}

/* Notes what the n slots describe, so that the next such message need not do it again. */
static void describe_parts(struct rndv_send *o, int n, uint64_t refusals)
{
    static _Atomic uint64_t descriptions;
    struct slot *s = o->slot;
    uint64_t at = (atomic_fetch_add(&descriptions, 1) + 1) * LAYOUT_PARTS;
    described[s - node_own()->slot] = (struct described){at, o->tbuf->layout->number, o->peer->rank, refusals};
    for (int i = 0; i < n; i++, s = rndv_send_next_slot(s)) s->description = at++;
}

/* Describes each part in a slot of its own. Returns false if the peer can't read one. */
static bool fill_each(struct rndv_send *o, const struct layout_parts *parts, struct rndv_send_site *site)
{
    uint64_t refusals = ipc_export_refusals();
    struct slot *s = o->slot;
    bool lasting = site->as_before;
    for (int i = 0; i < parts->n; i++, s = rndv_send_next_slot(s)) {
        if (!fill_part(o, s, parts->part[i], site)) return false;
        lasting = lasting && site->allocation.synchronous && !(site->allocation.id & SLOT_MAPPED);
    }
    if (lasting) describe_parts(o, parts->n, refusals);
    return true;
}

/* Describes a payload at absolute addresses in several allocations, a slot for each part. */
static bool fill_parts(struct rndv_send *o, struct rndv_send_site *site)
{
    const struct typed_buffer *p = o->tbuf;
    const struct layout_parts *parts = p->count == 1 && !p->user ? layout_parts_by_memory(p->layout) : NULL;
    if (!parts || parts->n < 2 || !rndv_send_slots(o, parts->n - 1)) return false;
    bool there = (site->as_before && is_described(o, parts->n)) || fill_each(o, parts, site);
    if (!there) return o->slot->next = 0, false;
    atomic_store_explicit(&o->slot->flags_unread, 0, memory_order_relaxed);
    atomic_store_explicit(&o->slot->ready, p->bytes, memory_order_relaxed);
    return true;
}

/* Packs the payload into device memory of stridec's own. Returns false without memory. */
static bool move(struct rndv_send *o)
{
    struct ipc_export e;
    struct typed_buffer *p = o->tbuf;
    if (device_enter(p->device)) return false;
    struct stream *s = stream_get(p->device);
    p->wire = mempool_get(p->device, BUFFER_DEVICE, (size_t)p->bytes);
    bool moved = s && p->wire && ipc_export_of(p->device, p->wire->address, p->bytes, &e) &&
                 !typed_buffer_move(p, s, KERNEL_PACK, p->wire->address, p->bytes);
    if (s && stream_wait(p->device, s)) moved = false;
    if (s) stream_put(p->device, s);
    if (!moved) mempool_put(p->wire), p->wire = NULL;
    device_leave(p->device);
    if (moved) rndv_send_describe(o, &e, p->wire->address, 0);
    return moved;
}

static struct rndv_send *begin(struct peer *peer, struct device *d)
{
    /* One device of a process does not read another's memory. */
    bool reads = peer->self ? !device_first()->next : ipc_export_probed(d, peer);
    return reads ? rndv_send_new_on(d) : NULL;
}

static bool post(struct rndv_send *o, struct rndv_send_site *site)
{
    struct device *d = o->tbuf->device;
    if (!progress_thread_start(rndv_send_serve)) return false;
    bool there = !site->moves && (fill(o, site) || fill_parts(o, site));
    if (!there) ipc_export_prepare(d);   /* what the peer can't open never asked for a probe */
    if (!there && !o->reserved && !ipc_export_readable(d, o->peer)) return false;
    /* From an allocation that the peer can't open. */
    if (!there && !site->moves && site->feeds) rndv_push_prepare(o, false);
    bool packs = !o->pushes && rndv_send_packs_first(o, (there || site->moves) && site->feeds);
    rndv_send_publish(o);
    return ((packs || !there) && rndv_send_move_away(o, false)) || there || o->pushes;
}

static int count(const struct peer *peer, MPI_Datatype *type)
{
    (void)peer;
    *type = MPI_BYTE;
    return (int)RTS_BYTES;
}

static void refused(const struct rndv_send *o)
{
    ipc_export_nack(o->slot->id, o->peer);
}

const struct rndv_domain rndv_domain_cuda = {begin, post, count, rndv_push_feed, move, refused, rndv_push_read, NULL};
