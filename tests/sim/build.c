/* build.c: CUDA C through the host's C++ compiler into a simulated cubin.
 *
 * Two runs: the preprocessor alone, so that kernels that macros make are seen too, then the compiler on the
 * prelude, that text, and an entry point for each kernel found in it. */
#include "build.h"
#include "image.h"
#include "kept.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

__asm__(".section .rodata\n"
        "simgpu_prelude: .incbin \"prelude.hpp\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char simgpu_prelude[] __attribute__((visibility("hidden")));
extern char **environ;

/* No kernel is told of a newer architecture than PLAIN_ARCH: what it does on those alone is inline assembly. */
enum { ARGUMENTS_MAX = 64, PATH_BYTES = 256, PLAIN_ARCH = 80 };

/* The environment without what is preloaded into the calling program. */
static char **clean_environment(void)
{
    size_t n = 0, kept = 0;
    while (environ[n]) n++;
    char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11)) out[kept++] = environ[i];
    return out;
}

/* True if the program ran and did not report failure. A program that ignores SIGCHLD leaves no status to
 * read; the output file tells then. */
static bool run(char *const argv[], const char *log_path)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status = 0;
    char **environment = clean_environment();
    if (!environment) return false;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    bool started = !posix_spawnp(&pid, argv[0], &files, NULL, argv, environment);
    if (started) {
        pid_t got;
        do got = waitpid(pid, &status, 0);
        while (got < 0 && errno == EINTR);
    }
    posix_spawn_file_actions_destroy(&files);
    free(environment);
    return started && !status;
}

static char *read_file(const char *path, size_t *bytes)
{
    struct stat st;
    char *data = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st) && (data = malloc((size_t)st.st_size + 1))) {
        ssize_t n = read(fd, data, (size_t)st.st_size);
        *bytes = n < 0 ? 0 : (size_t)n;
        data[*bytes] = '\0';
    }
    if (fd >= 0) close(fd);
    return data;
}

static bool name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* After a __global__: the name before the first parenthesis that does not open a __launch_bounds__. */
static const char *kernel_name(const char *at, size_t *length)
{
    static const char bounds[] = "__launch_bounds__";
    for (;;) {
        const char *open = at + strcspn(at, "(;{");
        const char *end = open;
        if (*open != '(') return NULL;
        while (end > at && isspace((unsigned char)end[-1])) end--;
        const char *start = end;
        while (start > at && name_character(start[-1])) start--;
        *length = (size_t)(end - start);
        if (*length != sizeof bounds - 1 || strncmp(start, bounds, *length)) return *length ? start : NULL;
        int depth = 1;
        for (at = open + 1; *at && depth; at++) depth += (*at == '(') - (*at == ')');
    }
}

/* Appends the entry points of every kernel in the text, each once. */
static void write_entries(FILE *out, const char *text)
{
    static const char mark[] = "__global__";
    enum { KERNELS_MAX = 256 };
    const char *names[KERNELS_MAX];
    size_t lengths[KERNELS_MAX], n = 0;
    for (const char *at = text; (at = strstr(at, mark));) {
        size_t length, i = 0;
        at += sizeof mark - 1;
        const char *name = kernel_name(at, &length);
        if (!name || n == KERNELS_MAX) continue;
        while (i < n && (lengths[i] != length || strncmp(names[i], name, length))) i++;
        if (i < n) continue;
        names[n] = name;
        lengths[n++] = length;
        fprintf(out, "\nSIMGPU_KERNEL(%.*s)", (int)length, name);
    }
    fputc('\n', out);
}

static bool write_unit(const char *path, const char *text)
{
    FILE *out = fopen(path, "we");
    if (!out) return false;
    fprintf(out, "#line 1 \"prelude\"\n%s\n%s", simgpu_prelude, text);
    write_entries(out, text);
    return !fclose(out);
}

static bool write_text(const char *path, const char *name, const char *text)
{
    FILE *out = fopen(path, "we");
    if (!out) return false;
    fprintf(out, "#line 1 \"%s\"\n%s", name, text);
    return !fclose(out);
}

