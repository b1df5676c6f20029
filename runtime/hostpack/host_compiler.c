#include "host_compiler.h"
#include "base/env.h"
#include "base/file.h"
#include "observe/stats.h"
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define WAIT_NS 1000000
#define NICE 19   /* of the compiler, so that it uses only idle processors */
#define BUILD_DIR_PREFIX "stridec-cc."
#ifdef __x86_64__
#define FOR_THIS_MACHINE "-march=native"
#else
#define FOR_THIS_MACHINE "-mcpu=native"   /* older compilers for other processors do not know -march=native */
#endif

int host_compiler_timeout_s = 300;
atomic_int host_compiler_waiters;

static char path[PATH_MAX], identity[32];
static struct reason missing;

/*
 * Finding the compiler
 */

/* Sets `path` to a name with a slash, or to the program of that name on PATH. Returns false if there is none. */
static bool find(const char *name)
{
    if (!strchr(name, '/')) return file_program(env_variable("PATH"), false, name, path);
    snprintf(path, sizeof path, "%s", name);
    return strlen(name) < sizeof path && file_runs(path);
}

static void find_compiler(void)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *named = env_get()->cc;
    struct stat st;
    bool found = named && find(named);
    for (size_t i = 0; !named && !found && i < sizeof usual / sizeof *usual; i++) found = find(usual[i]);
    if (found && stat(path, &st) == 0) {
        long long facts[3] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
        snprintf(identity, sizeof identity, "%016llx",
                 (unsigned long long)XXH64(facts, sizeof facts, XXH64(path, strlen(path), 0)));
        return;
    }
    path[0] = '\0';
    if (named)
        snprintf(missing.text, sizeof missing.text, "STRIDEC_CC=%.150s is no program that can be run", named);
    else
        snprintf(missing.text, sizeof missing.text, "neither cc, gcc nor clang is on PATH");
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *host_compiler_path(struct reason *why)
{
    pthread_once(&once, find_compiler);
    if (path[0]) return path;
    if (why) *why = missing;
    return NULL;
}

const char *host_compiler_identity(void)
{
    pthread_once(&once, find_compiler);
    return identity;
}

/* Returns the file's bytes with a terminator, malloc'd; NULL if it can't be read. */
static char *read_whole(const char *name, size_t *bytes)
{
    struct stat st;
    FILE *f = fopen(name, "re");
    char *data = f && fstat(fileno(f), &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    if (data) {
        *bytes = fread(data, 1, (size_t)st.st_size, f);
        data[*bytes] = '\0';
    }
    if (f) fclose(f);
    return data;
}

static char machine[32];

/* Facts that the compiler's own process does not know: instructions that this process may not use, for example under
 * valgrind; and the first processor's L3 cache in KiB (templates/host.c; AMD: that of its core group). */
#define SETTINGS_MAX 5
static char *settings[SETTINGS_MAX + 1], third_cache[32];

static bool find_third_cache(void)
{
    size_t bytes;
    char *text = read_whole("/sys/devices/system/cpu/cpu0/cache/index3/size", &bytes), *unit;
    unsigned long long size = text ? strtoull(text, &unit, 10) : 0;
    bool known = size && size <= 1 << 30 && *unit == 'K';
    if (known) snprintf(third_cache, sizeof third_cache, "-DCACHE=(%lluLL<<10)", size);
    free(text);
    return known;
}

static void find_settings(void)
{
    size_t n = 0;
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx512f")) settings[n++] = "-mno-avx512f";
    if (!__builtin_cpu_supports("avx2")) settings[n++] = "-mno-avx2";
    if (!__builtin_cpu_supports("avx")) settings[n++] = "-mno-avx";
    if (!__builtin_cpu_supports("bmi2")) settings[n++] = "-mno-bmi2";
#endif
    if (find_third_cache()) settings[n++] = third_cache;
}

/* Hashes the first processor's constant lines of /proc/cpuinfo and the settings. */
static void find_machine(void)
{
    find_settings();
    static const char *const facts[] = {
        "vendor_id", "cpu family", "model", "stepping", "flags", "cache size",   /* x86 */
        "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",   /* Arm */
        "cpu\t", "revision", "isa", "uarch",   /* POWER, RISC-V */
    };
    char *line = NULL;
    size_t room = 0;
    uint64_t hash = 0;
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && getline(&line, &room, f) > 1)
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
            if (!strncmp(line, facts[i], strlen(facts[i]))) hash = XXH64(line, strlen(line), hash + i);
    free(line);
    if (f) fclose(f);
    for (size_t i = 0; settings[i]; i++) hash = XXH64(settings[i], strlen(settings[i]), hash);
    snprintf(machine, sizeof machine, "host-%016llx", (unsigned long long)hash);
}

