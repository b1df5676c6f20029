/* halo_hand.c: the exchange as one writes it by hand: a fused kernel packs all 26 regions, 26 contiguous messages each
 * way, a fused kernel unpacks. The packed bytes are in device memory where the MPI is CUDA-aware or stridec is loaded,
 * else in pinned host memory that the kernels reach. */
#include "halo.h"
#include <stdlib.h>

#define THREADS 256

/* The kernels' argument; ORDER BOXES, source. */
struct boxes {
    unsigned row, plane;      /* cells from one to the next in the block */
    struct {
        unsigned first;       /* block of threads */
        unsigned cells, y, z; /* of the region, which is x * y * z cells */
        unsigned at, packed;  /* where it begins, in the block and in the packed bytes */
    } box[NEIGHBOURS];
};

static const char source[] =
    "typedef unsigned u32;\n"
    "struct box { u32 first, cells, y, z, at, packed; };\n"
    "struct boxes { u32 row, plane; struct box box[26]; };\n"
    "static __device__ bool find(const boxes &b, u32 *cell, u32 *slot)\n"
    "{\n"
    "    u32 k = 0;\n"
    "    while (k < 25 && b.box[k + 1].first <= blockIdx.x) k++;\n"
    "    u32 i = (blockIdx.x - b.box[k].first) * blockDim.x + threadIdx.x, z = b.box[k].z, y = b.box[k].y;\n"
    "    if (i >= b.box[k].cells) return false;\n"
    "    *cell = b.box[k].at + i % z + i / z % y * b.row + i / z / y * b.plane;\n"
    "    *slot = b.box[k].packed + i;\n"
    "    return true;\n"
    "}\n"
    "extern \"C\" __global__ void halo_pack(float *block, float *packed, const __grid_constant__ boxes b)\n"
    "{\n"
    "    u32 cell, slot;\n"
    "    if (find(b, &cell, &slot)) packed[slot] = block[cell];\n"
    "}\n"
    "extern \"C\" __global__ void halo_unpack(float *block, float *packed, const __grid_constant__ boxes b)\n"
    "{\n"
    "    u32 cell, slot;\n"
    "    if (find(b, &cell, &slot)) block[cell] = packed[slot];\n"
    "}\n";

/* What is packed before sending, or unpacked after receiving. */
struct fused {
    CUfunction kernel;
    struct boxes boxes;
    unsigned blocks;
    float *packed;
};
struct hand {
    __typeof__(cuLaunchKernel) *launch;
    cudaStream_t stream;
    bool on_device;           /* the packed bytes */
    struct fused out, in;
};

static bool fused_new(struct fused *f, const struct halo *h, const struct box *box, const char *name, bool on_device)
{
    size_t cells = 0;

    f->boxes.row = (unsigned)h->side;
    f->boxes.plane = f->boxes.row * f->boxes.row;
    f->blocks = 0;
    for (int s = 0; s < NEIGHBOURS; s++) {
        unsigned n = (unsigned)box_cells(&box[s]);

        f->boxes.box[s].first = f->blocks;
        f->boxes.box[s].cells = n;
        f->boxes.box[s].y = (unsigned)box[s].size[1];
        f->boxes.box[s].z = (unsigned)box[s].size[2];
        f->boxes.box[s].at = box_first(h, &box[s]);
        f->boxes.box[s].packed = (unsigned)cells;
        cells += n;
        f->blocks += (n + THREADS - 1) / THREADS;
    }
    if (on_device)
        f->packed = device_new(cells * sizeof(float));
    else
        CUDA(cudaMallocHost((void **)&f->packed, cells * sizeof(float)));
    f->kernel = source_kernel(source, name);
    return f->kernel != NULL;
}

static void hand_end(struct halo *h)
{
    struct hand *a = h->way;

    CUDA(a->on_device ? cudaFree(a->out.packed) : cudaFreeHost(a->out.packed));
    CUDA(a->on_device ? cudaFree(a->in.packed) : cudaFreeHost(a->in.packed));
    CUDA(cudaStreamDestroy(a->stream));
    free(a);
}

static bool hand_begin(struct halo *h)
{
    struct hand *a = h->way = host_new(sizeof(*a));
    bool made;

    *(void **)&a->launch = driver_symbol("cuLaunchKernel");
    CUDA(cudaStreamCreateWithFlags(&a->stream, cudaStreamNonBlocking));
    a->on_device = mpi_takes_device() || stridec_loaded();
    made = fused_new(&a->out, h, h->send_box, "halo_pack", a->on_device);
    made = fused_new(&a->in, h, h->recv_box, "halo_unpack", a->on_device) && made;
    if (!made)
        hand_end(h);
    return made;
}

static void move(const struct hand *a, const struct fused *f, float *block)
{
    void *arguments[] = { &block, (void *)&f->packed, (void *)&f->boxes };

    if (a->launch(f->kernel, f->blocks, 1, 1, THREADS, 1, 1, 0, (CUstream)a->stream, arguments, NULL) != CUDA_SUCCESS) {
        fprintf(stderr, "halo: the driver did not launch a kernel\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CUDA(cudaStreamSynchronize(a->stream));
}

static void hand_exchange(void *halo)
{
    struct halo *h = halo;
    struct hand *a = h->way;
    MPI_Request request[2 * NEIGHBOURS];

    for (int s = 0; s < NEIGHBOURS; s++)
        MPI_Irecv(a->in.packed + a->in.boxes.box[s].packed, (int)a->in.boxes.box[s].cells, MPI_FLOAT, h->peer[s],
                  OPPOSITE(s), h->grid, &request[s]);
    move(a, &a->out, h->block);
    for (int s = 0; s < NEIGHBOURS; s++)
        MPI_Isend(a->out.packed + a->out.boxes.box[s].packed, (int)a->out.boxes.box[s].cells, MPI_FLOAT, h->peer[s], s,
                  h->grid, &request[NEIGHBOURS + s]);
    MPI_Waitall(2 * NEIGHBOURS, request, MPI_STATUSES_IGNORE);
    move(a, &a->in, h->block);
}

const struct way way_hand = { .name = "hand-written",
                              .begin = hand_begin,
                              .exchange = hand_exchange,
                              .end = hand_end,
                              .without = "its kernels did not compile" };
