/* tune.c: `stridec tune`: measures this system, or shows what a table makes of it. */
#include "tune_table.h"
#include "env.h"
#include "interpose.h"
#include "transport.h"
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double blocks[] = {4, 16, 64, 256, 1024, 4096};
static const double sizes[] = {256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304};
#define BLOCKS (int)(sizeof blocks / sizeof *blocks)
#define SIZES (int)(sizeof sizes / sizeof *sizes)

/* A point is called until both are reached, and its median taken; a slow one ends at the time limit. */
#define REPEATS_MIN 7
#define REPEATS_MAX 201
#define POINT_NS 20000000

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

/* --- kernels --- */

struct bench {
    struct device *device;
    struct parcel parcel;
    bool pack;
};

static int once(struct bench *b, CUstream s)
{
    struct parcel *p = &b->parcel;
    int rc = b->pack ? p->transport->pack(p, s) : p->transport->unpack(p, s, p->bytes);
    return stream_wait(b->device, s) ? -1 : rc;
}

static double time_kernel(struct bench *b, CUstream s)
{
    double us[REPEATS_MAX];
    int n = 0;
    if (once(b, s)) return -1;   /* loads the module */
    for (int64_t begin = stats_now(); n < REPEATS_MAX && (n < REPEATS_MIN || stats_now() - begin < POINT_NS); n++) {
        int64_t start = stats_now();
        if (once(b, s)) return -1;
        us[n] = (double)(stats_now() - start) / 1e3;
        if (n == 0 && us[0] * 1e3 > POINT_NS) return us[0];
    }
    return median(us, n);
}

/* A column of blocks with as much space between them: wide enough that no two share a 64-byte granule. */
static struct layout *column(double block, double bytes, struct reason *why)
{
    int64_t len = (int64_t)block, count = (int64_t)(bytes / block), step = len * 2 < 64 ? 64 : len * 2;
    struct tree *built = tree_stride(0, count ? count : 1, step, tree_dense(0, len, why), why);
    struct layout *l = calloc(1, sizeof *l);
    if (!l || !built) abort();
    l->refs = 1;
    l->tree = tree_canonical(built, why), l->size = l->tree->size, l->extent = step * count;
    l->low = 0, l->high = l->tree->high, l->kernel = kernel_get(l->tree, why);
    l->signature = tree_signature(l->tree, why), l->stats = stats_row(NULL, NULL);
    tree_unref(built);
    kernel_wait(l->kernel);
    return l;
}

/* The curves that each transport's pack and unpack fill. */
static const struct {
    const struct transport *transport;
    enum tune_curve pack, unpack;
} measured[] = {
    {&transport_device, TUNE_PACK_DEVICE, TUNE_UNPACK_DEVICE},
    {&transport_oneshot, TUNE_PACK_MAPPED, TUNE_UNPACK_MAPPED},
    {&transport_staged, TUNE_PACK_STAGED, TUNE_UNPACK_STAGED},
};

static void put_point(struct tune_table *t, enum tune_curve c, int i, int j, double us)
{
    struct tune_grid *g = &t->grid[c];
    g->blocks = i + 1, g->sizes = SIZES, g->block[i] = blocks[i], g->bytes[j] = sizes[j], g->us[i][j] = us;
}

/* One direction of a transport; false if it failed. */
static bool measure_way(struct tune_table *t, struct bench *b, bool pack, enum tune_curve c, CUstream s, int i, int j)
{
    b->pack = pack;
    double us = time_kernel(b, s);
    put_point(t, c, i, j, us);
    return us > 0;
}

static int measure_layout(struct tune_table *t, struct device *d, CUstream s, int i, int j)
{
    struct reason why;
    struct layout *l = column(blocks[i], sizes[j], &why);
    struct buffer *user = buffer_get(d, BUFFER_DEVICE, (size_t)l->high);
    int rc = user ? 0 : -1;
    for (size_t m = 0; rc == 0 && m < sizeof measured / sizeof *measured; m++) {
        struct bench b = {.device = d};
        b.parcel = (struct parcel){.transport = measured[m].transport, .layout = l, .device = d, .count = 1,
                                   .user = (char *)(uintptr_t)user->address, .bytes = l->size};
        bool ok = b.parcel.transport->acquire(&b.parcel) && measure_way(t, &b, true, measured[m].pack, s, i, j) &&
                  measure_way(t, &b, false, measured[m].unpack, s, i, j);
        buffer_put(b.parcel.wire), buffer_put(b.parcel.stage);
        rc = ok ? 0 : -1;
    }
    buffer_put(user);
    layout_unref(l);
    return rc;
}

static int measure_kernels(struct tune_table *t, struct device *d)
{
    if (device_enter(d)) return -1;
    CUstream s = stream_get(d);
    int rc = s ? 0 : -1;
    for (int i = 0; rc == 0 && i < BLOCKS; i++) {
        fprintf(stderr, "stridec tune: kernels, blocks of %.0f B (%d of %d)\n", blocks[i], i + 1, BLOCKS);
        for (int j = 0; rc == 0 && j < SIZES; j++) rc = measure_layout(t, d, s, i, j);
    }
    if (s) stream_put(d, s);
    device_leave(d);
    return rc;
}

/* --- messages --- */

