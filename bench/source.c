/* source.c: kernels from CUDA C at run time, where only NVRTC is at hand. */
#include "common.h"
#include <dlfcn.h>
#include <nvrtc.h>
#include <stdlib.h>

struct nvrtc {
    __typeof__(nvrtcCreateProgram) *create;
    __typeof__(nvrtcDestroyProgram) *destroy;
    __typeof__(nvrtcCompileProgram) *compile;
    __typeof__(nvrtcGetCUBINSize) *get_size;
    __typeof__(nvrtcGetCUBIN) *get;
};

static bool load(struct nvrtc *n)
{
    static const struct {
        const char *name;
        int major;
    } all[] = { { "libnvrtc.so.13", 13 }, { "libnvrtc.so.12", 12 }, { "libnvrtc.so.11.2", 11 } };
    void *library = NULL;
    int driver;

    CUDA(cudaDriverGetVersion(&driver)); /* it can't load what a later one compiles */
    for (size_t i = 0; !library && i < sizeof(all) / sizeof(all)[0]; i++)
        if (all[i].major <= driver / 1000)
            library = dlopen(all[i].name, RTLD_NOW);
    if (!library)
        return false;
    *(void **)&n->create = dlsym(library, "nvrtcCreateProgram");
    *(void **)&n->destroy = dlsym(library, "nvrtcDestroyProgram");
    *(void **)&n->compile = dlsym(library, "nvrtcCompileProgram");
    *(void **)&n->get_size = dlsym(library, "nvrtcGetCUBINSize");
    *(void **)&n->get = dlsym(library, "nvrtcGetCUBIN");
    return n->create && n->destroy && n->compile && n->get_size && n->get;
}

/* Machine code for the current device, allocated; NULL where it does not compile. */
static char *compiled(const struct nvrtc *n, const char *source)
{
    char arch[40];
    const char *options[] = { arch, "-default-device" };
    int device, major, minor;
    nvrtcProgram program;
    size_t bytes;
    char *image = NULL;

    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    snprintf(arch, sizeof(arch), "--gpu-architecture=sm_%d%d", major, minor);
    if (n->create(&program, source, "bench.cu", 0, NULL, NULL) != NVRTC_SUCCESS)
        return NULL;
    if (n->compile(program, 2, options) == NVRTC_SUCCESS && n->get_size(program, &bytes) == NVRTC_SUCCESS) {
        image = host_new(bytes);
        n->get(program, image);
    }
    n->destroy(&program);
    return image;
}

CUfunction source_kernel(const char *source, const char *name)
{
    struct nvrtc n;
    char *image = load(&n) ? compiled(&n, source) : NULL;
    CUfunction kernel;

    CUDA(cudaFree(NULL));   /* modules load into the context, which the first call of the runtime makes */
    kernel = image ? driver_kernel(image, name) : NULL;
    free(image);
    return kernel;
}
