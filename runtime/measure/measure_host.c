/* measure_host.c: timing messages in host memory for `stridec tune`, between ranks 0 and 1: the MPI's own way, through
 * memory that the receiver has mapped (shm_send.h), and, where there is XPMEM, read in place. */
#include "hostpack/host_pack.h"
#include "node/peer_access.h"
#include "protocol/rndv_recv.h"
#include "protocol/rts.h"
#include "protocol/shm_send.h"
#include "timing.h"
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG 0
#define ROUNDS 1000     /* of trying each other's memory */
#define CALLS_US 0.2    /* what a message that is offered costs besides: looking at its type and buffer */

/* ORDER WAY */
enum way { OWN, ROOM, PLACE, WAYS };
#define LENGTHS 9
/* The quick ones are a few of these. */
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
    struct layout *layout;   /* of the point; NULL where it can't be had */
    MPI_Datatype type;
    char *user;
    enum way way;
};

static struct rndv_send *offer(struct column *c)
{
    return shm_send_by(c->way == PLACE ? HOST_PLACE : HOST_ROOM, c->peer, c->layout, c->user, 1, NULL);
}

/* Until each rank has shown that it can read what the other offers. */
static bool acquainted(struct column *c)
{
    bool ready = false;
    if (!tune_both(c->rank, c->peer && c->layout && c->user)) return false;
    for (int i = 0; i < ROUNDS && !ready; i++) {
        struct rndv_send *o = offer(c);
        if (o) rndv_send_withdraw(o);
        peer_access_poll();
        ready = tune_both(c->rank, o != NULL);
    }
    return ready;
}

/* The other rank is told also where nothing can be offered. */
static bool give_offer(struct column *c)
{
    static const char none[SHM_SEND_MIN];
    struct rndv_send *o = offer(c);
    PMPI_Send(o ? (const void *)rndv_send_descriptor(o) : none, SHM_SEND_MIN, MPI_BYTE, c->other, TAG, MPI_COMM_WORLD);
    return o && rndv_send_end(o) == 0;
}

static bool take_offer(struct column *c)
{
    union shm_rts came;
    struct rndv_recvs pulls = {0};
    MPI_Status status;
    PMPI_Recv(&came, SHM_SEND_MIN, MPI_BYTE, c->other, TAG, MPI_COMM_WORLD, &status);
    struct typed_buffer *p = came.descriptor.bytes ? typed_buffer_bare(c->layout, NULL, c->user, 1) : NULL;
    bool ok = p && rndv_recv_add(&pulls, &came.descriptor, came.bytes, p, &status) == MPI_SUCCESS &&
              rndv_recvs_run(&pulls) == 0;
    typed_buffer_close(p);
    return ok;
}

static bool give(void *column)
{
    struct column *c = column;
    if (c->way != OWN) return give_offer(c);
    return PMPI_Send(c->user, 1, c->type, c->other, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static bool take(void *column)
{
    struct column *c = column;
    if (c->way != OWN) return take_offer(c);
    return PMPI_Recv(c->user, 1, c->type, c->other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* Half a round trip each of all ways, which take turns. False where one failed. */
static bool exchange(struct column *c, int ways, double us[WAYS])
{
    double took[WAYS][TUNE_REPEATS_MAX];
    int n = tune_message_repeats((double)c->layout->size);
    bool ok = true;
    for (int i = -3; i < n; i++) {
        for (int way = 0; way < ways; way++) {
            c->way = (enum way)way;
            double trip = tune_trip(c->rank, give, take, c);
            ok &= trip >= 0;
            if (i >= 0) took[way][i] = trip;
        }
    }
    for (int way = 0; way < ways; way++) us[way] = tune_median(took[way], n);
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

/* From which of the lengths on a way is best: where what it costs and saves from there on, as factors, is the least. */
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

/* Of runs of a length: from where on messages are offered, and from where on in place. False where something failed. */
static bool thresholds(struct column *c, int64_t run, const int64_t length[], int n, int64_t *offers, int64_t *maps)
{
    double us[LENGTHS][WAYS], factor[LENGTHS];
    bool mapped[LENGTHS];
    int first = 0;
    while (first < n && length[first] < 2 * run) first++;
    for (int i = first; i < n; i++) {
        column_open(c, run, length[i]);
        bool ok = acquainted(c);
        mapped[i] = ok && tune_both(c->rank, shm_send_maps(c->layout, c->user, 1, peer_access_known(c->peer)));
        ok = ok && exchange(c, mapped[i] ? WAYS : PLACE, us[i]);
        column_close(c);
        if (!ok) return false;
        factor[i] = mapped[i] ? us[i][PLACE] / us[i][ROOM] : 1;
    }
    *maps = threshold(factor + first, length + first, n - first);
    for (int i = first; i < n; i++)
        factor[i] = (us[i][mapped[i] && length[i] >= *maps ? PLACE : ROOM] + CALLS_US) / us[i][OWN];
    *offers = threshold(factor + first, length + first, n - first);
    return true;
}

bool tune_host(struct tune_table *t, bool quick, int rank)
{
    struct column c = {
        .rank = rank, .other = 1 - rank, .peer = node_own() ? node_peer(MPI_COMM_WORLD, 1 - rank) : NULL};
    t->offers.rows = t->maps.rows = 0;
    peer_access_measure();
    mallopt(M_MMAP_MAX, 0);   /* what lies in the heap XPMEM can map whatever drivers are there */
    if (rank == 0) fprintf(stderr, "stridec tune: messages in host memory\n");
    for (int i = 0; i < points[quick].runs; i++) {
        int64_t run = points[quick].run[i], first = i ? run : 1, offers, maps;
        if (!thresholds(&c, run, points[quick].length, points[quick].lengths, &offers, &maps))
            return t->offers.rows = t->maps.rows = 0, false;
        /* A row where another threshold begins. */
        if (i == 0 || offers != tune_offers_least(&t->offers, run)) tune_offers_add(&t->offers, first, offers);
        if (maps != tune_offers_least(&t->maps, run)) tune_offers_add(&t->maps, first, maps);
    }
    return true;
}
