/* pipeline.c: the ranks' agreement to send in chunks, and its end. */
#include "pipeline.h"
#include "base/env.h"
#include "base/log.h"
#include "base/modex.h"
#include "base/world_rank.h"
#include "pipeline_send.h"
#include "tune/active.h"
#include "tune/table.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CHUNKS_MOST 1024   /* of a message */
#define MARKED_TAG 22397   /* of marked ranks' words to each other in MPI_Init; MPI allows no lower limit than 32767 */

static struct pipeline own = {.comm = MPI_COMM_NULL};
static struct cookie cookie;
static atomic_bool agreed;

const struct pipeline *pipeline_get(void)
{
    return atomic_load_explicit(&agreed, memory_order_acquire) ? &own : NULL;
}

void pipeline_try(const struct chunk_params *p)
{
    own.settings = *p;
}

int pipeline_peer(MPI_Comm comm, int rank)
{
    const struct pipeline *p = pipeline_get();
    int world = p && rank >= 0 && comm != MPI_COMM_NULL ? world_rank(comm, rank) : -1;
    return p && world < p->size ? world : -1;
}

bool pipeline_all(MPI_Comm comm)
{
    int size = 0;
    bool all = pipeline_get() && PMPI_Comm_size(comm, &size) == MPI_SUCCESS;
    for (int i = 0; i < size && all; i++) all = pipeline_peer(comm, i) >= 0;
    return all;
}

void pipeline_name(struct rts *d, uint32_t tag, int64_t bytes, int64_t chunk)
{
    int64_t most = (bytes + CHUNKS_MOST - 1) / CHUNKS_MOST;
    memset(d, 0, sizeof *d);
    rts_mark(d, &cookie);
    d->rank = (uint32_t)own.rank, d->slot = tag, d->bytes = bytes;
    d->chunk = chunk > most ? chunk : most;
}

bool pipeline_named(const struct rts *d)
{
    return pipeline_get() && rts_marked(d, &cookie, false) && d->rank < (uint32_t)own.size &&
           d->slot < (uint32_t)own.tags && d->bytes > RNDV_MIN && d->chunk > 0 && d->chunk <= INT_MAX &&
           d->bytes / d->chunk <= CHUNKS_MOST;
}

int pipeline_chunks(const struct rts *d)
{
    return (int)((d->bytes + d->chunk - 1) / d->chunk);
}

int64_t pipeline_end(const struct rts *d, int i)
{
    return i + 1 == pipeline_chunks(d) ? d->bytes : (i + 1) * d->chunk;
}

/* ---- the agreement without a promise ----
 * The ranks are a binomial tree: above a rank is the one without its lowest set bit, most often on the same node. A
 * marked rank (modex.h) exchanges words with the marked ones next to it, all of them in MPI_Init. The first message
 * between two ranks is the word. An unmarked rank below means no; with one above, there is nobody to ask. tests/model
 * checks this. */

/* Words of a rank and those below it: all can, some has GPUs. Words from above are the same of all ranks. */
struct words {
    int can, gpus;
};

static void words_send(struct words w, int to)
{
    PMPI_Send(&w, 2, MPI_INT, to, MARKED_TAG, MPI_COMM_WORLD);
}

