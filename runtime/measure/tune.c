/* tune.c: `stridec tune`: measures this system. */
#include "tune.h"
#include "base/activity.h"
#include "base/env.h"
#include "base/file.h"
#include "kernel/module_cache.h"
#include "node/segment.h"
#include "timing.h"
#include "tune/table_origin.h"
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns true on all ranks if `ready` is true on all. */
static bool all_ready(bool ready)
{
    int mine = ready, all = 0;
    PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* --- messages --- */

static int measure_messages(struct tune_table *t, struct device *d, const struct tune_points *points,
                            enum buffer_kind kind, enum tune_curve c, int rank)
{
    struct tune_grid *g = &t->grid[c];
    bool entered = !device_enter(d), failed = false;
    struct pool_buffer *b = entered ? mempool_get(d, kind, (size_t)points->bytes[points->sizes - 1]) : NULL;
    if (entered) device_leave(d);
    if (!tune_both(rank, b != NULL)) return mempool_put(b), -1;
    void *address = kind == BUFFER_PINNED ? b->host : (void *)(uintptr_t)b->address;
    struct tune_end e = {.rank = rank, .way = &tune_by_mpi, .user = address, .type = MPI_BYTE};
    g->blocks = 1, g->sizes = points->sizes, g->block[0] = 1;
    for (int j = 0; j < points->sizes; j++) {
        e.count = (int)points->bytes[j];
        g->bytes[j] = points->bytes[j];
        g->us[0][j] = tune_exchange(&e, points->bytes[j]);
        failed |= g->us[0][j] < 0;
    }
    mempool_put(b);
    return failed ? -1 : 0;
}

/* --- the curves --- */

enum { PASSES = 5, QUICK_PASSES = 2 };

/* Makes one pass over all curves: rank 0 measures its own GPU, ranks 0 and 1 together the messages. */
static int measure_curves(struct tune_table *t, struct device *d, bool quick, int rank)
{
    const struct tune_points *points = tune_points(quick);
    int rc = rank == 0 ? tune_curves(t, d, points) : 0;
    if (rank == 0 && rc == 0) rc = tune_fused(t, d, quick);
    if (rank == 0) fprintf(stderr, "stridec tune: messages\n");
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2 && measure_messages(t, d, points, BUFFER_PINNED, TUNE_MESSAGE_HOST, rank)) rc = -1;
    if (rank < 2 && mpi_cuda_aware() && measure_messages(t, d, points, BUFFER_DEVICE, TUNE_MESSAGE_DEVICE, rank))
        rc = -1;
    if (rank < 2 && tune_zerocopy(t, d, points, rank)) rc = -1;
    return rc;
}

/* Keeps the lesser time of two passes at each point, and curves that only one of them has. */
static void keep_least(struct tune_table *t, const struct tune_table *other)
{
    for (int c = 0; c < TUNE_CURVES; c++) {
        struct tune_grid *g = &t->grid[c];
        const struct tune_grid *o = &other->grid[c];
        if (!g->blocks) *g = *o;
        for (int i = 0; i < g->blocks && i < o->blocks; i++)
            for (int j = 0; j < g->sizes && j < o->sizes; j++)
                if (o->us[i][j] < g->us[i][j]) g->us[i][j] = o->us[i][j];
    }
}

/* Makes several passes: a disturbance or a low clock for a while spoils only one of them. */
static int measure_passes(struct tune_table *t, struct device *d, bool quick, int rank)
{
    static struct tune_table again;
    int passes = quick ? QUICK_PASSES : PASSES, rc = 0;
    for (int i = 0; rc == 0 && i < passes; i++) {
        if (rank == 0) fprintf(stderr, "stridec tune: pass %d of %d\n", i + 1, passes);
        memset(&again, 0, sizeof again);
        rc = measure_curves(i ? &again : t, d, quick, rank);
        if (rc == 0 && i) keep_least(t, &again);
        if (!all_ready(rc == 0)) rc = -1;
    }
    return rc;
}

/* --- the command --- */

static bool make_folder_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *folder = slash > file ? strndup(file, (size_t)(slash - file)) : NULL;
    bool made = folder ? file_make_folder(folder, 0700) : true;
    free(folder);
    return made;
}

/* Opens a temporary file that will become the table; *draft is its name. Returns a file number, or -1 with errno. */
static int open_draft(const char *file, char **draft)
{
    struct stat st;
    if (stat(file, &st) == 0 && S_ISDIR(st.st_mode)) return errno = EISDIR, -1;
    return make_folder_of(file) ? file_draft(file, 0644, draft) : -1;
}

/* Checks that the table can be written, before minutes are spent on it. */
static int try_file(const char *file)
{
    char *draft = NULL;
    int fd = open_draft(file, &draft);
    if (fd < 0) return fprintf(stderr, "stridec tune: %s: %s\n", file, strerror(errno)), 1;
    close(fd);
    file_publish(draft, file, false);
    return 0;
}

