/* halo_link.c: the exchange as the best would write it by hand, without the MPI: one kernel a rank moves all 26
 * regions from layout to layout, in memory of the other ranks that CUDA IPC mapped once; flags in device memory stand
 * for messages.
 *
 * A rank's kernel first tells each partner that it has entered exchange `epoch`: its halo may be written, and its
 * cells be read. A block of threads that moves a region waits for that of the partner, moves its words, and tells the
 * partner so by a flag of its own. The kernel ends when all blocks of partners that move to or from this rank have
 * told theirs. Then the halo is there and the cells may change: what a return from the MPI says. Ranks do not meet
 * otherwise.
 *
 * No block waits for a later one of any rank, and what waits for blocks of others comes last: it works however few run
 * at a time. The regions are cut alike on all ranks, so a block has one number on both sides. */
#include "halo.h"
#include <stdlib.h>
#include <string.h>

#define THREADS 256
#define EACH 4        /* words of a thread */
#define PER_BLOCK (THREADS * EACH)
#define DONE 32       /* of a rank's flags: before it who has entered, by direction; from it on one for each block */

/* The kernel's argument; ORDER LINKS, source. */
struct links {
    unsigned row, plane;             /* words from one to the next in a block of cells */
    unsigned epoch, remote;          /* the exchange; blocks of threads that serve other ranks, the first ones */
    void *cells;                     /* of this rank */
    unsigned *flags;
    struct {
        unsigned first;              /* block of threads */
        unsigned words, y, z;        /* of the region, which is x * y * z words */
        unsigned here, there;        /* where it begins, in the cells of this rank and of the partner */
        unsigned mine, theirs;       /* flags of who has entered */
        void *cells;                 /* the partner's */
        unsigned *flags;             /* the partner's; NULL: the rank itself */
    } box[NEIGHBOURS];
};

/* WORD and READS are defined before it. */
static const char source[] =
    "typedef unsigned u32;\n"
    "struct box { u32 first, words, y, z, here, there, mine, theirs; WORD *cells; u32 *flags; };\n"
    "struct links { u32 row, plane, epoch, remote; WORD *cells; u32 *flags; struct box box[26]; };\n"
    "#if defined(__CUDACC_VER_MAJOR__)\n"
    "static __device__ u32 flag_read(const u32 *at)\n"
    "{\n"
    "    u32 flag;\n"
    "    asm volatile(\"ld.acquire.sys.global.u32 %0, [%1];\" : \"=r\"(flag) : \"l\"(at) : \"memory\");\n"
    "    return flag;\n"
    "}\n"
    "static __device__ void flag_write(u32 *at, u32 flag)\n"
    "{\n"
    "    asm volatile(\"st.release.sys.global.u32 [%0], %1;\" ::\"l\"(at), \"r\"(flag) : \"memory\");\n"
    "}\n"
    "#else\n"
    "static u32 flag_read(const u32 *at)\n"
    "{\n"
    "    const u32 flag = *(const volatile u32 *)at;\n"
    "    __threadfence_system();\n"
    "    return flag;\n"
    "}\n"
    "static void flag_write(u32 *at, u32 flag)\n"
    "{\n"
    "    __threadfence_system();\n"
    "    *(volatile u32 *)at = flag;\n"
    "}\n"
    "#endif\n"
    "static __device__ void await(const u32 *at, u32 flag)\n"
    "{\n"
    "    const long long begun = clock64();\n"
    "    while (flag_read(at) != flag)\n"
    "        if (clock64() - begun > 40000000000ll) __trap();\n"   /* some 20 s: another rank has ended */
    "}\n"
    "extern \"C\" __global__ void halo_link(const __grid_constant__ links l)\n"
    "{\n"
    "    const u32 b = blockIdx.x, i = threadIdx.x;\n"
    "    if (b == 0) {\n"
    "        if (i < 26 && l.box[i].flags) flag_write(l.box[i].flags + l.box[i].theirs, l.epoch);\n"
    "        __syncthreads();\n"   /* no thread waits for a partner that waits for the next thread's flag */
    "    }\n"
    "    if (b == gridDim.x - 1) {\n"
    "        for (u32 k = i; k < l.remote; k += blockDim.x) await(l.flags + 32 + k, l.epoch);\n"
    "        return;\n"
    "    }\n"
    "    u32 k = 0;\n"
    "    while (k < 25 && l.box[k + 1].first <= b) k++;\n"
    "    const box &x = l.box[k];\n"
    "    WORD word[4], *here = l.cells + x.here, *there = x.cells + x.there;\n"
    "    u32 at[4];\n"
    "#pragma unroll\n"
    "    for (u32 j = 0; j < 4; j++) {\n"
    "        const u32 w = (b - x.first) * 4 * blockDim.x + j * blockDim.x + i;\n"
    "        at[j] = w < x.words ? w % x.z + w / x.z % x.y * l.row + w / x.z / x.y * l.plane : ~0u;\n"
    "    }\n"
    "    if (x.flags) {\n"
    "        if (i == 0) await(l.flags + x.mine, l.epoch);\n"
    "        __syncthreads();\n"
    "    }\n"
    "#pragma unroll\n"
    "    for (u32 j = 0; j < 4; j++)\n"
    "        if (at[j] != ~0u) word[j] = (READS ? there : here)[at[j]];\n"
    "#pragma unroll\n"
    "    for (u32 j = 0; j < 4; j++)\n"
    "        if (at[j] != ~0u) (READS ? here : there)[at[j]] = word[j];\n"
    "    if (x.flags) {\n"
    "        __syncthreads();\n"
    "        if (i == 0) flag_write(x.flags + 32 + b, l.epoch);\n"
    "    }\n"
    "}\n";

