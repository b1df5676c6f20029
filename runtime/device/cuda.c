/* cuda.c: the table of gpu_runtime.h for CUDA: the driver's calls by their symbols, and NVRTC. */
#include "base/log.h"
#include "driver.h"
#include "gpu_runtime.h"
#include "nvrtc.h"
#include <dlfcn.h>

static void *find_required(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        log_once(LOG_WARN, "driver symbol", "the CUDA driver has no %s: it is too old, device buffers are not handled",
                 name);
    return symbol;
}

#define EARLY_FROM 12030   /* the first driver that captures a launch which begins early */

/* The symbol after cuda.h's macros: cuMemAlloc becomes cuMemAlloc_v2, then text. */
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define READ_SYMBOL(name) &&(*(void **)&out->name = find_required(library, TEXT(name))) != NULL
#define READ_OPTIONAL(name) &&(*(void **)&out->name = dlsym(library, TEXT(name))) != NULL
static bool read_driver(void *library, struct driver *out)
{
    int version = 0;
    out->graphs = true DRIVER_GRAPH_CALLS(READ_OPTIONAL);
    out->mappings = true DRIVER_MAPPING_CALLS(READ_OPTIONAL);
    out->memory_operations = true DRIVER_MEMORY_CALLS(READ_OPTIONAL);
    bool early = true DRIVER_EARLY_CALLS(READ_OPTIONAL);
    bool all = true DRIVER_CALLS(READ_SYMBOL);
    out->early_launches = all && early && out->cuDriverGetVersion(&version) == CUDA_SUCCESS && version >= EARLY_FROM;
    return all;
}

static const struct gpu_runtime cuda = {
    .library = "libcuda.so.1",
    .read_driver = read_driver,
    .jit_version = nvrtc_version,
    .jit_file = nvrtc_file,
    .jit_archs = nvrtc_archs,
    .jit_compile = nvrtc_compile,
    .jit_contains = nvrtc_contains,
};
const struct gpu_runtime *const gpu_runtime = &cuda;