static struct words words_receive(int from)
{
    struct words w = {0, 0};
    PMPI_Recv(&w, 2, MPI_INT, from, MARKED_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return w;
}

/* Called by marked ranks in MPI_Init. Returns true, on all ranks or on none, if all are marked, all can, and one has
 * GPUs. */
static bool marked_agree(bool yes)
{
    struct words all = {yes, node_has_gpus()};
    int below[31], n = 0, lowest = own.rank ? own.rank & -own.rank : own.size, above = own.rank - lowest;
    for (int bit = 1; bit < lowest && bit < own.size - own.rank; bit *= 2) {
        bool marked = modex_marked(own.rank + bit);
        struct words w = marked ? words_receive(own.rank + bit) : (struct words){0, 0};
        all.can &= w.can, all.gpus |= w.gpus;
        if (marked) below[n++] = own.rank + bit;
    }
    if (own.rank && modex_marked(above)) words_send(all, above), all = words_receive(above);
    else if (own.rank) all.can = 0;
    for (int i = 0; i < n; i++) words_send(all, below[i]);
    return all.can && all.gpus;
}

/* ---- the agreement under the promise ---- */

/* Collective: returns true if all ranks vote yes; rank 0 warns if only some do. */
static bool vote(bool yes)
{
    int mine[2] = {yes, !yes}, all[2] = {0, 0};
    if (PMPI_Allreduce(mine, all, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS) return false;
    if (!all[0] && !all[1] && own.rank == 0)
        log_write(LOG_WARN, "STRIDEC_PIPELINE=1 does not hold for all ranks: no messages in chunks");
    return all[0];
}

static int tag_count(void)
{
    int *most = NULL, found = 0;
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    return found && *most < INT_MAX ? *most + 1 : found ? INT_MAX : 32768;
}

static bool settle(void)
{
    own.settings = table_active(NULL)->pipeline;
    if (env_get()->chunks) chunk_settings_read(&own.settings, env_get()->chunks);   /* env_check reports errors */
    if (env_get()->ways.chunks_always) own.settings.least = 0;
    own.tags = tag_count();
    return !world_rank_start();
}

static bool can(bool able)
{
    MPI_Comm parent = MPI_COMM_NULL;
    PMPI_Comm_get_parent(&parent);
    return able && pipeline_wanted() && own.size > 1 && parent == MPI_COMM_NULL && settle();
}

bool pipeline_wanted(void)
{
    return env_get()->pipeline_named ? env_get()->pipeline : modex_ready();
}

static bool agree(bool able)
{
    bool named = env_get()->pipeline_named;
    if (!named && !modex_ready()) return false;
    PMPI_Comm_rank(MPI_COMM_WORLD, &own.rank), PMPI_Comm_size(MPI_COMM_WORLD, &own.size);
    return named ? vote(can(able)) : marked_agree(can(able));
}

bool pipeline_start(bool able)
{
    bool all = agree(able);
    if (!all && able && !env_get()->pipeline_named && env_get()->ways.chunks_always)
        log_once(LOG_WARN, "pipelined",
                 "STRIDEC_TRANSPORT=pipelined needs STRIDEC_PIPELINE=1 in this job: choosing by the table");
    if (!all || PMPI_Comm_dup(MPI_COMM_WORLD, &own.comm) != MPI_SUCCESS) return false;
    PMPI_Comm_set_errhandler(own.comm, MPI_ERRORS_RETURN);
    bool random = own.rank != 0 || getrandom(&cookie, sizeof cookie, 0) == (ssize_t)sizeof cookie;
    memcpy(&cookie, COOKIE_MARK, sizeof COOKIE_MARK);
    if (PMPI_Bcast(&cookie, sizeof cookie, MPI_BYTE, 0, own.comm) != MPI_SUCCESS) random = false;
    if (vote(random)) {
        atomic_store_explicit(&agreed, true, memory_order_release);
        return true;
    }
    PMPI_Comm_free(&own.comm);
    return false;
}

/* ---- the end ----
 * After the first barrier no rank receives any more. Each rank then drops the chunks sent to it, until all sends are
 * complete (Hoefler et al. 2010, "Scalable communication protocols for dynamic sparse data exchange"). */

/* Receives one pending chunk and drops it. Returns false if none is pending. */
static bool take_one(void)
{
    int there = 0, bytes = 0;
    MPI_Message message;
    MPI_Status status;
    if (PMPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, own.comm, &there, &message, &status) != MPI_SUCCESS || !there)
        return false;
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    void *nowhere = malloc((size_t)bytes + 1);
    PMPI_Mrecv(nowhere, nowhere ? bytes : 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);   /* without memory: truncated */
    free(nowhere);
    return true;
}

/* Waits until all ranks are in the barrier. With `draining` this rank enters after its own sends are complete. */
static void barrier(bool draining)
{
    MPI_Request all = MPI_REQUEST_NULL;
    for (int done = 0, entered = 0; !done;) {
        while (draining && take_one()) continue;
        pipeline_send_poll();
        bool enters = !entered && !(draining && pipeline_send_any());
        if (enters && PMPI_Ibarrier(own.comm, &all) != MPI_SUCCESS) return;   /* a rank has died */
        entered |= enters;
        if (entered && PMPI_Test(&all, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    }
}

void pipeline_finish(void)
{
    if (own.comm == MPI_COMM_NULL) return;
    barrier(false);
    barrier(true);
    atomic_store(&agreed, false);
    PMPI_Comm_free(&own.comm);
}
