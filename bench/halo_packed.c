/* halo_packed.c: the exchange of a stencil by MPI_Pack of 26 regions into one device buffer, MPI_Alltoallv and
 * MPI_Unpack (TEMPI, Pearson et al. 2021, section 6.4). */
#include "halo.h"
#include <stdlib.h>

/* What goes out or comes in: regions in the order of the buffer, which is that of the ranks and for each rank that of
 * the sender's directions, and each rank's part of it. */
struct half {
    MPI_Datatype region[NEIGHBOURS];
    int *counts, *displs, bytes;
    char *buffer;
};
struct packed {
    struct half out, in;
};

/* Direction s leads to peer[s], or comes from peer[OPPOSITE(s)]. */
static void make_half(struct half *a, const struct halo *h, const MPI_Datatype type[NEIGHBOURS], bool incoming)
{
    int k = 0;

    a->counts = host_new((size_t)h->ranks * sizeof(int));
    a->displs = host_new((size_t)h->ranks * sizeof(int));
    a->bytes = 0;
    for (int r = 0; r < h->ranks; r++) {
        a->displs[r] = a->bytes;
        for (int s = 0; s < NEIGHBOURS; s++) {
            int at = incoming ? OPPOSITE(s) : s, size;

            if (h->peer[at] != r)
                continue;
            MPI_Type_size(type[at], &size);
            a->bytes += size;
            a->region[k++] = type[at];
        }
        a->counts[r] = a->bytes - a->displs[r];
    }
    a->buffer = device_new((size_t)a->bytes);
}

static bool packed_begin(struct halo *h)
{
    struct packed *p = h->way = host_new(sizeof(*p));

    make_half(&p->out, h, h->send, false);
    make_half(&p->in, h, h->recv, true);
    return true;
}

static void packed_exchange(void *halo)
{
    struct halo *h = halo;
    struct packed *p = h->way;
    int position = 0;

    for (int k = 0; k < NEIGHBOURS; k++)
        MPI_Pack(h->block, 1, p->out.region[k], p->out.buffer, p->out.bytes, &position, h->grid);
    MPI_Alltoallv(p->out.buffer, p->out.counts, p->out.displs, MPI_PACKED, p->in.buffer, p->in.counts, p->in.displs,
                  MPI_PACKED, h->grid);
    position = 0;
    for (int k = 0; k < NEIGHBOURS; k++)
        MPI_Unpack(p->in.buffer, p->in.bytes, &position, h->block, 1, p->in.region[k], h->grid);
}

static void half_free(struct half *a)
{
    CUDA(cudaFree(a->buffer));
    free(a->counts);
    free(a->displs);
}

static void packed_end(struct halo *h)
{
    struct packed *p = h->way;

    half_free(&p->out);
    half_free(&p->in);
    free(p);
}

const struct way way_packed = { .name = "pack, alltoallv, unpack",
                                .device_buffers = true,
                                .begin = packed_begin,
                                .exchange = packed_exchange,
                                .end = packed_end };