static double time_message(void *buf, int bytes, int rank)
{
    double us[REPEATS_MAX];
    int n = 2 * REPEATS_MAX * 4096 / (bytes + 4096);
    n = n < REPEATS_MIN ? REPEATS_MIN : n > REPEATS_MAX ? REPEATS_MAX : n;
    for (int i = -3; i < n; i++) {
        int64_t start = stats_now();
        if (rank == 0) {
            PMPI_Send(buf, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            PMPI_Recv(buf, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            PMPI_Recv(buf, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            PMPI_Send(buf, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        if (i >= 0) us[i] = (double)(stats_now() - start) / 2e3;
    }
    return median(us, n);
}

static int measure_messages(struct tune_table *t, struct device *d, enum buffer_kind kind, enum tune_curve c, int rank)
{
    struct tune_grid *g = &t->grid[c];
    if (device_enter(d)) return -1;
    struct buffer *b = buffer_get(d, kind, (size_t)sizes[SIZES - 1]);
    device_leave(d);
    if (!b) return -1;
    g->blocks = 1, g->sizes = SIZES, g->block[0] = 1;
    for (int j = 0; j < SIZES; j++) {
        g->bytes[j] = sizes[j];
        g->us[0][j] = time_message(kind == BUFFER_PINNED ? b->host : (void *)(uintptr_t)b->address, (int)sizes[j], rank);
    }
    buffer_put(b);
    return 0;
}

/* --- the command --- */

static void describe(struct tune_table *t, struct device *d)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    time_t now = time(NULL);
    PMPI_Get_library_version(version, &length);
    version[strcspn(version, ",\r\n")] = 0;
    for (char *c = version; *c; c++)
        if (*c == '\t') *c = ' ';
    snprintf(t->machine, sizeof t->machine, "%s", d->name);
    snprintf(t->mpi, sizeof t->mpi, "%.95s", version);
    strftime(t->date, sizeof t->date, "%Y-%m-%d", localtime(&now));
}

static int make_folders(const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", file);
    for (char *slash = *path ? strchr(path + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0777) && errno != EEXIST) return -1;
        *slash = '/';
    }
    return 0;
}

static int store(const struct tune_table *t, const char *file)
{
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.%d", file, (int)getpid());
    FILE *f = make_folders(file) ? NULL : fopen(temporary, "w");
    if (f) {
        tune_write(t, f);
        bool ok = !ferror(f);
        if (!fclose(f) && ok && !rename(temporary, file)) {
            fprintf(stderr, "stridec tune: wrote %s\n", file);
            return 0;
        }
        unlink(temporary);
    }
    fprintf(stderr, "stridec tune: %s: %s\n", file, strerror(errno));
    return 1;
}

static int say(int rank, const char *what)
{
    if (rank == 0) fprintf(stderr, "stridec tune: %s\n", what);
    return 1;
}

/* Ranks share the GPUs of their node round robin. */
static struct device *take_gpu(int rank)
{
    const struct driver *cu = driver_load();
    int count = 0;
    CUdevice gpu;
    CUcontext context;
    if (!cu || cu->cuInit(0) || cu->cuDeviceGetCount(&count) || !count) return NULL;
    if (cu->cuDeviceGet(&gpu, rank % count) || cu->cuDevicePrimaryCtxRetain(&context, gpu)) return NULL;
    return cu->cuCtxPushCurrent(context) ? NULL : device_default();
}

/* All ranks go on, or none does. */
static bool all_ready(bool ready)
{
    int mine = ready, all = 0;
    PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

static int measure(const char *file, int rank, int ranks)
{
    struct tune_table t = {0};
    if (ranks < 2) return say(rank, "needs two ranks: mpirun -n 2 stridec tune");
    if (!file) return say(rank, "no folder for the table: set HOME, or give -o FILE");
    struct device *d = take_gpu(rank);
    if (!all_ready(d != NULL)) return say(rank, "needs a GPU on every rank: stridec doctor tells what is missing");
    describe(&t, d);
    int rc = rank == 0 ? measure_kernels(&t, d) : 0;
    if (rank == 0) fprintf(stderr, "stridec tune: messages\n");
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2 && measure_messages(&t, d, BUFFER_PINNED, TUNE_MESSAGE_HOST, rank)) rc = -1;
    if (rank < 2 && mpi_cuda_aware() && measure_messages(&t, d, BUFFER_DEVICE, TUNE_MESSAGE_DEVICE, rank)) rc = -1;
    if (!all_ready(rc == 0)) return say(rank, "a measurement failed");
    return rank == 0 ? store(&t, file) : 0;
}

static int show(const char *file)
{
    struct reason why;
    struct tune_table *t = tune_read(file, &why);
    if (!t) {
        fprintf(stderr, "stridec tune: %s\n", why.text);
        return 1;
    }
    tune_write(t, stdout);
    for (int aware = 0; aware <= (t->grid[TUNE_MESSAGE_DEVICE].blocks > 0); aware++) {
        printf("\nchoice with an MPI that is %sCUDA-aware; columns: packed bytes, rows: block length\n%10s",
               aware ? "" : "not ", "");
        for (int j = 0; j < SIZES; j++) printf(" %9.0f", sizes[j]);
        for (int i = 0; i < BLOCKS; i++) {
            printf("\n%10.0f", blocks[i]);
            for (int j = 0; j < SIZES; j++) printf(" %9s", tune_way_name(tune_choose(t, aware, blocks[i], sizes[j])));
        }
        printf("\n");
    }
    free(t);
    return 0;
}

/* `stridec tune`; argv[0] is "tune". Returns the exit status. */
EXPORT int stridec_tune_main(int argc, char **argv);
int stridec_tune_main(int argc, char **argv)
{
    const char *out = env_get()->tune;
    int rank, ranks, rc;
    if (argc == 3 && !strcmp(argv[1], "--show")) return show(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "-o")) out = argv[2];
    else if (argc > 1) {
        fprintf(stderr, "usage: stridec tune [-o FILE] | stridec tune --show FILE\n");
        return 2;
    }
    MPI_Init(NULL, NULL);
    interpose_depth++;   /* messages here are the MPI's own */
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rc = measure(out, rank, ranks);
    interpose_depth--;
    MPI_Finalize();
    return rc;
}
