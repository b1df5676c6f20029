/* batch.c: packs or unpacks several typed buffers together. Those on one device whose transports are one kernel job
 * each become one list of typed copies (typed_copy.h): one launch for all, if the typed-copy kernel supports them. */
#include "base/freelist.h"
#include "typed_buffer.h"

static void add(struct batch *b, struct typed_buffer *p, enum kernel_direction direction, int64_t bytes)
{
    p->direction = direction;
    p->moved = bytes, p->started = typed_buffer_clock();
    p->next = NULL;
    if (!b->first) b->last = &b->first;
    *b->last = p;
    b->last = &p->next;
}

void batch_pack(struct batch *b, struct typed_buffer *p)
{
    add(b, p, KERNEL_PACK, p->bytes);
}

void batch_unpack(struct batch *b, struct typed_buffer *p, int64_t bytes)
{
    if (bytes) add(b, p, KERNEL_UNPACK, bytes);
}

static int wait_streams(struct batch *b)
{
    int rc = 0;
    for (int i = 0; i < b->devices; i++) {
        struct device *d = b->of[i].device;
        struct stream *s = b->of[i].stream;
        bool told = stream_spin_done(d, s);
        if (!told && device_enter(d)) {
            rc = -1;
            continue;
        }
        if (!told && stream_wait(d, s)) rc = -1;
        if (!told) device_leave(d);
        stream_put(d, s);
    }
    b->devices = 0;
    typed_copy_end(&b->links);
    return rc;
}

/* Returns the batch's stream on d. When all BATCH_DEVICES entries are in use, waits for the streams first. */
struct stream *batch_stream(struct batch *b, struct device *d)
{
    for (int i = 0; i < b->devices; i++)
        if (b->of[i].device == d) return b->of[i].stream;
    if (b->devices == BATCH_DEVICES && wait_streams(b)) return NULL;
    struct stream *s = stream_get(d);
    if (!s) return NULL;
    s->batched = true;
    b->of[b->devices].device = d, b->of[b->devices++].stream = s;
    return s;
}

/* Removes the buffers on d from the batch and returns them as a list. */
static struct typed_buffer *take(struct batch *b, const struct device *d)
{
    struct typed_buffer *taken = NULL, **end = &taken, **at = &b->first;
    while (*at) {
        struct typed_buffer *p = *at;
        if (p->device != d) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = NULL;
        *end = p;
        end = &p->next;
    }
    b->last = at;
    return taken;
}

static struct typed_copy_job job_of(const struct typed_buffer *p)
{
    struct typed_copy_side typed = typed_buffer_side(p->layout, (uint64_t)(uintptr_t)p->user, p->count),
                           packed = {.user = p->stage ? p->stage->address : p->wire->address};
    bool pack = p->direction == KERNEL_PACK;
    return (struct typed_copy_job){.from = pack ? typed : packed, .to = pack ? packed : typed, .bytes = p->moved};
}

static int copy(struct typed_buffer *p, struct stream *s, enum kernel_direction direction)
{
    bool wanted = p->transport->joins && p->transport->copy && p->direction == direction;
    return wanted ? p->transport->copy(p, s, direction, 0, p->moved) : 0;
}

/* Moves the n batchable buffers of the list by one list of typed copies. */
static int join(struct batch *b, struct device *d, struct stream *s, struct typed_buffer *list, int n)
{
    struct typed_copy_job *jobs = freelist_get(FREELIST_ARRAY, (size_t)n * sizeof *jobs);
    int rc = jobs ? 0 : -1, at = 0;
    for (struct typed_buffer *p = list; p && !rc; p = p->next) {
        rc = copy(p, s, KERNEL_UNPACK);
        if (p->transport->joins) jobs[at++] = job_of(p);
    }
    if (!rc) rc = typed_copy_move(&b->links, d, s, jobs, n, &list->launches);
    for (struct typed_buffer *p = list; p && !rc; p = p->next) rc = copy(p, s, KERNEL_PACK);
    freelist_put(FREELIST_ARRAY, jobs);
    return rc;
}

/* Enqueues the list on the entered device. The last job of the stream signals its end, if it can. */
static int run_on(struct batch *b, struct device *d, struct typed_buffer *list)
{
    struct stream *s = batch_stream(b, d);
    int joining = 0, rc = s ? 0 : -1;
    for (const struct typed_buffer *p = list; p; p = p->next) joining += p->transport->joins;
    for (struct typed_buffer *p = list; p && !rc; p = p->next) {
        if (joining > 1 && p->transport->joins) continue;
        s->batched = p->next || joining > 1;
        rc = p->transport->move(p, s, p->direction, 0, p->moved);
    }
    if (s) s->batched = false;
    return joining > 1 && !rc ? join(b, d, s, list, joining) : rc;
}

int batch_run(struct batch *b)
{
    int rc = 0;
    while (b->first) {
        struct device *d = b->first->device;
        struct typed_buffer *list = take(b, d);
        if (device_enter(d)) {
            rc = -1;
            continue;
        }
        if (run_on(b, d, list)) rc = -1;
        device_leave(d);
    }
    return rc;
}

int batch_wait(struct batch *b)
{
    int rc = batch_run(b);
    return wait_streams(b) || rc ? -1 : 0;
}
