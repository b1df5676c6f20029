/* native.c: packing in host memory: who does it, and how. See native.h. */
#include "native.h"
#include "choose.h"
#include "env.h"
#include "log.h"
#include "native_inner.h"
#include "tune_table.h"
#include "../gen/pack.h"
#include <stdlib.h>

/* Calls with a handle, before its type is read: reading takes as long as some of them. More where types go before they
 * have been worth it. */
#define USES_MIN 16
#define USES_MAX (1 << 20)
/* Calls that pay for reading a layout. */
#define PAID 32

struct native_slot native_slots[1 << NATIVE_BITS][2];
_Atomic int64_t native_least = INT64_MAX;
static atomic_uint uses_needed = USES_MIN;

/* The first call of either way meets cold code and is not counted. */
#define TURNS 5
#define CLASS_LEAST 8    /* log2 of bytes */
#define CLASSES 32

/* What a call that is ours costs beside the moving. */
#define TAX_NS 30

enum verdict { RACING, OURS, THEIRS };
struct native_race {
    atomic_int verdict;
    atomic_bool compiled;    /* it is run with compiled code */
    int turns[2];            /* of the MPI, of ours; these two under race_lock */
    int64_t best[2];         /* nanoseconds */
};
static pthread_mutex_t race_lock = PTHREAD_MUTEX_INITIALIZER;

/* What hangs on a kernel. */
struct native {
    _Atomic(struct stridec_host_list *) lists;
    struct native_race race[2][CLASSES];
};

void native_free(struct native *n)
{
    if (n) free(atomic_load(&n->lists));
    free(n);
}

static struct native *native_of(struct kernel *k)
{
    struct native *n = atomic_load_explicit(&k->native, memory_order_acquire), *none = NULL;
    if (n) return n;
    n = calloc(1, sizeof *n);
    if (n && !atomic_compare_exchange_strong(&k->native, &none, n)) {
        free(n);
        n = none;
    }
    return n;
}

/*
 * Moving.
 */

/* The lists that k's code reads; NULL without memory. */
static const struct stridec_host_list *lists_of(struct kernel *k)
{
    struct native *n = native_of(k);
    struct stridec_host_list *l = n ? atomic_load_explicit(&n->lists, memory_order_acquire) : NULL, *none = NULL;
    struct reason why;
    if (l || !n) return l;
    l = form_host_lists(k->form, &why);
    if (l && !atomic_compare_exchange_strong(&n->lists, &none, l)) {
        free(l);
        l = none;
    }
    return l;
}

/* k's code, if that is ready; asks for it where nobody has. A single block needs none. */
static struct module *code_of(struct kernel *k)
{
    if (k->family == GEN_CONTIGUOUS || k->family == GEN_GENERIC) return NULL;
    struct module *m = module_of(kernel_code(k), NULL);
    return m && module_request(m) == STAGE_READY ? m : NULL;
}

static bool code_pending(struct kernel *k)
{
    struct module *m = k->family == GEN_CONTIGUOUS || k->family == GEN_GENERIC ? NULL : module_of(kernel_code(k), NULL);
    return m && module_stage(m) == STAGE_PENDING;
}

static bool by_code(struct layout *l, enum kernel_direction direction, struct stridec_host *a)
{
    struct kernel *k = l->kernel;
    struct module *m = code_of(k);
    if (!m || (form_has_lists(k->form) && !(a->list = lists_of(k)))) return false;
    a->user += (uint64_t)l->tree->off;
    a->wrap = a->end > k->size && !launch_continues(k->tree, l->extent);
    m->host[direction](a);
    return true;
}

