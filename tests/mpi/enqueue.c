/* enqueue.c: MPICH's messages in the order of a communicator's stream (MPIX_Send_enqueue and its kin), of device
 * memory, in layouts with gaps. The MPI gets packed bytes in host memory: what stands in for it here takes nothing
 * else.
 *
 * run: LD_PRELOAD=@STREAMS -n 2
 * run: LD_PRELOAD=@STREAMS SIMGPU_EAGER=1 -n 3
 * run: LD_PRELOAD=@STREAMS STRIDEC_TRANSPORT=zerocopy -n 1
 */
#include "check.h"
#include <cuda_runtime.h>
#include <stdlib.h>

#ifdef MPIX_STREAM_NULL

#define COUNT 40
#define SHORTER 13
#define ROUNDS 6

static MPI_Comm comm;
static cudaStream_t stream;
static uint64_t salt = 50;

/* A message to the next rank and one from the rank before, of two layouts. `source` is what the stream copies. */
struct ring {
    struct layout sent, received;
    struct buf source, out, in;
};

static int after(void)
{
    return (my_rank + 1) % num_ranks;
}
static int before(void)
{
    return (my_rank + num_ranks - 1) % num_ranks;
}

static void ring_make(struct ring *r, int sent, int received, enum mem_kind kind)
{
    layout_number(&r->sent, sent, COUNT), layout_number(&r->received, received, COUNT);
    buf_make(&r->source, kind, &r->sent, 0, 1), buf_make(&r->out, kind, &r->sent, 0, 2);
    buf_make(&r->in, kind, &r->received, 0, 3);
}

static void ring_free(struct ring *r)
{
    buf_free(&r->source), buf_free(&r->out), buf_free(&r->in);
    layout_free(&r->sent), layout_free(&r->received);
}

/* New data, which the stream brings to where they are sent from. */
static void ring_fill(struct ring *r)
{
    salt += (uint64_t)num_ranks;
    buf_fill(&r->source, salt + (uint64_t)my_rank);
    cudaMemcpyAsync(r->out.base, r->source.base, r->out.bytes, cudaMemcpyDefault, stream);
}

static void ring_check(struct ring *r, const char *what)
{
    cudaStreamSynchronize(stream);
    buf_expect_from(&r->in, &r->received, &r->sent, salt + (uint64_t)before());
    buf_check(&r->in, what);
}

/* Blocking messages: each stream sends first at one rank alone, or the ring would not begin. */
static void blocking(const struct ring *r, int tag, MPI_Status *status)
{
    for (int turn = 0; turn < 2; turn++)
        if ((turn == 0) == (my_rank > 0))
            MPIX_Recv_enqueue(r->in.origin, COUNT, r->received.type, before(), tag, comm, status);
        else
            MPIX_Send_enqueue(r->out.origin, COUNT, r->sent.type, after(), tag, comm);
}

static void expect_count(const MPI_Status *status, MPI_Datatype type, int want)
{
    int count = -1;
    MPI_Get_count(status, type, &count);
    expect_equal(count, want, "the count of a status");
    expect_equal(status->MPI_SOURCE, before(), "the source of a status");
}

static void with_blocking(int sent, int received)
{
    struct ring r;
    MPI_Status status;
    ring_make(&r, sent, received, MEM_DEVICE);
    for (int i = 0; i < ROUNDS && num_ranks > 1; i++) {
        ring_fill(&r);
        blocking(&r, i, &status);
        ring_check(&r, "a blocking message");
        expect_count(&status, r.received.type, COUNT);
    }
    ring_free(&r);
    report("blocking messages, layouts %d and %d", sent, received);
}

/* Starts the messages of a ring; the types are freed before the messages are waited for. */
static void start(struct ring *r, int tag, MPI_Request request[2])
{
    MPI_Datatype sent, received;
    MPI_Type_dup(r->sent.type, &sent), MPI_Type_dup(r->received.type, &received);
    MPIX_Irecv_enqueue(r->in.origin, COUNT, received, before(), tag, comm, &request[0]);
    MPIX_Isend_enqueue(r->out.origin, COUNT, sent, after(), tag, comm, &request[1]);
    MPI_Type_free(&sent), MPI_Type_free(&received);
}

