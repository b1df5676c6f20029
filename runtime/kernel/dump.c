#include "dump.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static void write_file(const char *signature, const char *suffix, const void *data, size_t bytes)
{
    const char *folder = env_get()->dump;
    unsigned long long hash = XXH3_64bits(signature, strlen(signature));
    char *path;
    if (asprintf(&path, "%s/%016llx%s", folder, hash, suffix) < 0) return;
    file_make_folder(folder, 0700);
    if (!file_replace(path, 0644, data, bytes))
        log_once(LOG_WARN, "dump", "STRIDEC_DUMP: %s can't be written: %s", path, strerror(errno));
    free(path);
}

void dump_source(const char *signature, bool host, const char *source, const char *plan)
{
    char *text;
    if (!env_get()->dump) return;
    write_file(signature, host ? ".c" : ".cu", source, strlen(source));
    int length = asprintf(&text, "%s\n%s\n", signature, plan);
    if (length < 0) return;
    write_file(signature, host ? ".host.txt" : ".txt", text, (size_t)length);
    free(text);
}

void dump_image(const char *signature, const char *arch, bool ptx, const void *image, size_t bytes)
{
    char suffix[32];
    if (!env_get()->dump) return;
    snprintf(suffix, sizeof suffix, ".%s.%s", arch, ptx ? "ptx" : "cubin");
    write_file(signature, suffix, image, bytes);
}
