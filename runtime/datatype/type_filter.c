/* type_filter.c: the table of datatypes in host memory, and when a type is read. */
#include "type_filter.h"
#include "base/env.h"
#include "tune/active.h"
#include "tune/table.h"
#include <pthread.h>
#include <stdio.h>

#define USES 16          /* uses of a type before it is read; a message that is not short counts as WORTH */
#define WORTH 8
#define PARTS_LEAST SHM_SEND_MIN   /* packed bytes of messages that may travel in several parts */
#define SHORT_LEAST ((int64_t)256)   /* packed bytes of the shortest message that may be packed */

/* MPI_Pack reads a type after this worth of calls: 16 of 4 KiB. It doubles when types are freed before reading them
 * paid, as far as an entry's `worth` can count. */
#define NEEDED_MIN ((uint64_t)16 * FILTER_WORTH)
#define NEEDED_MAX (NEEDED_MIN << 15)
/* worth of calls that pays for reading a layout */
#define PAID ((uint64_t)32 * FILTER_WORTH)

struct filter_entry filter_types[1 << FILTER_BITS][2];
_Atomic(MPI_Datatype) filter_recent[1 << FILTER_BITS][2];
atomic_bool filter_on;
_Atomic int64_t filter_least = INT64_MAX;
_Atomic int64_t filter_coll_least = INT64_MAX;
_Atomic int64_t filter_pack_least = INT64_MAX;
_Atomic uint64_t filter_pack_needed = NEEDED_MIN;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* of all that writes entries; no MPI call under it */
static atomic_long unread;   /* types that are no longer in the table */

static struct filter_rules nothing(const struct layout *l)
{
    (void)l;
    return (struct filter_rules){.sends = INT64_MAX};
}
static struct filter_rules (*rules)(const struct layout *) = nothing;

/* The table. */

static int64_t number(const _Atomic int64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

/* Stores what readers may see only after the type was 0 (filter_number). */
static void set(_Atomic int64_t *n, int64_t value)
{
    atomic_store_explicit(n, value, memory_order_release);
}

static int64_t elements(int64_t bytes, int64_t size)
{
    return size <= 0 || bytes == INT64_MAX ? INT64_MAX : bytes / size + (bytes % size != 0);
}

/* Sets the least counts of collectives. Fewer elements than `whole` arrive in one part; INT64_MAX: none is ever cut. */
static void set_collects(struct filter_entry *e, int64_t collects, int64_t whole)
{
    set(&e->least[FILTER_OUT], collects);
#if PARTS_ARE_WHOLE
    set(&e->least[FILTER_ONE], collects < whole ? collects : whole);
    set(&e->least[FILTER_MANY], whole == INT64_MAX ? collects : 0);
#else
    (void)whole;
#endif
}

/* Fills an entry for t; or empties it, if t is 0 and of no size. Caller holds the lock. */
static void fill(struct filter_entry *e, MPI_Datatype t, int64_t size, const MPI_Count bounds[3])
{
    static unsigned version;
    const int64_t least = number(&filter_least), packs = number(&filter_pack_least);
    const int64_t bytes[FILTER_ASKS] = {
        [FILTER_SEND] = least, [FILTER_RECEIVE] = rts_least(),
        [FILTER_SHORT] = least == INT64_MAX ? least : SHORT_LEAST, [FILTER_PAST] = SHM_SEND_LEAST,
        [FILTER_PACK] = packs, [FILTER_UNPACK] = packs,
    };
    atomic_fetch_or_explicit(&e->version, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&e->type, (MPI_Datatype)0, memory_order_relaxed);
    for (int i = 0; i < FILTER_ASKS; i++) set(&e->least[i], elements(bytes[i], size));
    set_collects(e, elements(number(&filter_coll_least), size), elements(PARTS_LEAST, size));
    set(&e->size, size), set(&e->low, bounds[0]), set(&e->span, bounds[1]), set(&e->extent, bounds[2]);
    atomic_store_explicit(&e->layout, NULL, memory_order_release);
    atomic_store_explicit(&e->worth, 0, memory_order_release);
    atomic_store_explicit(&e->uses, 0, memory_order_release);
    atomic_store_explicit(&e->known, false, memory_order_release);
    atomic_store_explicit(&e->type, t, memory_order_release);
    atomic_store_explicit(&e->version, version += 2, memory_order_release);
}

/* Empties an entry. Caller holds the lock. */
static void empty(struct filter_entry *e)
{
    const MPI_Count none[3] = {0};
    if (env_get()->stats && atomic_load(&e->uses) && !atomic_load(&e->known)) atomic_fetch_add(&unread, 1);
    fill(e, (MPI_Datatype)0, 0, none);
}

/* Returns the entry of t's set that a new type takes: a free one, else the older. */
static struct filter_entry *victim(MPI_Datatype t)
{
    struct filter_entry *e = filter_types[filter_place(t)];
    for (int i = 0; i < 2; i++)
        if (filter_is(e + i, (MPI_Datatype)0)) return e + i;
    return e + ((int)(atomic_load(&e[0].version) - atomic_load(&e[1].version)) > 0);
}

/* Returns t's entry; adds it if needed. Another thread may evict it meanwhile, so that a use is lost or a check is made
 * in vain: both harmless. */
static struct filter_entry *entry_of(MPI_Datatype t)
{
    struct filter_entry *e = filter_lookup(t);
    MPI_Count size = 0, lb, bounds[3] = {0};
    if (e) return e;
    if (PMPI_Type_size_x(t, &size) != MPI_SUCCESS) size = 0;
    PMPI_Type_get_true_extent_x(t, &bounds[0], &bounds[1]);
    PMPI_Type_get_extent_x(t, &lb, &bounds[2]);
    pthread_mutex_lock(&lock);
    e = filter_lookup(t);
    if (!e) fill(e = victim(t), t, size, bounds);
    pthread_mutex_unlock(&lock);
    return e;
}

/* 0 is no type: an erroneous application may free it, and free entries hold it. */
void filter_forget(MPI_Datatype t)
{
    if (t == (MPI_Datatype)0) return;
    filter_recent_forget(t);
    if (!filter_lookup(t)) return;
    pthread_mutex_lock(&lock);
    struct filter_entry *e = filter_lookup(t);
    if (e) empty(e);
    pthread_mutex_unlock(&lock);
}

void filter_raise(MPI_Datatype t, enum filter_ask ask, int64_t least)
{
    pthread_mutex_lock(&lock);
    struct filter_entry *e = filter_lookup(t);
    if (e && number(&e->least[ask]) < least) set(&e->least[ask], least);
    pthread_mutex_unlock(&lock);
}

static void empty_all(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2 << FILTER_BITS; i++)
        if (!filter_is(&filter_types[i / 2][i % 2], (MPI_Datatype)0)) empty(&filter_types[i / 2][i % 2]);
    pthread_mutex_unlock(&lock);
}