static void with_requests(void)
{
    struct ring a, b;
    MPI_Request request[4];
    MPI_Status status[4];
    ring_make(&a, 1, 2, MEM_DEVICE), ring_make(&b, 3, 1, MEM_DEVICE);
    for (int i = 0; i < ROUNDS; i++) {
        ring_fill(&a), start(&a, 1, request);
        if (i % 2) {
            MPIX_Wait_enqueue(&request[1], MPI_STATUS_IGNORE), MPIX_Wait_enqueue(&request[0], &status[0]);
            ring_check(&a, "a message that MPIX_Wait_enqueue completes");
            continue;
        }
        uint64_t first = salt;
        ring_fill(&b), start(&b, 2, request + 2);
        MPIX_Waitall_enqueue(4, request, status);
        ring_check(&b, "the last message that MPIX_Waitall_enqueue completes");
        salt = first;
        ring_check(&a, "the first message that MPIX_Waitall_enqueue completes");
        salt += (uint64_t)num_ranks;
        expect_count(&status[2], b.received.type, COUNT);
    }
    ring_free(&a), ring_free(&b);
    report("nonblocking messages");
}

/* A message that is shorter than its receive leaves the rest of the buffer as it was. */
static void with_less(void)
{
    struct ring r;
    MPI_Request request[2];
    MPI_Status status;
    ring_make(&r, 1, 2, MEM_DEVICE);
    unsigned char *packed = layout_packed(&r.sent, (uint64_t)before());
    buf_fill(&r.out, (uint64_t)my_rank);
    MPIX_Irecv_enqueue(r.in.origin, COUNT, r.received.type, before(), 1, comm, &request[0]);
    MPIX_Isend_enqueue(r.out.origin, SHORTER, r.sent.type, after(), 1, comm, &request[1]);
    MPIX_Wait_enqueue(&request[0], &status), MPIX_Wait_enqueue(&request[1], MPI_STATUS_IGNORE);
    cudaStreamSynchronize(stream);
    buf_expect(&r.in, &r.received, packed, r.sent.bytes / COUNT * SHORTER);
    buf_check(&r.in, "a shorter message");
    expect_count(&status, r.received.type, SHORTER);
    free(packed);
    ring_free(&r);
    report("a message that is shorter than its receive");
}

/* Many messages that the stream has not come to yet, of different lengths. */
static void many(void)
{
    struct layout all;
    struct buf out, in;
    layout_number(&all, 1, COUNT);
    buf_make(&out, MEM_DEVICE, &all, 0, 60 + (uint64_t)my_rank), buf_make(&in, MEM_DEVICE, &all, 0, 3);
    MPI_Aint low, extent;
    MPI_Type_get_extent(all.type, &low, &extent);
    for (int at = 0, n = 1; num_ranks > 1 && at < COUNT; at += n, n = n % 5 + 1) {
        int now = at + n > COUNT ? COUNT - at : n;
        for (int turn = 0; turn < 2; turn++)
            if ((turn == 0) == (my_rank > 0))
                MPIX_Recv_enqueue((char *)in.origin + at * extent, now, all.type, before(), 1, comm, MPI_STATUS_IGNORE);
            else
                MPIX_Send_enqueue((char *)out.origin + at * extent, now, all.type, after(), 1, comm);
    }
    cudaStreamSynchronize(stream);
    if (num_ranks > 1) buf_expect_from(&in, &all, &all, 60 + (uint64_t)before());
    buf_check(&in, "many messages");
    buf_free(&out), buf_free(&in), layout_free(&all);
    report("many messages before the stream runs");
}

