/* channel_bind.c: what bound partners tell each other in a sender's slots: where the data are, and the flags. */
#include "base/log.h"
#include "channel_internal.h"
#include "datatype/layout_parts.h"
#include "device/device_internal.h"
#include "job_sides.h"
#include "rndv_internal.h"
#include <stdlib.h>

struct slot *channel_last_slot(struct node_file *f, uint32_t first, int *parts)
{
    struct slot *s = first < SLOTS ? &f->slot[first] : NULL;
    for (*parts = 0; s && s->next; ++*parts)
        s = *parts < LAYOUT_PARTS && s->next <= SLOTS ? &f->slot[s->next - 1] : NULL;
    return *parts ? s : NULL;
}

/* Returns the data as a side of a typed copy. */
static struct typed_copy_side side_of(const struct channel *c)
{
    return typed_buffer_side(c->layout, (uint64_t)(uintptr_t)c->call.buf, c->call.count);
}

/* Has the data go through packed bytes of the device, which is entered. Returns false without memory. */
static bool go_by_wire(struct channel *c, int64_t bytes)
{
    struct typed_copy_side data = side_of(c), packed = {0};
    if (!(c->wire = mempool_get(c->device, BUFFER_LASTING, (size_t)bytes))) return false;
    packed.user = c->wire->address;
    c->repack = (struct typed_copy_job){.from = c->call.sends ? data : packed, .to = c->call.sends ? packed : data};
    c->repack.bytes = bytes;
    typed_copy_wait(c->device, &c->repack, 1);
    if (c->layout->kernel) kernel_wait_for(c->layout->kernel, bytes);   /* a graph keeps what moves it first */
    return true;
}

/* ---- the sender ---- */

/* Describes elements at `user` in a slot. Returns NULL, or why it can't. */
static const char *describe_data(struct channel *c, struct slot *s, struct layout *l, uint64_t user, int64_t count)
{
    struct ipc_export data;
    uint64_t layout = 0;
    int64_t first, past;
    layout_span(l, count, &first, &past);
    if (!ipc_export_of(c->device, user + (uint64_t)first, past - first, &data)) return "memory that CUDA can't share";
    if (!layout_contiguous(l, count) && !(layout = ipc_export_layout(l))) return "too long a type";
    ipc_export_accepted(&data, c->peer);   /* gives it the handles of mapped memory */
    rndv_describe(s, c->device, &data, user + (uint64_t)l->tree->off, layout);
    s->bytes = layout_bytes(l, count), s->count = count, s->extent = l->extent;
    return NULL;
}

/* Returns the parts of data in several allocations; NULL if they are in one, or can't be told apart. */
static const struct layout_parts *parts_of(const struct channel *c)
{
    struct ipc_export whole;
    int64_t first, past;
    if (c->call.buf != MPI_BOTTOM || c->call.count != 1) return NULL;
    layout_span(c->layout, 1, &first, &past);
    if (ipc_export_of(c->device, (uint64_t)first, past - first, &whole)) return NULL;
    return layout_parts_by_memory(c->layout);
}

/* Describes the data where they lie; a slot for each part, if there are some. Returns NULL, or why it can't. */
static const char *describe_in_place(struct channel *c, const struct layout_parts *parts)
{
    struct slot *s = c->slots->slot;
    const char *why = NULL;
    if (!parts) return describe_data(c, s, c->layout, (uint64_t)(uintptr_t)c->call.buf, c->call.count);
    for (int i = 0; i < parts->n && !why; i++, s = rndv_send_next_slot(s))
        why = describe_data(c, s, parts->part[i], 0, 1);
    return why;
}

/* Describes packed bytes instead, in one slot, and packs the first message. Returns NULL, or why it can't. */
static const char *describe_packed(struct channel *c)
{
    struct ipc_export e;
    struct slot *s = c->slots->slot;
    if (device_enter(c->device)) return "the device can't be used";
    bool packed = go_by_wire(c, c->bytes) && ipc_export_of(c->device, c->wire->address, c->bytes, &e) &&
                  !channel_pack_first(c);
    device_leave(c->device);
    if (!packed) return "the data can't be packed";
    rndv_describe(s, c->device, &e, c->wire->address, 0);
    s->bytes = c->bytes;
    s->next = (uint16_t)(c->flag_slot - node_own()->slot + 1);   /* the others are given back with it (o->more) */
    return NULL;
}

