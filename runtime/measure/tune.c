/* tune.c: `stridec tune`: measures this system. */
#include "tune.h"
#include "base/activity.h"
#include "base/env.h"
#include "base/file.h"
#include "kernel/module_cache.h"
#include "node/segment.h"
#include "progress.h"
#include "timing.h"
#include "tune/table_fit.h"
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

/* Returns rank 0's answer on all ranks. */
static bool all_follow(bool mine)
{
    int answer = mine;
    PMPI_Bcast(&answer, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return answer;
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

#define PASSES 5
#define QUICK_PASSES 2
#define QUICK_SECONDS 20     /* less time is enough for few points only */
#define CORES_TO_SPARE 4     /* with fewer, compiling disturbs the other rank */
#define SCATTER_LOUD 0.1     /* tune_scatter of a noisy machine: verdict.c trusts differences beyond that */
/* Parts of the whole time, by which stages end. */
#define CHUNKS_UNTIL 0.5
#define KERNELS_UNTIL 0.75
#define HOST_UNTIL 0.9

/* Makes one pass over all curves: rank 0 measures its own GPU, ranks 0 and 1 together the messages. At the first, rank
 * 1 meanwhile compiles what zero-copy needs. */
static int measure_curves(struct tune_table *t, struct device *d, bool quick, int rank, bool first)
{
    const struct tune_points *points = tune_points(quick);
    if (rank == 1 && first && sysconf(_SC_NPROCESSORS_ONLN) >= CORES_TO_SPARE) tune_zerocopy_prepare(d, points);
    int rc = rank == 0 ? tune_curves(t, d, points) : 0;
    if (rank == 0 && rc == 0 && progress_time_for(0)) rc = tune_fused(t, d, quick);
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2 && measure_messages(t, d, points, BUFFER_PINNED, TUNE_MESSAGE_HOST, rank)) rc = -1;
    if (rank < 2 && mpi_cuda_aware() && measure_messages(t, d, points, BUFFER_DEVICE, TUNE_MESSAGE_DEVICE, rank))
        rc = -1;
    if (rank < 2 && tune_zerocopy(t, d, points, rank)) rc = -1;
    return all_ready(rc == 0) ? 0 : -1;
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

/* Makes more passes while there is time for one as long as the first: a disturbance or a low clock for a while spoils
 * only one of them. */
static int measure_again(struct tune_table *t, struct device *d, bool quick, int rank, double seconds)
{
    static struct tune_table again;
    int passes = quick ? QUICK_PASSES : PASSES, rc = 0;
    progress_stage("curves once more", 1);
    for (int i = 1; rc == 0 && i < passes && all_follow(progress_time_for(seconds)); i++) {
        memset(&again, 0, sizeof again);
        rc = measure_curves(&again, d, quick, rank, false);
        if (rc == 0) keep_least(t, &again);
        progress_step(i, passes - 1);
    }
    return rc;
}

static void warn_of_noise(void)
{
    double scatter = tune_scatter();
    if (scatter > SCATTER_LOUD)
        progress_say("warning: this machine is noisy: the middle half of repeated measurements is %.0f %% wide, below "
                     "%.0f %% on a quiet one: do other programs run? Going on; kernels "
                     "must gain more to count",
                     100 * scatter, 100 * SCATTER_LOUD);
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

static int say(const char *what)
{
    progress_say("%s", what);
    return 1;
}

struct device *tune_take_gpu(int rank)
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
    if ((same_node || other_says) && !want->pipeline) {
        say("ranks 0 and 1 share a node: how messages between nodes are cut is not measured");
        return;
    }
    progress_stage("messages in chunks", CHUNKS_UNTIL);
    if (!tune_follow(rank, progress_time_for(0))) say("no time for messages in chunks: left as they are");
    else if (!tune_chunks(t, d, want->quick, rank)) say("messages can't be sent in chunks: left as they are");
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
    progress_stage("messages in host memory", 1);
    int rc = rank < 2 && !tune_host(t, want->quick, rank) ? say("ranks 0 and 1 have no host memory in common") : 0;
    progress_end();
    if (rank == 0 && rc == 0) rc = store(t, want->file);
    if (rank == 0) free(t);
    return rc;
}

/* Measures the most telling first: what decides between transports, then kernels, then messages in host memory. More
 * passes over the first take the rest of the time. */
static int measure_gpu(const struct tune_request *want, struct tune_table *t, struct device *d, int rank,
                       struct tune_gains *gains)
{
    progress_stage("curves", 1);
    int rc = measure_curves(t, d, want->quick, rank, true);
    double seconds = progress_elapsed();
    warn_of_noise();
    if (rc == 0 && rank < 2) measure_chunks(want, t, d, rank);
    if (rank == 0 && rc == 0 && !want->no_kernels) {
        progress_stage("kernels", KERNELS_UNTIL);
        rc = tune_kernels(t, d, want->quick, gains);
    }
    if (!all_ready(rc == 0)) return -1;
    progress_stage("messages in host memory", HOST_UNTIL);
    if (rank < 2 && !tune_host(t, want->quick, rank))
        say("ranks 0 and 1 have no host memory in common: its messages are left out");
    rc = measure_again(t, d, want->quick, rank, seconds);
    progress_end();
    return rc;
}

/* Gives block lengths that there was no time for the built-in figures. Returns how many were measured; -1 without
 * memory. */
static int complete(struct tune_table *t, const struct device *d, const struct tune_points *points)
{
    int rows = t->grid[TUNE_PACK_DEVICE].blocks;
    if (rows < points->blocks)
        progress_say("no time for packing blocks longer than %.0f B: built-in figures, fitted to %s, serve for them",
                     points->block[rows - 1], d->name);
    return tune_fill(t, &d->gpu, points->block, points->blocks) ? rows : -1;
}

static int measure(struct tune_request *want, int rank, int ranks)
{
    struct tune_table t = {.pipeline = CHUNK_SETTINGS_DEFAULT};
    struct tune_gains gains = {0};
    if (ranks < 2) return say("needs two ranks: mpirun -n 2 stridec tune");
    if (!want->file) return say("no folder for the table: set HOME, or give -o FILE");
    if (!all_ready(rank || !try_file(want->file))) return 1;
    want->quick |= want->seconds < QUICK_SECONDS;
    if (want->host) return measure_host(want, rank);
    struct device *d = tune_take_gpu(rank);
    if (!all_ready(d != NULL)) return say("needs a GPU on every rank: stridec doctor tells what is missing");
    tune_set_origin(&t, d);
    if (measure_gpu(want, &t, d, rank, &gains)) return say("a measurement failed");
    if (rank) return 0;
    int rows = complete(&t, d, tune_points(want->quick));
    if (rows < 0) return say("out of memory");
    int rc = store(&t, want->file);
    findings_print(&t, rows, &d->gpu, want->no_kernels ? NULL : &gains);
    return rc;
}

int tune_run(struct tune_request want)
{
    setenv("STRIDEC_PIPELINE", "1", 0);   /* every rank runs this command */
    if (!want.file) want.file = env_get()->tune;
    int rank, ranks, rc;
    env_unobserved();
    driver_load();   /* before MPI_Init, which looks for a driver */
    MPI_Init(NULL, NULL);
    interpose_depth++;   /* messages here pass to the MPI */
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    progress_begin(want.seconds, rank == 0);
    rc = measure(&want, rank, ranks);
    progress_end();
    interpose_depth--;
    MPI_Finalize();
    return rc;
}
