/* mappings.c: messages of memory that the program maps (cuMemCreate, cuMemMap), with handles by which it can be shared:
 * read where it lies, by one launch of the receiver, in one piece or over several; other memory mapped at the address
 * between messages, the memory moved to another address; memory without such handles, or mapped in part, is packed.
 * Last, times of other memory.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 fabric
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 apart
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_MAPPING_IDS=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_MAPPING_IDS=2 -n 2 packed
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 packed none
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 packed part
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_OFFSETS=1 -n 2 packed part offset
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuMemExportToShareableHandle -n 2 packed
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuMemImportFromShareableHandle -n 2 packed
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuMemImportFromShareableHandle:2 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_PEERS=0 -n 2 packed apart
 * run: STRIDEC_TRANSPORT=staged -n 2 bytes
 * run: -n 2 bytes
 */
#include "check.h"
#include "mapping_calls.h"
#include "resources.h"
#include <stdlib.h>
#include <string.h>

enum { PIECES = 4, TAG = 5, FABRIC = 8, REMAPS = 100, ROWS = 65536, SECONDS = 60, TIMED = 51 };
static int peer;
static size_t piece;          /* bytes */
static bool packed, bytes_only, part, offset, counts, flat;   /* flat: contiguous messages */
static unsigned types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
static uint64_t salt = 10;

static CUmemGenericAllocationHandle memory_make(void)
{
    CUmemAllocationProp prop = memory_of_device(types);
    CUmemGenericAllocationHandle m = 0;
    OK(cu.cuMemCreate(&m, part ? 2 * piece : piece, &prop, 0));
    return m;
}

static void map(CUdeviceptr at, CUmemGenericAllocationHandle m)
{
    CUmemAccessDesc access = {.location = memory_of_device(types).location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cu.cuMemMap(at, piece, offset ? piece : 0, m, 0));
    OK(cu.cuMemSetAccess(at, piece, &access, 1));
}

static void unmap(CUdeviceptr at)
{
    cudaDeviceSynchronize();
    OK(cu.cuMemUnmap(at, piece));
}

static void put(CUdeviceptr at)
{
    CUmemGenericAllocationHandle m = memory_make();
    map(at, m);
    OK(cu.cuMemRelease(m));
}

/* A range of addresses with memory behind all of it. */
static CUdeviceptr range_make(void)
{
    CUdeviceptr range = 0;
    OK(cu.cuMemAddressReserve(&range, PIECES * piece, 0, 0, 0));
    for (int i = PIECES; i--;) put(range + (CUdeviceptr)i * piece);
    return range;
}

static void range_free(CUdeviceptr range)
{
    for (int i = 0; i < PIECES; i++) unmap(range + (CUdeviceptr)i * piece);
    OK(cu.cuMemAddressFree(range, PIECES * piece));
}

/* ---- messages ---- */

/* Rows of a kilobyte, two kilobytes apart: `span` bytes in all; or all of them. */
static MPI_Datatype rows(size_t span)
{
    MPI_Datatype t;
    if (flat) MPI_Type_contiguous((int)(span / 8), MPI_DOUBLE, &t);
    else MPI_Type_vector((int)(span / 2048), 128, 256, MPI_DOUBLE, &t);
    type_commit(&t);
    return t;
}

