/* extend.c: what stridec.h offers beside MPI: registered types go zero-copy from the first message on, by
 * kernels that are there; packing on a stream stands in that stream's order; queries tell the way that messages take.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: -n 2 --host
 * run: STRIDEC_TRANSPORT=staged -n 2 --host
 * run: STRIDEC_HOST=off -n 2 --host
 * run: STRIDEC_DISABLE=1 -n 2 --host absent
 */
#include "../../runtime/api/stridec.h"
#include "../sim/simgpu.h"
#include "check.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 40   /* elements: more bytes than what is never offered */
#define USED 4     /* layouts: contiguous, strided, indexed, a struct */

static int peer;
static struct layout layouts[USED];

static void expect_result(int got, int want, const char *what)
{
    expect(got == want, "%s returns %d, not %d", what, got, want);
}

static long syncs(void)
{
    struct simgpu_counts c = {0};
    void (*counts)(struct simgpu_counts *) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (driver) *(void **)&counts = dlsym(driver, "simgpu_counts");
    if (counts) counts(&c);
    if (driver) dlclose(driver);
    return (long)c.syncs;
}

static enum stridec_path asked(const void *buf, int count, MPI_Datatype type, int dest)
{
    enum stridec_path path = STRIDEC_PATH_PARTS;
    char why[200] = "";
    expect_result(stridec_query(buf, count, type, dest, MPI_COMM_WORLD, &path, why, sizeof why), STRIDEC_OK, "stridec_query");
    expect(why[0], "no reason is told for %s", stridec_path_name(path));
    return path;
}

static void expect_path(const struct buf *b, const struct layout *l, enum stridec_path want, const char *when)
{
    enum stridec_path got = asked(b->origin, l->count, l->type, peer);
    expect(got == want, "%s: %s goes %s, not %s", when, l->text, stridec_path_name(got), stridec_path_name(want));
}

/*
 * Registration.
 */

static int (*kernel_ready)(MPI_Datatype, const void *);

static void wrong_registrations(void)
{
    MPI_Datatype types[2] = {layouts[1].type, MPI_DATATYPE_NULL};
    expect_result(stridec_register(MPI_COMM_WORLD, 1 + my_rank, types, NULL, 0), STRIDEC_INVALID, "another n on each rank");
    expect_result(stridec_register(MPI_COMM_WORLD, -1, types, NULL, 0), STRIDEC_INVALID, "n = -1");
    expect_result(stridec_register(MPI_COMM_NULL, 1, types, NULL, 0), STRIDEC_INVALID, "no communicator");
    expect_result(stridec_register(MPI_COMM_WORLD, 2, types, NULL, 0), STRIDEC_INVALID, "a null type");
    expect_result(stridec_register(MPI_COMM_WORLD, 0, NULL, NULL, 1), STRIDEC_OK, "no types");
    report("wrong registrations");
}

/* In host memory: what a send of the path that was told adds to the counts of offers and of packings. */
static long (*offers)(int in_place), (*packings)(void);

static void send_as_told(const struct layout *l, struct buf *from)
{
    enum stridec_path path = host_mode ? asked(from->origin, l->count, l->type, peer) : STRIDEC_PATH_MPI;
    long offered = offers ? offers(0) : 0, packed = packings ? packings() : 0;
    MPI_Send(from->origin, l->count, l->type, peer, 1, MPI_COMM_WORLD);
    if (!host_mode) return;
    expect_equal(offers(0) - offered, path == STRIDEC_PATH_SHARED, "the number of offers");
    expect_equal(packings() - packed, path == STRIDEC_PATH_PACKED, "the number of packings");
}

static void exchange(const struct layout *l, struct buf *from, struct buf *to)
{
    unsigned char *packed = layout_packed(l, from->salt + (uint64_t)(peer - my_rank));
    MPI_Request request;
    MPI_Irecv(to->origin, l->count, l->type, peer, 1, MPI_COMM_WORLD, &request);
    send_as_told(l, from);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    buf_expect(to, l, packed, l->bytes);
    buf_check(to, l->text);
    free(packed);
}

static enum stridec_path forced(enum stridec_path otherwise)
{
    const char *transport = getenv("STRIDEC_TRANSPORT"), *host = getenv("STRIDEC_HOST");
    if (host_mode && host && !strcmp(host, "off")) return STRIDEC_PATH_MPI;
    if (host_mode) return otherwise == STRIDEC_PATH_MPI ? otherwise : transport ? STRIDEC_PATH_PACKED : STRIDEC_PATH_SHARED;
    if (transport && !strcmp(transport, "zerocopy")) return STRIDEC_PATH_ZEROCOPY;
    return transport && !strcmp(transport, "staged") ? STRIDEC_PATH_STAGED : otherwise;
}