/* Waits that the MPI refuses leave the messages as they were. */
static void with_refused(void)
{
    struct ring r;
    MPI_Request request[2];
    ring_make(&r, 1, 2, MEM_DEVICE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < ROUNDS; i++) {
        ring_fill(&r), start(&r, 1, request);
        int rc = i % 2 ? MPIX_Waitall_enqueue(2, request, NULL) : MPIX_Wait_enqueue(&request[0], NULL);
        expect_equal(error_class(rc), MPI_ERR_ARG, "the error of a wait without a status");
        MPIX_Waitall_enqueue(2, request, MPI_STATUSES_IGNORE);
        ring_check(&r, "a message after a wait that was refused");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    ring_free(&r);
    report("waits that are refused");
}

#define BLOCKS 3000
static MPI_Datatype irregular(int at[BLOCKS])
{
    MPI_Datatype type;
    for (int i = 0, past = 0; i < BLOCKS; i++) at[i] = past += 1 + (int)roll(5);
    MPI_Type_create_indexed_block(BLOCKS, 1, at, MPI_DOUBLE, &type);
    type_commit(&type);
    return type;
}

/* The lists of a type that is freed before the stream has packed must not become another's. */
static void with_freed_types(void)
{
    static int at[BLOCKS], other[BLOCKS];
    static double host[6 * BLOCKS];
    double *from = mem_alloc(MEM_DEVICE, sizeof host), *to = mem_alloc(MEM_PINNED, BLOCKS * sizeof *to),
           *packed = mem_alloc(MEM_DEVICE, BLOCKS * sizeof *packed);
    MPI_Request request[2];
    for (int i = 0; i < 6 * BLOCKS; i++) host[i] = i + my_rank;
    mem_write(MEM_DEVICE, from, host, sizeof host);
    for (int i = 0; i < ROUNDS; i++) {
        int bad = 0;
        MPI_Datatype type = irregular(at), next;
        MPI_Pack(from, 1, type, packed, BLOCKS * sizeof *packed, &(int){0}, MPI_COMM_WORLD);   /* its lists are there */
        MPIX_Irecv_enqueue(to, BLOCKS, MPI_DOUBLE, before(), 1, comm, &request[0]);
        MPIX_Isend_enqueue(from, 1, type, after(), 1, comm, &request[1]);
        MPIX_Waitall_enqueue(2, request, MPI_STATUSES_IGNORE);
        MPI_Type_free(&type);
        next = irregular(other);
        MPI_Pack(from, 1, next, packed, BLOCKS * sizeof *packed, &(int){0}, MPI_COMM_WORLD);
        cudaStreamSynchronize(stream);
        MPI_Type_free(&next);
        for (int k = 0; k < BLOCKS; k++) bad += to[k] != at[k] + before();
        expect_equal(bad, 0, "the number of wrong elements of a freed type");
    }
    mem_free(MEM_DEVICE, from), mem_free(MEM_PINNED, to), mem_free(MEM_DEVICE, packed);
    report("types that are freed early");
}

static void with_host_memory(void)
{
    struct ring r;
    ring_make(&r, 1, 2, MEM_PINNED);
    if (num_ranks > 1) {
        ring_fill(&r), blocking(&r, 1, MPI_STATUS_IGNORE);
        ring_check(&r, "a message of host memory");
    }
    ring_free(&r);
    report("host memory");
}

/* Returns a communicator of another's ranks with that stream. */
static MPI_Comm on(cudaStream_t of, MPI_Comm parent)
{
    MPIX_Stream own;
    MPI_Info info;
    MPI_Comm made;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &of, sizeof of);
    MPIX_Stream_create(info, &own);
    MPI_Info_free(&info);
    MPIX_Stream_comm_create(parent, own, &made);
    MPIX_Stream_free(&own);
    return made;
}

/* Communicators made of one with a stream have their own. */
static void with_parents(void)
{
    struct ring r;
    MPI_Request request[2];
    cudaStream_t was = stream;
    MPI_Comm parent = comm, none;
    ring_make(&r, 1, 2, MEM_DEVICE);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    MPIX_Stream_comm_create(parent, MPIX_STREAM_NULL, &none);
    comm = on(stream, none);
    ring_fill(&r), start(&r, 1, request);
    MPIX_Waitall_enqueue(2, request, MPI_STATUSES_IGNORE);
    ring_check(&r, "a message in the order of the child's stream");
    MPI_Comm_free(&comm), MPI_Comm_free(&none);
    cudaStreamDestroy(stream);
    ring_free(&r);
    stream = was, comm = parent;
    report("communicators of a communicator with a stream");
}

/* On a communicator whose stream the MPI has been given back, and on a duplicate of it. */
static void on_stream(void)
{
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    MPI_Comm made = comm = on(stream, MPI_COMM_WORLD);
    with_blocking(1, 2), with_blocking(3, 1), with_blocking(2, 3);
    MPI_Comm_dup(made, &comm);
    MPI_Comm_free(&made);
    with_requests(), with_less(), many(), with_refused(), with_freed_types(), with_parents(), with_host_memory();
    cudaStreamDestroy(stream);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < 2; i++) on_stream();
    return check_finish();
}

#else
int main(int argc, char **argv)
{
    return check_left_out(&argc, &argv, "the MPI has no such calls");
}
#endif