static bool everywhere(bool here)
{
    int mine = here, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

static void write_at(CUdeviceptr at, size_t span, uint64_t with)
{
    unsigned char *bytes = malloc(span);
    for (size_t i = 0; i < span; i++) bytes[i] = pattern_at(with, (int64_t)i);
    cudaMemcpy((void *)(uintptr_t)at, bytes, span, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
    free(bytes);
}

static void check_at(CUdeviceptr at, size_t span, uint64_t came, uint64_t with, const char *what)
{
    unsigned char *got = malloc(span);
    size_t i = 0;
    cudaMemcpy(got, (void *)(uintptr_t)at, span, cudaMemcpyDeviceToHost);
    while (i < span && got[i] == pattern_at(flat || i % 2048 < 1024 ? came : with, (int64_t)i)) i++;
    expect(i == span, "%s: byte %zu of %zu is wrong", what, i, span);
    free(got);
}

typedef void transfer(void *at, MPI_Datatype t, MPI_Request *persistent);

static void plain(void *at, MPI_Datatype t, MPI_Request *persistent)
{
    (void)persistent;
    if (my_rank == 0) MPI_Send(at, 1, t, peer, TAG, MPI_COMM_WORLD);
    else MPI_Recv(at, 1, t, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void again(void *at, MPI_Datatype t, MPI_Request *persistent)
{
    if (*persistent == MPI_REQUEST_NULL && my_rank == 0) MPI_Send_init(at, 1, t, peer, TAG, MPI_COMM_WORLD, persistent);
    if (*persistent == MPI_REQUEST_NULL) MPI_Recv_init(at, 1, t, peer, TAG, MPI_COMM_WORLD, persistent);
    MPI_Start(persistent);
    MPI_Wait(persistent, MPI_STATUS_IGNORE);
}

/* One message from rank 0. Returns the launches of the sender and a hundred times those of the receiver. */
static int64_t message(CUdeviceptr at, size_t span, transfer *go, MPI_Request *persistent, const char *what)
{
    struct resources before, after;
    MPI_Datatype t = rows(span);
    uint64_t with = ++salt;
    write_at(at, span, with + 1000 * (uint64_t)my_rank);
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&before);
    go((void *)(uintptr_t)at, t, persistent);
    resources_now(&after);
    check_at(at, span, with, with + 1000 * (uint64_t)my_rank, what);
    int64_t launches = (after.launches - before.launches) * (my_rank ? 100 : 1), all = 0;
    MPI_Allreduce(&launches, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Type_free(&t);
    return all;
}

/* Messages until they take one launch of the receiver alone; where they are packed, until the sender packs by one. */
static void settle(CUdeviceptr at, size_t span, transfer *go, MPI_Request *persistent, const char *what)
{
    double since = 0;
    int64_t launches = 0;
    bool so = false;
    for (int round = 0; round < 4 || (counts && !so && everywhere(within(&since, SECONDS))); round++) {
        launches = message(at, span, go, persistent, what);
        so = packed ? launches % 100 > 0 : launches == 100;
    }
    expect(so || !counts, "%s: %lld launches", what, (long long)launches);
}

static void places(void)
{
    CUdeviceptr range = range_make();
    settle(range, ROWS, plain, NULL, "in a piece");
    settle(range + piece / 2, ROWS, plain, NULL, "in the middle of it");
    settle(range + 2 * piece, piece, plain, NULL, "all of a piece");
    report("messages of one piece");
    settle(range + piece - ROWS / 2, ROWS, plain, NULL, "over two pieces");
    settle(range + piece - ROWS / 2, piece + ROWS, plain, NULL, "over three pieces");
    settle(range + piece - 2048, 4096, plain, NULL, "around the end of one");
    report("messages of several pieces");
    flat = true;
    for (int i = 0; i < 4; i++) message(range + piece - ROWS / 2, ROWS, plain, NULL, "contiguous bytes");
    flat = false;
    report("contiguous messages");
    range_free(range);
}

/* Other memory at the address, before each message; each keeps what was written there. */
static void changes(transfer *go, const char *what)
{
    CUdeviceptr range = range_make(), second = range + piece, at = second - ROWS / 2;
    MPI_Request persistent = MPI_REQUEST_NULL;
    for (int i = 0; i < 3; i++) {
        settle(at, ROWS, go, &persistent, what);
        unmap(second), put(second);
        message(at, ROWS, go, &persistent, what);
    }
    CUmemGenericAllocationHandle two[2] = {memory_make(), memory_make()};
    for (int i = 0; i < 8; i++) {
        unmap(second), map(second, two[i % 2]);
        for (int j = 0; j < 2; j++) message(at, ROWS, go, &persistent, what);
    }
    for (int i = 0; i < 2; i++) OK(cu.cuMemRelease(two[i]));
    if (persistent != MPI_REQUEST_NULL) MPI_Request_free(&persistent);
    range_free(range);
    report("%s", what);
}

/* Two edges of one call, from pieces that a message has lain over; the second piece has changed since. */
static void together(void)
{
    CUdeviceptr range = range_make(), at[2] = {range + piece - ROWS, range + piece};
    MPI_Datatype t = rows(ROWS), types[2] = {t, t};
    MPI_Aint from[2] = {(MPI_Aint)(at[0] - range), (MPI_Aint)(at[1] - range)}, to[2] = {0, ROWS};
    MPI_Comm graph;
    int twice[2] = {peer, peer}, ones[2] = {1, 1}, weights[2] = {1, 1};
    char *in = NULL;
    cudaMalloc((void **)&in, 2 * ROWS);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, twice, weights, 2, twice, weights, MPI_INFO_NULL, 0, &graph);
    for (int i = 0; i < 4; i++) {
        settle(range + piece - ROWS / 2, ROWS, plain, NULL, "over two pieces");
        unmap(range + piece), put(range + piece);
        uint64_t with = ++salt;
        for (int k = 0; k < 2; k++) {
            write_at(at[k], ROWS, with + 100 * (uint64_t)k + 1000 * (uint64_t)my_rank);
            write_at((CUdeviceptr)(uintptr_t)in + (CUdeviceptr)k * ROWS, ROWS, with + 200);
        }
        MPI_Neighbor_alltoallw((void *)(uintptr_t)range, ones, from, types, in, ones, to, types, graph);
        for (int k = 0; k < 2; k++) {
            uint64_t came = with + 100 * (uint64_t)k + 1000 * (uint64_t)peer;
            check_at((CUdeviceptr)(uintptr_t)in + (CUdeviceptr)k * ROWS, ROWS, came, with + 200, "two edges of a call");
        }
        salt += 300;
    }
    MPI_Comm_free(&graph);
    MPI_Type_free(&t);
    cudaFree(in);
    range_free(range);
    report("two edges of a call");
}

/* Two memories, mapped by turns at addresses that overlap. */
static void moves(void)
{
    CUdeviceptr range = 0;
    OK(cu.cuMemAddressReserve(&range, 4 * piece, 0, 0, 0));
    CUmemGenericAllocationHandle two[2] = {memory_make(), memory_make()};
    for (int i = 0; i < 8; i++) {
        CUdeviceptr at = range + (CUdeviceptr)(i % 3) * piece;
        map(at, two[i / 2 % 2]), map(at + piece, two[1 - i / 2 % 2]);
        for (int j = 0; j < 3; j++) message(at + piece - ROWS / 2, ROWS, plain, NULL, "moved memory");
        unmap(at), unmap(at + piece);
    }
    for (int i = 0; i < 2; i++) OK(cu.cuMemRelease(two[i]));
    OK(cu.cuMemAddressFree(range, 4 * piece));
    report("memory that moves");
}

/* Memory that was unmapped is closed by the peer, and so are descriptors. */
static void remaps(void)
{
    struct resources half, end;
    CUdeviceptr range = range_make();
    for (int i = 0; i < REMAPS; i++) {
        if (i == REMAPS / 2) resources_now(&half);
        unmap(range), put(range);
        message(range, 8192, plain, NULL, "a piece for few messages");
        message(range, 8192, plain, NULL, "a piece for few messages");
    }
    resources_now(&end);
    expect(end.descriptors <= half.descriptors + 8, "%lld descriptors have become %lld", (long long)half.descriptors,
           (long long)end.descriptors);
    range_free(range);
    report("memory for few messages");
}

/* ---- times on a GPU: messages of 1 MiB in rows, there and back ---- */

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void time_of(const char *what, void *at)
{
    double took[TIMED];
    MPI_Datatype t = rows(1 << 21);
    for (int i = -20; i < TIMED; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int way = 0; way < 2; way++) {
            if (my_rank == way) MPI_Send(at, 1, t, peer, TAG, MPI_COMM_WORLD);
            else MPI_Recv(at, 1, t, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (i >= 0) took[i] = (MPI_Wtime() - begin) * 1e6 / 2;
    }
    qsort(took, TIMED, sizeof *took, by_time);
    note("1 MiB of %s: median %.1f us", what, took[TIMED / 2]);
    MPI_Type_free(&t);
}

static void time_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = memory_of_device(types).location,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    if (!cu.cuMemPoolCreate) return;
    OK(cu.cuMemPoolCreate(&pool, &props));
    OK(cu.cuMemAllocFromPoolAsync(&p, 1 << 21, pool, NULL));
    cudaDeviceSynchronize();
    for (int i = 0; i < 3; i++) message(p, 1 << 21, plain, NULL, "a pool with handles");
    time_of("a pool with handles", (void *)(uintptr_t)p);
    cudaFree((void *)(uintptr_t)p);
    OK(cu.cuMemPoolDestroy(pool));
}

static void times(void)
{
    void *p = NULL;
    cudaMalloc(&p, 1 << 21);
    time_of("cudaMalloc", p);
    cudaFree(p);
    CUdeviceptr range = range_make();
    time_of("a mapped piece", (void *)(uintptr_t)range);
    time_of("two mapped pieces", (void *)(uintptr_t)(range + piece / 2));
    range_free(range);
    cudaMallocAsync(&p, 1 << 21, NULL);
    cudaDeviceSynchronize();
    time_of("cudaMallocAsync", p);
    cudaFree(p);
    time_pool();
    cudaMallocManaged(&p, 1 << 21, cudaMemAttachGlobal);
    time_of("cudaMallocManaged", p);
    cudaFree(p);
    report("other memory");
}

int main(int argc, char **argv)
{
    struct resources r;
    bool apart = false;
    for (int i = 1; i < argc; i++) {
        packed |= !strcmp(argv[i], "packed"), bytes_only |= !strcmp(argv[i], "bytes");
        apart |= !strcmp(argv[i], "apart"), part |= !strcmp(argv[i], "part"), offset |= !strcmp(argv[i], "offset");
        if (!strcmp(argv[i], "none")) types = 0;
        if (!strcmp(argv[i], "fabric")) types = FABRIC;
    }
    check_start(&argc, &argv, 2);
    find_calls();
    peer = 1 - my_rank;
    int devices = 1;
    cudaGetDeviceCount(&devices);
    if (apart) cudaSetDevice(my_rank % devices);
    cudaFree(NULL);
    resources_now(&r);
    counts = r.simulated && !bytes_only;
    if (!r.simulated) cudaSetDevice(my_rank % devices);
    CUmemAllocationProp prop = memory_of_device(types);
    OK(cu.cuMemGetAllocationGranularity(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    places();
    changes(plain, "other memory at the address");
    changes(again, "other memory at the address, persistent requests");
    together();
    moves();
    remaps();
    if (!r.simulated) times();
    return check_finish();
}
