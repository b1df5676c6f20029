#include "kernel_knobs.h"
#include "../../gen/form.h"
#include "base/env.h"
#include "base/log.h"
#include "tune/active.h"
#include "tune/table_knobs.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char variable[] = "STRIDEC_KNOBS";

/* Settings of STRIDEC_KNOBS by direction; read once. */
static const char *debugging[2];

static void read_part(const char *part, size_t length)
{
    const char *colon = memchr(part, ':', length);
    int direction = colon ? tune_direction_of(part, (size_t)(colon - part)) : -1;
    if (direction >= 0)
        debugging[direction] = strndup(colon + 1, length - (size_t)(colon + 1 - part));
    else if (length)
        log_once(LOG_WARN, variable, "%s: %.*s is not `pack:SETTINGS` or `unpack:SETTINGS`", variable, (int)length,
                 part);
}

static void read_variable(void)
{
    const char *at = env_get()->knobs;
    while (at && *at) {
        size_t length = strcspn(at, ";");
        read_part(at, length);
        at += length + (at[length] == ';');
    }
}

static int64_t block_of(const struct form *f, const struct form_node *n)
{
    while (n->kind == FORM_STRIDE || n->kind == FORM_INDEX || n->kind == FORM_TABLE) n = n->child[0];
    if (n->kind == FORM_BLOCKS) return 0;
    if (n->kind == FORM_SEQ) return n->varies ? f->word : n->size / n->count;
    return n->size;
}

void kernel_knobs_measure(const struct form *f, int64_t *block, int64_t *bytes)
{
    *block = f->root ? block_of(f, f->root) : 0;
    *bytes = f->plan_bytes;
}

static struct knobs by_table(const struct form *f, const struct device *d, enum gen_direction direction)
{
    const char *file;
    int64_t block, bytes;
    const struct tune_table *t = table_active(&file);
    if (!t || strcmp(t->machine, d->name)) return (struct knobs){0};
    kernel_knobs_measure(f, &block, &bytes);
    const struct tune_knobs *row = tune_knobs_find(t, direction, form_family(f), block, bytes);
    return row && *row->settings ? (struct knobs){row->settings, file, row->line} : (struct knobs){0};
}

struct knobs kernel_knobs_for(const struct form *f, const struct device *d, enum gen_direction direction)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_variable);
    if (!f->root) return (struct knobs){0};   /* the interpreter's code is for all types */
    if (debugging[direction]) return (struct knobs){debugging[direction], variable, 0};
    struct knobs k = by_table(f, d, direction);
    if (k.text || !env_get()->sm_limit) return k;
    return (struct knobs){"threads=1024 each=4", "STRIDEC_SM_LIMIT", 0};
}

char *kernel_knobs_text(const char *const knobs[2])
{
    char *text;
    const char *pack = knobs[GEN_PACK], *unpack = knobs[GEN_UNPACK];
    int made = asprintf(&text, "%s%s%s%s%s", pack ? "pack:" : "", pack ? pack : "", pack && unpack ? ";" : "",
                        unpack ? "unpack:" : "", unpack ? unpack : "");
    return made < 0 ? NULL : text;
}
