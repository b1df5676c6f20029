/* nvrtc.c: the calls of the simulated NVRTC. PTX is the source text. */
#include "build.h"
#include <cuda.h>
#include <nvrtc.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct _nvrtcProgram {
    char *source, *name, *log;
    void *image;
    size_t image_bytes;
    int compiled;
};

static const int archs[] = {70, 75, 80, 86, 89, 90, 100, 120};
enum { ARCHS = sizeof archs / sizeof *archs, OPTIONS_MAX = 48 };

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    if (!major || !minor) return NVRTC_ERROR_INVALID_INPUT;
    *major = CUDA_VERSION / 1000;
    *minor = CUDA_VERSION % 1000 / 10;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult r)
{
    static const struct {
        nvrtcResult code;
        const char *name;
    } row[] = {
        {NVRTC_SUCCESS, "NVRTC_SUCCESS"},
        {NVRTC_ERROR_OUT_OF_MEMORY, "NVRTC_ERROR_OUT_OF_MEMORY"},
        {NVRTC_ERROR_PROGRAM_CREATION_FAILURE, "NVRTC_ERROR_PROGRAM_CREATION_FAILURE"},
        {NVRTC_ERROR_INVALID_INPUT, "NVRTC_ERROR_INVALID_INPUT"},
        {NVRTC_ERROR_INVALID_PROGRAM, "NVRTC_ERROR_INVALID_PROGRAM"},
        {NVRTC_ERROR_INVALID_OPTION, "NVRTC_ERROR_INVALID_OPTION"},
        {NVRTC_ERROR_COMPILATION, "NVRTC_ERROR_COMPILATION"},
        {NVRTC_ERROR_INTERNAL_ERROR, "NVRTC_ERROR_INTERNAL_ERROR"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].code == r) return row[i].name;
    return "NVRTC_ERROR unknown";
}

nvrtcResult nvrtcGetNumSupportedArchs(int *n)
{
    if (!n) return NVRTC_ERROR_INVALID_INPUT;
    *n = ARCHS;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out)
{
    if (!out) return NVRTC_ERROR_INVALID_INPUT;
    memcpy(out, archs, sizeof archs);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
    free((*program)->source);
    free((*program)->name);
    free((*program)->log);
    free((*program)->image);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int headers,
                               const char *const *header, const char *const *include)
{
    (void)header, (void)include;
    if (!program || !source || headers) return NVRTC_ERROR_INVALID_INPUT;
    nvrtcProgram p = *program = calloc(1, sizeof *p);
    if (!p) return NVRTC_ERROR_OUT_OF_MEMORY;
    p->source = strdup(source);
    p->name = strdup(name ? name : "default_program");
    p->log = strdup("");
    if (p->source && p->name && p->log) return NVRTC_SUCCESS;
    nvrtcDestroyProgram(program);
    return NVRTC_ERROR_OUT_OF_MEMORY;
}

/* What the options ask for: arch, whether it is a virtual one, and those for the host compiler. */
struct request {
    unsigned arch;
    int is_virtual;
    char *option[OPTIONS_MAX + 1];
    int options;
};

static int set_arch(struct request *q, const char *text)
{
    q->is_virtual = !strncmp(text, "compute_", 8);
    if (!q->is_virtual && strncmp(text, "sm_", 3)) return -1;
    q->arch = (unsigned)strtoul(strchr(text, '_') + 1, NULL, 10);
    for (int i = 0; i < ARCHS; i++)
        if ((unsigned)archs[i] == q->arch) return 0;
    return -1;
}

static const char *after(const char *option, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(option, prefix, n) ? NULL : option + n;
}

static int read_option(struct request *q, const char *option)
{
    const char *value;
    if ((value = after(option, "--gpu-architecture=")) || (value = after(option, "-arch="))) return set_arch(q, value);
    if (option[0] != '-') return -1;
    if (strncmp(option, "-D", 2) && strncmp(option, "-U", 2) && strncmp(option, "-I", 2)) return 0;
    if (q->options == OPTIONS_MAX) return -1;
    q->option[q->options++] = (char *)option;
    return 0;
}

static void delay(void)
{
    const char *text = getenv("SIMGPU_NVRTC_DELAY_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0) nanosleep(&t, NULL);
}

/* A line for each compile, so that a test can say that there was none, or none of what came before. */
static void note(nvrtcProgram p)
{
    const char *path = getenv("SIMGPU_NVRTC_LOG");
    FILE *out = path && *path ? fopen(path, "ae") : NULL;
    if (!out) return;
    fprintf(out, "%s %016llx\n", p->name, (unsigned long long)XXH3_64bits(p->source, strlen(p->source)));
    fclose(out);
}

static int set_log(nvrtcProgram p, char *log)
{
    if (!log) return -1;
    free(p->log);
    p->log = log;
    return 0;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *option)
{
    struct request q = {.arch = 75, .is_virtual = 1};
    const char *fail = getenv("SIMGPU_NVRTC_FAIL");
    char *log = NULL;
    if (!p) return NVRTC_ERROR_INVALID_PROGRAM;
    for (int i = 0; i < n; i++) {
        if (!read_option(&q, option[i])) continue;
        char line[256];
        snprintf(line, sizeof line, "nvrtc: error: invalid value or option: %.200s\n", option[i]);
        set_log(p, strdup(line));
        return NVRTC_ERROR_INVALID_OPTION;
    }
    note(p);
    delay();
    if (fail && *fail && strcmp(fail, "0")) {
        set_log(p, strdup("failed because SIMGPU_NVRTC_FAIL is set\n"));
        return NVRTC_ERROR_COMPILATION;
    }
    free(p->image);
    p->image = NULL;
    p->compiled = !build(p->source, p->name, q.arch, q.option, &p->image, &p->image_bytes, &log);
    if (set_log(p, log)) return NVRTC_ERROR_OUT_OF_MEMORY;
    if (p->compiled && q.is_virtual) p->image_bytes = 0;
    return p->compiled ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes)
{
    if (!p || !bytes) return NVRTC_ERROR_INVALID_INPUT;
    *bytes = strlen(p->log) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log)
{
    if (!p || !log) return NVRTC_ERROR_INVALID_INPUT;
    strcpy(log, p->log);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes)
{
    if (!p || !bytes) return NVRTC_ERROR_INVALID_INPUT;
    if (!p->compiled) return NVRTC_ERROR_INVALID_PROGRAM;
    *bytes = p->image_bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *cubin)
{
    if (!p || !cubin) return NVRTC_ERROR_INVALID_INPUT;
    if (!p->compiled || !p->image_bytes) return NVRTC_ERROR_INVALID_PROGRAM;
    memcpy(cubin, p->image, p->image_bytes);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes)
{
    if (!p || !bytes) return NVRTC_ERROR_INVALID_INPUT;
    if (!p->compiled) return NVRTC_ERROR_INVALID_PROGRAM;
    *bytes = strlen(p->source) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *ptx)
{
    if (!p || !ptx) return NVRTC_ERROR_INVALID_INPUT;
    if (!p->compiled) return NVRTC_ERROR_INVALID_PROGRAM;
    strcpy(ptx, p->source);
    return NVRTC_SUCCESS;
}
