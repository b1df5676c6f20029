/* measure_zerocopy.c: times zero-copy for `stridec tune`. Ranks 0 and 1 exchange rendezvous messages and read each
 * other's memory; one rank times many layouts in one launch. */
#include "kernel/typed_copy.h"
#include "node/ipc_cache.h"
#include "node/ipc_export.h"
#include "progress.h"
#include "timing.h"
#include <string.h>

struct moves {
    struct device *device;   /* entered (device_enter) */
    struct stream *stream;
    const struct typed_copy_job *job;
    int n;
    bool apart;              /* one launch a job */
};

static double move_once(void *arg)
{
    struct moves *m = arg;
    struct typed_copy_batch batch = {0};
    int launches = 0, rc = 0, step = m->apart ? 1 : m->n;
    int64_t start = stats_now();
    for (int i = 0; i < m->n && rc == 0; i += step)
        rc = typed_copy_move(&batch, m->device, m->stream, m->job + i, step, &launches);
    if (stream_wait(m->device, m->stream)) rc = -1;
    double us = (double)(stats_now() - start) / 1e3;
    typed_copy_end(&batch);
    return rc ? -1 : us;
}

static struct typed_copy_side side_of(const struct layout *l, uint64_t user)
{
    return (struct typed_copy_side){
        .tree = l->tree, .kernel = l->kernel, .user = user + (uint64_t)l->tree->off, .extent = l->extent, .count = 1};
}

static struct typed_copy_job job_of(const struct layout *l, uint64_t from, uint64_t to)
{
    return (struct typed_copy_job){.from = side_of(l, from), .to = side_of(l, to), .bytes = l->size};
}

/* Two ranks. */

#define TAG 0

struct pair {
    struct tune_end end;
    struct stream *stream;
};

/* Rank 1's buffer, for rank 0 to read. */
struct remote_buffer {
    struct ipc_export allocation;   /* span is 0 if it can't be shared */
    uint64_t user;
};

static double time_remote(struct pair *p, const struct remote_buffer *w)
{
    const struct ipc_export *e = &w->allocation;
    struct slot s = {.handle = e->handle, .start = e->start, .span = e->span, .id = e->id, .user = w->user};
    uint64_t address;
    struct import *i = e->span ? ipc_cache_open(p->end.peer, &s, p->end.device, &address) : NULL;
    if (!i) return -1;
    struct typed_copy_job job = job_of(p->end.layout, address, p->end.buffer->address);
    struct moves m = {p->end.device, p->stream, &job, 1, false};
    double us = tune_repeat(move_once, &m);
    ipc_cache_put(i);
    return us;
}

