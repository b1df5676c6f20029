/* shm_send.c: see shm_send.h. */
#include "shm_send.h"
#include "base/activity.h"
#include "base/bounce.h"
#include "base/env.h"
#include "base/mpi_workarounds.h"
#include "hostpack/host_pack.h"
#include "node/peer_access.h"
#include "node/shm_pool.h"
#include "progress_thread.h"
#include "rndv_internal.h"
#include "rts.h"
#include "shm_fill.h"
#include "tune/active.h"
#include <pthread.h>

static atomic_long shared, placed;   /* sends in shared segment blocks, and in place */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* of with_gap */

int64_t shm_send_least_of(const struct layout *l)
{
    const struct tune_table *t = table_active(NULL);
    const struct tune_shm *rows = t && t->offers.rows ? &t->offers : tune_shm_default;
    if (env_get()->ways.zerocopy_always) return SHM_SEND_LEAST;
    int64_t least = tune_shm_least(rows, env_get()->on_host.always ? 1 : l->run);
    return least > SHM_SEND_LEAST ? least : SHM_SEND_LEAST;
}

enum slot_memory shm_send_memory(unsigned reached)
{
    return env_get()->ways.zerocopy_always && reached & REACH_MEMORY ? SLOT_PROCESS : SLOT_POOL;
}

bool shm_send_allowed(void)
{
    return node_own() && env_get()->on_host.serves && env_get()->ways.zerocopy;
}

EXPORT long stridec_host_offers(int in_place)
{
    return atomic_load(in_place ? &placed : &shared);
}

bool shm_send_wants(const struct message *m)
{
    return shm_send_allowed() && m->bytes >= shm_send_least_of(m->layout);
}

/* For these runs and lengths, sends that do not wait for their receiver pass to the MPI. Two ranks both send, then
 * receive; Open MPI 4.1 and shared memory: 16 MiB in runs of 4 KiB 2.0 and 3.5 ms (of 64 B 4.3 and 3.5); 31 KiB in
 * runs of 500 B 7.6 and 9 us, 127 KiB 28 and 28 us. */
#define FLOOD_RUN (IS_OPEN_MPI ? 128 : INT64_MAX)
#define FLOOD ((int64_t)2 << 20)
#define TRICKLE_RUN (IS_OPEN_MPI ? 256 : INT64_MAX)
#define TRICKLE ((int64_t)128 << 10)

bool shm_send_later(const struct message *m)
{
    int64_t run = m->layout->run;
    if (m->near->self || env_get()->on_host.always || env_get()->ways.zerocopy_always) return true;
    return !(run >= FLOOD_RUN && m->bytes > FLOOD) && !(run >= TRICKLE_RUN && m->bytes < TRICKLE);
}

static void describe(struct rndv_send *o, enum slot_memory memory, uint64_t user, uint64_t layout)
{
    struct slot *s = o->slot;
    const struct typed_buffer *p = o->tbuf;
    s->memory = memory;
    SLOT_SET(s->description, 0);
    s->user = user, s->layout = layout, s->bytes = p->bytes;
    s->count = p->count, s->extent = p->layout->extent;
    s->head = memory == SLOT_POOL ? HEAD_BYTES : 0;
    atomic_store_explicit(&s->ready, memory == SLOT_POOL ? s->head : p->bytes, memory_order_relaxed);
}

/* Workaround (Open MPI 4.1): SELF_WRITES_PAST. The gap makes the MPI pack an RTS header to the rank itself. */
static _Atomic(MPI_Datatype) with_gap = MPI_DATATYPE_NULL;

static bool gap_make(void)
{
    if (!SELF_WRITES_PAST) return true;
    int length[] = {SHM_SEND_MIN / 2, SHM_SEND_MIN / 2}, at[] = {0, SHM_SEND_MIN / 2 + SHM_SEND_GAP};
    MPI_Datatype t = atomic_load(&with_gap);
    if (t != MPI_DATATYPE_NULL) return true;
    pthread_mutex_lock(&lock);
    t = atomic_load(&with_gap);
    if (t == MPI_DATATYPE_NULL && PMPI_Type_indexed(2, length, at, MPI_BYTE, &t) == MPI_SUCCESS &&
        !PMPI_Type_commit(&t))
        atomic_store(&with_gap, t);
    pthread_mutex_unlock(&lock);
    return atomic_load(&with_gap) != MPI_DATATYPE_NULL;
}