/* Each rank registers in its own order of layouts: what it sends as one arrives as another. */
static void registered(void)
{
    struct buf from[USED], to[USED];
    MPI_Datatype types[USED];
    enum mem_kind kind = host_mode ? MEM_HOST : MEM_DEVICE;
    for (int i = 0; i < USED; i++) {
        buf_make(&from[i], kind, &layouts[i], i, 100 + (uint64_t)my_rank), buf_make(&to[i], kind, &layouts[i], 0, 7);
        types[i] = layouts[i].type;
    }
    if (forced(STRIDEC_PATH_MPI) == STRIDEC_PATH_ZEROCOPY)
        expect(asked(from[1].origin, COUNT, types[1], peer) != STRIDEC_PATH_ZEROCOPY, "offered to a rank that has tried nothing");
    for (int i = 2; i < USED && host_mode; i++) expect_path(&from[i], &layouts[i], STRIDEC_PATH_MPI, "not sent before");
    MPI_Barrier(MPI_COMM_WORLD);
    expect_result(stridec_register(MPI_COMM_WORLD, USED, types, from[0].origin, 1), STRIDEC_OK, "stridec_register");
    for (int i = 1; i < USED; i++) {
        /* Of the runs of the others some are no shorter than what is left to the MPI. */
        if (forced(STRIDEC_PATH_PARTS) != STRIDEC_PATH_PARTS && (i == 1 || forced(STRIDEC_PATH_PARTS) != STRIDEC_PATH_PACKED))
            expect_path(&from[i], &layouts[i], forced(STRIDEC_PATH_PARTS), "registered");
        if (!host_mode && kernel_ready) expect(kernel_ready(types[i], from[i].origin) == 1, "%s has no kernel", layouts[i].text);
    }
    for (int i = 0; i < USED; i++) exchange(&layouts[i], &from[i], &to[i]);
    for (int i = 0; i < USED; i++) buf_free(&from[i]), buf_free(&to[i]);
    report("registered types");
}

/*
 * Queries.
 */

static void queries(void)
{
    enum stridec_path path;
    char byte, why[4];
    struct buf b;
    buf_make(&b, host_mode ? MEM_HOST : MEM_DEVICE, &layouts[2], 0, 1);
    expect_path(&b, &layouts[2], forced(asked(b.origin, COUNT, layouts[2].type, peer)), "a device buffer");
    expect(asked(b.origin, COUNT, layouts[2].type, MPI_PROC_NULL) == STRIDEC_PATH_MPI, "to nobody");
    expect(asked(b.origin, 0, layouts[2].type, peer) == STRIDEC_PATH_MPI, "nothing");
    expect(asked(&byte, 1, MPI_CHAR, peer) == STRIDEC_PATH_MPI, "host memory");
    expect_result(stridec_query(&byte, -1, MPI_CHAR, peer, MPI_COMM_WORLD, &path, NULL, 0), STRIDEC_INVALID, "a negative count");
    expect_result(stridec_query(&byte, 1, MPI_CHAR, 99, MPI_COMM_WORLD, &path, NULL, 0), STRIDEC_INVALID, "no such rank");
    expect_result(stridec_query(&byte, 1, MPI_CHAR, MPI_ANY_SOURCE, MPI_COMM_WORLD, &path, NULL, 0), STRIDEC_INVALID, "any rank");
    expect_result(stridec_query(&byte, 1, MPI_CHAR, MPI_PROC_NULL, MPI_COMM_WORLD, &path, NULL, 0), STRIDEC_OK, "no rank");
    expect_result(stridec_query(&byte, 1, MPI_CHAR, peer, MPI_COMM_WORLD, NULL, NULL, 0), STRIDEC_INVALID, "no answer wanted");
    expect_result(stridec_query(&byte, 1, MPI_CHAR, peer, MPI_COMM_WORLD, &path, why, sizeof why), STRIDEC_OK, "a short text");
    expect(strlen(why) == 3, "\"%s\" does not fill its room", why);
    buf_free(&b);
    report("queries");
}

/*
 * Streams.
 */

/* What the stream is given before is packed, what it is given later finds the packed bytes, and the host waits for
 * nothing in between. The typed bytes come on the stream too, and go over what the last round left there. */