const char *host_compiler_machine(void)
{
    static pthread_once_t looked = PTHREAD_ONCE_INIT;
    pthread_once(&looked, find_machine);
    return machine;
}

/*
 * Running the compiler
 */

/* The folder of one compile. */
struct build_dir {
    char folder[PATH_MAX - 16], source[PATH_MAX], object[PATH_MAX], log[PATH_MAX], temporary[PATH_MAX];
};

/* Removes the folder with all files in it. */
static void build_dir_remove(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    rmdir(folder);
}

/* Returns true if the folder belongs to a killed process of this user. */
static bool build_dir_is_left(int in, const char *name)
{
    struct stat st;
    return !strncmp(name, BUILD_DIR_PREFIX, strlen(BUILD_DIR_PREFIX)) &&
           strlen(name) == strlen(BUILD_DIR_PREFIX "XXXXXX") &&
           !fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           file_is_stale(&st);
}

static const char *temporary_folder(void)
{
    const char *folder = env_variable("TMPDIR");
    return folder ? folder : "/tmp";
}

static void build_dir_sweep(void)
{
    char folder[PATH_MAX];
    DIR *d = opendir(temporary_folder());
    for (struct dirent *e; d && (e = readdir(d));)
        if (build_dir_is_left(dirfd(d), e->d_name) &&
            (size_t)snprintf(folder, sizeof folder, "%s/%s", temporary_folder(), e->d_name) < sizeof folder)
            build_dir_remove(folder);
    if (d) closedir(d);
}

static bool build_dir_make(struct build_dir *r, struct reason *why)
{
    static pthread_once_t swept = PTHREAD_ONCE_INIT;
    pthread_once(&swept, build_dir_sweep);
    int n = snprintf(r->folder, sizeof r->folder, "%s/" BUILD_DIR_PREFIX "XXXXXX", temporary_folder());
    if (n < 0 || (size_t)n >= sizeof r->folder || !mkdtemp(r->folder)) {
        snprintf(why->text, sizeof why->text, "no temporary folder can be made: %s", strerror(errno));
        return false;
    }
    snprintf(r->source, sizeof r->source, "%s/source.c", r->folder);
    snprintf(r->object, sizeof r->object, "%s/object", r->folder);
    snprintf(r->log, sizeof r->log, "%s/log", r->folder);
    snprintf(r->temporary, sizeof r->temporary, "TMPDIR=%s", r->folder);
    return true;
}

static bool write_source(const struct build_dir *r, const char *source, struct reason *why)
{
    FILE *f = fopen(r->source, "wxe");
    bool ok = f && fputs(source, f) >= 0;
    if (f) ok = fclose(f) == 0 && ok;
    if (!ok) snprintf(why->text, sizeof why->text, "%.150s can't be written: %s", r->source, strerror(errno));
    return ok;
}

/* Returns a copy of the environment without the loader's variables, which may point into this process. TMPDIR
 * becomes the build folder. The caller frees the array. */
static char **clean_environment(const struct build_dir *r)
{
    static const char *const dropped[] = {"LD_PRELOAD=", "LD_AUDIT=", "LD_PROFILE=", "TMPDIR="};
    char *const *all = env_all();
    size_t n = 0, used = 0;
    while (all[n]) n++;
    char **copy = calloc(n + 2, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        bool drop = false;
        for (size_t k = 0; k < sizeof dropped / sizeof *dropped; k++)
            drop |= !strncmp(all[i], dropped[k], strlen(dropped[k]));
        if (!drop) copy[used++] = all[i];
    }
    if (copy) copy[used] = (char *)(uintptr_t)r->temporary;
    return copy;
}