struct link {
    __typeof__(cuLaunchKernel) *launch;
    cudaStream_t stream;
    CUfunction kernel;
    unsigned blocks;
    struct links links;
    float *out;              /* what a kernel before it writes, or NULL */
    struct mapped { void *cells, *flags; } *of;   /* of each rank, NULL where they are not mapped */
};

/* Floats of a word: the most that all regions begin and end at multiples of. */
static unsigned word_cells(const struct halo *h)
{
    return h->n % 4 == 0 && h->radius % 4 == 0 ? 4 : h->n % 2 == 0 && h->radius % 2 == 0 ? 2 : 1;
}

/* Cuts the regions into blocks of threads: those that go to other ranks, or to the rank itself. */
static void cut(struct link *a, const struct halo *h, bool reads, bool remote, int *k)
{
    const struct box *here = reads ? h->recv_box : h->send_box, *there = reads ? h->send_box : h->recv_box;
    unsigned word = word_cells(h);

    for (int s = 0; s < NEIGHBOURS; s++) {
        unsigned words = (unsigned)box_cells(&here[s]) / word;

        if ((h->peer[s] != h->rank) != remote)
            continue;
        a->links.box[*k].first = a->blocks;
        a->links.box[*k].words = words;
        a->links.box[*k].y = (unsigned)here[s].size[1];
        a->links.box[*k].z = (unsigned)here[s].size[2] / word;
        a->links.box[*k].here = box_first(h, &here[s]) / word;
        a->links.box[*k].there = box_first(h, &there[OPPOSITE(s)]) / word;
        a->links.box[*k].mine = (unsigned)s;
        a->links.box[*k].theirs = OPPOSITE(s);
        a->blocks += (words + PER_BLOCK - 1) / PER_BLOCK;
        (*k)++;
    }
}

static void lay_out(struct link *a, const struct halo *h, bool reads)
{
    unsigned word = word_cells(h);
    int k = 0;

    a->links.row = (unsigned)h->side / word;
    a->links.plane = (unsigned)h->side * a->links.row;
    a->links.cells = h->block;
    cut(a, h, reads, true, &k);
    a->links.remote = a->blocks;
    cut(a, h, reads, false, &k);
    a->blocks++;   /* the one that waits for other ranks */
}

