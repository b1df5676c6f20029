/* module_cache.h: compiled modules on disk. A damaged, foreign or unreadable file counts as absent. */
#ifndef STRIDEC_CACHE_H
#define STRIDEC_CACHE_H
#include <stdbool.h>
#include <stddef.h>

/* The text that identifies a module: form signature, kernel_knobs_text (kernel_knobs.h), generator version, "sm_NN", NVRTC
 * version. malloc'd. Files are named after its hash and hold it in full. */
char *module_cache_key(const char *signature, const char *knobs, const char *arch, int nvrtc_major, int nvrtc_minor);

/* 0 and a malloc'd copy in *data, or -1. Header, length and checksum are verified; a file that fails is
 * removed with one warning. */
int module_cache_load(const char *key, void **data, size_t *bytes);
/* Written under a temporary name and renamed. One warning per process when the folder can't be written. */
void module_cache_store(const char *key, const void *data, size_t bytes);
/* For a module that is whole but that the driver refuses. */
void module_cache_remove(const char *key);

/* The folder is bounded: past this many bytes the modules that were not used for the longest time go. */
#define CACHE_BYTES_MAX ((size_t)256 << 20)
void module_cache_trim(size_t limit);
/* Waits for other processes that are making this module, half a minute at most, and only until `stop` (may be NULL)
 * says yes; then look in the cache again. A lock for module_cache_unlock, or -1 (go on without). */
int module_cache_lock(const char *key, bool (*stop)(void));
void module_cache_unlock(int lock, const char *key);

/* For `stridec inspect --cache`: calls `each` for every module of the folder. key is NULL for a file
 * that fails its check. Returns the number of files, -1 if the folder can't be read. */
typedef void cache_visit(void *arg, const char *file, const char *key, size_t bytes);
int module_cache_list(cache_visit *each, void *arg);
/* A key's file, with another ending than a module's; malloc'd, NULL where there is no folder. */
char *module_cache_path(const char *key, const char *ending);
bool module_cache_is_module(const char *name);
/* Makes the folder, for this user alone. False with errno where it can't be made. */
bool module_cache_make(void);
/* Returns true if the folder is there, is this user's, and nobody else may write there. One warning per process
 * where it is not so. */
bool module_cache_usable(void);
/* The folder in use, or NULL. */
const char *module_cache_dir(void);

/* Modules made ahead of time by `stridec gen`: the manifest of STRIDEC_AOT (aot.c).
 * 0 and a malloc'd copy of the cubin for (form signature, "sm_NN"), or -1. */
int aot_load(const char *signature, const char *arch, void **data, size_t *bytes);
bool aot_has(const char *signature, const char *arch);

#endif
