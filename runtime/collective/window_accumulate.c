/* window_accumulate.c: accumulates on stridec's own windows.
 *
 * A mutex of the target makes an operation atomic: the rank that holds it runs kernels on the target's memory and waits
 * for them. A kernel combines elements where they lie, if both sides have them one after another; else in copies on the
 * device. The host combines copies of what no kernel does (reduction.h), or not yet, under the same mutex. */
#include "base/backoff.h"
#include "reduction.h"
#include "window_internal.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FAILED "an accumulate on a window failed on the GPU"

static void mutex_take(struct window *w, int rank)
{
    _Atomic uint32_t *mutex = &w->shared->rank[rank].mutex;
    for (unsigned spins = 1; atomic_exchange_explicit(mutex, 1, memory_order_acquire); spins++) backoff(spins);
}

static void mutex_give(struct window *w, int rank)
{
    atomic_store_explicit(&w->shared->rank[rank].mutex, 0, memory_order_release);
}

/* ---- elements ---- */

/* An accumulate under way. */
struct work {
    struct window *w;
    const struct window_there *there;
    struct window_move *move;
    struct window_side *origin;
    MPI_Datatype type;          /* of an element: a named type */
    struct layout *element;
    int64_t n, bytes;           /* elements, and their packed bytes */
};

/* Returns the named type of all elements of a type; MPI_DATATYPE_NULL without memory. Layouts of pairs with gaps tell
 * no `basic`: the first type named by the constructor tells it; types of no bytes are passed over. */
static MPI_Datatype element_type(MPI_Datatype type, const struct layout *l)
{
    int n[3], combiner;
    if (!l->named && l->basic != MPI_DATATYPE_NULL) return l->basic;
    if (PMPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner) != MPI_SUCCESS) return MPI_DATATYPE_NULL;
    if (combiner == MPI_COMBINER_NAMED || n[2] == 0) return type;
    int *integers = malloc(((size_t)n[0] + 1) * sizeof *integers);
    MPI_Aint *addresses = malloc(((size_t)n[1] + 1) * sizeof *addresses);
    MPI_Datatype *types = malloc((size_t)n[2] * sizeof *types), found = MPI_DATATYPE_NULL;
    bool got = integers && addresses && types &&
               PMPI_Type_get_contents(type, n[0], n[1], n[2], integers, addresses, types) == MPI_SUCCESS;
    bool is_struct = combiner == MPI_COMBINER_STRUCT;
    for (int i = 0; got && i < n[2]; i++) {
        bool none = found != MPI_DATATYPE_NULL || (is_struct && !integers[1 + i]);
        struct layout *part = none ? NULL : layout_of(types[i]);
        if (part && part->size > 0) found = element_type(types[i], part);
        if (PMPI_Type_get_envelope(types[i], &n[0], &n[1], &(int){0}, &combiner) == MPI_SUCCESS &&
            combiner != MPI_COMBINER_NAMED)
            PMPI_Type_free(&types[i]);
    }
    free(integers), free(addresses), free(types);
    return found;
}

/* Returns true if the elements of a layout lie one after another at `address`, for a kernel of such a type. */
static bool in_place(const struct work *k, const struct layout *l, int64_t count, uint64_t address, int alignment)
{
    bool plain = k->element->size == k->element->extent && layout_contiguous(l, count);
    return (l == k->element || plain) && (address + (uint64_t)l->tree->off) % (uint64_t)alignment == 0;
}

static struct pool_buffer *copy_memory(const struct work *k, enum buffer_kind kind)
{
    int64_t bytes;
    if (__builtin_mul_overflow(k->n, k->element->extent, &bytes)) return NULL;
    return typed_copy_keep(&k->move->batch, k->w->device, kind, (size_t)bytes);
}

static int copy(const struct work *k, struct typed_copy_side from, struct typed_copy_side to)
{
    struct typed_copy_job job = {from, to, k->bytes, k->there->across};
    return window_copy(k->w, k->move, &job, &k->origin->launches);
}

static struct typed_copy_side there(const struct work *k)
{
    return typed_buffer_side(k->there->layout, k->there->address, k->there->count);
}

