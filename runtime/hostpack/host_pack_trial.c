/* host_pack_trial.c: times the MPI and stridec at packing in host memory, and keeps the quicker. See host_pack.h. */
#include "base/env.h"
#include "base/log.h"
#include "host_pack.h"
#include "host_pack_internal.h"
#include <limits.h>

/* Trials of each. The first runs cold code and is not counted. A loss is final, so a close one takes TRIALS_MAX
 * trials (1.5 KiB, 0.03 us against the MPI's 0.05, once lost by chance). */
#define TRIALS 5
#define TRIALS_MAX 25

/* filter_pack_judge ignores longer spans, so nothing below overflows. */
#define COUNTED_MAX ((int64_t)1 << 60)

/* Overhead of a stridec call that trials do not time. */
#define OVERHEAD_NS 10

enum verdict { VERDICT_OPEN, VERDICT_STRIDEC, VERDICT_MPI };
static pthread_mutex_t trial_lock = PTHREAD_MUTEX_INITIALIZER;

static struct host_pack_timing *timing_of(struct kernel *k, enum kernel_direction direction, int64_t bytes)
{
    struct host_pack *n = host_pack_of(k);
    return n ? &n->timing[direction][host_pack_class(bytes)] : NULL;
}

/* Returns the verdict. Trials begin again, once, when compiled code becomes ready. */
static enum verdict verdict_of(struct host_pack_timing *r, struct kernel *k)
{
    enum verdict v = (enum verdict)atomic_load_explicit(&r->verdict, memory_order_acquire);
    if (v == VERDICT_OPEN || atomic_load_explicit(&r->compiled, memory_order_relaxed) || !host_pack_code(k)) return v;
    pthread_mutex_lock(&trial_lock);
    if (!atomic_exchange(&r->compiled, true)) {
        r->trials[0] = r->trials[1] = 0;
        atomic_store(&r->verdict, VERDICT_OPEN);
    }
    pthread_mutex_unlock(&trial_lock);
    return (enum verdict)atomic_load(&r->verdict);
}

/* Returns true if the verdict is final: no better code will come. */
static bool settled(struct kernel *k, struct host_pack_timing *r)
{
    return atomic_load_explicit(&r->compiled, memory_order_relaxed) || !host_pack_code_awaited(k);
}

/* Begins a trial. Returns false if another thread is in one; then the MPI packs. */
static bool begin_trial(struct host_pack_call *c, struct host_pack_timing *r)
{
    if (pthread_mutex_trylock(&trial_lock)) return false;
    if (!r->trials[0] && !r->trials[1]) atomic_store(&r->compiled, host_pack_code(c->layout->kernel) != NULL);
    c->ours = r->trials[1] < r->trials[0];
    pthread_mutex_unlock(&trial_lock);
    c->timing = r;
    return true;
}

static void end_trial(struct host_pack_call *c, int64_t took)
{
    struct host_pack_timing *r = c->timing;
    pthread_mutex_lock(&trial_lock);
    int way = c->ours;
    if (r->trials[way]++ == 0 || r->best[way] > took || r->trials[way] == 2) r->best[way] = took;
    bool ours = r->best[1] + OVERHEAD_NS <= r->best[0], close = !ours && r->best[1] < 2 * r->best[0];
    int enough = close ? TRIALS_MAX : TRIALS;
    if (r->trials[0] >= enough && r->trials[1] >= enough && atomic_load(&r->verdict) == VERDICT_OPEN) {
        log_write(LOG_INFO, "%lld bytes of %.120s in host memory: %s (%.2f us, the MPI %.2f)", (long long)c->bytes,
                  c->layout->signature, ours ? "stridec packs" : "the MPI packs", (double)r->best[1] / 1e3,
                  (double)r->best[0] / 1e3);
        atomic_store_explicit(&r->verdict, ours ? VERDICT_STRIDEC : VERDICT_MPI, memory_order_release);
    }
    pthread_mutex_unlock(&trial_lock);
}

static bool usable(const struct layout *l, int64_t count, int64_t bytes)
{
    return bytes >= atomic_load_explicit(&filter_pack_least, memory_order_relaxed) && l->kernel &&
           !layout_contiguous(l, count);
}

/* Lets host_pack_serve take calls of these sizes (host_pack_class_bits) without checks. `sizes` 0: only prepares it. */
static void set_fast(struct layout *l, enum kernel_direction direction, uint64_t sizes)
{
    struct host_pack_quick *q = &l->quick;
    struct module *m = env_get()->timed ? NULL : host_pack_code(l->kernel);
    const struct stridec_host_list *lists = NULL;
    if (!m || (form_has_lists(l->kernel->form) && !(lists = host_pack_lists(l->kernel)))) return;
    if (atomic_load_explicit(&q->wins[direction], memory_order_relaxed) & sizes) return;
    pthread_mutex_lock(&trial_lock);
    if (!q->most) {
        int64_t far = l->extent < 0 ? -l->extent : l->extent;
        q->code[KERNEL_PACK] = m->host[KERNEL_PACK], q->code[KERNEL_UNPACK] = m->host[KERNEL_UNPACK];
        q->lists = lists;
        q->origin = (uint64_t)l->tree->off;
        q->continues = launch_continues(l->kernel->tree, l->extent);
        q->most = COUNTED_MAX / (far > l->size ? far : l->size) + 1;
    }
    atomic_fetch_or_explicit(&q->wins[direction], sizes, memory_order_release);
    pthread_mutex_unlock(&trial_lock);
}

