/* transport_mixed.c: buffers with parts in several memories: the host and a device, or two devices.
 *
 * The packed bytes lie in mapped host memory, as for one-shot. The runs of the message are listed in pack order. Host
 * runs are copied one by one. Consecutive device runs form ranges of the packed bytes, each one kernel job. Types with
 * fields (soa_fields.h) avoid many small ranges: each field is packed alone, and the host interleaves the records. Each
 * device has its own stream; pack and unpack wait for all of them. */
#include "base/log.h"
#include "soa_fields.h"
#include "typed_buffer.h"
#include <string.h>

struct parts {
    struct typed_buffer *buffer;
    enum kernel_direction direction;
    int64_t bytes;            /* packed bytes to move */
    struct batch streams;
    struct memory memory;     /* by ranges: memory of the current run */
    struct device *device;    /* of the current range; NULL: none */
    int64_t begin, end;
    struct fields fields;
    const struct field *field;   /* current field */
};

static bool acquire(struct typed_buffer *p)
{
    log_write(LOG_INFO, "%lld bytes of %.120s: parts, since they lie in several memories", (long long)p->bytes,
              p->layout->signature);
    return transport_oneshot.acquire(p);
}

/* Copies between host memory of the application and the packed bytes. */
static void copy_run(const struct parts *m, char *user, int64_t packed, int64_t len)
{
    char *wire = (char *)m->buffer->wire->host + packed;
    bool pack = m->direction == KERNEL_PACK;
    memcpy(pack ? wire : user, pack ? user : wire, (size_t)len);
}

/* ---- by ranges ---- */

static int move_range(struct parts *m)
{
    struct device *d = m->device;
    m->device = NULL;
    if (!d) return 0;
    if (device_enter(d)) return -1;
    struct stream *s = batch_stream(&m->streams, d);
    uint64_t packed = m->buffer->wire->address + (uint64_t)m->begin;
    int rc = s ? typed_buffer_move_range(m->buffer, d, s, m->direction, packed, m->begin, m->end) : -1;
    device_leave(d);
    return rc;
}

static int take_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct parts *m = arg;
    for (int64_t n; len > 0; user += n, packed += n, len -= n) {
        uint64_t at = (uint64_t)(uintptr_t)m->buffer->user + (uint64_t)user;
        n = locate_run(&m->memory, at, len);
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
    const struct layout *l = m->buffer->layout;
    int rc = tree_walk(l->tree, m->buffer->count, l->extent, 0, m->bytes, take_run, m);
    if (rc == 0) rc = move_range(m);
    return batch_wait(&m->streams) ? -1 : rc;
}

/* ---- by fields; the bytes of one on a device lie together in `stage` ---- */

/* Copies a host run of the current field; the run may extend over several records. */
static int take_host_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    const struct parts *m = arg;
    const struct field *f = m->field;
    for (int64_t n; len > 0; user += n, packed += n, len -= n) {
        int64_t in = packed % f->size;
        n = len < f->size - in ? len : f->size - in;
        uint64_t at = (uint64_t)(uintptr_t)m->buffer->user + (uint64_t)user;
        copy_run(m, (char *)(uintptr_t)at, packed / f->size * m->fields.record + f->at + in, n);
    }
    return 0;
}

/* Copies between the packed records and the bytes of one field in `stage`. */
static void weave_field(const struct parts *m, const struct field *f)
{
    char *own = (char *)m->buffer->stage->host + m->fields.records * f->at;
    char *wire = (char *)m->buffer->wire->host + f->at;
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
        .packed = m->buffer->stage->address + (uint64_t)(m->fields.records * f->at),
        .user = (uint64_t)(uintptr_t)m->buffer->user + (uint64_t)f->tree->off,
        .extent = m->buffer->layout->extent,
        .count = m->buffer->count,
        .begin = 0,
        .end = soa_fields_bytes(&m->fields, f, m->bytes),
    };
    if (device_enter(f->device)) return -1;
    struct stream *s = batch_stream(&m->streams, f->device);
    int rc = s ? kernel_move(k, f->device, s, &job, &launches, NULL) : -1;
    device_leave(f->device);
    m->buffer->launches += launches;
    return rc;
}

static int start_field(struct parts *m, struct kernel *kernels[], int i)
{
    const struct field *f = &m->fields.field[i];
    struct reason why;
    if (!f->device) return 0;
    if (m->direction == KERNEL_UNPACK) weave_field(m, f);
    kernels[i] = kernel_get(f->tree, &why);
    return kernels[i] ? move_field(m, kernels[i], f) : -1;
}

static void move_host_field(struct parts *m, const struct field *f)
{
    m->field = f;
    tree_walk(f->tree, m->buffer->count, m->buffer->layout->extent, 0, soa_fields_bytes(&m->fields, f, m->bytes),
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
        if (all->field[i].device && m->direction == KERNEL_PACK) weave_field(m, &all->field[i]);
        kernel_put(kernels[i]);
    }
    return rc;
}

static bool find_fields(struct parts *m)
{
    struct typed_buffer *p = m->buffer;
    if (!soa_fields_find(&m->fields, p->layout, p->user, p->count)) return false;
    if (!p->stage) p->stage = mempool_get(p->device, BUFFER_PINNED, (size_t)p->bytes);
    return p->stage != NULL;
}

static int move(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end)
{
    struct parts m = {.buffer = p, .direction = direction, .bytes = end};
    (void)s, (void)begin;
    int rc = find_fields(&m) ? by_fields(&m) : by_ranges(&m);
    soa_fields_free(&m.fields);
    return rc;
}

const struct transport transport_parts = {"parts", acquire, move, false, NULL};