static bool move(struct layout *l, enum kernel_direction direction, const void *user, void *packed, int64_t begin,
                 int64_t end)
{
    if (!l->tree || env_get()->host == ENV_HOST_OFF) return false;
    if (!l->kernel || begin >= end) return true;
    uintptr_t at = (uintptr_t)user;
    struct stridec_host a = {.packed = packed, .user = at, .extent = l->extent, .begin = begin, .end = end};
    if (by_code(l, direction, &a)) return true;
    if (direction == KERNEL_PACK) tree_pack(l->tree, packed, at, l->extent, begin, end);
    else tree_unpack(l->tree, packed, at, l->extent, begin, end);
    return true;
}

bool native_pack(struct layout *l, int64_t count, const void *user, void *packed, int64_t begin, int64_t end)
{
    (void)count;
    return move(l, KERNEL_PACK, user, packed, begin, end);
}

bool native_unpack(struct layout *l, int64_t count, void *user, const void *packed, int64_t begin, int64_t end)
{
    (void)count;
    return move(l, KERNEL_UNPACK, user, (void *)(uintptr_t)packed, begin, end);
}

int native_ready(struct layout *l, bool wait)
{
    if (!l->kernel || code_of(l->kernel)) return l->kernel ? 1 : -1;
    if (wait) kernel_wait(l->kernel);
    if (code_of(l->kernel)) return 1;
    return !wait && code_pending(l->kernel) ? 0 : -1;
}

/*
 * Turns.
 */

static struct native_race *race_of(struct kernel *k, enum kernel_direction direction, int64_t bytes)
{
    struct native *n = native_of(k);
    int class = 63 - __builtin_clzll((uint64_t)bytes | 1) - CLASS_LEAST;
    if (class < 0) class = 0;
    if (class >= CLASSES) class = CLASSES - 1;
    return n ? &n->race[direction][class] : NULL;
}

/* What was found out with the walk counts until there is code. */
static enum verdict verdict_of(struct native_race *r, struct kernel *k)
{
    enum verdict v = (enum verdict)atomic_load_explicit(&r->verdict, memory_order_acquire);
    if (v == RACING || atomic_load_explicit(&r->compiled, memory_order_relaxed) || !code_of(k)) return v;
    pthread_mutex_lock(&race_lock);
    if (!atomic_exchange(&r->compiled, true)) {
        r->turns[0] = r->turns[1] = 0;
        atomic_store(&r->verdict, RACING);
    }
    pthread_mutex_unlock(&race_lock);
    return (enum verdict)atomic_load(&r->verdict);
}

static void slot_raise(MPI_Datatype t, enum kernel_direction d, int64_t least);

/* The MPI's way stays where nothing better is to come. */
static bool settled(struct kernel *k, struct native_race *r)
{
    return atomic_load_explicit(&r->compiled, memory_order_relaxed) || !code_pending(k);
}

/* False: another thread is at it, and the MPI serves meanwhile. */
static bool take_turn(struct native_call *c, struct native_race *r)
{
    if (pthread_mutex_trylock(&race_lock)) return false;
    if (!r->turns[0] && !r->turns[1]) atomic_store(&r->compiled, code_of(c->layout->kernel) != NULL);
    c->ours = r->turns[1] < r->turns[0];
    pthread_mutex_unlock(&race_lock);
    c->race = r;
    return true;
}

static void turn_taken(struct native_call *c, int64_t took)
{
    struct native_race *r = c->race;
    pthread_mutex_lock(&race_lock);
    int way = c->ours;
    if (r->turns[way]++ == 0 || r->best[way] > took || r->turns[way] == 2) r->best[way] = took;
    if (r->turns[0] >= TURNS && r->turns[1] >= TURNS && atomic_load(&r->verdict) == RACING) {
        bool ours = r->best[1] + TAX_NS <= r->best[0];
        log_write(LOG_INFO, "%lld bytes of %.120s in host memory: %s (%.2f us, the MPI %.2f)", (long long)c->bytes,
                  c->layout->signature, ours ? "stridec packs" : "the MPI packs", (double)r->best[1] / 1e3,
                  (double)r->best[0] / 1e3);
        atomic_store_explicit(&r->verdict, ours ? OURS : THEIRS, memory_order_release);
    }
    pthread_mutex_unlock(&race_lock);
}

