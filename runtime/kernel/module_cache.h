/* module_cache.h: compiled modules on disk. A file that is damaged, not trusted or unreadable counts as absent. */
#ifndef STRIDEC_MODULE_CACHE_H
#define STRIDEC_MODULE_CACHE_H
#include <stdbool.h>
#include <stddef.h>

/* Returns the malloc'd key of a module: form signature, kernel_knobs_text, generator version, "sm_NN" (and the GPU's
 * other properties, if the generator looks at them; no spaces), NVRTC version. File names are hashes of keys; each file
 * holds its key. */
char *module_cache_key(const char *signature, const char *knobs, const char *arch, int nvrtc_major, int nvrtc_minor);

/* Returns 0 and malloc'd *data, or -1. Verifies header, length and checksum; removes a bad file and warns once. */
int module_cache_load(const char *key, void **data, size_t *bytes);
/* Stores a module. Warns once a process if the folder can't be written. */
void module_cache_store(const char *key, const void *data, size_t bytes);
/* Removes a complete module that the driver refuses. */
void module_cache_remove(const char *key);

/* Removes the least recently used modules once the folder holds more than `limit` bytes. */
#define CACHE_BYTES_MAX ((size_t)256 << 20)
void module_cache_trim(size_t limit);
/* Waits until no other process makes this module: at most 30 s, and until `stop` (may be NULL) returns true. Then
 * look in the cache again. Returns a lock for module_cache_unlock, or -1: continue without. */
int module_cache_lock(const char *key, bool (*stop)(void));
void module_cache_unlock(int lock, const char *key);

/* Calls `each` for every module of the folder (`stridec inspect --cache`). key is NULL if a file fails its check.
 * Returns the number of files, -1 if the folder can't be read. */
typedef void cache_visit(void *arg, const char *file, const char *key, size_t bytes);
int module_cache_list(cache_visit *each, void *arg);
/* Returns the malloc'd path of a key's file with this ending, or NULL if there is no folder. */
char *module_cache_path(const char *key, const char *ending);
bool module_cache_is_module(const char *name);
/* Creates the folder for this user alone. Returns false with errno on failure. */
bool module_cache_make(void);
/* Returns true if the folder exists, is this user's, and nobody else may write to it. Else warns once a process. */
bool module_cache_usable(void);
/* Returns the folder in use, or NULL. */
const char *module_cache_dir(void);

/* aot.c: modules made by `stridec gen` in STRIDEC_AOT or the installation. Returns 0 and a malloc'd copy of the
 * module's file, or -1. That of a GPU is the image, then its plan (struct gen_plan). */
int aot_load(const char *signature, const char *arch, void **data, size_t *bytes);
bool aot_has(const char *signature, const char *arch);
/* Calls `each` once for each architecture that the manifest has modules for. Returns NULL, or why there are none
 * (static). */
typedef void aot_visit(void *arg, const char *arch, int modules);
const char *aot_list(aot_visit *each, void *arg);
/* Calls `each` so for the installation. Returns its folder; NULL if that has no modules. */
const char *aot_installed(aot_visit *each, void *arg);

#endif
