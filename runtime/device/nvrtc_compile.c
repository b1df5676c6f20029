/* nvrtc_compile.c: compiles CUDA C by NVRTC. No state but the list of architectures. */
#include "nvrtc.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARCHS_MAX 64
static int archs[ARCHS_MAX];
static int arch_count;

static void read_archs(void)
{
    const struct nvrtc *n = nvrtc_get(NULL);
    int count = 0;
    if (!n || n->nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1) return;
    int *all = calloc((size_t)count, sizeof *all);
    if (all && n->nvrtcGetSupportedArchs(all) == NVRTC_SUCCESS) {
        /* NVRTC sorts upwards; if there are too many, drop the oldest. */
        int skip = count > ARCHS_MAX ? count - ARCHS_MAX : 0;
        arch_count = count - skip;
        memcpy(archs, all + skip, sizeof *archs * (size_t)arch_count);
    }
    free(all);
}

const int *nvrtc_archs(int *n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_archs);
    *n = arch_count;
    return arch_count ? archs : NULL;
}

/* Returns true if NVRTC lists architectures and arch is not among them. */
static bool is_unknown(const char *arch)
{
    int n, number = atoi(arch + 3);
    const int *all = nvrtc_archs(&n);
    while (n > 0 && all[n - 1] != number) n--;
    return all && n == 0;
}

/* Lists the architectures in *why; NVRTC only says that an option's value is wrong. */
static void list_archs(const struct nvrtc *nvrtc, const char *arch, struct reason *why)
{
    int n;
    const int *all = nvrtc_archs(&n);
    reason_set(why, "NVRTC %d.%d (%.80s) does not compile for %.10s; it does for ", nvrtc->major, nvrtc->minor,
               nvrtc_file(), arch);
    for (int i = 0; i < n; i++) {
        size_t used = strlen(why->text);
        snprintf(why->text + used, sizeof why->text - used, "%s%d", i ? ", " : "sm_", all[i]);
    }
}

/* Sets *why to the log's first line with an error, else its first line, else NVRTC's name for the result. */
static void explain(const struct nvrtc *n, nvrtcProgram program, nvrtcResult result, struct reason *why)
{
    size_t size = 0;
    char *log = NULL;
    if (program && n->nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1) log = calloc(1, size + 1);
    if (log && n->nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS && *log) {
        char *line = strstr(log, "error");
        while (line && line > log && line[-1] != '\n') line--;
        if (!line) line = log + strspn(log, "\n");
        snprintf(why->text, sizeof why->text, "%.*s", (int)strcspn(line, "\n"), line);
    } else {
        snprintf(why->text, sizeof why->text, "NVRTC: %s", n->nvrtcGetErrorString(result));
    }
    free(log);
}

/* Gets machine code or PTX from a compiled program. */
static nvrtcResult fetch(const struct nvrtc *n, nvrtcProgram program, bool ptx, void **data, size_t *bytes)
{
    nvrtcResult (*get_size)(nvrtcProgram, size_t *) = ptx ? n->nvrtcGetPTXSize : n->nvrtcGetCUBINSize;
    nvrtcResult (*get)(nvrtcProgram, char *) = ptx ? n->nvrtcGetPTX : n->nvrtcGetCUBIN;
    nvrtcResult result = get_size(program, bytes);
    if (result != NVRTC_SUCCESS) return result;
    *data = calloc(1, *bytes + 1);
    if (!*data) return NVRTC_ERROR_OUT_OF_MEMORY;
    result = get(program, *data);
    if (result != NVRTC_SUCCESS) {
        free(*data);
        *data = NULL;
    }
    return result;
}

int nvrtc_compile(const char *source, const char *name, const char *arch, bool ptx, void **data, size_t *bytes,
                  struct reason *why)
{
    const struct nvrtc *n = nvrtc_get(why);
    if (!n) return -1;
    if (strncmp(arch, "sm_", 3)) {
        snprintf(why->text, sizeof why->text, "%.40s is not an architecture such as sm_90", arch);
        return -1;
    }
    char target[64];
    snprintf(target, sizeof target, "--gpu-architecture=%s_%s", ptx ? "compute" : "sm", arch + 3);
    const char *const options[] = {target, "-default-device", "--std=c++17"};
    nvrtcProgram program = NULL;
    nvrtcResult result = n->nvrtcCreateProgram(&program, source, name, 0, NULL, NULL);
    if (result == NVRTC_SUCCESS) result = n->nvrtcCompileProgram(program, 3, options);
    if (result == NVRTC_SUCCESS) result = fetch(n, program, ptx, data, bytes);
    if (result == NVRTC_ERROR_INVALID_OPTION && is_unknown(arch)) list_archs(n, arch, why);
    else if (result != NVRTC_SUCCESS) explain(n, program, result, why);
    if (program) n->nvrtcDestroyProgram(&program);
    return result == NVRTC_SUCCESS ? 0 : -1;
}
