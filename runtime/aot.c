/* aot.c: modules compiled ahead of time: reads the manifest in STRIDEC_AOT, once, and its files when asked.
 *
 * manifest: "stridec manifest 1", then one line a module: form signature (or "generic"), architecture, file in
 * the same folder, the file's XXH64 as 16 hex digits, generator version; tabs between. `stridec gen` writes it. */
#include "cache.h"
#include "env.h"
#include "file.h"
#include "log.h"
#include "../gen/gen.h"
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
    const char *field[VERSION];   /* within `text` */
};

/* Read once, then constant. */
static struct {
    char *text;
    struct module *module;
    size_t count;
} manifest;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

static char *path_of(const char *file)
{
    char *path;
    return asprintf(&path, "%s/%s", env_get()->aot, file) < 0 ? NULL : path;
}

/* Cuts a line at its tabs. False unless it is a module of this very generator: another one's launch
 * arguments may differ. */
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
    if (!folder) return;
    char *path = path_of("manifest");
    if (path && file_folder(folder, FILE_INSTALLED, &why))
        manifest.text = file_read(path, FILE_INSTALLED, FILE_BYTES_MAX, &bytes, &why);
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

bool aot_has(const char *signature, const char *arch)
{
    pthread_once(&read_once, read_manifest);
    return find_module(signature, arch) != NULL;
}

int aot_load(const char *signature, const char *arch, void **data, size_t *bytes)
{
    pthread_once(&read_once, read_manifest);
    const struct module *m = find_module(signature, arch);
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