static void *mapped(cudaIpcMemHandle_t handle)
{
    void *p;

    if (cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
        return p;
    cudaGetLastError();
    return NULL;
}

/* Maps the cells and flags of all partners; collective. */
static bool connect(struct link *a, const struct halo *h)
{
    struct handles { cudaIpcMemHandle_t cells, flags; } mine, *all = host_new((size_t)h->ranks * sizeof(*all));
    bool whole = true;

    CUDA(cudaIpcGetMemHandle(&mine.cells, h->block));
    CUDA(cudaIpcGetMemHandle(&mine.flags, a->links.flags));
    MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, h->grid);
    for (int k = 0; k < NEIGHBOURS; k++) {
        int peer = h->peer[a->links.box[k].mine];
        struct mapped *of = &a->of[peer];

        a->links.box[k].cells = h->block;
        a->links.box[k].flags = NULL;
        if (peer == h->rank)
            continue;
        of->cells = of->cells ? of->cells : mapped(all[peer].cells);
        of->flags = of->flags ? of->flags : mapped(all[peer].flags);
        whole = whole && of->cells && of->flags;
        a->links.box[k].cells = of->cells;
        a->links.box[k].flags = of->flags;
    }
    free(all);
    return whole;
}

/* Collective: nobody frees what another one has mapped. */
static void link_end(struct halo *h)
{
    struct link *a = h->way;

    for (int r = 0; r < h->ranks; r++) {
        if (a->of[r].cells)
            CUDA(cudaIpcCloseMemHandle(a->of[r].cells));
        if (a->of[r].flags)
            CUDA(cudaIpcCloseMemHandle(a->of[r].flags));
    }
    MPI_Barrier(h->grid);
    CUDA(cudaFree(a->links.flags));
    if (a->out)
        CUDA(cudaFree(a->out));
    CUDA(cudaStreamDestroy(a->stream));
    free(a->of);
    free(a);
}

static bool begin(struct halo *h, bool reads)
{
    struct link *a = h->way = host_new(sizeof(*a));
    size_t flag_bytes;
    char text[sizeof(source) + 64];
    bool made;

    memset(a, 0, sizeof(*a));
    a->of = host_new((size_t)h->ranks * sizeof(*a->of));
    memset(a->of, 0, (size_t)h->ranks * sizeof(*a->of));
    *(void **)&a->launch = driver_symbol("cuLaunchKernel");
    CUDA(cudaStreamCreateWithFlags(&a->stream, cudaStreamNonBlocking));
    lay_out(a, h, reads);
    flag_bytes = (DONE + a->blocks) * sizeof(unsigned);
    a->links.flags = device_new(flag_bytes);
    device_set(a->links.flags, 0, flag_bytes);
    made = connect(a, h);
    snprintf(text, sizeof(text), "#define WORD float%u\n#define READS %d\n%s", word_cells(h), reads, source);
    a->kernel = source_kernel(text, "halo_link");
    made = made && a->kernel;
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_C_BOOL, MPI_LAND, h->grid);
    if (!made)
        link_end(h);
    return made;
}

static bool write_begin(struct halo *h)
{
    return begin(h, false);
}

static bool read_begin(struct halo *h)
{
    return begin(h, true);
}

static bool kernel_begin(struct halo *h)
{
    struct link *a;

    if (!begin(h, true))
        return false;
    a = h->way;
    a->out = device_new(h->cells * sizeof(float));
    if (halo_compute(h, a->out, a->stream))
        return true;
    link_end(h);
    return false;
}

static void link_exchange(void *halo)
{
    const struct halo *h = halo;
    struct link *a = h->way;
    void *arguments[] = { &a->links };

    a->links.epoch++;
    if (a->out)
        halo_compute(h, a->out, a->stream);
    if (a->launch(a->kernel, a->blocks, 1, 1, THREADS, 1, 1, 0, (CUstream)a->stream, arguments, NULL) != CUDA_SUCCESS) {
        fprintf(stderr, "halo: the driver did not launch a kernel\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CUDA(cudaStreamSynchronize(a->stream));
}

static const char needs[] = "its kernel did not compile, or CUDA IPC does not map the memory of other ranks";
const struct way way_link = { .name = "link",
                              .begin = write_begin,
                              .exchange = link_exchange,
                              .end = link_end,
                              .without = needs };
const struct way way_link_read = { .name = "link, reading",
                                   .begin = read_begin,
                                   .exchange = link_exchange,
                                   .end = link_end,
                                   .without = needs };
const struct way way_kernel_link = { .name = "a kernel and the link",
                                     .begin = kernel_begin,
                                     .exchange = link_exchange,
                                     .end = link_end,
                                     .without = needs };