static struct typed_copy_side elements(const struct work *k, uint64_t address)
{
    return typed_buffer_side(k->element, address, k->n);
}

/* ---- operations ---- */

/* Combines by a kernel, which is ready. Returns 0 or -1. */
static int by_kernel(const struct work *k, const struct reduction *r)
{
    const struct window_there *t = k->there;
    struct window_side *o = k->origin;
    int alignment = reduce_alignment(r->type);
    struct typed_copy_side from;
    uint64_t to = t->address + (uint64_t)t->layout->tree->off, by = (uint64_t)(uintptr_t)o->buf;
    struct pool_buffer *b = NULL;
    bool stays = in_place(k, t->layout, t->count, t->address, alignment);
    if (!stays && (!(b = copy_memory(k, BUFFER_DEVICE)) || copy(k, there(k), elements(k, b->address)))) return -1;
    if (b) to = b->address;
    if (!window_operand(k->w, k->move, o, &from)) return -1;
    if (o->direct && in_place(k, o->layout, o->count, by, alignment)) {
        by += (uint64_t)o->layout->tree->off;
    } else {
        if (!(b = copy_memory(k, BUFFER_DEVICE)) || copy(k, from, elements(k, b->address))) return -1;
        by = b->address;
    }
    struct reduce_job job = {.type = r->type, .op = r->op, .from = to, .to = to, .step = (int64_t)(by - to), .rows = 2,
                             .count = k->n};
    if (reduce_move(k->w->device, k->move->stream, &job, &o->launches)) return -1;
    return stays ? 0 : copy(k, elements(k, to), there(k));
}

