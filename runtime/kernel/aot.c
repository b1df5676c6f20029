/* aot.c: modules compiled ahead of time. Reads the manifest in STRIDEC_AOT once, and its files when they are
 * requested.
 *
 * `stridec gen` writes the manifest: "stridec manifest 1", then one line a module, with tabs: form signature (or
 * "generic"), architecture, file name, XXH64 of the file (16 hex digits), generator version. */
#include "../../gen/gen.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "module_cache.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define FILE_BYTES_MAX ((size_t)1 << 30)

/* ORDER FIELDS of a line */
enum { SIGNATURE, ARCH, FILE_NAME, HASH, VERSION, FIELDS };

struct module {
    const char *field[VERSION];   /* point into manifest.text */
};

static struct {
    char *text;
    struct module *module;
    size_t count;
    const char *why;   /* static: why it can't be read; NULL if it was */
} manifest;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

static char *path_of(const char *file)
{
    char *path;
    return asprintf(&path, "%s/%s", env_get()->aot, file) < 0 ? NULL : path;
}

/* Splits a line at its tabs; returns false if invalid. *other_version: launch arguments may differ. */
static bool read_line(char *line, struct module *m, bool *other_version)
{
    char *field[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        field[i] = strsep(&line, "\t");
        if (!field[i]) return false;
    }
    if (line || !*field[FILE_NAME] || strchr(field[FILE_NAME], '/') || strspn(field[HASH], "0123456789abcdef") != 16 ||
        strlen(field[HASH]) != 16)
        return false;
    memcpy(m->field, field, sizeof m->field);
    *other_version = strcmp(field[VERSION], gen_version()) != 0;
    return true;
}

static void read_lines(const char *path)
{
    char *rest = manifest.text, *line = strsep(&rest, "\n");
    size_t room = 0, number = 1;
    if (strcmp(line, "stridec manifest 1")) {
        log_once(LOG_WARN, "aot header", "%s is not a manifest of `stridec gen`; it is not used", path);
        return;
    }
    for (const char *at = rest; at && *at; at++) room += *at == '\n';
    manifest.module = calloc(room + 1, sizeof *manifest.module);
    while (manifest.module && (line = strsep(&rest, "\n"))) {
        bool other_version = false;
        number++;
        if (!*line) continue;
        if (!read_line(line, &manifest.module[manifest.count], &other_version))
            log_once(LOG_WARN, "aot line", "%s:%zu: not a manifest line; it is skipped", path, number);
        else if (other_version)
            log_once(LOG_WARN, "aot version", "%s:%zu: made by another version of stridec: run `stridec gen` again",
                     path, number);
        else
            manifest.count++;
    }
}

static void read_manifest(void)
{
    size_t bytes;
    const char *folder = env_get()->aot, *why = "out of memory";
    manifest.why = "STRIDEC_AOT is not set";
    if (!folder) return;
    char *path = path_of("manifest");
    if (path && file_folder(folder, FILE_INSTALLED, &why))
        manifest.text = file_read(path, FILE_INSTALLED, FILE_BYTES_MAX, &bytes, &why);
    manifest.why = manifest.text ? NULL : why;
    if (manifest.text)
        read_lines(path);
    else
        log_once(LOG_WARN, "aot manifest", "STRIDEC_AOT=%s: no manifest can be read there: %s", folder, why);
    free(path);
}

static const struct module *find_module(const char *signature, const char *arch)
{
    for (size_t i = 0; i < manifest.count; i++) {
        const struct module *m = &manifest.module[i];
        if (!strcmp(m->field[SIGNATURE], signature) && !strcmp(m->field[ARCH], arch)) return m;
    }
    return NULL;
}

/* Returns true if both are GPUs ("sm_90"), or both are host processors ("host-0123456789abcdef"). */
static bool same_kind(const char *arch, const char *other)
{
    return !strncmp(arch, "sm_", 3) == !strncmp(other, "sm_", 3);
}

/* Lists the manifest's architectures of arch's kind. Returns false if arch is among them or there are none. */
static bool lacks_arch(const char *arch, char *others, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < manifest.count; i++) {
        const char *other = manifest.module[i].field[ARCH];
        bool known = !same_kind(arch, other);
        if (!strcmp(arch, other)) return false;
        for (size_t j = 0; j < i && !known; j++) known = !strcmp(manifest.module[j].field[ARCH], other);
        if (!known && n < size) n += (size_t)snprintf(others + n, size - n, "%s%s", n ? ", " : "", other);
    }
    return n > 0;
}

static void explain_missing(const char *signature, const char *arch)
{
    char others[160];
    bool gpu = same_kind(arch, "sm_"), other = lacks_arch(arch, others, sizeof others);
    if (other && gpu)
        log_once(LOG_WARN, "aot arch", "STRIDEC_AOT=%s has modules for %s, this GPU is %s: they are not used; "
                                       "`stridec gen --arch %s` makes those for it",
                 env_get()->aot, others, arch, arch);
    else if (other)
        log_once(LOG_WARN, "aot host", "STRIDEC_AOT=%s has code for data in host memory of other processors (%s), this "
                                       "is %s: it is not used; `stridec gen --target host` here makes it anew",
                 env_get()->aot, others, arch);
    log_write(LOG_INFO, "no module in STRIDEC_AOT=%s for %s: %.200s", env_get()->aot, arch, signature);
}

static const struct module *find(const char *signature, const char *arch)
{
    pthread_once(&read_once, read_manifest);
    const struct module *m = find_module(signature, arch);
    if (!m && manifest.count) explain_missing(signature, arch);
    return m;
}

bool aot_has(const char *signature, const char *arch)
{
    return find(signature, arch) != NULL;
}

int aot_load(const char *signature, const char *arch, void **data, size_t *bytes)
{
    const struct module *m = find(signature, arch);
    const char *why;
    char *path = m ? path_of(m->field[FILE_NAME]) : NULL;
    if (!path) return -1;
    *data = file_read(path, FILE_INSTALLED, FILE_BYTES_MAX, bytes, &why);
    if (!*data) {
        log_once(LOG_WARN, "aot read", "%s can't be used (%s): it is compiled anew", path, why);
    } else if (XXH64(*data, *bytes, 0) != strtoull(m->field[HASH], NULL, 16)) {
        log_once(LOG_WARN, "aot damaged", "%s is damaged: it is compiled anew", path);
        free(*data);
        *data = NULL;
    }
    free(path);
    return *data ? 0 : -1;
}

const char *aot_list(aot_visit *each, void *arg)
{
    pthread_once(&read_once, read_manifest);
    for (size_t i = 0; i < manifest.count; i++) {
        const char *arch = manifest.module[i].field[ARCH];
        int modules = 0;
        bool known = false;
        for (size_t j = 0; j < manifest.count; j++) {
            bool same = !strcmp(manifest.module[j].field[ARCH], arch);
            known |= same && j < i;
            modules += same;
        }
        if (!known) each(arg, arch, modules);
    }
    return manifest.why ? manifest.why : manifest.count ? NULL : "its manifest holds no module of this stridec";
}
