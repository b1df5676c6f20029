/* active.c: see active.h. */
#include "active.h"
#include "base/env.h"
#include "base/log.h"
#include "table_origin.h"
#include <stdlib.h>
#include <unistd.h>

static struct tune_table *table;
static const char *table_file;   /* NULL: built-in */
/* Serves where there is no memory for a table: without figures, messages go by the host. */
static struct tune_table bare;

static void check_versions(void)
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
    if (table_file) check_versions();
    if (!table) table = tune_parse(tune_builtin, "built-in", &why);
    if (table) return;
    bare.host_least = TUNE_HOST_LEAST, bare.pipeline = TUNE_PIPELINE_USUAL;
    table = &bare;
    log_write(LOG_WARN, "%s; choosing without figures", why.text);
}

void table_finish(void)
{
    if (table != &bare) free(table);
    table = NULL, table_file = NULL;
}

const struct tune_table *table_active(const char **file)
{
    if (file) *file = table_file ? table_file : "built-in";
    return table;
}

bool table_is_read(void)
{
    return table_file != NULL;
}
