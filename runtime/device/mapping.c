/* mapping.c: finds pieces of mapped memory, and what tells them apart. */
#include "mapping.h"
#include "base/log.h"
#include <pthread.h>
#include <stdatomic.h>

static CUmemAllocationProp on_device(const struct device *d)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal}};
}

static uint64_t id_at(const struct driver *driver, uint64_t address)
{
    unsigned long long id = 0;
    CUresult r = driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    return r == CUDA_SUCCESS ? id : 0;
}

/* ---- the trial ---- */

struct trial {
    const struct driver *driver;
    struct device *device;
    CUmemAllocationProp prop;
    size_t bytes;
    CUdeviceptr at;
};

static bool create(const struct trial *t, CUmemGenericAllocationHandle *memory)
{
    return t->driver->cuMemCreate(memory, t->bytes, &t->prop, 0) == CUDA_SUCCESS;
}

/* Returns the driver's number for memory that is mapped for a moment; 0 on failure. */
static uint64_t id_of(const struct trial *t, CUmemGenericAllocationHandle memory)
{
    CUmemAccessDesc access = {.location = t->prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (t->driver->cuMemMap(t->at, t->bytes, 0, memory, 0) != CUDA_SUCCESS) return 0;
    bool accessible = t->driver->cuMemSetAccess(t->at, t->bytes, &access, 1) == CUDA_SUCCESS;
    uint64_t id = accessible ? id_at(t->driver, t->at) : 0;
    return t->driver->cuMemUnmap(t->at, t->bytes) == CUDA_SUCCESS ? id : 0;
}

/* Maps three memories at one address. Two exist at a time; the third is created after the first is gone. */
static bool ids_differ(const struct trial *t)
{
    CUmemGenericAllocationHandle first, second, third;
    if (!create(t, &first)) return false;
    uint64_t id[3] = {id_of(t, first), 0, 0};
    bool two = create(t, &second);
    if (two) id[1] = id_of(t, second);
    t->driver->cuMemRelease(first);
    bool three = create(t, &third);
    if (three) id[2] = id_of(t, third);
    if (two) t->driver->cuMemRelease(second);
    if (three) t->driver->cuMemRelease(third);
    return id[0] && id[1] && id[2] && id[0] != id[1] && id[0] != id[2] && id[1] != id[2];
}

static bool try(const struct driver *driver, struct device *d)
{
    struct trial t = {driver, d, on_device(d), 0, 0};
    if (driver->cuMemGetAllocationGranularity(&t.bytes, &t.prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        driver->cuMemAddressReserve(&t.at, t.bytes, 0, 0, 0) != CUDA_SUCCESS)
        return false;
    bool differ = ids_differ(&t);
    driver->cuMemAddressFree(t.at, t.bytes);
    return differ;
}

/* Returns true if the driver's numbers tell memories at one address apart; tried once. */
static bool ids_tell(const struct driver *driver, struct device *d)
{
    enum { UNTRIED, YES, NO };
    static atomic_int found;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (atomic_load_explicit(&found, memory_order_acquire) != UNTRIED) return found == YES;
    pthread_mutex_lock(&lock);
    if (found == UNTRIED) atomic_store(&found, try(driver, d) ? YES : NO);
    pthread_mutex_unlock(&lock);
    if (found == NO)
        log_once(LOG_INFO, "mappings", "the driver does not tell mapped memories apart: messages from them are packed");
    return found == YES;
}

/* ---- pieces ---- */

static bool is_mapped(const struct driver *driver, const void *p)
{
    CUmemGenericAllocationHandle memory;
    if (driver->cuMemRetainAllocationHandle(&memory, (void *)(uintptr_t)p) != CUDA_SUCCESS) return false;
    driver->cuMemRelease(memory);
    return true;
}

static bool range_at(const struct driver *driver, uint64_t p, struct allocation *a)
{
    CUdeviceptr start = 0;
    size_t span = 0;
    if (driver->cuMemGetAddressRange(&start, &span, p) != CUDA_SUCCESS || p - start >= span) return false;
    *a = (struct allocation){start, span, id_at(driver, p), true};
    return a->id != 0;
}

bool mapping_locate(struct device *d, const void *p, struct allocation *a)
{
    const struct driver *driver = driver_get();
    *a = (struct allocation){0};
    if (!driver->mappings || device_enter(d)) return false;
    bool found = is_mapped(driver, p) && ids_tell(driver, d) && range_at(driver, (uint64_t)(uintptr_t)p, a);
    device_leave(d);
    if (!found) *a = (struct allocation){0};
    return found;
}

bool mapping_same(const struct allocation *piece)
{
    struct allocation now;
    return range_at(driver_get(), piece->start, &now) && now.start == piece->start && now.span == piece->span &&
           now.id == piece->id;
}

bool mapping_whole(const struct device *d, const struct allocation *piece, CUmemGenericAllocationHandle memory)
{
    const struct driver *driver = driver_get();
    CUmemAllocationProp prop = on_device(d);
    size_t more;
    CUdeviceptr at;
    if (driver->cuMemGetAllocationGranularity(&more, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        driver->cuMemAddressReserve(&at, piece->span + more, 0, 0, 0) != CUDA_SUCCESS)
        return false;
    CUresult r = driver->cuMemMap(at, piece->span + more, 0, memory, 0);
    if (r == CUDA_SUCCESS) driver->cuMemUnmap(at, piece->span + more);
    driver->cuMemAddressFree(at, piece->span + more);
    /* Drivers that map no memory in part say that (580). */
    return r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_NOT_SUPPORTED;
}