/* Times reads by rank 0, while rank 1 waits. */
static double time_read(struct pair *p)
{
    struct remote_buffer w;
    double us = 0;
    memset(&w, 0, sizeof w);
    w.user = p->end.buffer->address;
    if (p->end.rank == 1) {
        if (!ipc_export_of(p->end.device, w.user, p->end.layout->high, &w.allocation)) w.allocation.span = 0;
        PMPI_Send(&w, sizeof w, MPI_BYTE, 1 - p->end.rank, TAG, MPI_COMM_WORLD);
    } else {
        PMPI_Recv(&w, sizeof w, MPI_BYTE, 1 - p->end.rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        us = time_remote(p, &w);
    }
    return tune_both(p->end.rank, us >= 0) ? us : -1;
}

static void pair_open(struct pair *p, double block, double bytes)
{
    tune_column_open(&p->end, (int64_t)block, (int64_t)bytes);
    if (!p->end.buffer) return;
    struct typed_copy_job job = job_of(p->end.layout, p->end.buffer->address, p->end.buffer->address);
    typed_copy_wait(p->end.device, &job, 1);
}

static bool measure_point(struct tune_table *t, struct pair *p, const struct tune_points *points, int block, int size)
{
    pair_open(p, points->block[block], points->bytes[size]);
    bool ok = tune_access(&p->end);
    double exchange = ok ? tune_exchange(&p->end, (double)p->end.layout->size) : -1;
    double read = exchange >= 0 ? time_read(p) : -1;
    tune_column_close(&p->end);
    if (exchange < 0 || read < 0) return false;
    tune_set_point(&t->grid[TUNE_ZEROCOPY], points, block, size, exchange);
    tune_set_point(&t->grid[TUNE_PEER_READ], points, block, size, read);
    return true;
}

void tune_zerocopy_prepare(struct device *d, const struct tune_points *points)
{
    struct pair p = {.end = {.rank = 1, .device = d}};
    if (device_enter(d)) return;
    for (int i = 0; i < points->blocks; i++)
        for (int j = 0; j < points->sizes; j++) {
            pair_open(&p, points->block[i], points->bytes[j]);
            tune_column_close(&p.end);
        }
    device_leave(d);
}

int tune_zerocopy(struct tune_table *t, struct device *d, const struct tune_points *points, int rank)
{
    struct pair p = {.end = {.rank = rank, .way = &tune_by_rndv, .device = d}};
    bool ok = !device_enter(d);
    p.stream = ok ? stream_get(d) : NULL;
    p.end.peer = node_armed() ? node_peer(MPI_COMM_WORLD, 1 - rank) : NULL;
    ok = tune_both(rank, p.stream != NULL);
    int rc = ok ? 0 : -1;
    int i = 0;
    for (; ok && i < points->blocks && tune_follow(rank, progress_time_for(0)); i++)
        for (int j = 0; ok && j < points->sizes; j++) {
            ok = measure_point(t, &p, points, i, j);
            progress_step((points->blocks + i) * points->sizes + j + 1, 2 * points->blocks * points->sizes);
        }
    if (!ok && rc == 0) progress_say("ranks 0 and 1 can't read each other's memory: zero-copy is left out");
    else if (i < points->blocks) progress_say("no time for zero-copy with long blocks: zero-copy is left out");
    if (i < points->blocks || !ok) t->grid[TUNE_ZEROCOPY].blocks = t->grid[TUNE_PEER_READ].blocks = 0;
    if (p.stream) stream_put(d, p.stream), device_leave(d);
    return rc;
}

/* Many layouts. */

#define BLOCK 64
#define JOBS_MAX 64

static const struct {
    int rows, sizes;
    double jobs[6], bytes[3];
} grids[2] = {
    {6, 3, {1, 2, 6, 12, 26, JOBS_MAX}, {1024, 16384, 262144}},
    {2, 1, {1, 26}, {4096}},
};

/* Times the jobs of m in one launch, and in one launch each. */
static bool time_jobs(struct tune_table *t, struct moves *m, double bytes, int row, int size)
{
    static const enum tune_curve curves[2] = {TUNE_FUSED, TUNE_APART};
    typed_copy_wait(m->device, m->job, m->n);
    for (int c = 0; c < 2; c++) {
        struct tune_grid *g = &t->grid[curves[c]];
        m->apart = c == 1;
        g->us[row][size] = tune_repeat(move_once, m);
        g->block[row] = m->n, g->bytes[size] = bytes;
        if (g->us[row][size] < 0) return false;
    }
    return true;
}

static bool time_size(struct tune_table *t, struct moves *m, bool quick, int size)
{
    struct typed_copy_job job[JOBS_MAX];
    struct layout *l = tune_column_layout(BLOCK, (int64_t)grids[quick].bytes[size]);
    size_t bytes = l ? (size_t)l->high * JOBS_MAX : 0;
    struct pool_buffer *from = l ? mempool_get(m->device, BUFFER_DEVICE, bytes) : NULL;
    struct pool_buffer *to = from ? mempool_get(m->device, BUFFER_DEVICE, bytes) : NULL;
    bool ok = to != NULL;
    for (int i = 0; ok && i < JOBS_MAX; i++)
        job[i] = job_of(l, from->address + (uint64_t)(i * l->high), to->address + (uint64_t)(i * l->high));
    m->job = job;
    for (int i = 0; ok && i < grids[quick].rows; i++) {
        m->n = (int)grids[quick].jobs[i];
        ok = time_jobs(t, m, (double)l->size, i, size);
    }
    mempool_put(from), mempool_put(to);
    layout_unref(l);
    return ok;
}

int tune_fused(struct tune_table *t, struct device *d, bool quick)
{
    int rows = grids[quick].rows, sizes = grids[quick].sizes;
    if (device_enter(d)) return -1;
    struct moves m = {.device = d, .stream = stream_get(d)};
    bool ok = m.stream != NULL;
    for (int j = 0; ok && j < sizes; j++) ok = time_size(t, &m, quick, j);
    for (int c = TUNE_FUSED; ok && c <= TUNE_APART; c++) t->grid[c].blocks = rows, t->grid[c].sizes = sizes;
    if (m.stream) stream_put(d, m.stream);
    device_leave(d);
    return ok ? 0 : -1;
}
