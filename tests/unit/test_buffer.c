/* test_buffer.c: what of a device's memory is kept from one message for the next. On the simulated GPU (its folder is on
 * LD_LIBRARY_PATH); each test in a process of its own. */
#include "../../runtime/device/device.h"
#include "../../runtime/device/driver.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "child.h"

#define MIB ((size_t)1 << 20)
enum { LARGE = 32, TOTAL = 1024, MOST = TOTAL / 16 };   /* MiB */

static const struct driver *driver;
static struct device *device;

static bool begin(void)
{
    CUcontext context;
    driver = driver_load();
    return driver && !driver->cuInit(0) && !driver->cuDevicePrimaryCtxRetain(&context, 0) && !driver->cuCtxPushCurrent(context) &&
           (device = device_default());
}

/* In whole MiB: the simulated GPU leaves a page behind each allocation. */
static size_t used(void)
{
    size_t available, total;
    driver->cuMemGetInfo(&available, &total);
    return (total - available) / MIB;
}

static bool gives_back(size_t mib, size_t kept)
{
    struct pool_buffer *b = mempool_get(device, BUFFER_DEVICE, mib * MIB);
    size_t before = used();
    mempool_put(b);
    return b && used() == before - mib + kept;
}

static bool keeps_a_sixteenth(void)
{
    return begin() && gives_back(LARGE, LARGE) && gives_back(LARGE, LARGE) && gives_back(MOST, 0) && gives_back(2, 2);
}

static bool keeps_what_is_set(void)
{
    return begin() && gives_back(LARGE, 0) && gives_back(8, 0) && gives_back(4, 4);
}

/* What the program takes leaves less than a sixteenth: of what is kept, too. */
static bool keeps_nothing_where_memory_is_short(void)
{
    CUdeviceptr program;
    struct pool_buffer *b;
    if (!begin() || !gives_back(2, 2) || !(b = mempool_get(device, BUFFER_DEVICE, LARGE * MIB))) return false;
    if (driver->cuMemAlloc(&program, (TOTAL - LARGE - MOST) * MIB)) return false;
    mempool_put(b);
    return used() == TOTAL - LARGE - MOST;
}

static void in_process(bool (*body)(void), const char *setting)
{
    in_child(false, (const char *const[]){"SIMGPU_MEMORY=1024", setting, NULL}, body);
}

static void test_a_sixteenth(void **state)
{
    (void)state;
    in_process(keeps_a_sixteenth, NULL);
}

static void test_a_setting(void **state)
{
    (void)state;
    in_process(keeps_what_is_set, "STRIDEC_KEEP=8");
}

static void test_short_memory(void **state)
{
    (void)state;
    in_process(keeps_nothing_where_memory_is_short, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_sixteenth), cmocka_unit_test(test_a_setting),
                                       cmocka_unit_test(test_short_memory)};
    return cmocka_run_group_tests_name("buffer", tests, NULL, NULL);
}
