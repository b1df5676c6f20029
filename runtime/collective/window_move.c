/* window_move.c: operations on stridec's own windows: arguments, Put and Get. One kernel reads the layout of one side
 * and writes that of the other, in the memory of both ranks. It is launched by the call, and waited for by what
 * synchronises. Calls with a request, and reads into memory that the device can't write, wait at once. */
#include "base/error.h"
#include "base/log.h"
#include "pack/host_scatter.h"
#include "window_internal.h"
#include <string.h>

/* ---- arguments ---- */

/* Reads the elements of an argument. Returns MPI_SUCCESS or an error class, and then *what. */
static int elements_of(MPI_Count count, MPI_Datatype type, struct layout **l, int64_t *bytes, const char **what)
{
    *what = "a one-sided call with a negative count, or with too many elements";
    *l = NULL, *bytes = 0;
    if (count < 0) return MPI_ERR_COUNT;
    if (type == MPI_DATATYPE_NULL) return *what = "a one-sided call without a datatype", MPI_ERR_TYPE;
    struct layout *found = layout_of(type);
    if (!found) return *what = "a one-sided call: out of memory", MPI_ERR_NO_MEM;
    if (!args_committed(found, type))
        return *what = "a one-sided call with a datatype that is not committed", MPI_ERR_TYPE;
    if (!count || !found->size) return MPI_SUCCESS;
    if ((*bytes = layout_bytes(found, count)) < 0) return MPI_ERR_COUNT;
    return *l = found, MPI_SUCCESS;
}

static bool may_access(const struct window *w, int rank)
{
    return w->fenced || w->target[rank].started || w->target[rank].hold;
}

/* Finds what the call means at the target. Returns MPI_SUCCESS or an error class, and then *what. */
static int there_of(const struct window *w, const struct window_op *op, struct window_there *out, const char **what)
{
    int64_t first, past, at;
    *out = (struct window_there){.rank = op->target, .type = op->type, .count = op->count};
    *what = "a one-sided call: no such rank";
    if (op->target < 0 || op->target >= w->ranks) return MPI_ERR_RANK;
    *what = "a one-sided call outside of an epoch for its target";
    if (!may_access(w, op->target)) return MPI_ERR_RMA_SYNC;
    int rc = elements_of(op->count, op->type, &out->layout, &out->bytes, what);
    if (rc != MPI_SUCCESS || !out->layout) return rc;
    *what = "a one-sided call with a datatype of the target that stridec can't read";
    if (!out->layout->tree) return MPI_ERR_TYPE;
    const struct window_target *t = &w->target[op->target];
    layout_span(out->layout, op->count, &first, &past);
    *what = "a one-sided call leaves the memory of its target";
    if (__builtin_mul_overflow((int64_t)op->disp, t->unit, &at) || __builtin_add_overflow(at, first, &first) ||
        __builtin_add_overflow(at, past, &past) || first < 0 || past > t->size)
        return op->disp < 0 ? MPI_ERR_DISP : MPI_ERR_RMA_RANGE;
    out->address = t->address + (uint64_t)at, out->across = t->across;
    return MPI_SUCCESS;
}

