/* mixed.c: contiguous and derived messages over the same device memory, which is freed and made again. Whatever the MPI
 * and stridec have opened of it, both get the right bytes.
 *
 * usage: mixed [ALLOCATIONS]
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_REUSE=1 -n 3
 */
#include "check.h"
#include "resources.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, STEP = 32, LEAST = 1 << 10, MOST = 8 << 20, SMALL = 256 << 10, UNTOUCHED = -1, ONCE = 16, LARGE = 3 << 20 };
/* The ways of a message: each side's type, and an alltoall of contiguous ones between the messages. */
enum way { BOTH_CONTIGUOUS, BOTH_DERIVED, PACKING, UNPACKING, ALLTOALL, WAYS };
static const char *const way_name[WAYS] = {"contiguous", "derived", "derived to contiguous", "contiguous to derived",
                                           "alltoall"};

struct memory {
    int *out, *in, *host;   /* two thirds of out and in are used by derived types */
    int ints;               /* of a message */
};

static int salt;

static int value(int rank, int64_t at)
{
    return (int)(((int64_t)rank << 28) + salt * 1000003 + at) & 0x7fffffff;
}

/* The place of a message's int. */
static int64_t place(bool derived, int i)
{
    return derived ? (int64_t)(i / BLOCK) * STEP + i % BLOCK : i;
}

static void memory_make(struct memory *m, size_t bytes)
{
    size_t all = 2 * bytes;
    m->ints = (int)(bytes / sizeof(int));
    m->out = mem_alloc(MEM_DEVICE, all);
    m->in = mem_alloc(MEM_DEVICE, all);
    m->host = malloc(all);
}

static void memory_free(struct memory *m)
{
    mem_free(MEM_DEVICE, m->out);
    mem_free(MEM_DEVICE, m->in);
    free(m->host);
}

static void fill(struct memory *m)
{
    size_t all = 2 * (size_t)m->ints;
    salt++;
    memset(m->host, 0xff, all * sizeof(int));
    mem_write(MEM_DEVICE, m->in, m->host, all * sizeof(int));
    for (size_t i = 0; i < all; i++) m->host[i] = value(my_rank, (int64_t)i);
    mem_write(MEM_DEVICE, m->out, m->host, all * sizeof(int));
}

/* Checks that what came from `source` is what it sent, and that nothing else was written. */
static void check_ring(struct memory *m, int source, bool sent_derived, bool got_derived, const char *what)
{
    size_t all = 2 * (size_t)m->ints, wrong = 0;
    mem_read(MEM_DEVICE, m->host, m->in, all * sizeof(int));
    for (int i = 0; i < m->ints; i++) {
        int *got = &m->host[place(got_derived, i)];
        wrong += *got != value(source, place(sent_derived, i));
        *got = UNTOUCHED;
    }
    for (size_t i = 0; i < all; i++) wrong += m->host[i] != UNTOUCHED;
    expect(!wrong, "%s, %d ints: %zu of them wrong", what, m->ints, wrong);
}

static void ring(struct memory *m, bool send_derived, bool receive_derived, bool together, const char *what)
{
    int to = (my_rank + 1) % num_ranks, from = (my_rank + num_ranks - 1) % num_ranks;
    MPI_Datatype vector;
    MPI_Type_vector(m->ints / BLOCK, BLOCK, STEP, MPI_INT, &vector);
    type_commit(&vector);
    int out = send_derived ? 1 : m->ints, in = receive_derived ? 1 : m->ints;
    MPI_Datatype sent = send_derived ? vector : MPI_INT, got = receive_derived ? vector : MPI_INT;
    if (together) {
        MPI_Sendrecv(m->out, out, sent, to, 1, m->in, in, got, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Request r[2];
        MPI_Irecv(m->in, in, got, from, 2, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(m->out, out, sent, to, 2, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Type_free(&vector);
    check_ring(m, from, send_derived, receive_derived, what);
}

static void alltoall(struct memory *m)
{
    int each = m->ints / num_ranks, wrong = 0;
    MPI_Alltoall(m->out, each, MPI_INT, m->in, each, MPI_INT, MPI_COMM_WORLD);
    mem_read(MEM_DEVICE, m->host, m->in, (size_t)each * (size_t)num_ranks * sizeof(int));
    for (int i = 0; i < each * num_ranks; i++)
        wrong += m->host[i] != value(i / each, (int64_t)my_rank * each + i % each);
    expect_equal(wrong, 0, "ints that an alltoall got wrong");
}

static void go(struct memory *m, enum way way)
{
    bool together = roll(2);
    fill(m);
    bool sends = way == BOTH_DERIVED || way == PACKING, receives = way == BOTH_DERIVED || way == UNPACKING;
    if (way == ALLTOALL) alltoall(m);
    else ring(m, sends, receives, together, way_name[way]);
}

/* All ways, in any order: the MPI or stridec is the first to open the memory. */
static void all_ways(size_t bytes)
{
    struct memory m;
    memory_make(&m, bytes);
    uint32_t first = roll(WAYS), by = 1 + roll(WAYS - 1);   /* 5 is prime */
    for (uint32_t i = 0; i < WAYS; i++) go(&m, (enum way)((first + i * by) % WAYS));
    memory_free(&m);
}

/* Small memory beside what stays, so that it comes back in the same block at other lengths. */
static void churn(int allocations)
{
    void *beside = mem_alloc(MEM_DEVICE, LEAST);
    for (int i = 0; i < allocations; i++) {
        struct memory m;
        memory_make(&m, (size_t)(1 + roll(SMALL / LEAST)) * LEAST);
        for (int k = 0; k < 3; k++) go(&m, (enum way)roll(WAYS));
        memory_free(&m);
    }
    mem_free(MEM_DEVICE, beside);
}

/* Memory that is sent from once is opened by nobody: stridec moves it first. That has memory of stridec's own opened, at most
 * once a peer and buffer. */
static void sent_once(void)
{
    struct resources before, after;
    struct memory m;
    for (int i = 0; i < ONCE; i++) {
        memory_make(&m, LARGE);
        if (i == ONCE / 2) resources_now(&before);
        fill(&m);
        ring(&m, true, true, i % 2, "sent once");
        MPI_Barrier(MPI_COMM_WORLD);   /* the buffer is back */
        memory_free(&m);
    }
    resources_now(&after);
    expect(after.opens - before.opens <= 2, "%lld allocations were opened", (long long)(after.opens - before.opens));
    report("memory that is sent from once");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    int allocations = argc > 1 ? atoi(argv[argc - 1]) : 0;
    if (!allocations) allocations = 60;
    for (size_t bytes = LEAST; bytes <= MOST; bytes *= 2) {
        all_ways(bytes);
        report("messages of %zu bytes", bytes);
    }
    sent_once();
    churn(allocations);
    report("%d small allocations, one after the other", allocations);
    return check_finish();
}
