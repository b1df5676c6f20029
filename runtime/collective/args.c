/* args.c: which arguments of a call are bounced, and how. */
#include "args_internal.h"
#include "base/mpi_workarounds.h"
#include "base/log.h"
#include "base/reserve.h"
#include "datatype/byte_types.h"
#include "datatype/type_filter.h"
#include "exchange_reduce.h"
#include "node/ipc_cache.h"
#include "node/peer_access.h"
#include "protocol/persistent_send.h"
#include "protocol/protocol.h"
#include "protocol/rndv_recv.h"
#include <stdlib.h>
#include <string.h>

static void group_of(const struct args_set *o, struct group *g)
{
    int inter = 0, topology = MPI_UNDEFINED, flags = 0;
    *g = (struct group){.ranks = 1, .peers = 1};
    if (o->comm == MPI_COMM_NULL) return;
    PMPI_Comm_test_inter(o->comm, &inter);
    PMPI_Comm_rank(o->comm, &g->rank);
    PMPI_Comm_size(o->comm, &g->ranks);
    g->peers = g->ranks;
    if (inter) PMPI_Comm_remote_size(o->comm, &g->peers);
    g->root = inter ? o->root == MPI_ROOT : o->root == g->rank;
    g->leaf = inter ? o->root >= 0 : true;
    for (int i = 0; i < o->n; i++) flags |= o->of[i].flags;
    if (flags & ARG_NEIGHBORS) PMPI_Topo_test(o->comm, &topology);
    g->grid = topology == MPI_CART;
}

void args_degrees(MPI_Comm comm, int *in, int *out)
{
    int topology = MPI_UNDEFINED, dims = 0, weighted, rank;
    *in = *out = 0;
    PMPI_Topo_test(comm, &topology);
    if (topology == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, in, out, &weighted);
    } else if (topology == MPI_CART) {
        PMPI_Cartdim_get(comm, &dims);
        *in = *out = 2 * dims;
    } else if (topology == MPI_GRAPH) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, in);
        *out = *in;
    }
}

static int neighbors(MPI_Comm comm, bool in)
{
    int from, to;
    args_degrees(comm, &from, &to);
    return in ? from : to;
}

int args_list_length(const struct args_set *o, int n)
{
    int in, out;
    args_degrees(o->comm, &in, &out);
    int most = in > out ? in : out;
    return n > most ? n : most > 0 ? most : 1;
}

bool wide_counts(struct wide_counts *w, MPI_Comm comm, const int *to, const int *from)
{
    int n_to = 0, n_from = 0;
    if (comm != MPI_COMM_NULL) args_degrees(comm, &n_from, &n_to);
    w->to = malloc(((size_t)n_to + (size_t)n_from + 1) * sizeof *w->to);
    if (!w->to) return raise_error(comm, MPI_ERR_NO_MEM, "no memory for a call's counts"), false;
    w->from = w->to + n_to;
    for (int i = 0; i < n_to; i++) w->to[i] = to[i];
    for (int i = 0; i < n_from; i++) w->from[i] = from[i];
    return true;
}

/* Returns true if the i-th neighbor is MPI_PROC_NULL: its block stays as it is. */
static bool is_proc_null(const struct args_set *o, const struct arg *p, const struct group *g, int i)
{
    int before, after;
    if (!g->grid || !(p->flags & ARG_NEIGHBORS)) return false;
    PMPI_Cart_shift(o->comm, i / 2, 1, &before, &after);
    return (i % 2 ? after : before) == MPI_PROC_NULL;
}

static bool any_proc_null(const struct args_set *o, const struct arg *p, const struct group *g)
{
    bool any = false;
    for (int i = 0, n = g->grid && p->flags & ARG_NEIGHBORS ? neighbors(o->comm, true) : 0; i < n && !any; i++)
        any = is_proc_null(o, p, g, i);
    return any;
}

static bool significant(const struct arg *p, const struct group *g)
{
    if (p->flags & ARG_AT_ROOT) return g->root;
    if (p->flags & ARG_AT_LEAVES) return g->leaf;
    if (p->flags & ARG_BCAST) return g->root || g->leaf;
    return true;
}

/* Returns true if the MPI may leave a part of the output unwritten; that part must keep its content. */
static bool keeps_content(const struct args_set *o, const struct arg *p, const struct group *g)
{
    return ((o->how == ARGS_STAGED || o->file) && p->flags & ARG_PARTIAL) || (!args_lists(p) && any_proc_null(o, p, g));
}

