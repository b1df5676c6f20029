/* freed.c: requests that their owner gives up early: freed while data is on its way, by every kind of call that
 * has such requests, and cancelled. MPI forbids the freeing of active collectives; persistent ones are freed
 * between their uses.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "jobs.h"
#include <stdlib.h>
#include <string.h>

#define LARGE 300   /* elements: past what MPIs send at once */

static MPI_Comm comm;
static int peer;

/* One rank's ends of a message each way. */
struct message {
    struct layout l;
    struct buf out, in;
    int tag;
};

/* ---- sends ---- */

typedef int start(struct message *m, MPI_Request *r);

static int isend(struct message *m, MPI_Request *r)
{
    return MPI_Isend(m->out.origin, m->l.count, m->l.type, peer, m->tag, comm, r);
}

static int issend(struct message *m, MPI_Request *r)
{
    return MPI_Issend(m->out.origin, m->l.count, m->l.type, peer, m->tag, comm, r);
}

static int ibsend(struct message *m, MPI_Request *r)
{
    return MPI_Ibsend(m->out.origin, m->l.count, m->l.type, peer, m->tag, comm, r);
}

static int send_init(struct message *m, MPI_Request *r)
{
    MPI_Send_init(m->out.origin, m->l.count, m->l.type, peer, m->tag, comm, r);
    return MPI_Start(r);
}

static int ssend_init(struct message *m, MPI_Request *r)
{
    MPI_Ssend_init(m->out.origin, m->l.count, m->l.type, peer, m->tag, comm, r);
    return MPI_Startall(1, r);
}

static const struct {
    const char *name;
    start *start;
} sends[] = {{"MPI_Isend", isend},
             {"MPI_Issend", issend},
             {"MPI_Ibsend", ibsend},
             {"MPI_Send_init", send_init},
             {"MPI_Ssend_init", ssend_init}};

static int irecv(struct message *m, MPI_Request *r)
{
    return MPI_Irecv(m->in.origin, m->l.count, m->l.type, peer, m->tag, comm, r);
}

static int recv_init(struct message *m, MPI_Request *r)
{
    MPI_Recv_init(m->in.origin, m->l.count, m->l.type, peer, m->tag, comm, r);
    return MPI_Start(r);
}

static const struct {
    const char *name;
    start *start;
} receives[] = {{"MPI_Irecv", irecv}, {"MPI_Recv_init", recv_init}};

static void make(struct message *m, int count, int tag)
{
    layout_number(&m->l, 1, count);
    m->tag = tag;
    buf_make(&m->out, MEM_DEVICE, &m->l, 0, 10 + (uint64_t)(tag * 2 + my_rank));
    buf_make(&m->in, MEM_DEVICE, &m->l, 0, 1000);
    buf_expect_from(&m->in, &m->l, &m->l, 10 + (uint64_t)(tag * 2 + peer));
}

static void drop(struct message *m)
{
    buf_free(&m->in), buf_free(&m->out);
    layout_free(&m->l);
}

static void freed_send(size_t i, int count)
{
    struct message m;
    MPI_Request r;
    make(&m, count, (int)i);
    sends[i].start(&m, &r);
    MPI_Request_free(&r);
    expect(r == MPI_REQUEST_NULL, "%s: the freed request stays set", sends[i].name);
    MPI_Recv(m.in.origin, count, m.l.type, peer, m.tag, comm, MPI_STATUS_IGNORE);
    buf_check(&m.in, sends[i].name);
    MPI_Barrier(comm);   /* the peer has received too: the buffer is free */
    drop(&m);
    report("%s of %d elements, freed", sends[i].name, count);
}

/* The type is freed too, before anything arrives. That the data is there a later message tells: the same sender's, in
 * the same order, received after it. */
static void freed_receive(size_t i, int count)
{
    struct message m;
    MPI_Request r, sent;
    MPI_Datatype type;
    int token = my_rank;
    make(&m, count, 20 + (int)i);
    MPI_Type_dup(m.l.type, &type);
    MPI_Datatype kept = m.l.type;
    m.l.type = type;
    receives[i].start(&m, &r);
    MPI_Type_free(&type);
    m.l.type = kept;
    MPI_Request_free(&r);
    expect(r == MPI_REQUEST_NULL, "%s: the freed request stays set", receives[i].name);
    MPI_Barrier(comm);
    isend(&m, &sent);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    unsigned char *got = malloc(m.in.bytes);
    double since = 0;
    do {   /* which message proves arrival depends on the MPI; progress is made by any */
        MPI_Sendrecv_replace(&token, 1, MPI_INT, peer, 99, peer, 99, comm, MPI_STATUS_IGNORE);
        mem_read(m.in.kind, got, m.in.base, m.in.bytes);
        int mine = memcmp(got, m.in.shadow, m.in.bytes) == 0 || !within(&since, 40);
        MPI_Allreduce(&mine, &token, 1, MPI_INT, MPI_MIN, comm);
    } while (!token);
    free(got);
    buf_check(&m.in, receives[i].name);
    drop(&m);
    report("%s of %d elements, freed with its type", receives[i].name, count);
}

