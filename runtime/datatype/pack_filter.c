/* pack_filter.c: the table of types for MPI_Pack and MPI_Unpack in host memory. See host_pack.h. */
#include "pack_filter.h"
#include "base/env.h"
#include "tune/active.h"
#include "tune/table.h"
#include <pthread.h>

/* A type is read after this worth of calls: 16 of 4 KiB. It doubles when types are freed before reading them paid. */
#define NEEDED_MIN ((uint64_t)16 * PACK_FILTER_WORTH)
#define NEEDED_MAX (NEEDED_MIN << 16)
/* worth of calls that pays for reading a layout */
#define PAID ((uint64_t)32 * PACK_FILTER_WORTH)

struct pack_filter_slot pack_filter_slots[1 << PACK_FILTER_BITS][2];
_Atomic(MPI_Datatype) pack_filter_recent[1 << PACK_FILTER_BITS][2];
_Atomic int64_t pack_filter_least = INT64_MAX;
_Atomic uint64_t pack_filter_needed = NEEDED_MIN;

static pthread_mutex_t slot_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the layout that a slot holds for t; NULL if another type takes the slot meanwhile. */
static struct layout *slot_layout(const struct pack_filter_slot *s, MPI_Datatype t)
{
    unsigned version = atomic_load_explicit(&s->version, memory_order_acquire);
    struct layout *l = atomic_load_explicit(&s->layout, memory_order_acquire);
    bool same = atomic_load_explicit(&s->type, memory_order_acquire) == t;
    atomic_thread_fence(memory_order_acquire);
    return same && !(version & 1) && version == atomic_load_explicit(&s->version, memory_order_relaxed) ? l : NULL;
}

static struct pack_filter_slot *slot_of(MPI_Datatype t)
{
    struct pack_filter_slot *s = pack_filter_set(t);
    for (int i = 0; i < 2; i++)
        if (atomic_load_explicit(&s[i].type, memory_order_relaxed) == t) return &s[i];
    return NULL;
}

/* Fills a slot. Caller holds slot_lock. Readers compare the version before and after. */
static void slot_set(struct pack_filter_slot *s, MPI_Datatype t, const struct pack_filter_slot *from)
{
    static const struct pack_filter_slot none;
    const struct pack_filter_slot *f = from ? from : &none;
#define SET(field, value) atomic_store_explicit(&s->field, value, memory_order_relaxed)
#define COPY(field) SET(field, atomic_load_explicit(&f->field, memory_order_relaxed))
    unsigned version = atomic_load_explicit(&s->version, memory_order_relaxed);
    SET(version, version + 1);
    atomic_thread_fence(memory_order_release);
    SET(type, t);
    COPY(worth), COPY(size), COPY(layout), COPY(low), COPY(span), COPY(extent), COPY(least[0]), COPY(least[1]);
    atomic_store_explicit(&s->version, version + 2, memory_order_release);
#undef COPY
#undef SET
}

static int64_t least_count(int64_t size)
{
    int64_t bytes = atomic_load_explicit(&pack_filter_least, memory_order_relaxed);
    return size <= 0 ? INT64_MAX : bytes / size + (bytes % size != 0);
}

static void describe(MPI_Datatype t, struct pack_filter_slot *s)
{
    MPI_Count size = 0, low = 0, span = 0, lb, extent = 0;
    if (PMPI_Type_size_x(t, &size) != MPI_SUCCESS) size = 0;
    PMPI_Type_get_true_extent_x(t, &low, &span);
    PMPI_Type_get_extent_x(t, &lb, &extent);
    *s = (struct pack_filter_slot){.size = size, .low = low, .span = span, .extent = extent};
    for (int d = 0; d < 2; d++) atomic_init(&s->least[d], least_count(size));
}

/* Adds t to its set of two slots; evicts the older one. */
static struct pack_filter_slot *slot_new(MPI_Datatype t)
{
    struct pack_filter_slot fresh;
    describe(t, &fresh);
    pthread_mutex_lock(&slot_lock);
    struct pack_filter_slot *s = slot_of(t);
    if (!s) {
        s = pack_filter_set(t);
        if (atomic_load(&s[0].type)) slot_set(&s[1], atomic_load(&s[0].type), &s[0]);
        slot_set(&s[0], t, &fresh);
    }
    pthread_mutex_unlock(&slot_lock);
    return s;
}

/* 0 is no type: an erroneous application may free it, and empty slots hold it. */
void pack_filter_forget(MPI_Datatype t)
{
    if (t == (MPI_Datatype)0) return;
    pack_filter_unrecent(t);
    if (!slot_of(t)) return;
    pthread_mutex_lock(&slot_lock);
    for (struct pack_filter_slot *s; (s = slot_of(t));) slot_set(s, (MPI_Datatype)0, NULL);
    pthread_mutex_unlock(&slot_lock);
}

