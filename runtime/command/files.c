/* files.c: names of architectures; files written whole or not at all. */
#include "base/output.h"
#include "command.h"
#include "device/driver.h"
#include "device/gpu_runtime.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

bool arch_is_valid(const char *arch)
{
    if (strncmp(arch, "sm_", 3) != 0)
        return false;
    size_t digits = strspn(arch + 3, "0123456789");
    const char *rest = arch + 3 + digits;
    return digits >= 2 && digits <= 3 && (!*rest || (islower((unsigned char)*rest) && !rest[1]));
}

bool arch_is_amd(const char *arch)
{
    size_t digits = strncmp(arch, "gfx", 3) == 0 ? strspn(arch + 3, "0123456789abcdef") : 0;
    return digits >= 3 && digits <= 4 && !arch[3 + digits];
}

int gpu_arch(int ordinal)
{
    const struct driver *d = driver_load();
    CUdevice device;
    int major = 0, minor = 0;
    if (!d || d->cuInit(0) != CUDA_SUCCESS || d->cuDeviceGet(&device, ordinal) != CUDA_SUCCESS ||
        d->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
        d->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
        return 0;
    return 10 * major + minor;
}

const char *arch_default(struct reason *why)
{
    static char name[16];
    int arch = gpu_arch(0), major, minor, n;
    if (arch == 0) {
        if (!gpu_runtime->jit_version(&major, &minor, why))
            return NULL;
        const int *all = gpu_runtime->jit_archs(&n);
        if (!all) {
            snprintf(why->text, sizeof why->text, "NVRTC names no architecture; give one by --arch");
            return NULL;
        }
        arch = all[n - 1];
    }
    snprintf(name, sizeof name, "sm_%d", arch);
    return name;
}

FILE *tell_of(const char *path)
{
    return output_is_standard(path) ? stderr : stdout;
}

int save_file(const char *path, const void *data, size_t bytes, struct reason *why)
{
    if (output_write(path, 0666, data, bytes))
        return 0;
    snprintf(why->text, sizeof why->text, "%.150s can't be written: %s", path, strerror(errno));
    return -1;
}
