/* memory.c: the table of allocations and the memory of each device.
 *
 * A device's memory is one sparse memory file, mapped twice: at the addresses that the program sees,
 * without any access, and readable and writable at addresses that only the simulator knows. Copies use the
 * second mapping; for kernels the pages that they may reach are opened for as long as they run. The file is
 * what another process maps when it opens an IPC handle: memory that comes back at the same address is another part of
 * the file, but for small allocations, whose block outlives them. Allocations have whole pages and a closed page
 * behind them; freed addresses are used again as late as possible. */
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct alloc *table;   /* by base */
static size_t entries, capacity;
static uint64_t last_id;
static CUcontext opened;      /* whose kernels may touch device memory now */

/* Small allocations share blocks. A block lives as long as anything lies in it; large allocations have one each. */
#define BLOCK ((size_t)2 << 20)
#define FILE_BYTES ((off_t)1 << 50)   /* sparse: no part of it is used twice */

struct block {
    uint64_t id, file;   /* file: where its bytes lie in the memory file */
    size_t users;
};

static struct arena {
    int fd;
    char *base, *view;
    size_t bytes, used, cursor;
    uint64_t file_end, last_block;
    struct block *blocks;   /* by address */
} arenas[SIM_DEVICES_MAX];

static size_t page(void)
{
    static size_t size;
    if (!size) size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

/* --- the table --- */

/* Index of the first allocation whose base is above p. */
static size_t above(uintptr_t p)
{
    size_t low = 0, high = entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].base > p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct alloc *memory_find(uintptr_t p)
{
    size_t i = above(p);
    if (!i) return NULL;
    struct alloc *a = &table[i - 1];
    return p - a->base < a->bytes ? a : NULL;
}

static bool is_device_kind(enum alloc_kind k)
{
    return k == ALLOC_DEVICE || k == ALLOC_POOL || k == ALLOC_IMPORT || k == ALLOC_MANAGED || k == ALLOC_MAPPED;
}

static bool is_counted(const struct alloc *a)
{
    return a->kind == ALLOC_BEHIND || (is_device_kind(a->kind) && a->kind != ALLOC_IMPORT && a->kind != ALLOC_MAPPED);
}

struct alloc *memory_add(const struct alloc *a)
{
    if (entries == capacity) {
        size_t more = capacity ? 2 * capacity : 64;
        struct alloc *grown = realloc(table, more * sizeof *grown);
        if (!grown) return NULL;
        table = grown;
        capacity = more;
    }
    size_t i = above(a->base);
    memmove(&table[i + 1], &table[i], (entries - i) * sizeof *table);
    table[i] = *a;
    table[i].id = ++last_id;
    entries++;
    if (is_counted(a)) {
        sim_counts.allocs_live++;
        sim_counts.bytes_live += a->bytes;
        if (sim_counts.bytes_live > sim_counts.bytes_peak) sim_counts.bytes_peak = sim_counts.bytes_live;
    }
    return &table[i];
}

bool memory_is_device(uintptr_t p)
{
    const struct alloc *a = memory_find(p);
    return a && is_device_kind(a->kind);
}

char *memory_view(uintptr_t p, size_t bytes)
{
    const struct alloc *a = memory_find(p);
    if (!a) {
        /* Not known: host memory, unless it lies in a device's range, where it is free memory. */
        for (int d = 0; d < SIM_DEVICES_MAX; d++)
            if (arenas[d].base && p - (uintptr_t)arenas[d].base < arenas[d].bytes) return NULL;
        return (char *)p;
    }
    /* Mappings may go on in one another, as they do where the simulator sees them. */
    size_t here = a->bytes - (p - a->base);
    for (const struct alloc *last = a, *next; here < bytes && last->kind == ALLOC_MAPPED; last = next) {
        next = memory_find(p + here);
        if (!next || next->kind != ALLOC_MAPPED || next->view != last->view + last->bytes) break;
        here += next->bytes;
    }
    return bytes <= here ? a->view + (p - a->base) : NULL;
}

bool memory_within(uintptr_t p, size_t bytes)
{
    size_t i = above(p + bytes - 1);
    return i && table[i - 1].base + table[i - 1].bytes > p;
}

/* --- device memory --- */

/* The protection of device memory outside kernels. SIMGPU_OPEN=1 leaves it open, as it is to a CUDA-aware MPI. */
int memory_closed(void)
{
    return sim_number("SIMGPU_OPEN", 0) ? PROT_READ | PROT_WRITE : PROT_NONE;
}

static CUresult arena_create(struct arena *r)
{
    r->bytes = (size_t)sim_number("SIMGPU_MEMORY", 4096) << 20;
    r->fd = memfd_create("simulated GPU", MFD_CLOEXEC);
    r->file_end = r->bytes;
    r->blocks = calloc(r->bytes / BLOCK + 1, sizeof *r->blocks);
    if (r->fd < 0 || !r->blocks || ftruncate(r->fd, FILE_BYTES)) return CUDA_ERROR_OUT_OF_MEMORY;
    char *base = mmap(NULL, r->bytes, memory_closed(), MAP_SHARED | MAP_NORESERVE, r->fd, 0);
    char *view = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->fd, 0);
    if (base == MAP_FAILED || view == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    madvise(base, r->bytes, MADV_DONTDUMP);
    madvise(view, r->bytes, MADV_DONTDUMP);
    r->base = base;
    r->view = view;
    fault_install();
    fault_range((uintptr_t)base, r->bytes);
    return CUDA_SUCCESS;
}

/* The offset of `span` free bytes at or after `from`, in one block where they fit into one, or r->bytes. */
static size_t arena_gap(const struct arena *r, size_t from, size_t span)
{
    uintptr_t start = (uintptr_t)r->base, at = start + from, end = start + r->bytes;
    for (size_t i = above(at); i <= entries; i++) {
        if (i) {
            const struct alloc *below = &table[i - 1];
            if (below->base >= start && below->base < end && below->base + below->span > at)
                at = below->base + below->span;
        }
        size_t offset = at - start, left = BLOCK - offset % BLOCK;
        if (span <= BLOCK && span > left) at += left;
        uintptr_t limit = i < entries && table[i].base < end ? table[i].base : end;
        if (limit >= at && limit - at >= span) return at - start;
        if (limit == end) break;
    }
    return r->bytes;
}

/* The block that [at, at + span) shares with others, or NULL: it is too large. */
static struct block *block_of(const struct arena *r, size_t at, size_t span)
{
    return at / BLOCK == (at + span - 1) / BLOCK ? &r->blocks[at / BLOCK] : NULL;
}

/* Says where in the file the bytes of a new allocation lie, and in which block. */
static void place(struct arena *r, struct alloc *a, size_t at)
{
    struct block *b = block_of(r, at, a->span);
    a->file = r->file_end, a->block = r->last_block + 1;
    if (b && b->users++) {
        a->file = b->file + at % BLOCK, a->block = b->id;
        return;
    }
    r->last_block++;
    if (b) b->id = a->block, b->file = a->file, a->file += at % BLOCK;
    r->file_end += b ? BLOCK : a->span;
}

static bool map_at(void *p, size_t pages, int protection, const struct arena *r, uint64_t file)
{
    const int how = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
    return mmap(p, pages, protection, how, r->fd, (off_t)file) != MAP_FAILED && !madvise(p, pages, MADV_DONTDUMP);
}

CUresult memory_device_alloc(int device, CUcontext context, enum alloc_kind kind, size_t bytes, CUdeviceptr *out)
{
    struct arena *r = &arenas[device];
    if (!r->base) {
        CUresult failed = arena_create(r);
        if (failed) return failed;
    }
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > r->bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t pages = (bytes + page() - 1) / page() * page(), span = pages + page();
    size_t at = arena_gap(r, sim_number("SIMGPU_REUSE", 0) ? 0 : r->cursor, span);
    if (at == r->bytes) at = arena_gap(r, 0, span);
    if (at == r->bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    struct alloc a = {.base = (uintptr_t)r->base + at, .bytes = bytes, .span = span, .view = r->view + at,
                      .kind = kind, .device = device, .context = context};
    place(r, &a, at);
    if (!map_at((void *)a.base, pages, memory_closed(), r, a.file) ||
        !map_at(a.view, pages, PROT_READ | PROT_WRITE, r, a.file) || !memory_add(&a))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->cursor = at + span;
    r->used += span;
    if (bytes <= SIM_SPARSE) memset(a.view, SIM_POISON, bytes);
    memset(a.view + bytes, SIM_CANARY, pages - bytes);
    *out = a.base;
    return CUDA_SUCCESS;
}

CUresult memory_host_alloc(CUcontext context, enum alloc_kind kind, size_t bytes, void **out)
{
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    /* A mapping of its own, as a driver gives: never a part of the heap. */
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes <= SIM_SPARSE) memset(p, SIM_POISON, bytes);
    struct alloc a = {.base = (uintptr_t)p, .bytes = bytes, .view = p, .kind = kind, .device = context->device,
                      .context = context};
    if (!memory_add(&a)) {
        munmap(p, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = p;
    return CUDA_SUCCESS;
}

/* A kernel that writes behind an allocation's end is a bug in the program under test: say so and stop. */
static void check_canary(const struct alloc *a)
{
    if (a->kind != ALLOC_DEVICE && a->kind != ALLOC_POOL) return;
    for (size_t i = a->bytes; i < a->span - page(); i++) {
        if ((unsigned char)a->view[i] == SIM_CANARY) continue;
        fprintf(stderr, "simulated GPU: a kernel wrote %zu bytes behind the end of the %zu bytes at %p\n",
                i - a->bytes + 1, a->bytes, (void *)a->base);
        abort();
    }
}

static void free_pages(const struct alloc *a)
{
    struct arena *r = &arenas[a->device];
    struct block *b = block_of(r, a->base - (uintptr_t)r->base, a->span);
    check_canary(a);
    mprotect((void *)a->base, a->span, memory_closed());
    fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)a->file, (off_t)(a->span - page()));
    if (b) b->users--;
    r->used -= a->span;
}

void memory_release(struct alloc *a)
{
    if (is_counted(a)) {
        sim_counts.allocs_live--;
        sim_counts.bytes_live -= a->bytes;
    }
    switch (a->kind) {
    case ALLOC_DEVICE:
    case ALLOC_POOL:
    case ALLOC_BEHIND: free_pages(a); break;
    case ALLOC_MAPPED: break;
    case ALLOC_IMPORT:
        /* The addresses stay reserved, so that a late access is still told from other memory. */
        mmap((void *)a->base, a->span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        munmap(a->view, a->span);
        break;
    case ALLOC_MANAGED:
    case ALLOC_PINNED: munmap((void *)a->base, a->bytes); break;
    case ALLOC_REGISTERED: break;
    }
    size_t i = (size_t)(a - table);
    memmove(&table[i], &table[i + 1], (entries - i - 1) * sizeof *table);
    entries--;
}

void memory_release_context(CUcontext context)
{
    for (size_t i = entries; i-- > 0;)
        if (table[i].context == context) memory_release(&table[i]);
}

void memory_usage(int device, size_t *used, size_t *total)
{
    *used = arenas[device].used;
    *total = (size_t)sim_number("SIMGPU_MEMORY", 4096) << 20;
}

int memory_file(const struct alloc *a)
{
    return arenas[a->device].fd;
}

static bool same_owner(const struct alloc *a, const struct alloc *wanted)
{
    return a->kind == ALLOC_IMPORT && a->owner == wanted->owner && a->device == wanted->device;
}

struct alloc *memory_imported(const struct alloc *wanted)
{
    for (size_t i = 0; i < entries; i++) {
        struct alloc *a = &table[i];
        if (same_owner(a, wanted) && a->context == wanted->context && a->block == wanted->block &&
            a->file < wanted->file + wanted->bytes && wanted->file < a->file + a->bytes)
            return a;
    }
    return NULL;
}

bool memory_imported_elsewhere(const struct alloc *wanted)
{
    for (size_t i = 0; i < entries; i++)
        if (same_owner(&table[i], wanted) && table[i].context != wanted->context &&
            table[i].context->device == wanted->context->device)
            return true;
    return false;
}

/* --- kernels --- */

/* What kernels of c reach: memory of its own and of its device's pools, and that of its peers. */
static bool reaches(CUcontext c, const struct alloc *a)
{
    if (!a->span) return false;
    if (a->kind == ALLOC_MAPPED) return a->accessible >> c->device & 1;
    if (a->context == c) return true;
    return a->kind != ALLOC_IMPORT && ((a->kind == ALLOC_POOL && a->device == c->device) || c->peer[a->device]);
}

static void protect_all(CUcontext c, bool open)
{
    const int protection = open ? PROT_READ | PROT_WRITE : memory_closed();
    for (size_t i = 0; i < entries; i++) {
        const struct alloc *a = &table[i];
        if (!reaches(c, a)) continue;
        mprotect((void *)a->base, a->span - (a->kind == ALLOC_IMPORT || a->kind == ALLOC_MAPPED ? 0 : page()), protection);
        if (!open) check_canary(a);
    }
}

void memory_open(CUcontext c)
{
    if (opened == c) return;
    memory_close();
    opened = c;
    protect_all(c, true);
}

void memory_close(void)
{
    if (!opened) return;
    protect_all(opened, false);
    opened = NULL;
}
