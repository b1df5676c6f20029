/* mapping_export.c: finds the pieces of a range, and sends their handles. */
#include "mapping_export.h"
#include "base/log.h"
#include "device/device_internal.h"
#include "device/mapping.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#define EXPORTS_MAX 256

struct export {
    uint64_t id, start, span;
    struct device *device;
    bool met, asked;       /* a message has used it; the driver was asked whether it can be shared */
    unsigned type;         /* of the handles; 0: not shared */
    bool synchronous;
    int pieces;
    struct allocation piece[MAPPING_PIECES];
    uint8_t *sent;         /* a bit for each rank that has the handles */
    struct export *prev, *next;
};
static struct export *exports;   /* most recently used first */
static int count;
static uint64_t last_id = SLOT_MAPPED;

static bool holds(const struct allocation *a, uint64_t address)
{
    return address - a->start < a->span;
}

/* Returns true if a range lies in all pieces of an export. Without any piece more: callers use an export for other
 * ranges in it, so all its pieces are checked for each message. */
static bool is_of(const struct export *x, uint64_t address, uint64_t bytes)
{
    return holds(&x->piece[0], address) && holds(&x->piece[x->pieces - 1], address + bytes - 1);
}

/* Returns true if all pieces are still mapped. */
static bool is_there(const struct export *x)
{
    for (int i = 0; i < x->pieces; i++)
        if (!mapping_same(&x->piece[i])) return false;
    return true;
}

static void drop(struct export *x)
{
    node_tell_gone(x->id);
    DL_DELETE(exports, x);
    count--;
    free(x->sent), free(x);
}

/* Returns the export of a range. Drops what has other memory now. */
static struct export *find(const struct device *d, uint64_t address, uint64_t bytes)
{
    struct export *x, *next;
    DL_FOREACH_SAFE(exports, x, next) {
        if (x->device != d || !is_of(x, address, bytes)) continue;
        if (is_there(x)) return x;
        drop(x);
    }
    return NULL;
}

/* Lists the pieces of a range. Returns false if other memory, or none, lies in it, or if there are too many. */
static bool list_pieces(struct export *x, uint64_t address, uint64_t bytes)
{
    for (uint64_t at = address; at < address + bytes;) {
        struct allocation *a = &x->piece[x->pieces];
        if (x->pieces == MAPPING_PIECES) return false;
        if (device_locate((const void *)(uintptr_t)at, a) != x->device || !a->mapped) return false;
        if (x->pieces++ && a->start != at) return false;   /* changed meanwhile */
        at = a->start + a->span;
    }
    const struct allocation *last = &x->piece[x->pieces - 1];
    x->start = x->piece->start, x->span = last->start + last->span - x->start;
    return true;
}

/* Drops exports that have lost a piece, so that peers close them, and the least recently used of too many. */
static void bound(void)
{
    struct export *x, *next;
    DL_FOREACH_SAFE(exports, x, next)
        if (!is_there(x)) drop(x);
    if (count >= EXPORTS_MAX) drop(exports->prev);
}

static struct export *export_new(struct device *d, uint64_t address, uint64_t bytes)
{
    struct export *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->device = d;
    x->sent = list_pieces(x, address, bytes) ? calloc(1, (size_t)node_size() / 8 + 1) : NULL;
    if (!x->sent) return free(x), NULL;
    bound();
    x->id = ++last_id, count++;
    DL_PREPEND(exports, x);
    return x;
}

/* Returns which types of handles can share a piece. */
static unsigned types_of(const struct device *d, const struct allocation *piece)
{
    const struct driver *driver = driver_get();
    CUmemAllocationProp prop = {0};
    CUmemGenericAllocationHandle memory;
    if (driver->cuMemRetainAllocationHandle(&memory, (void *)(uintptr_t)piece->start) != CUDA_SUCCESS) return 0;
    bool known = driver->cuMemGetAllocationPropertiesFromHandle(&prop, memory) == CUDA_SUCCESS &&
                 prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id == d->ordinal;
    bool whole = known && prop.requestedHandleTypes && mapping_whole(d, piece, memory);
    driver->cuMemRelease(memory);
    return whole ? (unsigned)prop.requestedHandleTypes : 0;
}