void pack_filter_raise(MPI_Datatype t, enum kernel_direction d, int64_t least)
{
    pthread_mutex_lock(&slot_lock);
    struct pack_filter_slot *s = slot_of(t);
    if (s && atomic_load(&s->least[d]) < least) atomic_store(&s->least[d], least);
    pthread_mutex_unlock(&slot_lock);
}

static void slot_keep(MPI_Datatype t, struct layout *l)
{
    known_layouts_learn(l);
    pthread_mutex_lock(&slot_lock);
    struct pack_filter_slot *s = slot_of(t);
    if (s) atomic_store_explicit(&s->layout, l, memory_order_release);
    pthread_mutex_unlock(&slot_lock);
    for (int d = 0; d < 2 && (!l->kernel || layout_contiguous(l, 2)); d++)
        pack_filter_raise(t, (enum kernel_direction)d, INT64_MAX);
}

static struct layout *slot_read(MPI_Datatype t)
{
    struct layout *l = layout_of(t);
    if (!l) return NULL;
    l->host_read = true;
    slot_keep(t, l);
    return l;
}

/* Returns true if a layout that was read for another reason has been used before. */
static bool known_reused(const struct layout *l, int64_t bytes)
{
    if (bytes < KNOWN_LAYOUTS_LEAST) return false;
    if (known_layouts_returns(l)) return true;
    kernel_use(l->kernel, 1);
    return false;
}

bool pack_filter_admit(MPI_Datatype t, struct layout *l, int64_t bytes)
{
    int64_t least = atomic_load_explicit(&pack_filter_least, memory_order_relaxed);
    struct pack_filter_slot *s = least == INT64_MAX ? NULL : slot_of(t);
    if (!s && least < INT64_MAX) s = slot_new(t);
    if (bytes < least) return false;
    if (slot_layout(s, t) == l) return true;
    bool apart = l->kernel && !layout_contiguous(l, 2);
    if (apart && !pack_filter_due(s, (uint64_t)bytes) && !known_reused(l, bytes)) return false;
    slot_keep(t, l);
    return true;
}

void pack_filter_learn(MPI_Datatype t)
{
    if (atomic_load_explicit(&pack_filter_least, memory_order_relaxed) == INT64_MAX) return;
    if (!slot_of(t)) slot_new(t);
    slot_read(t);
}

/* Returns the layout of a handle that the table did not hold, if that layout is known. */
static struct layout *slot_again(MPI_Datatype t, const struct pack_filter_slot *s, int64_t count)
{
    int64_t bytes, size = atomic_load_explicit(&s->size, memory_order_relaxed);
    return __builtin_mul_overflow(size, count, &bytes) ? NULL : known_layouts_layout(t, bytes, NULL);
}

struct layout *pack_filter_layout(enum kernel_direction d, MPI_Datatype t, int64_t count)
{
    if (t == MPI_DATATYPE_NULL || atomic_load_explicit(&pack_filter_least, memory_order_relaxed) == INT64_MAX)
        return NULL;
    struct pack_filter_slot *s = slot_of(t);
    if (!s) {
        s = slot_new(t);
        struct layout *again = slot_again(t, s, count);
        if (again) return slot_keep(t, again), again;
    }
    struct layout *l = slot_layout(s, t);
    if (l) return l;
    if (count < atomic_load_explicit(&s->least[d], memory_order_relaxed)) return NULL;
    /* pack_filter_judge has counted the call, except for types that were not in the table. */
    uint64_t worth = atomic_load_explicit(&s->worth, memory_order_relaxed);
    return worth >= atomic_load_explicit(&pack_filter_needed, memory_order_relaxed) ? slot_read(t) : NULL;
}

/* Doubles the needed worth if a type is freed before it has paid. */
void pack_filter_layout_end(const struct layout *l)
{
    uint64_t needed = atomic_load(&pack_filter_needed);
    if (env_get()->host == ENV_HOST_ON) return;
    /* For calls served without checking their bytes one element is counted. */
    if (atomic_load(&l->host_worth) + atomic_load(&l->host_served) * pack_filter_worth((uint64_t)l->size) >= PAID)
        atomic_store(&pack_filter_needed, NEEDED_MIN);
    else if (needed < NEEDED_MAX) atomic_store(&pack_filter_needed, needed * 2);
}

void pack_filter_start(void)
{
    const struct tune_table *t = table_active(NULL);
    int64_t least = t ? t->host_least : INT64_MAX;
    enum env_host host = env_get()->host;
    atomic_store(&pack_filter_needed, host == ENV_HOST_ON ? 0 : NEEDED_MIN);
    atomic_store(&pack_filter_least, host == ENV_HOST_OFF ? INT64_MAX : host == ENV_HOST_ON ? 1 : least);
}

void pack_filter_finish(void)
{
    atomic_store(&pack_filter_least, INT64_MAX);
}