/* ---- cancelled ---- */

/* A persistent receive that is cancelled is used again afterwards, and brings its message then. */
static void cancelled_persistent(void)
{
    struct message m;
    MPI_Request r, sent;
    MPI_Status s;
    int flag = 0;
    make(&m, 3, 30);
    MPI_Recv_init(m.in.origin, 3, m.l.type, peer, 30, comm, &r);
    MPI_Start(&r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &flag);
    expect(flag && r != MPI_REQUEST_NULL, "a cancelled persistent receive: cancelled %d", flag);
    MPI_Barrier(comm);
    isend(&m, &sent);
    MPI_Start(&r);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &flag);
    expect(!flag, "the second use of a persistent receive says cancelled");
    buf_check(&m.in, "the second use of a cancelled persistent receive");
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Request_free(&r);
    drop(&m);
    report("a persistent receive, cancelled and used again");
}

/* Cancelled and freed at once, as programs do when they end. */
static void cancelled_and_freed(void)
{
    struct message m;
    MPI_Request r;
    make(&m, 3, 31);
    for (int i = 0; i < 10; i++) {
        irecv(&m, &r);
        MPI_Cancel(&r);
        MPI_Request_free(&r);
    }
    buf_fill(&m.in, 1000);
    MPI_Barrier(comm);
    buf_check(&m.in, "the buffer of cancelled receives");
    MPI_Request sent;
    isend(&m, &sent);
    MPI_Recv(m.in.origin, 3, m.l.type, peer, 31, comm, MPI_STATUS_IGNORE);
    buf_expect_from(&m.in, &m.l, &m.l, 10 + (uint64_t)(31 * 2 + peer));
    buf_check(&m.in, "received after ten that were cancelled");
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    drop(&m);
    report("receives, cancelled and freed");
}

static MPI_Request other;   /* that the handler frees */
static int handled;

static void frees(MPI_Comm *of, int *error, ...)
{
    (void)of, (void)error;
    handled = 1;
    if (other == MPI_REQUEST_NULL) return;
    MPI_Cancel(&other);
    MPI_Request_free(&other);
}

/* The message for a receive that was freed is too long: its error comes when a later call looks. */
static void handler_frees(void)
{
    struct message m;
    MPI_Errhandler handler;
    MPI_Request r;
    int all = 0, one = 1;
    make(&m, 3, 32);
    MPI_Comm_create_errhandler(frees, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);   /* where MPICH raises errors of MPI_Test */
    MPI_Irecv(m.in.origin, 1, m.l.type, peer, 32, comm, &r);
    MPI_Irecv(m.in.origin, 1, m.l.type, peer, 33, comm, &other);
    MPI_Request_free(&r);
    MPI_Send(m.out.origin, 3, m.l.type, peer, 32, comm);
    for (int i = 0; i < 1000 && !all; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(&handled, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    expect_equal(all, one, "calls of the error handler");
    expect(other == MPI_REQUEST_NULL, "the request that the handler has freed stays set");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL), MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    drop(&m);
    report("requests that an error handler frees");
}

/* ---- persistent collectives ---- */

/* Never started, and freed after a use. */
static void freed_collective(void)
{
#if HAVE_PERSISTENT
    struct message m;
    MPI_Request never, used;
    make(&m, 1, 40);
    MPI_Datatype type = MPI_DOUBLE;   /* MPICH 4.0 wants a named one (mpi_wants_named) */
    MPI_Bcast_init(m.in.origin, 1, type, 0, comm, MPI_INFO_NULL, &never);
    MPI_Request_free(&never);
    expect(never == MPI_REQUEST_NULL, "a persistent MPI_Bcast: the freed request stays set");
    buf_fill(&m.in, my_rank ? 1000 : 50);
    MPI_Bcast_init(m.in.base + m.in.lead, 1, type, 0, comm, MPI_INFO_NULL, &used);
    MPI_Start(&used);
    MPI_Wait(&used, MPI_STATUS_IGNORE);
    MPI_Request_free(&used);
    expect(used == MPI_REQUEST_NULL, "a persistent MPI_Bcast: the freed request stays set");
    struct buf root;
    buf_make(&root, MEM_HOST, &m.l, 0, 50);
    memcpy(m.in.shadow + m.in.lead, root.shadow + root.lead, sizeof(double));
    buf_check(&m.in, "a persistent MPI_Bcast");
    buf_free(&root);
    drop(&m);
#endif
    report("persistent collectives, freed unused and after use");
}

int main(int argc, char **argv)
{
    static char attached[1 << 21];
    static const int counts[] = {3, LARGE};
    void *detached;
    int n;
    check_start(&argc, &argv, -1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    peer = my_rank ^ 1;
    MPI_Buffer_attach(attached, sizeof attached);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) freed_send(i, counts[k]);
        for (size_t i = 0; i < sizeof receives / sizeof *receives; i++) freed_receive(i, counts[k]);
    }
    cancelled_persistent();
    cancelled_and_freed();
    handler_frees();
    freed_collective();
    MPI_Buffer_detach(&detached, &n);
    MPI_Comm_free(&comm);
    return check_finish();
}
