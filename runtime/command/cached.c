/* cached.c: stridec inspect --cache: lists the modules of the cache folder. */
#include "command.h"
#include "kernel/module_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER ORIGIN: the order of the list. */
enum origin { OWN, FOREIGN, DAMAGED, ORIGINS };
static const char *const ORIGIN[] = {"this", "another", "damaged"};

/* A module and the parts of its key (module_cache.h). */
struct module {
    char *file, *key;
    const char *made_for, *type;   /* parts of key; type: with all that follows it */
    enum origin origin;
    size_t bytes;
};

struct list {
    struct module *module;
    size_t count, room;
    bool full;   /* out of memory */
};

/* Splits a key, "sm_90 VERSION TYPE ...". */
static void read_key(struct module *m)
{
    char *rest = m->key;
    m->made_for = strsep(&rest, " ");
    const char *version = strsep(&rest, " ");
    m->origin = version && strcmp(version, gen_version()) == 0 ? OWN : FOREIGN;
    m->type = rest ? rest : "";
}

static void add_module(void *arg, const char *file, const char *key, size_t bytes)
{
    struct list *l = arg;
    if (l->count == l->room) {
        size_t room = l->room * 2 + 64;
        struct module *more = realloc(l->module, room * sizeof *more);
        if (!more) {
            l->full = true;
            return;
        }
        l->module = more, l->room = room;
    }
    struct module *m = &l->module[l->count];
    *m = (struct module){.file = strdup(file), .key = key ? strdup(key) : NULL, .made_for = "-", .type = "",
                         .origin = DAMAGED, .bytes = bytes};
    l->count++;
    l->full = l->full || !m->file || (key && !m->key);
    if (m->key)
        read_key(m);
}

static int by_key(const void *a, const void *b)
{
    const struct module *x = a, *y = b;
    if (x->origin != y->origin)
        return x->origin < y->origin ? -1 : 1;
    int order = strcmp(x->made_for, y->made_for);
    order = order ? order : strcmp(x->type, y->type);
    return order ? order : strcmp(x->file, y->file);
}

static int print_list(struct list *l, const char *folder)
{
    size_t bytes = 0, of[ORIGINS] = {0};
    if (l->full)
        return failure("inspect", "out of memory");
    if (l->count) {
        qsort(l->module, l->count, sizeof *l->module, by_key);
        printf("%-21s  %9s  %-7s  %-38s  %s\n", "for", "bytes", "stridec", "file", "type, compiler, settings");
    }
    for (const struct module *m = l->module; m < l->module + l->count; m++) {
        printf("%-21s  %9zu  %-7s  %-38s%s%s\n", m->made_for, m->bytes, ORIGIN[m->origin], m->file,
               *m->type ? "  " : "", m->type);
        bytes += m->bytes;
        of[m->origin]++;
    }
    printf("%zu modules, %zu B in %s\n", l->count, bytes, folder);
    if (of[FOREIGN])
        printf("%zu of another version of stridec, which this one does not use\n", of[FOREIGN]);
    if (of[DAMAGED])
        printf("%zu damaged: made anew when needed\n", of[DAMAGED]);
    return 0;
}

int inspect_cache(void)
{
    struct list l = {0};
    const char *folder = module_cache_dir();
    if (!folder)
        return failure("inspect", "no cache folder: neither STRIDEC_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    if (module_cache_list(add_module, &l) < 0)
        return failure("inspect", "the cache folder %s can't be read, or nothing was cached yet", folder);
    int status = print_list(&l, folder);
    for (size_t i = 0; i < l.count; i++)
        free(l.module[i].file), free(l.module[i].key);
    free(l.module);
    return status;
}
