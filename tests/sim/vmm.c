/* vmm.c: virtual-memory mappings: ranges of addresses that are reserved, and memory that is put behind parts of them. A range
 * is there twice, too: where the program sees it, and where the simulator reads and writes. Kernels reach mappings that
 * cuMemSetAccess opens to their device. Memory lives as long as anything refers to it: a mapping, a handle, a descriptor
 * that was exported, what another process has made of that. */
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)

struct range {
    uintptr_t base;
    size_t bytes;
    char *view;
    struct range *next;
};
static struct range *ranges;

/* Memory is a file, behind whose bytes stands what it is. An allocation in the device's arena, which nobody knows the
 * address of, stands for it where memory is counted; imported memory has none. */
struct label {
    char magic[8];
    int32_t device, types;
    uint64_t number;          /* of the memory, wherever it is mapped */
};
static const char magic[8] = "SIMVMM1";
struct memory {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;           /* 0: imported */
    int fd;
    size_t bytes;
    struct label label;
    int uses;                 /* mappings, and who created it */
    struct memory *next;
};
static struct memory *memories;
static CUmemGenericAllocationHandle last_handle;

static struct range *range_of(uintptr_t p, size_t bytes)
{
    for (struct range *r = ranges; r; r = r->next)
        if (p - r->base < r->bytes && bytes <= r->bytes - (p - r->base)) return r;
    return NULL;
}

bool memory_reserved(uintptr_t p, uintptr_t *base, size_t *bytes)
{
    const struct range *r = range_of(p, 1);
    if (r) *base = r->base, *bytes = r->bytes;
    return r;
}

static bool whole(size_t bytes)
{
    return bytes && bytes % GRANULARITY == 0;
}

static char *reserve(size_t bytes)
{
    char *p = mmap(NULL, bytes + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)p % GRANULARITY;
    if (before) munmap(p, before);
    munmap(p + before + bytes, GRANULARITY - before);
    return p + before;
}