static bool usable(const struct layout *l, int64_t count, int64_t bytes)
{
    return bytes >= atomic_load_explicit(&native_least, memory_order_relaxed) && l->kernel
           && !layout_contiguous(l, count);
}

bool native_wins(struct layout *l, enum kernel_direction direction, int64_t count, int64_t bytes)
{
    if (!usable(l, count, bytes)) return false;
    if (env_get()->host == ENV_HOST_ON) return true;
    struct native_race *r = race_of(l->kernel, direction, bytes);
    return r && atomic_load_explicit(&r->verdict, memory_order_relaxed) == OURS;
}

/* Counts that may miss one. */
static void count_one(atomic_uint *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
}

bool native_begin(struct native_call *c, struct layout *l, enum kernel_direction direction, MPI_Datatype type,
                  int64_t count, int64_t bytes)
{
    *c = (struct native_call){.layout = l, .bytes = bytes, .type = type, .count = count, .direction = direction};
    if (!usable(l, count, bytes) || !atomic_load_explicit(&l->committed, memory_order_relaxed)) return false;
    count_one(&l->host_calls);
    if (env_get()->host == ENV_HOST_ON) {
        c->ours = true;
    } else {
        struct native_race *r = race_of(l->kernel, direction, bytes);
        enum verdict v = r ? verdict_of(r, l->kernel) : THEIRS;
        c->ours = v == OURS;
        if (v == RACING) take_turn(c, r);
        if (v == THEIRS && r && settled(l->kernel, r) && count < INT64_MAX) slot_raise(type, direction, count + 1);
    }
    if (c->ours) count_one(&l->host_served);
    if (c->race || env_get()->stats) c->start = stats_now();
    return c->ours;
}

void native_end(struct native_call *c, int rc)
{
    if (rc == MPI_SUCCESS && c->bytes > 0 && !atomic_load_explicit(&c->layout->committed, memory_order_relaxed))
        atomic_store_explicit(&c->layout->committed, true, memory_order_relaxed);
    if (!c->start || rc != MPI_SUCCESS) return;
    int64_t took = stats_now() - c->start;
    if (c->race) turn_taken(c, took);
    if (c->ours && env_get()->stats)
        stats_add(c->layout->stats,
                  &(struct stats_sample){.bytes = c->bytes, .nanoseconds = took, .transport = "host"});
}

/*
 * What is known of handles.
 */

static pthread_mutex_t slot_lock = PTHREAD_MUTEX_INITIALIZER;

static struct native_slot *slot_of(MPI_Datatype t)
{
    struct native_slot *s = native_set(t);
    for (int i = 0; i < 2; i++)
        if (atomic_load_explicit(&s[i].type, memory_order_relaxed) == t) return &s[i];
    return NULL;
}

/* The layout that a slot holds for t: none of another type that takes the slot meanwhile. */
static struct layout *slot_layout(struct native_slot *s, MPI_Datatype t)
{
    unsigned version = atomic_load_explicit(&s->version, memory_order_acquire);
    struct layout *l = atomic_load_explicit(&s->layout, memory_order_acquire);
    bool same = atomic_load_explicit(&s->type, memory_order_acquire) == t;
    atomic_thread_fence(memory_order_acquire);
    return same && !(version & 1) && version == atomic_load_explicit(&s->version, memory_order_relaxed) ? l : NULL;
}

static void slot_set(struct native_slot *s, MPI_Datatype t, const struct native_slot *from)
{
    atomic_fetch_add(&s->version, 1);
    atomic_store(&s->type, t);
    atomic_store(&s->uses, from ? atomic_load(&from->uses) : 0);
    atomic_store(&s->layout, from ? atomic_load(&from->layout) : NULL);
    for (int d = 0; d < 2; d++) atomic_store(&s->least[d], from ? atomic_load(&from->least[d]) : 0);
    atomic_fetch_add(&s->version, 1);
}

