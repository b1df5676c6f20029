/* timing.c: times kernels and messages for `stridec tune`, and fills the curves that decide between transports. */
#include "progress.h"
#include "timing.h"
#include "node/ipc_cache.h"
#include "node/peer_access.h"
#include "protocol/rndv_recv.h"
#include "protocol/rndv_send.h"
#include "protocol/shm_send.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double blocks[] = {4, 16, 64, 256, 1024, 4096};
static const double sizes[] = {256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};
static const double quick_blocks[] = {16, 256};
static const double quick_sizes[] = {1024, 65536, 1048576};
#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))

const struct tune_points *tune_points(bool quick)
{
    static const struct tune_points all = {LENGTH(blocks), LENGTH(sizes), blocks, sizes};
    static const struct tune_points few = {LENGTH(quick_blocks), LENGTH(quick_sizes), quick_blocks, quick_sizes};
    return quick ? &few : &all;
}

void tune_set_point(struct tune_grid *g, const struct tune_points *points, int block, int size, double us)
{
    g->blocks = block + 1, g->sizes = points->sizes;
    g->block[block] = points->block[block], g->bytes[size] = points->bytes[size], g->us[block][size] = us;
}

#define POINT_NS 20000000
#define WARM_NS 5000000
#define TRIPS_MIN 21
#define SLOW_NS 50000000   /* a trip, there and back */
#define TRIPS_PER_CHECK 3

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tune_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

#define SCATTERS_MAX 8192
#define SCATTERS_MIN 10
static double scatters[SCATTERS_MAX];
static int scatter_count;

/* Returns the median, and notes how far the values lie apart. */
static double median_noted(double *us, int n)
{
    double median = tune_median(us, n);
    if (n >= TUNE_REPEATS_MIN && scatter_count < SCATTERS_MAX)
        scatters[scatter_count++] = (us[3 * n / 4] - us[n / 4]) / median;
    return median;
}

double tune_scatter(void)
{
    return scatter_count < SCATTERS_MIN ? 0 : tune_median(scatters, scatter_count);
}

double tune_once(void *call)
{
    struct tune_call *c = call;
    struct typed_buffer *p = &c->buffer;
    int64_t start = stats_now();
    int rc = p->transport->move(p, c->stream, c->pack ? KERNEL_PACK : KERNEL_UNPACK, 0, p->bytes);
    if (stream_wait(c->device, c->stream) || rc) return -1;
    return (double)(stats_now() - start) / 1e3;
}

double tune_repeat(double (*once)(void *), void *arg)
{
    double us[TUNE_REPEATS_MAX];
    int n = 0;
    if (once(arg) < 0) return -1;   /* loads the module */
    for (int64_t begin = stats_now();
         n < TUNE_REPEATS_MAX && (n < TUNE_REPEATS_MIN || stats_now() - begin < POINT_NS); n++) {
        us[n] = once(arg);
        if (us[n] < 0) return -1;
        if (n == 0 && us[0] * 1e3 > POINT_NS) return us[0];
    }
    return median_noted(us, n);
}

