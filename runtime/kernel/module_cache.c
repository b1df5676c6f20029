/* module_cache.c: the folder of compiled modules.
 *
 * A file has: "stridec cache 1\n"; lengths of key and payload, 8 bytes each; the key; the payload; the XXH3 hash (64
 * bits) of all before it. Numbers have the host's byte order; a machine with another order replaces the file. */
#include "module_cache.h"
#include "../../gen/gen.h"
#include "base/env.h"
#include "base/file.h"
#include "base/file_share.h"
#include "base/log.h"
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Warnings about folder and files use one key of log_once, "cache folder": one warning a process. */

static const char magic[16] = "stridec cache 1\n";   /* no terminator: exactly 16 bytes */
/* Suffixes of file names by kind of module; the last row matches all others. */
static const struct {
    const char *begins, *ends;   /* beginning and end of the key's first word */
    const char *suffix;
} kinds[] = {{"host-", "", ".so"}, {"", "-ptx", ".ptx"}, {"", "", ".cubin"}};
#define KINDS (sizeof kinds / sizeof *kinds)

struct header {
    char magic[16];
    uint64_t key_bytes, data_bytes;
};

/* A file in memory, and where its parts are. */
struct image {
    char *text;
    size_t bytes;
    const char *key, *data;
    size_t key_bytes, data_bytes;
};

char *module_cache_key(const char *signature, const char *knobs, const char *arch, int nvrtc_major, int nvrtc_minor)
{
    char *key;
    int made = asprintf(&key, "%s %s %s nvrtc-%d.%d%s%s", arch, gen_version(), signature, nvrtc_major, nvrtc_minor,
                        *knobs ? " " : "", knobs);
    return made < 0 ? NULL : key;
}

const char *module_cache_dir(void)
{
    return env_get()->cache_dir;
}

char *module_cache_path(const char *key, const char *ending)
{
    char *path;
    errno = ENOENT;
    if (!module_cache_dir()) return NULL;
    XXH128_hash_t h = XXH3_128bits(key, strlen(key));
    int made = asprintf(&path, "%s/%016llx%016llx%s", module_cache_dir(), (unsigned long long)h.high64,
                        (unsigned long long)h.low64, ending);
    return made < 0 ? NULL : path;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
    return length >= strlen(end) && !memcmp(text + length - strlen(end), end, strlen(end));
}

static bool is_of_kind(const char *key, size_t i)
{
    return !strncmp(key, kinds[i].begins, strlen(kinds[i].begins)) && ends_with(key, strcspn(key, " "), kinds[i].ends);
}

static char *path_of(const char *key)
{
    size_t i = 0;
    while (!is_of_kind(key, i)) i++;
    return module_cache_path(key, kinds[i].suffix);
}

/* Returns 0 and the file in *image, 1 if there is none, -1 if it is unreadable or not trusted. */
static int read_file(const char *path, struct image *image, const char **why)
{
    *image = (struct image){0};
    image->text = file_read(path, FILE_OWN, SIZE_MAX - 1, &image->bytes, why);
    return image->text ? 0 : errno == ENOENT || errno == ENOTDIR ? 1 : -1;
}

/* Returns true if the file is complete and undamaged; sets the parts. */
static bool check(struct image *image)
{
    struct header h;
    uint64_t hash;
    if (image->bytes < sizeof h + sizeof hash) return false;
    memcpy(&h, image->text, sizeof h);
    size_t room = image->bytes - sizeof h - sizeof hash;
    if (memcmp(h.magic, magic, sizeof magic) || h.key_bytes > room || h.data_bytes != room - h.key_bytes) return false;
    memcpy(&hash, image->text + image->bytes - sizeof hash, sizeof hash);
    if (hash != XXH3_64bits(image->text, image->bytes - sizeof hash)) return false;
    image->key = image->text + sizeof h;
    image->key_bytes = h.key_bytes;
    image->data = image->key + h.key_bytes;
    image->data_bytes = h.data_bytes;
    return true;
}

static bool key_is(const struct image *image, const char *key)
{
    return image->key_bytes == strlen(key) && !memcmp(image->key, key, image->key_bytes);
}

/* Returns 0 and a copy of a checked file's module, or -1 if the file has another key. */
static int take(const struct image *image, const char *key, void **data, size_t *bytes)
{
    if (!key_is(image, key) || !(*data = malloc(image->data_bytes + 1))) return -1;
    memcpy(*data, image->data, image->data_bytes);
    ((char *)*data)[image->data_bytes] = '\0';   /* PTX is text */
    *bytes = image->data_bytes;
    return 0;
}