/* Combines copies on the host. Returns MPI_SUCCESS or an error class. */
static int by_host(const struct work *k, MPI_Op op)
{
    struct pool_buffer *to = copy_memory(k, BUFFER_PINNED), *by = copy_memory(k, BUFFER_PINNED);
    struct typed_copy_side from;
    int rc = MPI_SUCCESS;
    if (!to || !by || !window_operand(k->w, k->move, k->origin, &from)) return MPI_ERR_NO_MEM;
    if (copy(k, there(k), elements(k, to->address)) || copy(k, from, elements(k, by->address)) ||
        stream_wait(k->w->device, k->move->stream))
        return MPI_ERR_OTHER;
    for (int64_t at = 0, some; at < k->n && rc == MPI_SUCCESS; at += some) {
        some = k->n - at < INT_MAX ? k->n - at : INT_MAX;
        char *target = (char *)to->host + at * k->element->extent, *more = (char *)by->host + at * k->element->extent;
        rc = PMPI_Reduce_local(more, target, (int)some, k->type, op);
    }
    return rc != MPI_SUCCESS || copy(k, elements(k, to->address), there(k)) ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int combine(const struct work *k, MPI_Op op)
{
    struct reduction r;
    struct typed_copy_side from;
    if (op == MPI_NO_OP || !k->origin->layout) return MPI_SUCCESS;
    if (op == MPI_REPLACE)
        return window_operand(k->w, k->move, k->origin, &from) && !copy(k, from, there(k)) ? MPI_SUCCESS
                                                                                           : MPI_ERR_OTHER;
    if (reduction_of(op, k->type, &r) && reduce_ready(r.type, k->w->device))
        return by_kernel(k, &r) ? MPI_ERR_OTHER : MPI_SUCCESS;
    return by_host(k, op);
}

/* Brings what is in the window to an operand. Returns 0 or -1. */
static int fetch(const struct work *k, struct window_side *result)
{
    struct typed_copy_side to;
    if (!window_operand(k->w, k->move, result, &to)) return -1;
    struct typed_copy_job job = {there(k), to, k->bytes < result->bytes ? k->bytes : result->bytes, true};
    return window_copy(k->w, k->move, &job, &result->launches);
}

/* Does an accumulate while nobody else changes the target. */
static int accumulate(const struct work *k, MPI_Op op, struct window_side *result)
{
    mutex_take(k->w, k->there->rank);
    int rc = result && fetch(k, result) ? MPI_ERR_OTHER : combine(k, op);
    if (stream_wait(k->w->device, k->move->stream)) rc = MPI_ERR_OTHER;
    mutex_give(k->w, k->there->rank);
    return rc;
}

/* Returns an operand's packed bytes in host memory, which the caller has allocated; 0 or -1. */
static int read_side(const struct work *k, struct window_side *s, void *to)
{
    struct pool_buffer *b = typed_copy_keep(&k->move->batch, k->w->device, BUFFER_PINNED, (size_t)k->bytes);
    struct typed_copy_side from;
    if (!b || !window_operand(k->w, k->move, s, &from) || window_repack(s, k->bytes, true)) return -1;
    if (copy(k, from, (struct typed_copy_side){.user = b->address}) || stream_wait(k->w->device, k->move->stream))
        return -1;
    memcpy(to, b->host, (size_t)k->bytes);
    return 0;
}

/* Swaps if what is there is what is compared with. Returns 0 or -1. */
static int compare_and_swap(const struct work *k, struct window_side side[3])
{
    char compare[64], found[64];
    struct typed_copy_side from;
    struct pool_buffer *b = typed_copy_keep(&k->move->batch, k->w->device, BUFFER_PINNED, (size_t)k->bytes);
    if (!b || k->bytes > (int64_t)sizeof found || read_side(k, &side[1], compare)) return -1;
    if (!window_operand(k->w, k->move, &side[0], &from) || window_repack(&side[0], k->bytes, true)) return -1;
    mutex_take(k->w, k->there->rank);
    int rc = fetch(k, &side[2]) || copy(k, there(k), (struct typed_copy_side){.user = b->address}) ||
             stream_wait(k->w->device, k->move->stream);
    if (!rc) memcpy(found, b->host, (size_t)k->bytes);
    if (!rc && !memcmp(found, compare, (size_t)k->bytes)) rc = copy(k, from, there(k));
    if (stream_wait(k->w->device, k->move->stream)) rc = -1;
    mutex_give(k->w, k->there->rank);
    return rc ? -1 : 0;
}

/* Does the call on the entered device. */
static int run(struct work *k, const struct window_op *op, struct window_side side[ARGS_MAX])
{
    bool swaps = op->call == WINDOW_COMPARE_AND_SWAP;
    struct window_side *result = swaps ? &side[2] : op->call == WINDOW_GET_ACCUMULATE ? &side[1] : NULL;
    struct typed_copy_side unused;
    if (result && !result->layout) result = NULL;
    if (!(k->move = window_begin(k->w))) return MPI_ERR_OTHER;
    if (swaps) {
        if (compare_and_swap(k, side)) return MPI_ERR_OTHER;
    } else {
        if (side[0].layout && (!window_operand(k->w, k->move, &side[0], &unused) ||
                               window_repack(&side[0], side[0].bytes < k->bytes ? side[0].bytes : k->bytes, true)))
            return MPI_ERR_OTHER;
        int rc = accumulate(k, op->op, result);
        if (rc != MPI_SUCCESS) return rc;
    }
    int64_t come = result && result->bytes < k->bytes ? result->bytes : k->bytes;
    return result && window_repack(result, come, false) ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int window_accumulate(struct window *w, const struct window_op *op, const struct window_there *there,
                      struct window_side side[ARGS_MAX], const char **what)
{
    struct work k = {.w = w, .there = there, .origin = &side[0], .bytes = there->bytes};
    *what = "an accumulate on a type whose elements differ";
    if (!there->layout) return MPI_SUCCESS;
    if (side[0].layout && side[0].bytes < k.bytes) k.bytes = side[0].bytes;
    k.type = element_type(there->type, there->layout);
    k.element = layout_of(k.type);
    if (!k.element || !k.element->tree || !k.element->size) return MPI_ERR_TYPE;
    k.n = k.bytes / k.element->size, k.bytes = k.n * k.element->size;
    *what = FAILED;
    if (device_enter(w->device)) return MPI_ERR_OTHER;
    int rc = run(&k, op, side);
    device_leave(w->device);
    return rc;
}
