/* host_select.c: messages between buffers in host memory. */
#include "host_select.h"
#include "base/activity.h"
#include "base/bounce.h"
#include "base/env.h"
#include "base/mpi_workarounds.h"
#include "datatype/byte_types.h"
#include "datatype/type_filter.h"
#include "hostpack/host_pack.h"
#include "node/segment.h"
#include "pack/host_scatter.h"
#include "protocol.h"
#include "shm_send.h"

/* Nanoseconds that packing a short message must save, to pay for its other costs; SAVES_DRIVER: with a driver. */
#define SAVES_LEAST 100
#define SAVES_DRIVER 250
/* Short messages are packed if their runs are shorter than this. */
#define PACK_SHORT_RUN (IS_OPEN_MPI ? SHORT : INT64_MAX)
/* Extra nanoseconds of a typed message in the MPI: MPICH 4.0 (UCX), 1.5 KiB in two runs 0.69 us, packed 0.24. */
#define TYPED_NS (IS_OPEN_MPI ? 0 : 100)
#define SHORT 64   /* shorter runs arrive packed: stridec's code unpacks them quicker than any MPI's engine */

/* Collectives pack shorter runs than COLLECTED_RUN: of one count from COLLECTED_COUNT bytes on, else arguments from
 * COLLECTED_LEAST to _MOST. Two ranks, Open MPI 4.1 (plain bytes by a system call), MPICH 4.0 (UCX; slower engine). */
#define COLLECTED_COUNT ((int64_t)8 << 10)
#define COLLECTED_RUN (IS_OPEN_MPI ? 16 : 128)
#define COLLECTED_LEAST ((int64_t)(IS_OPEN_MPI ? 16 : 8) << 10)
#define COLLECTED_MOST ((int64_t)(IS_OPEN_MPI ? 8 : 32) << 20)

/* Returns false also without a buffer: the MPI reports that error. */
static bool usable(struct layout *l, const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm)
{
    if (!l || (!buf && !l->low) || layout_committed(l, datatype, comm) != MPI_SUCCESS) return false;
    if (!driver_get()) return true;
    struct location w = locate(l, buf, count);
    return !w.device && !w.parts;
}

static atomic_long noted;

