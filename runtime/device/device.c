/* device.c: which context owns a pointer; the list of the contexts in use. */
#include "device.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "device_internal.h"
#include "host_range.h"
#include <stdio.h>
#include <stdlib.h>

static _Atomic(struct device *) devices; /* grows at the head, never shrinks: read without a lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *driver_error(CUresult r)
{
    const struct driver *driver = driver_get();
    const char *text = NULL;
    if (driver && driver->cuGetErrorString(r, &text) == CUDA_SUCCESS && text) return text;
    return "unknown driver error";
}

/* Those that stay with the context until it is destroyed. */
static const CUresult lasting[] = {
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
static atomic_bool lost_told;

bool driver_lost(CUresult r)
{
    bool lost = false;
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++) lost |= r == lasting[i];
    if (lost) error_device_lost(true);
    if (lost && !atomic_exchange(&lost_told, true))
        log_write(
            LOG_ERROR,
            "the CUDA context is lost (%s): a kernel has failed, of the program's own perhaps; messages of device "
            "memory are errors from here on",
            driver_error(r));
    return lost;
}

/* Returns true if the driver does not tell of the address, and the host can't read it. */
static struct place unknown = {.device = {.ordinal = -1}, .gone = true, .lock = PTHREAD_MUTEX_INITIALIZER};

struct device *device_first(void)
{
    return atomic_load_explicit(&devices, memory_order_acquire);
}

/* Of those that are not known to be gone: the device of a context, or, where the context is NULL, of the ordinal's
 * primary context. */
static struct device *find(CUcontext context, CUdevice ordinal)
{
    for (struct device *d = device_first(); d; d = d->next) {
        if (atomic_load_explicit(&place_of(d)->gone, memory_order_relaxed)) continue;
        if (context ? d->context == context
                    : d->ordinal == ordinal && atomic_load_explicit(&place_of(d)->primary, memory_order_relaxed))
            return d;
    }
    return NULL;
}

static int attribute(const struct driver *driver, CUdevice_attribute what, CUdevice ordinal)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, what, ordinal) == CUDA_SUCCESS ? value : 0;
}

/* Never 0. */
static uint64_t gpu_of(const struct driver *driver, CUdevice ordinal)
{
    uint64_t domain = (uint32_t)attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, ordinal);
    uint64_t bus = (uint32_t)attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, ordinal);
    return domain << 32 | bus << 16 | (uint16_t)attribute(driver, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, ordinal) << 1 | 1;
}

static struct place *place_new(const struct driver *driver, CUcontext context, CUdevice ordinal)
{
    size_t total = 0;
    static struct place first;   /* serves where there is no memory */
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    struct place *p = calloc(1, sizeof *p);
    if (!p && !atomic_flag_test_and_set(&taken)) p = &first;
    if (!p) return NULL;
    struct device *d = &p->device;
    d->context = context;
    d->ordinal = ordinal;
    d->arch = 10 * attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal) +
              attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
    d->multiprocessors = attribute(driver, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
    if (driver->cuDeviceGetName(d->name, sizeof d->name, ordinal) != CUDA_SUCCESS) d->name[0] = '\0';
    if (driver->cuDeviceTotalMem(&total, ordinal) != CUDA_SUCCESS) total = 0;
    size_t keep = env_get()->keep ? (size_t)env_get()->keep << 20 : total / KEPT_OF;
    p->pool.limit = keep - keep / 5, p->marked.limit = keep / 5;
    p->clock_khz = attribute(driver, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, ordinal);
    p->gpu = gpu_of(driver, ordinal);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

uint64_t device_gpu(struct device *d)
{
    return place_of(d)->gpu;
}

int64_t device_clocks(struct device *d, int64_t us)
{
    return place_of(d)->clock_khz * us / 1000;
}

/* An address in the context is safe to ask about, when a handle of what was there may crash the driver. */
static void sign(const struct driver *driver, struct place *p)
{
    unsigned long long id = 0;
    if (device_enter(&p->device)) return;
    if (driver->cuMemAlloc(&p->sign, 1) != CUDA_SUCCESS) p->sign = 0;
    if (p->sign && driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p->sign) != CUDA_SUCCESS)
        driver->cuMemFree(p->sign), p->sign = 0;
    p->sign_id = id;
    device_leave(&p->device);
}

