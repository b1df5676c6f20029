/* brief.c: messages from device memory that are shorter than an RTS header: they go zero-copy too, until the
 * receiver first receives as little in host memory, and what is under way then arrives all the same.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 2 packed
 */
#include "check.h"
#include "offers.h"
#include <stdlib.h>
#include <string.h>

#define ROUNDS 400   /* until both ranks have tried each other's memory */

static bool packed;
static uint64_t salt = 10;

/* `floats` of 4 bytes, 8 bytes apart. */
static void small(struct layout *l, int floats)
{
    MPI_Datatype type;
    MPI_Type_vector(floats, 1, 2, MPI_FLOAT, &type);
    MPI_Type_commit(&type);
    layout_of(l, type, 1, "floats, every other");
}

struct message {
    const struct layout *l;
    void *buf;
    int tag;
    MPI_Status *status;
};

static void blocking(const struct message *m)
{
    if (my_rank == 0) MPI_Send(m->buf, 1, m->l->type, 1, m->tag, MPI_COMM_WORLD);
    else MPI_Recv(m->buf, 1, m->l->type, 0, m->tag, MPI_COMM_WORLD, m->status);
}

static void pending(const struct message *m)
{
    MPI_Request r;
    if (my_rank == 0) MPI_Isend(m->buf, 1, m->l->type, 1, m->tag, MPI_COMM_WORLD, &r);
    else MPI_Irecv(m->buf, 1, m->l->type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, m->status);
}