static void in_order(const struct layout *l, enum mem_kind packed_kind, cudaStream_t stream)
{
    size_t lead = 24, bytes = lead + (size_t)l->bytes;
    struct buf b;
    MPI_Count position = (MPI_Count)lead;
    unsigned char *want = layout_packed(l, 51), *packed = mem_alloc(packed_kind, bytes), *got = mem_alloc(MEM_PINNED, bytes);
    buf_make(&b, MEM_DEVICE, l, 3, 50);
    unsigned char *fresh = mem_alloc(MEM_PINNED, b.bytes), *dirt = mem_alloc(MEM_PINNED, b.bytes);
    memset(dirt, 0x5a, b.bytes);
    buf_fill(&b, 51);
    memcpy(fresh, b.shadow, b.bytes);
    buf_fill(&b, 50);
    cudaDeviceSynchronize();
    long before = syncs();
    cudaMemcpyAsync(b.base, fresh, b.bytes, cudaMemcpyHostToDevice, stream);
    int rc = stridec_pack_on(b.origin, l->count, l->type, packed, (MPI_Count)bytes, &position, stream);
    cudaMemcpyAsync(b.base, dirt, b.bytes, cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(got, packed, bytes, cudaMemcpyDefault, stream);
    expect_result(rc, STRIDEC_OK, "stridec_pack_on");
    expect(position == (MPI_Count)bytes, "packing %s leaves position %lld", l->text, (long long)position);
    position = (MPI_Count)lead;
    rc = stridec_unpack_on(packed, (MPI_Count)bytes, &position, b.origin, l->count, l->type, stream);
    expect(syncs() == before, "%s: the host waited %ld times", l->text, syncs() - before);
    expect_result(rc, STRIDEC_OK, "stridec_unpack_on");
    cudaStreamSynchronize(stream);
    expect(!memcmp(got + lead, want, (size_t)l->bytes), "%s was packed wrong", l->text);
    memcpy(b.shadow, dirt, b.bytes);
    buf_expect(&b, l, want, l->bytes);
    buf_check(&b, l->text);
    mem_free(MEM_PINNED, fresh), mem_free(MEM_PINNED, dirt), mem_free(MEM_PINNED, got), mem_free(packed_kind, packed);
    free(want), buf_free(&b);
}

static void wrong_moves(cudaStream_t stream)
{
    const struct layout *l = &layouts[1];
    struct buf b;
    unsigned char *packed = mem_alloc(MEM_DEVICE, (size_t)l->bytes), *host = malloc((size_t)l->bytes);
    MPI_Count p = 0, late = 8;
    buf_make(&b, MEM_DEVICE, l, 0, 9);
#define PACK(from, count, to, room, at) stridec_pack_on(from, count, l->type, to, room, at, stream)
    expect_result(PACK(b.origin, l->count, packed, l->bytes - 1, &p), STRIDEC_INVALID, "too little room");
    expect_result(PACK(b.origin, l->count, packed, l->bytes, &late), STRIDEC_INVALID, "too late a position");
    expect_result(PACK(b.origin, -1, packed, l->bytes, &p), STRIDEC_INVALID, "a negative count");
    expect_result(PACK(b.origin, l->count, packed, l->bytes, NULL), STRIDEC_INVALID, "no position");
    expect_result(stridec_unpack_on(packed, 8, &p, b.origin, 1, MPI_DATATYPE_NULL, stream), STRIDEC_INVALID, "no type");
    expect_result(PACK(b.origin, l->count, host, l->bytes, &p), STRIDEC_UNABLE, "pageable memory");
    expect_result(PACK(host, 1, packed, l->bytes, &p), STRIDEC_UNABLE, "typed host memory");
    expect_result(PACK(b.origin, 0, packed, l->bytes, &p), STRIDEC_OK, "nothing to pack");
#undef PACK
    expect(p == 0 && late == 8, "positions moved");
    buf_free(&b);
    mem_free(MEM_DEVICE, packed), free(host);
}

static void streams(void)
{
    cudaStream_t stream, kinds[2];
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    kinds[0] = NULL, kinds[1] = stream;
    for (int i = 0; i < USED; i++)
        for (int k = 0; k < 2; k++) in_order(&layouts[i], k ? MEM_DEVICE : MEM_PINNED, kinds[(i + k) % 2]);
    wrong_moves(stream);
    cudaStreamDestroy(stream);
    report("streams");
}

/* Without stridec, or without a GPU. */
static void without(int want)
{
    MPI_Count position = 0;
    char from[8] = "", to[8];
    enum stridec_path path;
    int query = want == STRIDEC_ABSENT ? want : STRIDEC_OK;
    expect(stridec_present() == (want != STRIDEC_ABSENT), "present: %d", stridec_present());
    expect_result(stridec_pack_on(from, 1, MPI_DOUBLE, to, 8, &position, NULL), want, "stridec_pack_on");
    expect_result(stridec_unpack_on(from, 8, &position, to, 1, MPI_DOUBLE, NULL), want, "stridec_unpack_on");
    expect_result(stridec_query(from, 1, MPI_DOUBLE, peer, MPI_COMM_WORLD, &path, NULL, 0), query, "stridec_query");
    expect_result(stridec_register(MPI_COMM_WORLD, 1, &layouts[1].type, from, 1), query, "stridec_register");
    report(want == STRIDEC_ABSENT ? "without stridec" : "without a GPU");
}

int main(int argc, char **argv)
{
    expect(!stridec_present(), "stridec is there before MPI_Init");
    check_start(&argc, &argv, -1);
    bool absent = getenv("MPI_TEST_HOST") || (argc > 1 && !strcmp(argv[argc - 1], "absent"));
    static const int numbers[USED] = {0, 5, 6, 7};
    peer = my_rank ^ 1;
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    *(void **)&packings = dlsym(RTLD_DEFAULT, "stridec_host_packed");
    *(void **)&kernel_ready = dlsym(RTLD_DEFAULT, "stridec_kernel_ready");
    for (int i = 0; i < USED; i++) layout_number(&layouts[i], numbers[i], COUNT);
    if (absent || host_mode) without(absent ? STRIDEC_ABSENT : STRIDEC_UNABLE);
    if (!absent) wrong_registrations(), registered(), queries();
    if (!absent && !host_mode) streams();
    for (int i = 0; i < USED; i++) layout_free(&layouts[i]);
    int rc = check_finish();
    return rc || stridec_present();
}
