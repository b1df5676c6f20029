/* api_query.c: which way a message will take: p2p_leaves (p2p.c) without leaving. */
#include "api.h"
#include "base/env.h"
#include "datatype/type_filter.h"
#include "device/device_internal.h"
#include "node/peer_access.h"
#include "pack/select.h"
#include "pack/typed_buffer.h"
#include "protocol/host_select.h"
#include "protocol/pipeline_send.h"
#include "protocol/placement.h"
#include "protocol/rndv_send.h"
#include "protocol/shm_send.h"
#include <stdio.h>

/* What rndv_send_to asks: the peer reads the device, and the allocation is one that it can open. */
static bool is_offered(struct layout *l, struct location w, const void *buf, int64_t count, MPI_Datatype datatype,
                       int dest, MPI_Comm comm)
{
    struct peer *peer = rndv_send_peer(l, w, count, datatype, dest, comm);
    struct ipc_export e;
    int64_t first, past;
    if (!peer) return false;
    if (peer->self ? device_first()->next != NULL : !ipc_export_tried(w.device, peer)) return false;
    if (ipc_export_reaches(w.device, peer)) return true;   /* packed first, where the allocation itself can't be read */
    layout_span(l, count, &first, &past);
    bool shared = ipc_export_of(w.device, (uint64_t)(uintptr_t)buf + (uint64_t)first, past - first, &e);
    return shared && ipc_export_accepted(&e, peer) && (layout_contiguous(l, count) || ipc_export_layout(l));
}

static enum stridec_path packed_path(const struct transport *t)
{
    static const struct {
        const struct transport *transport;
        enum stridec_path path;
    } paths[] = {
        {&transport_device, STRIDEC_PATH_DEVICE}, {&transport_oneshot, STRIDEC_PATH_ONESHOT},
        {&transport_staged, STRIDEC_PATH_STAGED}, {&transport_parts, STRIDEC_PATH_PARTS},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i].transport == t) return paths[i].path;
    return STRIDEC_PATH_SHADOW;
}

static enum stridec_path path_of(struct layout *l, struct location w, const void *buf, int64_t count,
                                 MPI_Datatype datatype, int dest, MPI_Comm comm)
{
    if (is_offered(l, w, buf, count, datatype, dest, comm)) return STRIDEC_PATH_ZEROCOPY;
    if (pipeline_send_way(l, w, count, dest, comm) >= 0) return STRIDEC_PATH_PIPELINED;
    return packed_path(
        typed_buffer_transport(l, w, count, placement_sends_on_host(layout_bytes(l, count), dest, comm)));
}

static void explain(const struct layout *l, int64_t count, enum stridec_path path, char why[TUNE_WHY_MAX])
{
    switch (path) {
    case STRIDEC_PATH_PIPELINED:
        snprintf(why, TUNE_WHY_MAX, "long, to a rank whose memory can't be read from here, under STRIDEC_PIPELINE");
        break;
    case STRIDEC_PATH_PARTS: snprintf(why, TUNE_WHY_MAX, "the buffer lies in several memories"); break;
    case STRIDEC_PATH_SHADOW: snprintf(why, TUNE_WHY_MAX, "stridec can't read the type"); break;
    default: select_explain(l, count, layout_bytes(l, count), path == STRIDEC_PATH_ZEROCOPY, why);
    }
}

/*
 * Host memory.
 */

struct answer {
    enum stridec_path path;
    const char *why;
};

/* Returns what shm_send.c would do with such a message; NULL: nothing. */
static const struct answer *offered(const struct layout *l, const void *buf, int64_t count, int dest, MPI_Comm comm)
{
    static const struct answer
        own = {STRIDEC_PATH_ZEROCOPY, "host memory, to the rank itself"},
        placed = {STRIDEC_PATH_ZEROCOPY, "host memory that the receiver reads, under STRIDEC_TRANSPORT=zerocopy"},
        mapped = {STRIDEC_PATH_ZEROCOPY,
                  "host memory that the receiver maps (XPMEM), which was measured to be quicker"},
        shared = {STRIDEC_PATH_SHARED, "host memory, to a rank of the node"};
    struct peer *peer = shm_send_wants(l, count) ? node_peer(comm, dest) : NULL;
    if (!peer || peer->self) return peer ? &own : NULL;
    unsigned reached = peer_access_known(peer);
    if (shm_send_memory(l, buf, count, reached) != SLOT_ROOM)
        return env_get()->transport == ENV_ZEROCOPY ? &placed : &mapped;
    return reached & REACH_ROOMS ? &shared : NULL;
}

static struct answer host_answer(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm)
{
    const struct layout *l = layout_of(datatype);
    int64_t bytes;
    if (layout_contiguous(l, count)) return (struct answer){STRIDEC_PATH_MPI, "host memory, in one piece"};
    if (atomic_load_explicit(&filter_least, memory_order_relaxed) == INT64_MAX)
        return (struct answer){STRIDEC_PATH_MPI,
                               "host memory, which is the MPI's here: STRIDEC_HOST, or no file for the node"};
    if (!filter_again(datatype))
        return (struct answer){STRIDEC_PATH_MPI, "host memory, of a type that was not sent before"};
    if (host_brief(buf, count, datatype, dest, &bytes))
        return (struct answer){STRIDEC_PATH_PACKED, "host memory, a brief message"};
    if (!(l = host_sends(buf, count, datatype, comm)))
        return (struct answer){STRIDEC_PATH_MPI, "host memory, which the MPI sends as quickly"};
    const struct answer *offer = offered(l, buf, count, dest, comm);
    if (offer) return *offer;
    if (host_packs_short(l)) return (struct answer){STRIDEC_PATH_PACKED, "host memory, in short runs"};
    return (struct answer){STRIDEC_PATH_MPI, "host memory, to a rank that does not share any, or in long runs"};
}

/* What p2p_leaves leaves to the MPI, or to host_leaves. */
static struct answer other_answer(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm)
{
    const struct layout *l = layout_of(datatype);
    if (dest == MPI_PROC_NULL || !count || !l->size) return (struct answer){STRIDEC_PATH_MPI, "nothing to send"};
    if (layout_bytes(l, count) < 0) return (struct answer){STRIDEC_PATH_MPI, "more bytes than there are"};
    if (!driver_get() || !locate(l, buf, count).device) return host_answer(buf, count, datatype, dest, comm);
    return (struct answer){STRIDEC_PATH_MPI, "the MPI takes device memory, and is given it as it is"};
}

static bool is_dest(MPI_Comm comm, int dest)
{
    int inter = 0, size = 0;
    PMPI_Comm_test_inter(comm, &inter);
    (inter ? PMPI_Comm_remote_size : PMPI_Comm_size)(comm, &size);
    return dest == MPI_PROC_NULL || (dest >= 0 && dest < size);
}

int extend_query(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                 enum stridec_path *path, char *why, size_t why_bytes)
{
    char text[TUNE_WHY_MAX];
    struct location w;
    if (!path || count < 0 || comm == MPI_COMM_NULL || !is_dest(comm, dest) || !layout_of(datatype))
        return STRIDEC_INVALID;
    struct layout *l =
        driver_get() && dest != MPI_PROC_NULL ? typed_buffer_wants(buf, count, datatype, comm, &w) : NULL;
    struct answer other = {STRIDEC_PATH_MPI, text};
    if (!l) other = other_answer(buf, count, datatype, dest, comm);
    *path = l ? path_of(l, w, buf, count, datatype, dest, comm) : other.path;
    if (l) explain(l, count, *path, text);
    if (why && why_bytes) snprintf(why, why_bytes, "%s", other.why);
    return STRIDEC_OK;
}