/* Starts the compiler: no standard input, output to the log, no files of this process, default signals. It gets its
 * own process group, so that its children are killed with it. */
static int spawn(pid_t *child, char *const argv[], const struct build_dir *r)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char **environment = clean_environment(r);
    if (!environment) return ENOMEM;
    sigemptyset(&none), sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, r->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
#if defined __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
#endif
#endif
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn(child, argv[0], &files, &attributes, argv, environment);
    if (!error && !atomic_load(&host_compiler_waiters)) setpriority(PRIO_PROCESS, (id_t)*child, NICE);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    free(environment);
    return error;
}

/* Waits for the compiler; kills it after the timeout. If the application has taken its status, the output decides. */
static bool await(pid_t child, bool (*stop)(void), bool *late)
{
    for (int64_t begun = stats_now();;) {
        int status;
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended < 0 && errno != EINTR) return errno == ECHILD;
        *late = stats_now() - begun > host_compiler_timeout_s * INT64_C(1000000000);
        if (*late || (stop && stop())) {
            kill(-child, SIGKILL);
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
}

/* Sets *why to the log's first line with an error, else its first line. */
static void explain(const struct build_dir *r, struct reason *why)
{
    size_t bytes = 0;
    char *log = read_whole(r->log, &bytes), *line = log ? strstr(log, "error") : NULL;
    while (line && line > log && line[-1] != '\n') line--;
    if (!line) line = log;
    snprintf(why->text, sizeof why->text, "%.100s: %.*s", path, line && *line ? (int)strcspn(line, "\n") : 24,
             line && *line ? line : "it failed without a word");
    free(log);
}

/* Returns true if a library is incomplete because its compiler was killed. The process would crash past the file's
 * end. The section table is last. The loader refuses files that are not libraries. */
static bool is_cut(const void *library, size_t bytes)
{
    ElfW(Ehdr) h;
    if (bytes < sizeof h || memcmp(library, ELFMAG, SELFMAG)) return false;
    memcpy(&h, library, sizeof h);
    return h.e_shoff > bytes || (size_t)h.e_shnum * h.e_shentsize > bytes - h.e_shoff;
}

static bool take(const struct build_dir *r, enum host_compiler_output output, void **data, size_t *bytes)
{
    *data = read_whole(r->object, bytes);
    if (*data && *bytes && (output != CC_LIBRARY || !is_cut(*data, *bytes))) return true;
    free(*data);
    *data = NULL;
    return false;
}

int host_compiler_compile(const char *source, enum host_compiler_output output, bool (*stop)(void), void **data,
                          size_t *bytes, struct reason *why)
{
    struct build_dir r;
    pid_t child;
    bool late = false;
    if (!host_compiler_path(why) || !build_dir_make(&r, why)) return -1;
    char *argv[SETTINGS_MAX + 16] = {path, "-O3", FOR_THIS_MACHINE, "-w", "-fPIC", "-o", r.object, r.source};
    size_t n = 8;
    host_compiler_machine();
    for (size_t i = 0; settings[i]; i++) argv[n++] = settings[i];
    /* The code calls only memmove, which the process has. */
    if (output == CC_LIBRARY) argv[n++] = "-shared", argv[n++] = "-nostdlib";
    else argv[n++] = "-S";
    *data = NULL, *bytes = 0;
    if (write_source(&r, source, why)) {
        int error = spawn(&child, argv, &r);
        if (error)
            snprintf(why->text, sizeof why->text, "%.150s can't be run: %s", path, strerror(error));
        else if (!(await(child, stop, &late) && take(&r, output, data, bytes)))
            explain(&r, why);
        if (late) snprintf(why->text, sizeof why->text, "%.150s takes more than %d s", path, host_compiler_timeout_s);
    }
    build_dir_remove(r.folder);
    return *data ? 0 : -1;
}