/* Resolves at this rank what depends on root and MPI_IN_PLACE: direction and count. */
static void resolve_flags(struct args_set *o, const struct group *g)
{
    bool in_place = false;
    for (int i = 0; i < o->n; i++) in_place |= o->of[i].buf == MPI_IN_PLACE;
    for (int i = 0; i < o->n; i++) {
        struct arg *p = &o->of[i];
        if (p->flags & ARG_BCAST) p->flags &= g->root ? ~ARG_OUT : ~ARG_IN;
        if (p->flags & ARG_AFTER && g->rank == 0 && !in_place) p->flags &= ~ARG_OUT;   /* not significant there */
        if (p->flags & ARG_OUT && (in_place || keeps_content(o, p, g))) p->flags |= ARG_IN;
        if (p->flags & ARG_MINE && in_place) p->flags += (p->counts ? ARG_SUM : ARG_GROUP) - ARG_MINE;
    }
}

static int64_t listed(const void *list, bool wide, size_t each, int i)
{
    if (!wide) return ((const int *)list)[i];
    return each == sizeof(MPI_Count) ? (int64_t)((const MPI_Count *)list)[i] : (int64_t)((const MPI_Aint *)list)[i];
}

int64_t args_count(const struct arg *p, int i)
{
    return listed(p->counts, p->counts_wide, sizeof(MPI_Count), i);
}

int64_t args_displ(const struct arg *p, int i)
{
    return listed(p->displs, p->displs_wide, sizeof(MPI_Aint), i);
}

static int peer_count(const struct args_set *o, const struct arg *p, const struct group *g)
{
    if (p->flags & ARG_NEIGHBORS) return neighbors(o->comm, p->flags & ARG_OUT);
    return p->flags & ARG_GROUP ? g->ranks : p->flags & ARG_RANKS ? g->peers : 1;
}

/* Sets *count to the elements of an argument that is one piece. Returns false if the number overflows. */
static bool total_count(const struct args_set *o, const struct arg *p, const struct group *g, int64_t *count)
{
    if (p->flags & ARG_MINE && p->counts) {
        *count = args_count(p, g->rank);
        return true;
    }
    if (!(p->flags & ARG_SUM)) return !__builtin_mul_overflow((int64_t)p->count, peer_count(o, p, g), count);
    *count = 0;
    for (int i = 0; i < g->ranks; i++)
        if (__builtin_add_overflow(*count, args_count(p, i), count)) return false;
    return true;
}

int args_pieces(const struct args_set *o, const struct arg *p, const struct group *g)
{
    return args_lists(p) ? peer_count(o, p, g) : 1;
}

bool args_piece(const struct args_set *o, const struct arg *p, const struct group *g, int i, struct arg_piece *out)
{
    int64_t offset = 0;
    bool many = args_lists(p);
    *out = (struct arg_piece){.type = p->types ? p->types[i] : p->type};
    if (many) out->count = is_proc_null(o, p, g, i) ? 0 : args_count(p, i);
    else if (!total_count(o, p, g, &out->count)) return false;
    if (out->count <= 0 || out->type == MPI_DATATYPE_NULL || !(out->layout = layout_of(out->type))) return false;
    if (out->layout->size == 0 || (out->bytes = layout_bytes(out->layout, out->count)) < 0) return false;
    if (many && __builtin_mul_overflow(args_displ(p, i), p->types ? 1 : out->layout->extent, &offset)) return false;
    out->buf = (char *)p->buf + offset;
    return true;
}

/* Excludes files, reductions on one rank alone and accumulation. Open MPI's manual names neither one-sided calls,
 * files nor nonblocking collectives as CUDA-aware. */
bool args_device_aware(const struct args_set *o)
{
    bool excluded = o->file || (o->how == ARGS_STAGED && o->comm == MPI_COMM_NULL);
    return mpi_cuda_aware() && (ASYNC_IS_AWARE || !o->later) && !excluded;
}

/* Returns true if the MPI gets the program's own device buffers, also in nonblocking collectives that move data, as
 * without stridec: Open MPI 4.1 serves them, though its manual does not say so. */
static bool takes_own(const struct args_set *o)
{
    return args_device_aware(o) || (mpi_cuda_aware() && o->later && o->how == ARGS_PACKED);
}

/* Returns true for MPI_Reduce_scatter_block in place.
 * Workaround (Open MPI 4.1): it copies to the host only the part that comes back, not all that is reduced. */
static bool mpi_reads_part(const struct args_set *o, const struct arg *p)
{
    return o->how == ARGS_STAGED && p->flags & ARG_OUT && p->flags & ARG_GROUP;
}

/* Returns true for a reduction too short for kernels (exchange_reduce.h) on an MPI that makes it on the host: pinned
 * memory is quicker. OSU's Allreduce of 1 and 16 KiB, two H200s, Open MPI 4.1 with CUDA: 24 and 37 us, it alone 31 and
 * 65. */