/* Counts a message; may miss one if threads count at the same time. */
void host_note_packed(void)
{
    atomic_store_explicit(&noted, atomic_load_explicit(&noted, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void count_moved(struct layout *l, int64_t bytes, int64_t begun)
{
    if (begun)
        layout_moved(l,
                     &(struct stats_sample){.bytes = bytes, .nanoseconds = stats_now() - begun, .transport = "host",
                                            .state = host_pack_origin(l)});
    host_note_packed();
}

static void pack(const struct typed_buffer *p)
{
    int64_t begun = env_get()->timed ? stats_now() : 0;
    host_pack_pack(p->layout, p->count, p->user, p->address, 0, p->bytes);
    count_moved(p->layout, p->bytes, begun);
}

static void unpack(struct layout *l, int64_t count, void *user, const void *packed, int64_t bytes)
{
    int64_t begun = env_get()->timed ? stats_now() : 0;
    host_pack_unpack(l, count, user, packed, 0, bytes);
    count_moved(l, bytes, begun);
}

EXPORT long stridec_host_packed(void)
{
    return atomic_load(&noted);
}

/* With ELEMENTS_ARE_WHOLE, an MPI that receives into a typed buffer never cuts packed bytes within an element. */
bool host_matches_types(const struct layout *l)
{
    return !ELEMENTS_ARE_WHOLE || type_parts_whole(l);
}

bool host_packs_short(const struct layout *l)
{
    return l->run < SHORT && host_matches_types(l);
}

bool host_collects(const struct layout *l)
{
    bool pays = env_get()->on_host.always || l->run < COLLECTED_RUN;
    return l->kernel && !layout_contiguous(l, 2) && host_matches_types(l) && pays;
}

bool host_collects_bytes(int64_t bytes)
{
    return env_get()->on_host.always || (bytes >= COLLECTED_LEAST && bytes <= COLLECTED_MOST);
}

int64_t host_collects_least(void)
{
    if (!env_get()->on_host.serves) return INT64_MAX;
    return env_get()->on_host.always ? 1 : COLLECTED_COUNT;
}

struct filter_rules host_rules(const struct layout *l)
{
    return (struct filter_rules){
        .sends = host_packs_short(l) ? SHM_SEND_LEAST : shm_send_least_of(l),
        .short_msgs = l->run < PACK_SHORT_RUN && host_matches_types(l),
        .collects = host_collects(l),
        .packed = l->kernel && (l->run < SHORT || (ELEMENTS_ARE_WHOLE && !type_parts_whole(l))),
    };
}

struct layout *host_sends(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm)
{
    struct layout *l = count <= 0 || comm == MPI_COMM_NULL ? NULL : filter_sends(datatype, count);
    return usable(l, buf, count, datatype, comm) ? l : NULL;
}

static const char *left_reason(const struct message *m)
{
    if (!node_own()) return "no memory in common with other ranks of the node";
    if (!shm_send_allowed()) return "STRIDEC_TRANSPORT has them packed, which the MPI does as quickly of such runs";
    if (!shm_send_wants(m)) return "too short to gain by memory of the node";
    if (!m->near) return "to ranks of other nodes, or without stridec";
    if (!shared_peer(m)) return "nonblocking sends of such lengths and runs, which the MPI moves as quickly";
    return "no place in memory of the node, or the receiver does not reach it";
}

void host_count_passed(const struct message *m)
{
    if (env_get()->stats) stats_add_passed(m->layout->stats, left_reason(m), m->bytes);
}

struct typed_buffer *host_block(struct layout *l, const void *buf, int64_t count)
{
    struct typed_buffer *p = typed_buffer_new(l, NULL, buf, count);
    if (p && (p->block = bounce_get(p->bytes))) {
        p->address = p->block->memory;
        return p;
    }
    typed_buffer_close(p);
    return NULL;
}

struct typed_buffer *host_packs(struct layout *l, const void *buf, int64_t count)
{
    if (!host_packs_short(l)) return NULL;
    struct typed_buffer *p = host_block(l, buf, count);
    if (p) pack(p);
    return p;
}

struct typed_buffer *host_packs_any(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm)
{
    struct layout *l = count <= 0 || comm == MPI_COMM_NULL ? NULL : layout_of(datatype);
    bool may = usable(l, buf, count, datatype, comm) && l->tree && layout_bytes(l, count) > 0;
    struct typed_buffer *p = may ? host_block(l, buf, count) : NULL;
    if (!p || host_pack_pack(l, count, buf, p->address, 0, p->bytes) ||
        host_scatter_move(p, p->address, 0, p->bytes, true))
        return p;
    typed_buffer_close(p);
    return NULL;
}

/* Returns a typed buffer if trials against the MPI's engine show that packing pays; NULL else. Keeps the result. */
static struct typed_buffer *tried(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm)
{
    struct layout *l = count <= 0 || comm == MPI_COMM_NULL ? NULL : filter_packs_short(datatype, count);
    int ready = usable(l, buf, count, datatype, comm) ? host_pack_code_state(l) : 0;
    if (ready < 0) filter_raise(datatype, FILTER_SHORT, INT64_MAX);
    struct typed_buffer *p = ready == 1 ? host_block(l, buf, count) : NULL;
    int64_t saved = p ? host_pack_saved_ns(l, datatype, count, buf, p->address, comm) : 0;
    int64_t least = driver_get() ? SAVES_DRIVER : SAVES_LEAST;
    if (saved != INT64_MIN && saved != INT64_MAX) saved += TYPED_NS;
    if (p && saved >= least) host_pack_set_fast(l, p->bytes);
    if (!p || saved >= least) return p;
    if (saved != INT64_MIN) filter_raise(datatype, FILTER_SHORT, 2 * count);
    typed_buffer_close(p);
    return NULL;
}

struct typed_buffer *host_packs_tried(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm)
{
    struct typed_buffer *p = tried(buf, count, datatype, comm);
    if (p) pack(p);
    return p;
}

void host_short_pack(const struct layout *l, const void *buf, int64_t count, void *packed, int64_t bytes)
{
    host_pack_run(l, KERNEL_PACK, buf, count, packed, bytes);
    host_note_packed();
}

void host_short_unpack(struct layout *l, void *buf, int64_t count, const void *packed, int64_t bytes)
{
    if (bytes <= 0 || !host_pack_fast_bytes(l, count)) {
        unpack(l, count, buf, packed, bytes > 0 ? bytes : 0);
    } else {
        host_pack_run(l, KERNEL_UNPACK, buf, count, packed, bytes);
        host_note_packed();
    }
}

struct typed_buffer *host_awaits(const void *buf, int64_t count, MPI_Datatype datatype, int source, MPI_Comm comm)
{
    bool none = source == MPI_PROC_NULL || count <= 0 || comm == MPI_COMM_NULL;
    struct layout *l = none || filter_direct(datatype) ? NULL : filter_packed(datatype, count);
    if (!l && !none) return tried(buf, count, datatype, comm);
    return usable(l, buf, count, datatype, comm) ? host_block(l, buf, count) : NULL;
}

struct layout *host_awaits_short(int64_t count, MPI_Datatype datatype, MPI_Comm comm, int64_t *bytes)
{
    bool asks =
        count > 0 && comm != MPI_COMM_NULL && filter_short(datatype, count) && (driver_absent() || !driver_get());
    struct layout *l = asks ? filter_packed(datatype, count) : NULL;
    *bytes = l ? layout_bytes(l, count) : 0;
    return l && *bytes <= HOST_SHORT_MOST && layout_committed(l, datatype, comm) == MPI_SUCCESS ? l : NULL;
}

void host_arrived(struct typed_buffer *p, int64_t bytes)
{
    unpack(p->layout, p->count, p->user, p->address, bytes < p->bytes ? bytes : p->bytes);
}
