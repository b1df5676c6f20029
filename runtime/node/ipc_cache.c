/* ipc_cache.c: device memory and layouts of peers on the node. */
#include "ipc_cache.h"
#include "base/hash_table.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "device/device_internal.h"
#include "fd_socket.h"
#include "ipc_export.h"
#include "kernel/typed_copy.h"
#include "mapping_import.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define IMPORTS_MAX 256
#define LAYOUTS_MAX 4096
#define MEET_MOST 64   /* ranks of a world */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- allocations: opening and closing needs `lock`; changing the table or `users` needs imports_lock too ---- */

struct ipc_cache_key {
    struct device *device;
    uint64_t id;
    int64_t rank;
};
struct import {
    struct ipc_cache_key key;
    uint64_t start, span;
    CUdeviceptr base;      /* 0: the driver refuses */
    struct mapping_import *mapped;   /* NULL: opened by CUDA IPC */
    int users;
    bool across;           /* another GPU's memory */
    bool stale;            /* its last user closes it: another allocation has its place */
    uint64_t used;         /* number of the last use */
    UT_hash_handle hh;
};
static struct import *imports;
static uint64_t uses, drops;
static struct spinlock imports_lock;

/* Closes an import that is out of the table and has no users. Caller holds `lock`. */
static void ipc_cache_close(struct import *i)
{
    if (i->base && device_try_enter(i->key.device)) {
        if (i->mapped) mapping_import_close(i->mapped);
        else driver_get()->cuIpcCloseMemHandle(i->base);
        device_leave(i->key.device);
    }
    free(i);
}

/* Removes an import from the table. Caller holds `lock`. */
static void ipc_cache_drop(struct import *i)
{
    spinlock_lock(&imports_lock);
    HASH_DEL(imports, i);
    i->stale = true, drops++;
    bool used = i->users;
    spinlock_unlock(&imports_lock);
    if (!used) ipc_cache_close(i);
}

/* Drops freed allocations that overlap the slot's, since the driver opens nothing over open memory. Ranges of mapped
 * memory may overlap. */
static void ipc_cache_drop_under(const struct ipc_cache_key *key, const struct slot *s)
{
    struct import *i, *next;
    HASH_ITER(hh, imports, i, next) {
        bool both_mapped = i->mapped && s->id & SLOT_MAPPED;
        bool apart = both_mapped || i->key.rank != key->rank || i->key.device != key->device ||
                     i->start >= s->start + s->span || s->start >= i->start + i->span;
        if (!apart) ipc_cache_drop(i);
    }
}

/* Returns the import without users whose last use is the longest ago, or NULL. Caller holds `lock`. */
static struct import *least_used(void)
{
    struct import *i, *next, *least = NULL;
    spinlock_lock(&imports_lock);
    HASH_ITER(hh, imports, i, next)
        if (!i->users && (!least || i->used < least->used)) least = i;
    spinlock_unlock(&imports_lock);
    return least;
}

static void ipc_cache_bound(void)
{
    for (struct import *i; HASH_COUNT(imports) > IMPORTS_MAX && (i = least_used());) ipc_cache_drop(i);
}