void filter_start(int64_t least, int64_t collected, struct filter_rules (*told)(const struct layout *))
{
    const struct tune_table *t = table_active(NULL);
    const struct host_ways *host = &env_get()->on_host;
    int64_t pack_least = host->always ? 1 : host->serves && t ? t->host_least : INT64_MAX;
    rules = told;
    empty_all();
    atomic_store(&filter_least, least), atomic_store(&filter_coll_least, collected);
    atomic_store(&filter_pack_needed, host->always ? 0 : NEEDED_MIN);
    atomic_store(&filter_pack_least, pack_least);
    atomic_store(&filter_on, true);
}

void filter_finish(void)
{
    atomic_store(&filter_on, false);
    atomic_store(&filter_least, INT64_MAX), atomic_store(&filter_coll_least, INT64_MAX);
    atomic_store(&filter_pack_least, INT64_MAX);
    empty_all();
}

long filter_unread(void)
{
    return atomic_load(&unread);
}

/* Reading types. */

static void explain_rule(const struct layout *l, const struct filter_rules *r)
{
    char line[160], few[48] = "";
    if (r->sends != INT64_MAX) snprintf(few, sizeof few, " of fewer than %lld bytes", (long long)r->sends);
    if (!layout_has_gaps(l)) snprintf(line, sizeof line, "contiguous data in host memory");
    else snprintf(line, sizeof line, "sends%s%s in host memory: it moves runs of %lld bytes as quickly", few,
                  r->collects ? "" : ", and collectives,", (long long)l->run);
    stats_set_rule(l->stats, line);
}

