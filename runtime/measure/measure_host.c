/* measure_host.c: times messages in host memory between ranks 0 and 1, for `stridec tune`: by the MPI and by
 * shared memory (shm_send.h). */
#include "hostpack/host_pack.h"
#include "node/segment.h"
#include "progress.h"
#include "timing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OVERHEAD_US 0.2    /* of looking at the type and the buffer of a stridec message */

enum way { WAY_MPI, WAY_SHM, WAYS };
#define LENGTHS 9
#define RUNS 7
/* The points: all, and those of --quick. */
static const struct {
    int runs, lengths, order[RUNS];   /* the most telling runs first */
    int64_t run[RUNS], length[LENGTHS];
} points[2] = {
    {7,
     9,
     {0, 3, 1, 2, 5, 4, 6},
     {8, 64, 256, 1024, 2048, 8192, 65536},
     {1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24}},
    {2, 2, {0, 1}, {8, 1024}, {1 << 13, 1 << 16}},
};

/* Measures half a round trip of each way, in turns. Returns false if a message failed. */
static bool exchange(struct tune_end *e, double us[WAYS])
{
    static const struct tune_way *const ways[WAYS] = {&tune_by_mpi, &tune_by_rndv}; /* ORDER way */
    double took[WAYS][TUNE_REPEATS_MAX];
    int n = tune_message_repeats((double)e->layout->size);
    bool ok = true;
    for (int i = -3; i < n; i++) {
        for (int way = 0; way < WAYS; way++) {
            e->way = ways[way];
            double trip = tune_trip(e);
            ok &= trip >= 0;
            if (i >= 0) took[way][i] = trip;
        }
    }
    for (int way = 0; way < WAYS; way++) us[way] = tune_median(took[way], n);
    return tune_both(e->rank, ok);
}

/* Makes a column of runs, as a layout and as the MPI's type. */
static void column_open(struct tune_end *e, int64_t run, int64_t bytes)
{
    e->layout = tune_column_layout(run, bytes);
    e->user = e->layout ? calloc(1, (size_t)e->layout->high) : NULL;
    if (e->layout) host_pack_ready(e->layout, true);
    PMPI_Type_create_hvector((int)(bytes / run), (int)run, tune_column_step(run), MPI_BYTE, &e->type);
    PMPI_Type_commit(&e->type);
}

static void column_close(struct tune_end *e)
{
    PMPI_Type_free(&e->type);
    free(e->user);
    layout_unref(e->layout);
    e->layout = NULL, e->user = NULL;
}

/* Returns the length from which on a way pays most: the product of the factors from there on is least. */
static int64_t threshold(const double factor[], const int64_t length[], int n)
{
    double sum = 0, least_sum = 0;
    int64_t least = INT64_MAX;
    for (int i = n - 1; i >= 0; i--) {
        sum += log(factor[i]);
        if (sum < least_sum) least_sum = sum, least = length[i];
    }
    return least;
}

/* Finds the length from which on messages of such runs are exposed. Returns false on failure. */
static bool thresholds(struct tune_end *e, int64_t run, const int64_t length[], int n, int64_t *offers)
{
    double us[WAYS], factor[LENGTHS];
    int first = 0;
    while (first < n && length[first] < 2 * run) first++;
    for (int i = first; i < n; i++) {
        column_open(e, run, length[i]);
        bool ok = tune_access(e) && exchange(e, us);
        column_close(e);
        if (!ok) return false;
        factor[i] = (us[WAY_SHM] + OVERHEAD_US) / us[WAY_MPI];
    }
    *offers = threshold(factor + first, length + first, n - first);
    return true;
}

bool tune_host(struct tune_table *t, bool quick, int rank)
{
    struct tune_end e = {.rank = rank, .count = 1, .peer = node_own() ? node_peer(MPI_COMM_WORLD, 1 - rank) : NULL};
    int n = points[quick].runs, measured = 0;
    int64_t offers[RUNS];
    t->offers.rows = 0;
    for (int i = 0; i < n; i++) offers[i] = tune_shm_least(tune_shm_default, points[quick].run[i]);
    while (measured < n && tune_follow(rank, progress_time_for(measured ? progress_mean(measured) : 0))) {
        int i = points[quick].order[measured++];
        if (!thresholds(&e, points[quick].run[i], points[quick].length, points[quick].lengths, &offers[i]))
            return false;
        progress_step(measured, n);
    }
    for (int i = 0; i < n && measured; i++) {
        int64_t run = points[quick].run[i];
        if (i == 0 || offers[i] != tune_shm_least(&t->offers, run)) tune_shm_add(&t->offers, i ? run : 1, offers[i]);
    }
    if (measured < n) progress_say("messages in host memory: %d of %d lengths of runs measured", measured, n);
    return true;
}