bool device_lives(struct device *d)
{
    const struct driver *driver = driver_get();
    struct place *p = place_of(d);
    unsigned long long id = 0;
    if (!driver || atomic_load(&p->gone)) return false;
    if (!p->sign) return true;
    CUresult r = driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p->sign);
    bool gone =
        r == CUDA_SUCCESS ? id != p->sign_id : r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!gone) return true;   /* or broken by a kernel, or at its end with the process */
    if (!atomic_exchange(&p->gone, true))
        log_write(LOG_INFO, "device %d was reset, or its context destroyed", d->ordinal);
    return false;
}

static void publish(struct place *p)
{
    error_device_lost(false), atomic_store(&lost_told, false);   /* the program has begun anew */
    p->device.next = device_first();
    atomic_store_explicit(&devices, &p->device, memory_order_release);
    log_write(LOG_INFO, "device %d: %s, sm_%d", p->device.ordinal, p->device.name, p->device.arch);
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
    struct place *p = known ? place_of(known) : place_new(driver, context, ordinal);
    if (!p) {
        log_once(LOG_ERROR, "place", "no memory for what is known of device %d: its memory can't be used", ordinal);
        return NULL;
    }
    if (primary) atomic_store(&p->primary, true);
    if (!known) sign(driver, p), publish(p);
    return &p->device;
}

static struct device *find_or_add(const struct driver *driver, CUcontext context, CUdevice ordinal)
{
    struct device *d = find(context, ordinal);
    if (d && device_lives(d)) return d;
    pthread_mutex_lock(&lock);
    d = find(context, ordinal);
    if (!d) d = add(driver, context, ordinal);
    pthread_mutex_unlock(&lock);
    return d;
}

/* What the driver says of a pointer. All zero, type included, for memory that it does not know. */
struct origin {
    unsigned type;
    unsigned managed;
    CUcontext context;
    int ordinal;
};

/* NOT_INITIALIZED where there is no driver: then, too, there are no device pointers. */
static CUresult ask(const struct driver *driver, const void *p, struct origin *o)
{
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *where[] = {&o->type, &o->managed, &o->context, &o->ordinal};
    *o = (struct origin){0};
    if (!driver || !p) return CUDA_ERROR_NOT_INITIALIZED;
    return driver->cuPointerGetAttributes(4, what, where, (CUdeviceptr)(uintptr_t)p);
}

/* If the driver answers by an error, returns NULL for memory that the process can read: the MPI can read it too. */
static struct device *unknown_at(const void *p, CUresult r)
{
    if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_DEINITIALIZED || r == CUDA_ERROR_INVALID_VALUE) return NULL;
    if (host_readable(p)) return NULL;
    if (!driver_lost(r)) {
        error_device_lost(true);
        log_once(LOG_ERROR, "where",
                 "the driver does not tell where a buffer lies (%s): messages of memory that the host can't read "
                 "are errors",
                 driver_error(r));
    }
    return &unknown.device;
}

static bool on_device(const struct origin *o)
{
    return o->type == CU_MEMORYTYPE_DEVICE || o->type == CU_MEMORYTYPE_UNIFIED || o->managed;
}

/* Those that a thread has met lately: a send's and a receive's, and what else there is. */
#define MET 4
static _Thread_local struct met {
    struct device *device;
    struct allocation around;
} lately[MET];
static _Thread_local unsigned next_met;

static bool holds(const struct allocation *a, const void *p)
{
    return (uint64_t)(uintptr_t)p - a->start < a->span;
}

/* False of what is no allocation of cuMemAlloc's: only of those the number is known to be theirs alone. */
static bool ask_around(const struct driver *driver, const void *p, struct allocation *a)
{
    unsigned plain = 0;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                  CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *where[] = {&plain, &a->start, &a->span, &a->id};
    bool told = driver->cuPointerGetAttributes(4, what, where, (CUdeviceptr)(uintptr_t)p) == CUDA_SUCCESS;
    if (told && plain && holds(a, p)) return true;
    *a = (struct allocation){0};
    return false;
}

