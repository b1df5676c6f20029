/* copies.c: moves a job by the copy engine alone.
 *
 * Runs come in pack order. Equal ones at an even pitch are gathered into one two-dimensional copy, whatever nodes of
 * the tree they come from; runs in a copy never overlap each other, so that order matters only between copies, which
 * the stream keeps. */
#include "kernel_inner.h"
#include "log.h"

/* Rows `pitch` apart on the user's side, touching on the packed side; offsets from the job's addresses. */
struct block {
    int64_t user, packed, len, pitch, rows;
};

struct copier {
    const struct driver *driver;
    struct device *device;
    CUstream stream;
    const struct kernel_job *job;
    int64_t pitch_max;
    struct block open;    /* rows is 0 where none is */
    int64_t copies, many; /* counting only: stops past `many`; many is -1 when copying */
};

static int64_t pitch_max(const struct driver *driver, struct device *d)
{
    int limit = 0;
    if (driver->cuDeviceGetAttribute(&limit, CU_DEVICE_ATTRIBUTE_MAX_PITCH, d->ordinal) != CUDA_SUCCESS) return 0;
    return limit;
}

/* True if the run continues the open block; then it has become part of it. */
static bool extends(struct copier *c, int64_t user, int64_t packed, int64_t len)
{
    struct block *b = &c->open;
    int64_t pitch;
    if (!b->rows || __builtin_sub_overflow(user, b->user, &pitch)) return false;
    if (len != b->len || packed != b->packed + b->rows * len) return false;
    if (b->rows == 1) {
        if (pitch < len || pitch > c->pitch_max) return false;
        b->pitch = pitch;
    } else if (pitch != b->rows * b->pitch) {
        return false;
    }
    b->rows++;
    return true;
}

static CUresult copy_rows(struct copier *c, CUdeviceptr user, CUdeviceptr packed)
{
    const struct block *b = &c->open;
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
    CUresult r = c->driver->cuMemcpy2DAsync(&copy, c->stream);
    if (r != CUDA_ERROR_INVALID_VALUE) return r;
    /* Some drivers take fewer pitches than they say: then row by row. */
    r = CUDA_SUCCESS;
    for (int64_t i = 0; i < b->rows && r == CUDA_SUCCESS; i++) {
        CUdeviceptr at = user + (uint64_t)(i * b->pitch), in = packed + (uint64_t)(i * b->len);
        r = c->driver->cuMemcpyAsync(pack ? in : at, pack ? at : in, (size_t)b->len, c->stream);
    }
    return r;
}

static int flush(struct copier *c)
{
    const struct block *b = &c->open;
    if (!b->rows) return 0;
    c->copies++;
    if (c->many >= 0) return c->copies > c->many;
    CUdeviceptr user = c->job->user + (uint64_t)b->user, packed = c->job->packed + (uint64_t)b->packed;
    bool pack = c->job->direction == KERNEL_PACK;
    CUresult r = b->rows > 1
                     ? copy_rows(c, user, packed)
                     : c->driver->cuMemcpyAsync(pack ? packed : user, pack ? user : packed, (size_t)b->len, c->stream);
    if (r == CUDA_SUCCESS) return 0;
    log_write(LOG_ERROR, "a copy on device %d was refused: %s", c->device->ordinal, driver_error(r));
    return -1;
}

static int take_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct copier *c = arg;
    packed -= c->job->begin;
    if (extends(c, user, packed, len)) return 0;
    int result = flush(c);
    c->open = (struct block){user, packed, len, 0, 1};
    return result;
}

static int walk(struct copier *c, const struct kernel *k)
{
    const struct kernel_job *job = c->job;
    int result = tree_walk(k->tree, job->count, job->extent, job->begin, job->end, take_run, c);
    return result ? result : flush(c);
}

int copies_move(const struct kernel *k, struct device *d, CUstream s, const struct kernel_job *job, int *launches)
{
    const struct driver *driver = driver_get();
    struct copier c = {driver, d, s, job, pitch_max(driver, d), {0}, 0, -1};
    int result = walk(&c, k);
    *launches += (int)c.copies;
    return result;
}

bool copies_exceed(const struct kernel *k, struct device *d, const struct kernel_job *job, int64_t many)
{
    const struct driver *driver = driver_get();
    struct copier c = {driver, d, NULL, job, pitch_max(driver, d), {0}, 0, many};
    return walk(&c, k) > 0;
}

int copies_one(struct device *d, CUstream s, uint64_t to, uint64_t from, int64_t bytes, int *launches)
{
    CUresult r = driver_get()->cuMemcpyAsync(to, from, (size_t)bytes, s);
    ++*launches;
    if (r == CUDA_SUCCESS) return 0;
    log_write(LOG_ERROR, "a copy of %lld bytes on device %d was refused: %s", (long long)bytes, d->ordinal,
              driver_error(r));
    return -1;
}
