/* type_filter.c: the table of datatypes of messages in host memory. */
#include "type_filter.h"
#include "base/env.h"
#include "known_layouts.h"
#include <pthread.h>
#include <stdio.h>

#define USES 16          /* uses of a type before it is read; a message that is not short counts as WORTH */
#define WORTH 8
#define PARTS_LEAST SHM_SEND_MIN   /* packed bytes of messages that may travel in several parts */
#define BRIEF ((int64_t)256)   /* packed bytes of the shortest message that may be packed */

struct filter_entry filter_types[1 << FILTER_BITS];
_Atomic int64_t filter_least = INT64_MAX;
_Atomic int64_t filter_coll_least = INT64_MAX;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct filter_rules nothing(const struct layout *l)
{
    (void)l;
    return (struct filter_rules){.sends = INT64_MAX};
}
static struct filter_rules (*rules)(const struct layout *) = nothing;

static int64_t elements(int64_t bytes, int64_t size)
{
    return size <= 0 || bytes == INT64_MAX ? INT64_MAX : bytes / size + (bytes % size != 0);
}

/* Sets the least counts of collectives. Fewer elements than `whole` arrive in one part; INT64_MAX: none is ever cut. */
static void set_collects(struct filter_entry *s, int64_t collects, int64_t whole)
{
    atomic_store(&s->collects[FILTER_OUT], collects);
#if PARTS_ARE_WHOLE
    atomic_store(&s->collects[FILTER_ONE], collects < whole ? collects : whole);
    atomic_store(&s->collects[FILTER_MANY], whole == INT64_MAX ? collects : 0);
#else
    (void)whole;
#endif
}

/* Returns t's slot, evicting another type. A concurrent reader may miss its turn or check in vain: both harmless. */
static struct filter_entry *slot_of(MPI_Datatype t)
{
    struct filter_entry *s = filter_of(t);
    MPI_Count size = 0;
    if (atomic_load_explicit(&s->type, memory_order_acquire) == t) return s;
    PMPI_Type_size_x(t, &size);
    pthread_mutex_lock(&lock);
    atomic_store(&s->type, (MPI_Datatype)0);
    int64_t least = atomic_load(&filter_least);
    atomic_store(&s->least[FILTER_SEND], elements(least, size));
    atomic_store(&s->least[FILTER_RECEIVE], elements(rts_least(), size));
    atomic_store(&s->brief, least == INT64_MAX ? INT64_MAX : elements(BRIEF, size));
    atomic_store(&s->past, elements(SHM_SEND_LEAST, size));
    set_collects(s, elements(atomic_load(&filter_coll_least), size), elements(PARTS_LEAST, size));
    atomic_store(&s->uses, 0);
    atomic_store(&s->known, false);
    atomic_store_explicit(&s->type, t, memory_order_release);
    pthread_mutex_unlock(&lock);
    return s;
}

static atomic_long unread;   /* freed types among them */

static bool is_unread(const struct filter_entry *s)
{
    return atomic_load(&s->type) != (MPI_Datatype)0 && atomic_load(&s->uses) && !atomic_load(&s->known);
}

long filter_unread(void)
{
    long n = atomic_load(&unread);
    for (int i = 0; i < 1 << FILTER_BITS && env_get()->stats; i++) n += is_unread(&filter_types[i]);
    return n;
}

void filter_forget(MPI_Datatype t)
{
    struct filter_entry *s = filter_of(t);
    pthread_mutex_lock(&lock);
    if (env_get()->stats && atomic_load(&s->type) == t && is_unread(s)) atomic_fetch_add(&unread, 1);
    if (atomic_load(&s->type) == t) atomic_store(&s->type, (MPI_Datatype)0);
    pthread_mutex_unlock(&lock);
}