static int store(const struct tune_table *t, const char *file)
{
    char *draft = NULL;
    int fd = open_draft(file, &draft);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    bool ok = f != NULL;
    if (f) tune_write(t, f), ok = !ferror(f);
    if (fd >= 0) ok = (f ? fclose(f) : close(fd)) == 0 && ok;
    if (draft && file_publish(draft, file, ok)) {
        fprintf(stderr, "stridec tune: wrote %s\n", file);
        return 0;
    }
    fprintf(stderr, "stridec tune: %s: %s\n", file, strerror(errno));
    return 1;
}

static int say(int rank, const char *what)
{
    if (rank == 0) fprintf(stderr, "stridec tune: %s\n", what);
    return 1;
}

/* Returns the rank's GPU; the ranks of a node share its GPUs round robin. */
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

/* Measures chunks, unless ranks 0 and 1 share a node: then the result says nothing about other nodes. */
static void measure_chunks(const struct tune_request *want, struct tune_table *t, struct device *d, int rank)
{
    int same_node = node_armed() && node_peer(MPI_COMM_WORLD, 1 - rank), other_says = 0;
    PMPI_Sendrecv(&same_node, 1, MPI_INT, 1 - rank, 0, &other_says, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE);
    if ((same_node || other_says) && !want->pipeline)
        say(rank, "ranks 0 and 1 share a node: how messages between nodes are cut is not measured");
    else if (!tune_chunks(t, d, want->quick, rank)) say(rank, "messages can't be sent in chunks: left as they are");
}

/* Returns rank 0's table, to change a part of it. NULL if it can't be read, or is another MPI's or stridec's. */
static struct tune_table *table_to_change(const char *file)
{
    struct reason why;
    bool any = !access(file, F_OK);
    struct tune_table *t = any ? tune_read(file, &why) : calloc(1, sizeof *t);
    if (!t && any) fprintf(stderr, "stridec tune: %s\n", why.text);
    if (t && any && (tune_other_mpi(t, &why) || tune_other_stridec(t, &why))) {
        fprintf(stderr, "stridec tune: %s %s: run the whole of `stridec tune`\n", file, why.text);
        free(t);
        return NULL;
    }
    if (t && !any) {
        tune_set_origin(t, NULL);
        t->pipeline = CHUNK_SETTINGS_DEFAULT, t->borrowed = true;
    }
    return t;
}

static int measure_host(const struct tune_request *want, int rank)
{
    struct tune_table own = {.pipeline = CHUNK_SETTINGS_DEFAULT}, *t = rank ? &own : table_to_change(want->file);
    if (!all_ready(t != NULL)) {
        if (rank == 0) free(t);
        return 1;
    }
    int rc =
        rank < 2 && !tune_host(t, want->quick, rank) ? say(rank, "ranks 0 and 1 have no host memory in common") : 0;
    if (rank == 0 && rc == 0) rc = store(t, want->file);
    if (rank == 0) free(t);
    return rc;
}

static int measure(const struct tune_request *want, int rank, int ranks)
{
    struct tune_table t = {.pipeline = CHUNK_SETTINGS_DEFAULT};
    if (ranks < 2) return say(rank, "needs two ranks: mpirun -n 2 stridec tune");
    if (!want->file) return say(rank, "no folder for the table: set HOME, or give -o FILE");
    if (!all_ready(rank || !try_file(want->file))) return 1;
    if (want->host) return measure_host(want, rank);
    struct device *d = take_gpu(rank);
    if (!all_ready(d != NULL)) return say(rank, "needs a GPU on every rank: stridec doctor tells what is missing");
    tune_set_origin(&t, d);
    int rc = measure_passes(&t, d, want->quick, rank);
    if (rank == 0 && rc == 0 && !want->no_kernels) rc = tune_kernels(&t, d, want->quick);
    if (!all_ready(rc == 0)) return say(rank, "a measurement failed");
    if (rank < 2) measure_chunks(want, &t, d, rank);
    if (rank < 2 && !tune_host(&t, want->quick, rank))
        say(rank, "ranks 0 and 1 have no host memory in common: its messages are left out");
    return rank == 0 ? store(&t, want->file) : 0;
}

int tune_run(struct tune_request want)
{
    setenv("STRIDEC_PIPELINE", "1", 0);   /* every rank runs this command */
    if (!want.file) want.file = env_get()->tune;
    int rank, ranks, rc;
    driver_load();   /* before MPI_Init, which looks for a driver */
    MPI_Init(NULL, NULL);
    interpose_depth++;   /* messages here pass to the MPI */
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rc = measure(&want, rank, ranks);
    interpose_depth--;
    MPI_Finalize();
    return rc;
}