static int64_t least_count(MPI_Datatype t)
{
    int64_t bytes = atomic_load_explicit(&native_least, memory_order_relaxed);
    MPI_Count size = 0;
    if (PMPI_Type_size_x(t, &size) != MPI_SUCCESS || size <= 0) return INT64_MAX;
    return bytes / size + (bytes % size != 0);
}

/* In the place of the one of two that was there first. */
static struct native_slot *slot_new(MPI_Datatype t)
{
    int64_t least = least_count(t);
    pthread_mutex_lock(&slot_lock);
    struct native_slot *s = slot_of(t);
    if (!s) {
        s = native_set(t);
        if (atomic_load(&s[0].type)) slot_set(&s[1], atomic_load(&s[0].type), &s[0]);
        slot_set(&s[0], t, NULL);
        for (int d = 0; d < 2; d++) atomic_store(&s->least[d], least);
    }
    pthread_mutex_unlock(&slot_lock);
    return s;
}

void native_forget(MPI_Datatype t)
{
    pthread_mutex_lock(&slot_lock);
    for (struct native_slot *s; (s = slot_of(t));) slot_set(s, (MPI_Datatype)0, NULL);
    pthread_mutex_unlock(&slot_lock);
}

/* From now on calls with fewer elements go straight down. */
static void slot_raise(MPI_Datatype t, enum kernel_direction d, int64_t least)
{
    pthread_mutex_lock(&slot_lock);
    struct native_slot *s = slot_of(t);
    if (s && atomic_load(&s->least[d]) < least) atomic_store(&s->least[d], least);
    pthread_mutex_unlock(&slot_lock);
}

static struct layout *slot_read(MPI_Datatype t)
{
    struct layout *l = layout_of(t);
    if (!l) return NULL;
    l->host_read = true;
    pthread_mutex_lock(&slot_lock);
    struct native_slot *s = slot_of(t);
    if (s) atomic_store_explicit(&s->layout, l, memory_order_release);
    pthread_mutex_unlock(&slot_lock);
    for (int d = 0; d < 2 && (!l->kernel || layout_contiguous(l, 2)); d++)
        slot_raise(t, (enum kernel_direction)d, INT64_MAX);
    return l;
}

struct layout *native_layout(enum kernel_direction d, MPI_Datatype t, int64_t count)
{
    if (t == MPI_DATATYPE_NULL || atomic_load_explicit(&native_least, memory_order_relaxed) == INT64_MAX) return NULL;
    struct native_slot *s = slot_of(t);
    if (!s) s = slot_new(t);
    struct layout *l = slot_layout(s, t);
    if (l) return l;
    if (count < atomic_load_explicit(&s->least[d], memory_order_relaxed)) return NULL;
    unsigned uses = atomic_fetch_add_explicit(&s->uses, 1, memory_order_relaxed);
    bool due = env_get()->host == ENV_HOST_ON || uses >= atomic_load_explicit(&uses_needed, memory_order_relaxed);
    return due ? slot_read(t) : NULL;
}

/* Types that go before they have paid make the next ones wait longer. */
void native_gone(const struct layout *l)
{
    unsigned needed = atomic_load(&uses_needed);
    if (atomic_load(&l->host_calls) >= PAID) atomic_store(&uses_needed, USES_MIN);
    else if (needed < USES_MAX) atomic_store(&uses_needed, needed * 2);
}

void native_start(void)
{
    const char *file;
    const struct tune_table *t = choose_table(&file);
    int64_t least = t ? t->host_least : INT64_MAX;
    enum env_host host = env_get()->host;
    atomic_store(&native_least, host == ENV_HOST_OFF ? INT64_MAX : host == ENV_HOST_ON ? 1 : least);
}

void native_finish(void)
{
    atomic_store(&native_least, INT64_MAX);
}
