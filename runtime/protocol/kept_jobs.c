/* kept_jobs.c: a table of some places: each key has one. */
#include "kept_jobs.h"
#include "../../gen/gen.h"
#include "../../gen/hash.h"
#include "base/spinlock.h"
#include "datatype/layout_parts.h"
#include <stdlib.h>
#include <string.h>

#define PLACE_BITS 8
#define PLACES (1 << PLACE_BITS)

struct kept_jobs {
    struct kept_jobs_key key;
    int users;   /* messages that read by it: nobody replaces it */
    uint64_t drops;
    int n, imports, layouts;
    struct typed_copy_job job[LAYOUT_PARTS];
    struct import *import[LAYOUT_PARTS];
    struct ipc_cache_layout layout[LAYOUT_PARTS];   /* each in use */
    struct stridec_link link[GEN_LINK_MOST];
    int links;   /* 0: the jobs are not one launch */
    uint32_t blocks;
};
static struct kept_jobs *places[PLACES];   /* NULL: never used */
static uint64_t asked[PLACES];             /* hash of the key for which kept_jobs_add was last called there */
static struct spinlock spin_lock;

static uint64_t hash_of(const struct kept_jobs_key *k)
{
    uint64_t h = hash_pair(k->description, k->layout, (uint64_t)k->rank);
    return hash_pair(h, (uint64_t)(uintptr_t)k->user, (uint64_t)k->count);
}

static int place_of(uint64_t hash)
{
    return (int)hash_place(hash, PLACE_BITS);
}

static bool same(const struct kept_jobs_key *a, const struct kept_jobs_key *b)
{
    return a->description == b->description && a->rank == b->rank && a->device == b->device && a->layout == b->layout &&
           a->user == b->user && a->count == b->count;
}

struct kept_jobs_key kept_jobs_key_of(const struct peer *p, const struct slot *s, struct device *d,
                                      const struct typed_buffer *to)
{
    return (struct kept_jobs_key){s->description, p->rank, d, to->layout->number, to->user, to->count};
}

struct kept_jobs *kept_jobs_get(const struct kept_jobs_key *key)
{
    if (!key->description) return NULL;
    spinlock_enter(&spin_lock);
    struct kept_jobs *k = places[place_of(hash_of(key))];
    if (k && (!same(&k->key, key) || !ipc_cache_use_again(k->import, k->imports, k->drops))) k = NULL;
    if (k) k->users++;
    spinlock_leave(&spin_lock);
    return k;
}

int kept_jobs_n(const struct kept_jobs *k)
{
    return k->n;
}

int kept_jobs_copy(const struct kept_jobs *k, struct typed_copy_job jobs[])
{
    memcpy(jobs, k->job, (size_t)k->n * sizeof *jobs);
    return k->n;
}

int kept_jobs_move(const struct kept_jobs *k, struct stream *s, int *launches)
{
    return k->links ? typed_copy_move_links(k->key.device, s, k->link, k->links, k->blocks, launches) : 1;
}

void kept_jobs_put(struct kept_jobs *k)
{
    if (!k) return;
    for (int i = 0; i < k->imports; i++) ipc_cache_put(k->import[i]);
    spinlock_enter(&spin_lock);
    k->users--;
    spinlock_leave(&spin_lock);
}

static void drop(struct kept_jobs *k)
{
    for (int i = 0; k && i < k->layouts; i++) ipc_cache_layout_put(&k->layout[i]);
    free(k);
}

/* Returns the jobs as they are kept; NULL without memory, or while the kernel is not there: the next message asks
 * again. */
static struct kept_jobs *made(const struct kept_jobs_key *key, const struct typed_copy_job jobs[], int n,
                              const struct kept_uses *u)
{
    struct kept_jobs *k = calloc(1, sizeof *k);
    if (k) k->links = typed_copy_links(key->device, jobs, n, k->link, &k->blocks);
    if (!k || k->links < 0) return free(k), NULL;
    k->key = *key, k->drops = u->drops;
    k->n = n, k->imports = u->imports, k->layouts = u->layouts;
    memcpy(k->job, jobs, (size_t)n * sizeof *jobs);
    memcpy(k->import, u->import, (size_t)u->imports * sizeof *u->import);
    memcpy(k->layout, u->layout, (size_t)u->layouts * sizeof *u->layout);
    for (int i = 0; i < k->layouts; i++) ipc_cache_layout_keep(&k->layout[i]);
    return k;
}

/* Returns true if others may take the place. The caller holds the lock. */
static bool is_vacant(int at)
{
    return !places[at] || !places[at]->users;
}

/* Returns true if the key comes for the second time in a row at its place, and may be kept there. Most never come
 * again. */
static bool is_due(int at, uint64_t hash)
{
    spinlock_enter(&spin_lock);
    bool due = asked[at] == hash && is_vacant(at);
    asked[at] = hash;
    spinlock_leave(&spin_lock);
    return due;
}

void kept_jobs_add(const struct kept_jobs_key *key, const struct typed_copy_job jobs[], int n,
                   const struct kept_uses *uses)
{
    uint64_t hash = hash_of(key);
    int at = place_of(hash);
    struct kept_jobs *k = is_due(at, hash) ? made(key, jobs, n, uses) : NULL, *out = k;
    if (!k) return;
    spinlock_enter(&spin_lock);
    if (is_vacant(at)) out = places[at], places[at] = k;
    spinlock_leave(&spin_lock);
    drop(out);
}

void kept_jobs_finish(void)
{
    for (int i = 0; i < PLACES; i++) drop(places[i]), places[i] = NULL;
}
