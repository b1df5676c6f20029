/* driver.c: finds the driver that the process has loaded, and has a table of its calls filled. */
#include "driver.h"
#include "gpu_runtime.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static struct driver table;
static _Atomic(const struct driver *) loaded;
_Atomic(struct link_map *) driver_last_object;
static atomic_bool unusable;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int name_last_object(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    snprintf(name, PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

/* Opens the last object once more, so that it stays in the loader's list. */
static struct link_map *hold_last_object(void)
{
    char name[PATH_MAX] = "";
    struct link_map *map = NULL;
    dl_iterate_phdr(name_last_object, name);
    void *object = name[0] ? dlopen(name, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL) : NULL;
    return object && !dlinfo(object, RTLD_DI_LINKMAP, &map) ? map : NULL;
}

static const struct driver *open_driver(int flags)
{
    pthread_mutex_lock(&lock);
    const struct driver *driver = atomic_load(&loaded);
    if (!driver && !atomic_load(&unusable)) {
        /* The handle stays open: the table points into the driver. */
        void *library = dlopen(gpu_runtime->library, flags | RTLD_LAZY | RTLD_LOCAL);
        if (library && gpu_runtime->read_driver(library, &table))
            driver = &table;
        else if (library)
            atomic_store(&unusable, true);
        if (driver) atomic_store_explicit(&loaded, driver, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return driver;
}

const struct driver *driver_get(void)
{
    const struct driver *driver = atomic_load_explicit(&loaded, memory_order_acquire);
    if (driver || atomic_load_explicit(&unusable, memory_order_relaxed) || driver_absent()) return driver;
    struct link_map *map = hold_last_object();   /* first: a library loaded after the look must be behind it */
    driver = open_driver(RTLD_NOLOAD);
    if (!driver) atomic_store_explicit(&driver_last_object, map, memory_order_release);
    return driver;
}

void driver_hide(void)
{
    static struct link_map last;   /* no object comes after it */
    atomic_store_explicit(&driver_last_object, &last, memory_order_release);
}

const struct driver *driver_load(void)
{
    const struct driver *driver = driver_get();
    return driver ? driver : open_driver(0);
}
