/* api_register.c: registers types, collective (FALCON-X, section 6.2): does the work of the first message ahead. */
#include "api.h"
#include "datatype/type_filter.h"
#include "hostpack/host_pack.h"
#include "kernel/kernel_internal.h"
#include "kernel/typed_copy.h"
#include "node/ipc_cache.h"
#include "node/ipc_export.h"
#include "node/peer_access.h"
#include "pack/typed_buffer.h"
#include <stdlib.h>

struct registration {
    MPI_Comm comm;
    int n, rank, ranks;
    struct layout **types;      /* this rank's; NULL: none */
    uint64_t *published;   /* n for each rank: results of ipc_export_layout */
    struct device *device;      /* of the messages; NULL: host memory, or unknown */
    bool host, wait;
};

/* Makes the type's kernel (and host code), and uploads the lists that it reads. */
static void make_kernel(const struct registration *r, struct layout *l)
{
    if (!l->kernel) return;
    if (r->device && device_enter(r->device) == 0) {
        kernel_ready(l->kernel, r->device);
        if (r->wait) kernel_await(l->kernel);
        if (l->kernel->form && form_has_lists(l->kernel->form)) launch_lists(l->kernel, r->device);
        device_leave(r->device);
    }
    if (r->host) host_pack_ready(l, r->wait);
}

/* Reads this rank's types and exports their layouts. */
static int read_types(struct registration *r, const MPI_Datatype types[])
{
    int result = STRIDEC_OK;
    for (int i = 0; i < r->n; i++) {
        struct layout *l = types[i] == MPI_DATATYPE_NULL ? NULL : layout_of(types[i]);
        if (!l || layout_committed(l, types[i], MPI_COMM_SELF) != MPI_SUCCESS) {
            result = STRIDEC_INVALID;
            continue;
        }
        if (!l->tree && result == STRIDEC_OK) result = STRIDEC_UNABLE;
        if (!l->tree || !l->size) continue;
        r->types[i] = l;
        if (r->host) filter_learn(types[i]);
        if (node_armed()) r->published[r->rank * r->n + i] = ipc_export_layout(l);
    }
    return result;
}

/* Prepares the typed copy from a peer's type to one of this rank's. */
static void prepare_copy(const struct registration *r, const struct ipc_cache_layout *from, const struct layout *to)
{
    int64_t bytes = from->tree->size < to->size ? from->tree->size : to->size;
    struct typed_copy_job job = {
        .from = {.tree = from->tree, .kernel = from->kernel, .count = 1, .extent = from->tree->size},
        .to = {.tree = to->tree, .kernel = to->kernel, .count = 1, .extent = to->extent},
        .bytes = bytes,
    };
    if (r->wait) typed_copy_wait(r->device, &job, 1);
    else typed_copy_prepare(r->device, &job, 1);
}

static void probe_peer(const struct registration *r, int rank)
{
    struct peer *p = node_armed() ? node_peer(r->comm, rank) : NULL;
    struct ipc_cache_layout l;
    if (!p) return;
    if (r->device) ipc_cache_probe(p, r->device);
    for (int i = 0; i < r->n; i++) {
        uint64_t at = r->published[rank * r->n + i];
        if (!at || rank == r->rank || !ipc_cache_layout(p, at, &l)) continue;
        if (r->device && r->types[i] && device_enter(r->device) == 0) {
            prepare_copy(r, &l, r->types[i]);
            device_leave(r->device);
        }
        ipc_cache_layout_put(&l);
    }
}

/* Asks the ranks of the node to probe this rank's host memory; they do so before the registration ends. */
static void probe_host(const struct registration *r)
{
    for (int i = 0; i < r->ranks && r->host; i++) {
        struct peer *p = i == r->rank ? NULL : node_peer(r->comm, i);
        if (p && !p->self) peer_access_reached(p);
    }
}

static bool alloc_arrays(struct registration *r)
{
    size_t all = (size_t)r->n * (size_t)r->ranks;
    r->types = calloc((size_t)r->n + 1, sizeof *r->types);
    r->published = calloc(all + 1, sizeof *r->published);
    int mine = r->types && r->published, least = 0;
    PMPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, r->comm);
    return least;
}

/* Exports one allocation for peers to probe; any allocation of the memory will do. */
static void export_memory(const struct registration *r, const void *memory)
{
    struct ipc_export e;
    if (r->device && node_armed() && device_enter(r->device) == 0) {
        ipc_export_of(r->device, (uint64_t)(uintptr_t)memory, 1, &e);
        device_leave(r->device);
    }
}

static int run(struct registration *r, const MPI_Datatype types[], const void *memory)
{
    if (!alloc_arrays(r)) return STRIDEC_FAILED;
    int result = read_types(r, types);
    export_memory(r, memory), probe_host(r);
    PMPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, r->published, r->n, MPI_UINT64_T, r->comm);
    for (int i = 0; i < r->ranks; i++) probe_peer(r, i);
    for (int i = 0; i < r->n; i++)
        if (r->types[i]) make_kernel(r, r->types[i]);
    peer_access_poll();   /* all ranks have asked */
    PMPI_Barrier(r->comm);   /* all ranks have probed */
    return result;
}

int api_register_types(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, bool wait)
{
    struct registration r = {.comm = comm, .n = n, .wait = wait};
    PMPI_Comm_rank(comm, &r.rank);
    PMPI_Comm_size(comm, &r.ranks);
    if (memory && driver_get()) r.device = device_of(memory);
    r.host = memory && !r.device;
    int result = run(&r, types, memory);
    free(r.types);
    free(r.published);
    return result;
}
