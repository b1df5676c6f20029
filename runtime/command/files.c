/* files.c: names of architectures; files written whole or not at all. */
#include "base/file.h"
#include "command.h"
#include "device/driver.h"
#include "device/gpu_runtime.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Returns a new descriptor for standard output if that is the file, else -1: with `-o /dev/stdout >>FILE` it is a
 * regular one. */
static int standard_output(const struct stat *st)
{
    struct stat own;
    if (fstat(STDOUT_FILENO, &own) != 0 || own.st_dev != st->st_dev || own.st_ino != st->st_ino)
        return -1;
    fflush(stdout);
    return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

bool output_open(struct output *o, const char *path, mode_t mode)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    bool there = stat(path, &st) == 0, dangling = !there && lstat(path, &st) == 0;
    *o = (struct output){.fd = there ? standard_output(&st) : -1};
    if (o->fd >= 0)
        return true;
    if (dangling || (there && !S_ISREG(st.st_mode))) {
        o->fd = file_in_place(path, dangling, mode);
        return o->fd >= 0;
    }
    o->path = there ? realpath(path, NULL) : strdup(path);
    o->fd = o->path ? file_draft(o->path, mode & ~mask, &o->draft) : -1;
    if (o->fd < 0)
        free(o->path);
    return o->fd >= 0;
}

bool output_close(struct output *o, bool good)
{
    bool done = o->draft ? file_publish(o->draft, o->path, good) : good;
    int error = errno;
    free(o->path);
    errno = error;
    return done;
}

int write_output(const char *path, mode_t mode, const void *data, size_t bytes, struct reason *why)
{
    struct output o;
    if (output_open(&o, path, mode) && output_close(&o, file_write(o.fd, data, bytes)))
        return 0;
    snprintf(why->text, sizeof why->text, "%.150s can't be written: %s", path, strerror(errno));
    return -1;
}