void host_pack_set_fast(struct layout *l, int64_t bytes)
{
    uint64_t sizes = host_pack_class_bits(host_pack_class(bytes));
    if (atomic_load_explicit(&l->quick.messages, memory_order_relaxed) & sizes) return;
    set_fast(l, KERNEL_PACK, 0);
    if (l->quick.most) atomic_fetch_or_explicit(&l->quick.messages, sizes, memory_order_release);
}

bool host_pack_begin(struct host_pack_call *c, struct layout *l, enum kernel_direction direction, MPI_Datatype type,
                     int64_t count, int64_t bytes)
{
    *c = (struct host_pack_call){.layout = l, .bytes = bytes, .type = type, .count = count, .direction = direction};
    if (!usable(l, count, bytes) || !atomic_load_explicit(&l->committed, memory_order_relaxed)) return false;
    atomic_fetch_add_explicit(&l->host_worth, filter_worth((uint64_t)bytes), memory_order_relaxed);
    if (env_get()->on_host.always) {
        c->ours = true;
        set_fast(l, direction, UINT64_MAX);
    } else {
        struct host_pack_timing *r = timing_of(l->kernel, direction, bytes);
        enum verdict v = r ? verdict_of(r, l->kernel) : VERDICT_MPI;
        c->ours = v == VERDICT_STRIDEC;
        if (v == VERDICT_STRIDEC && atomic_load_explicit(&r->compiled, memory_order_relaxed))
            set_fast(l, direction, host_pack_class_bits(host_pack_class(bytes)));
        if (v == VERDICT_OPEN) begin_trial(c, r);
        if (v == VERDICT_MPI && r && settled(l->kernel, r) && count < INT64_MAX)
            filter_raise(type, FILTER_PACK + direction, count + 1);
    }
    if (c->ours) host_pack_count(l);
    if (c->timing || env_get()->timed) c->start = stats_now();
    return c->ours;
}

void host_pack_end(struct host_pack_call *c, int rc)
{
    if (rc == MPI_SUCCESS && c->bytes > 0 && !atomic_load_explicit(&c->layout->committed, memory_order_relaxed))
        atomic_store_explicit(&c->layout->committed, true, memory_order_relaxed);
    if (!c->start || rc != MPI_SUCCESS) return;
    int64_t took = stats_now() - c->start;
    if (c->timing) end_trial(c, took);
    if (c->ours && env_get()->timed)
        layout_moved(c->layout,
                     &(struct stats_sample){.bytes = c->bytes, .nanoseconds = took, .transport = "host",
                                            .state = host_pack_origin(c->layout)});
    else if (env_get()->stats)
        stats_add_passed(c->layout->stats,
                         c->timing ? "turns of MPI_Pack and MPI_Unpack, to find out who is quicker"
                                   : "MPI_Pack and MPI_Unpack, as quick by the MPI: once that is sure, uncounted",
                         c->bytes);
}

/* Runs one trial on unused bytes. Returns false if another thread is in one. */
static bool run_trial(struct host_pack_timing *r, struct layout *l, MPI_Datatype type, int64_t count, const void *user,
                      void *packed, MPI_Comm comm)
{
    struct host_pack_call c = {.layout = l, .bytes = layout_bytes(l, count)};
    int at = 0;
    if (!begin_trial(&c, r)) return false;
    int64_t start = stats_now();
    if (c.ours) host_pack_pack(l, count, user, packed, 0, c.bytes);
    else PMPI_Pack(user, (int)count, type, packed, (int)c.bytes, &at, comm);
    end_trial(&c, stats_now() - start);
    return true;
}

int64_t host_pack_saved_ns(struct layout *l, MPI_Datatype type, int64_t count, const void *user, void *packed,
                           MPI_Comm comm)
{
    int64_t bytes = layout_bytes(l, count);
    if (!usable(l, count, bytes) || bytes > INT_MAX || count > INT_MAX) return INT64_MIN;
    if (env_get()->on_host.always) return INT64_MAX;
    struct host_pack_timing *r = host_pack_code(l->kernel) ? timing_of(l->kernel, KERNEL_PACK, bytes) : NULL;
    if (!r) return INT64_MIN;
    while (verdict_of(r, l->kernel) == VERDICT_OPEN)
        if (!run_trial(r, l, type, count, user, packed, comm)) return INT64_MIN;
    pthread_mutex_lock(&trial_lock);
    int64_t saved = r->best[0] - r->best[1];
    pthread_mutex_unlock(&trial_lock);
    return saved;
}
