/* device.c: finds the context that owns a pointer; keeps the list of contexts in use. */
#include "device.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/recent_order.h"
#include "device_internal.h"
#include "host_range.h"
#include "mapping.h"
#include <stdlib.h>

static _Atomic(struct device *) devices;   /* grows at the head, never shrinks: read without a lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *driver_error(CUresult r)
{
    const struct driver *driver = driver_get();
    const char *text = NULL;
    if (driver && driver->cuGetErrorString(r, &text) == CUDA_SUCCESS && text) return text;
    return "unknown driver error";
}

/* Errors that a context keeps until it is destroyed. */
static const CUresult sticky_errors[] = {
    CUDA_ERROR_ECC_UNCORRECTABLE,
    CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_ASSERT,
    CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS,
    CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUDA_ERROR_INVALID_PC,
    CUDA_ERROR_LAUNCH_FAILED,
};
static atomic_bool lost_logged;

bool driver_lost(CUresult r)
{
    bool lost = false;
    for (size_t i = 0; i < sizeof sticky_errors / sizeof *sticky_errors; i++) lost |= r == sticky_errors[i];
    if (lost) error_set_device_lost(true);
    if (lost && !atomic_exchange(&lost_logged, true))
        log_write(
            LOG_ERROR,
            "the CUDA context is lost (%s): a kernel has failed, of the program's own perhaps; messages of device "
            "memory are errors from here on",
            driver_error(r));
    return lost;
}

/* The device of addresses that neither the driver nor the host knows. Nobody can enter it. */
static struct device_state unknown_device = {
    .device = {.ordinal = -1}, .gone = true, .lock = PTHREAD_MUTEX_INITIALIZER};

struct device *device_first(void)
{
    return atomic_load_explicit(&devices, memory_order_acquire);
}

/* Returns the device of a context, or of the ordinal's primary context if it is NULL. Skips devices known as gone. */
static struct device *find(CUcontext context, CUdevice ordinal)
{
    for (struct device *d = device_first(); d; d = d->next) {
        if (atomic_load_explicit(&device_state_of(d)->gone, memory_order_relaxed)) continue;
        if (context ? d->context == context
                    : d->ordinal == ordinal && atomic_load_explicit(&device_state_of(d)->primary, memory_order_relaxed))
            return d;
    }
    return NULL;
}

static int attribute(const struct driver *driver, CUdevice_attribute what, CUdevice ordinal)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, what, ordinal) == CUDA_SUCCESS ? value : 0;
}

static struct gen_gpu properties_of(const struct driver *driver, CUdevice ordinal)
{
    int sm = 10 * attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal) +
             attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
    int64_t bits = attribute(driver, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, ordinal);
    int64_t khz = attribute(driver, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, ordinal);
    return gen_gpu_of(sm, attribute(driver, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal),
                      attribute(driver, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, ordinal),
                      attribute(driver, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, ordinal) >> 20,
                      (int)(2 * khz * (bits / 8) / 1000000));   /* two transfers a clock */
}

bool device_describe(const struct driver *driver, CUdevice ordinal, struct gen_gpu *gpu, char name[64])
{
    *gpu = properties_of(driver, ordinal);
    return gpu->sm > 0 && driver->cuDeviceGetName(name, 64, ordinal) == CUDA_SUCCESS;
}

/* Returns a GPU's number on this machine, never 0. */
static uint64_t gpu_of(const struct driver *driver, CUdevice ordinal)
{
    uint64_t domain = (uint32_t)attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, ordinal);
    uint64_t bus = (uint32_t)attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, ordinal);
    return domain << 32 | bus << 16 | (uint16_t)attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, ordinal) << 1 | 1;
}