/* Asks the driver how the pieces can be shared, and makes copies into them synchronous where it can. */
static void ask(struct export *x)
{
    unsigned types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | MAPPING_FABRIC, yes = 1;
    x->asked = true;
    if (device_enter(x->device)) return;
    for (int i = 0; i < x->pieces; i++) types &= types_of(x->device, &x->piece[i]);
    x->type = types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : types;
    x->synchronous = x->type != 0;
    for (int i = 0; i < x->pieces && x->synchronous; i++)
        x->synchronous = driver_get()->cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                                             x->piece[i].start) == CUDA_SUCCESS;
    device_leave(x->device);
    if (x->synchronous && ipc_export_drain(x->device)) x->synchronous = false;
    if (!x->type) log_write(LOG_INFO, "mapped memory without a handle to share: messages from it are packed");
}

bool mapping_export_of(struct device *d, uint64_t address, int64_t bytes, struct ipc_export *e, bool *first)
{
    if (device_enter(d)) return false;
    struct export *x = find(d, address, (uint64_t)bytes);
    if (!x) x = export_new(d, address, (uint64_t)bytes);
    device_leave(d);
    if (!x) return false;
    if (x != exports) {
        DL_DELETE(exports, x);
        DL_PREPEND(exports, x);
    }
    if (!x->asked && first && !x->met) return *first = x->met = true, false;
    if (!x->asked) ask(x);
    e->id = x->id, e->start = x->start, e->span = x->span, e->synchronous = x->synchronous;
    return x->type != 0;
}

static struct export *export_of_id(uint64_t id)
{
    struct export *x;
    DL_SEARCH_SCALAR(exports, x, id, id);
    return x;
}

/* Returns true if all pieces of an export are still mapped. */
static bool is_whole(struct export *x)
{
    if (device_enter(x->device)) return false;
    bool there = is_there(x);
    device_leave(x->device);
    return there;
}

bool mapping_export_valid(uint64_t id)
{
    struct export *x = export_of_id(id);
    return x && is_whole(x);
}

/* Gets the handle of a piece: a descriptor into *fd, or bytes into the record. */
static bool export_piece(const struct export *x, int i, struct mapping_record *r, int *fd)
{
    const struct driver *driver = driver_get();
    CUmemGenericAllocationHandle memory;
    void *out = r->fabric ? (void *)r->handle[i] : (void *)fd;
    r->span[i] = x->piece[i].span;
    void *at = (void *)(uintptr_t)x->piece[i].start;
    if (driver->cuMemRetainAllocationHandle(&memory, at) != CUDA_SUCCESS) return false;
    CUresult got = driver->cuMemExportToShareableHandle(out, memory, (CUmemAllocationHandleType)x->type, 0);
    driver->cuMemRelease(memory);
    if (got != CUDA_SUCCESS) log_write(LOG_INFO, "mapped memory can't be shared: %s", driver_error(got));
    return got == CUDA_SUCCESS;
}

/* Sends the handles. The pieces are checked before and after: other memory must not go by this number. */
static bool send_handles(struct export *x, const struct peer *p)
{
    int fds[MAPPING_PIECES], n = 0;
    struct mapping_record r = {.id = x->id, .rank = node_self()->rank, .pieces = x->pieces};
    r.fabric = x->type == MAPPING_FABRIC;
    if (!is_whole(x) || device_enter(x->device)) return false;
    while (n < x->pieces && export_piece(x, n, &r, &fds[n])) n++;
    device_leave(x->device);
    bool sent = n == x->pieces && is_whole(x) && fd_socket_send(p, &r, sizeof r, fds, r.fabric ? 0 : n);
    while (n-- && !r.fabric) close(fds[n]);
    return sent;
}

bool mapping_export_offer(uint64_t id, const struct peer *p)
{
    struct export *x = export_of_id(id);
    uint8_t bit = (uint8_t)(1u << p->rank % 8), *sent = x ? &x->sent[p->rank / 8] : NULL;
    if (!x) return false;
    if (!(*sent & bit) && send_handles(x, p)) *sent |= bit;
    return *sent & bit;
}

void mapping_export_again(uint64_t id, const struct peer *p)
{
    struct export *x = export_of_id(id);
    if (x) x->sent[p->rank / 8] &= (uint8_t) ~(1u << p->rank % 8);
}

void mapping_export_finish(void)
{
    struct export *x, *next;
    DL_FOREACH_SAFE(exports, x, next) free(x->sent), free(x);
    exports = NULL, count = 0;
}
