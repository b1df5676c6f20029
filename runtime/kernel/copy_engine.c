/* copy_engine.c: moves a job by driver copies alone.
 *
 * Runs come in pack order. Equal runs at an even pitch become rows of one 2D copy; equal planes at an even slice
 * pitch become one 3D copy, across nodes of the tree. Strides are used directly, without visiting each run. Runs in
 * one copy never overlap. Order matters only between copies, and the stream keeps it.
 *
 * On an H200 (driver 580), copies between GPU and host use a copy engine and do not slow kernels down. Copies within
 * the GPU run on multiprocessors, by cuMemcpyAsync, 2D, 3D, 3DPeer or a batch that prefers overlap. */
#include "kernel_internal.h"
#include "base/log.h"

/* Planes of rows. On the user's side they are `slice` and `pitch` bytes apart; on the packed side they touch.
 * Offsets count from the job's addresses. `pitch` is unused with one row, `slice` with one plane. */
struct box {
    int64_t user, packed, len, rows, pitch, planes, slice;
};

struct copier {
    const struct driver *driver;
    struct device *device;
    struct stream *stream;
    const struct kernel_job *job;
    int64_t pitch_max;
    struct box box, plane;   /* open ones; the box comes before the plane; rows is 0 if there is none */
    int64_t copies, many;   /* limit for counting only; -1: copies */
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
    /* Workaround (some drivers): a pitch within the reported limit is refused; copy row by row. */
    r = CUDA_SUCCESS;
    for (int64_t i = 0; i < b->rows && r == CUDA_SUCCESS; i++)
        r = copy_run(c, b, user + (uint64_t)(i * b->pitch), packed + (uint64_t)(i * b->len));
    return r;
}

/* Copies planes. The driver wants the slice as a number of rows of `pitch`. */
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

/* Returns true if n items at *step, and m at `next` that begin `gap` later, have one step. Sets *step to it. */
static bool is_continued(int64_t n, int64_t *step, int64_t m, int64_t next, int64_t gap)
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

/* Appends the rows to the open plane. Returns false if they do not continue it. */
static bool add_rows(struct copier *c, const struct box *more)
{
    struct box *b = &c->plane;
    int64_t pitch = b->pitch, gap;
    if (!b->rows || more->len != b->len || more->packed != b->packed + b->rows * b->len) return false;
    if (__builtin_sub_overflow(more->user, b->user, &gap)) return false;
    if (!is_continued(b->rows, &pitch, more->rows, more->pitch, gap) || !pitch_fits(c, b->len, pitch)) return false;
    b->pitch = pitch, b->rows += more->rows;
    return true;
}

/* Appends the planes to the open box. Returns false if they do not continue it. */
static bool add_planes(struct copier *c, const struct box *more)
{
    struct box *b = &c->box;
    int64_t slice = b->slice, gap;
    if (!b->rows || more->len != b->len || more->rows != b->rows || more->pitch != b->pitch) return false;
    if (more->packed != b->packed + b->planes * b->rows * b->len) return false;
    if (__builtin_sub_overflow(more->user, b->user, &gap)) return false;
    if (!is_continued(b->planes, &slice, more->planes, more->slice, gap) || !slice_fits(b->rows, b->pitch, slice))
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
 * Visiting the job
 */

static int64_t after(int64_t user, int64_t n, int64_t step)
{
    return (int64_t)((uint64_t)user + (uint64_t)n * (uint64_t)step);
}

static int visit(struct copier *c, const struct tree *t, int64_t user, int64_t packed);

/* Sets *b to n copies of t, `step` apart. Returns false if they are not one box. */
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

/* `user` includes t's offset. */
static int visit_blocks(struct copier *c, const struct tree *t, int64_t user, int64_t packed)
{
    int result = 0;
    for (const struct tree_block *b = t->block, *end = b + t->count; b < end && !result; packed += (b++)->len)
        result = take(c, &(struct box){.user = user + b->off, .packed = packed, .len = b->len, .rows = 1, .planes = 1});
    return result;
}

/* Visits all runs of t. `user` does not include t's offset. */
static int visit(struct copier *c, const struct tree *t, int64_t user, int64_t packed)
{
    int result = 0;
    if (t->kind == TREE_DENSE) return visit_copies(c, t, 1, 0, user, packed);
    user += t->off;
    if (t->kind == TREE_STRIDE) return visit_copies(c, t->child, t->count, t->step, user, packed);
    if (t->kind == TREE_BLOCKS) return visit_blocks(c, t, user, packed);
    for (int64_t i = 0; i < t->count && !result; i++) {
        const struct tree *part = t->kind == TREE_SEQ ? t->part[i] : t->child;
        result = visit(c, part, t->kind == TREE_SEQ ? user : user + t->at[i], packed);
        packed += part->size;
    }
    return result;
}

/* Visits the job: the end of one element, whole elements, the beginning of one. */
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

bool copy_engine_exceeds(const struct kernel *k, struct device *d, const struct kernel_job *job, int64_t many)
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
