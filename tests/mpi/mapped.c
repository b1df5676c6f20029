/* mapped.c: buffers in virtual-memory mappings (cuMemMap), as frameworks grow theirs: one range of addresses that several pieces of
 * memory lie behind, some of which are given back and others put in their place. No CUDA IPC shares them.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "check.h"
#include "mapping_calls.h"
#include <stdlib.h>
#include <string.h>

enum { PIECES = 2, TAG = 5, ROUNDS = 2 };
static int peer;
static size_t piece;          /* bytes */
static uint64_t salt = 10;

static void measure_piece(void)
{
    CUmemAllocationProp prop = memory_of_device(0);
    OK(cu.cuMemGetAllocationGranularity(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static void put(CUdeviceptr at)
{
    CUmemAllocationProp prop = memory_of_device(0);
    CUmemGenericAllocationHandle memory = 0;
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cu.cuMemCreate(&memory, piece, &prop, 0));
    OK(cu.cuMemMap(at, piece, 0, memory, 0));
    OK(cu.cuMemSetAccess(at, piece, &access, 1));
    OK(cu.cuMemRelease(memory));
}

static void take(CUdeviceptr at)
{
    OK(cu.cuMemUnmap(at, piece));
}

static CUdeviceptr range_make(void)
{
    CUdeviceptr range = 0;
    OK(cu.cuMemAddressReserve(&range, PIECES * piece, 0, 0, 0));
    for (int i = 0; i < PIECES; i++) put(range + (CUdeviceptr)(PIECES - 1 - i) * piece);   /* not in their order */
    return range;
}

static void range_free(CUdeviceptr range)
{
    cudaDeviceSynchronize();
    for (int i = 0; i < PIECES; i++) take(range + (CUdeviceptr)i * piece);
    OK(cu.cuMemAddressFree(range, PIECES * piece));
}

/* ---- what is moved: within all pieces, and a shadow of it ---- */

struct side {
    bool mapped;
    unsigned char *at, *shadow;
};
static size_t bytes;          /* of a side: all the pieces */

static struct side side_make(bool mapped)
{
    struct side s = {.mapped = mapped, .shadow = malloc(bytes)};
    if (mapped) s.at = (unsigned char *)(uintptr_t)range_make();
    else cudaMalloc((void **)&s.at, bytes);
    return s;
}

static void side_free(struct side *s)
{
    if (s->mapped) range_free((CUdeviceptr)(uintptr_t)s->at);
    else cudaFree(s->at);
    free(s->shadow);
}

static void fill(struct side *s, uint64_t with)
{
    for (size_t i = 0; i < bytes; i++) s->shadow[i] = pattern_at(with, (int64_t)i);
    cudaMemcpy(s->at, s->shadow, bytes, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();   /* for an MPI whose peer reads the memory */
}

static void check(const struct side *s, const char *what)
{
    unsigned char *got = malloc(bytes);
    size_t i = 0;
    cudaMemcpy(got, s->at, bytes, cudaMemcpyDeviceToHost);
    while (i < bytes && got[i] == s->shadow[i]) i++;
    expect(i == bytes, "%s: byte %zu is %d, not %d", what, i, i < bytes ? got[i] : 0, i < bytes ? s->shadow[i] : 0);
    free(got);
}

/* What a message of t from a side filled with `with` leaves in the shadow. */
static void expect_message(struct side *s, MPI_Datatype t, uint64_t with)
{
    unsigned char *sent = malloc(bytes), *packed;
    int size, in = 0, out = 0;
    MPI_Type_size(t, &size);
    packed = malloc((size_t)size);
    for (size_t i = 0; i < bytes; i++) sent[i] = pattern_at(with, (int64_t)i);
    PMPI_Pack(sent, 1, t, packed, size, &in, MPI_COMM_SELF);
    PMPI_Unpack(packed, size, &out, s->shadow, 1, t, MPI_COMM_SELF);
    free(sent), free(packed);
}

/* ---- layouts that reach over the pieces' ends ---- */

enum { KINDS = 5 };
static const char *const kind_name[KINDS] = {"short blocks", "long blocks", "a list", "all of it", "a few bytes"};

static MPI_Datatype make(int kind)
{
    MPI_Datatype t, wide = MPI_DATATYPE_NULL;
    int n = (int)(bytes / 1024), at[5] = {3, (int)piece - 7, (int)piece + 900, (int)(2 * piece) - 80000, (int)(2 * piece) - 1001};
    int length[5] = {17, 300, 4, 70000, 1001};
    if (kind == 0) MPI_Type_vector(n, 2, 128, MPI_DOUBLE, &t);
    else if (kind == 1) MPI_Type_contiguous(160000, MPI_BYTE, &wide), MPI_Type_create_hvector(n / 256 - 1, 1, 262000, wide, &t);
    else if (kind == 2) MPI_Type_indexed(5, length, at, MPI_BYTE, &t);
    else if (kind == 3) MPI_Type_contiguous((int)bytes, MPI_BYTE, &t);
    else MPI_Type_create_hvector(2, 8, (MPI_Aint)piece - 4, MPI_BYTE, &t);   /* the second begins before a piece's end */
    if (wide != MPI_DATATYPE_NULL) MPI_Type_free(&wide);
    MPI_Type_commit(&t);
    return t;
}

/* ---- messages ---- */

static void exchange(struct side *out, struct side *in, MPI_Datatype t, const char *what)
{
    salt += 2;
    fill(out, salt + (uint64_t)my_rank), fill(in, 1);
    MPI_Sendrecv(out->at, 1, t, peer, TAG, in->at, 1, t, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect_message(in, t, salt + (uint64_t)peer);
    check(in, what);
}

static void pack(struct side *out, struct side *in, MPI_Datatype t, const char *what)
{
    int size, there = 0, back = 0;
    void *packed = NULL;
    salt += 2;
    fill(out, salt), fill(in, 1);
    MPI_Type_size(t, &size);
    cudaMalloc(&packed, (size_t)size);
    MPI_Pack(out->at, 1, t, packed, size, &there, MPI_COMM_WORLD);
    MPI_Unpack(packed, size, &back, in->at, 1, t, MPI_COMM_WORLD);
    expect_message(in, t, salt);
    check(in, what);
    cudaFree(packed);
}

static void broadcast(struct side *s, MPI_Datatype t, const char *what)
{
    salt += 2;
    fill(s, my_rank == 0 ? salt : 1);
    MPI_Bcast(s->at, 1, t, 0, MPI_COMM_WORLD);
    expect_message(s, t, salt);
    check(s, what);
}

/* Other memory behind the same addresses. */
static void change(struct side *s)
{
    CUdeviceptr second = (CUdeviceptr)(uintptr_t)s->at + piece;
    if (!s->mapped) return;
    cudaDeviceSynchronize();
    take(second), put(second);
}

static void pass(int kind, bool out_mapped, bool in_mapped)
{
    MPI_Datatype t = make(kind);
    struct side out = side_make(out_mapped), in = side_make(in_mapped);
    for (int i = 0; i < ROUNDS; i++) {
        exchange(&out, &in, t, kind_name[kind]);
        change(&out), change(&in);
    }
    pack(&out, &in, t, kind_name[kind]);
    broadcast(&in, t, kind_name[kind]);
    side_free(&out), side_free(&in);
    MPI_Type_free(&t);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, 2);
    find_calls();
    peer = 1 - my_rank;
    cudaFree(NULL);
    measure_piece();
    bytes = PIECES * piece;
    for (int kind = 0; kind < KINDS; kind++) {
        pass(kind, true, true);
        pass(kind, my_rank == 0, my_rank == 1);
        report("%s", kind_name[kind]);
    }
    return check_finish();
}
