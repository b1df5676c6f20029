/* memory.c: memory of every kind, and guarded buffers with a shadow of what they ought to hold. */
#include "check.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 512 /* bytes on each side; a multiple of every word width */

const char *const mem_name[MEM_KINDS] = {"host", "device", "managed", "pinned", "pool"};

static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "rank %d: %s: %s\n", my_rank, what, cudaGetErrorString(e));
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static bool plain(enum mem_kind kind)
{
    return kind == MEM_HOST || host_mode;
}

/* Only the driver reaches it. */
static bool remote(enum mem_kind kind)
{
    return !plain(kind) && (kind == MEM_DEVICE || kind == MEM_POOL);
}

void *mem_alloc(enum mem_kind kind, size_t bytes)
{
    void *p = NULL;
    if (plain(kind)) {
        p = malloc(bytes);
        if (!p) MPI_Abort(MPI_COMM_WORLD, 3);
    } else if (kind == MEM_DEVICE) {
        must(cudaMalloc(&p, bytes), "cudaMalloc");
    } else if (kind == MEM_MANAGED) {
        must(cudaMallocManaged(&p, bytes, cudaMemAttachGlobal), "cudaMallocManaged");
    } else if (kind == MEM_POOL) {
        must(cudaMallocAsync(&p, bytes, 0), "cudaMallocAsync");
        must(cudaStreamSynchronize(0), "cudaStreamSynchronize");
    } else {
        must(cudaMallocHost(&p, bytes), "cudaMallocHost");
    }
    return p;
}

void mem_free(enum mem_kind kind, void *p)
{
    if (plain(kind))
        free(p);
    else if (kind == MEM_PINNED)
        must(cudaFreeHost(p), "cudaFreeHost");
    else if (kind == MEM_POOL)
        must(cudaFreeAsync(p, 0), "cudaFreeAsync");
    else
        must(cudaFree(p), "cudaFree");
}

/* Managed and pinned memory are the host's to touch. */
void mem_write(enum mem_kind kind, void *to, const void *from, size_t bytes)
{
    if (remote(kind)) {
        must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
        must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    } else {
        memcpy(to, from, bytes);
    }
}

void mem_read(enum mem_kind kind, void *to, const void *from, size_t bytes)
{
    if (remote(kind))
        must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
    else
        memcpy(to, from, bytes);
}

unsigned char pattern_at(uint64_t salt, int64_t at)
{
    uint64_t z = (salt + 1) * 0x9e3779b97f4a7c15u + (uint64_t)at * 0xd6e8feb86659fd93u;
    z = (z ^ z >> 32) * 0xd6e8feb86659fd93u;
    return (unsigned char)(z >> 40);
}

static void make(struct buf *b, enum mem_kind kind, int64_t low, int64_t span, int misalign, uint64_t salt)
{
    *b = (struct buf){.kind = kind, .low = low, .lead = GUARD + (size_t)misalign};
    b->bytes = b->lead + (size_t)span + GUARD;
    b->base = mem_alloc(kind, b->bytes);
    b->shadow = malloc(b->bytes);
    b->origin = (void *)((uintptr_t)b->base + b->lead - (uintptr_t)low);
    buf_fill(b, salt);
}

void buf_make(struct buf *b, enum mem_kind kind, const struct layout *l, int misalign, uint64_t salt)
{
    make(b, kind, l->low, l->span, misalign, salt);
}

void buf_bytes(struct buf *b, enum mem_kind kind, size_t bytes, int misalign, uint64_t salt)
{
    make(b, kind, 0, (int64_t)bytes, misalign, salt);
}

void buf_fill(struct buf *b, uint64_t salt)
{
    b->salt = salt;
    for (size_t i = 0; i < b->bytes; i++) b->shadow[i] = pattern_at(salt, (int64_t)i - (int64_t)b->lead);
    mem_write(b->kind, b->base, b->shadow, b->bytes);
}

void buf_free(struct buf *b)
{
    mem_free(b->kind, b->base);
    free(b->shadow);
}

void buf_expect(struct buf *b, const struct layout *l, const unsigned char *packed, int n)
{
    for (int i = 0; i < n; i++) b->shadow[b->lead + (size_t)l->map[i]] = packed[i];
}

bool buf_check_but(const struct buf *b, size_t from, size_t to, const char *what)
{
    unsigned char *got = malloc(b->bytes);
    size_t wrong = 0, first = 0;
    mem_read(b->kind, got, b->base, b->bytes);
    for (size_t i = 0; i < b->bytes; i++) {
        if (got[i] == b->shadow[i] || (i >= b->lead + from && i < b->lead + to)) continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong)
        fail("%s: %zu bytes of %zu wrong (%s memory), the first at %lld of the span: 0x%02x, not 0x%02x", what, wrong,
             b->bytes, mem_name[b->kind], (long long)first - (long long)b->lead, got[first], b->shadow[first]);
    free(got);
    return wrong == 0;
}

bool buf_check(const struct buf *b, const char *what)
{
    return buf_check_but(b, 0, 0, what);
}

unsigned char *layout_packed(const struct layout *l, uint64_t salt)
{
    unsigned char *p = malloc((size_t)l->bytes + 1);
    for (int i = 0; i < l->bytes; i++) p[i] = pattern_at(salt, l->map[i]);
    return p;
}

void buf_expect_from(struct buf *b, const struct layout *l, const struct layout *sent, uint64_t salt)
{
    unsigned char *p = layout_packed(sent, salt);
    buf_expect(b, l, p, sent->bytes);
    free(p);
}

void expect_cancelled(enum mem_kind kind, const struct layout *l, int source, int tag, MPI_Comm comm)
{
    struct buf b;
    MPI_Request r;
    MPI_Status s;
    int gone = 0;
    buf_make(&b, kind, l, 0, 1);
    MPI_Irecv(b.origin, l->count, l->type, source, tag, comm, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &gone);
    expect(gone, "a receive is not cancelled");
    buf_check(&b, "a cancelled receive");
    buf_free(&b);
}

void expect_exchange(int doubles, int messages, void (*before)(void), const char *what)
{
    enum { TAG = 7 };
    struct layout l;
    struct buf in, out;
    int peer = 1 - my_rank;
    MPI_Datatype type;
    MPI_Type_vector(doubles, 1, 2, MPI_DOUBLE, &type);
    type_commit(&type);
    layout_of(&l, type, 1, "every second double");
    buf_make(&out, MEM_HOST, &l, 0, 1), buf_make(&in, MEM_HOST, &l, 0, 2);
    for (uint64_t i = 0; i < (uint64_t)messages; i++) {
        buf_fill(&out, i + 10 * (uint64_t)my_rank);
        if (before) before();
        MPI_Sendrecv(out.origin, 1, type, peer, TAG, in.origin, 1, type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&in, &l, &l, i + 10 * (uint64_t)peer);
        buf_check(&in, what);
    }
    buf_free(&in), buf_free(&out);
    layout_free(&l);
}