/* Marks the shared object and puts the trailer behind it. */
static int finish_image(char *elf, size_t size, unsigned arch, void **image, size_t *bytes)
{
    struct image_trailer t = {.mark = IMAGE_MARK, .arch = arch};
    if (size < sizeof(Elf64_Ehdr) || image_elf_bytes(elf) != size) return -1;
    unsigned char *whole = realloc(elf, size + sizeof t);
    if (!whole) return -1;
    memcpy(whole + IMAGE_MARK_AT, IMAGE_MARK, IMAGE_MARK_BYTES);
    t.hash = image_hash(whole, size);
    memcpy(whole + size, &t, sizeof t);
    *image = whole;
    *bytes = size + sizeof t;
    return 0;
}

struct folder {
    char path[PATH_BYTES], user[PATH_BYTES + 8], expanded[PATH_BYTES + 8], unit[PATH_BYTES + 8], object[PATH_BYTES + 8],
        log[PATH_BYTES + 8];
};

static bool folder_make(struct folder *f)
{
    const char *base = getenv("TMPDIR");
    int n = snprintf(f->path, sizeof f->path, "%s/simgpu-XXXXXX", base && *base ? base : "/tmp");
    if (n >= (int)sizeof f->path || !mkdtemp(f->path)) return false;
    snprintf(f->user, sizeof f->user, "%s/k.cu", f->path);
    snprintf(f->expanded, sizeof f->expanded, "%s/k.ii", f->path);
    snprintf(f->unit, sizeof f->unit, "%s/k.cpp", f->path);
    snprintf(f->object, sizeof f->object, "%s/k.so", f->path);
    snprintf(f->log, sizeof f->log, "%s/log", f->path);
    return true;
}

static void folder_remove(const struct folder *f)
{
    const char *const files[] = {f->user, f->expanded, f->unit, f->object, f->log};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(files[i]);
    rmdir(f->path);
}

static bool preprocess(const struct folder *f, const char *compiler, unsigned arch, char *const options[])
{
    char arch_macro[40];
    snprintf(arch_macro, sizeof arch_macro, "-D__CUDA_ARCH__=%u0", arch < PLAIN_ARCH ? arch : PLAIN_ARCH);
    char *argv[ARGUMENTS_MAX] = {(char *)compiler, "-E", "-std=c++17", "-xc++", "-D__CUDACC__", "-D__CUDACC_RTC__",
                                 arch_macro};
    int n = 7;
    while (*options && n < ARGUMENTS_MAX - 4) argv[n++] = *options++;
    argv[n++] = (char *)f->user;
    argv[n++] = "-o";
    argv[n++] = (char *)f->expanded;
    return run(argv, f->log);
}

/* Pointers of any type may meet the same bytes in a kernel, but a misaligned access traps, as on a GPU. Symbols are
 * hidden: variables of templates would otherwise be one for all modules, whatever their sizes. */
static bool compile_unit(const struct folder *f, const char *compiler)
{
    char *argv[] = {(char *)compiler, "-O1", "-std=c++17", "-w", "-fPIC", "-shared", "-fno-strict-aliasing",
                    "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-stack-protector",
                    "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error", "-nostdlib", "-xc++", (char *)f->unit, "-o",
                    (char *)f->object, NULL};
    return run(argv, f->log);
}

int build(const char *source, const char *name, unsigned arch, char *const options[], void **image, size_t *bytes,
          char **log)
{
    struct folder f;
    const char *compiler = getenv("SIMGPU_CXX");
    size_t size = 0, log_bytes = 0;
    int result = -1;
    if (!compiler || !*compiler) compiler = "c++";
    uint64_t key = kept_key(simgpu_prelude, source, arch, options);
    *log = NULL;
    if ((*image = kept_read(key, bytes))) return *log = strdup(""), 0;
    if (!folder_make(&f)) return -1;
    char *text = NULL, *elf = NULL;
    if (write_text(f.user, name, source) && preprocess(&f, compiler, arch, options) &&
        (text = read_file(f.expanded, &size)) && write_unit(f.unit, text) && compile_unit(&f, compiler) &&
        (elf = read_file(f.object, &size)))
        result = finish_image(elf, size, arch, image, bytes);
    if (result) free(elf);
    else kept_write(key, *image, *bytes);
    free(text);
    *log = read_file(f.log, &log_bytes);
    if (!*log && result) *log = strdup("the simulated NVRTC cannot run the host compiler (SIMGPU_CXX)\n");
    if (!*log) *log = strdup("");
    folder_remove(&f);
    return result;
}
