/* owner.c: contiguous messages of device memory are stridec's between ranks of a node, whatever the MPI could do: what one of the
 * two keeps open of freed memory would be in the other's way. Contiguous and derived messages of the same allocations take
 * turns, in each form of sending and receiving; lengths too short for a header pass through the host.
 *
 * run: -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 SIMGPU_FAIL=cuIpcOpenMemHandle -n 2 passed
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2 passed
 */
#include "check.h"
#include "offers.h"
#include <stdio.h>
#include <string.h>

#define ROOM (1 << 17)
#define ROUNDS 6          /* until both ranks have tried each other's memory, and each message has followed each other */

static struct buf out, in;
static bool passed;        /* nothing is offered */

struct message {
    const struct layout *l;
    int tag;
};

static void send_recv(const struct message *m, int peer)
{
    if (my_rank == 0) MPI_Send(out.origin, m->l->count, m->l->type, peer, m->tag, MPI_COMM_WORLD);
    MPI_Recv(in.origin, m->l->count, m->l->type, peer, m->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (my_rank == 1) MPI_Send(out.origin, m->l->count, m->l->type, peer, m->tag, MPI_COMM_WORLD);
}

static void ssend_any(const struct message *m, int peer)
{
    MPI_Request r;
    MPI_Status s;
    MPI_Irecv(in.origin, m->l->count, m->l->type, MPI_ANY_SOURCE, m->tag, MPI_COMM_WORLD, &r);
    MPI_Ssend(out.origin, m->l->count, m->l->type, peer, m->tag, MPI_COMM_WORLD);
    MPI_Wait(&r, &s);
    expect(s.MPI_SOURCE == peer && s.MPI_TAG == m->tag, "the status tells of rank %d, tag %d", s.MPI_SOURCE, s.MPI_TAG);
}

static void isend_probe(const struct message *m, int peer)
{
    MPI_Request r;
    MPI_Message found;
    MPI_Status s;
    MPI_Isend(out.origin, m->l->count, m->l->type, peer, m->tag, MPI_COMM_WORLD, &r);
    MPI_Mprobe(peer, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &s);
    int bytes = -1;
    MPI_Get_count(&s, MPI_BYTE, &bytes);
    expect_equal(bytes, m->l->bytes, "the probed length");
    MPI_Mrecv(in.origin, m->l->count, m->l->type, &found, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void exchange(const struct message *m, int peer)
{
    MPI_Sendrecv(out.origin, m->l->count, m->l->type, peer, m->tag, in.origin, m->l->count, m->l->type, peer, m->tag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void persistent(const struct message *m, int peer)
{
    MPI_Request r[2];
    MPI_Recv_init(in.origin, m->l->count, m->l->type, peer, m->tag, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(out.origin, m->l->count, m->l->type, peer, m->tag, MPI_COMM_WORLD, &r[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&r[0]), MPI_Request_free(&r[1]);
}

static void (*const forms[])(const struct message *, int) = {send_recv, ssend_any, isend_probe, exchange, persistent};
static const char *const form_name[] = {"MPI_Send", "MPI_Ssend and any source", "MPI_Mprobe", "MPI_Sendrecv", "persistent"};

static void plain(struct layout *l, int bytes)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "%d bytes", bytes);
    layout_of(l, MPI_BYTE, bytes, text);
}

static void vector(struct layout *l, int blocks, int bytes)
{
    MPI_Datatype t;
    MPI_Type_vector(blocks, bytes, 2 * bytes, MPI_BYTE, &t);
    type_commit(&t);
    layout_of(l, t, 1, "every other block");
}

static void one(const struct message *m, size_t form, uint64_t salt)
{
    buf_fill(&out, salt + (uint64_t)my_rank);
    buf_fill(&in, salt + 7);
    buf_expect_from(&in, m->l, m->l, salt + (uint64_t)(1 - my_rank));
    MPI_Barrier(MPI_COMM_WORLD);
    forms[form](m, 1 - my_rank);
    buf_check(&in, form_name[form]);
}

/* Collectives of the same memory are the MPI's, if it takes device memory: it opens what stridec has open. */
static void collective(void)
{
    buf_fill(&out, 5 + (uint64_t)my_rank);
    buf_fill(&in, 6);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 4096; i++) in.shadow[in.lead + (size_t)(4096 * r + i)] = pattern_at(5 + (uint64_t)r, i);
    MPI_Allgather(out.origin, 4096, MPI_BYTE, in.origin, 4096, MPI_BYTE, MPI_COMM_WORLD);
    buf_check(&in, "MPI_Allgather");
}

/* Posts many receives into one buffer and answers with a few bytes, like benchmarks of bandwidth. */
static void windows(void)
{
    enum { WINDOW = 16, WINDOWS = 12, BYTES = 1000 };
    struct layout l;
    MPI_Request r[WINDOW];
    plain(&l, BYTES);
    for (int w = 0; w < WINDOWS; w++) {
        uint64_t sent = 500 + (uint64_t)w;
        buf_fill(&out, my_rank == 0 ? sent : 1), buf_fill(&in, 2);
        for (int i = 0; i < WINDOW && my_rank == 1; i++)
            MPI_Irecv(in.origin, BYTES, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &r[i]);
        MPI_Barrier(check_comm);
        for (int i = 0; i < WINDOW && my_rank == 0; i++)
            MPI_Isend(out.origin, BYTES, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &r[i]);
        MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
        if (my_rank == 1) {
            buf_expect_from(&in, &l, &l, sent), buf_check(&in, "a window into one buffer");
            MPI_Send(out.origin, 4, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in.origin, 4, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    layout_free(&l);
    report("windows of receives into one buffer");
}

int main(int argc, char **argv)
{
    static const int lengths[] = {8, 31, 32, 100, 511, 512, 520, 3968, 4100, 65544, 99992};
    enum { PLAIN = sizeof lengths / sizeof *lengths };
    struct layout l[PLAIN + 2];
    enum mem_kind kind;
    check_start(&argc, &argv, -1);
    kind = host_mode ? MEM_HOST : MEM_DEVICE;
    passed = host_mode || (argc > 1 && !strcmp(argv[argc - 1], "passed"));
    buf_bytes(&out, kind, ROOM, 0, 1);
    buf_bytes(&in, kind, ROOM, 0, 2);
    if (num_ranks == 2) windows();
    for (int i = 0; i < PLAIN; i++) plain(&l[i], lengths[i]);
    vector(&l[PLAIN], 128, 8);
    vector(&l[PLAIN + 1], 100, 600);
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        for (int i = 0; i < ROUNDS * (PLAIN + 2); i++)
            one(&(struct message){&l[(i + i / (PLAIN + 2)) % (PLAIN + 2)], i % 100}, form, (uint64_t)i * 16 + 1000 * form);
        report("contiguous and derived messages by turns, %s", form_name[form]);
    }
    for (int i = 0; i < PLAIN && !passed; i++) {
        one(&(struct message){&l[i], i}, 0, 77);
        if (lengths[i] >= 512) expect(offers_sized(lengths[i]), "%d bytes were left to the MPI", lengths[i]);
    }
    expect(!passed || !offers_used(), "a message was offered");
    report("contiguous messages are %s", passed ? "the MPI's" : "stridec's");
    for (int i = 0; i < 20; i++) {
        collective();
        one(&(struct message){&l[i % (PLAIN + 2)], 3}, 0, (uint64_t)i * 32 + 9000);
    }
    report("messages and collectives of the same memory by turns");
    for (int i = 0; i < PLAIN + 2; i++) layout_free(&l[i]);
    buf_free(&out), buf_free(&in);
    return check_finish();
}
