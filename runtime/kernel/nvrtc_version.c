/* nvrtc_version.c: guesses the NVRTC version without loading it (10 ms; a cached module takes 0.1). A process that
 * has loaded NVRTC writes a note in the cache folder:
 *
 *   stridec nvrtc 1
 *   PATH                   of the library
 *   SIZE SECONDS NANOS     of that file, which must not have changed
 *   HASH                   of the variables that steer the search
 *   MAJOR MINOR ARCH...    version and architectures
 *
 * A wrong guess does no harm: other NVRTCs' modules are as good, and a module that the driver refuses is recompiled. */
#include "nvrtc_version.h"
#include "base/env.h"
#include "base/file.h"
#include "base/file_share.h"
#include "base/log.h"
#include "device/gpu_runtime.h"
#include "module_cache.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define ARCHS_MAX 64
#define NOTE_MAX ((size_t)64 << 10)

static struct {
    bool known;
    int major, minor, archs;
    int arch[ARCHS_MAX];
} guess;

static uint64_t hash_search(void)
{
    static const char *const names[] = {"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "PATH"};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = env_variable(names[i]);
        hash = XXH64(value ? value : "", value ? strlen(value) : 0, hash + i);
    }
    return hash;
}

static char *note_path(void)
{
    char *path;
    return module_cache_dir() && asprintf(&path, "%s/nvrtc", module_cache_dir()) >= 0 ? path : NULL;
}

/* Returns true if the file is the one in the note. */
static bool unchanged(const char *library, const long long noted[3])
{
    struct stat st;
    return stat(library, &st) == 0 && st.st_size == noted[0] && st.st_mtim.tv_sec == noted[1] &&
           st.st_mtim.tv_nsec == noted[2];
}

/* Returns the note, read by one rank of the node, malloc'd; NULL if there is none. */
static char *note_text(const char *path, size_t *bytes)
{
    const char *why;
    if (!module_cache_usable()) return NULL;
    char *text = file_share_read(path, FILE_OWN, NOTE_MAX, bytes, &why);
    if (!text && errno != ENOENT) log_once(LOG_WARN, "nvrtc note", "%s is not used: %s", path, why);
    return text;
}

static void read_note(void)
{
    char *path = note_path(), library[PATH_MAX];
    long long noted[3];
    uint64_t hash;
    size_t bytes = 0;
    char *text = path ? note_text(path, &bytes) : NULL;
    FILE *f = text && bytes ? fmemopen(text, bytes, "r") : NULL;
    free(path);
    if (!f) {
        free(text);
        return;
    }
    if (fscanf(f, "stridec nvrtc 1\n%4095[^\n]\n%lld %lld %lld\n%" SCNx64 "\n%d %d", library, &noted[0], &noted[1],
               &noted[2], &hash, &guess.major, &guess.minor) == 7) {
        while (guess.archs < ARCHS_MAX && fscanf(f, " %d", &guess.arch[guess.archs]) == 1) guess.archs++;
        guess.known = guess.archs && hash == hash_search() && unchanged(library, noted);
    }
    fclose(f);
    free(text);
}

int nvrtc_version_target(const int *archs, int n, int arch)
{
    int best = 0;
    for (int i = 0; i < n; i++)
        if (archs[i] <= arch && archs[i] > best) best = archs[i];
    return best;
}

bool nvrtc_version_guess(int arch, int *target, int *major, int *minor)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_note);
    *target = guess.known ? nvrtc_version_target(guess.arch, guess.archs, arch) : 0;
    *major = guess.major, *minor = guess.minor;
    return *target != 0;
}

static void write_note(FILE *f, const struct stat *st)
{
    int count, major = 0, minor = 0;
    const int *archs = gpu_runtime->jit_archs(&count);
    gpu_runtime->jit_version(&major, &minor, NULL);
    fprintf(f, "stridec nvrtc 1\n%s\n%lld %lld %lld\n%" PRIx64 "\n%d %d", gpu_runtime->jit_file(),
            (long long)st->st_size, (long long)st->st_mtim.tv_sec, (long long)st->st_mtim.tv_nsec, hash_search(), major,
            minor);
    for (int i = 0; i < count; i++) fprintf(f, " %d", archs[i]);
    fputc('\n', f);
}

static void note(void)
{
    struct stat st;
    int major, minor;
    if (!gpu_runtime->jit_version(&major, &minor, NULL) || stat(gpu_runtime->jit_file(), &st)) return;
    char *path = module_cache_usable() ? note_path() : NULL, *text = NULL;
    size_t bytes;
    FILE *f = path ? open_memstream(&text, &bytes) : NULL;
    if (f) write_note(f, &st);
    bool ok = f && !ferror(f);
    if (f && !fclose(f) && ok && file_replace(path, 0600, text, bytes)) file_share_put(path, text, bytes);
    free(text);
    free(path);
}

void nvrtc_version_note(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int target, major, minor, now[2];
    if (gpu_runtime->jit_version(&now[0], &now[1], NULL) && nvrtc_version_guess(INT_MAX, &target, &major, &minor) &&
        major == now[0] && minor == now[1])
        return;
    pthread_once(&once, note);
}
