/* kept.c: compiled kernels that are kept beside the simulated NVRTC. */
#include "kept.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t kept_key(const char *prelude, const char *source, unsigned arch, char *const options[])
{
    uint64_t key = XXH3_64bits_withSeed(prelude, strlen(prelude), arch);
    key = XXH3_64bits_withSeed(source, strlen(source), key);
    for (; *options; options++) key = XXH3_64bits_withSeed(*options, strlen(*options), key);
    return key;
}

/* Writes the name of a file in the folder SIMGPU_KEEP; without one, of a file beside this library. */
static bool place(char path[PATH_MAX], uint64_t key)
{
    const char *folder = getenv("SIMGPU_KEEP"), *within = "";
    int length = folder ? (int)strlen(folder) : 0;
    Dl_info own;
    if (!length) {
        const char *slash = dladdr((void *)(uintptr_t)kept_read, &own) ? strrchr(own.dli_fname, '/') : NULL;
        if (!slash) return false;
        folder = own.dli_fname, length = (int)(slash - folder), within = "/kernels";
    }
    return snprintf(path, PATH_MAX, "%.*s%s/%016llx", length, folder, within, (unsigned long long)key) < PATH_MAX;
}

void *kept_read(uint64_t key, size_t *bytes)
{
    char path[PATH_MAX];
    FILE *in = place(path, key) ? fopen(path, "re") : NULL;
    if (!in) return NULL;
    void *image = NULL;
    long size = fseek(in, 0, SEEK_END) ? -1 : ftell(in);
    if (size > 0 && !fseek(in, 0, SEEK_SET) && (image = malloc((size_t)size)) &&
        fread(image, 1, (size_t)size, in) != (size_t)size) {
        free(image);
        image = NULL;
    }
    fclose(in);
    *bytes = (size_t)size;
    return image;
}

/* Other processes see the whole image or none; two threads of one write files of their own. */
void kept_write(uint64_t key, const void *image, size_t bytes)
{
    char path[PATH_MAX], own[PATH_MAX];
    const char *folder = getenv("SIMGPU_KEEP");
    if (!folder || !*folder || !place(path, key)) return;
    if (snprintf(own, sizeof own, "%s.%d.%p", path, (int)getpid(), (void *)own) >= (int)sizeof own) return;
    FILE *out = fopen(own, "we");
    if (!out) return;
    bool good = fwrite(image, 1, bytes, out) == bytes;
    if (fclose(out) || !good || rename(own, path)) remove(own);
}