MPI_Datatype shm_send_gapped(void)
{
    return gap_make() ? atomic_load(&with_gap) : MPI_DATATYPE_NULL;
}

static void gap_free(void)
{
    MPI_Datatype t = atomic_exchange(&with_gap, MPI_DATATYPE_NULL);
    if (t != MPI_DATATYPE_NULL) PMPI_Type_free(&t);
}

static bool place_in_pool(struct rndv_send *o)
{
    o->rts.bytes = o->tbuf->bytes;
    o->pool_block = shm_pool_take(o->tbuf->bytes);
    if (!o->pool_block) return false;
    describe(o, SLOT_POOL, o->pool_block, 0);
    shm_fill_begin(o);
    if (!shm_pool_lost()) return true;
    shm_pool_put(o->pool_block, o->tbuf->bytes);
    o->pool_block = 0, o->pushes = false;
    return false;
}

static bool in_place(struct rndv_send *o)
{
    const struct typed_buffer *p = o->tbuf;
    uint64_t layout = progress_thread_start(rndv_send_serve) ? ipc_export_layout(p->layout) : 0;
    if (layout) describe(o, SLOT_PROCESS, (uint64_t)(uintptr_t)p->user + (uint64_t)p->layout->tree->off, layout);
    return layout != 0;
}

/* Exposes the buffer to this process itself: the receiver uses the pointer to the layout. */
static bool stay(struct rndv_send *o)
{
    const struct typed_buffer *p = o->tbuf;
    if (!gap_make()) return false;
    describe(o, SLOT_PROCESS, (uint64_t)(uintptr_t)p->user, (uint64_t)(uintptr_t)p->layout);
    return true;
}

static bool place(struct rndv_send *o, unsigned reached)
{
    if (o->peer->self) return stay(o);
    if (shm_send_memory(reached) == SLOT_PROCESS && in_place(o)) return true;
    if (reached & REACH_POOL && place_in_pool(o)) return true;
    return o->reserved && reached & REACH_MEMORY && in_place(o);
}

bool shm_send_sure(struct peer *peer)
{
    return peer->self ? gap_make() : peer_access_reached(peer) & REACH_MEMORY;
}

static unsigned reached_of(struct peer *peer)
{
    return peer->self ? REACH_MEMORY : peer_access_reached(peer);
}

static struct rndv_send *begin(struct peer *peer, struct device *d)
{
    (void)d;
    if (reached_of(peer) <= REACH_TRIED) return NULL;
    rndv_send_poll();
    return rndv_send_new();
}

static bool post(struct rndv_send *o, struct rndv_send_site *site)
{
    (void)site;
    if (!place(o, reached_of(o->peer))) return false;
    rndv_send_publish(o);
    atomic_fetch_add_explicit(o->pool_block ? &shared : &placed, 1, memory_order_relaxed);
    return true;
}

static int count(const struct peer *p, MPI_Datatype *type)
{
    *type = p->self ? atomic_load(&with_gap) : MPI_DATATYPE_NULL;
    if (*type != MPI_DATATYPE_NULL) return 1;
    *type = MPI_BYTE;
    return SHM_SEND_MIN;
}

static int feed(struct rndv_send *o)
{
    shm_fill_rest(o);
    return 0;
}

static bool move(struct rndv_send *o)
{
    struct typed_buffer *p = o->tbuf;
    p->block = bounce_get(p->bytes);
    if (!p->block) return false;
    host_pack_pack(p->layout, p->count, p->user, p->block->memory, 0, p->bytes);
    describe(o, SLOT_PROCESS, (uint64_t)(uintptr_t)p->block->memory, 0);
    return true;
}

static void refused(const struct rndv_send *o)
{
    peer_access_refused(o->peer);
}

const struct rndv_domain rndv_domain_host = {begin, post, count, feed, move, refused, NULL, gap_free};