/* Nothing lies there. */
static void empty(char *p, size_t bytes)
{
    mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags which)
{
    ENTER_ANY();
    (void)which;
    if (!out || !prop) return CUDA_ERROR_INVALID_VALUE;
    *out = GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr at,
                                     unsigned long long flags)
{
    ENTER_ANY();
    (void)at;
    if (!out || !whole(bytes) || alignment > GRANULARITY || flags) return CUDA_ERROR_INVALID_VALUE;
    struct range *r = calloc(1, sizeof *r);
    char *base = r ? reserve(bytes) : NULL, *view = base ? reserve(bytes) : NULL;
    if (!view) {
        if (base) munmap(base, bytes);
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *r = (struct range){(uintptr_t)base, bytes, view, ranges};
    ranges = r;
    fault_install();
    fault_range(r->base, bytes);
    *out = r->base;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
    ENTER_ANY();
    for (struct range **at = &ranges, *r; (r = *at); at = &r->next) {
        if (r->base != p || r->bytes != bytes || memory_within(p, bytes)) continue;
        *at = r->next;
        munmap(r->view, bytes);   /* the addresses stay reserved, so that a late access is still told from other memory */
        free(r);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static struct memory *add_memory(struct memory new)
{
    struct memory *m = malloc(sizeof *m);
    if (!m) return NULL;
    new.handle = ++last_handle, new.uses = 1, new.next = memories;
    *m = new;
    return memories = m;
}

/* A file of poison, as fresh memory is; where it is large, of zeros. */
static int file_make(size_t bytes, const struct label *label)
{
    int fd = memfd_create("simulated memory", MFD_CLOEXEC);
    bool made = fd >= 0 && !ftruncate(fd, (off_t)(bytes + sizeof *label)) &&
                pwrite(fd, label, sizeof *label, (off_t)bytes) == (ssize_t)sizeof *label;
    char *p = made && bytes <= SIM_SPARSE ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (p != MAP_FAILED) memset(p, SIM_POISON, bytes), munmap(p, bytes);
    if (made) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                             unsigned long long flags)
{
    ENTER_ANY();
    if (!out || !prop || !whole(bytes) || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.id < 0 || prop->location.id >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    struct label label = {.device = prop->location.id, .types = (int)prop->requestedHandleTypes};
    struct memory m = {.bytes = bytes, .label = label};
    memcpy(m.label.magic, magic, sizeof magic);
    m.label.number = last_handle + 1;
    CUresult r = memory_device_alloc(prop->location.id, NULL, ALLOC_BEHIND, bytes, &m.at);
    if (r) return r;
    const struct memory *added = (m.fd = file_make(bytes, &m.label)) < 0 ? NULL : add_memory(m);
    if (!added) {
        if (m.fd >= 0) close(m.fd);
        memory_release(memory_find(m.at));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = added->handle;
    return CUDA_SUCCESS;
}

static struct memory *memory_of(CUmemGenericAllocationHandle handle)
{
    struct memory *m = memories;
    while (m && m->handle != handle) m = m->next;
    return m;
}

static void unuse(struct memory *m)
{
    struct memory **at = &memories;
    if (--m->uses) return;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    if (m->at) memory_release(memory_find(m->at));
    close(m->fd);
    free(m);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER_ANY();
    struct memory *m = memory_of(handle);
    if (m) unuse(m);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *p)
{
    ENTER_ANY();
    const struct alloc *a = memory_find((uintptr_t)p);
    if (!out || !a || a->kind != ALLOC_MAPPED) return CUDA_ERROR_INVALID_VALUE;
    memory_of(a->behind)->uses++;
    *out = a->behind;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out, CUmemGenericAllocationHandle handle)
{
    ENTER_ANY();
    const struct memory *m = memory_of(handle);
    if (!out || !m) return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = (CUmemAllocationHandleType)m->label.types,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m->label.device}};
    return CUDA_SUCCESS;
}

/* A fabric handle names the file by process and descriptor; no other process may close that before the import. */
struct fabric {
    char magic[8];
    int32_t pid, fd;
};
enum { FABRIC = 8, FABRIC_BYTES = 64 };   /* CUmemFabricHandle, which CUDA 12.3 brought */

CUresult CUDAAPI cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type, unsigned long long flags)
{
    ENTER_ANY();
    const struct memory *m = memory_of(handle);
    if (!out || !m || flags || !((int)type & m->label.types)) return CUDA_ERROR_INVALID_VALUE;
    if ((int)type == FABRIC) {
        struct fabric f = {.pid = (int32_t)getpid(), .fd = m->fd};
        memcpy(f.magic, magic, sizeof magic);
        memset(out, 0, FABRIC_BYTES);
        memcpy(out, &f, sizeof f);
        return CUDA_SUCCESS;
    }
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    int fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

/* Its own descriptor of what the handle names, which stays the caller's. */
static int fd_of(const void *handle, int type)
{
    struct fabric f;
    char path[64];
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return fcntl((int)(intptr_t)handle, F_DUPFD_CLOEXEC, 0);
    memcpy(&f, handle, sizeof f);
    if (memcmp(f.magic, magic, sizeof magic)) return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", f.pid, f.fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                                                CUmemAllocationHandleType type)
{
    ENTER_ANY();
    struct stat s;
    bool known_type = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || (int)type == FABRIC;
    if (!out || !known_type) return CUDA_ERROR_INVALID_VALUE;
    struct memory m = {.fd = fd_of(handle, (int)type)};
    bool known = m.fd >= 0 && !fstat(m.fd, &s) && s.st_size > (off_t)sizeof m.label &&
                 pread(m.fd, &m.label, sizeof m.label, s.st_size - (off_t)sizeof m.label) == (ssize_t)sizeof m.label &&
                 !memcmp(m.label.magic, magic, sizeof magic) && m.label.device < device_count();
    m.bytes = known ? (size_t)s.st_size - sizeof m.label : 0;
    const struct memory *added = known ? add_memory(m) : NULL;
    if (!added) {
        if (m.fd >= 0) close(m.fd);
        return known ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    sim_counts.ipc_opens++;
    *out = added->handle;
    return CUDA_SUCCESS;
}

uint64_t memory_mapping_id(const struct alloc *a)
{
    uintptr_t base = 0;
    size_t bytes = 0;
    long by = a->kind == ALLOC_MAPPED ? sim_number("SIMGPU_MAPPING_IDS", 0) : 0;
    if (by == 2) return memory_reserved(a->base, &base, &bytes), (uint64_t)base;
    return by == 1 ? (uint64_t)1 << 40 | memory_of(a->behind)->label.number : a->id;
}

int memory_mapping_types(const struct alloc *a)
{
    return memory_of(a->behind)->label.types;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags)
{
    ENTER_ANY();
    struct range *r = range_of(p, bytes);
    struct memory *m = memory_of(handle);
    if (!r || !m || !whole(bytes) || bytes > m->bytes || offset > m->bytes - bytes || offset % GRANULARITY ||
        (offset && !sim_number("SIMGPU_OFFSETS", 0)) || p % GRANULARITY || flags || memory_within(p, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct alloc a = {.base = p, .bytes = bytes, .span = bytes, .view = r->view + (p - r->base), .kind = ALLOC_MAPPED,
                      .device = m->label.device, .behind = handle};
    const int how = MAP_SHARED | MAP_FIXED;
    if (mmap((void *)p, bytes, memory_closed(), how, m->fd, (off_t)offset) == MAP_FAILED ||
        mmap(a.view, bytes, PROT_READ | PROT_WRITE, how, m->fd, (off_t)offset) == MAP_FAILED || !memory_add(&a))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->uses++;
    return CUDA_SUCCESS;
}

static struct alloc *mapping_at(CUdeviceptr p, size_t bytes)
{
    struct alloc *a = memory_find(p);
    return a && a->kind == ALLOC_MAPPED && a->base == p && a->bytes == bytes ? a : NULL;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t bytes)
{
    ENTER_ANY();
    struct alloc *a = mapping_at(p, bytes);
    if (!a) return CUDA_ERROR_INVALID_VALUE;
    for (int d = 0; d < device_count(); d++) device_run(d);
    memory_close();
    if (!(a = mapping_at(p, bytes))) return CUDA_ERROR_INVALID_VALUE;
    struct memory *m = memory_of(a->behind);
    empty((char *)p, bytes), empty(a->view, bytes);
    memory_release(a);
    unuse(m);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    ENTER_ANY();
    if (!access || !n || !memory_find(p) || !memory_view(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < bytes; at += memory_find(p + at)->bytes)
        for (size_t i = 0; i < n; i++) {
            struct alloc *a = memory_find(p + at);
            int d = access[i].location.id;
            if (d < 0 || d >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
            if (d != a->device && !sim_number("SIMGPU_PEERS", 1)) return CUDA_ERROR_INVALID_DEVICE;
            a->accessible &= ~(1u << d);
            if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) a->accessible |= 1u << d;
        }
    return CUDA_SUCCESS;
}
