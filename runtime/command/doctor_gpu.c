/* doctor_gpu.c: checks of the driver, the GPUs, NVRTC, the C compiler, and what was compiled ahead of time. */
#include "base/env.h"
#include "command.h"
#include "device/driver.h"
#include "device/gpu_runtime.h"
#include "doctor.h"
#include "hostpack/host_compiler.h"
#include "kernel/module_cache.h"

#include <stdio.h>
#include <string.h>

/* Returns the driver, or NULL if it can't be used. Counts its GPUs. */
static const struct driver *usable_driver(int *gpus)
{
    const struct driver *d = driver_load();
    *gpus = 0;
    return d && d->cuInit(0) == CUDA_SUCCESS && d->cuDeviceGetCount(gpus) == CUDA_SUCCESS ? d : NULL;
}

bool doctor_first_gpu(char name[128])
{
    int gpus;
    CUdevice device;
    const struct driver *d = usable_driver(&gpus);
    return d && gpus && d->cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
           d->cuDeviceGetName(name, 128, device) == CUDA_SUCCESS;
}

void doctor_driver(struct checkup *c)
{
    const struct driver *d = driver_load();
    int version = 0;
    const char *text = "unknown error";
    if (!d) {
        checkup_add(c, LEVEL_WARN, "no usable libcuda.so.1: device memory is not served");
        checkup_fix(c, "install NVIDIA's driver, or try `stridec run --sim`; in a container --gpus all");
        return;
    }
    CUresult result = d->cuInit(0);
    if (result != CUDA_SUCCESS) {
        d->cuGetErrorString(result, &text);
        checkup_add(c, LEVEL_BAD, "it does not start (%s)", text);
        checkup_fix(c, "does nvidia-smi work, and is the GPU visible here?");
        return;
    }
    d->cuDriverGetVersion(&version);
    checkup_add(c, LEVEL_OK, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

static void check_gpu(struct checkup *c, const struct driver *d, int ordinal)
{
    CUdevice device;
    char name[128] = "", label[16];
    int arch = gpu_arch(ordinal);
    size_t bytes = 0;
    snprintf(label, sizeof label, "gpu %d", ordinal);
    if (arch && d->cuDeviceGet(&device, ordinal) == CUDA_SUCCESS &&
        d->cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS &&
        d->cuDeviceTotalMem(&bytes, device) == CUDA_SUCCESS) {
        checkup_add_named(c, LEVEL_OK, label, "%s, sm_%d, %.1f GiB", name, arch, (double)bytes / (1 << 30));
        return;
    }
    checkup_add_named(c, LEVEL_BAD, label, "the driver does not answer about it");
    checkup_fix(c, "does nvidia-smi list it?");
}

void doctor_gpus(struct checkup *c)
{
    int gpus;
    const struct driver *d = usable_driver(&gpus);
    if (!d) return; /* doctor_driver has reported it */
    if (gpus == 0) {
        checkup_add(c, LEVEL_WARN, "none visible");
        checkup_fix(c, "is CUDA_VISIBLE_DEVICES set to nothing?");
    }
    for (int i = 0; i < gpus; i++) check_gpu(c, d, i);
}

void doctor_peers(struct checkup *c)
{
    int gpus, pairs = 0, open = 0;
    const struct driver *d = usable_driver(&gpus);
    if (!d || gpus < 2) return;
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < gpus; b++) {
            CUdevice from, to;
            int can = 0;
            if (a == b) continue;
            pairs++;
            if (d->cuDeviceGet(&from, a) == CUDA_SUCCESS && d->cuDeviceGet(&to, b) == CUDA_SUCCESS &&
                d->cuDeviceCanAccessPeer(&can, from, to) == CUDA_SUCCESS && can)
                open++;
        }
    if (open == pairs) {
        checkup_add(c, LEVEL_OK, "between all %d GPUs", gpus);
        return;
    }
    checkup_add(c, LEVEL_WARN, "%d of %d directions: messages in the others are packed", open, pairs);
    checkup_fix(c, "`nvidia-smi topo -m` shows how the GPUs are connected");
}

void doctor_nvrtc(struct checkup *c)
{
    struct reason why;
    int major, minor;
    if (gpu_runtime->jit_version(&major, &minor, &why)) {
        checkup_add(c, LEVEL_OK, "%d.%d, %s", major, minor, gpu_runtime->jit_file());
        return;
    }
    checkup_add(c, LEVEL_WARN, "%s: only modules of `stridec gen` and of the cache are used", why.text);
    checkup_fix(c, "install the CUDA toolkit, or its wheel: pip install nvidia-cuda-nvrtc-cu12");
}

void doctor_compiler(struct checkup *c)
{
    struct reason why;
    const char *path = host_compiler_path(&why);
    if (path) {
        checkup_add(c, LEVEL_OK, "%s, for data in host memory", path);
        return;
    }
    checkup_add(c, LEVEL_WARN,
                "%s: data in host memory is packed without code of its own, except that of `stridec gen`", why.text);
    checkup_fix(c, "install gcc or clang, or set STRIDEC_CC");
}

/* ---- ahead of time ---- */

struct listed {
    char text[256]; /* "sm_80 (12 modules), ..." */
    char arch[32][24];
    int archs, gpu_archs;
};

static void list_arch(void *arg, const char *arch, int modules)
{
    struct listed *l = arg;
    size_t n = strlen(l->text);
    snprintf(l->text + n, sizeof l->text - n, "%s%s (%d modules)", n ? ", " : "", arch, modules);
    if (l->archs < 32) snprintf(l->arch[l->archs++], sizeof *l->arch, "%s", arch);
    l->gpu_archs += strncmp(arch, "sm_", 3) == 0;
}

static bool has_arch(const struct listed *l, const char *arch)
{
    for (int i = 0; i < l->archs; i++)
        if (strcmp(l->arch[i], arch) == 0) return true;
    return false;
}

/* Tells of the kernels that serve all types, which NVRTC makes at a first start if no installation has them. */
static void installed_kernels(struct checkup *c)
{
    struct listed l = {.archs = 0};
    const char *folder = aot_installed(list_arch, &l);
    if (folder) checkup_add(c, LEVEL_OK, "%s has the kernels that serve all types: %s", folder, l.text);
}

void doctor_aot(struct checkup *c)
{
    struct listed l = {.archs = 0};
    const char *folder = env_get()->aot, *why = folder ? aot_list(list_arch, &l) : NULL;
    char last[16] = "";
    installed_kernels(c);
    if (!folder) return;
    if (why) {
        checkup_add(c, LEVEL_BAD, "STRIDEC_AOT=%s: %s", folder, why);
        checkup_fix(c, "mend that, or make the folder anew: `stridec gen SPEC -o %s`", folder);
        return;
    }
    for (int i = 0, arch; (arch = gpu_arch(i)) != 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "sm_%d", arch);
        if (strcmp(name, last) == 0 || has_arch(&l, name)) continue;
        memcpy(last, name, sizeof last);
        checkup_add(c, LEVEL_BAD, "STRIDEC_AOT=%s has nothing for GPU %d, %s: it holds %s", folder, i, name, l.text);
        checkup_fix(c, "`stridec gen SPEC -o %s --arch %s`", folder, name);
    }
    if (!*last) checkup_add(c, LEVEL_OK, "%s: %s", folder, l.text);
}
