/* aot.c: modules compiled ahead of time: in STRIDEC_AOT, and those that serve all types in the folder "kernels" beside
 * the library, or beside its folder. Reads their manifests once, and their files when they are requested.
 *
 * `stridec gen` writes the manifest: "stridec manifest 2", then one line a module, with tabs: form signature (or
 * "generic" or "links"), architecture, file name, XXH64 of the file (16 hex digits), generator version. */
#include "../../gen/gen.h"
#include "base/env.h"
#include "base/file_share.h"
#include "base/log.h"
#include "module_cache.h"
#include <dlfcn.h>
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

/* The user's, and that of the installation: nobody is warned of that. */
enum { USERS, INSTALLED, MANIFESTS };
static struct manifest {
    const char *folder;
    char *text;
    struct module *module;
    size_t count;
    const char *why;   /* static: why it can't be read; NULL if it was */
} manifests[MANIFESTS];
static pthread_once_t users_once = PTHREAD_ONCE_INIT, installed_once = PTHREAD_ONCE_INIT;

static enum log_level level_of(const struct manifest *m)
{
    return m == &manifests[USERS] ? LOG_WARN : LOG_INFO;
}

static char *path_of(const struct manifest *m, const char *file)
{
    char *path;
    return asprintf(&path, "%s/%s", m->folder, file) < 0 ? NULL : path;
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

static void read_lines(struct manifest *m, const char *path)
{
    char *rest = m->text, *line = strsep(&rest, "\n");
    size_t room = 0, number = 1;
    if (strcmp(line, "stridec manifest 2")) {
        log_once(level_of(m), "aot header", "%s is not a manifest of this stridec's `gen`; it is not used", path);
        return;
    }
    for (const char *at = rest; at && *at; at++) room += *at == '\n';
    m->module = calloc(room + 1, sizeof *m->module);
    while (m->module && (line = strsep(&rest, "\n"))) {
        bool other_version = false;
        number++;
        if (!*line) continue;
        if (!read_line(line, &m->module[m->count], &other_version))
            log_once(level_of(m), "aot line", "%s:%zu: not a manifest line; it is skipped", path, number);
        else if (other_version)
            log_once(level_of(m), "aot version", "%s:%zu: made by another version of stridec: run `stridec gen` again",
                     path, number);
        else
            m->count++;
    }
}

static void read_manifest(struct manifest *m)
{
    size_t bytes;
    const char *why = "out of memory";
    char *path = path_of(m, "manifest");
    if (path && file_folder(m->folder, FILE_INSTALLED, &why))
        m->text = file_share_read(path, FILE_INSTALLED, FILE_BYTES_MAX, &bytes, &why);
    m->why = m->text ? NULL : why;
    if (m->text)
        read_lines(m, path);
    else
        log_once(level_of(m), m == manifests ? "aot manifest" : "installed", "%s: no manifest can be read there: %s",
                 m->folder, why);
    free(path);
}

/* Returns the folder of the installation, malloc'd; NULL if there is none. */
static char *installed(void)
{
    Dl_info where;
    char *library = dladdr((const void *)manifests, &where) ? realpath(where.dli_fname, NULL) : NULL, *path;
    char *folder = NULL;
    if (!library) return NULL;
    *strrchr(library, '/') = '\0';
    for (int up = 0; up < 2 && !folder; up++) {
        if (asprintf(&path, "%s%s/kernels", library, up ? "/.." : "") < 0) break;
        folder = realpath(path, NULL);
        free(path);
    }
    free(library);
    return folder;
}

static void read_users(void)
{
    manifests[USERS].folder = env_get()->aot, manifests[USERS].why = "STRIDEC_AOT is not set";
    if (manifests[USERS].folder) read_manifest(&manifests[USERS]);
}

static void read_installed(void)
{
    const char *said = env_variable("STRIDEC_AOT");
    if (!said || strcmp(said, "none")) manifests[INSTALLED].folder = installed();
    if (manifests[INSTALLED].folder) read_manifest(&manifests[INSTALLED]);
}

static const struct module *find_module(const struct manifest *a, const char *signature, const char *arch)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct module *m = &a->module[i];
        if (!strcmp(m->field[SIGNATURE], signature) && !strcmp(m->field[ARCH], arch)) return m;
    }
    return NULL;
}