static struct device_state *device_state_new(const struct driver *driver, CUcontext context, CUdevice ordinal)
{
    size_t total = 0;
    static struct device_state first;   /* used if there is no memory */
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    struct device_state *p = calloc(1, sizeof *p);
    if (!p && !atomic_flag_test_and_set(&taken)) p = &first;
    if (!p) return NULL;
    struct device *d = &p->device;
    d->context = context;
    d->ordinal = ordinal;
    if (!device_describe(driver, ordinal, &d->gpu, d->name)) d->name[0] = '\0';
    if (driver->cuDeviceTotalMem(&total, ordinal) != CUDA_SUCCESS) total = 0;
    size_t keep = env_get()->keep ? (size_t)env_get()->keep << 20 : total / POOL_SHARE;
    p->pool.limit = keep - keep / 5, p->flagged_pool.limit = keep / 5, p->pinned_pool.limit = (size_t)1 << 30;
    p->clock_khz = attribute(driver, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, ordinal);
    p->gpu = gpu_of(driver, ordinal);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

uint64_t device_gpu_id(struct device *d)
{
    return device_state_of(d)->gpu;
}

int64_t device_us_to_clocks(struct device *d, int64_t us)
{
    return device_state_of(d)->clock_khz * us / 1000;
}

/* Adds an address of this context that is safe to ask about; a handle of a destroyed context may crash the driver. */
static void add_sentinel(const struct driver *driver, struct device_state *p)
{
    unsigned long long id = 0;
    if (device_enter(&p->device)) return;
    if (driver->cuMemAlloc(&p->sentinel, 1) != CUDA_SUCCESS) p->sentinel = 0;
    if (p->sentinel && driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p->sentinel) != CUDA_SUCCESS)
        driver->cuMemFree(p->sentinel), p->sentinel = 0;
    p->sentinel_id = id;
    device_leave(&p->device);
}

bool device_alive(struct device *d)
{
    const struct driver *driver = driver_get();
    struct device_state *p = device_state_of(d);
    unsigned long long id = 0;
    if (!driver || atomic_load(&p->gone)) return false;
    if (!p->sentinel) return true;
    CUresult r = driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p->sentinel);
    bool gone = r == CUDA_SUCCESS ? id != p->sentinel_id
                                  : r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!gone) return true;   /* or broken by a kernel, or the process is ending */
    if (!atomic_exchange(&p->gone, true))
        log_write(LOG_INFO, "device %d was reset, or its context destroyed", d->ordinal);
    return false;
}

static void publish(struct device_state *p)
{
    error_set_device_lost(false), atomic_store(&lost_logged, false);   /* the program may use the device again */
    p->device.next = device_first();
    atomic_store_explicit(&devices, &p->device, memory_order_release);
    log_write(LOG_INFO, "device %d: %s, sm_%d", p->device.ordinal, p->device.name, p->device.gpu.sm);
}

static struct device *add(const struct driver *driver, CUcontext context, CUdevice ordinal)
{
    bool primary = !context;
    CUresult r = primary ? driver->cuDevicePrimaryCtxRetain(&context, ordinal) : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS) {
        if (!driver_lost(r))
            log_once(LOG_ERROR, "primary context", "device %d has no usable primary context: %s", ordinal,
                     driver_error(r));
        return NULL;
    }
    struct device *known = find(context, ordinal);
    struct device_state *p = known ? device_state_of(known) : device_state_new(driver, context, ordinal);
    if (!p) {
        log_once(LOG_ERROR, "place", "no memory for what is known of device %d: its memory can't be used", ordinal);
        return NULL;
    }
    if (primary) atomic_store(&p->primary, true);
    if (!known) add_sentinel(driver, p), publish(p);
    return &p->device;
}

static struct device *find_or_insert(const struct driver *driver, CUcontext context, CUdevice ordinal)
{
    struct device *d = find(context, ordinal);
    if (d && device_alive(d)) return d;
    pthread_mutex_lock(&lock);
    d = find(context, ordinal);
    if (!d) d = add(driver, context, ordinal);
    pthread_mutex_unlock(&lock);
    return d;
}

/* The driver's data about a pointer; all zero, type included, if the driver does not know the memory. */
struct origin {
    unsigned type;
    unsigned managed;
    CUcontext context;
    int ordinal;
};

/* Returns NOT_INITIALIZED without a driver, since no device pointers exist then. */
static CUresult query_pointer(const struct driver *driver, const void *p, struct origin *o)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *where[] = {&o->type, &o->managed, &o->context, &o->ordinal};
    *o = (struct origin){0};
    if (!driver || !p) return CUDA_ERROR_NOT_INITIALIZED;
    return driver->cuPointerGetAttributes(4, what, where, (CUdeviceptr)(uintptr_t)p);
}

/* Returns NULL after a driver error if the process can read the memory (the MPI can, too), else unknown_device. */
static struct device *unknown_or_host(const void *p, CUresult r)
{
    if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_DEINITIALIZED || r == CUDA_ERROR_INVALID_VALUE) return NULL;
    if (host_readable(p)) return NULL;
    if (!driver_lost(r)) {
        error_set_device_lost(true);
        log_once(LOG_ERROR, "where",
                 "the driver does not tell where a buffer lies (%s): messages of memory that the host can't read "
                 "are errors",
                 driver_error(r));
    }
    return &unknown_device.device;
}

