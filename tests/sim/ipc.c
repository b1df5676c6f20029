/* ipc.c: memory handles that another process opens. The handle names the exporter's memory file by
 * process and descriptor; it serves as long as the exporter lives, as on hardware. What is open keeps its place, though
 * the exporter has freed it: another allocation there is refused until it is closed. */
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct handle {
    char magic[8];
    int32_t pid, fd, device, pad;
    uint64_t offset, bytes, span, id;
};
_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "fits the handle");
static const char magic[8] = "SIMIPC1";

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p)
{
    ENTER();
    const struct alloc *a = memory_find(p);
    if (!out || !a || a->kind != ALLOC_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    struct handle h = {.pid = (int32_t)getpid(), .device = a->device, .bytes = a->bytes,
                       .span = a->span - (size_t)sysconf(_SC_PAGESIZE), .id = a->id};
    memcpy(h.magic, magic, sizeof magic);
    memory_export(a, &h.fd, &h.offset);
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

static CUresult map_twice(const struct handle *h, char **base, char **view)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
    *base = mmap(NULL, h->span, PROT_NONE, MAP_SHARED, fd, (off_t)h->offset);
    *view = mmap(NULL, h->span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)h->offset);
    close(fd);
    if (*base != MAP_FAILED && *view != MAP_FAILED) return CUDA_SUCCESS;
    if (*base != MAP_FAILED) munmap(*base, h->span);
    if (*view != MAP_FAILED) munmap(*view, h->span);
    return CUDA_ERROR_MAP_FAILED;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    ENTER();
    struct handle h;
    memcpy(&h, &handle, sizeof h);
    if (!out || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(h.magic, magic, sizeof magic)) return CUDA_ERROR_INVALID_HANDLE;
    if (h.pid == (int32_t)getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    if (h.device != ctx->device && !sim_number("SIMGPU_PEERS", 1)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (h.device != ctx->device && !(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) && !ctx->peer[h.device])
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    struct alloc *seen = memory_imported(h.pid, h.device, h.offset, h.span, ctx);
    if (seen && seen->owner_id != h.id) return CUDA_ERROR_ALREADY_MAPPED;
    if (seen) {
        seen->opens++;
        *out = seen->base;
        return CUDA_SUCCESS;
    }
    char *base, *view;
    CUresult r = map_twice(&h, &base, &view);
    if (r) return r;
    struct alloc a = {.base = (uintptr_t)base, .bytes = h.bytes, .span = h.span, .view = view, .kind = ALLOC_IMPORT,
                      .device = h.device, .context = ctx, .opens = 1, .owner = h.pid, .owner_offset = h.offset,
                      .owner_id = h.id};
    if (!memory_add(&a)) return CUDA_ERROR_OUT_OF_MEMORY;
    fault_install();
    fault_range(a.base, a.span);
    *out = a.base;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr p)
{
    ENTER();
    struct alloc *a = memory_find(p);
    if (!a || a->base != p || a->kind != ALLOC_IMPORT) return CUDA_ERROR_INVALID_VALUE;
    if (--a->opens) return CUDA_SUCCESS;
    for (int d = 0; d < device_count(); d++) device_run(d);
    memory_close();
    memory_release(memory_find(p));
    return CUDA_SUCCESS;
}
