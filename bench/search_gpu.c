/* search_gpu.c: the driver, and NVRTC in processes of its own. */
#include "search.h"
#include "../gen/tree.h"
#include "../runtime/device/driver.h"
#include "../runtime/device/gpu_runtime.h"
#include <dlfcn.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct cu cu;
const char *search_self;
extern char **environ;

__asm__(".pushsection .rodata\n.global search_kernels\nsearch_kernels:\n.incbin \"bench/search_kernels.cu\"\n"
        ".byte 0\n.popsection\n");

void gpu_check(CUresult r, const char *what)
{
    const char *name = "?";
    if (!r) return;
    if (cu.cuGetErrorName) cu.cuGetErrorName(r, &name);
    fprintf(stderr, "search: %.60s: %s\n", what, name);
    exit(1);
}

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
static bool load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    bool whole = library != NULL;
    if (!library) return false;
#define REQUIRED(name) whole = (*(void **)&cu.name = dlsym(library, TEXT(name))) != NULL && whole;
#define OPTIONAL(name) *(void **)&cu.name = dlsym(library, TEXT(name));
    SEARCH_CALLS(REQUIRED)
    SEARCH_OPTIONAL(OPTIONAL)
    if (!cu.cuEventElapsedTime) {
        *(void **)&cu.cuEventElapsedTime = dlsym(library, "cuEventElapsedTime");
        return cu.cuEventElapsedTime != NULL;
    }
    return whole;
}

bool gpu_open(int flags)
{
    CUcontext context;
    int major, minor;
    if (!load_driver() || cu.cuInit(0)) {
        fprintf(stderr, "search: no GPU found\n");
        return false;
    }
    CU(cuDeviceGet(&cu.device, 0));
    if (flags >= 0 && cu.cuDevicePrimaryCtxSetFlags) CU(cuDevicePrimaryCtxSetFlags(cu.device, (unsigned)flags));
    CU(cuDevicePrimaryCtxRetain(&context, cu.device));
    CU(cuCtxPushCurrent(context));
    CU(cuDeviceGetName(cu.gpu, sizeof cu.gpu, cu.device));
    CU(cuDeviceGetAttribute(&cu.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cu.device));
    CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, cu.device));
    CU(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, cu.device));
    cu.arch = 10 * major + minor;
    return true;
}

CUstream gpu_stream(void)
{
    static CUstream stream;
    if (!stream) CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    int c;
    while (f && (c = getc(f)) != EOF) putc(c, to);
    fclose(to);
    if (f) fclose(f);
    return text;
}

static void write_file(const char *path, const char *text, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, bytes, f) != bytes || fclose(f)) {
        perror(path);
        exit(1);
    }
}

int compile_main(const char *arch, const char *in, const char *out)
{
    struct reason why;
    char name[16];
    void *cubin;
    size_t bytes;
    snprintf(name, sizeof name, "sm_%s", arch);
    if (gpu_runtime->jit_compile(read_file(in, &bytes), in, name, false, &cubin, &bytes, &why)) {
        fprintf(stderr, "search: %s: %s\n", in, why.text);
        return 1;
    }
    write_file(out, cubin, bytes);
    return 0;
}

static pid_t compile_start(const char *folder, int i, const char *source)
{
    char in[300], out[300], arch[16];
    pid_t child;
    snprintf(in, sizeof in, "%s/%d.cu", folder, i);
    snprintf(out, sizeof out, "%s/%d.cubin", folder, i);
    snprintf(arch, sizeof arch, "%d", cu.arch);
    write_file(in, source, strlen(source));
    char *const argv[] = { (char *)search_self, "--compile", arch, in, out, NULL };
    return posix_spawn(&child, search_self, NULL, NULL, argv, environ) ? -1 : child;
}

static CUmodule compile_end(const char *folder, int i)
{
    char path[300];
    size_t bytes = 0;
    CUmodule module = NULL;
    snprintf(path, sizeof path, "%s/%d.cubin", folder, i);
    char *cubin = read_file(path, &bytes);
    if (bytes && cu.cuModuleLoadData && cu.cuModuleLoadData(&module, cubin)) {
        fprintf(stderr, "search: the driver refuses %s\n", path);
        module = NULL;
    }
    unlink(path);
    snprintf(path, sizeof path, "%s/%d.cu", folder, i);
    unlink(path);
    free(cubin);
    return module;
}

void compile_all(int n, char *const source[], CUmodule module[])
{
    char folder[] = "/tmp/stridec-search-XXXXXX";
    int running = 0, most = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!mkdtemp(folder)) gpu_check(CUDA_ERROR_UNKNOWN, folder);
    for (int i = 0; i < n; i++) {
        if (running >= most && wait(NULL) > 0) running--;
        if (compile_start(folder, i, source[i]) > 0) running++;
    }
    while (running > 0 && wait(NULL) > 0) running--;
    for (int i = 0; i < n; i++) module[i] = compile_end(folder, i);
    rmdir(folder);
}
