/* copy_engine.c: moves a job by the copy engine alone.
 *
 * Runs come in pack order. Equal ones at an even pitch are gathered into rows of one two-dimensional copy, equal
 * planes of them at an even slice pitch into one three-dimensional copy, whatever nodes of the tree they come from.
 * Strides are taken as they are, without going through their runs. Runs in a copy never overlap each other, so that
 * order matters only between copies, which the stream keeps.
 *
 * What the driver makes of a copy is its own affair: on an H200 (driver 580) one between the GPU and the host runs
 * on a copy engine and costs a computation that fills the GPU nothing; one within the GPU runs on multiprocessors,
 * whether it is asked for by cuMemcpyAsync, 2D, 3D, 3DPeer or by a batch that prefers to overlap with computations. */
#include "kernel_internal.h"
#include "base/log.h"

/* On the user's side, planes `slice` apart of rows `pitch` apart; on the packed side all touch. Offsets from the job's
 * addresses. A pitch of one row and a slice of one plane mean nothing. */
struct box {
    int64_t user, packed, len, rows, pitch, planes, slice;
};

struct copier {
    const struct driver *driver;
    struct device *device;
    struct stream *stream;
    const struct kernel_job *job;
    int64_t pitch_max;
    struct box box, plane; /* open ones, the box before the plane; rows is 0 where none is */
    int64_t copies, many;  /* counting only: stops past `many`; many is -1 when copying */
};

/*
 * Copying.
 */

static CUresult copy_run(struct copier *c, const struct box *b, CUdeviceptr user, CUdeviceptr packed)
{
    bool pack = c->job->direction == KERNEL_PACK;
    return c->driver->cuMemcpyAsync(pack ? packed : user, pack ? user : packed, (size_t)b->len, stream_use(c->stream));
}

static CUresult copy_rows(struct copier *c, const struct box *b, CUdeviceptr user, CUdeviceptr packed)
{
    if (b->rows == 1) return copy_run(c, b, user, packed);
    bool pack = c->job->direction == KERNEL_PACK;
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = pack ? user : packed,
        .srcPitch = (size_t)(pack ? b->pitch : b->len),
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = pack ? packed : user,
        .dstPitch = (size_t)(pack ? b->len : b->pitch),
        .WidthInBytes = (size_t)b->len,
        .Height = (size_t)b->rows,
    };
    CUresult r = c->driver->cuMemcpy2DAsync(&copy, stream_use(c->stream));
    if (r != CUDA_ERROR_INVALID_VALUE) return r;
    /* Some drivers take fewer pitches than they say: then row by row. */
    r = CUDA_SUCCESS;
    for (int64_t i = 0; i < b->rows && r == CUDA_SUCCESS; i++)
        r = copy_run(c, b, user + (uint64_t)(i * b->pitch), packed + (uint64_t)(i * b->len));
    return r;
}

/* The driver takes a slice in rows of the pitch. */
static CUresult copy_planes(struct copier *c, const struct box *b, CUdeviceptr user, CUdeviceptr packed)
{
    if (b->planes == 1) return copy_rows(c, b, user, packed);
    bool pack = c->job->direction == KERNEL_PACK;
    size_t apart = (size_t)(b->slice / b->pitch);
    CUDA_MEMCPY3D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = pack ? user : packed,
        .srcPitch = (size_t)(pack ? b->pitch : b->len),
        .srcHeight = pack ? apart : (size_t)b->rows,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = pack ? packed : user,
        .dstPitch = (size_t)(pack ? b->len : b->pitch),
        .dstHeight = pack ? (size_t)b->rows : apart,
        .WidthInBytes = (size_t)b->len,
        .Height = (size_t)b->rows,
        .Depth = (size_t)b->planes,
    };
    CUresult r = c->driver->cuMemcpy3DAsync(&copy, stream_use(c->stream));
    if (r != CUDA_ERROR_INVALID_VALUE) return r;
    r = CUDA_SUCCESS;
    for (int64_t i = 0; i < b->planes && r == CUDA_SUCCESS; i++)
        r = copy_rows(c, b, user + (uint64_t)(i * b->slice), packed + (uint64_t)(i * b->rows * b->len));
    return r;
}