static bool on_device(const struct origin *o)
{
    return o->type == CU_MEMORYTYPE_DEVICE || o->type == CU_MEMORYTYPE_UNIFIED || o->managed;
}

/* This thread's recent allocations: a message may lie in 32 (HULLS), sent and received. */
struct recents {
    struct recent_order order;
    struct recent {
        struct device *device;
        struct allocation alloc;
    } of[RECENT_MOST];
};
static _Thread_local struct recents *recents;   /* freed by recents_key; thread-local storage would not hold it */
static pthread_key_t recents_key;
static bool recents_kept;

static void recents_drop(void *table)
{
    recents = NULL;   /* a later destructor of the application may call the MPI */
    free(table);
}

static void recents_make_key(void)
{
    recents_kept = !pthread_key_create(&recents_key, recents_drop);
}

/* Returns the thread's table; NULL without memory. */
static struct recents *recents_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (recents) return recents;
    pthread_once(&once, recents_make_key);
    if (!recents_kept || !(recents = calloc(1, sizeof *recents))) return NULL;
    if (pthread_setspecific(recents_key, recents)) free(recents), recents = NULL;
    return recents;
}

static bool alloc_contains(const struct allocation *a, const void *p)
{
    return (uint64_t)(uintptr_t)p - a->start < a->span;
}

/* Returns true for an allocation of cuMemAlloc and for mapped memory: only those are known to have an id of their
 * own. */
static bool ask_allocation(const struct driver *driver, struct device *d, const void *p, struct allocation *a)
{
    unsigned plain = 0;
    void *pool = NULL;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                  CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *where[] = {&plain, &a->start, &a->span, &a->id, &pool};
    bool told = driver->cuPointerGetAttributes(5, what, where, (CUdeviceptr)(uintptr_t)p) == CUDA_SUCCESS;
    if (told && plain && alloc_contains(a, p)) return true;
    *a = (struct allocation){0};
    return told && !pool && mapping_locate(d, p, a);
}

static bool recent_holds(unsigned item, const void *p)
{
    return alloc_contains(&recents->of[item].alloc, p);
}

static struct recent *recent_around(const void *p)
{
    int item = recents ? recent_find(&recents->order, recent_holds, p) : -1;
    return item < 0 ? NULL : &recents->of[item];
}

/* A free is not announced, but a new allocation has another id. */
bool device_holds_still(const struct allocation *a, const void *p)
{
    unsigned long long id = 0;
    if (a->mapped) return mapping_same(a);
    return driver_get()->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)p) ==
               CUDA_SUCCESS &&
           id == a->id;
}

/* Adds an allocation. Forgets others that overlap it: they were freed. */
static void recents_add(struct device *d, const struct allocation *a)
{
    struct recents *r = recents_table();
    if (!r) return;
    for (struct recent *m = r->of; m < r->of + r->order.used; m++)
        if (m->alloc.start < a->start + a->span && a->start < m->alloc.start + m->alloc.span) *m = (struct recent){0};
    r->of[recent_add(&r->order)] = (struct recent){d, *a};
}

struct device *device_locate(const void *p, struct allocation *a)
{
    const struct driver *driver = driver_get();
    struct origin o;
    *a = (struct allocation){0};
    struct recent *m = driver ? recent_around(p) : NULL;
    if (m && device_holds_still(&m->alloc, p)) return *a = m->alloc, m->device;
    if (m) *m = (struct recent){0};
    if (!driver || host_range_has(p) || host_range_learn(p)) return NULL;
    CUresult r = query_pointer(driver, p, &o);
    if (r != CUDA_SUCCESS) return unknown_or_host(p, r);
    if (!on_device(&o)) return NULL;
    struct device *d = find_or_insert(driver, o.context, o.ordinal);
    if (!d) return &unknown_device.device;   /* its context can't be used; already logged */
    if (o.managed || !ask_allocation(driver, d, p, a)) return d;
    recents_add(d, a);
    return d;
}

bool device_located(const void *p, struct allocation *a)
{
    const struct recent *m = recent_around(p);
    if (m) *a = m->alloc;
    return m != NULL;
}

bool device_forgets(void)
{
    return !recents || recents->order.used == RECENT_MOST;
}

struct device *device_of(const void *p)
{
    struct allocation a;
    return device_locate(p, &a);
}

bool device_unmanaged(const void *p)
{
    struct origin o;
    CUresult r = query_pointer(driver_get(), p, &o);
    return r != CUDA_SUCCESS ? unknown_or_host(p, r) != NULL : on_device(&o) && !o.managed;
}

