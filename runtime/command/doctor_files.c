/* doctor_files.c: checks of the cache and of the tuned table. */
#include "base/env.h"
#include "base/file.h"
#include "command.h"
#include "doctor.h"
#include "kernel/module_cache.h"
#include "tune/table_origin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shortens path to its nearest folder that exists. */
static void nearest_existing(char *path)
{
    struct stat st;
    while (stat(path, &st) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash) strcpy(path, ".");
        else slash[slash == path] = '\0';
    }
}

bool doctor_can_write(const char *folder)
{
    char name[PATH_MAX], *draft;
    if ((size_t)snprintf(name, sizeof name, "%s/.stridec", folder) >= sizeof name) return false;
    int fd = file_draft(name, 0600, &draft);
    if (fd >= 0) close(fd), file_publish(draft, name, false);
    return fd >= 0;
}

void doctor_cache(struct checkup *c)
{
    const char *folder = module_cache_dir(), *why;
    char place[PATH_MAX];
    if (!folder) {
        checkup_add(c, LEVEL_WARN, "no folder: every process compiles anew");
        checkup_fix(c, "set STRIDEC_CACHE_DIR or HOME");
        return;
    }
    snprintf(place, sizeof place, "%s", folder);
    nearest_existing(place);
    bool exists = strcmp(place, folder) == 0;
    if (exists && !file_folder(folder, FILE_OWN, &why)) {
        checkup_add(c, LEVEL_WARN, "%s is not used: %s: every process compiles anew", folder, why);
        checkup_fix(c, "mend that or set STRIDEC_CACHE_DIR");
    } else if (doctor_can_write(place)) {
        checkup_add(c, LEVEL_OK, "%s%s", folder, exists ? "" : " (made when first needed)");
    } else {
        checkup_add(c, LEVEL_WARN, "%s can't be written: every process compiles anew", folder);
        checkup_fix(c, "mend %s or set STRIDEC_CACHE_DIR", place);
    }
}

/* Adds a finding for each row of knobs that the generator does not know. Returns their number. */
static int check_knobs(struct checkup *c, const struct tune_table *t, const char *file)
{
    struct reason why;
    struct gen *g = t->knob_rows ? gen_open(&why) : NULL;
    int bad = 0;
    for (int i = 0; g && i < t->knob_rows; i++) {
        const struct tune_knobs *k = &t->knobs[i];
        if (gen_knobs_check(g, k->settings, &why) == 0) continue;
        bad++;
        checkup_add(c, LEVEL_WARN, "%s:%d: %s: such kernels are the model's", file, k->line, why.text);
        checkup_fix(c, "mend or remove that line");
    }
    if (g) gen_close(g);
    return bad;
}

static void check_table(struct checkup *c, const char *file)
{
    struct reason why;
    struct tune_table *t = tune_read(file, &why);
    if (!t) {
        checkup_add(c, LEVEL_BAD, "%s", why.text);
        checkup_fix(c, "mend it, or run `stridec tune` again");
        return;
    }
    char gpu[128];
    bool stale = tune_other_mpi(t, &why) || tune_other_stridec(t, &why) ||
                 (doctor_first_gpu(gpu) && tune_other_machine(t, gpu, &why));
    int bad = check_knobs(c, t, file);
    free(t);
    if (stale) {
        checkup_add(c, LEVEL_WARN, "%s %s", file, why.text);
        checkup_fix(c, "run `stridec tune` again");
    } else if (!bad) {
        checkup_add(c, LEVEL_OK, "%s", file);
    }
}

void doctor_tune(struct checkup *c)
{
    const struct env *e = env_get();
    if (e->tune && access(e->tune, R_OK) == 0) {
        check_table(c, e->tune);
    } else if (e->tune && (e->tune_named || errno != ENOENT)) {
        checkup_add(c, LEVEL_BAD, "%s can't be read: %s", e->tune, strerror(errno));
        checkup_fix(c, "mend or unset STRIDEC_TUNE");
    } else {
        checkup_add(c, LEVEL_WARN, "none%s%s: built-in figures serve", e->tune ? " at " : "", e->tune ? e->tune : "");
        checkup_fix(c, "`mpirun -n 2 stridec tune` measures this system");
    }
}
