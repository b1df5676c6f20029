/* pipeline.c: the ranks' agreement to send in chunks, and its end. */
#include "pipeline.h"
#include "base/env.h"
#include "base/log.h"
#include "base/world_rank.h"
#include "pipeline_send.h"
#include "tune/active.h"
#include "tune/table.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CHUNKS_MOST 1024   /* of a message */

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

/* ---- the agreement ---- */

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
    return able && env_get()->pipeline && own.size > 1 && parent == MPI_COMM_NULL && settle();
}

bool pipeline_start(bool able)
{
    if (!env_get()->pipeline_named) {
        if (able && env_get()->ways.chunks_always)
            log_once(LOG_WARN, "pipelined",
                     "STRIDEC_TRANSPORT=pipelined needs STRIDEC_PIPELINE=1: choosing by the table");
        return false;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &own.rank), PMPI_Comm_size(MPI_COMM_WORLD, &own.size);
    if (!vote(can(able)) || PMPI_Comm_dup(MPI_COMM_WORLD, &own.comm) != MPI_SUCCESS) return false;
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
        if (!entered && !(draining && pipeline_send_any()) && PMPI_Ibarrier(own.comm, &all) == MPI_SUCCESS) entered = 1;
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
