/* large.c: spans past 2^32, messages past 2^31 bytes, types of ten million blocks.
 *
 * usage: large [span] [message [into]] [blocks N]
 * `message` sends more than 2 GiB from a few bytes; with `into`, that much is also received into device memory. That is
 * left to machines with a GPU, as are the ten million; test_wire.c has the counts of such messages.
 *
 * run: STRIDEC_CACHE_DIR=@NEW STRIDEC_SPECIAL=0 SIMGPU_MEMORY=65536 -n 1 span
 * run: SIMGPU_MEMORY=65536 SIMGPU_NVRTC_FAIL=1 -n 1 span
 * run: STRIDEC_CACHE_DIR=@NEW -n 1 blocks 1500000
 */
#include "check.h"
#include "resources.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define GIB ((int64_t)1 << 30)

static void must(int error, const char *what)
{
    if (error == 0) return;
    fprintf(stderr, "rank %d: %s fails: %d\n", my_rank, what, error);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (host_mode) memcpy(to, from, bytes);
    else must(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}

static unsigned char byte_of(int64_t i)
{
    return (unsigned char)((uint64_t)i * 0x9e3779b97f4a7c15u >> 56);
}

/* ---- spans ---- */

/* `count` blocks of `length` bytes, at[i] bytes from the origin: the whole type, in pack order. */
struct blocks {
    MPI_Datatype type;
    const char *name;
    int count, length;
    int64_t at[512];
};

static int64_t lowest(const struct blocks *b)
{
    int64_t low = b->at[0];
    for (int i = 1; i < b->count; i++) low = b->at[i] < low ? b->at[i] : low;
    return low;
}

/* Where block i begins, in the buffer that holds the whole span. */
static unsigned char *block(const struct blocks *b, unsigned char *base, int i)
{
    return base + (b->at[i] - lowest(b));
}

/* Packs from, and unpacks into, [base, base + span) of device memory of which only the blocks are ever touched. */
static void span_once(struct blocks *b, unsigned char *base)
{
    int bytes = b->count * b->length, position = 0;
    unsigned char *host = malloc((size_t)bytes), *got = malloc((size_t)bytes);
    unsigned char *packed = mem_alloc(MEM_DEVICE, (size_t)bytes);
    void *origin = base - lowest(b);
    for (int i = 0; i < bytes; i++) host[i] = byte_of(i + my_rank);
    for (int i = 0; i < b->count; i++) copy(block(b, base, i), host + i * b->length, (size_t)b->length);
    MPI_Pack(origin, 1, b->type, packed, bytes, &position, MPI_COMM_WORLD);
    copy(got, packed, (size_t)bytes);
    expect(memcmp(got, host, (size_t)bytes) == 0, "MPI_Pack of %s makes wrong bytes", b->name);
    for (int i = 0; i < bytes; i++) host[i] ^= 0x5a;
    copy(packed, host, (size_t)bytes);
    position = 0;
    MPI_Unpack(packed, bytes, &position, origin, 1, b->type, MPI_COMM_WORLD);
    for (int i = 0; i < b->count; i++) copy(got + i * b->length, block(b, base, i), (size_t)b->length);
    expect(memcmp(got, host, (size_t)bytes) == 0, "MPI_Unpack of %s makes wrong bytes", b->name);
    mem_free(MEM_DEVICE, packed);
    free(host), free(got);
}

/* At once, and with its own kernel. */
static void span_of(struct blocks *b, unsigned char *base)
{
    static int kernels = 1; /* the interpreter's comes first */
    type_commit(&b->type);
    span_once(b, base);
    if (!getenv("SIMGPU_NVRTC_FAIL")) resources_wait_modules(++kernels, b->type, NULL);
    span_once(b, base);
    MPI_Type_free(&b->type);
    report("a span past 2^32: %s", b->name);
}

static void strided(struct blocks *b, int64_t step)
{
    MPI_Datatype row;
    *b = (struct blocks){.name = step < 0 ? "strides, backwards" : "strides", .count = 5 * 32, .length = 24};
    MPI_Type_create_hvector(32, 3, 4096, MPI_DOUBLE, &row);
    MPI_Type_create_hvector(5, 1, (MPI_Aint)step, row, &b->type);
    MPI_Type_free(&row);
    for (int i = 0; i < b->count; i++) b->at[i] = i / 32 * step + i % 32 * 4096;
}

/* Equal blocks of `length` bytes, irregularly placed at multiples of `unit`, back and forth. */
static void listed(struct blocks *b, const char *name, int length, int64_t unit)
{
    MPI_Aint at[300];
    *b = (struct blocks){.name = name, .count = 300, .length = length};
    for (int i = 0; i < b->count; i++) {
        int64_t n = i * 7919 % 300; /* another order, each once */
        at[i] = (MPI_Aint)(b->at[i] = n * (15 * (1 << 20) / unit * unit) + n * n % 97 * unit - 2 * GIB);
    }
    MPI_Type_create_hindexed_block(b->count, length, at, MPI_BYTE, &b->type);
}

static void spans(void)
{
    static struct blocks b;
    unsigned char *base = mem_alloc(MEM_DEVICE, (size_t)(5 * GIB));
    strided(&b, GIB + 64);
    span_of(&b, base);
    strided(&b, -GIB - 64);
    span_of(&b, base);
    listed(&b, "a list in units of 8", 16, 8);
    span_of(&b, base);
    listed(&b, "a list in bytes", 5, 1);
    span_of(&b, base);
    mem_free(MEM_DEVICE, base);
}

/* ---- messages ---- */

#define PIECE ((int64_t)1 << 20)
#define PIECES 2053 /* prime, and past 2 GiB */
#define ODD 13      /* bytes behind the last piece */

/* Every piece from the same bytes, or each behind the other; then some odd bytes. */
static MPI_Datatype pieces(int64_t step)
{
    MPI_Datatype piece, all, t;
    int lengths[2] = {1, ODD};
    MPI_Aint at[2] = {0, (MPI_Aint)(step ? PIECES * step : 64)};
    MPI_Type_vector((int)(PIECE / 256), 128, 128 + (step > PIECE ? 1 : 0), MPI_SHORT, &piece);
    MPI_Type_create_hvector(PIECES, 1, (MPI_Aint)step, piece, &all);
    MPI_Datatype types[2] = {all, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, at, types, &t);
    MPI_Type_free(&piece), MPI_Type_free(&all);
    type_commit(&t);
    return t;
}

static MPI_Count received(const MPI_Status *s)
{
    MPI_Count bytes = 0;
    MPI_Get_elements_x(s, MPI_BYTE, &bytes);
    return bytes;
}

static void check_pieces(const unsigned char *got, const char *what)
{
    unsigned char *want = malloc((size_t)PIECE);
    for (int64_t i = 0; i < PIECE; i++) want[i] = byte_of(i);
    for (int i = 0; i < PIECES; i++)
        expect(memcmp(got + i * PIECE, want, (size_t)PIECE) == 0, "piece %d %s is wrong", i, what);
    expect(memcmp(got + PIECES * PIECE, want + 64, ODD) == 0, "the last bytes %s are wrong", what);
    free(want);
}

/* Rank 0 sends 2.05 GiB out of one MiB on the device; rank 1 has them on the host. */
static void message(void)
{
    MPI_Datatype plain = pieces(PIECE), from = pieces(0);
    MPI_Status s;
    if (my_rank == 0) {
        unsigned char *host = malloc((size_t)PIECE), *source = mem_alloc(MEM_DEVICE, (size_t)PIECE);
        for (int64_t i = 0; i < PIECE; i++) host[i] = byte_of(i);
        copy(source, host, (size_t)PIECE);
        MPI_Send(source, 1, from, 1, 1, MPI_COMM_WORLD);
        mem_free(MEM_DEVICE, source);
        free(host);
    } else if (my_rank == 1) {
        unsigned char *got = malloc((size_t)(PIECES * PIECE + ODD));
        MPI_Recv(got, 1, plain, 0, 1, MPI_COMM_WORLD, &s);
        expect_equal(received(&s), PIECES * PIECE + ODD, "bytes received");
        check_pieces(got, "received");
        free(got);
    }
    MPI_Type_free(&plain), MPI_Type_free(&from);
    report("a message of %lld bytes", (long long)(PIECES * PIECE + ODD));
}

/* The same received into device memory, with gaps: 2.06 GiB there, and as much for the packed bytes. */
static void message_into(void)
{
    int64_t step = PIECE + PIECE / 128;
    MPI_Datatype from = pieces(0), to = pieces(step);
    MPI_Status s;
    if (my_rank == 0) {
        unsigned char *source = mem_alloc(MEM_DEVICE, (size_t)PIECE), *host = malloc((size_t)PIECE);
        for (int64_t i = 0; i < PIECE; i++) host[i] = byte_of(i);
        copy(source, host, (size_t)PIECE);
        MPI_Send(source, 1, from, 1, 2, MPI_COMM_WORLD);
        mem_free(MEM_DEVICE, source);
        free(host);
    } else if (my_rank == 1) {
        unsigned char *target = mem_alloc(MEM_DEVICE, (size_t)(PIECES * step + ODD)), *got = malloc((size_t)step);
        MPI_Recv(target, 1, to, 0, 2, MPI_COMM_WORLD, &s);
        expect_equal(received(&s), PIECES * PIECE + ODD, "bytes received");
        for (int i = 0; i < PIECES; i++) {
            int64_t wrong = 0;
            copy(got, target + i * step, (size_t)step);
            for (int64_t k = 0; k < PIECE; k++) wrong += got[k / 256 * 258 + k % 256] != byte_of(k);
            expect(wrong == 0, "%lld bytes of piece %d are wrong", (long long)wrong, i);
        }
        copy(got, target + PIECES * step, ODD);
        for (int k = 0; k < ODD; k++) expect_equal(got[k], byte_of(64 + k), "a last byte");
        mem_free(MEM_DEVICE, target);
        free(got);
    }
    MPI_Type_free(&from), MPI_Type_free(&to);
    report("a message of %lld bytes into gaps on the device", (long long)(PIECES * PIECE + ODD));
}

/* ---- blocks ---- */

#define BLOCK_BYTES_MAX 400 /* of the host's memory for a block while it is committed, the MPI's own included */

static int64_t peak(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (int64_t)u.ru_maxrss * 1024;
}

struct list {
    int n, *lengths;   /* in units of 4 bytes */
    MPI_Aint *at;
    int64_t bytes, span;
};

static struct list irregular(int n, bool equal)
{
    struct list l = {n, malloc(sizeof(int) * (size_t)n), malloc(sizeof(MPI_Aint) * (size_t)n), 0, 0};
    for (int i = 0; i < n; i++) {
        l.at[i] = (MPI_Aint)l.span;
        l.lengths[i] = equal ? 2 : 1 + (int)roll(3);
        l.bytes += 4 * l.lengths[i];
        l.span += 4 * l.lengths[i] + 4 + 4 * (int64_t)roll(2);
    }
    return l;
}

static void pack_by_hand(const struct list *l, unsigned char *packed, const unsigned char *user)
{
    for (int i = 0; i < l->n; i++) {
        memcpy(packed, user + l->at[i], 4 * (size_t)l->lengths[i]);
        packed += 4 * l->lengths[i];
    }
}

static void unpack_by_hand(const struct list *l, unsigned char *user, const unsigned char *packed)
{
    for (int i = 0; i < l->n; i++) {
        memcpy(user + l->at[i], packed, 4 * (size_t)l->lengths[i]);
        packed += 4 * l->lengths[i];
    }
}

static void move_list(const struct list *l, MPI_Datatype t, unsigned char *user, unsigned char *packed)
{
    size_t bytes = (size_t)l->bytes, span = (size_t)l->span;
    unsigned char *want = malloc(bytes), *got = malloc(span), *host = malloc(span);
    int position = 0;
    for (size_t i = 0; i < span; i++) host[i] = byte_of((int64_t)i);
    copy(user, host, span);
    MPI_Pack(user, 1, t, packed, (int)bytes, &position, MPI_COMM_WORLD);
    copy(got, packed, bytes);
    pack_by_hand(l, want, host);
    expect(memcmp(got, want, bytes) == 0, "MPI_Pack of %d blocks makes wrong bytes", l->n);
    for (size_t i = 0; i < bytes; i++) want[i] ^= 0xa5;
    copy(packed, want, bytes);
    position = 0;
    MPI_Unpack(packed, (int)bytes, &position, user, 1, t, MPI_COMM_WORLD);
    copy(got, user, span);
    unpack_by_hand(l, host, want);
    expect(memcmp(got, host, span) == 0, "MPI_Unpack of %d blocks makes wrong bytes", l->n);
    free(want), free(got), free(host);
}

static void blocks(int n, bool equal)
{
    struct list l = irregular(n, equal);
    MPI_Datatype t;
    struct resources before, during, after;
    unsigned char *user = mem_alloc(MEM_DEVICE, (size_t)l.span), *packed = mem_alloc(MEM_DEVICE, (size_t)l.bytes);
    int64_t peak_before = peak();
    MPI_Type_create_hindexed(n, l.lengths, l.at, MPI_INT, &t);
    double start = MPI_Wtime();
    type_commit(&t);
    double took = MPI_Wtime() - start;
    int64_t grown = peak() - peak_before;
    resources_now(&before);
    resources_wait_modules(equal ? 4 : 3, t, NULL); /* each list's own, after the interpreter and that for messages */
    for (int round = 0; round < 2; round++) move_list(&l, t, user, packed);
    resources_now(&during);
    MPI_Type_free(&t);
    resources_now(&after);
    note("%d blocks: commit %.2f s, peak of the host's memory grown by %.0f bytes a block, device memory %.1f", n, took,
         (double)grown / n, (double)(during.device_bytes - before.device_bytes) / n);
    expect(grown <= (int64_t)n * BLOCK_BYTES_MAX, "%lld bytes of host memory a block", (long long)grown / n);
    expect(took < 60, "the commit took %.1f s", took);
    /* Eight bytes, and what the sizes of buffers round them up by. */
    if (during.simulated)
        expect(during.device_bytes - before.device_bytes <= 17 * (int64_t)n / 2, "%.1f bytes of device memory a block",
               (double)(during.device_bytes - before.device_bytes) / n);
    mem_free(MEM_DEVICE, user), mem_free(MEM_DEVICE, packed);
    free(l.lengths), free(l.at);
    report("%d %s blocks", n, equal ? "equal" : "unequal");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    resources_watch_compiles();
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "span")) spans();
        if (!strcmp(argv[i], "message")) message();
        if (!strcmp(argv[i], "into")) message_into();
        if (!strcmp(argv[i], "blocks") && i + 1 < argc) {
            blocks(atoi(argv[i + 1]), false); /* the larger peak first: it is the process's */
            blocks(atoi(argv[i + 1]), true);
        }
    }
    return check_finish();
}
