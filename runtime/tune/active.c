/* active.c: see active.h. */
#include "active.h"
#include "base/env.h"
#include "base/log.h"
#include "table_fit.h"
#include "table_origin.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tune_table *table;
static const char *table_file;   /* NULL: built-in */
/* Used if there is no memory for a table. Without figures messages are staged through the host. */
static struct tune_table empty_table;
static _Atomic(struct tune_table *) fitted;   /* made at the first table_for */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void warn_if_other_version(void)
{
    struct reason why;
    if (tune_other_mpi(table, &why)) log_write(LOG_WARN, "%s %s: run `stridec tune` again", table_file, why.text);
    if (tune_other_stridec(table, &why)) log_write(LOG_WARN, "%s %s: run `stridec tune` again", table_file, why.text);
}

void table_start(void)
{
    struct reason why;
    const struct env *e = env_get();
    if (e->tune && (e->tune_named || !access(e->tune, F_OK))) {
        table = tune_read(e->tune, &why);
        if (table) table_file = e->tune;
        else log_write(LOG_WARN, "%s; using the built-in figures", why.text);
    }
    if (table_file) warn_if_other_version();
    if (!table) table = tune_parse(tune_builtin, "built-in", &why);
    if (table) return;
    empty_table.host_least = TUNE_HOST_LEAST, empty_table.pipeline = CHUNK_SETTINGS_DEFAULT;
    table = &empty_table;
    log_write(LOG_WARN, "%s; choosing without figures", why.text);
}

void table_finish(void)
{
    if (table != &empty_table) free(table);
    table = NULL, table_file = NULL;
    free(atomic_exchange(&fitted, NULL));
}

const struct tune_table *table_active(const char **file)
{
    if (file) *file = table_file ? table_file : "built-in";
    return table;
}

static struct tune_table *fit(const struct gen_gpu *gpu)
{
    pthread_mutex_lock(&lock);
    struct tune_table *t = atomic_load(&fitted);
    if (!t && (t = malloc(sizeof *t))) {
        memcpy(t, table, sizeof *t);
        tune_fit(t, gpu);
        atomic_store_explicit(&fitted, t, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return t;
}

const struct tune_table *table_for(const struct gen_gpu *gpu)
{
    if (!gpu || !table || table == &empty_table || (table_file && !table->borrowed)) return table;
    const struct tune_table *t = atomic_load_explicit(&fitted, memory_order_acquire);
    if (!t) t = fit(gpu);
    return t ? t : table;
}

bool table_from_file(void)
{
    return table_file != NULL;
}
