/* tune.c: reads the words of `stridec tune`. measure/show.c serves --show, without a GPU; measure/tune.c measures. */
#include "base/env.h"
#include "command.h"
#include "device/device.h"
#include "measure/show.h"
#include "measure/tune.h"
#include "tune/table_fit.h"
#include "tune/table_origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TUNE_SECONDS 60

/* ---- types ---- */

static int show_tree(const struct tune_shown *s, const char *name, const struct tree *built, int64_t extent)
{
    struct reason why;
    return tune_show_type(s, name, built, extent, &why) ? failure("tune", "%s: %s", name, why.text) : 0;
}

/* Loads SPEC or SPEC:NAME. *name is the name, or NULL. */
static struct spec *load_spec(const char *text, const char **name, struct reason *why)
{
    const char *colon = access(text, F_OK) == 0 ? NULL : strrchr(text, ':');
    char *path = strndup(text, colon ? (size_t)(colon - text) : strlen(text));
    struct spec *spec = path ? spec_load(path, why) : NULL;
    free(path);
    *name = colon ? colon + 1 : NULL;
    return spec;
}

static int show_spec(const struct tune_shown *s, const char *text)
{
    struct reason why;
    const char *name;
    struct spec *spec = load_spec(text, &name, &why);
    if (!spec)
        return failure("tune", "%s is no signature, and no spec: %s", text, why.text);
    int status = 0, shown = 0;
    for (size_t i = 0; i < spec->count && status == 0; i++) {
        const struct spec_item *item = &spec->item[i];
        if (name && strcmp(item->name, name) != 0)
            continue;
        shown++;
        status = show_tree(s, item->name, item->type->tree, item->type->ub - item->type->lb);
    }
    if (!shown && name)
        stages_no_type(text, name, spec, &why);
    spec_free(spec);
    return shown || !name ? status : failure("tune", "%s", why.text);
}

/* Shows a type; elements of a signature lie one behind the other. */
static int show_type(const struct tune_shown *s, const char *text)
{
    struct reason why;
    if (!stages_signature(text))
        return show_spec(s, text);
    struct tree *t = tree_parse(text, &why);
    if (!t)
        return failure("tune", "%s: %s", text, why.text);
    int status = show_tree(s, text, t, t->high - t->low);
    tree_unref(t);
    return status;
}

/* ---- words ---- */

/* Reads the table of *file, or the one that a program would use if *file is NULL; leaves *file NULL if it is the
 * built-in one. */
static struct tune_table *open_table(const char **file, struct reason *why)
{
    const struct env *e = env_get();
    if (!*file && e->tune && (e->tune_named || access(e->tune, F_OK) == 0))
        *file = e->tune;
    return *file ? tune_read(*file, why) : tune_parse(tune_builtin, "built-in figures", why);
}

/* Makes the built-in curves of t what programs use on the GPU present. Returns their name. */
static const char *fit_builtin(struct tune_table *t)
{
    static char name[128] = "built-in figures, for an H200";
    char card[64];
    struct gen_gpu gpu;
    CUdevice first;
    const struct driver *d = gpu_arch(0) ? driver_load() : NULL;
    if (d && d->cuDeviceGet(&first, 0) == CUDA_SUCCESS && device_describe(d, first, &gpu, card)) {
        tune_fit(t, &gpu);
        snprintf(name, sizeof name, "built-in figures, fitted to %s", card);
    }
    return name;
}

static void warn_stale(const struct tune_table *t, const char *file)
{
    struct reason why;
    if (tune_other_mpi(t, &why))
        failure("tune", "%s %s: run `stridec tune` again", file, why.text);
    if (tune_other_stridec(t, &why))
        failure("tune", "%s %s: run `stridec tune` again", file, why.text);
}

static bool read_count(const char *text, int64_t *count)
{
    char *end;
    errno = 0;
    *count = strtoll(text, &end, 10);
    return !errno && end != text && !*end && *count > 0;
}

static bool is_type(const char *text)
{
    struct reason why;
    const char *name;
    if (stages_signature(text))
        return true;
    struct spec *spec = load_spec(text, &name, &why);
    if (spec)
        spec_free(spec);
    return spec != NULL;
}

/* Reports the first type that no count follows. Returns 0 if there is none. */
static int missing_count(int n, char **words)
{
    for (int i = 0; i < n; i++)
        if (is_type(words[i]) && (i + 1 == n || is_type(words[i + 1])))
            return usage_error("tune", "how many of %s? A COUNT is missing: stridec tune --show '%s' 1", words[i],
                               words[i]);
    return 0;
}

/* Shows the table FILE, or how COUNT elements of each TYPE travel: [FILE] [TYPE COUNT]... */
static int show(int n, char **words)
{
    struct reason why;
    struct tune_shown s = {.file = n % 2 ? words[0] : NULL};
    struct tune_table *t = open_table(&s.file, &why);
    int status = 0;
    if (!t)
        return (status = missing_count(n, words)) != 0 ? status : failure("tune", "%s", why.text);
    s.table = t;
    if (s.file)
        warn_stale(t, s.file);
    if (!s.file || t->borrowed)
        s.file = fit_builtin(t);
    if (n < 2)
        tune_show_table(&s);
    if (n >= 2 && !env_get()->ways.by_table)
        printf("STRIDEC_TRANSPORT is set: it decides where it can; this is by the table\n");
    for (int i = n % 2; i < n && status == 0; i += 2) {
        if (read_count(words[i + 1], &s.count))
            status = show_type(&s, words[i]);
        else if ((status = missing_count(n, words)) == 0)
            status = usage_error("tune", "%s is no count of %s", words[i + 1], words[i]);
    }
    free(t);
    return status;
}

/* Rejects options that exclude each other. Returns 0 or the exit status. */
static int read_arguments(const struct args *a)
{
    static const char *const measures[] = {"-o", "--seconds", "--quick", "--no-kernels", "--pipeline", "--host", NULL};
    bool shows = option(a, "--show"), host = option(a, "--host");
    for (const char *const *name = measures; *name && shows; name++)
        if (option(a, *name))
            return usage_error("tune", "--show measures nothing: it does not go with %s", *name);
    if (a->words && !shows)
        return usage_error("tune", "unexpected %s: a table is written to -o FILE, and shown by --show FILE",
                           a->word[0]);
    if (host && (option(a, "--no-kernels") || option(a, "--pipeline")))
        return usage_error("tune", "%s does not go with --host",
                           option(a, "--pipeline") ? "--pipeline" : "--no-kernels");
    return 0;
}

int tune_main(const struct args *a)
{
    int status = read_arguments(a);
    if (status != 0)
        return status;
    if (option(a, "--show"))
        return show(a->words, a->word);
    int64_t seconds = TUNE_SECONDS;
    if (option(a, "--seconds") && !read_count(option(a, "--seconds"), &seconds))
        return usage_error("tune", "--seconds %s: it is a number of seconds, at least 1", option(a, "--seconds"));
    return tune_run((struct tune_request){.file = option(a, "-o"), .seconds = (double)seconds,
                                          .quick = option(a, "--quick"), .no_kernels = option(a, "--no-kernels"),
                                          .pipeline = option(a, "--pipeline"), .host = option(a, "--host")});
}
