/* driver.c: finds the CUDA driver that the process has loaded and reads its calls into a table. */
#include "driver.h"
#include "base/log.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_SONAME "libcuda.so.1"

static struct driver table;
static _Atomic(const struct driver *) found;
_Atomic(struct link_map *) driver_last;
static atomic_bool unusable;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* An older driver lacks the newest versions of some calls; these older names have the same prototype. */
static const struct {
    const char *name, *older;
} older_names[] = {
    {"cuEventElapsedTime_v2", "cuEventElapsedTime"},
};

static void *find_symbol(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    for (size_t i = 0; !symbol && i < sizeof older_names / sizeof *older_names; i++)
        if (!strcmp(older_names[i].name, name)) symbol = dlsym(library, older_names[i].older);
    return symbol;
}

static void *must_find(void *library, const char *name)
{
    void *symbol = find_symbol(library, name);
    if (!symbol)
        log_once(LOG_WARN, "driver symbol", "the CUDA driver has no %s: it is too old, device buffers are not handled",
                 name);
    return symbol;
}

/* The name as cuda.h maps it: cuMemAlloc becomes cuMemAlloc_v2 before it is made text. */
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define READ_SYMBOL(name) &&(*(void **)&table.name = must_find(library, TEXT(name))) != NULL
#define READ_OPTIONAL(name) &&(*(void **)&table.name = find_symbol(library, TEXT(name))) != NULL
static bool read_table(void *library)
{
    table.graphs = true DRIVER_GRAPH_CALLS(READ_OPTIONAL);
    return true DRIVER_CALLS(READ_SYMBOL);
}

static int name_last(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    snprintf(name, PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

/* The last object is opened once more, so that it stays in the list as long as it is looked at. */
static struct link_map *hold_last(void)
{
    char name[PATH_MAX] = "";
    struct link_map *map = NULL;
    dl_iterate_phdr(name_last, name);
    void *object = name[0] ? dlopen(name, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL) : NULL;
    return object && !dlinfo(object, RTLD_DI_LINKMAP, &map) ? map : NULL;
}

static const struct driver *take(int flags)
{
    pthread_mutex_lock(&lock);
    const struct driver *driver = atomic_load(&found);
    if (!driver && !atomic_load(&unusable)) {
        /* The handle is kept: the driver must not go away under the table. */
        void *library = dlopen(DRIVER_SONAME, flags | RTLD_LAZY | RTLD_LOCAL);
        if (library && read_table(library))
            driver = &table;
        else if (library)
            atomic_store(&unusable, true);
        if (driver) atomic_store_explicit(&found, driver, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return driver;
}

const struct driver *driver_get(void)
{
    const struct driver *driver = atomic_load_explicit(&found, memory_order_acquire);
    if (driver || atomic_load_explicit(&unusable, memory_order_relaxed) || driver_absent()) return driver;
    struct link_map *map = hold_last();   /* first: what is loaded after the look must be behind it */
    driver = take(RTLD_NOLOAD);
    if (!driver) atomic_store_explicit(&driver_last, map, memory_order_release);
    return driver;
}

void driver_hide(void)
{
    static struct link_map last;   /* nothing ever comes after it */
    atomic_store_explicit(&driver_last, &last, memory_order_release);
}

const struct driver *driver_load(void)
{
    const struct driver *driver = driver_get();
    return driver ? driver : take(0);
}
