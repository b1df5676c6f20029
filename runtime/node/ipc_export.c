/* ipc_export.c: device memory and layouts that peers on the node may read. */
#include "ipc_export.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/recent_order.h"
#include "base/spinlock.h"
#include "mapping_export.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TEXT_MAX ((uint64_t)1 << 20)   /* of a signature; the receiver takes too long to read longer ones */
#define NO_LAYOUT ((uint64_t)1)        /* value of struct layout.published */
#define HANDLES_MAX 256
#define PROBE_BYTES ((size_t)2 << 20)   /* a block of its own: peers keep it open */
#define NACKS_MAX 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- handles ---- */

struct handle {
    uint64_t start, id;   /* key: start; id tells whether the allocation is the same */
    uint64_t span;
    bool met, asked;      /* a message has used it; the driver was asked for a handle */
    bool shared;          /* false: the driver refuses */
    bool synchronous;
    CUipcMemHandle handle;
    UT_hash_handle hh;    /* least recently used first */
};
static struct handle *handles;

static void export_set(struct ipc_export *e, const struct allocation *a)
{
    e->start = a->start, e->span = a->span, e->id = a->id;
}

static bool is_mapped(const struct ipc_export *e)
{
    return e->id & SLOT_MAPPED;
}

static bool mapped_valid(const struct ipc_export *e)
{
    pthread_mutex_lock(&lock);
    bool valid = mapping_export_valid(e->id);
    pthread_mutex_unlock(&lock);
    return valid;
}

bool ipc_export_valid(const struct ipc_export *e)
{
    unsigned long long id = 0;
    if (e->span && is_mapped(e)) return mapped_valid(e);
    return e->span &&
           driver_get()->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, e->start) == CUDA_SUCCESS &&
           id == e->id;
}

/* Waits for the default stream. Returns false while the application captures an ordered stream: a wait breaks that. */
static bool drained(void)
{
    CUstreamCaptureStatus status;
    return driver_get()->cuStreamIsCapturing(CU_STREAM_LEGACY, &status) == CUDA_SUCCESS &&
           driver_get()->cuStreamSynchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

/* Makes later copies into the memory return only after their bytes have arrived, and waits for earlier copies. */
static bool make_synchronous(uint64_t start)
{
    unsigned yes = 1;
    return driver_get()->cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, start) == CUDA_SUCCESS &&
           drained();
}

/* Returns the entry of e's allocation, now the most recently used; NULL without memory. Caller holds `lock`. */
static struct handle *handle_of(const struct ipc_export *e)
{
    struct handle *h;
    HASH_FIND(hh, handles, &e->start, sizeof e->start, h);
    bool moves = !h || h->hh.next;   /* the last stays: an empty table would be freed and made again */
    bool made = !h && HASH_COUNT(handles) < HANDLES_MAX;
    if (!h && !(h = made ? calloc(1, sizeof *h) : handles)) return NULL;
    if (moves && !made) HASH_DEL(handles, h);
    if (h->start != e->start || h->id != e->id)
        *h = (struct handle){.start = e->start, .id = e->id, .span = e->span, .hh = h->hh};
    if (moves) HASH_ADD(hh, handles, start, sizeof h->start, h);
    return h;
}

/* Asks the driver for a handle. Caller holds `lock`. */
static void ask_handle(struct device *d, struct handle *h)
{
    h->asked = true;
    if (!device_enter(d)) {
        h->shared = driver_get()->cuIpcGetMemHandle(&h->handle, h->start) == CUDA_SUCCESS;
        h->synchronous = h->shared && make_synchronous(h->start);
        device_leave(d);
    }
    if (!h->shared) log_write(LOG_INFO, "memory that CUDA IPC does not share: messages from it are packed");
}

/* ---- freed allocations ---- */

#define BLOCK ((uint64_t)2 << 20)   /* longer allocations share no 2 MiB block with others */
#define PASSED 8

/* Publishes and frees a handle if its short allocation was freed. Caller holds `lock`. */
static void publish_gone(struct handle *h)
{
    struct ipc_export e = {.start = h->start, .span = 1, .id = h->id};
    if (!h->shared || h->span >= BLOCK || ipc_export_valid(&e)) return;
    node_tell_gone(h->id);
    HASH_DEL(handles, h);
    free(h);
}

