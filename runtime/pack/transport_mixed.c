/* transport_mixed.c: buffers whose parts lie in several memories: the host and a device, or two devices.
 *
 * The packed bytes are in mapped host memory, as one-shot's. The runs of the message are listed in pack order: those
 * on the host are copied one by one; those on a device are gathered into ranges of the packed stream, as long as
 * they can be, and each range is the part of a kernel's work that this device does. Many small ranges are avoided
 * where the type has fields (soa_fields.h): then each field is packed by itself, and the host weaves the records.
 * Each device has a stream of its own; all are waited for before pack and unpack return. */
#include "base/log.h"
#include "soa_fields.h"
#include "typed_buffer.h"
#include <string.h>

struct parts {
    struct typed_buffer *parcel;
    enum kernel_direction direction;
    int64_t bytes;            /* of the packed stream */
    struct batch streams;
    struct memory memory;     /* ranges: of the run in hand */
    struct device *device;    /* of the range in hand; NULL: there is none */
    int64_t begin, end;
    struct fields fields;
    const struct field *field;   /* in hand */
};

static bool acquire(struct typed_buffer *p)
{
    log_write(LOG_INFO, "%lld bytes of %.120s: parts, since they lie in several memories", (long long)p->bytes,
              p->layout->signature);
    return transport_oneshot.acquire(p);
}

/* Between the user's memory on the host and the packed bytes. */
static void copy_run(const struct parts *m, char *user, int64_t packed, int64_t len)
{
    char *wire = (char *)m->parcel->wire->host + packed;
    bool pack = m->direction == KERNEL_PACK;
    memcpy(pack ? wire : user, pack ? user : wire, (size_t)len);
}

/*
 * By ranges.
 */

static int move_range(struct parts *m)
{
    struct device *d = m->device;
    m->device = NULL;
    if (!d) return 0;
    if (device_enter(d)) return -1;
    struct stream *s = batch_stream(&m->streams, d);
    uint64_t packed = m->parcel->wire->address + (uint64_t)m->begin;
    int rc = s ? typed_buffer_move_range(m->parcel, d, s, m->direction, packed, m->begin, m->end) : -1;
    device_leave(d);
    return rc;
}

static int take_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct parts *m = arg;
    for (int64_t n; len > 0; user += n, packed += n, len -= n) {
        uint64_t at = (uint64_t)(uintptr_t)m->parcel->user + (uint64_t)user;
        n = memory_run(&m->memory, at, len);
        struct device *d = m->memory.device;
        if (d != m->device && move_range(m)) return -1;
        if (!d) copy_run(m, (char *)(uintptr_t)at, packed, n);
        if (d && !m->device) m->device = d, m->begin = packed;
        m->end = packed + n;
    }
    return 0;
}

static int by_ranges(struct parts *m)
{
    const struct layout *l = m->parcel->layout;
    int rc = tree_walk(l->tree, m->parcel->count, l->extent, 0, m->bytes, take_run, m);
    if (rc == 0) rc = move_range(m);
    return batch_wait(&m->streams) ? -1 : rc;
}

/*
 * By fields. Those on devices go by way of the stage, where each field's bytes lie together.
 */

/* A run of the field in hand, on the host: it may go on from one record into the next. */
static int take_host_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    const struct parts *m = arg;
    const struct field *f = m->field;
    for (int64_t n; len > 0; user += n, packed += n, len -= n) {
        int64_t in = packed % f->size;
        n = len < f->size - in ? len : f->size - in;
        uint64_t at = (uint64_t)(uintptr_t)m->parcel->user + (uint64_t)user;
        copy_run(m, (char *)(uintptr_t)at, packed / f->size * m->fields.record + f->at + in, n);
    }
    return 0;
}

/* Between the records of the packed bytes and the field's own bytes. */
static void weave(const struct parts *m, const struct field *f)
{
    char *own = (char *)m->parcel->stage->host + m->fields.records * f->at;
    char *wire = (char *)m->parcel->wire->host + f->at;
    int64_t left = soa_fields_bytes(&m->fields, f, m->bytes);
    for (int64_t n; left > 0; own += n, wire += m->fields.record, left -= n) {
        n = left < f->size ? left : f->size;
        memcpy(m->direction == KERNEL_PACK ? wire : own, m->direction == KERNEL_PACK ? own : wire, (size_t)n);
    }
}

static int move_field(struct parts *m, struct kernel *k, const struct field *f)
{
    int launches = 0;
    struct kernel_job job = {
        .direction = m->direction,
        .packed = m->parcel->stage->address + (uint64_t)(m->fields.records * f->at),
        .user = (uint64_t)(uintptr_t)m->parcel->user + (uint64_t)f->tree->off,
        .extent = m->parcel->layout->extent,
        .count = m->parcel->count,
        .begin = 0,
        .end = soa_fields_bytes(&m->fields, f, m->bytes),
    };
    if (device_enter(f->device)) return -1;
    struct stream *s = batch_stream(&m->streams, f->device);
    int rc = s ? kernel_move(k, f->device, s, &job, &launches, NULL) : -1;
    device_leave(f->device);
    m->parcel->launches += launches;
    return rc;
}

static int start_field(struct parts *m, struct kernel *kernels[], int i)
{
    const struct field *f = &m->fields.field[i];
    struct reason why;
    if (!f->device) return 0;
    if (m->direction == KERNEL_UNPACK) weave(m, f);
    kernels[i] = kernel_get(f->tree, &why);
    return kernels[i] ? move_field(m, kernels[i], f) : -1;
}

static void move_host_field(struct parts *m, const struct field *f)
{
    m->field = f;
    tree_walk(f->tree, m->parcel->count, m->parcel->layout->extent, 0, soa_fields_bytes(&m->fields, f, m->bytes),
              take_host_run, m);
}

static int by_fields(struct parts *m)
{
    struct kernel *kernels[FIELDS_MAX] = {NULL};
    const struct fields *all = &m->fields;
    int rc = 0;
    for (int i = 0; i < all->count && rc == 0; i++) rc = start_field(m, kernels, i);
    for (int i = 0; i < all->count; i++)
        if (!all->field[i].device) move_host_field(m, &all->field[i]);
    if (batch_wait(&m->streams)) rc = -1;
    for (int i = 0; i < all->count; i++) {
        if (all->field[i].device && m->direction == KERNEL_PACK) weave(m, &all->field[i]);
        kernel_put(kernels[i]);
    }
    return rc;
}

static bool find_fields(struct parts *m)
{
    struct typed_buffer *p = m->parcel;
    if (!soa_fields_find(&m->fields, p->layout, p->user, p->count)) return false;
    if (!p->stage) p->stage = mempool_get(p->device, BUFFER_PINNED, (size_t)p->bytes);
    return p->stage != NULL;
}

static int move(struct typed_buffer *p, enum kernel_direction direction, int64_t bytes)
{
    struct parts m = {.parcel = p, .direction = direction, .bytes = bytes};
    int rc = find_fields(&m) ? by_fields(&m) : by_ranges(&m);
    soa_fields_free(&m.fields);
    return rc;
}

static int pack(struct typed_buffer *p, struct stream *s)
{
    (void)s;
    return move(p, KERNEL_PACK, p->bytes);
}

static int unpack(struct typed_buffer *p, struct stream *s, int64_t bytes)
{
    (void)s;
    return move(p, KERNEL_UNPACK, bytes);
}

const struct transport transport_parts = {"parts", acquire, pack, unpack, false, NULL, NULL, NULL};