static bool reduces_on_host(const struct args_set *o, const struct arg_piece *piece)
{
    return REDUCES_ON_HOST && o->how == ARGS_STAGED && piece->bytes < EXCHANGE_REDUCE_LEAST;
}

/* Notes that the MPI may open the memory in other processes (ipc_export_to_mpi); for a collective, closes freed
 * allocations first. */
static void export_to_mpi(const struct args_set *o, const struct arg_piece *piece, const struct location *w)
{
    if (!node_zerocopy() || (o->message && !o->sends)) return;
    ipc_export_to_mpi((const char *)piece->buf + piece->layout->low, &w->around);
    if (!o->message) ipc_cache_drop_gone();
}

/* Returns how the argument is passed. Except with MPI_BOTTOM, all pieces lie in one allocation: the first one
 * decides. `passes`: the call is about to pass to the MPI. */
static enum arg_way choose_way(const struct args_set *o, const struct arg *p, const struct group *g, bool passes)
{
    int n = args_pieces(o, p, g);
    bool device = false, told = false, takes = takes_own(o) && !mpi_reads_part(o, p);
    struct arg_piece piece;
    struct location w = {0};
    for (int i = 0; i < n; i++) {
        if (!args_piece(o, p, g, i, &piece)) continue;
        if (!device || p->buf == MPI_BOTTOM) {
            w = locate(piece.layout, piece.buf, piece.count);
            if (w.parts) return WAY_BOUNCE;
            device |= w.device != NULL;
            if (!device && p->buf != MPI_BOTTOM) return WAY_HOST;
        }
        bool takes_it = takes && !reduces_on_host(o, &piece);
        if (device && !(takes_it && typed_buffer_mpi_takes(piece.layout, piece.buf, piece.count, w))) return WAY_BOUNCE;
        if (device && passes && (!told || p->buf == MPI_BOTTOM)) export_to_mpi(o, &piece, &w), told = true;
    }
    return device ? WAY_PASS : WAY_HOST;
}

enum arg_way args_way(const struct args_set *o)
{
    struct args_set copy = *o;
    struct group g;
    enum arg_way most = WAY_HOST;
    group_of(&copy, &g);
    resolve_flags(&copy, &g);
    for (int i = 0; i < copy.n; i++) {
        const struct arg *p = &copy.of[i];
        bool used = p->buf != MPI_IN_PLACE && significant(p, &g);
        enum arg_way way = used ? choose_way(&copy, p, &g, false) : WAY_HOST;
        if (way > most) most = way;
    }
    return most;
}

static int open_receive(struct args_set *o, const bool bounced[])
{
    int rc = MPI_SUCCESS;
    if (o->receives) peer_access_poll();
    for (int i = 0; i < o->n && o->receives && rc == MPI_SUCCESS; i++) {
        const struct arg *p = &o->of[i];
        if (!(p->flags & ARG_PARTIAL)) continue;
        struct message m = {p->buf, p->count, p->type, o->source, .comm = o->comm};
        rc = rndv_recv_prepare(&o->recv_buffer, &m, bounced[i]);
        if (o->recv_buffer) rndv_recv_probe(&m);
    }
    return rc;
}

void args_as_is(struct arg *p)
{
    p->use = p->buf, p->use_displs = p->displs;
    p->use_count = p->count, p->use_counts = p->counts;
    p->use_type = p->type, p->use_types = p->types;
}

/* Makes a persistent send a rendezvous send, if possible: an RTS header is passed for each start. */
static bool open_persistent(struct args_set *o)
{
    struct arg *p = &o->of[0];
    struct message m = {p->buf, p->count, p->type, o->dest, o->comm,
                        .reuse = REUSE_LATER, .synchronous = o->synchronous};
    if (!o->sends || !(o->persist_send = send_plan(&m))) return false;
    args_as_is(p);
    p->use = (void *)(uintptr_t)persistent_send_rts(o->persist_send),
    p->use_count = persistent_send_rts_count(o->persist_send, &p->use_type);
    return true;
}

/* Returns true if other ranks write the argument; they may send packed bytes. */
static bool others_write(const struct args_set *o, const struct arg *p)
{
    return o->how == ARGS_PACKED && o->comm != MPI_COMM_NULL && p->flags & ARG_OUT;
}

bool args_byte_types(const struct args_set *o, struct arg *p, const struct group *g)
{
    if (!ELEMENTS_ARE_WHOLE || !others_write(o, p)) return false;
    struct arg_piece piece;
    int n = args_pieces(o, p, g);
    bool any = false;
    for (int i = 0; i < n; i++) {
        MPI_Datatype type = args_piece(o, p, g, i, &piece) ? type_to_receive(piece.type, o->comm) : MPI_DATATYPE_NULL;
        if (type == MPI_DATATYPE_NULL || type == piece.type) continue;
        any = true;
        if (!p->types) return p->use_type = type, true;
        if (!p->byte_types && !(p->byte_types = calloc((size_t)args_list_length(o, n), sizeof type))) return false;
        if (p->use_types != p->byte_types) p->use_types = memcpy(p->byte_types, p->types, (size_t)n * sizeof type);
        p->byte_types[i] = type;
    }
    return any;
}

