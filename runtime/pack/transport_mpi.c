/* transport_mpi.c: the MPI packs datatypes that stridec can't read, in a host copy of the bytes that the type spans.
 *
 * Unpacking must not write gaps, since they may change meanwhile. No function reports the gaps, so the MPI unpacks
 * twice, over zeros and over ones: equal bytes were written. Short messages may end within an element. MPI_Unpack can't
 * handle that, but a receive can, so the rank sends the bytes to itself. */
#include "base/log.h"
#include "base/self_comm.h"
#include "transport.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool acquire(struct typed_buffer *p)
{
    if (p->bytes > INT_MAX || p->count > INT_MAX) {
        log_once(LOG_ERROR, "shadow", "a datatype that stridec can't read is limited to 2 GiB a message");
        return false;
    }
    return transport_oneshot.acquire(p);
}

static int pack(struct typed_buffer *p, struct stream *s)
{
    int64_t first, past;
    int position = 0;
    layout_span(p->layout, p->count, &first, &past);
    char *shadow = malloc((size_t)(past - first));
    bool ok = shadow
              && !driver_get()->cuMemcpyDtoHAsync(shadow, (CUdeviceptr)(p->user + first), (size_t)(past - first),
                                               stream_use(s))
              && !stream_wait(p->device, s)
              && PMPI_Pack(shadow - first, (int)p->count, p->datatype, p->address, (int)p->bytes, &position,
                           self_comm_get()) == MPI_SUCCESS;
    p->launches++;
    free(shadow);
    return ok ? 0 : -1;
}

/* Receives the first `bytes` packed bytes into a buffer filled with `fill`. */
static bool receive_over(struct typed_buffer *p, char *shadow, int64_t first, int64_t span, int64_t bytes, int fill)
{
    MPI_Comm self;
    memset(shadow, fill, (size_t)span);
    if (PMPI_Comm_dup(self_comm_get(), &self) != MPI_SUCCESS) return false;
    int rc = PMPI_Sendrecv(p->address, (int)bytes, MPI_PACKED, 0, 0, shadow - first, (int)p->count, p->datatype, 0, 0,
                           self, MPI_STATUS_IGNORE);
    PMPI_Comm_free(&self);
    return rc == MPI_SUCCESS;
}

static int copy_written(struct typed_buffer *p, struct stream *s, const char *zeros, const char *ones, int64_t first,
                        int64_t span)
{
    for (int64_t i = 0, run; i < span; i += run + 1) {
        for (run = 0; i + run < span && zeros[i + run] == ones[i + run]; run++) {}
        if (run == 0) continue;
        p->launches++;
        CUdeviceptr at = (CUdeviceptr)(p->user + first + i);
        if (driver_get()->cuMemcpyHtoDAsync(at, zeros + i, (size_t)run, stream_use(s))) return -1;
    }
    return stream_wait(p->device, s);
}

static int unpack(struct typed_buffer *p, struct stream *s, int64_t bytes)
{
    int64_t first, past;
    layout_span(p->layout, p->count, &first, &past);
    char *zeros = malloc((size_t)(past - first)), *ones = malloc((size_t)(past - first));
    bool ok = zeros && ones && receive_over(p, zeros, first, past - first, bytes, 0)
              && receive_over(p, ones, first, past - first, bytes, 0xff)
              && !copy_written(p, s, zeros, ones, first, past - first);
    free(zeros), free(ones);
    return ok ? 0 : -1;
}

static int move(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end)
{
    (void)begin;
    return direction == KERNEL_PACK ? pack(p, s) : unpack(p, s, end);
}

const struct transport transport_by_mpi = {"mpi", acquire, move, false, NULL};