/* Notes the rules for messages: from here on counts alone pass sends to the MPI. */
static void learn(MPI_Datatype t, const struct layout *l)
{
    known_layouts_learn(l);
    struct filter_rules r = rules(l);
    if (!layout_has_gaps(l)) r.sends = INT64_MAX;
    if (env_get()->stats && l->tree) explain_rule(l, &r);
    pthread_mutex_lock(&lock);
    struct filter_entry *e = filter_lookup(t);
    if (e) {
        set(&e->least[FILTER_SEND], elements(r.sends, l->size));
        if (r.sends == INT64_MAX || !r.short_msgs) set(&e->least[FILTER_SHORT], INT64_MAX);
        set_collects(e, r.collects ? elements(number(&filter_coll_least), l->size) : INT64_MAX,
                     !l->tree || type_parts_whole(l) ? INT64_MAX : elements(PARTS_LEAST, l->size));
        atomic_store(&e->packed, r.packed);
        atomic_store_explicit(&e->known, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

/* Notes the layout for MPI_Pack. */
static struct layout *learn_pack(MPI_Datatype t, struct layout *l)
{
    known_layouts_learn(l);
    pthread_mutex_lock(&lock);
    struct filter_entry *e = filter_lookup(t);
    if (e) atomic_store_explicit(&e->layout, l, memory_order_release);
    for (int d = 0; d < 2 && e && !layout_has_gaps(l); d++) set(&e->least[FILTER_PACK + d], INT64_MAX);
    pthread_mutex_unlock(&lock);
    return l;
}

static struct layout *read_pack(MPI_Datatype t)
{
    struct layout *l = layout_of(t);
    if (!l) return NULL;
    l->host_read = true;
    return learn_pack(t, l);
}

/* Returns the layout of a handle that was not used before, if that layout is known. */
static struct layout *known_layout(const struct filter_entry *e, MPI_Datatype t, int64_t count,
                                   bool (*gains)(const struct layout *, int64_t))
{
    int64_t bytes;
    return __builtin_mul_overflow(number(&e->size), count, &bytes) ? NULL : known_layouts_layout(t, bytes, gains);
}

static bool used(const struct filter_entry *e)
{
    return atomic_load_explicit(&e->uses, memory_order_relaxed) >= USES || env_get()->on_host.always;
}

bool filter_used(MPI_Datatype t)
{
    return t != MPI_DATATYPE_NULL && used(entry_of(t));
}

static void use_often(struct filter_entry *e)
{
    atomic_store_explicit(&e->uses, USES, memory_order_relaxed);
}

void filter_learn(MPI_Datatype t)
{
    use_often(entry_of(t));
    if (number(&filter_pack_least) != INT64_MAX) read_pack(t);
}

/* Returns true if stridec may serve the message, so that reading its type pays. */
static bool gains(const struct layout *l, int64_t bytes)
{
    struct filter_rules r = rules(l);
    return bytes >= r.sends || r.packed || r.collects;
}

/* Counts a use; returns the layout of a type that has been used often enough, else NULL. */
static struct layout *due(struct filter_entry *e, MPI_Datatype t, int64_t count, unsigned worth)
{
    bool again = used(e);
    if (!again && worth == WORTH && !atomic_load_explicit(&e->uses, memory_order_relaxed)) {
        again = known_layout(e, t, count, gains);
        if (again) use_often(e);
    }
    if (!again) atomic_fetch_add_explicit(&e->uses, worth, memory_order_relaxed);
    struct layout *l = again ? layout_of(t) : NULL;
    if (l && !atomic_load_explicit(&e->known, memory_order_relaxed)) learn(t, l);
    return l && l->kernel ? l : NULL;
}

/* Messages and collectives. */

/* Returns true if no message of t is stridec's. */
static bool sends_nothing(MPI_Datatype t)
{
    return t == MPI_DATATYPE_NULL || number(&filter_least) == INT64_MAX || host_type_plain(t);
}

/* Counts a use of elements of at least the entry's count; as due. */
static struct layout *due_from(enum filter_ask ask, MPI_Datatype t, int64_t count, unsigned worth)
{
    struct filter_entry *e = sends_nothing(t) ? NULL : entry_of(t);
    struct layout *l = e && count >= number(&e->least[ask]) ? due(e, t, count, worth) : NULL;
    return l && !layout_contiguous(l, count) ? l : NULL;
}

struct layout *filter_sends(MPI_Datatype t, int64_t count)
{
    struct layout *l = due_from(FILTER_SEND, t, count, WORTH);
    return l && layout_bytes(l, count) >= number(&filter_least) ? l : NULL;
}

struct layout *filter_packs_short(MPI_Datatype t, int64_t count)
{
    struct layout *l = due_from(FILTER_SHORT, t, count, 1);
    return l && rules(l).short_msgs && layout_bytes(l, count) < number(&filter_least) ? l : NULL;
}

struct layout *filter_packed(MPI_Datatype t, int64_t count)
{
    bool long_enough = !sends_nothing(t) && filter_receives(t, count);
    struct layout *l = long_enough ? due(entry_of(t), t, count, WORTH) : NULL;
    return l && rules(l).packed && layout_bytes(l, count) >= 0 && !layout_contiguous(l, count) ? l : NULL;
}

bool filter_direct(MPI_Datatype t)
{
    const struct filter_entry *e = filter_lookup(t);
    return e && atomic_load_explicit(&e->known, memory_order_acquire) &&
           !atomic_load_explicit(&e->packed, memory_order_acquire) && filter_is(e, t);
}

bool filter_receives(MPI_Datatype t, int64_t count)
{
    if (t == MPI_DATATYPE_NULL || !rts_armed()) return false;
    const struct filter_entry *e = entry_of(t);
    return count >= filter_number(&e->least[FILTER_RECEIVE]) || !filter_is(e, t);
}

int filter_ranks(MPI_Comm comm)
{
    int inter = 1, ranks = -1;
    if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter) return -1;
    return PMPI_Comm_size(comm, &ranks) == MPI_SUCCESS ? ranks : -1;
}

bool filter_at_root(int root, MPI_Comm comm)
{
    int rank = root;
    PMPI_Comm_rank(comm, &rank);
    return rank == root;
}

bool filter_list_ignores(enum filter_ask part, int ranks, const int counts[], MPI_Datatype type,
                         const MPI_Datatype types[])
{
    if (!types && filter_collective_ignores(part, type, FILTER_COUNTS)) return true;
    for (int i = 0; i < ranks; i++)
        if (!filter_collective_ignores(part, types ? types[i] : type, counts[i])) return false;
    return true;
}

static bool all_parts_whole(const struct filter_entry *e, MPI_Datatype t)
{
    return filter_is(e, t) && filter_number(&e->least[FILTER_MANY]) && filter_is(e, t);
}

bool filter_whole(MPI_Datatype t, int64_t count)
{
    if (!PARTS_ARE_WHOLE || t == MPI_DATATYPE_NULL || host_type_plain(t) || !rts_armed()) return true;
    struct filter_entry *e = entry_of(t);
    if (all_parts_whole(e, t)) return true;
    bool one = count < elements(PARTS_LEAST, filter_number(&e->size)) && filter_is(e, t);
    if (!one) use_often(e);
    due(e, t, count, WORTH);
    return one || all_parts_whole(e, t);
}

bool filter_gains(MPI_Datatype t, int64_t count)
{
    return t != MPI_DATATYPE_NULL && !host_type_plain(t) && count >= number(&entry_of(t)->least[FILTER_OUT]);
}

bool filter_collects(MPI_Datatype t, int64_t count)
{
    return t != MPI_DATATYPE_NULL && (host_type_plain(t) || due(entry_of(t), t, count, WORTH));
}

/* MPI_Pack and MPI_Unpack. */

/* Returns the layout that an entry holds for t; NULL if another type takes the entry meanwhile. */
static struct layout *entry_layout(const struct filter_entry *e, MPI_Datatype t)
{
    unsigned version = atomic_load_explicit(&e->version, memory_order_acquire);
    struct layout *l = atomic_load_explicit(&e->layout, memory_order_acquire);
    bool same = filter_is(e, t) && !(version & 1);
    return same && version == atomic_load_explicit(&e->version, memory_order_relaxed) ? l : NULL;
}

struct layout *filter_pack_layout(enum kernel_direction d, MPI_Datatype t, int64_t count)
{
    if (t == MPI_DATATYPE_NULL || number(&filter_pack_least) == INT64_MAX) return NULL;
    const struct filter_entry *e = entry_of(t);
    struct layout *l = entry_layout(e, t);
    if (l) return l;
    /* filter_pack_judge has counted the call, except for types that were not in the table. */
    uint64_t worth = atomic_load_explicit(&e->worth, memory_order_relaxed);
    if (worth <= FILTER_WORTH && (l = known_layout(e, t, count, NULL))) return learn_pack(t, l);
    bool enough = worth >= atomic_load_explicit(&filter_pack_needed, memory_order_relaxed);
    return enough && count >= number(&e->least[FILTER_PACK + d]) ? read_pack(t) : NULL;
}

/* Returns true if a layout that was read for another reason has been used before. */
static bool known_reused(const struct layout *l, int64_t bytes)
{
    if (bytes < KNOWN_LAYOUTS_LEAST) return false;
    if (known_layouts_returns(l)) return true;
    kernel_use(l->kernel, 1);
    return false;
}

bool filter_pack_admits(MPI_Datatype t, struct layout *l, int64_t bytes)
{
    int64_t least = number(&filter_pack_least);
    struct filter_entry *e = least == INT64_MAX ? NULL : entry_of(t);
    if (bytes < least) return false;
    if (entry_layout(e, t) == l) return true;
    if (layout_has_gaps(l) && !filter_pack_due(e, (uint64_t)bytes) && !known_reused(l, bytes)) return false;
    return learn_pack(t, l);
}

/* Doubles the needed worth if a type is freed before it has paid. */
void filter_pack_layout_ends(const struct layout *l)
{
    uint64_t needed = atomic_load(&filter_pack_needed);
    if (env_get()->on_host.always) return;
    /* For calls served without checking their bytes one element is counted. */
    if (atomic_load(&l->host_worth) + atomic_load(&l->host_served) * filter_worth((uint64_t)l->size) >= PAID)
        atomic_store(&filter_pack_needed, NEEDED_MIN);
    else if (needed < NEEDED_MAX) atomic_store(&filter_pack_needed, needed * 2);
}
