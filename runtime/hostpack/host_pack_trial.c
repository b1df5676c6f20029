/* host_pack_trial.c: who packs in host memory, the MPI or stridec: turns, and what came of them. See host_pack.h. */
#include "base/env.h"
#include "base/log.h"
#include "host_pack.h"
#include "host_pack_internal.h"
#include <limits.h>

/* The first call of either way meets cold code and is not counted. What is lost is lost for good: where that was
 * close, it takes more turns (1.5 KiB that are packed in 0.03 us, and by the MPI in 0.05, were lost by chance). */
#define TURNS 5
#define TURNS_MOST 25

/* Spans past this are nothing for pack_filter_judge: nothing overflows below. */
#define COUNTED ((int64_t)1 << 60)

/* What a call that is ours costs beside what turns time. */
#define TAX_NS 10

enum verdict { RACING, OURS, THEIRS };
static pthread_mutex_t race_lock = PTHREAD_MUTEX_INITIALIZER;

static struct host_pack_race *race_of(struct kernel *k, enum kernel_direction direction, int64_t bytes)
{
    struct host_pack *n = host_pack_of(k);
    return n ? &n->race[direction][host_pack_class(bytes)] : NULL;
}

/* What was found out with the walk counts until there is code. */
static enum verdict verdict_of(struct host_pack_race *r, struct kernel *k)
{
    enum verdict v = (enum verdict)atomic_load_explicit(&r->verdict, memory_order_acquire);
    if (v == RACING || atomic_load_explicit(&r->compiled, memory_order_relaxed) || !host_pack_code(k)) return v;
    pthread_mutex_lock(&race_lock);
    if (!atomic_exchange(&r->compiled, true)) {
        r->turns[0] = r->turns[1] = 0;
        atomic_store(&r->verdict, RACING);
    }
    pthread_mutex_unlock(&race_lock);
    return (enum verdict)atomic_load(&r->verdict);
}

/* The MPI's way stays where nothing better is to come. */
static bool settled(struct kernel *k, struct host_pack_race *r)
{
    return atomic_load_explicit(&r->compiled, memory_order_relaxed) || !host_pack_hopeful(k);
}

/* False: another thread is at it, and the MPI serves meanwhile. */
static bool take_turn(struct host_pack_call *c, struct host_pack_race *r)
{
    if (pthread_mutex_trylock(&race_lock)) return false;
    if (!r->turns[0] && !r->turns[1]) atomic_store(&r->compiled, host_pack_code(c->layout->kernel) != NULL);
    c->ours = r->turns[1] < r->turns[0];
    pthread_mutex_unlock(&race_lock);
    c->race = r;
    return true;
}

static void turn_taken(struct host_pack_call *c, int64_t took)
{
    struct host_pack_race *r = c->race;
    pthread_mutex_lock(&race_lock);
    int way = c->ours;
    if (r->turns[way]++ == 0 || r->best[way] > took || r->turns[way] == 2) r->best[way] = took;
    bool ours = r->best[1] + TAX_NS <= r->best[0], close = !ours && r->best[1] < 2 * r->best[0];
    int enough = close ? TURNS_MOST : TURNS;
    if (r->turns[0] >= enough && r->turns[1] >= enough && atomic_load(&r->verdict) == RACING) {
        log_write(LOG_INFO, "%lld bytes of %.120s in host memory: %s (%.2f us, the MPI %.2f)", (long long)c->bytes,
                  c->layout->signature, ours ? "stridec packs" : "the MPI packs", (double)r->best[1] / 1e3,
                  (double)r->best[0] / 1e3);
        atomic_store_explicit(&r->verdict, ours ? OURS : THEIRS, memory_order_release);
    }
    pthread_mutex_unlock(&race_lock);
}

static bool usable(const struct layout *l, int64_t count, int64_t bytes)
{
    return bytes >= atomic_load_explicit(&pack_filter_least, memory_order_relaxed) && l->kernel &&
           !layout_contiguous(l, count);
}

/* Calls of these sizes (host_pack_class_bits) need no more questions: host_pack_serve serves them. No sizes: only what
 * serves is set. */
static void make_quick(struct layout *l, enum kernel_direction direction, uint64_t sizes)
{
    struct host_pack_quick *q = &l->quick;
    struct module *m = env_get()->stats ? NULL : host_pack_code(l->kernel);
    const struct stridec_host_list *lists = NULL;
    if (!m || (form_has_lists(l->kernel->form) && !(lists = host_pack_lists(l->kernel)))) return;
    if (atomic_load_explicit(&q->wins[direction], memory_order_relaxed) & sizes) return;
    pthread_mutex_lock(&race_lock);
    if (!q->most) {
        int64_t far = l->extent < 0 ? -l->extent : l->extent;
        q->code[KERNEL_PACK] = m->host[KERNEL_PACK], q->code[KERNEL_UNPACK] = m->host[KERNEL_UNPACK];
        q->lists = lists;
        q->origin = (uint64_t)l->tree->off;
        q->continues = launch_continues(l->kernel->tree, l->extent);
        q->most = COUNTED / (far > l->size ? far : l->size) + 1;
    }
    atomic_fetch_or_explicit(&q->wins[direction], sizes, memory_order_release);
    pthread_mutex_unlock(&race_lock);
}

