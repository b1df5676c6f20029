/* active.c: see active.h. */
#include "active.h"
#include "base/env.h"
#include "base/log.h"
#include "table_origin.h"
#include <stdlib.h>
#include <unistd.h>

static struct tune_table *table;
static const char *table_file;   /* NULL: built-in */
/* Used if there is no memory for a table. Without figures messages are staged through the host. */
static struct tune_table empty_table;

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
}

const struct tune_table *table_active(const char **file)
{
    if (file) *file = table_file ? table_file : "built-in";
    return table;
}

bool table_from_file(void)
{
    return table_file != NULL;
}