void ipc_export_to_mpi(const void *first, const struct allocation *around)
{
    struct allocation a = *around;
    static _Atomic uint64_t last;
    static struct {
        uint64_t id[PASSED];
        unsigned next;
    } passed;
    struct handle *h, *next;
    bool known = false;
    if (!a.span) device_locate(first, &a);
    uint64_t id = a.id;
    if (!a.span || atomic_load_explicit(&last, memory_order_relaxed) == id || !node_own()) return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PASSED; i++) known = known || passed.id[i] == id;
    if (!known) {
        passed.id[passed.next++ % PASSED] = id;
        HASH_ITER(hh, handles, h, next) publish_gone(h);
    }
    pthread_mutex_unlock(&lock);
    atomic_store_explicit(&last, id, memory_order_relaxed);
}

/* ---- probes ---- */

static struct probe {
    struct device *device;
    struct pool_buffer *memory;
} probes[PROBES];
static atomic_uint probe_count;   /* grows until ipc_export_finish */

/* Fills a probe with random bytes and publishes its handle. Caller holds `lock`. */
static bool probe_make(struct device *d, struct probe *p, uint32_t number)
{
    struct node_file *f = node_own();
    struct allocation a;
    if (getrandom(f->probe[number].content, sizeof f->probe[number].content, 0) < 0 || device_enter(d)) return false;
    struct stream *s = stream_get(d);
    p->memory = mempool_get(d, BUFFER_LASTING, PROBE_BYTES);
    bool made = s && p->memory && device_locate((const void *)(uintptr_t)p->memory->address, &a) && a.span &&
                driver_get()->cuIpcGetMemHandle(&f->probe[number].handle, p->memory->address) == CUDA_SUCCESS &&
                driver_get()->cuMemcpyHtoDAsync(p->memory->address, f->probe[number].content,
                                                sizeof f->probe[number].content, stream_use(s)) == CUDA_SUCCESS &&
                !stream_wait(d, s);
    if (s) stream_put(d, s);
    if (!made) mempool_put(p->memory), p->memory = NULL;
    device_leave(d);
    return made;
}

/* Returns the number of the device's probe, creating it if needed; PROBES if it can have none. Caller holds `lock`. */
static uint32_t probe_of(struct device *d)
{
    for (uint32_t i = 0; i < probe_count; i++)
        if (probes[i].device == d) return probes[i].memory ? i : PROBES;
    if (probe_count == PROBES) return PROBES;
    struct probe *p = &probes[probe_count];
    p->device = d;
    uint32_t number = probe_count;
    bool made = probe_make(d, p, number);
    atomic_store_explicit(&probe_count, number + 1, memory_order_release);
    atomic_store_explicit(&node_own()->probes, number + 1, memory_order_release);
    return made ? number : PROBES;
}