/* Finds where an operand lies. Returns MPI_SUCCESS or an error class, and then *what. */
static int side_of(const struct window *w, const struct arg *p, struct window_side *s, const char **what)
{
    *s = (struct window_side){.type = p->type, .buf = p->buf, .count = p->count};
    int rc = elements_of(p->count, p->type, &s->layout, &s->bytes, what);
    if (rc != MPI_SUCCESS || !s->layout) return rc;
    s->where = locate(s->layout, p->buf, p->count);
    s->direct = s->where.device == w->device && !s->where.parts && s->layout->tree;
    *what = "a one-sided call with a datatype that stridec can't read, in several memories";
    return s->where.parts && !s->layout->tree ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

/* ---- moves ---- */

int window_settle(struct window *w)
{
    int failed = 0;
    if (!w->n) return 0;
    if (device_enter(w->device)) return -1;
    for (int i = 0; i < w->n; i++) {
        failed |= stream_wait(w->device, w->move[i].stream);
        typed_copy_end(&w->move[i].batch);
        stream_put(w->device, w->move[i].stream);
        for (int k = 0; k < 2; k++) layout_unref(w->move[i].held[k]);
    }
    w->n = 0;
    device_leave(w->device);
    return failed ? -1 : 0;
}

struct window_move *window_begin(struct window *w)
{
    if (w->n == WINDOW_MOVES && window_settle(w)) return NULL;
    struct stream *s = stream_get(w->device);
    if (!s) return NULL;
    w->move[w->n] = (struct window_move){.stream = s};
    return &w->move[w->n++];
}

bool window_operand(struct window *w, struct window_move *m, struct window_side *s, struct typed_copy_side *out)
{
    if (s->direct) return *out = typed_buffer_side(s->layout, (uint64_t)(uintptr_t)s->buf, s->count), true;
    if (!s->packed) s->packed = typed_copy_keep(&m->batch, w->device, BUFFER_PINNED, (size_t)s->bytes);
    if (s->packed) *out = (struct typed_copy_side){.user = s->packed->address};
    return s->packed != NULL;
}

/* Packs or unpacks an operand on another device, or in several memories. Returns 0 or -1. */
static int by_transport(struct window_side *s, int64_t bytes, bool pack)
{
    struct typed_buffer *p;
    s->where.on_host = true;
    int rc = typed_buffer_open(&p, s->layout, s->where, s->buf, s->count, s->type, MPI_COMM_SELF);
    if (rc != MPI_SUCCESS) return -1;
    /* Bytes that do not come stay as they are, so all are packed first. */
    if (pack || bytes < s->bytes) rc = typed_buffer_pack(p, MPI_COMM_SELF);
    if (pack) memcpy(s->packed->host, p->address, (size_t)bytes);
    else memcpy(p->address, s->packed->host, (size_t)bytes);
    if (!pack && rc == MPI_SUCCESS) rc = typed_buffer_unpack(p, bytes, MPI_COMM_SELF);
    typed_buffer_close(p);
    return rc == MPI_SUCCESS ? 0 : -1;
}

int window_repack(struct window_side *s, int64_t bytes, bool pack)
{
    if (s->direct || !s->layout) return 0;
    if (s->where.device) return by_transport(s, bytes, pack);
    struct typed_buffer b = typed_buffer_on(s->layout, NULL, s->buf, s->count);
    b.datatype = s->type;
    return host_scatter_move(&b, s->packed->host, 0, bytes, pack) ? 0 : -1;
}

int window_copy(struct window *w, struct window_move *m, const struct typed_copy_job *job, int *launches)
{
    return typed_copy_move(&m->batch, w->device, m->stream, job, 1, launches);
}

/* Puts or gets. Returns 0 or -1. */
static int move(struct window *w, const struct window_there *t, struct window_side *s, bool put)
{
    struct window_move *m = window_begin(w);
    int64_t bytes = t->bytes < s->bytes ? t->bytes : s->bytes;
    struct typed_copy_side here, there = typed_buffer_side(t->layout, t->address, t->count);
    if (!m || !window_operand(w, m, s, &here) || (put && window_repack(s, bytes, true))) return -1;
    struct typed_copy_job job = {put ? here : there, put ? there : here, bytes, t->across || !s->direct};
    m->held[0] = layout_ref(s->layout), m->held[1] = layout_ref(t->layout);
    if (window_copy(w, m, &job, &s->launches)) return -1;
    if (put || s->direct) return 0;
    return stream_wait(w->device, m->stream) ? -1 : window_repack(s, bytes, false);
}

static int put_or_get(struct window *w, const struct window_op *op, const struct window_there *t,
                      struct window_side *s, const char **what)
{
    *what = "a one-sided call failed on the GPU";
    if (!t->layout || !s->layout) return MPI_SUCCESS;
    if (device_enter(w->device)) return MPI_ERR_OTHER;
    int rc = move(w, t, s, op->call == WINDOW_PUT);
    device_leave(w->device);
    return rc ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* ---- calls ---- */

/* Adds an operation to the statistics of the operand's datatype. */
static void count(const struct window_side *s)
{
    if (!s->layout) return;
    struct typed_buffer stats = typed_buffer_on(s->layout, s->where.device, s->buf, s->count);
    stats.launches = s->launches;
    typed_buffer_stats(&stats, "window", s->bytes, 0);
}

static int run(struct window *w, const struct window_op *op, const struct args_set *o, const char **what)
{
    struct window_side side[ARGS_MAX] = {{0}};
    struct window_there there;
    int rc = there_of(w, op, &there, what);
    bool reads_origin = op->op != MPI_NO_OP || op->call != WINDOW_GET_ACCUMULATE;
    for (int i = 0; i < o->n && rc == MPI_SUCCESS; i++)
        if (i > 0 || reads_origin) rc = side_of(w, &o->of[i], &side[i], what);
    if (rc != MPI_SUCCESS) return rc;
    rc = op->call <= WINDOW_GET ? put_or_get(w, op, &there, &side[0], what)
                                : window_accumulate(w, op, &there, side, what);
    for (int i = 0; i < o->n; i++) count(&side[i]);
    return rc;
}

/* Makes a request that is complete. */
static int complete_request(MPI_Request *request)
{
    return PMPI_Irecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, request);
}

bool window_take(const struct window_op *op, const struct args_set *o, int *rc)
{
    struct window *w = window_of(op->win);
    const char *what = NULL;
    if (!w) return false;
    *rc = MPI_SUCCESS;
    if (op->target != MPI_PROC_NULL) {
        pthread_mutex_lock(&w->lock);
        *rc = run(w, op, o, &what);
        if (*rc == MPI_SUCCESS && op->request && window_settle(w)) *rc = MPI_ERR_OTHER;
        pthread_mutex_unlock(&w->lock);
        if (op->request) window_progress();
    }
    if (*rc != MPI_SUCCESS) window_raise(w, *rc, what);
    else if (op->request) *rc = complete_request(op->request);
    return true;
}
