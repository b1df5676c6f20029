/* memory.c: memory of every kind, in regions with guards on both sides.
 *
 * A region is an allocation of its own, or a part of one that a strand keeps from one program for the next. */
#include "programs.h"
#include "known.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, DEVICES = 2 };
#define ARENA ((size_t)4 << 20)

const char *const memory_name[MEMORIES] = {"host", "device", "managed", "pinned", "pool", "mapped"};

/* Memory that a strand keeps, taken from its beginning on. */
struct arena {
    unsigned char *base;
    size_t taken;
};
static struct arena arenas[STRANDS][MEMORIES][DEVICES];
static int devices = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* the mappings' */

static void must(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "rank %d: %s failed\n", my_rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* ---- mappings of virtual memory; the driver's calls, which nothing links with ---- */

#define CALLS X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemSetAccess)
static struct {
#define X(name) __typeof__(name) *name;
    CALLS
#undef X
} cu;

static bool find_calls(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return false;
#define X(name) *(void **)&cu.name = dlsym(driver, #name);
    CALLS
#undef X
    return cu.cuMemMap && cu.cuMemCreate && cu.cuMemSetAccess;
}

/* A range of addresses with two pieces of memory behind it, the second one first, which peers can share. Kept until
 * the process ends. */
static void *map_pieces(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr range = 0;
    size_t piece = 0;
    cu.cuMemGetAllocationGranularity(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    piece = (ARENA / 2 + piece - 1) / piece * piece;
    must(cu.cuMemAddressReserve(&range, 2 * piece, 0, 0, 0) == CUDA_SUCCESS, "cuMemAddressReserve");
    for (int i = 1; i >= 0; i--) {
        CUmemGenericAllocationHandle memory = 0;
        must(cu.cuMemCreate(&memory, piece, &prop, 0) == CUDA_SUCCESS, "cuMemCreate");
        must(cu.cuMemMap(range + (size_t)i * piece, piece, 0, memory, 0) == CUDA_SUCCESS, "cuMemMap");
        must(cu.cuMemSetAccess(range + (size_t)i * piece, piece, &access, 1) == CUDA_SUCCESS, "cuMemSetAccess");
        cu.cuMemRelease(memory);
    }
    return (void *)(uintptr_t)range;
}

/* ---- allocations ---- */

static bool on_host(enum memory memory)
{
    return setup.host || memory == HOST;
}

static void *take(enum memory memory, int device, size_t bytes)
{
    void *p = NULL;
    cudaError_t rc = cudaSuccess;
    if (on_host(memory)) {
        p = malloc(bytes);
        must(p != NULL, "malloc");
        return p;
    }
    cudaSetDevice(device);
    switch (memory) {
    case DEVICE: rc = cudaMalloc(&p, bytes); break;
    case MANAGED: rc = cudaMallocManaged(&p, bytes, cudaMemAttachGlobal); break;
    case PINNED: rc = cudaMallocHost(&p, bytes); break;
    case POOL: rc = cudaMallocAsync(&p, bytes, 0), cudaStreamSynchronize(0); break;
    default:
        pthread_mutex_lock(&lock);
        p = map_pieces(device);
        pthread_mutex_unlock(&lock);
    }
    cudaSetDevice(0);
    must(rc == cudaSuccess && p, memory_name[memory]);
    return p;
}

static void give(enum memory memory, int device, void *p)
{
    if (on_host(memory)) {
        free(p);
        return;
    }
    cudaSetDevice(device);
    if (memory == PINNED) cudaFreeHost(p);
    else if (memory == POOL) cudaFreeAsync(p, 0), cudaStreamSynchronize(0);
    else if (memory != MAPPED) cudaFree(p);
    cudaSetDevice(0);
}

static bool touchable(enum memory memory)
{
    return on_host(memory) || memory == MANAGED || memory == PINNED;
}

void memory_start(void)
{
    if (setup.host) return;
    must(cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0, "cudaGetDeviceCount");
    if (devices > DEVICES) devices = DEVICES;
    must(find_calls(), "finding the driver's calls");
}

void memory_stop(void)
{
    for (int s = 0; s < STRANDS; s++)
        for (int m = 0; m < MEMORIES; m++)
            for (int d = 0; d < DEVICES; d++)
                if (arenas[s][m][d].base) give((enum memory)m, d, arenas[s][m][d].base);
    memset(arenas, 0, sizeof arenas);
}

void memory_reset(int strand)
{
    for (int m = 0; m < MEMORIES; m++)
        for (int d = 0; d < DEVICES; d++) arenas[strand][m][d].taken = 0;
}

enum memory memory_draw(struct chance *c)
{
    int n = draw(c, 16);
    return n < 4 ? HOST : n < 11 ? DEVICE : (enum memory)(MANAGED + (n - 11) % (MEMORIES - MANAGED));
}

/* The MPI takes device memory itself; stridec tells what the MPI alone does. */
bool mpi_is_aware(void)
{
    int (*aware)(void);
    if (setup.host) return false;   /* the MPI alone must draw alike */
    *(void **)&aware = dlsym(RTLD_DEFAULT, "stridec_mpi_cuda_aware");
    return aware && aware();
}

/* ---- regions ---- */

void region_open(struct region *r, int strand, struct chance *c, enum memory memory, int64_t low, int64_t high)
{
    int shift = once_in(c, 2) ? 0 : draw(c, 16), other = once_in(c, 4) ? devices - 1 : 0;
    bool fresh = once_in(c, 6) && memory != MAPPED;
    *r = (struct region){.memory = memory, .device = other % (devices ? devices : 1), .lead = GUARD + shift - low};
    if (memory == HOST || setup.host) r->device = 0;
    if ((memory == POOL || memory == MAPPED) && KNOWN_AWARE) r->device = 0;
    r->bytes = (size_t)(high - low) + 2 * GUARD + (size_t)shift;
    struct arena *a = &arenas[strand][memory][r->device];
    size_t at = (a->taken + 63) / 64 * 64;
    r->fresh = fresh || at + r->bytes > ARENA;
    if (r->fresh && memory == MAPPED) r->memory = DEVICE;
    if (r->fresh) {
        r->base = take(r->memory, r->device, r->bytes);
    } else {
        if (!a->base) a->base = take(memory, r->device, ARENA);
        r->base = a->base + at;
        a->taken = at + r->bytes;
    }
    r->shadow = malloc(r->bytes);
    must(r->shadow != NULL, "malloc");
}

void region_close(struct region *r)
{
    if (r->fresh) give(r->memory, r->device, r->base);
    free(r->shadow);
    *r = (struct region){0};
}

unsigned char *region_origin(const struct region *r)
{
    return (unsigned char *)((uintptr_t)r->base + (uintptr_t)r->lead);
}

/* Pools and mappings are for their own device alone, which must be the current one. */
static void copy(const struct region *r, void *to, const void *from, enum cudaMemcpyKind kind)
{
    cudaSetDevice(r->device);
    cudaError_t rc = cudaMemcpy(to, from, r->bytes, kind);
    if (rc == cudaSuccess) rc = cudaDeviceSynchronize();
    cudaSetDevice(0);
    if (rc != cudaSuccess) fprintf(stderr, "rank %d: CUDA error %d\n", my_rank, (int)rc);
    must(rc == cudaSuccess, "a copy of a region");
}

void region_store(struct region *r)
{
    if (touchable(r->memory)) {
        memcpy(r->base, r->shadow, r->bytes);
        return;
    }
    copy(r, r->base, r->shadow, cudaMemcpyHostToDevice);
}

void region_load(const struct region *r, unsigned char *to)
{
    if (touchable(r->memory)) memcpy(to, r->base, r->bytes);
    else copy(r, to, r->base, cudaMemcpyDeviceToHost);
}

bool region_check(const struct region *r, const char *what)
{
    unsigned char *got = r->base;
    size_t wrong = 0, first = 0;
    if (!touchable(r->memory)) {
        got = malloc(r->bytes);
        must(got != NULL, "malloc");
        region_load(r, got);
    }
    if (memcmp(got, r->shadow, r->bytes))
        for (size_t i = 0; i < r->bytes; i++)
            if (got[i] != r->shadow[i] && wrong++ == 0) first = i;
    if (wrong)
        differ("%s: %zu bytes of %zu wrong (%s memory), the first at %lld from the origin: 0x%02x, not 0x%02x", what, wrong,
               r->bytes, memory_name[r->memory], (long long)first - (long long)r->lead, got[first], r->shadow[first]);
    if (!r->any) digest_bytes(what, got, r->bytes);
    if (got != r->base) free(got);
    return wrong == 0;
}
