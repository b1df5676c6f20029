/* select.c: selects the transport of a message. */
#include "select.h"
#include "base/env.h"
#include "base/log.h"
#include "device/device_internal.h"
#include "device/host_range.h"
#include "transport.h"
#include "tune/active.h"
#include "tune/table_origin.h"

/* ORDER TUNE_TRANSPORT */
static const struct transport *const transports[TUNE_TRANSPORTS] = {
    &transport_device, &transport_oneshot, &transport_staged,
};

/* Returns true if the table's curves were measured on another GPU. Warns about that, and about kernel settings from
 * another GPU. Checks only GPUs in use: the default GPU would get a context, and the process may not use it. */
static bool table_is_foreign(void)
{
    struct reason why;
    const char *file;
    const struct tune_table *table = table_active(&file);
    struct device *d = table_from_file() ? device_first() : NULL;
    if (!d || !tune_other_machine(table, d->name, &why)) return false;
    log_once(LOG_WARN, "table machine", "%s %s: run `stridec tune` again", file, why.text);
    return !table->borrowed;
}

/* Warns if the table was made under an MPI without device memory, and this MPI takes it: it is never selected. */
static void check_aware(bool aware)
{
    const char *file;
    const struct tune_table *table = table_active(&file);
    if (aware && table_from_file() && !table->grid[TUNE_MESSAGE_DEVICE].blocks)
        log_once(LOG_WARN, "table aware", "%s has no figures of messages from device memory, which this MPI takes: run "
                                          "`stridec tune` again", file);
}

static const struct transport *forced(void)
{
    switch (env_get()->ways.packed) {
    case PACKED_DEVICE:
        if (mpi_cuda_aware()) return &transport_device;
        log_once(LOG_WARN, "device",
                 "STRIDEC_TRANSPORT=device needs a CUDA-aware MPI, and this one is not: choosing by "
                 "the table");
        return NULL;
    case PACKED_ONESHOT: return &transport_oneshot;
    case PACKED_STAGED: return &transport_staged;
    default: return NULL;
    }
}

static struct tune_verdict judge(const struct layout *l, int64_t count, int64_t bytes, bool aware)
{
    struct tune_message m = {aware, layout_contiguous(l, count), table_is_foreign(), (double)l->block, (double)bytes};
    check_aware(aware);
    struct device *d = device_first();
    return tune_judge(table_for(d ? &d->gpu : NULL), &m);
}

/* Returns the last answer for a layout; -1 if for other bytes. Bytes and answer share a word, so are consistent. */
static int recall(_Atomic uint64_t *choice, int64_t bytes)
{
    uint64_t last = atomic_load_explicit(choice, memory_order_relaxed);
    return last && last >> 2 == (uint64_t)bytes ? (int)(last & 3) - 1 : -1;
}

static int keep(_Atomic uint64_t *choice, int64_t bytes, int answer)
{
    atomic_store_explicit(choice, (uint64_t)bytes << 2 | (uint64_t)(answer + 1), memory_order_relaxed);
    return answer;
}

const struct transport *transport_choose(struct layout *l, int64_t count, int64_t bytes, bool host_only)
{
    const struct transport *t = forced();
    if (t) return t;
    bool aware = mpi_cuda_aware() && !host_only;
    _Atomic uint64_t *choice = &l->choice[aware];
    int way = recall(choice, bytes);
    return transports[way >= 0 ? way : keep(choice, bytes, judge(l, count, bytes, aware).way)];
}

bool transport_zerocopy(struct layout *l, int64_t count, int64_t bytes)
{
    if (env_get()->ways.zerocopy_always || !table_active(NULL)->grid[TUNE_ZEROCOPY].blocks) return true;
    int answer = recall(&l->offered, bytes);
    return answer >= 0 ? answer : keep(&l->offered, bytes, judge(l, count, bytes, mpi_cuda_aware()).direct);
}

static bool is_forced(bool direct)
{
    const struct transport_ways *w = &env_get()->ways;
    if (direct) return w->zerocopy_always;
    return w->packed != PACKED_BY_TABLE && (w->packed != PACKED_DEVICE || mpi_cuda_aware());
}

void select_explain(const struct layout *l, int64_t count, int64_t bytes, bool direct, char why[TUNE_WHY_MAX])
{
    const char *file;
    bool own = !table_active(&file)->borrowed && table_from_file();
    struct tune_verdict v = judge(l, count, bytes, mpi_cuda_aware());
    if (is_forced(direct)) snprintf(why, TUNE_WHY_MAX, "by STRIDEC_TRANSPORT");
    else tune_explain(&v, direct, own ? file : "built-in figures", why);
}