static void exchanged(const struct message *m)
{
    int none = MPI_PROC_NULL;
    if (my_rank == 0)
        MPI_Sendrecv(m->buf, 1, m->l->type, 1, m->tag, NULL, 0, MPI_BYTE, none, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Sendrecv(NULL, 0, MPI_BYTE, none, 0, m->buf, 1, m->l->type, 0, m->tag, MPI_COMM_WORLD, m->status);
}

static void told(const struct message *m, const MPI_Status *status, const char *by)
{
    int n = -1;
    MPI_Get_count(status, m->l->type, &n);
    expect(n == 1 && status->MPI_SOURCE == 0 && status->MPI_TAG == m->tag, "%s tells of %d elements of rank %d, tag %d", by,
           n, status->MPI_SOURCE, status->MPI_TAG);
}

static void probed(const struct message *m)
{
    MPI_Status seen;
    if (my_rank) MPI_Probe(0, m->tag, MPI_COMM_WORLD, &seen), told(m, &seen, "MPI_Probe");
    blocking(m);
}

static void matched(const struct message *m)
{
    MPI_Message message;
    MPI_Status seen;
    if (my_rank == 0) {
        blocking(m);
        return;
    }
    MPI_Mprobe(0, m->tag, MPI_COMM_WORLD, &message, &seen);
    told(m, &seen, "MPI_Mprobe");
    MPI_Mrecv(m->buf, 1, m->l->type, &message, m->status);
}

static void persistent(const struct message *m)
{
    MPI_Request r;
    if (my_rank == 0) MPI_Send_init(m->buf, 1, m->l->type, 1, m->tag, MPI_COMM_WORLD, &r);
    else MPI_Recv_init(m->buf, 1, m->l->type, 0, m->tag, MPI_COMM_WORLD, &r);
    MPI_Start(&r);
    MPI_Wait(&r, m->status);
    MPI_Request_free(&r);
}

typedef void way(const struct message *m);
static way *const ways[] = {blocking, pending, exchanged, probed, matched, persistent};
#define WAYS (int)(sizeof ways / sizeof *ways)

/* One message into memory of a kind. */
static void carry(way *w, const struct layout *l, enum mem_kind into, const char *what)
{
    struct buf b;
    MPI_Status status;
    struct message m = {l, NULL, 7, &status};
    salt++;
    buf_make(&b, my_rank ? into : MEM_DEVICE, l, 0, my_rank ? 1 : salt);
    m.buf = b.origin;
    w(&m);
    if (my_rank) told(&m, &status, what), buf_expect_from(&b, l, l, salt), buf_check(&b, what);
    buf_free(&b);
}

/* The ranks try each other's memory when they first meet: until then all is packed. */
static void meet(void)
{
    struct layout l;
    int met = 0, all = 0;
    small(&l, 200);
    for (int i = 0; i < ROUNDS && !all; i++) {
        carry(blocking, &l, MEM_DEVICE, "a long message");
        met = my_rank || offers_used();
        MPI_Allreduce(&met, &all, 1, MPI_INT, MPI_MIN, check_comm);
    }
    if (!packed) expect(all, "nothing was offered");
    layout_free(&l);
    report("the ranks meet");
}

/* No header fits into these: a CUDA-aware MPI takes them, and short messages are offered as before. */
static void shorter(void)
{
    struct layout l;
    MPI_Datatype type;
    MPI_Type_contiguous(2, MPI_FLOAT, &type);
    MPI_Type_commit(&type);
    layout_of(&l, type, 1, "two floats");
    for (int w = 0; w < WAYS; w++) carry(ways[w], &l, MEM_DEVICE, "two floats in device memory");
    layout_free(&l);
    report("contiguous messages shorter than any header");
}

static void offers_brief(void)
{
    static const int floats[] = {7, 8, 9, 25, 127};
    struct layout l;
    for (int i = 0; i < 5; i++) {
        small(&l, floats[i]);
        for (int w = 0; w < WAYS; w++) carry(ways[w], &l, MEM_DEVICE, "a short message");
        if (my_rank == 0) expect(offers_sized(l.bytes) == (!packed && l.bytes >= 32), "%d bytes went the other way", l.bytes);
        layout_free(&l);
    }
    report("short messages in device memory");
}

static void truncates(void)
{
    struct layout l, few;
    struct buf b;
    small(&l, 25), small(&few, 10);
    buf_make(&b, MEM_DEVICE, my_rank ? &few : &l, 0, 3);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (my_rank == 0) MPI_Send(b.origin, 1, l.type, 1, 8, MPI_COMM_WORLD);
    else expect_equal(error_class(MPI_Recv(b.origin, 1, few.type, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE,
                      "the error class");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    buf_free(&b);
    layout_free(&l), layout_free(&few);
    report("one that is too long for its receive");
}

enum { SENDS = 4 };   /* under way */

/* Edges of a neighbourhood are as short, and no RTS header comes for them: they do not count as what is under way. */
static void edges(void)
{
    MPI_Comm ring;
    struct layout l;
    struct buf a, b;
    int other = 1 - my_rank, weight = 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, &weight, 1, &other, &weight, MPI_INFO_NULL, 0, &ring);
    small(&l, 11);
    buf_make(&a, MEM_DEVICE, &l, 0, 90 + (uint64_t)my_rank), buf_make(&b, MEM_DEVICE, &l, 0, 5);
    buf_expect_from(&b, &l, &l, 90 + (uint64_t)other);
    for (int i = 0; i < SENDS; i++) MPI_Neighbor_alltoall(a.origin, 1, l.type, b.origin, 1, l.type, ring);
    buf_check(&b, "a short edge");
    buf_free(&a), buf_free(&b), layout_free(&l);
    MPI_Comm_free(&ring);
    report("short edges of a neighbourhood");
}

/* Messages are under way when the first short receive into host memory is made; they go there too. */
static void refuses(void)
{
    struct layout l;
    struct buf b[SENDS];
    MPI_Request r[SENDS];
    char word[20] = "0123456789abcdef";
    small(&l, 11);
    for (int i = 0; i < SENDS; i++) {
        buf_make(&b[i], my_rank ? i % 2 ? MEM_HOST : MEM_DEVICE : MEM_DEVICE, &l, 0, my_rank ? 1 : 70 + (uint64_t)i);
        if (my_rank == 0) MPI_Isend(b[i].origin, 1, l.type, 1, 20 + i, MPI_COMM_WORLD, &r[i]);
    }
    MPI_Barrier(check_comm);
    if (my_rank == 0) MPI_Send(word, sizeof word, MPI_CHAR, 1, 30, MPI_COMM_WORLD);
    else memset(word, 0, sizeof word), MPI_Recv(word, sizeof word, MPI_CHAR, 0, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(!strcmp(word, "0123456789abcdef"), "the word is %s", word);
    for (int i = SENDS - 1; my_rank && i >= 0; i--) {
        if (i / 2) MPI_Irecv(b[i].origin, 1, l.type, 0, 20 + i, MPI_COMM_WORLD, &r[i]), MPI_Wait(&r[i], MPI_STATUS_IGNORE);
        else MPI_Recv(b[i].origin, 1, l.type, 0, 20 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&b[i], &l, &l, 70 + (uint64_t)i);
        buf_check(&b[i], "what was under way");
    }
    if (my_rank == 0) MPI_Waitall(SENDS, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < SENDS; i++) buf_free(&b[i]);
    layout_free(&l);
    report("what is under way when a short message is received in host memory");
}

static void offers_no_more(void)
{
    struct layout l;
    small(&l, 13);
    for (int w = 0; w < WAYS; w++)
        for (int kind = MEM_HOST; kind <= MEM_DEVICE; kind++) carry(ways[w], &l, kind, "a short message, later");
    expect(!offers_sized(l.bytes), "short messages are still offered");
    layout_free(&l);
    report("short messages after that");
}

int main(int argc, char **argv)
{
    packed = argc > 1 && !strcmp(argv[argc - 1], "packed");
    check_start(&argc, &argv, -1);
    packed |= host_mode;
    meet();
    shorter();
    offers_brief();
    truncates();
    edges();
    refuses();
    offers_no_more();
    return check_finish();
}
