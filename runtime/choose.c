/* choose.c: which transport a message takes. */
#include "choose.h"
#include "env.h"
#include "host.h"
#include "log.h"
#include "place.h"
#include "transport.h"
#include "tune_table.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tune_table *table;
static const char *table_file;   /* NULL: built-in */

void choose_start(void)
{
    struct reason why;
    const struct env *e = env_get();
    if (e->tune && (e->tune_named || !access(e->tune, F_OK))) {
        table = tune_read(e->tune, &why);
        if (table) table_file = e->tune;
        else log_write(LOG_WARN, "%s; using the built-in figures", why.text);
    }
    if (!table) table = tune_parse(tune_builtin, "built-in", &why);
}

void choose_finish(void)
{
    free(table);
    table = NULL, table_file = NULL;
}

const struct tune_table *choose_table(const char **file)
{
    *file = table_file ? table_file : "built-in";
    return table;
}

/* Open MPI and MPICH each have a query of their own; neither is declared everywhere. */
static bool ask_aware(void)
{
    int (*open_mpi)(void), (*mpich)(int, int *);
    *(void **)&open_mpi = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    *(void **)&mpich = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
    int supported = 0;
    if (open_mpi) return open_mpi() == 1;
    return mpich && mpich(0, &supported) == MPI_SUCCESS && supported;   /* 0: MPIX_GPU_SUPPORT_CUDA */
}

bool mpi_cuda_aware(void)
{
    static atomic_int known;   /* 0: not asked, 1: no, 2: yes */
    int k = atomic_load_explicit(&known, memory_order_relaxed);
    if (!k) {
        k = ask_aware() ? 2 : 1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
        atomic_store_explicit(&host_aware, k == 2, memory_order_relaxed);
    }
    return k == 2;
}

/* ORDER TUNE_WAY */
static const struct transport *const transports[TUNE_WAYS] = {
    &transport_device, &transport_oneshot, &transport_staged,
};

/* A table that was measured on another GPU is worth a word. Only GPUs in use are looked at: asking for the default one
 * would make a context on a GPU that the process may not use. */
static void check_machine(void)
{
    struct device *d = table_file ? device_first() : NULL;
    if (d && strcmp(d->name, table->machine))
        log_once(LOG_WARN, "table machine", "%s was measured on %s, this is %s: run `stridec tune` again", table_file,
                 table->machine, d->name);
}

static const struct transport *forced(void)
{
    switch (env_get()->transport) {
    case ENV_DEVICE:
        if (mpi_cuda_aware()) return &transport_device;
        log_once(LOG_WARN, "device", "STRIDEC_TRANSPORT=device needs a CUDA-aware MPI, and this one is not: choosing by "
                                     "the table");
        return NULL;
    case ENV_ONESHOT: return &transport_oneshot;
    case ENV_STAGED: return &transport_staged;
    default: return NULL;
    }
}

static enum tune_way consult(struct layout *l, int64_t count, int64_t bytes, bool aware)
{
    check_machine();
    enum tune_way w = layout_contiguous(l, count)
                          ? (aware ? TUNE_DEVICE : TUNE_ONESHOT)
                          : tune_choose(table, aware, (double)l->block, (double)bytes);
    log_write(LOG_INFO, "%lld bytes of %.120s: %s, by %s (%.1f us expected)", (long long)bytes, l->signature,
              tune_way_name(w), table_file ? table_file : "built-in figures",
              tune_way_time(table, w, (double)l->block, (double)bytes));
    return w;
}

/* The last choice of a layout is kept, for either kind of peer: bytes and way in one word, so that threads never see a
 * mix. */
const struct transport *transport_choose(struct layout *l, int64_t count, int64_t bytes, bool host_only)
{
    const struct transport *t = forced();
    if (t) return t;
    bool aware = mpi_cuda_aware() && !host_only;
    _Atomic uint64_t *choice = &l->choice[aware];
    uint64_t key = (uint64_t)bytes << 2, last = atomic_load_explicit(choice, memory_order_relaxed);
    if (last && (last & ~(uint64_t)3) == key) return transports[(last & 3) - 1];
    enum tune_way w = consult(l, count, bytes, aware);
    atomic_store_explicit(choice, key | ((uint64_t)w + 1), memory_order_relaxed);
    return transports[w];
}