static int flush_box(struct copier *c)
{
    struct box b = c->box;
    c->box.rows = 0;
    if (!b.rows) return 0;
    c->copies++;
    if (c->many >= 0) return c->copies > c->many;
    CUresult r = copy_planes(c, &b, c->job->user + (uint64_t)b.user, c->job->packed + (uint64_t)b.packed);
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r))
        log_write(LOG_ERROR, "a copy on device %d was refused: %s", c->device->ordinal, driver_error(r));
    return -1;
}

/*
 * Gathering.
 */

/* True if n things *step apart, and m more `next` apart that begin `gap` after the first, are n + m at one step, which
 * *step then is. */
static bool goes_on(int64_t n, int64_t *step, int64_t m, int64_t next, int64_t gap)
{
    int64_t even = n > 1 ? *step : m > 1 ? next : gap, reach;
    if ((m > 1 && next != even) || __builtin_mul_overflow(n, even, &reach) || reach != gap) return false;
    *step = even;
    return true;
}

static bool pitch_fits(const struct copier *c, int64_t len, int64_t pitch)
{
    return pitch >= len && pitch <= c->pitch_max;
}

static bool slice_fits(int64_t rows, int64_t pitch, int64_t slice)
{
    return rows > 1 && slice > 0 && slice % pitch == 0 && slice / pitch >= rows;
}

/* True if the rows continue the open plane; then they have become part of it. */
static bool add_rows(struct copier *c, const struct box *more)
{
    struct box *b = &c->plane;
    int64_t pitch = b->pitch, gap;
    if (!b->rows || more->len != b->len || more->packed != b->packed + b->rows * b->len) return false;
    if (__builtin_sub_overflow(more->user, b->user, &gap)) return false;
    if (!goes_on(b->rows, &pitch, more->rows, more->pitch, gap) || !pitch_fits(c, b->len, pitch)) return false;
    b->pitch = pitch, b->rows += more->rows;
    return true;
}

/* The same for planes and the open box. */
static bool add_planes(struct copier *c, const struct box *more)
{
    struct box *b = &c->box;
    int64_t slice = b->slice, gap;
    if (!b->rows || more->len != b->len || more->rows != b->rows || more->pitch != b->pitch) return false;
    if (more->packed != b->packed + b->planes * b->rows * b->len) return false;
    if (__builtin_sub_overflow(more->user, b->user, &gap)) return false;
    if (!goes_on(b->planes, &slice, more->planes, more->slice, gap) || !slice_fits(b->rows, b->pitch, slice))
        return false;
    b->slice = slice, b->planes += more->planes;
    return true;
}

static int take_planes(struct copier *c, const struct box *more)
{
    if (!more->rows || add_planes(c, more)) return 0;
    int result = flush_box(c);
    c->box = *more;
    return result;
}

static int close_plane(struct copier *c)
{
    struct box plane = c->plane;
    c->plane.rows = 0;
    return take_planes(c, &plane);
}

static int take(struct copier *c, const struct box *b)
{
    if (b->planes == 1 && add_rows(c, b)) return 0;
    int result = close_plane(c);
    if (result) return result;
    if (b->planes > 1) return take_planes(c, b);
    c->plane = *b;
    return 0;
}

static int take_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct copier *c = arg;
    return take(c, &(struct box){user, packed - c->job->begin, len, 1, 0, 1, 0});
}

/*
 * Going through the job.
 */

static int64_t after(int64_t user, int64_t n, int64_t step)
{
    return (int64_t)((uint64_t)user + (uint64_t)n * (uint64_t)step);
}

static int visit(struct copier *c, const struct tree *t, int64_t user, int64_t packed);

