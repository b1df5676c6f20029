/* locate.c: asks the driver about addresses as seldom as possible. A device pointer takes 0.06 us, an unknown host
 * pointer 0.8 (H200, driver 580). */
#include "locate.h"
#include <stdlib.h>

/* No driver puts device and host memory into one page. */
#define PAGE ((uint64_t)4096)

/* A shorter span that begins on the host, or a strided one on a device, is assumed to end there. GPU mappings of device
 * memory are 2 MiB or longer. */
#define NEAR ((uint64_t)2 << 20)

static struct device *device_at(uint64_t address)
{
    return device_of((const void *)(uintptr_t)address);
}

static struct device *at_around(uint64_t address, struct allocation *a)
{
    return device_locate((const void *)(uintptr_t)address, a);
}

static bool holds(const struct memory *m, uint64_t address)
{
    return address - m->start < m->bytes;
}

/* Finds the allocation around a device address, or the page around any other. */
static void locate_memory(struct memory *m, uint64_t address)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUdeviceptr start = 0;
    size_t size = 0;
    void *where[] = {&start, &size};
    struct allocation a;
    *m = (struct memory){at_around(address, &a), address - address % PAGE, PAGE};
    bool alone = a.span && !a.mapped;   /* mapped memory may continue in the next piece */
    if (alone) *m = (struct memory){m->device, a.start, a.span};
    if (!m->device || alone || driver_get()->cuPointerGetAttributes(2, what, where, address) != CUDA_SUCCESS) return;
    struct memory all = {m->device, start, size};
    if (holds(&all, address)) *m = all;
}

int64_t locate_run(struct memory *m, uint64_t address, int64_t len)
{
    if (!holds(m, address)) locate_memory(m, address);
    uint64_t here = m->start + m->bytes - address, last = address + (uint64_t)len - 1;
    if (here >= (uint64_t)len) return len;
    /* A run continues from one host page to the next. Pages are checked one by one only if the run ends elsewhere. */
    if (m->device || device_at(last)) return (int64_t)here;
    m->bytes = last - last % PAGE + PAGE - m->start;
    return len;
}

/* State of a walk over a message; the walk ends when it has found two memories. */
struct look {
    struct memory memory;
    struct location found;
    bool any;
};

/* Notes the memory found last. Returns true if it is the second one. */
static bool is_second(struct look *k)
{
    struct device *d = k->memory.device;
    if (!k->any) k->found.device = d, k->any = true;
    if (d == k->found.device) return false;
    k->found = (struct location){.device = k->found.device ? k->found.device : d, .parts = true};
    return true;
}

static bool look_run(struct look *k, uint64_t address, int64_t len)
{
    for (int64_t at = 0; at < len;) {
        at += locate_run(&k->memory, address + (uint64_t)at, len - at);
        if (is_second(k)) return true;
    }
    return false;
}

/* Looks at a tree as a whole if it lies in one allocation on a device. Else looks at its parts: in host memory nothing
 * tells what lies between two addresses. Returns true if it has found two memories. */
static bool look_tree(struct look *k, const struct tree *t, uint64_t base)
{
    bool second = false;
    if (!t->size) return false;
    if (t->kind == TREE_DENSE) return look_run(k, base + (uint64_t)t->off, t->count);
    locate_run(&k->memory, base + (uint64_t)t->low, 1);
    if (k->memory.device && holds(&k->memory, base + (uint64_t)t->high - 1)) return is_second(k);
    base += (uint64_t)t->off;
    for (int64_t i = 0; i < t->count && !second; i++)
        second = t->kind == TREE_SEQ      ? look_tree(k, t->part[i], base)
                 : t->kind == TREE_BLOCKS ? look_run(k, base + (uint64_t)t->block[i].off, t->block[i].len)
                 : t->kind == TREE_INDEX  ? look_tree(k, t->child, base + (uint64_t)t->at[i])
                                          : look_tree(k, t->child, base + (uint64_t)i * (uint64_t)t->step);
    return second;
}

struct location locate_tree(const struct tree *t, const void *buf, int64_t count, int64_t extent)
{
    struct look k = {0};
    uint64_t base = (uint64_t)(uintptr_t)buf, last = (uint64_t)(count - 1) * (uint64_t)extent;
    uint64_t first = base + (uint64_t)t->low + (extent < 0 ? last : 0);
    uint64_t past = base + (uint64_t)t->high + (extent > 0 ? last : 0);
    locate_run(&k.memory, first, 1);
    if (holds(&k.memory, past - 1)) return (struct location){.device = k.memory.device};
    bool second = false;
    for (int64_t i = 0; i < count && !second; i++) second = look_tree(&k, t, base + (uint64_t)i * (uint64_t)extent);
    return k.found;
}

/* The ranges of device memory that hold an element's bytes, one in each allocation: small allocations lie close to each
 * other. Each costs a question. */