/* Returns true if [p, p + bytes) is in one allocation or registration: a buffer may be registered in part. */
static bool in_one_range(const struct driver *driver, const void *p, size_t bytes)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUdeviceptr start = 0, at = (CUdeviceptr)(uintptr_t)p;
    size_t size = 0;
    void *where[] = {&start, &size};
    if (driver->cuPointerGetAttributes(2, what, where, at) != CUDA_SUCCESS) return false;
    return at >= start && at - start <= size && bytes <= size - (at - start);
}

bool device_accessible(const void *p, size_t bytes)
{
    const struct driver *driver = driver_get();
    struct origin o;
    CUdeviceptr mapped = 0;
    if (query_pointer(driver, p, &o) != CUDA_SUCCESS) return false;
    if (on_device(&o)) return true;
    return o.type == CU_MEMORYTYPE_HOST &&
           driver->cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (CUdeviceptr)(uintptr_t)p) ==
               CUDA_SUCCESS &&
           mapped == (CUdeviceptr)(uintptr_t)p && in_one_range(driver, p, bytes);
}

struct device *device_default(void)
{
    const struct driver *driver = driver_get();
    CUcontext context = NULL;
    CUdevice ordinal = 0;
    if (!driver) return NULL;
    if (driver->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        driver->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS)
        return find_or_insert(driver, context, ordinal);
    for (struct device *d = device_first(); d; d = d->next)
        if (device_alive(d)) return d;
    if (driver->cuDeviceGet(&ordinal, 0) != CUDA_SUCCESS) return NULL;
    return find_or_insert(driver, NULL, ordinal);
}

struct device *device_of_stream(CUstream handle)
{
    const struct driver *driver = driver_get();
    CUcontext context = NULL, pushed_one;
    CUdevice ordinal = 0;
    if (!driver || !driver->cuStreamGetCtx || driver->cuStreamGetCtx(handle, &context) != CUDA_SUCCESS) return NULL;
    if (!context || driver->cuCtxPushCurrent(context) != CUDA_SUCCESS) return NULL;
    bool known = driver->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS;
    driver->cuCtxPopCurrent(&pushed_one);
    return known ? find_or_insert(driver, context, ordinal) : NULL;
}

bool device_has_stream(const struct device *d, CUstream handle)
{
    CUcontext context = NULL;
    const struct driver *driver = driver_get();
    return !driver->cuStreamGetCtx || driver->cuStreamGetCtx(handle, &context) != CUDA_SUCCESS || context == d->context;
}

/* A bit for each open device_enter, latest lowest: 1 if pushed. Mostly the context is current: one query suffices. */
static _Thread_local uint64_t pushed;

/* The program's capture mode, and the open entries. While the program captures a stream into a graph, calls that wait
 * or allocate break its graph. A thread in relaxed mode may make them, and stridec's work is never captured. */
static _Thread_local CUstreamCaptureMode capture_mode;
static _Thread_local int entries;

static CUresult enter(const struct driver *driver, struct device *d)
{
    CUcontext current;
    if (d == &unknown_device.device) return CUDA_ERROR_UNKNOWN;   /* unknown_or_host has logged it */
    bool there = driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == d->context;
    CUresult r = there ? CUDA_SUCCESS : driver->cuCtxPushCurrent(d->context);
    if (r != CUDA_SUCCESS) return r;
    pushed = pushed << 1 | !there;
    if (entries++ == 0) {
        capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        driver->cuThreadExchangeStreamCaptureMode(&capture_mode);
    }
    return r;
}

bool device_try_enter(struct device *d)
{
    const struct driver *driver = driver_get();
    return driver && device_alive(d) && enter(driver, d) == CUDA_SUCCESS;
}

int device_enter(struct device *d)
{
    CUresult r = enter(driver_get(), d);
    if (r == CUDA_SUCCESS) return 0;
    if (d != &unknown_device.device && !driver_lost(r))
        log_once(LOG_ERROR, "enter", "the context of device %d can't be made current: %s", d->ordinal, driver_error(r));
    return -1;
}

void device_leave(struct device *d)
{
    CUcontext popped;
    (void)d;
    if (--entries == 0) driver_get()->cuThreadExchangeStreamCaptureMode(&capture_mode);
    if (pushed & 1) driver_get()->cuCtxPopCurrent(&popped);
    pushed >>= 1;
}

void device_finish(void)
{
    for (struct device *d = device_first(); d; d = d->next) {
        if (!device_try_enter(d)) continue;
        streams_drop(d);
        mempool_drop(d);
        device_leave(d);
    }
}
