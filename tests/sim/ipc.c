/* ipc.c: handles of memory and of events that another process opens. A handle names a file of the exporter's by process
 * and descriptor; it serves as long as the exporter lives.
 *
 * Memory behaves as with a driver 580 on an H200. All handles of an allocation are equal. A context that opens one again
 * gets the same address, and has to close it once more. What is open keeps its place, though the exporter has freed it: a
 * small allocation that overlaps it in the same block is refused until it is closed, and one of the same place and length
 * is taken for it. Contexts of other devices open it beside; another one of the same device can't. */
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct handle {
    char magic[8];
    int32_t pid, fd, device, pad;
    uint64_t file, bytes, span, block;
};
_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "fits the handle");
static const char memory_magic[8] = "SIMIPC2", event_magic[8] = "SIMEVT1";

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p)
{
    ENTER();
    const struct alloc *a = memory_find(p);
    if (!out || !a || a->kind != ALLOC_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    struct handle h = {.pid = (int32_t)getpid(), .fd = memory_file(a), .device = a->device, .file = a->file,
                       .bytes = a->bytes, .span = a->span - (size_t)sysconf(_SC_PAGESIZE), .block = a->block};
    memcpy(h.magic, memory_magic, sizeof h.magic);
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

static int open_file(const struct handle *h)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static CUresult map_twice(const struct handle *h, char **base, char **view)
{
    int fd = open_file(h);
    if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
    *base = mmap(NULL, h->span, PROT_NONE, MAP_SHARED, fd, (off_t)h->file);
    *view = mmap(NULL, h->span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)h->file);
    close(fd);
    if (*base != MAP_FAILED && *view != MAP_FAILED) return CUDA_SUCCESS;
    if (*base != MAP_FAILED) munmap(*base, h->span);
    if (*view != MAP_FAILED) munmap(*view, h->span);
    return CUDA_ERROR_MAP_FAILED;
}

static CUresult check_handle(const struct handle *h, const char magic[8])
{
    if (memcmp(h->magic, magic, sizeof h->magic)) return CUDA_ERROR_INVALID_HANDLE;
    return h->pid == (int32_t)getpid() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    ENTER();
    struct handle h;
    memcpy(&h, &handle, sizeof h);
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_handle(&h, memory_magic);
    if (r) return r;
    if (h.device != ctx->device && !sim_number("SIMGPU_PEERS", 1)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    struct alloc a = {.bytes = h.bytes, .span = h.span, .kind = ALLOC_IMPORT, .device = h.device, .context = ctx,
                      .opens = 1, .owner = h.pid, .file = h.file, .block = h.block};
    if (memory_imported_elsewhere(&a)) return CUDA_ERROR_INVALID_HANDLE;
    struct alloc *seen = memory_imported(&a);
    sim_counts.ipc_opens++;
    if (seen && (seen->file != h.file || seen->bytes != h.bytes)) return CUDA_ERROR_ALREADY_MAPPED;
    if (seen) {
        seen->opens++;
        *out = seen->base;
        return CUDA_SUCCESS;
    }
    char *base;
    if ((r = map_twice(&h, &base, &a.view))) return r;
    a.base = (uintptr_t)base;
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
    sim_hold();
    for (int d = 0; d < device_count(); d++) device_run(d);
    memory_close();
    a = memory_find(p);
    if (a && a->kind == ALLOC_IMPORT && !a->opens) memory_release(a);   /* no other thread has opened it again */
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
    ENTER();
    struct handle h = {.pid = (int32_t)getpid()};
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = event_export(event, &h.fd, &h.file);
    if (r) return r;
    memcpy(h.magic, event_magic, sizeof h.magic);
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    ENTER();
    struct handle h;
    memcpy(&h, &handle, sizeof h);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_handle(&h, event_magic);
    if (r) return r;
    int fd = open_file(&h);
    if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
    r = event_import(ctx, fd, h.file, out);
    close(fd);
    return r;
}