/* Returns true if both are GPUs ("sm_90"), or both are host processors ("host-0123456789abcdef"). */
static bool same_kind(const char *arch, const char *other)
{
    return !strncmp(arch, "sm_", 3) == !strncmp(other, "sm_", 3);
}

/* Lists the user's architectures of arch's kind. Returns false if arch is among them or there are none. */
static bool lacks_arch(const char *arch, char *others, size_t size)
{
    const struct manifest *m = &manifests[USERS];
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        const char *other = m->module[i].field[ARCH];
        bool known = !same_kind(arch, other);
        if (!strcmp(arch, other)) return false;
        for (size_t j = 0; j < i && !known; j++) known = !strcmp(m->module[j].field[ARCH], other);
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

/* Returns a module of the installation: that of an earlier GPU of the generation runs, too. It has none for hosts. */
static const struct module *find_installed(const char *signature, const char *arch)
{
    int number;
    char name[16];
    if (sscanf(arch, "sm_%d", &number) != 1) return NULL;
    pthread_once(&installed_once, read_installed);
    for (int of = number; of / 10 == number / 10; of--) {
        snprintf(name, sizeof name, "sm_%d", of);
        const struct module *m = find_module(&manifests[INSTALLED], signature, name);
        if (m) return m;
    }
    return NULL;
}

/* Returns a module, the user's first, and sets *from. */
static const struct module *find(const char *signature, const char *arch, const struct manifest **from)
{
    pthread_once(&users_once, read_users);
    const struct module *m = find_module(&manifests[USERS], signature, arch);
    *from = &manifests[m ? USERS : INSTALLED];
    if (m) return m;
    if (manifests[USERS].count) explain_missing(signature, arch);
    return find_installed(signature, arch);
}

bool aot_has(const char *signature, const char *arch)
{
    const struct manifest *from;
    return find(signature, arch, &from) != NULL;
}

int aot_load(const char *signature, const char *arch, void **data, size_t *bytes)
{
    const struct manifest *from;
    const struct module *m = find(signature, arch, &from);
    const char *why;
    char *path = m ? path_of(from, m->field[FILE_NAME]) : NULL;
    if (!path) return -1;
    *data = file_share_read(path, FILE_INSTALLED, FILE_BYTES_MAX, bytes, &why);
    if (!*data) {
        log_once(level_of(from), "aot read", "%s can't be used (%s): it is compiled anew", path, why);
    } else if (XXH64(*data, *bytes, 0) != strtoull(m->field[HASH], NULL, 16)) {
        log_once(level_of(from), "aot damaged", "%s is damaged: it is compiled anew", path);
        free(*data);
        *data = NULL;
    }
    free(path);
    return *data ? 0 : -1;
}

/* Tells of one manifest's architectures. */
static const char *list(const struct manifest *m, aot_visit *each, void *arg)
{
    for (size_t i = 0; i < m->count; i++) {
        const char *arch = m->module[i].field[ARCH];
        int modules = 0;
        bool known = false;
        for (size_t j = 0; j < m->count; j++) {
            bool same = !strcmp(m->module[j].field[ARCH], arch);
            known |= same && j < i;
            modules += same;
        }
        if (!known) each(arg, arch, modules);
    }
    return m->why ? m->why : m->count ? NULL : "its manifest holds no module of this stridec";
}

const char *aot_list(aot_visit *each, void *arg)
{
    pthread_once(&users_once, read_users);
    return list(&manifests[USERS], each, arg);
}

const char *aot_installed(aot_visit *each, void *arg)
{
    pthread_once(&installed_once, read_installed);
    return manifests[INSTALLED].folder && !list(&manifests[INSTALLED], each, arg) ? manifests[INSTALLED].folder : NULL;
}
