/* selftest.c: the simulated GPU's own test: memory, attributes, contexts, the runtime. */
#include "selftest.h"
#include "simgpu.h"
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool eager;
const char *program;

CUcontext start(void)
{
    CUcontext c;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
    return c;
}

/* --- memory --- */

static void test_allocation(void **state)
{
    (void)state;
    CUdeviceptr p, q;
    unsigned char bytes[1000];
    struct simgpu_counts before, after;
    start();
    simgpu_counts(&before);
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemAlloc(&q, 1));
    OK(cuMemcpyDtoH(bytes, p, 1000));
    for (int i = 0; i < 1000; i++) assert_int_equal(bytes[i], 0xCD);
    simgpu_counts(&after);
    assert_int_equal(after.allocs_live - before.allocs_live, 2);
    assert_int_equal(after.bytes_live - before.bytes_live, 1001);
    assert_int_equal(cuMemcpyDtoH(bytes, p + 1, 1000), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree(p + 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH(bytes, p, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAlloc(&p, (size_t)1 << 60), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(q));
    simgpu_counts(&after);
    assert_int_equal(after.allocs_live, before.allocs_live);
}

/* Many allocations of mixed sizes, freed in another order, never overlap. */
static void test_allocator(void **state)
{
    (void)state;
    enum { N = 100, ROUNDS = 20 };
    CUdeviceptr p[N] = {0};
    size_t n[N];
    unsigned random = 1;
    start();
    for (int round = 0; round < ROUNDS * N; round++) {
        random = random * 1664525u + 1013904223u;
        unsigned i = (random >> 8) % N;
        if (p[i]) {
            unsigned char last;
            OK(cuMemcpyDtoH(&last, p[i] + n[i] - 1, 1));
            assert_int_equal(last, i);
            OK(cuMemFree(p[i]));
            p[i] = 0;
        } else {
            n[i] = 1 + (random >> 16) % 20000;
            OK(cuMemAlloc(&p[i], n[i]));
            OK(cuMemsetD8(p[i], (unsigned char)i, n[i]));
        }
    }
    for (int i = 0; i < N; i++)
        if (p[i]) OK(cuMemFree(p[i]));
}

static void test_pointer_attributes(void **state)
{
    (void)state;
    CUcontext c = start(), owner;
    CUdeviceptr p, base, managed, pool;
    void *pinned;
    unsigned type;
    unsigned char flag;
    size_t size;
    int ordinal, host = 0;
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemAllocManaged(&managed, 10, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&pinned, 10, 0));
    OK(cuMemAllocAsync(&pool, 10, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 999));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    assert_ptr_equal(owner, c);
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, pool));
    assert_null(owner);
    OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 5));
    assert_int_equal(base, p);
    OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 5));
    assert_int_equal(size, 1000);
    OK(cuPointerGetAttribute(&flag, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    assert_int_equal(flag, 1);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pinned));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(cuMemHostGetDevicePointer(&base, pinned, 0));
    assert_int_equal(base, (uintptr_t)pinned);
    assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&host),
                     CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&owner, &type, &ordinal};
    OK(cuPointerGetAttributes(3, what, values, (CUdeviceptr)(uintptr_t)&host));
    assert_true(!owner && !type);
    OK(cuPointerGetAttributes(3, what, values, p));
    assert_true(owner == c && type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
    *(char *)(uintptr_t)managed = 1;
    *(char *)pinned = 1;
    OK(cuMemFreeAsync(pool, 0));
    assert_int_equal(cuMemFree(managed + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(p));
    OK(cuCtxSynchronize());
}

/* As a driver 580 tells on an H100. */
static void test_mappings(void **state)
{
    (void)state;
    enum { PIECES = 3 };
    CUdeviceptr range, base;
    CUmemGenericAllocationHandle memory;
    CUipcMemHandle handle;
    unsigned long long id[2];
    size_t piece, size;
    char across[200];
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    start();
    OK(cuMemGetAllocationGranularity(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&range, PIECES * piece, 0, 0, 0));
    assert_int_equal(cuMemcpyDtoH(across, range, 1), CUDA_ERROR_INVALID_VALUE);
    for (int i = 1; i >= 0; i--) {
        OK(cuMemCreate(&memory, piece, &prop, 0));
        OK(cuMemMap(range + (size_t)i * piece, piece, 0, memory, 0));
        OK(cuMemRelease(memory));
    }
    OK(cuMemSetAccess(range, 2 * piece, &access, 1));
    assert_int_equal(cuMemSetAccess(range, PIECES * piece, &access, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8(range + piece - 100, 7, sizeof across));
    OK(cuMemcpyDtoH(across, range + piece - 100, sizeof across));
    assert_true(across[0] == 7 && across[199] == 7);
    OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, range + piece));
    OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, range + piece));
    assert_true(base == range && size == PIECES * piece);
    OK(cuMemGetAddressRange(&base, &size, range + piece + 1));
    assert_true(base == range + piece && size == piece);
    OK(cuPointerGetAttribute(&id[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, range));
    OK(cuPointerGetAttribute(&id[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, range + piece));
    assert_true(id[0] != id[1]);
    assert_int_equal(cuIpcGetMemHandle(&handle, range), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAddressFree(range, PIECES * piece), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 2; i++) OK(cuMemUnmap(range + (size_t)i * piece, piece));
    assert_int_equal(cuMemcpyDtoH(across, range, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(range, PIECES * piece));
}

/* Memory outlives its mapping and its handle while a descriptor of it, or what was made of that, is there. */
static void test_shared_mappings(void **state)
{
    (void)state;
    CUdeviceptr range, second;
    CUmemGenericAllocationHandle memory, again, imported;
    size_t piece;
    unsigned long long id[2];
    char byte = 0;
    int fd = -1;
    CUmemAllocationProp told, prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemAllocationHandleType as_fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    start();
    OK(cuMemGetAllocationGranularity(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&range, 3 * piece, 0, 0, 0));
    second = range + piece;
    assert_int_equal(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemCreate(&memory, piece, &prop, 0));
    assert_int_equal(cuMemMap(range, piece, piece, memory, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemMap(range, 2 * piece, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(range, piece, 0, memory, 0));
    OK(cuMemsetD8(range, 7, piece));
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(range + 5)));
    assert_true(again == memory);
    OK(cuMemGetAllocationPropertiesFromHandle(&told, again));
    assert_true(told.location.id == 1 && told.requestedHandleTypes == as_fd);
    OK(cuMemExportToShareableHandle(&fd, memory, as_fd, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, as_fd));
    OK(cuPointerGetAttribute(&id[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, range));
    OK(cuMemUnmap(range, piece));
    OK(cuMemRelease(memory));
    OK(cuMemRelease(again));
    assert_int_equal(cuMemRelease(memory), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(second, piece, 0, imported, 0));
    OK(cuMemRelease(imported));
    assert_int_equal(cuMemcpyDtoH(&byte, second, 1), CUDA_ERROR_INVALID_VALUE);   /* of another device */
    OK(cuMemSetAccess(second, piece, &access, 1));
    OK(cuPointerGetAttribute(&id[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, second));
    assert_true(id[0] != id[1]);
    OK(cuMemcpyDtoH(&byte, second + piece - 1, 1));
    assert_int_equal(byte, 7);
    OK(cuMemUnmap(second, piece));
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    OK(cuMemCreate(&memory, piece, &prop, 0));
    assert_int_equal(cuMemExportToShareableHandle(&fd, memory, as_fd, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(memory));
    OK(cuMemAddressFree(range, 3 * piece));
    close(fd);
}

/* --- contexts --- */

static void test_contexts(void **state)
{
    (void)state;
    CUcontext first = start(), second, now;
    CUdeviceptr p;
    CUdevice device;
    OK(cuCtxSetCurrent(NULL));
    assert_int_equal(cuMemAlloc(&p, 1), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPushCurrent(first));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    OK(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cuMemAlloc(&p, 1));
    OK(cuCtxPopCurrent(&now));
    assert_ptr_equal(now, second);
    OK(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, first);
    OK(cuDevicePrimaryCtxRelease(1));   /* the last reference: its memory goes too */
    assert_int_equal(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxPushCurrent(second), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPopCurrent(&now));
    assert_int_equal(cuCtxPopCurrent(&now), CUDA_ERROR_INVALID_CONTEXT);
}

/* As an H100's, with CUDA 13.0. */
static void test_reset(void **state)
{
    (void)state;
    CUcontext first = start(), again, now;
    CUdeviceptr p;
    unsigned flags;
    int active;
    unsigned long long id;
    OK(cuMemAlloc(&p, 1));
    OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_false(active);
    assert_int_equal(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxPushCurrent(first));
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(again, first);
    assert_int_equal(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(&now));
}

static void *other_thread(void *result)
{
    CUcontext c = (CUcontext)result;
    return cuCtxGetCurrent(&c) || c ? (void *)1 : NULL;
}

static void test_current_context_is_per_thread(void **state)
{
    (void)state;
    pthread_t t;
    void *failed;
    assert_int_equal(pthread_create(&t, NULL, other_thread, start()), 0);
    pthread_join(t, &failed);
    assert_null(failed);
}

static void test_entry_points(void **state)
{
    (void)state;
    void *f = NULL;
    start();
#if CUDA_VERSION >= 12000
    OK(cuGetProcAddress("cuMemAlloc", &f, CUDA_VERSION, 0, NULL));
    assert_int_equal(cuGetProcAddress("cuNothing", &f, CUDA_VERSION, 0, NULL), CUDA_ERROR_NOT_FOUND);
#else
    OK(cuGetProcAddress("cuMemAlloc", &f, CUDA_VERSION, 0));
#endif
}

static void test_runtime(void **state)
{
    (void)state;
    void *p;
    int n;
    char in[100] = "through the runtime", out[100];
    struct cudaDeviceProp prop;
    struct cudaPointerAttributes a;
    assert_int_equal(cudaGetDeviceCount(&n), cudaSuccess);
    assert_int_equal(n, 2);
    assert_int_equal(cudaSetDevice(9), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(cudaGetDeviceProperties(&prop, 1), cudaSuccess);
    assert_string_equal(prop.name, "Simulated GPU");
    assert_true(prop.major == 9 && prop.minor == 0 && prop.multiProcessorCount == 132);
    assert_int_equal(cudaMalloc(&p, 100), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, in, 100, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(cudaMemcpy2D(out, 10, p, 10, 10, 10, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_string_equal(in, out);
    assert_int_equal(cudaPointerGetAttributes(&a, p), cudaSuccess);
    assert_true(a.type == cudaMemoryTypeDevice && a.device == 1);
    assert_int_equal(cudaPointerGetAttributes(&a, in), cudaSuccess);
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    assert_int_equal(cudaFree(p), cudaSuccess);
    assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
    assert_string_equal(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidValue");
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

int main(int argc, char **argv)
{
    eager = getenv("SIMGPU_EAGER") != NULL;
    program = argv[0];
    unsetenv("SIMGPU_KEEP");   /* it compiles without a compiler, too, and must fail */
    if (argc > 1) return scenario(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocation),
        cmocka_unit_test(test_allocator),
        cmocka_unit_test(test_host_access_dies),
        cmocka_unit_test(test_pointer_attributes),
        cmocka_unit_test(test_mappings), cmocka_unit_test(test_shared_mappings),
        cmocka_unit_test(test_work_is_deferred),
        cmocka_unit_test(test_events_order_streams),
        cmocka_unit_test(test_legacy_stream),
        cmocka_unit_test(test_copies_2d),
        cmocka_unit_test(test_contexts), cmocka_unit_test(test_reset),
        cmocka_unit_test(test_current_context_is_per_thread),
        cmocka_unit_test(test_entry_points),
        cmocka_unit_test(test_forked_child_has_no_driver),
        cmocka_unit_test(test_ipc),
        cmocka_unit_test(test_ipc_of_a_place_used_again),
        cmocka_unit_test(test_ipc_contexts),
        cmocka_unit_test(test_ipc_events),
        cmocka_unit_test(test_fault_is_sticky),
        cmocka_unit_test(test_runtime),
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_kernel_arguments_are_copied),
        cmocka_unit_test(test_module_of_another_context),
        cmocka_unit_test(test_bad_images),
        cmocka_unit_test(test_compile_errors),
        cmocka_unit_test(test_injected_failures),
        cmocka_unit_test(test_kernel_faults),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_barrier_faults),
        cmocka_unit_test(test_graph_launches),
        cmocka_unit_test(test_graph_errors),
        cmocka_unit_test(test_copies_3d),
        cmocka_unit_test(test_captured_work),
        cmocka_unit_test(test_capture_by_the_runtime),
        cmocka_unit_test(test_what_is_not_captured),
        cmocka_unit_test(test_memory_operations),
        cmocka_unit_test(test_waits_between_streams),
        cmocka_unit_test(test_host_functions),
        cmocka_unit_test(test_waits_keep_order),
        cmocka_unit_test(test_waits_hold),
        cmocka_unit_test(test_waits_between_processes),
        cmocka_unit_test(test_memory_operations_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