/* Returns the number of the device's probe; PROBES if there is none. Any thread. */
static uint32_t probe_made(const struct device *d)
{
    uint32_t n = atomic_load_explicit(&probe_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        if (probes[i].device == d) return i;
    return PROBES;
}

void ipc_export_prepare(struct device *d)
{
    if (probe_made(d) < PROBES) return;
    pthread_mutex_lock(&lock);
    probe_of(d);
    pthread_mutex_unlock(&lock);
}

/* The allocations asked for last, most likely the next too: a message may lie in many. */
static struct {
    struct spinlock spin_lock;
    struct recent_order order;
    struct lately {
        struct device *device;
        bool shared;
        struct ipc_export export;
    } of[RECENT_MOST];
} lately;

/* `key`: the device and the export of the allocation looked for, as an entry. */
static bool lately_is(unsigned item, const void *key)
{
    const struct lately *l = &lately.of[item], *k = key;
    return l->device == k->device && l->export.id == k->export.id && l->export.start == k->export.start;
}

/* Returns true if it is known whether CUDA shares e's allocation: sets *shared, and *e if it does. */
static bool share_recent(struct device *d, struct ipc_export *e, bool *shared)
{
    const struct lately key = {.device = d, .export = {.id = e->id, .start = e->start}};
    spinlock_enter(&lately.spin_lock);
    int item = recent_find(&lately.order, lately_is, &key);
    const struct lately *same = item < 0 ? NULL : &lately.of[item];
    if (same) *shared = same->shared;
    if (same && same->shared) *e = same->export;
    spinlock_leave(&lately.spin_lock);
    return same;
}

static void remember(struct device *d, const struct ipc_export *e, bool shared)
{
    spinlock_enter(&lately.spin_lock);
    lately.of[recent_add(&lately.order)] = (struct lately){d, shared, *e};
    spinlock_leave(&lately.spin_lock);
}

/* Gets the handle of e. Unless `first` is NULL, the first use sets *first to true and shares nothing. */
static bool share(struct device *d, struct ipc_export *e, bool *first)
{
    bool shared = false;
    if (share_recent(d, e, &shared)) return shared;
    pthread_mutex_lock(&lock);
    struct handle *h = handle_of(e);
    e->probe = probe_of(d);   /* memory that can't be shared may be packed into memory that can */
    if (h && !h->asked && first && !h->met) *first = h->met = true;
    else if (h && !h->asked) ask_handle(d, h);
    bool asked = h && h->asked && e->probe < PROBES;
    shared = asked && h->shared;
    if (shared) e->handle = h->handle, e->synchronous = h->synchronous;
    pthread_mutex_unlock(&lock);
    if (asked) remember(d, e, shared);
    return shared;
}

/* Gets the export of a range of mapped memory. */
static bool share_mapped(struct device *d, uint64_t address, int64_t bytes, struct ipc_export *e, bool *first)
{
    pthread_mutex_lock(&lock);
    e->probe = probe_of(d);
    bool shared = mapping_export_of(d, address, bytes, e, first);
    pthread_mutex_unlock(&lock);
    return shared && e->probe < PROBES;
}

bool ipc_export_of(struct device *d, uint64_t address, int64_t bytes, struct ipc_export *e)
{
    struct allocation a;
    device_locate((const void *)(uintptr_t)address, &a);
    export_set(e, &a);
    if (a.mapped) return share_mapped(d, address, bytes, e, NULL);
    return ipc_export_holds(e, address, bytes) && share(d, e, NULL);
}

bool ipc_export_around(struct device *d, const struct allocation *a, struct ipc_export *e, bool *first)
{
    export_set(e, a);
    return a->mapped ? share_mapped(d, a->start, (int64_t)a->span, e, first) : share(d, e, first);
}

static bool accepts(const struct peer *p, uint32_t probe)
{
    return atomic_load_explicit(&p->file->accepts[node_self()->rank], memory_order_acquire) >> probe & 1;
}

bool ipc_export_probed(struct device *d, const struct peer *p)
{
    uint32_t probe = probe_made(d);
    return probe == PROBES || accepts(p, probe);
}

bool ipc_export_readable(struct device *d, const struct peer *p)
{
    uint32_t probe = probe_made(d);
    return probe < PROBES && (p->self || accepts(p, probe));
}

/* ---- NACKs ---- */

#define NACKS_MAPPED 3   /* of a mapped range: the peer may have closed it, and gets its handles once more */

struct nack {
    struct {
        uint64_t id;
        int64_t rank;
    } key;
    int times;
    UT_hash_handle hh;   /* oldest first */
};
static struct nack *nacks;
static _Atomic uint64_t refusals;   /* all so far */

uint64_t ipc_export_refusals(void)
{
    return atomic_load_explicit(&refusals, memory_order_acquire);
}

/* Returns the rank's NACK of the allocation, or NULL. Caller holds `lock`. */
static struct nack *nack_of(uint64_t id, int64_t rank)
{
    struct nack *r = NULL, key = {.key = {id, rank}};
    HASH_FIND(hh, nacks, &key.key, sizeof key.key, r);
    return r;
}

static bool is_nacked(uint64_t id, int64_t rank)
{
    if (!ipc_export_refusals()) return false;
    pthread_mutex_lock(&lock);
    const struct nack *r = nack_of(id, rank);
    bool refused = r && r->times >= (id & SLOT_MAPPED ? NACKS_MAPPED : 1);
    pthread_mutex_unlock(&lock);
    return refused;
}

/* Notes a NACK, or that a range's handles could not be sent. Returns true for the first. Caller holds `lock`. */
static bool note_nack(uint64_t id, const struct peer *p)
{
    struct nack *r = nack_of(id, p->rank), *oldest = nacks;
    bool known = r != NULL;
    if (!r && (r = calloc(1, sizeof *r))) {
        r->key.id = id, r->key.rank = p->rank;
        HASH_ADD(hh, nacks, key, sizeof r->key, r);
    }
    if (r) r->times++;
    if (HASH_COUNT(nacks) > NACKS_MAX) {
        HASH_DEL(nacks, oldest);
        free(oldest);
    }
    atomic_fetch_add_explicit(&refusals, 1, memory_order_release);
    return r && !known;
}

void ipc_export_nack(uint64_t id, const struct peer *p)
{
    pthread_mutex_lock(&lock);
    bool new = note_nack(id, p);
    if (id & SLOT_MAPPED) mapping_export_again(id, p);
    pthread_mutex_unlock(&lock);
    if (new) log_write(LOG_INFO, "rank %d can't read an allocation: messages to it are packed first", p->rank);
}

/* Returns true if the peer has the handles of a mapped range. */
static bool offered(const struct ipc_export *e, const struct peer *p)
{
    pthread_mutex_lock(&lock);
    bool has = mapping_export_offer(e->id, p);
    if (!has) note_nack(e->id, p);
    pthread_mutex_unlock(&lock);
    return has;
}

bool ipc_export_accepted(const struct ipc_export *e, const struct peer *p)
{
    if (p->self) return true;
    return accepts(p, e->probe) && !is_nacked(e->id, p->rank) && (!is_mapped(e) || offered(e, p));
}

/* ---- layouts: a length, then the text ---- */

struct text {
    uint64_t at;
    UT_hash_handle hh;   /* by the text in the arena */
};
static struct text *texts;

/* Returns the arena offset of a signature, writing it once; NO_LAYOUT if the arena is full. Caller holds `lock`. */
static uint64_t text_write(const char *signature, uint64_t bytes)
{
    struct text *t;
    HASH_FIND(hh, texts, signature, bytes, t);
    if (t) return t->at;
    uint64_t at = node_arena_alloc(sizeof bytes + bytes);
    t = at ? calloc(1, sizeof *t) : NULL;
    if (!t) return NO_LAYOUT;
    char *to = node_arena(at, sizeof bytes + bytes);
    memcpy(to, &bytes, sizeof bytes);
    memcpy(to + sizeof bytes, signature, bytes);
    t->at = at;
    HASH_ADD_KEYPTR(hh, texts, to + sizeof bytes, bytes, t);
    return at;
}

uint64_t ipc_export_layout(struct layout *l)
{
    uint64_t at = atomic_load_explicit(&l->published, memory_order_acquire);
    if (at) return at == NO_LAYOUT ? 0 : at;
    struct reason why;
    char *signature = tree_shape_signature(l->tree, &why);
    uint64_t bytes = signature ? strlen(signature) : 0;
    pthread_mutex_lock(&lock);
    at = signature && bytes <= TEXT_MAX ? text_write(signature, bytes) : NO_LAYOUT;
    pthread_mutex_unlock(&lock);
    free(signature);
    atomic_store_explicit(&l->published, at, memory_order_release);
    return at == NO_LAYOUT ? 0 : at;
}

int ipc_export_drain(struct device *d)
{
    if (device_enter(d)) return -1;
    bool done = drained();
    device_leave(d);
    return done ? 0 : -1;
}

void ipc_export_finish(void)
{
    struct handle *h, *next_handle;
    struct text *t, *next_text;
    struct nack *r, *next_nack;
    HASH_END_ALL(nacks, r, next_nack, free)
    HASH_END_ALL(handles, h, next_handle, free)
    HASH_END_ALL(texts, t, next_text, free)
    for (uint32_t i = 0; i < probe_count; i++) mempool_put(probes[i].memory);
    memset(probes, 0, sizeof probes);
    probe_count = 0;
    memset(lately.of, 0, sizeof lately.of);
    mapping_export_finish();
}
