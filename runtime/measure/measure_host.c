/* measure_host.c: times messages in host memory between ranks 0 and 1, for `stridec tune`: by the MPI and by
 * shared memory (shm_send.h). */
#include "hostpack/host_pack.h"
#include "node/peer_access.h"
#include "protocol/rndv_recv.h"
#include "protocol/rts.h"
#include "protocol/shm_send.h"
#include "timing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG 0
#define ROUNDS 1000        /* attempts to access each other's memory */
#define OVERHEAD_US 0.2    /* of looking at the type and the buffer of a stridec message */

enum way { WAY_MPI, WAY_SHM, WAYS };
#define LENGTHS 9
/* The points: all, and those of --quick. */
static const struct {
    int runs, lengths;
    int64_t run[7], length[LENGTHS];
} points[2] = {
    {7,
     9,
     {8, 64, 256, 1024, 2048, 8192, 65536},
     {1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24}},
    {2, 2, {8, 1024}, {1 << 13, 1 << 16}},
};

/* A column of runs on both ranks, as a layout and as the MPI's type. */
struct column {
    int rank, other;
    struct peer *peer;
    struct layout *layout;   /* of the point; NULL if unavailable */
    MPI_Datatype type;
    char *user;
    enum way way;
};

static struct rndv_send *post_send(struct column *c)
{
    return shm_send_to(c->peer, c->layout, c->user, 1, NULL);
}

/* Exposes messages until each rank can read the other's. Returns false if that fails. */
static bool access_ready(struct column *c)
{
    bool ready = false;
    if (!tune_both(c->rank, c->peer && c->layout && c->user)) return false;
    for (int i = 0; i < ROUNDS && !ready; i++) {
        struct rndv_send *o = post_send(c);
        if (o) rndv_send_withdraw(o);
        peer_access_poll();
        ready = tune_both(c->rank, o != NULL);
    }
    return ready;
}

/* Sends an RTS, an empty one if no slot can be had: the other rank waits for it. */
static bool give_rndv(struct column *c)
{
    static const char none[SHM_SEND_MIN];
    struct rndv_send *o = post_send(c);
    PMPI_Send(o ? (const void *)rndv_send_descriptor(o) : none, SHM_SEND_MIN, MPI_BYTE, c->other, TAG, MPI_COMM_WORLD);
    return o && rndv_send_end(o) == 0;
}

static bool take_rndv(struct column *c)
{
    union shm_rts came;
    struct rndv_recvs recvs = {0};
    MPI_Status status;
    PMPI_Recv(&came, SHM_SEND_MIN, MPI_BYTE, c->other, TAG, MPI_COMM_WORLD, &status);
    struct typed_buffer *p = came.descriptor.bytes ? typed_buffer_new(c->layout, NULL, c->user, 1) : NULL;
    bool ok = p && rndv_recv_add(&recvs, &came.descriptor, came.bytes, p, &status) == MPI_SUCCESS &&
              rndv_recvs_run(&recvs) == 0;
    typed_buffer_close(p);
    return ok;
}

static bool give(void *column)
{
    struct column *c = column;
    if (c->way != WAY_MPI) return give_rndv(c);
    return PMPI_Send(c->user, 1, c->type, c->other, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bool take(void *column)
{
    struct column *c = column;
    if (c->way != WAY_MPI) return take_rndv(c);
    return PMPI_Recv(c->user, 1, c->type, c->other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* Measures half a round trip of each way, in turns. Returns false if a message failed. */
static bool exchange(struct column *c, double us[WAYS])
{
    double took[WAYS][TUNE_REPEATS_MAX];
    int n = tune_message_repeats((double)c->layout->size);
    bool ok = true;
    for (int i = -3; i < n; i++) {
        for (int way = 0; way < WAYS; way++) {
            c->way = (enum way)way;
            double trip = tune_trip(c->rank, give, take, c);
            ok &= trip >= 0;
            if (i >= 0) took[way][i] = trip;
        }
    }
    for (int way = 0; way < WAYS; way++) us[way] = tune_median(took[way], n);
    return tune_both(c->rank, ok);
}

static void column_open(struct column *c, int64_t run, int64_t bytes)
{
    struct reason why;
    c->layout = tune_layout(tune_column(run, bytes, &why));
    c->user = c->layout ? calloc(1, (size_t)c->layout->high) : NULL;
    if (c->layout) host_pack_ready(c->layout, true);
    PMPI_Type_create_hvector((int)(bytes / run), (int)run, tune_column_step(run), MPI_BYTE, &c->type);
    PMPI_Type_commit(&c->type);
}

static void column_close(struct column *c)
{
    PMPI_Type_free(&c->type);
    free(c->user);
    layout_unref(c->layout);
    c->layout = NULL, c->user = NULL;
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
static bool thresholds(struct column *c, int64_t run, const int64_t length[], int n, int64_t *offers)
{
    double us[WAYS], factor[LENGTHS];
    int first = 0;
    while (first < n && length[first] < 2 * run) first++;
    for (int i = first; i < n; i++) {
        column_open(c, run, length[i]);
        bool ok = access_ready(c) && exchange(c, us);
        column_close(c);
        if (!ok) return false;
        factor[i] = (us[WAY_SHM] + OVERHEAD_US) / us[WAY_MPI];
    }
    *offers = threshold(factor + first, length + first, n - first);
    return true;
}

bool tune_host(struct tune_table *t, bool quick, int rank)
{
    struct column c = {
        .rank = rank, .other = 1 - rank, .peer = node_own() ? node_peer(MPI_COMM_WORLD, 1 - rank) : NULL};
    t->offers.rows = 0;
    if (rank == 0) fprintf(stderr, "stridec tune: messages in host memory\n");
    for (int i = 0; i < points[quick].runs; i++) {
        int64_t run = points[quick].run[i], first = i ? run : 1, offers;
        if (!thresholds(&c, run, points[quick].length, points[quick].lengths, &offers))
            return t->offers.rows = 0, false;
        if (i == 0 || offers != tune_shm_least(&t->offers, run)) tune_shm_add(&t->offers, first, offers);
    }
    return true;
}