const char *channel_describe(struct channel *c)
{
    struct ipc_export flag;
    struct rndv_send *o = c->slots = rndv_send_new();
    const struct layout_parts *parts = parts_of(c);
    int n;
    if (!o || !rndv_send_slot(o) || !rndv_send_slots(o, parts ? parts->n : 1)) return "no slot is free";
    if (!(c->own = channel_flag_get(c->device)) || !ipc_export_of(c->device, c->own, sizeof(uint32_t), &flag))
        return "out of memory";
    c->flag_slot = channel_last_slot(node_own(), (uint32_t)(o->slot - node_own()->slot), &n);
    const char *why = describe_in_place(c, parts);
    if (why) log_write(LOG_INFO, "a request in stream order is packed first: %s", why);
    if (why && (why = describe_packed(c))) return c->flag_slot = NULL, why;
    rndv_describe(c->flag_slot, c->device, &flag, c->own, 0);
    atomic_store_explicit(&c->flag_slot->turn, HANDSHAKE_NONE, memory_order_release);
    return NULL;
}

/* ---- the receiver ---- */

/* Opens a part of what the sender describes. Returns NULL, or why it can't. */
static const char *accept_part(struct channel *c, const struct slot *data, struct channel_part *p,
                               struct typed_copy_job *j)
{
    if (c->peer->self && device_of((const void *)(uintptr_t)data->start) != c->device)
        return "from one device of this rank to another";
    if (!job_side_from(c->peer, data, &p->theirs, &j->from)) return "the sender's type can't be read";
    p->data = ipc_cache_open(c->peer, data, c->device, &j->from.user);
    if (!p->data) return "the sender's memory can't be opened";
    j->bytes = data->bytes, j->across = ipc_cache_other_gpu(p->data);
    return NULL;
}

/* Makes the jobs of what the sender describes. Returns NULL, or why it can't. */
static const char *accept_parts(struct channel *c)
{
    const struct slot *s = &c->peer->file->slot[c->greeting.slot];
    const char *why = NULL;
    int64_t bytes = 0;
    c->part = calloc((size_t)c->parts, sizeof *c->part), c->job = calloc((size_t)c->parts, sizeof *c->job);
    if (!c->part || !c->job) return "out of memory";
    for (int i = 0; i < c->parts && !why; i++, s = &c->peer->file->slot[s->next - 1])
        why = accept_part(c, s, &c->part[i], &c->job[i]), bytes += c->job[i].bytes;
    if (why) return why;
    if (bytes > c->bytes) return "the message is longer than the receive";
    struct typed_copy_side to = side_of(c);
    c->bytes = bytes;
    if (job_sides_cut(&to, c->layout, c->call.buf, c->job, c->parts)) return NULL;
    if (!go_by_wire(c, bytes)) return "out of memory";
    job_sides_cut(&c->repack.from, NULL, NULL, c->job, c->parts);
    return NULL;
}

const char *channel_accept(struct channel *c)
{
    struct ipc_export own;
    if (!(c->own = channel_flag_get(c->device)) || !ipc_export_of(c->device, c->own, sizeof(uint32_t), &own))
        return "out of memory";
    const char *why = accept_parts(c);
    if (why) return why;
    if (!(c->flag = ipc_cache_open(c->peer, c->flag_slot, c->device, &c->other)))
        return "the sender's memory can't be opened";
    typed_copy_wait(c->device, c->job, c->parts);
    for (int i = 0; i < c->parts; i++) c->part[i].pair = typed_copy_hold(&c->job[i]);
    c->flag_slot->id = 0;   /* the handle there is the sender's */
    rndv_describe(c->flag_slot, c->device, &own, c->own, 0);
    return NULL;
}

void channel_parts_end(struct channel *c)
{
    for (struct channel_part *p = c->part; p && p < c->part + c->parts; p++)
        kernel_put(p->pair), ipc_cache_put(p->data), ipc_cache_layout_put(&p->theirs);
    free(c->part), free(c->job);
    mempool_put(c->wire);
}
