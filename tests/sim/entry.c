/* entry.c: the lock, initialisation, error texts and the look-up of entry points by name. */
#include "sim.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised, forked;

static void in_child(void)
{
    forked = initialised;
    pthread_mutex_init(&lock, NULL);
}

static atomic_int holds;   /* calls that hold others up; of the thread `holder` */
static pthread_t holder;

static bool held_up(void)
{
    return holds && !pthread_equal(holder, pthread_self());
}

int simgpu_holds(void)
{
    return atomic_load(&holds);
}

void sim_hold(void)
{
    if (!sim_number("SIMGPU_HOLD", 0)) return;
    while (held_up()) sim_pause();
    holds++;
    holder = pthread_self();
    for (int d = 0; d < device_count(); d++) device_run(d);
    holds--;
}

CUresult sim_enter(const char *call)
{
    pthread_mutex_lock(&lock);
    while (held_up()) sim_pause();
    if (!initialised || forked) return CUDA_ERROR_NOT_INITIALIZED;
    CUresult r = sim_injected(call);
    sim_counts.calls++, sim_counts.failed += r != CUDA_SUCCESS;
    return r;
}

void sim_leave(const CUresult *entered)
{
    (void)entered;
    memory_close();
    pthread_mutex_unlock(&lock);
}

void sim_pause(void)
{
    memory_close();
    pthread_mutex_unlock(&lock);
    sched_yield();
    pthread_mutex_lock(&lock);
}

CUresult CUDAAPI cuInit(unsigned int flags)
{
    static bool watching;
    pthread_mutex_lock(&lock);
    CUresult r = forked ? CUDA_ERROR_NOT_INITIALIZED : flags ? CUDA_ERROR_INVALID_VALUE : sim_injected(__func__);
    if (!r && !watching) watching = !pthread_atfork(NULL, NULL, in_child);
    if (!r) initialised = true;
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = (int)sim_number("SIMGPU_DRIVER", CUDA_VERSION);
    return CUDA_SUCCESS;
}

void simgpu_counts(struct simgpu_counts *out)
{
    pthread_mutex_lock(&lock);
    *out = sim_counts;
    pthread_mutex_unlock(&lock);
}

void simgpu_reset(void)
{
    pthread_mutex_lock(&lock);
    uint64_t allocs = sim_counts.allocs_live, bytes = sim_counts.bytes_live;
    sim_counts = (struct simgpu_counts){.allocs_live = allocs, .bytes_live = bytes, .bytes_peak = bytes};
    pthread_mutex_unlock(&lock);
}

#define ERROR_TEXTS(X) \
    X(CUDA_SUCCESS, "no error") \
    X(CUDA_ERROR_INVALID_VALUE, "invalid argument") \
    X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory") \
    X(CUDA_ERROR_NOT_INITIALIZED, "initialization error") \
    X(CUDA_ERROR_DEINITIALIZED, "driver shutting down") \
    X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected") \
    X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal") \
    X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid") \
    X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context") \
    X(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed") \
    X(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped") \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device") \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices") \
    X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle") \
    X(CUDA_ERROR_NOT_FOUND, "named symbol not found") \
    X(CUDA_ERROR_NOT_READY, "device not ready") \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered") \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch") \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled") \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled") \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed") \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped") \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region") \
    X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure") \
    X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing") \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture") \
    X(CUDA_ERROR_UNKNOWN, "unknown error")

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ROW(code, text) {code, #code, text},
    ERROR_TEXTS(ROW)};

static CUresult error_row(CUresult code, const char **name, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code != code) continue;
        *name = errors[i].name;
        *text = errors[i].text;
        return CUDA_SUCCESS;
    }
    *name = *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorName(CUresult code, const char **name)
{
    const char *text;
    return name ? error_row(code, name, &text) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult code, const char **text)
{
    const char *name;
    return text ? error_row(code, &name, text) : CUDA_ERROR_INVALID_VALUE;
}

/* The newest version of a call that is exported and not newer than the asked one. Only cuCtxCreate has
 * versions here whose arguments differ: _v2 up to CUDA 12, _v4 from 13. */
static void *entry_point(const char *name, int version)
{
    static const char *const suffix[] = {"_v4", "_v3", "_v2", ""};
    char symbol[128];
    Dl_info self;
    if (!dladdr((void *)(uintptr_t)error_row, &self)) return NULL;
    void *library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *found = NULL;
    bool old_create = !strcmp(name, "cuCtxCreate") && version < 13000;
    for (size_t i = 0; library && !found && i < sizeof suffix / sizeof *suffix; i++) {
        if (old_create && strcmp(suffix[i], "_v2")) continue;
        int n = snprintf(symbol, sizeof symbol, "%s%s", name, suffix[i]);
        if (n > 0 && n < (int)sizeof symbol) found = dlsym(library, symbol);
    }
    if (library) dlclose(library);
    return found;
}

static CUresult get_proc_address(const char *symbol, void **function, int version)
{
    if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
    *function = strncmp(symbol, "cu", 2) ? NULL : entry_point(symbol, version);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    (void)flags;
    return get_proc_address(symbol, function, version);
}

#if CUDA_VERSION >= 12000
CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    (void)flags;
    CUresult r = get_proc_address(symbol, function, version);
    if (status) *status = r ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
    return r;
}
#endif