/* Opens memory by CUDA IPC. A refusal is kept: the slot's handle stays the same. */
static void open_handle(struct import *i, const struct slot *s)
{
    CUresult r = driver_get()->cuIpcOpenMemHandle(&i->base, s->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (r == CUDA_SUCCESS) return;
    log_write(LOG_INFO, "memory of rank %d can't be opened: %s", (int)i->key.rank, driver_error(r));
    i->base = 0;
}

static struct import *ipc_cache_new(const struct peer *p, const struct ipc_cache_key *key, const struct slot *s)
{
    struct import *i = calloc(1, sizeof *i);
    if (!i) return NULL;
    i->key = *key, i->start = s->start, i->span = s->span;
    i->across = s->gpu != device_gpu_id(key->device);
    if (!(s->id & SLOT_MAPPED)) return open_handle(i, s), i;
    i->mapped = mapping_import_open(p, s, key->device, &i->base);
    if (!i->mapped) free(i), i = NULL;   /* the peer sends its handles again */
    return i;
}

bool ipc_cache_other_gpu(const struct import *i)
{
    return i->across;
}

/* The import of the own memory, which all its users share. */
static struct import self_import = {.users = 1};

/* Returns an open import with one more user, or NULL. */
static struct import *use_open(const struct ipc_cache_key *key)
{
    struct import *i;
    spinlock_lock(&imports_lock);
    HASH_FIND(hh, imports, key, sizeof *key, i);
    if (i && !i->base) i = NULL;
    if (i) i->users++, i->used = ++uses;
    spinlock_unlock(&imports_lock);
    return i;
}

static bool is_gone(int64_t rank, uint64_t id)
{
    const struct peer *p = node_world_peer((int)rank);
    for (int at = 0; p && at < GONE_MAX; at++)
        if (atomic_load_explicit(&p->file->gone[at], memory_order_relaxed) == id) return true;
    return false;
}

/* Returns the peer's count of freed allocations if it has changed; else 0. */
static uint32_t gone_news(const struct import *i, struct peer **p)
{
    *p = node_world_peer((int)i->key.rank);
    uint32_t gone_count = *p ? atomic_load_explicit(&(*p)->file->gone_count, memory_order_acquire) : 0;
    return *p && gone_count != atomic_load_explicit(&(*p)->gone, memory_order_relaxed) ? gone_count : 0;
}

/* Drops freed allocations of all peers. Caller holds `lock`. */
static void drop_gone(void)
{
    struct import *i, *next;
    struct peer *p = NULL;
    uint32_t gone_count = 0;
    for (;;) {
        HASH_ITER(hh, imports, i, next)
            if ((gone_count = gone_news(i, &p))) break;
        if (!i) return;
        HASH_ITER(hh, imports, i, next)
            if (i->key.rank == p->rank && is_gone(p->rank, i->key.id)) ipc_cache_drop(i);
        atomic_store_explicit(&p->gone, gone_count, memory_order_relaxed);   /* as read before the search */
    }
}

void ipc_cache_drop_gone(void)
{
    pthread_mutex_lock(&lock);
    drop_gone(), mapping_import_drop_gone(is_gone);
    pthread_mutex_unlock(&lock);
}

/* Opens an allocation that is not in the table. Returns it with one user; NULL if the driver refuses. Caller holds
 * `lock`. */
static struct import *import_add(const struct peer *p, const struct ipc_cache_key *key, const struct slot *s)
{
    if (s->id & SLOT_MAPPED) drop_gone(), mapping_import_drop_gone(is_gone);   /* memory that was unmapped */
    ipc_cache_drop_under(key, s);
    struct import *i = ipc_cache_new(p, key, s);
    if (!i) return NULL;
    bool opened = i->base;
    spinlock_lock(&imports_lock);
    HASH_ADD(hh, imports, key, sizeof i->key, i);
    i->users = opened, i->used = ++uses;
    spinlock_unlock(&imports_lock);
    ipc_cache_bound();   /* i goes only if it was not opened */
    return opened ? i : NULL;
}

static bool was_refused(const struct ipc_cache_key *key)
{
    struct import *i;
    HASH_FIND(hh, imports, key, sizeof *key, i);
    return i && !i->base;
}

struct import *ipc_cache_open(const struct peer *p, const struct slot *s, struct device *d, uint64_t *address)
{
    struct ipc_cache_key key;
    struct import *i;
    *address = s->user;
    if (p->self) return &self_import;
    memset(&key, 0, sizeof key);
    key.device = d, key.id = s->id, key.rank = p->rank;
    if (!(i = use_open(&key))) {
        pthread_mutex_lock(&lock);
        if (!was_refused(&key) && !(i = use_open(&key))) i = import_add(p, &key, s);
        pthread_mutex_unlock(&lock);
    }
    if (i) *address = i->base + (s->user - i->start);
    return i;
}

void ipc_cache_put(struct import *i)
{
    if (!i || i == &self_import) return;
    spinlock_lock(&imports_lock);
    bool closes = !--i->users && i->stale;
    spinlock_unlock(&imports_lock);
    if (!closes) return;
    pthread_mutex_lock(&lock);
    ipc_cache_close(i);
    pthread_mutex_unlock(&lock);
}

uint64_t ipc_cache_drops(void)
{
    spinlock_lock(&imports_lock);
    uint64_t all = drops;
    spinlock_unlock(&imports_lock);
    return all;
}

bool ipc_cache_use_again(struct import *const of[], int n, uint64_t since)
{
    spinlock_lock(&imports_lock);
    bool open = drops == since;
    for (int i = 0; open && i < n; i++) of[i]->users++, of[i]->used = ++uses;
    spinlock_unlock(&imports_lock);
    return open;
}

/* ---- layouts ---- */

struct known {
    struct {
        uint64_t at;
        int64_t rank;
    } key;
    struct ipc_cache_layout layout;
    atomic_int users;
    struct known *next;
    UT_hash_handle hh;     /* in order of arrival */
};
static struct known *layouts;
static struct spinlock layouts_lock;   /* guards the table and new users */

static char *text_of(const struct peer *p, uint64_t at)
{
    uint64_t bytes;
    bool there = node_arena_read(p, at, &bytes, sizeof bytes) && bytes < ARENA_BYTES;
    char *text = there ? calloc(1, bytes + 1) : NULL;
    if (text && node_arena_read(p, at + sizeof bytes, text, bytes)) return text;
    free(text);
    return NULL;
}

static bool layout_read(const struct peer *p, uint64_t at, struct ipc_cache_layout *l)
{
    struct reason why = {"out of memory"};
    char *text = text_of(p, at);
    l->tree = text ? tree_parse(text, &why) : NULL;
    l->kernel = l->tree ? kernel_get(l->tree, &why) : NULL;
    free(text);
    if (l->kernel) return true;
    log_write(LOG_WARN, "a layout of rank %d can't be read: %s", p->rank, why.text);
    tree_unref(l->tree);
    return false;
}

static void known_free(struct known *k)
{
    kernel_put(k->layout.kernel);
    tree_unref(k->layout.tree);
    free(k);
}

/* Returns a cached layout with one more user, or NULL. */
static struct known *find(const struct known *key)
{
    struct known *k;
    spinlock_lock(&layouts_lock);
    HASH_FIND(hh, layouts, &key->key, sizeof key->key, k);
    if (k) atomic_fetch_add_explicit(&k->users, 1, memory_order_relaxed);
    spinlock_unlock(&layouts_lock);
    return k;
}

/* Frees the oldest unused layouts beyond LAYOUTS_MAX; a later use reads them again. Caller holds `lock`. */
static void layouts_bound(void)
{
    struct known *k, *next, *out = NULL;
    spinlock_lock(&layouts_lock);
    HASH_ITER(hh, layouts, k, next) {
        if (HASH_COUNT(layouts) <= LAYOUTS_MAX) break;
        if (atomic_load_explicit(&k->users, memory_order_acquire)) continue;
        HASH_DEL(layouts, k);
        k->next = out;
        out = k;
    }
    spinlock_unlock(&layouts_lock);
    for (; out; out = next) next = out->next, known_free(out);
}

/* Returns a layout with one more user; reads it if needed. Caller holds `lock`. */
static struct known *known_get(const struct peer *p, const struct known *key)
{
    struct known *k = find(key);
    if (k || !(k = calloc(1, sizeof *k))) return k;
    k->key = key->key;
    if (!layout_read(p, k->key.at, &k->layout)) return free(k), NULL;
    atomic_init(&k->users, 1);
    k->layout.known = k;
    spinlock_lock(&layouts_lock);
    HASH_ADD(hh, layouts, key, sizeof k->key, k);
    spinlock_unlock(&layouts_lock);
    layouts_bound();
    return k;
}

bool ipc_cache_layout(const struct peer *p, uint64_t at, struct ipc_cache_layout *l)
{
    struct known *k, key;
    memset(&key.key, 0, sizeof key.key);
    key.key.at = at, key.key.rank = p->rank;
    if (!(k = find(&key))) {
        pthread_mutex_lock(&lock);
        k = known_get(p, &key);
        pthread_mutex_unlock(&lock);
    }
    if (k) *l = k->layout;
    return k != NULL;
}

void ipc_cache_layout_keep(const struct ipc_cache_layout *l)
{
    if (l->known) atomic_fetch_add_explicit(&l->known->users, 1, memory_order_relaxed);
}

void ipc_cache_layout_put(const struct ipc_cache_layout *l)
{
    if (l->known) atomic_fetch_sub_explicit(&l->known->users, 1, memory_order_release);
}

/* ---- probes ---- */

/* Probes stay open: to open memory of a process of which none is open takes 2 ms each time, more 0.05 to 0.2 (H200). */
static struct opened_probe {
    struct device *device;
    CUdeviceptr at;
    struct opened_probe *next;
} *opened_probes;

/* Keeps the probe open, or closes it without memory. Caller holds `lock`. */
static void probe_keep(struct device *d, CUdeviceptr at)
{
    struct opened_probe *o = malloc(sizeof *o);
    if (!o) {
        driver_get()->cuIpcCloseMemHandle(at);
        return;
    }
    *o = (struct opened_probe){d, at, opened_probes};
    opened_probes = o;
}

static void probes_close(void)
{
    for (struct opened_probe *o; (o = opened_probes);) {
        opened_probes = o->next;
        if (device_try_enter(o->device)) {
            driver_get()->cuIpcCloseMemHandle(o->at);
            device_leave(o->device);
        }
        free(o);
    }
}

static bool probe_reads(const struct peer *p, uint32_t number, struct device *d)
{
    unsigned char found[sizeof p->file->probe[0].content];
    CUdeviceptr at;
    CUresult r =
        driver_get()->cuIpcOpenMemHandle(&at, p->file->probe[number].handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (r != CUDA_SUCCESS) {
        log_write(LOG_INFO, "device memory of rank %d is out of reach: %s", p->rank, driver_error(r));
        return false;
    }
    struct stream *s = stream_get(d);
    bool read = s && driver_get()->cuMemcpyDtoHAsync(found, at, sizeof found, stream_use(s)) == CUDA_SUCCESS &&
                !stream_wait(d, s);
    if (s) stream_put(d, s);
    probe_keep(d, at);
    return read && !memcmp(found, p->file->probe[number].content, sizeof found);
}

static void probes_try(struct peer *p, uint32_t there, struct device *d)
{
    pthread_mutex_lock(&lock);
    uint32_t from = atomic_load(&p->tried);
    uint8_t accepted = 0;
    if (driver_get()->mappings) fd_socket_open();
    for (uint32_t i = from; i < there && i < PROBES && !device_enter(d); i++) {
        if (probe_reads(p, i, d)) accepted |= (uint8_t)(1u << i);
        device_leave(d);
    }
    if (accepted) typed_copy_prepare(d, NULL, 0);   /* the kernel that will read */
    atomic_fetch_or_explicit(&node_own()->accepts[p->rank], accepted, memory_order_release);
    if (from < there) atomic_store(&p->tried, there);
    pthread_mutex_unlock(&lock);
}

void ipc_cache_probe(struct peer *p, struct device *d)
{
    if (!p || p->self || !d) return;
    uint32_t there = atomic_load_explicit(&p->file->probes, memory_order_acquire);
    if (there > atomic_load_explicit(&p->tried, memory_order_relaxed)) probes_try(p, there, d);
}

bool ipc_cache_meet(struct device *d)
{
    const struct node_file *own = node_own();
    int ranks = own ? (int)own->size : 0, met = 0;
    if (!node_zerocopy() || ranks > MEET_MOST) return true;
    ipc_export_prepare(d);
    for (int i = 0; i < ranks; i++) {
        struct peer *p = node_world_peer(i);
        ipc_cache_probe(p, d);
        met += p && (p->self || atomic_load_explicit(&p->tried, memory_order_relaxed));
    }
    return met == launcher_local_size((int)own->rank, ranks);
}

void ipc_cache_finish(void)
{
    struct import *i, *next_import;
    struct known *k, *next_known;
    HASH_ITER(hh, imports, i, next_import) ipc_cache_drop(i);
    HASH_END_ALL(layouts, k, next_known, known_free)
    probes_close();
    mapping_import_finish(), fd_socket_close();
}