/* n copies of t, `step` apart, as one box. False where they are none. */
static bool box_of(const struct copier *c, const struct tree *t, int64_t n, int64_t step, struct box *b)
{
    const struct tree *row = t->kind == TREE_STRIDE ? t->child : t;
    if (row->kind != TREE_DENSE) return false;
    *b = (struct box){.user = t->off, .len = row->size, .rows = n, .pitch = step, .planes = 1};
    if (row == t) return n == 1 || pitch_fits(c, b->len, step);
    b->user += row->off;
    b->rows = t->count, b->pitch = t->step, b->planes = n, b->slice = step;
    return t->count > 1 && pitch_fits(c, b->len, t->step) && (n == 1 || slice_fits(t->count, t->step, step));
}

static int visit_copies(struct copier *c, const struct tree *t, int64_t n, int64_t step, int64_t user, int64_t packed)
{
    struct box b;
    int result = 0;
    if (n > 0 && box_of(c, t, n, step, &b)) {
        b.user += user, b.packed = packed;
        return take(c, &b);
    }
    for (int64_t i = 0; i < n && !result; i++) result = visit(c, t, after(user, i, step), packed + i * t->size);
    return result;
}

/* All of t. `user` is where its offset is not added yet. */
static int visit(struct copier *c, const struct tree *t, int64_t user, int64_t packed)
{
    int result = 0;
    if (t->kind == TREE_DENSE) return visit_copies(c, t, 1, 0, user, packed);
    user += t->off;
    if (t->kind == TREE_STRIDE) return visit_copies(c, t->child, t->count, t->step, user, packed);
    for (int64_t i = 0; i < t->count && !result; i++) {
        const struct tree *part = t->kind == TREE_SEQ ? t->part[i] : t->child;
        result = visit(c, part, t->kind == TREE_SEQ ? user : user + t->at[i], packed);
        packed += part->size;
    }
    return result;
}

/* The job: the end of an element, whole ones, the beginning of one. */
static int walk(struct copier *c, const struct kernel *k)
{
    const struct kernel_job *job = c->job;
    int64_t size = k->size, first = job->begin > 0, past = job->end / size;
    int64_t head = first && job->end > size ? size : job->end, tail = past * size;
    int result = 0;
    if (first) result = tree_walk(k->tree, job->count, job->extent, job->begin, head, take_run, c);
    if (!result && past > first)
        result = visit_copies(c, k->tree, past - first, job->extent, after(0, first, job->extent),
                              first * size - job->begin);
    if (!result && past >= first && tail < job->end)
        result = tree_walk(k->tree, job->count, job->extent, tail, job->end, take_run, c);
    if (!result) result = close_plane(c);
    return result ? result : flush_box(c);
}

static int64_t pitch_max(const struct driver *driver, struct device *d)
{
    int limit = 0;
    if (driver->cuDeviceGetAttribute(&limit, CU_DEVICE_ATTRIBUTE_MAX_PITCH, d->ordinal) != CUDA_SUCCESS) return 0;
    return limit;
}

static struct copier copier_on(struct device *d, struct stream *s, const struct kernel_job *job, int64_t many)
{
    const struct driver *driver = driver_get();
    return (struct copier){.driver = driver, .device = d, .stream = s, .job = job, .pitch_max = pitch_max(driver, d),
                           .many = many};
}

int copy_engine_move(const struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                     int *launches)
{
    struct copier c = copier_on(d, s, job, -1);
    int result = walk(&c, k);
    *launches += (int)c.copies;
    return result;
}

bool copy_engine_exceed(const struct kernel *k, struct device *d, const struct kernel_job *job, int64_t many)
{
    struct copier c = copier_on(d, NULL, job, many);
    return walk(&c, k) > 0;
}

int copy_engine_one(struct device *d, struct stream *s, uint64_t to, uint64_t from, int64_t bytes, int *launches)
{
    CUresult r = driver_get()->cuMemcpyAsync(to, from, (size_t)bytes, stream_use(s));
    ++*launches;
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r))
        log_write(LOG_ERROR, "a copy of %lld bytes on device %d was refused: %s", (long long)bytes, d->ordinal,
                  driver_error(r));
    return -1;
}