bool tune_both(int rank, bool mine)
{
    int ready = mine, its = 0, other = 1 - rank;
    PMPI_Sendrecv(&ready, 1, MPI_INT, other, 0, &its, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return ready && its;
}

bool tune_follow(int rank, bool mine)
{
    int answer = mine;
    if (rank == 0) PMPI_Send(&answer, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    else PMPI_Recv(&answer, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return answer;
}

int tune_message_repeats(double bytes)
{
    int n = (int)(2 * TUNE_REPEATS_MAX * 4096 / (bytes + 4096));
    return n < TRIPS_MIN ? TRIPS_MIN : n > TUNE_REPEATS_MAX ? TUNE_REPEATS_MAX : n;
}

double tune_trip(const struct tune_end *e)
{
    const struct tune_way *way = e->way;
    int64_t start = stats_now();
    bool first = e->rank == 0 ? way->give(e) : way->take(e), second = e->rank == 0 ? way->take(e) : way->give(e);
    return first && second ? (double)(stats_now() - start) / 2e3 : -1;
}

/* Exchanges messages until the link and the GPU are awake and know the memory; rank 0 has the clock. After three trips
 * only, 4 MiB from GPU to GPU took five times as long as later ones. *slow is true on both ranks if trips take so long
 * that few are enough. */
static bool warm_up(const struct tune_end *e, bool *slow)
{
    int64_t begin = stats_now(), trips = 0;
    int more = 1;
    bool ok = true;
    while (more) {
        for (int i = 0; i < TRIPS_PER_CHECK; i++, trips++) ok &= tune_trip(e) >= 0;
        more = ok && stats_now() - begin < WARM_NS;
        if (e->rank == 0) PMPI_Send(&more, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        else PMPI_Recv(&more, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    *slow = tune_follow(e->rank, (stats_now() - begin) / trips > SLOW_NS);
    return ok;
}

double tune_exchange(const struct tune_end *e, double bytes)
{
    double us[TUNE_REPEATS_MAX];
    bool slow, ok = warm_up(e, &slow);
    int n = slow ? TUNE_REPEATS_MIN : tune_message_repeats(bytes);
    for (int i = 0; i < n; i++) {
        us[i] = tune_trip(e);
        ok &= us[i] >= 0;
    }
    return tune_both(e->rank, ok) ? median_noted(us, n) : -1;
}

#define TAG 0
#define ROUNDS 1000   /* attempts to access each other's memory */

static struct rndv_send *post_send(const struct tune_end *e)
{
    struct rndv_send_site site = {.feeds = true};
    return rndv_send_to(e->peer, e->layout, e->device, e->user, 1, &site);
}

bool tune_access(const struct tune_end *e)
{
    bool ready = false;
    if (!tune_both(e->rank, e->peer && e->layout && e->user)) return false;
    for (int i = 0; i < ROUNDS && !ready; i++) {
        struct rndv_send *o = post_send(e);
        if (o) rndv_send_withdraw(o);
        if (e->device) ipc_cache_probe(e->peer, e->device);
        else peer_access_poll();
        ready = tune_both(e->rank, o != NULL);
    }
    return ready;
}

static int rts_bytes(const struct tune_end *e)
{
    return e->device ? (int)RTS_BYTES : SHM_SEND_MIN;
}

/* Sends an RTS, an empty one if no slot can be had: the other rank waits for it. */
static bool give_rndv(const struct tune_end *e)
{
    static const char none[SHM_SEND_MIN];
    struct rndv_send *o = post_send(e);
    PMPI_Send(o ? (const void *)rndv_send_rts(o) : none, rts_bytes(e), MPI_BYTE, 1 - e->rank, TAG,
              MPI_COMM_WORLD);
    bool fed = o && rndv_send_feed(o) == 0;
    return o && rndv_send_end(o) == 0 && fed;
}

static bool take_rndv(const struct tune_end *e)
{
    union shm_rts came;
    struct rndv_recvs recvs = {0};
    MPI_Status status;
    uint32_t refusals = atomic_load(&e->peer->file->refusals);
    PMPI_Recv(&came, rts_bytes(e), MPI_BYTE, 1 - e->rank, TAG, MPI_COMM_WORLD, &status);
    if (!came.rts.bytes) return false;
    struct typed_buffer *p = typed_buffer_new(e->layout, e->device, e->user, 1);
    const char *packed = e->device ? NULL : came.bytes;
    bool ok = p && rndv_recv_add_told(&recvs, &came.rts, packed, p, &status) == MPI_SUCCESS &&
              rndv_recvs_run(&recvs) == 0;
    typed_buffer_close(p);
    return ok && (!e->device || refusals == atomic_load(&e->peer->file->refusals));
}

static bool give_mpi(const struct tune_end *e)
{
    return PMPI_Send(e->user, e->count, e->type, 1 - e->rank, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bool take_mpi(const struct tune_end *e)
{
    return PMPI_Recv(e->user, e->count, e->type, 1 - e->rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

const struct tune_way tune_by_mpi = {give_mpi, take_mpi}, tune_by_rndv = {give_rndv, take_rndv};

/* Returns a layout of one element, with a kernel whose module may not be ready; takes `built`. NULL without memory. */
static struct layout *layout_begin(struct tree *built)
{
    struct reason why;
    struct layout *l = built ? layout_new() : NULL;
    if (l) {
        l->tree = tree_canonical(built, &why);
        l->kernel = l->tree ? kernel_get(l->tree, &why) : NULL;
    }
    tree_unref(built);
    if (!l || !l->kernel) {
        layout_unref(l);
        return NULL;
    }
    l->size = l->tree->size, l->extent = l->high = l->tree->high, l->low = 0;
    l->signature = tree_signature(l->tree, &why), l->stats = stats_row(NULL, NULL);
    return l;
}

struct layout *tune_layout(struct tree *built)
{
    struct layout *l = layout_begin(built);
    if (l) kernel_wait_for(l->kernel, l->size);
    return l;
}

int64_t tune_column_step(int64_t block)
{
    return block * 2 < 64 ? 64 : block * 2;
}

struct tree *tune_column(int64_t block, int64_t bytes, struct reason *why)
{
    int64_t count = bytes / block;
    return tree_stride(0, count ? count : 1, tune_column_step(block), tree_dense(0, block, why), why);
}

struct layout *tune_column_layout(int64_t block, int64_t bytes)
{
    struct reason why;
    return tune_layout(tune_column(block, bytes, &why));
}

void tune_column_open(struct tune_end *e, int64_t block, int64_t bytes)
{
    e->layout = tune_column_layout(block, bytes);
    if (!e->layout || device_enter(e->device)) return;
    e->buffer = mempool_get(e->device, BUFFER_DEVICE, (size_t)e->layout->high);
    device_leave(e->device);
    if (e->buffer) e->user = (void *)(uintptr_t)e->buffer->address;
}

void tune_column_close(struct tune_end *e)
{
    mempool_put(e->buffer);
    layout_unref(e->layout);
    e->buffer = NULL, e->layout = NULL, e->user = NULL;
}

struct typed_buffer tune_buffer(const struct transport *t, struct layout *l, struct device *d,
                                const struct pool_buffer *user)
{
    struct typed_buffer p = typed_buffer_on(l, d, (void *)(uintptr_t)user->address, 1);
    p.transport = t;
    return p;
}

static const struct {
    const struct transport *transport;
    enum tune_curve pack, unpack;
} measured[] = {
    {&transport_device, TUNE_PACK_DEVICE, TUNE_UNPACK_DEVICE},
    {&transport_oneshot, TUNE_PACK_MAPPED, TUNE_UNPACK_MAPPED},
    {&transport_staged, TUNE_PACK_STAGED, TUNE_UNPACK_STAGED},
};

struct point {
    struct tune_table *table;
    const struct tune_points *points;
    int block, size;
};

static bool measure_way(const struct point *at, struct tune_call *c, bool pack, enum tune_curve curve)
{
    c->pack = pack;
    double us = tune_repeat(tune_once, c);
    tune_set_point(&at->table->grid[curve], at->points, at->block, at->size, us);
    return us > 0;
}

static int measure_layout(const struct point *at, struct device *d, struct stream *s)
{
    struct layout *l = tune_column_layout((int64_t)at->points->block[at->block], (int64_t)at->points->bytes[at->size]);
    struct pool_buffer *user = l ? mempool_get(d, BUFFER_DEVICE, (size_t)l->high) : NULL;
    int rc = user ? 0 : -1;
    for (size_t m = 0; rc == 0 && m < sizeof measured / sizeof *measured; m++) {
        struct tune_call c = {.device = d, .stream = s, .buffer = tune_buffer(measured[m].transport, l, d, user)};
        bool ok = c.buffer.transport->acquire(&c.buffer) && measure_way(at, &c, true, measured[m].pack) &&
                  measure_way(at, &c, false, measured[m].unpack);
        mempool_put(c.buffer.wire), mempool_put(c.buffer.stage);
        rc = ok ? 0 : -1;
    }
    mempool_put(user);
    layout_unref(l);
    return rc;
}

/* Compiles the points' own kernels on all cores, into the cache. */
static void prepare(struct device *d, const struct tune_points *points)
{
    enum { MOST = LENGTH(blocks) * LENGTH(sizes) };
    struct layout *l[MOST];
    struct kernel_trial trials[MOST] = {0};
    struct reason why;
    int n = 0, own = 0;
    for (int i = 0; i < points->blocks; i++)
        for (int j = 0; j < points->sizes; j++) {
            l[n] = layout_begin(tune_column((int64_t)points->block[i], (int64_t)points->bytes[j], &why));
            if (!l[n]) continue;
            if (kernel_special_for(l[n]->kernel, l[n]->size)) trials[own++].kernel = l[n]->kernel;
            n++;
        }
    kernel_prepare(trials, own, d, (int)sysconf(_SC_NPROCESSORS_ONLN));
    for (int i = 0; i < n; i++) layout_unref(l[i]);
}

int tune_curves(struct tune_table *t, struct device *d, const struct tune_points *points)
{
    struct point at = {t, points, 0, 0};
    if (device_enter(d)) return -1;
    struct stream *s = stream_get(d);
    int rc = s ? 0 : -1;
    prepare(d, points);
    for (; rc == 0 && at.block < points->blocks && (at.block == 0 || progress_time_for(0)); at.block++)
        for (at.size = 0; rc == 0 && at.size < points->sizes; at.size++) {
            rc = measure_layout(&at, d, s);
            progress_step(at.block * points->sizes + at.size + 1, 2 * points->blocks * points->sizes);
        }
    if (s) stream_put(d, s);
    device_leave(d);
    return rc;
}
