/* verify.c: compares the bytes that a candidate moves with those of the model's module. Compares all packed bytes, and
 * the user's buffer with its gaps, by windows if it is large. */
#include "timing.h"
#include <stdlib.h>
#include <string.h>

#define WINDOW ((size_t)64 << 10)
#define WINDOWS 64
#define PATTERN 16777213   /* bytes; prime, so that no layout's step meets its period */

struct tune_reference {
    struct tune_call *call;
    unsigned char *packed, *result;   /* all packed bytes: the model's, a candidate's */
    unsigned char *user, *found;      /* windows after unpacking: the model's, a candidate's */
    size_t windows;                   /* bytes of all windows */
};

/* Finds the k-th window of the user's buffer; the last one ends at the buffer's end. */
static void window(const struct tune_reference *r, int k, size_t *at, size_t *bytes)
{
    size_t span = (size_t)r->call->buffer.layout->high;
    *bytes = r->windows == span ? (k ? 0 : span) : WINDOW;
    *at = r->windows == span ? 0 : (span - WINDOW) / (WINDOWS - 1) * (size_t)k;
    if (k == WINDOWS - 1 && *bytes) *at = span - WINDOW;
}

static bool wait(struct tune_reference *r, CUresult result)
{
    return stream_wait(r->call->device, r->call->stream) == 0 && result == CUDA_SUCCESS;
}

static bool download(struct tune_reference *r, void *to, CUdeviceptr from, size_t bytes)
{
    return wait(r, driver_get()->cuMemcpyDtoHAsync(to, from, bytes, stream_use(r->call->stream)));
}

static bool upload(struct tune_reference *r, CUdeviceptr to, const void *from, size_t bytes)
{
    return wait(r, driver_get()->cuMemcpyHtoDAsync(to, from, bytes, stream_use(r->call->stream)));
}

static CUdeviceptr user_address(const struct tune_reference *r)
{
    return (CUdeviceptr)(uintptr_t)r->call->buffer.user;
}

static bool read_windows(struct tune_reference *r, unsigned char *to)
{
    for (int k = 0; k < WINDOWS; k++) {
        size_t at, bytes;
        window(r, k, &at, &bytes);
        if (bytes && !download(r, to, user_address(r) + at, bytes)) return false;
        to += bytes;
    }
    return true;
}

static bool move(struct tune_reference *r, bool pack)
{
    r->call->pack = pack;
    return tune_once(r->call) >= 0;
}

static bool fill(struct tune_reference *r)
{
    size_t span = (size_t)r->call->buffer.layout->high, piece = span < PATTERN ? span : PATTERN;
    unsigned char *pattern = malloc(piece);
    uint64_t state = 88172645463325252u;
    bool ok = pattern != NULL;
    for (size_t i = 0; ok && i < piece; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        pattern[i] = (unsigned char)(state >> 56);
    }
    for (size_t at = 0; ok && at < span; at += piece)
        ok = upload(r, user_address(r) + at, pattern, span - at < piece ? span - at : piece);
    free(pattern);
    return ok;
}

/* Fills the bounce buffer with inverted packed bytes: unpacking them changes every byte. */
static bool upload_inverted(struct tune_reference *r)
{
    size_t bytes = (size_t)r->call->buffer.bytes;
    for (size_t i = 0; i < bytes; i++) r->result[i] = (unsigned char)~r->packed[i];
    return upload(r, r->call->buffer.wire->address, r->result, bytes);
}

struct tune_reference *tune_reference(struct tune_call *call)
{
    struct tune_reference *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    size_t bytes = (size_t)call->buffer.bytes, span = (size_t)call->buffer.layout->high;
    r->call = call;
    r->windows = span < WINDOW * WINDOWS ? span : WINDOW * WINDOWS;
    r->packed = malloc(bytes), r->result = malloc(bytes);
    r->user = malloc(r->windows), r->found = malloc(r->windows);
    bool ok = r->packed && r->result && r->user && r->found && fill(r) && move(r, true) &&
              download(r, r->packed, call->buffer.wire->address, bytes) && read_windows(r, r->user);
    if (ok) return r;
    tune_reference_free(r);
    return NULL;
}

/* Checks that the candidate packs the same bytes. Then it unpacks them over inverted ones, which must restore all. */
bool tune_verify(struct tune_reference *r, const char *const knobs[2])
{
    static const char *const model[2];
    struct typed_buffer *p = &r->call->buffer;
    struct kernel *k = p->layout->kernel;
    size_t bytes = (size_t)p->bytes;
    bool ok = upload_inverted(r) && kernel_try(k, p->device, knobs) == 0 && move(r, true) &&
              download(r, r->result, p->wire->address, bytes) && !memcmp(r->result, r->packed, bytes);
    ok = ok && upload_inverted(r) && kernel_try(k, p->device, model) == 0 && move(r, false) &&
         upload(r, p->wire->address, r->packed, bytes) && kernel_try(k, p->device, knobs) == 0 && move(r, false) &&
         kernel_try(k, p->device, model) == 0 && read_windows(r, r->found) && !memcmp(r->found, r->user, r->windows) &&
         move(r, true) && download(r, r->result, p->wire->address, bytes) && !memcmp(r->result, r->packed, bytes);
    /* Restores all for the next candidate. */
    if (!ok && kernel_try(k, p->device, model) == 0) fill(r);
    return ok;
}

void tune_reference_free(struct tune_reference *r)
{
    if (!r) return;
    free(r->packed), free(r->result), free(r->user), free(r->found);
    free(r);
}