/* Takes the module from what another rank of the node has read. */
static int load_shared(const char *path, const char *key, void **data, size_t *bytes)
{
    struct image image = {0};
    image.text = file_share_get(path, &image.bytes);
    if (!image.text) return -1;
    bool good = check(&image);
    int result = good ? take(&image, key, data, bytes) : -1;
    if (!good) file_share_remove(path);
    free(image.text);
    return result;
}

/* Reads the file for all ranks of the node. */
static int load_file(const char *path, const char *key, void **data, size_t *bytes)
{
    struct image image = {0};
    const char *why;
    int found = module_cache_usable() ? read_file(path, &image, &why) : 1;
    bool good = found == 0 && check(&image);
    file_share_put(path, good ? image.text : NULL, image.bytes);
    if (found < 0) log_once(LOG_WARN, "cache folder", "cached module %s can't be used: %s", path, why);
    if (found == 0 && !good) {
        log_once(LOG_WARN, "cache damaged", "cached module %s is damaged: it is removed and compiled again", path);
        unlink(path);
    }
    int result = good ? take(&image, key, data, bytes) : -1;
    if (result == 0) utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);   /* used: see module_cache_trim */
    free(image.text);
    return result;
}

bool module_cache_usable(void)
{
    const char *why;
    if (!module_cache_dir() || access(module_cache_dir(), F_OK)) return false;
    if (file_folder(module_cache_dir(), FILE_OWN, &why)) return true;
    log_once(LOG_WARN, "cache folder", "compiled modules are neither kept in nor taken from %s: %s", module_cache_dir(),
             why);
    return false;
}

int module_cache_load(const char *key, void **data, size_t *bytes)
{
    char *path = path_of(key);
    int result = path ? load_shared(path, key, data, bytes) : -1;
    if (path && result) result = load_file(path, key, data, bytes);
    free(path);
    return result;
}

void module_cache_remove(const char *key)
{
    char *path = path_of(key);
    if (path) unlink(path), file_share_remove(path);
    free(path);
}

bool module_cache_make(void)
{
    return module_cache_dir() && file_make_folder(module_cache_dir(), 0700);
}

/* Writes a complete file with header, key and hash; gives it to the ranks of the node first, which then read no file.
 * Returns false with errno on failure. */
static bool write_file(const char *path, const char *key, const void *data, size_t bytes)
{
    struct header h = {.key_bytes = strlen(key), .data_bytes = bytes};
    uint64_t hash;
    size_t hashed = sizeof h + h.key_bytes + bytes;
    char *image = malloc(hashed + sizeof hash);
    if (!image) return false;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(image, &h, sizeof h);
    memcpy(image + sizeof h, key, h.key_bytes);
    memcpy(image + sizeof h + h.key_bytes, data, bytes);
    hash = XXH3_64bits(image, hashed);
    memcpy(image + hashed, &hash, sizeof hash);
    file_share_put(path, image, hashed + sizeof hash);
    bool done = file_replace(path, 0600, image, hashed + sizeof hash);
    int error = errno;
    free(image);
    errno = error;
    return done;
}

void module_cache_store(const char *key, const void *data, size_t bytes)
{
    char *path = path_of(key);
    bool made = path && module_cache_make();
    if (!made || (module_cache_usable() && !write_file(path, key, data, bytes)))
        log_once(LOG_WARN, "cache folder", "compiled modules can't be kept in %s: %s",
                 module_cache_dir() ? module_cache_dir() : "a folder of the user's (no HOME)", strerror(errno));
    free(path);
    module_cache_trim(CACHE_BYTES_MAX);
}

bool module_cache_is_module(const char *name)
{
    for (size_t i = 0; i < KINDS; i++)
        if (strlen(name) > strlen(kinds[i].suffix) && ends_with(name, strlen(name), kinds[i].suffix)) return true;
    return false;
}

static void visit(const char *name, cache_visit *each, void *arg)
{
    struct image image;
    const char *why;
    char *path, *key = NULL;
    if (asprintf(&path, "%s/%s", module_cache_dir(), name) < 0) return;
    if (read_file(path, &image, &why) == 0 && check(&image)) key = strndup(image.key, image.key_bytes);
    each(arg, name, key, key ? image.data_bytes : image.bytes);
    free(key);
    free(image.text);
    free(path);
}

int module_cache_list(cache_visit *each, void *arg)
{
    DIR *folder = module_cache_dir() ? opendir(module_cache_dir()) : NULL;
    int files = 0;
    if (!folder) return -1;
    for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        if (!module_cache_is_module(e->d_name)) continue;
        visit(e->d_name, each, arg);
        files++;
    }
    closedir(folder);
    return files;
}
