/* device.h: the start of tests of kernels: the driver, a context of GPU 0, and the tuned table. */
#ifndef STRIDEC_TESTS_UNIT_DEVICE_H
#define STRIDEC_TESTS_UNIT_DEVICE_H
#include "../../runtime/device/device.h"
#include "../../runtime/tune/active.h"
#include <dlfcn.h>
#include <stdbool.h>

static struct device *device;

/* Returns false without a GPU, real or simulated. */
static inline bool start(void)
{
    CUdevice ordinal;
    CUcontext context;
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct driver *cu = driver_get();
    if (!cu || cu->cuInit(0) || cu->cuDeviceGet(&ordinal, 0) || cu->cuDevicePrimaryCtxRetain(&context, ordinal) ||
        cu->cuCtxPushCurrent(context))
        return false;
    device = device_default();
    table_start();
    return device != NULL;
}

#endif