static void explain_rule(const struct layout *l, int64_t least)
{
    char line[160], few[48] = "";
    if (least != INT64_MAX) snprintf(few, sizeof few, " of fewer than %lld bytes", (long long)least);
    if (!l->kernel || layout_contiguous(l, 2)) snprintf(line, sizeof line, "contiguous data in host memory");
    else snprintf(line, sizeof line, "sends%s%s in host memory: it moves runs of %lld bytes as quickly", few,
                  rules(l).collects ? "" : ", and collectives,", (long long)l->run);
    stats_set_rule(l->stats, line);
}

/* Reads the rules: from here on counts alone pass sends to the MPI. */
static void learn(struct filter_entry *s, MPI_Datatype t, const struct layout *l)
{
    known_layouts_learn(l);
    struct filter_rules r = rules(l);
    int64_t least = l->kernel && !layout_contiguous(l, 2) ? r.sends : INT64_MAX;
    if (env_get()->stats && l->tree) explain_rule(l, least);
    pthread_mutex_lock(&lock);
    if (atomic_load(&s->type) == t) {
        atomic_store(&s->least[FILTER_SEND], elements(least, l->size));
        if (least == INT64_MAX || !r.short_msgs) atomic_store(&s->brief, INT64_MAX);
        set_collects(s, r.collects ? elements(atomic_load(&filter_coll_least), l->size) : INT64_MAX,
                     !l->tree || type_parts_whole(l) ? INT64_MAX : elements(PARTS_LEAST, l->size));
        atomic_store(&s->packed, r.packed);
        atomic_store_explicit(&s->known, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

bool filter_direct(MPI_Datatype t)
{
    const struct filter_entry *s = filter_of(t);
    return filter_is(s, t) && atomic_load_explicit(&s->known, memory_order_acquire) &&
           !atomic_load_explicit(&s->packed, memory_order_acquire) && filter_is(s, t);
}

static bool used(const struct filter_entry *s)
{
    return atomic_load_explicit(&s->uses, memory_order_relaxed) >= USES || env_get()->host == ENV_HOST_ON;
}

bool filter_used(MPI_Datatype t)
{
    return t != MPI_DATATYPE_NULL && used(slot_of(t));
}

void filter_learn(MPI_Datatype t)
{
    if (t != MPI_DATATYPE_NULL) atomic_store_explicit(&slot_of(t)->uses, USES, memory_order_relaxed);
}

/* Returns true if stridec may serve the message, so that reading its type pays. */
static bool gains(const struct layout *l, int64_t bytes)
{
    struct filter_rules r = rules(l);
    return bytes >= r.sends || r.packed || r.collects;
}

/* Returns true if another type with this layout has been used before. */
static bool returns(struct filter_entry *s, MPI_Datatype t, int64_t count)
{
    MPI_Count size = 0;
    int64_t bytes;
    if (PMPI_Type_size_x(t, &size) != MPI_SUCCESS || __builtin_mul_overflow(size, count, &bytes)) return false;
    if (!known_layouts_layout(t, bytes, gains)) return false;
    atomic_store_explicit(&s->uses, USES, memory_order_relaxed);
    return true;
}

/* Counts a use; returns the layout of a type that has been used often enough, else NULL. */
static struct layout *due(struct filter_entry *s, MPI_Datatype t, int64_t count, unsigned worth)
{
    bool again = used(s);
    if (!again && worth == WORTH && !atomic_load_explicit(&s->uses, memory_order_relaxed)) again = returns(s, t, count);
    if (!again) atomic_fetch_add_explicit(&s->uses, worth, memory_order_relaxed);
    struct layout *l = again ? layout_of(t) : NULL;
    if (l && !atomic_load_explicit(&s->known, memory_order_relaxed)) learn(s, t, l);
    return l && l->kernel ? l : NULL;
}

struct layout *filter_sends(MPI_Datatype t, int64_t count)
{
    int64_t least = atomic_load_explicit(&filter_least, memory_order_relaxed);
    if (t == MPI_DATATYPE_NULL || least == INT64_MAX || host_type_plain(t)) return NULL;
    struct filter_entry *s = slot_of(t);
    struct layout *l =
        count >= atomic_load_explicit(&s->least[FILTER_SEND], memory_order_relaxed) ? due(s, t, count, WORTH) : NULL;
    return l && layout_bytes(l, count) >= least && !layout_contiguous(l, count) ? l : NULL;
}

struct layout *filter_packs_short(MPI_Datatype t, int64_t count)
{
    int64_t full = atomic_load_explicit(&filter_least, memory_order_relaxed);
    if (t == MPI_DATATYPE_NULL || full == INT64_MAX || host_type_plain(t)) return NULL;
    struct filter_entry *s = slot_of(t);
    struct layout *l = count >= atomic_load_explicit(&s->brief, memory_order_relaxed) ? due(s, t, count, 1) : NULL;
    return l && rules(l).short_msgs && layout_bytes(l, count) < full && !layout_contiguous(l, count) ? l : NULL;
}

void filter_raise_short(MPI_Datatype t, int64_t elements)
{
    struct filter_entry *s = filter_of(t);
    pthread_mutex_lock(&lock);
    if (atomic_load(&s->type) == t && elements > atomic_load(&s->brief)) atomic_store(&s->brief, elements);
    pthread_mutex_unlock(&lock);
}

struct layout *filter_packed(MPI_Datatype t, int64_t count)
{
    bool none = atomic_load_explicit(&filter_least, memory_order_relaxed) == INT64_MAX;
    if (none || host_type_plain(t) || !filter_receives(t, count)) return NULL;
    struct layout *l = due(slot_of(t), t, count, WORTH);
    return l && rules(l).packed && layout_bytes(l, count) >= 0 && !layout_contiguous(l, count) ? l : NULL;
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

bool filter_list_ignores(enum filter_part part, int ranks, const int counts[], MPI_Datatype type,
                         const MPI_Datatype types[])
{
    if (!types && filter_collective_ignores(part, type, FILTER_COUNTS)) return true;
    for (int i = 0; i < ranks; i++)
        if (!filter_collective_ignores(part, types ? types[i] : type, counts[i])) return false;
    return true;
}

#if PARTS_ARE_WHOLE
static bool all_parts_whole(const struct filter_entry *s, MPI_Datatype t)
{
    return filter_is(s, t) && filter_number(&s->collects[FILTER_MANY]) && filter_is(s, t);
}

bool filter_whole(MPI_Datatype t, int64_t count)
{
    MPI_Count size = 0;
    if (t == MPI_DATATYPE_NULL || host_type_plain(t) || !rts_armed()) return true;
    struct filter_entry *s = slot_of(t);
    if (all_parts_whole(s, t)) return true;
    PMPI_Type_size_x(t, &size);
    bool one = count < elements(PARTS_LEAST, size);
    if (!one) filter_learn(t);
    due(s, t, count, WORTH);
    return one || all_parts_whole(s, t);
}
#else
bool filter_whole(MPI_Datatype t, int64_t count)
{
    return (void)t, (void)count, true;
}
#endif

bool filter_gains(MPI_Datatype t, int64_t count)
{
    if (t == MPI_DATATYPE_NULL || host_type_plain(t)) return false;
    return count >= atomic_load_explicit(&slot_of(t)->collects[FILTER_OUT], memory_order_relaxed);
}

bool filter_collects(MPI_Datatype t, int64_t count)
{
    return t != MPI_DATATYPE_NULL && (host_type_plain(t) || due(slot_of(t), t, count, WORTH));
}

bool filter_receives(MPI_Datatype t, int64_t count)
{
    if (t == MPI_DATATYPE_NULL || !rts_armed()) return false;
    const struct filter_entry *s = slot_of(t);
    return count >= filter_number(&s->least[FILTER_RECEIVE]) || !filter_is(s, t);
}

void filter_start(int64_t least, int64_t collected, struct filter_rules (*told)(const struct layout *))
{
    rules = told;
    atomic_store(&filter_least, least), atomic_store(&filter_coll_least, collected);
}