void host_pack_trust(struct layout *l, int64_t bytes)
{
    uint64_t sizes = host_pack_class_bits(host_pack_class(bytes));
    if (atomic_load_explicit(&l->quick.messages, memory_order_relaxed) & sizes) return;
    make_quick(l, KERNEL_PACK, 0);
    if (l->quick.most) atomic_fetch_or_explicit(&l->quick.messages, sizes, memory_order_release);
}

bool host_pack_begin(struct host_pack_call *c, struct layout *l, enum kernel_direction direction, MPI_Datatype type,
                     int64_t count, int64_t bytes)
{
    *c = (struct host_pack_call){.layout = l, .bytes = bytes, .type = type, .count = count, .direction = direction};
    if (!usable(l, count, bytes) || !atomic_load_explicit(&l->committed, memory_order_relaxed)) return false;
    atomic_fetch_add_explicit(&l->host_worth, pack_filter_worth((uint64_t)bytes), memory_order_relaxed);
    if (env_get()->host == ENV_HOST_ON) {
        c->ours = true;
        make_quick(l, direction, UINT64_MAX);
    } else {
        struct host_pack_race *r = race_of(l->kernel, direction, bytes);
        enum verdict v = r ? verdict_of(r, l->kernel) : THEIRS;
        c->ours = v == OURS;
        if (v == OURS && atomic_load_explicit(&r->compiled, memory_order_relaxed))
            make_quick(l, direction, host_pack_class_bits(host_pack_class(bytes)));
        if (v == RACING) take_turn(c, r);
        if (v == THEIRS && r && settled(l->kernel, r) && count < INT64_MAX)
            pack_filter_raise(type, direction, count + 1);
    }
    if (c->ours) host_pack_count(l);
    if (c->race || env_get()->stats) c->start = stats_now();
    return c->ours;
}

void host_pack_end(struct host_pack_call *c, int rc)
{
    if (rc == MPI_SUCCESS && c->bytes > 0 && !atomic_load_explicit(&c->layout->committed, memory_order_relaxed))
        atomic_store_explicit(&c->layout->committed, true, memory_order_relaxed);
    if (!c->start || rc != MPI_SUCCESS) return;
    int64_t took = stats_now() - c->start;
    if (c->race) turn_taken(c, took);
    if (c->ours && env_get()->stats)
        stats_add(c->layout->stats,
                  &(struct stats_sample){.bytes = c->bytes, .nanoseconds = took, .transport = "host"});
    else if (env_get()->stats)
        stats_left(c->layout->stats,
                   c->race ? "turns of MPI_Pack and MPI_Unpack, to find out who is quicker"
                           : "MPI_Pack and MPI_Unpack, as quick by the MPI: once that is sure, uncounted",
                   c->bytes);
}

/* One turn of a race, on bytes that nobody waits for. False: another thread is at it. */
static bool run_turn(struct host_pack_race *r, struct layout *l, MPI_Datatype type, int64_t count, const void *user,
                     void *packed, MPI_Comm comm)
{
    struct host_pack_call c = {.layout = l, .bytes = layout_bytes(l, count)};
    int at = 0;
    if (!take_turn(&c, r)) return false;
    int64_t start = stats_now();
    if (c.ours) host_pack_pack(l, count, user, packed, 0, c.bytes);
    else PMPI_Pack(user, (int)count, type, packed, (int)c.bytes, &at, comm);
    turn_taken(&c, stats_now() - start);
    return true;
}

int64_t host_pack_saves(struct layout *l, MPI_Datatype type, int64_t count, const void *user, void *packed,
                        MPI_Comm comm)
{
    int64_t bytes = layout_bytes(l, count);
    if (!usable(l, count, bytes) || bytes > INT_MAX || count > INT_MAX) return INT64_MIN;
    if (env_get()->host == ENV_HOST_ON) return INT64_MAX;
    struct host_pack_race *r = host_pack_code(l->kernel) ? race_of(l->kernel, KERNEL_PACK, bytes) : NULL;
    if (!r) return INT64_MIN;
    while (verdict_of(r, l->kernel) == RACING)
        if (!run_turn(r, l, type, count, user, packed, comm)) return INT64_MIN;
    pthread_mutex_lock(&race_lock);
    int64_t saved = r->best[0] - r->best[1];
    pthread_mutex_unlock(&race_lock);
    return saved;
}