#define HULLS 32
struct hulls {
    int n;   /* 0: too many, or some on the host; never published */
    int last;
    atomic_bool moved;   /* not all are in the allocations any more in which they were found, or these have no ids */
    struct hull {
        uint64_t low, past;
        struct memory in;   /* the allocation when the ranges were found */
        struct allocation alloc;   /* the same, if it has an id of its own; else all zeros */
    } of[HULLS];
};

static bool add_to(struct hull *h, uint64_t low, uint64_t past)
{
    if (!holds(&h->in, low) || !holds(&h->in, past - 1)) return false;
    if (low < h->low) h->low = low;
    if (past > h->past) h->past = past;
    return true;
}

static int add_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct hulls *s = arg;
    uint64_t low = (uint64_t)user, past = low + (uint64_t)len;
    (void)packed;
    for (int i = 0; i < s->n; i++)
        if (add_to(&s->of[(s->last + i) % s->n], low, past)) return s->last = (s->last + i) % s->n, 0;
    struct hull new = {low, past, {0}, {0}};
    locate_run(&new.in, low, 1);
    if (new.in.device && device_located((const void *)(uintptr_t)low, &new.alloc) && new.alloc.mapped)
        new.alloc = (struct allocation){0};
    if (s->n == HULLS || !new.in.device || !add_to(&new, low, past)) return s->n = 0, 1;
    s->last = s->n++;
    s->of[s->last] = new;
    return 0;
}

/* Returns the ranges of a layout, kept once they are found; NULL without memory or where there are none. */
static struct hulls *hulls_of(struct layout *l)
{
    struct hulls *s = atomic_load_explicit(&l->hulls, memory_order_acquire), *none = NULL;
    if (s || !layout_looks(&l->no_hulls) || !(s = calloc(1, sizeof *s))) return s;
    tree_walk(l->tree, 1, 0, 0, l->size, add_run, s);
    if (!s->n || !atomic_compare_exchange_strong(&l->hulls, &none, s)) free(s), s = none;
    return s;
}

/* Returns the device of all ranges if each lies in the allocation where it was found; else NULL. */
static struct device *device_before(const struct hulls *s)
{
    struct device *d = s->of[0].in.device;
    for (const struct hull *h = s->of; h < s->of + s->n; h++) {
        bool same = h->in.device == d && h->alloc.span;
        if (!same || !device_holds_still(&h->alloc, (const void *)(uintptr_t)h->low)) return NULL;
    }
    return d;
}

/* Returns the device of all ranges if each lies in one allocation; else NULL. Locates all: callers ask
 * device_located. */
static struct device *device_now(const struct hulls *s)
{
    struct memory m = {0};
    struct device *d = NULL;
    for (int i = 0; i < s->n; i++) {
        locate_run(&m, s->of[i].low, 1);
        if (!m.device || (d && m.device != d) || !holds(&m, s->of[i].past - 1)) return NULL;
        d = m.device;
    }
    return d;
}

/* Returns the device that holds an element at absolute addresses, in allocations that hold whole ranges, and sets
 * w->as_before and, if there is only one allocation, w->around; else NULL. */
static struct device *device_of_hulls(struct layout *l, struct location *w)
{
    struct hulls *s = hulls_of(l);
    if (!s) return NULL;
    bool moved = atomic_load_explicit(&s->moved, memory_order_relaxed);
    struct device *d = moved ? NULL : device_before(s);
    w->as_before = d != NULL;
    if (d && s->n == 1) w->around = s->of[0].alloc;
    if (d) return d;
    if (!moved) atomic_store_explicit(&s->moved, true, memory_order_relaxed);   /* it will never be as before */
    return device_now(s);
}

bool locate_before(const struct layout *l, uint64_t address, struct allocation *a)
{
    const struct hulls *s = atomic_load_explicit(&l->hulls, memory_order_acquire);
    for (int i = 0; s && i < s->n; i++)
        if (address - s->of[i].low < s->of[i].past - s->of[i].low) return *a = s->of[i].alloc, a->span != 0;
    return false;
}

/* Returns true if the last byte may be assumed to lie where the first does. */
static bool ends_together(const struct layout *l, const struct device *d, int64_t count, uint64_t span)
{
    if (layout_contiguous(l, count)) return true;
    return span < NEAR && (!d || (l->tree && tree_is_strided(l->tree)));
}

void locate_to(struct location *w, struct layout *l, const void *buf, int64_t count)
{
    int64_t first, past;
    uint64_t base = (uint64_t)(uintptr_t)buf;
    *w = (struct location){0};
    if (buf == MPI_BOTTOM && l->tree) {
        w->device = count == 1 ? device_of_hulls(l, w) : NULL;
        if (!w->device) *w = locate_tree(l->tree, buf, count, l->extent);
        return;
    }
    layout_span(l, count, &first, &past);
    w->device = at_around(base + (uint64_t)first, &w->around);
    if (base + (uint64_t)past - w->around.start <= w->around.span) return;
    w->around = (struct allocation){0};
    if (ends_together(l, w->device, count, (uint64_t)past - (uint64_t)first)) return;
    struct device *last = device_at(base + (uint64_t)past - 1);
    w->parts = w->device != last;
    if (!w->device) w->device = last;
}
