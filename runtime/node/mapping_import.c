/* mapping_import.c: takes the handles that peers send, and maps their memory. */
#include "mapping_import.h"
#include "base/log.h"
#include "mapping_export.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#define WAITING_FDS 256   /* descriptors, and records, at most, of exports that no message has come from yet */

/* Handles of an export that is not mapped yet. */
struct waiting {
    struct mapping_record record;
    int fds[FD_SOCKET_MOST], n;
    struct waiting *prev, *next;   /* oldest first */
};
static struct waiting *waiting;
static int waiting_fds, waiting_records;

struct mapping_import {
    CUdeviceptr base;
    uint64_t span;
    int mapped;            /* pieces */
    uint64_t piece[MAPPING_PIECES];   /* their lengths */
};

static void drop(struct waiting *w)
{
    DL_DELETE(waiting, w);
    waiting_fds -= w->n, waiting_records--;
    while (w->n) close(w->fds[--w->n]);
    free(w);
}

static bool is_sound(const struct mapping_record *r, int n)
{
    return r->pieces > 0 && r->pieces <= MAPPING_PIECES && n == (r->fabric ? 0 : r->pieces);
}

static struct waiting *waiting_for(int rank, uint64_t id)
{
    struct waiting *w = waiting;
    while (w && (w->record.id != id || w->record.rank != rank)) w = w->next;
    return w;
}

/* Takes one record that a peer has sent; it is the last. Returns false if there is none. The handles of exports that
 * are dropped, as too many wait, are sent again after a NACK. */
static bool take(void)
{
    struct waiting *w = calloc(1, sizeof *w), *before;
    if (!w || !fd_socket_take(&w->record, sizeof w->record, w->fds, &w->n)) return free(w), false;
    if ((before = waiting_for((int)w->record.rank, w->record.id))) drop(before);
    DL_APPEND(waiting, w);
    waiting_fds += w->n, waiting_records++;
    while ((waiting_fds > WAITING_FDS || waiting_records > WAITING_FDS) && waiting->next) drop(waiting);
    if (!is_sound(&w->record, w->n)) drop(w);
    return true;
}

/* Returns the handles of a peer's export, once they have come. */
static struct waiting *await(const struct peer *p, uint64_t id)
{
    struct waiting *w = waiting_for(p->rank, id);
    while (!w && take()) w = waiting_for(p->rank, id);
    return w;
}

/* Maps the next piece behind those that are mapped. The mapping keeps the memory; the handle goes. */
static CUresult map_piece(struct mapping_import *m, struct waiting *w)
{
    const struct driver *driver = driver_get();
    const struct mapping_record *r = &w->record;
    int i = m->mapped;
    CUmemGenericAllocationHandle memory;
    void *handle = r->fabric ? w->record.handle[i] : (void *)(uintptr_t)w->fds[i];
    CUmemAllocationHandleType type =
        r->fabric ? (CUmemAllocationHandleType)MAPPING_FABRIC : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUresult got = driver->cuMemImportFromShareableHandle(&memory, handle, type);
    if (got != CUDA_SUCCESS) return got;
    uint64_t at = 0;
    for (int j = 0; j < i; j++) at += m->piece[j];
    m->piece[i] = r->span[i];
    got = driver->cuMemMap(m->base + at, r->span[i], 0, memory, 0);
    driver->cuMemRelease(memory);
    if (got == CUDA_SUCCESS) m->mapped++;
    return got;
}

/* Maps all pieces, and lets kernels of d read them. */
static CUresult map_all(struct mapping_import *m, struct waiting *w, const struct device *d)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult r = driver_get()->cuMemAddressReserve(&m->base, m->span, 0, 0, 0);
    if (r != CUDA_SUCCESS) return m->base = 0, r;
    while (r == CUDA_SUCCESS && m->mapped < w->record.pieces) r = map_piece(m, w);
    return r == CUDA_SUCCESS ? driver_get()->cuMemSetAccess(m->base, m->span, &access, 1) : r;
}

struct mapping_import *mapping_import_open(const struct peer *p, const struct slot *s, const struct device *d,
                                           CUdeviceptr *base)
{
    uint64_t span = 0;
    struct waiting *w = driver_get()->mappings ? await(p, s->id) : NULL;
    struct mapping_import *m = w ? calloc(1, sizeof *m) : NULL;
    if (!m) return NULL;
    for (int i = 0; i < w->record.pieces; i++) span += w->record.span[i];
    m->span = span;
    CUresult r = span == s->span ? map_all(m, w, d) : CUDA_ERROR_INVALID_VALUE;
    drop(w);
    *base = m->base;
    if (r == CUDA_SUCCESS) return m;
    log_write(LOG_INFO, "mapped memory of rank %d can't be opened: %s", p->rank, driver_error(r));
    mapping_import_close(m);
    return NULL;
}

void mapping_import_close(struct mapping_import *m)
{
    uint64_t at = 0;
    for (int i = 0; i < m->mapped; at += m->piece[i++]) driver_get()->cuMemUnmap(m->base + at, m->piece[i]);
    if (m->base) driver_get()->cuMemAddressFree(m->base, m->span);
    free(m);
}

void mapping_import_drop_gone(bool (*is_gone)(int64_t rank, uint64_t id))
{
    struct waiting *w, *next;
    while (take()) continue;
    DL_FOREACH_SAFE(waiting, w, next)
        if (is_gone(w->record.rank, w->record.id)) drop(w);
}

void mapping_import_finish(void)
{
    while (waiting) drop(waiting);
}