static int pack_now(struct args_set *o)
{
    struct batch b = {0};
    args_pack(o, &b);
    return batch_wait(&b) ? -1 : args_packed(o);
}

/* Returns true if no message to a collective's argument can end within an element. */
static bool arrives_whole(const struct args_set *o, const struct arg *p, const struct group *g)
{
    int64_t all = 0, count = 0;
    if (!PARTS_ARE_WHOLE || !others_write(o, p) || group_alone(o, g)) return true;
    for (int i = 0, n = args_pieces(o, p, g); i < n; i++) {
        if (args_lists(p)) count = args_count(p, i);
        else if (!total_count(o, p, g, &count)) count = INT64_MAX;
        if (__builtin_add_overflow(all, count, &all)) all = INT64_MAX;   /* a message may carry several ranks' data */
        if (count && !filter_whole(p->types ? p->types[i] : p->type, p->types ? count : all)) return false;
    }
    return true;
}

/* Returns true if the argument can't be passed as it is; sets *bounced if it is to be bounced. Without a driver,
 * collectives are checked only for host packing and, if long, for elements that MPICH may cut. So most types are not
 * read at their first use. */
static bool needs_change(const struct args_set *o, struct arg *p, const struct group *g, bool *bounced)
{
    bool asks = o->message || driver_get();
    enum arg_way how = asks ? choose_way(o, p, g, true) : WAY_HOST;
    p->host_packed = how == WAY_HOST && args_host_packed(o, p, g);
    *bounced = how == WAY_BOUNCE || p->host_packed;
    return *bounced || ((asks || !arrives_whole(o, p, g)) && args_byte_types(o, p, g));
}

int args_open(struct args_set *o)
{
    if (open_persistent(o)) return MPI_SUCCESS;
    struct group g;
    bool any = false, need[ARGS_MAX] = {false};
    group_of(o, &g);
    resolve_flags(o, &g);
    for (int i = 0; i < o->n; i++) {
        struct arg *p = &o->of[i];
        args_as_is(p);
        bool used = p->buf != MPI_IN_PLACE && significant(p, &g);
        if (used && needs_change(o, p, &g, &need[i])) any = true;
    }
    if (any && o->file && !file_is_native(o->fh)) o->how = ARGS_STAGED;
    int rc = open_receive(o, need);
    if (rc == MPI_SUCCESS && !o->recv_buffer && !any) return ARGS_NONE;
    if (rc == MPI_SUCCESS && reserve_low())
        rc = args_raise(o, MPI_ERR_NO_MEM, "no memory for the record of a call");
    for (int i = 0; i < o->n && rc == MPI_SUCCESS; i++)
        if (need[i]) rc = args_bounce(o, &o->of[i], &g);
    bool packs = rc == MPI_SUCCESS && !o->sends;   /* a persistent send packs at each start */
    if (packs && pack_now(o)) rc = args_raise(o, MPI_ERR_OTHER, "packing on the GPU failed");
    if (rc != MPI_SUCCESS) args_free(o);
    return rc;
}

bool args_partial(const void *set)
{
    const struct args_set *o = set;
    for (int i = 0; i < o->n; i++)
        if (o->of[i].flags & ARG_PARTIAL && o->of[i].bounced) return true;
    return o->recv_buffer != NULL;
}

struct typed_buffer *args_recv_buffer(const void *set, const void **packed)
{
    const struct args_set *o = set;
    *packed = NULL;
    for (int i = 0; i < o->n; i++) {
        const struct arg *p = &o->of[i];
        if (!(p->flags & ARG_PARTIAL) || !p->bounced) continue;
        *packed = p->use;
        return o->recv_buffer && !p->host_packed ? &p->bounced->piece[0].tbuf : o->recv_buffer;
    }
    return o->recv_buffer;
}

int args_close(struct args_set *o, int rc, const MPI_Status *status)
{
    struct batch b = {0};
    if (rc == MPI_SUCCESS) {
        int failed = args_unpack(o, &b, status && args_partial(o) ? mpi_bytes_received(status) : INT64_MAX);
        if (batch_wait(&b) || failed) rc = args_raise(o, MPI_ERR_OTHER, "unpacking on the GPU failed");
    }
    args_free(o);
    record_poll();
    return rc;
}
