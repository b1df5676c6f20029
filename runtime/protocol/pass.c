/* pass.c: the protocol `pass`: the MPI gets the call unchanged. */
#include "base/env.h"
#include "datatype/type_filter.h"
#include "host_select.h"
#include "node/ipc_export.h"
#include "placement.h"
#include "protocol.h"
#include <stdio.h>

static bool probe_device(const struct message *m)
{
    return typed_buffer_mpi_takes(m->layout, m->buf, m->count, m->where);
}

/* Leaves the first messages to a peer to `eager`, which packs them (placement_packs). */
static bool start_device(struct send_op *op, const struct message *m, int *rc)
{
    (void)op, (void)rc;
    if (!probe_device(m)) return false;
    if (m->reuse != REUSE_BUFFERED && placement_packs(m)) return false;
    if (env_get()->stats)
        stats_add_passed(m->layout->stats, "contiguous data in device memory, which the MPI takes as it is",
                         layout_bytes(m->layout, m->count));
    if (node_zerocopy() && m->near)
        ipc_export_to_mpi((const char *)m->buf + m->layout->low, &m->where.around);
    return true;
}

static const char *explain_device(const struct message *m, char why[TUNE_WHY_MAX])
{
    (void)m;
    snprintf(why, TUNE_WHY_MAX, "the MPI takes device memory, and is given it as it is");
    return "mpi";
}

static bool start_host(struct send_op *op, const struct message *m, int *rc)
{
    (void)op, (void)rc;
    if (m->layout) host_count_passed(m);
    return true;
}

static const char *host_reason(const struct message *m)
{
    const struct layout *l = layout_of(m->type);
    if (!m->count || !l->size) return "nothing to send";
    if (layout_bytes(l, m->count) < 0) return "more bytes than there are";
    if (layout_contiguous(l, m->count)) return "host memory, in one piece";
    if (atomic_load_explicit(&filter_least, memory_order_relaxed) == INT64_MAX)
        return "host memory, which is the MPI's here: STRIDEC_HOST, or no file for the node";
    if (!filter_used(m->type)) return "host memory, of a type that was not sent before";
    if (!m->layout) return "host memory, which the MPI sends as quickly";
    return "host memory, to a rank that does not share any, or in long runs";
}

static const char *explain_host(const struct message *m, char why[TUNE_WHY_MAX])
{
    snprintf(why, TUNE_WHY_MAX, "%s", host_reason(m));
    return "mpi";
}

const struct protocol protocol_pass_device = {"pass", probe_device, start_device, NULL, NULL, NULL, explain_device};
const struct protocol protocol_pass_host = {"pass", NULL, start_host, NULL, NULL, NULL, explain_host};
