/* api_register.c: collective registration of types (FALCON-X, section 6.2): what the first message would do on its way
 * is done ahead. */
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
    struct layout **types;      /* the own ones; NULL: none */
    uint64_t *published;   /* n for each rank: ipc_export_layout's answer */
    struct device *device;      /* where messages will lie; NULL: on the host, or not told */
    bool host, wait;
};

/* The kernel that packs a type of its own, and what that reads of it. */
static void make_kernel(const struct registration *r, struct layout *l)
{
    if (!l->kernel) return;
    if (r->device && device_enter(r->device) == 0) {
        kernel_ready(l->kernel, r->device);
        if (r->wait) kernel_wait(l->kernel);
        if (l->kernel->form && form_has_lists(l->kernel->form)) launch_lists(l->kernel, r->device);
        device_leave(r->device);
    }
    if (r->host) host_pack_ready(l, r->wait);
}

/* This rank's part before the others are asked. */
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
        if (r->host) pack_filter_learn(types[i]), filter_learn(types[i]);
        if (node_armed()) r->published[r->rank * r->n + i] = ipc_export_layout(l);
    }
    return result;
}

/* A message of a peer's type into one of this rank's. */
static void prepare_link(const struct registration *r, const struct ipc_cache_layout *from, const struct layout *to)
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

static void meet(const struct registration *r, int rank)
{
    struct peer *p = node_armed() ? node_peer(r->comm, rank) : NULL;
    struct ipc_cache_layout l;
    if (!p) return;
    if (r->device) ipc_cache_try(p, r->device);
    for (int i = 0; i < r->n; i++) {
        uint64_t at = r->published[rank * r->n + i];
        if (!at || rank == r->rank || !ipc_cache_layout(p, at, &l)) continue;
        if (r->device && r->types[i] && device_enter(r->device) == 0) {
            prepare_link(r, &l, r->types[i]);
            device_leave(r->device);
        }
        ipc_cache_layout_put(&l);
    }
}

/* Asks the ranks of the node to try whether they reach this one's host memory; they do so before the registration
 * ends. */
static void show_host(const struct registration *r)
{
    for (int i = 0; i < r->ranks && r->host; i++) {
        struct peer *p = i == r->rank ? NULL : node_peer(r->comm, i);
        if (p && !p->self) peer_access_reached(p);
    }
}

static bool make_room(struct registration *r)
{
    size_t all = (size_t)r->n * (size_t)r->ranks;
    r->types = calloc((size_t)r->n + 1, sizeof *r->types);
    r->published = calloc(all + 1, sizeof *r->published);
    int mine = r->types && r->published, least = 0;
    PMPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, r->comm);
    return least;
}

/* What peers are to try: the memory's own allocation is as good as any. */
static void show_memory(const struct registration *r, const void *memory)
{
    struct ipc_export e;
    if (r->device && node_armed() && device_enter(r->device) == 0) {
        ipc_export_of(r->device, (uint64_t)(uintptr_t)memory, 1, &e);
        device_leave(r->device);
    }
}

static int run(struct registration *r, const MPI_Datatype types[], const void *memory)
{
    if (!make_room(r)) return STRIDEC_FAILED;
    int result = read_types(r, types);
    show_memory(r, memory), show_host(r);
    PMPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, r->published, r->n, MPI_UINT64_T, r->comm);
    for (int i = 0; i < r->ranks; i++) meet(r, i);
    for (int i = 0; i < r->n; i++)
        if (r->types[i]) make_kernel(r, r->types[i]);
    peer_access_poll();   /* all have asked */
    PMPI_Barrier(r->comm);   /* all have tried what there is to try */
    return result;
}

int extend_register(MPI_Comm comm, int n, const MPI_Datatype types[], const void *memory, bool wait)
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
