/* stream_comms.c: communicators with GPU streams (MPICH's MPIX_Stream_comm_create): MPIX_Recv_enqueue receives within
 * the MPI, past stridec, so all that is sent there must be the payload itself.
 *
 * run: LD_PRELOAD=@STREAMS STRIDEC_TRANSPORT=zerocopy -n 2
 * run: LD_PRELOAD=@STREAMS -n 3
 * run: LD_PRELOAD=@STREAMS MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 2 --host
 */
#include "check.h"
#include <stdlib.h>
#include <string.h>

#ifdef MPIX_STREAM_NULL

#define COUNT 200
#define STEPS 4

typedef int receive(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
static receive *own_recv;   /* past everything that is preloaded */
static int (*own_probe)(int, int, MPI_Comm, MPI_Status *);
static struct layout layout;
static struct buf out, in;
static unsigned char *sent, *got;

static int after(void)
{
    return (my_rank + 1) % num_ranks;
}
static int before(void)
{
    return (my_rank + num_ranks - 1) % num_ranks;
}

/* Makes an MPI's stream; of a GPU, or of none. */
static MPIX_Stream make_stream(bool gpu)
{
    MPIX_Stream stream = MPIX_STREAM_NULL;
    MPI_Info info;
    void *handle = NULL;
    if (!gpu) return stream;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &handle, sizeof handle);
    MPIX_Stream_create(info, &stream);
    MPI_Info_free(&info);
    return stream;
}

/* Sends to the next rank and takes what comes: every second rank in the other order. */
static void step(MPI_Comm comm, int tag, void (*take)(MPI_Comm comm, int tag))
{
    if (my_rank % 2 == 0) MPI_Send(out.origin, COUNT, layout.type, after(), tag, comm);
    take(comm, tag);
    if (my_rank % 2) MPI_Send(out.origin, COUNT, layout.type, after(), tag, comm);
}

static void take_bytes(MPI_Comm comm, int tag)
{
    memset(got, 0, (size_t)layout.bytes);
    own_recv(got, layout.bytes, MPI_BYTE, before(), tag, comm, MPI_STATUS_IGNORE);
    expect(!memcmp(got, sent, (size_t)layout.bytes), "the MPI's own function receives other bytes");
}

static void take(MPI_Comm comm, int tag)
{
    MPI_Recv(in.origin, COUNT, layout.type, before(), tag, comm, MPI_STATUS_IGNORE);
    buf_expect_from(&in, &layout, &layout, 40 + (uint64_t)before());
    buf_check(&in, "a message that stridec receives");
}

static bool described;   /* a message has come as an RTS header */

static void take_either(MPI_Comm comm, int tag)
{
    MPI_Status status;
    int bytes = 0;
    own_probe(before(), tag, comm, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    described |= bytes != layout.bytes;
    take(comm, tag);
}

/* By persistent requests, which find their protocols in another way. */
static void persistent(MPI_Comm comm)
{
    MPI_Request request;
    MPI_Send_init(out.origin, COUNT, layout.type, after(), 9, comm, &request);
    for (int i = 0; i < STEPS; i++) {
        MPI_Start(&request);
        take_bytes(comm, 9);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

/* On communicators of which rank 0, or each rank, has a GPU's stream. */
static void with_streams(int ranks)
{
    MPIX_Stream stream = make_stream(my_rank < ranks);
    MPI_Comm comm, copy, later;
    MPI_Request request;
    MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm);
    if (my_rank < ranks) MPIX_Stream_free(&stream);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_idup(copy, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < STEPS; i++) {
        step(comm, i, take_bytes), step(comm, i, take);
        step(copy, i, take_bytes), step(later, i, take_bytes);
    }
    persistent(comm);
    MPI_Comm_free(&comm), MPI_Comm_free(&copy), MPI_Comm_free(&later);
    report("the streams of %s", ranks == 1 ? "one rank" : "all ranks");
}

/* Expects zero-copy messages, by RTS headers, if no rank has a GPU's stream: once the ranks have found out
 * that they can read each other's memory. On machines without GPUs the ranks do not ask. */
static void without(void)
{
    MPI_Comm comm;
    MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &comm);
    double since = 0;
    int all = 0;
    while (!all) {
        step(comm, 7, take_either);
        int mine = described || host_mode || !within(&since, 20);
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, check_comm);
    }
    expect(described || host_mode, "no message came as an RTS header");
    MPI_Comm_free(&comm);
    report("no stream");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    *(void **)&own_recv = own_function("PMPI_Recv"), *(void **)&own_probe = own_function("PMPI_Probe");
    layout_number(&layout, 1, COUNT);
    buf_make(&out, host_mode ? MEM_HOST : MEM_DEVICE, &layout, 0, 40 + (uint64_t)my_rank);
    buf_make(&in, host_mode ? MEM_HOST : MEM_DEVICE, &layout, 0, 3);
    sent = layout_packed(&layout, 40 + (uint64_t)before()), got = malloc((size_t)layout.bytes);
    without();
    with_streams(1);
    with_streams(num_ranks);
    free(sent), free(got);
    buf_free(&out), buf_free(&in), layout_free(&layout);
    return check_finish();
}

#else
int main(int argc, char **argv)
{
    return check_left_out(&argc, &argv, "the MPI has no such calls");
}
#endif