static struct met *met_around(const void *p)
{
    for (int i = 0; i < MET; i++)
        if (holds(&lately[i].around, p)) return &lately[i];
    return NULL;
}

/* Nothing tells of an allocation that is freed; but another one at its place has another number. */
static bool stands(const struct driver *driver, const struct met *m, const void *p)
{
    unsigned long long id = 0;
    return driver->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)p) ==
               CUDA_SUCCESS &&
           id == m->around.id;
}

struct device *device_around(const void *p, struct allocation *a)
{
    const struct driver *driver = driver_get();
    struct origin o;
    *a = (struct allocation){0};
    if (!driver || host_surely(p) || host_learn(p)) return NULL;
    struct met *m = met_around(p);
    if (m && stands(driver, m, p)) return *a = m->around, m->device;
    if (m) *m = (struct met){0};
    CUresult r = ask(driver, p, &o);
    if (r != CUDA_SUCCESS) return unknown_at(p, r);
    if (!on_device(&o)) return NULL;
    struct device *d = find_or_add(driver, o.context, o.ordinal);
    if (!d) return &unknown.device;   /* its context can't be had: said by now */
    if (o.managed || !ask_around(driver, p, a)) return d;
    if (!m) m = &lately[next_met++ % MET];
    *m = (struct met){d, *a};
    return d;
}

struct device *device_of(const void *p)
{
    struct allocation a;
    return device_around(p, &a);
}

bool device_only(const void *p)
{
    struct origin o;
    CUresult r = ask(driver_get(), p, &o);
    return r != CUDA_SUCCESS ? unknown_at(p, r) != NULL : on_device(&o) && !o.managed;
}

/* [p, p + bytes) in one allocation or registration: a buffer may be registered in part. */
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
    if (ask(driver, p, &o) != CUDA_SUCCESS) return false;
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
        return find_or_add(driver, context, ordinal);
    for (struct device *d = device_first(); d; d = d->next)
        if (device_lives(d)) return d;
    if (driver->cuDeviceGet(&ordinal, 0) != CUDA_SUCCESS) return NULL;
    return find_or_add(driver, NULL, ordinal);
}

/* A bit for each entry that this thread has not left, the latest lowest: its context was pushed. Mostly the context is
 * current already, and one question does for a push and a pop. */
static _Thread_local uint64_t pushed;

/* While the program captures a stream into a graph, calls that wait or allocate would fail, in this thread or in
 * any, and break its graph, unless their thread is in relaxed mode: nothing of stridec's is captured. The program's
 * own mode, and the entries that have not been left. */
static _Thread_local CUstreamCaptureMode mode;
static _Thread_local int entered;

static CUresult enter(const struct driver *driver, struct device *d)
{
    CUcontext current;
    if (d == &unknown.device) return CUDA_ERROR_UNKNOWN;   /* unknown_at has said so */
    bool there = driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == d->context;
    CUresult r = there ? CUDA_SUCCESS : driver->cuCtxPushCurrent(d->context);
    if (r != CUDA_SUCCESS) return r;
    pushed = pushed << 1 | !there;
    if (entered++ == 0) {
        mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        driver->cuThreadExchangeStreamCaptureMode(&mode);
    }
    return r;
}

bool device_try_enter(struct device *d)
{
    const struct driver *driver = driver_get();
    return driver && device_lives(d) && enter(driver, d) == CUDA_SUCCESS;
}

int device_enter(struct device *d)
{
    CUresult r = enter(driver_get(), d);
    if (r == CUDA_SUCCESS) return 0;
    if (d != &unknown.device && !driver_lost(r))
        log_once(LOG_ERROR, "enter", "the context of device %d can't be made current: %s", d->ordinal, driver_error(r));
    return -1;
}

void device_leave(struct device *d)
{
    CUcontext popped;
    (void)d;
    if (--entered == 0) driver_get()->cuThreadExchangeStreamCaptureMode(&mode);
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
