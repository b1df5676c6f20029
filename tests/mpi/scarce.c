/* scarce.c: fails what stridec asks for in each call in turn, once and from there on. Each call does what it does otherwise,
 * or returns an error; its peer gets the right bytes or an error; nobody waits for ever.
 *
 * "memory": allocations ("every" before: of every pair of ways to send and receive). "driver": calls of the driver, all or those named. "lost": the driver does not tell where device
 * memory lies, or a kernel has failed: one line says so, calls on device memory return MPI_ERR_OTHER, host memory goes on. "once":
 * fails nothing itself (tests/failures.sh).
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on LD_PRELOAD=@SCARCE -n 2 --host memory
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@SCARCE -n 2 memory
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@SCARCE -n 2 driver cuPointerGetAttributes cuStreamSynchronize
 * run: STRIDEC_TRANSPORT=oneshot LD_PRELOAD=@SCARCE -n 2 driver cuLaunchKernel cuCtxGetCurrent
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@SCARCE -n 2 lost
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on MEMORY_FAIL=1+ LD_PRELOAD=@SCARCE -n 2 --host once
 * run: SIMGPU_FAIL=cuCtxGetStreamPriorityRange,cuStreamCreateWithPriority LD_PRELOAD=@SCARCE -n 2 once
 */
#include "../../runtime/device/driver.h"
#include "../sim/simgpu.h"
#include "jobs.h"
#include "persistent.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG 3
#define TOLD 4
static MPI_Comm comm, control;
static int peer;
static enum mem_kind kind;
static uint64_t salt = 1;

/* ---- faults ---- */

/* The n-th allocation of a rank, or the n-th of its calls of the driver with that name. */
static struct {
    const char *call;   /* NULL: an allocation */
    long n;
    bool later;         /* and all after it */
    int rank;
} fault;
static atomic_long *memory_at, *memory_asked;
static atomic_int *memory_failures, *memory_collectives;
static int *memory_later;
static void (*counts)(struct simgpu_counts *c);
static long asked;

static void *tool(const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol) fprintf(stderr, "there is no %s: the library of the tests is not preloaded\n", name), exit(2);
    return symbol;
}

static void find_tools(void)
{
    memory_at = tool("memory_at"), memory_asked = tool("memory_asked"), memory_failures = tool("memory_failures");
    memory_later = tool("memory_later"), memory_collectives = tool("memory_collectives");
    void *driver = host_mode ? NULL : dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (driver) *(void **)&counts = dlsym(driver, "simgpu_counts");
}

static long failures(void)
{
    struct simgpu_counts c;
    if (!fault.call) return *memory_failures;
    counts(&c);
    return (long)c.failed;
}

/* Until disarm, on the rank that the fault is for. */
static void arm(void)
{
    char rule[80];
    if (my_rank != fault.rank) return;
    snprintf(rule, sizeof rule, "%s:%ld%s", fault.call, fault.n, fault.later ? "+" : "");
    if (fault.call) setenv("SIMGPU_FAIL", rule, 1);
    else *memory_later = fault.later, atomic_store(memory_asked, asked), atomic_store(memory_at, fault.n);
}

static void disarm(void)
{
    if (my_rank != fault.rank) return;
    if (fault.call) unsetenv("SIMGPU_FAIL");
    else atomic_store(memory_at, 0), asked = atomic_load(memory_asked);
}

/* Rounds until one in which there is nothing left to fail. */
static void in_turn(void round(void), const char *what)
{
    long faults = 0;
    for (int i = 0; i < 4; i++) {
        int more = 1;
        if (fault.rank >= 0) fault.rank = i / 2, fault.later = i % 2;
        for (fault.n = 1; more; fault.n++, faults += more) {
            long before = failures();
            asked = 0, salt += 10;
            round();
            more = failures() > before;
            if (fault.rank < 0) return;
            MPI_Bcast(&more, 1, MPI_INT, fault.rank, control);
        }
    }
    if (faults) note("%s%s%s: %ld faults", what, fault.call ? ", " : "", fault.call ? fault.call : "", faults);
}

static bool fails_here(void)
{
    return my_rank == fault.rank;
}

/* Only who has a fault may fail, and whom it was to hear from. */
static void expect_rc(int rc, bool may, const char *what)
{
    expect(rc == MPI_SUCCESS || may, "%s, fault %ld%s of rank %d: %s", what, fault.n, fault.later ? "+" : "", fault.rank,
           error_name(error_class(rc)));
}

/* ---- types, MPI_Pack and MPI_Unpack ---- */

static int shape;

static void round_pack(void)
{
    struct layout l;
    struct buf in, out;
    MPI_Datatype type;
    int at = 0, bytes;
    arm();
    type = shape_make(shape, 3);
    MPI_Pack_size(2, type, comm, &bytes);
    disarm();
    layout_of(&l, type, 2, shape_name[shape]);
    buf_make(&out, kind, &l, 0, salt), buf_make(&in, kind, &l, 0, salt + 1);
    unsigned char *packed = calloc(1, (size_t)bytes), *want = layout_packed(&l, salt);
    arm();
    int rc = MPI_Pack(out.origin, 2, l.type, packed, bytes, &at, comm);
    disarm();
    expect_rc(rc, fails_here(), "MPI_Pack");
    expect(rc != MPI_SUCCESS || (at == l.bytes && !memcmp(packed, want, (size_t)at)), "MPI_Pack: wrong bytes");
    at = 0;
    arm();
    rc = MPI_Unpack(want, l.bytes, &at, in.origin, 2, l.type, comm);
    disarm();
    expect_rc(rc, fails_here(), "MPI_Unpack");
    if (rc == MPI_SUCCESS) buf_expect(&in, &l, want, l.bytes), buf_check(&in, "MPI_Unpack");
    free(packed), free(want);
    buf_free(&in), buf_free(&out);
    arm();
    layout_free(&l);
    disarm();
}

/* ---- messages ---- */

enum { SEND, SSEND, BSEND, ISEND, ISSEND, SEND_INIT, SENDRECV, SENDS };
static const char *const send_name[] = {"Send", "Ssend", "Bsend", "Isend", "Issend", "Send_init", "Sendrecv"};
enum { RECV, IRECV, MRECV, IMRECV, PROBE, IPROBE, RECV_INIT, RECVS };
static const char *const recv_name[] = {"Recv", "Irecv", "Mprobe", "Improbe", "Probe", "Iprobe", "Recv_init"};
static int send_by, recv_by;
static bool every;   /* pair of these is tried; else each with the first of the others */
static struct layout from, to;
static struct buf out, in;

static int wait_for(MPI_Request *r, int rc, MPI_Status *s)
{
    return rc != MPI_SUCCESS || *r == MPI_REQUEST_NULL ? rc : MPI_Wait(r, s);
}

/* Starts a persistent request, and waits for it. */
static int run_once(MPI_Request *r, int rc, MPI_Status *s)
{
    if (rc != MPI_SUCCESS) return rc;
    rc = MPI_Start(r);
    if (rc == MPI_SUCCESS) rc = MPI_Wait(r, s);
    MPI_Request_free(r);
    return rc;
}

static int send_it(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Status s;
    void *at = out.origin;
    int n = from.count;
    switch (send_by) {
    case SEND: return MPI_Send(at, n, from.type, peer, TAG, comm);
    case SSEND: return MPI_Ssend(at, n, from.type, peer, TAG, comm);
    case BSEND: return MPI_Bsend(at, n, from.type, peer, TAG, comm);
    case ISEND: return wait_for(&r, MPI_Isend(at, n, from.type, peer, TAG, comm, &r), &s);
    case ISSEND: return wait_for(&r, MPI_Issend(at, n, from.type, peer, TAG, comm, &r), &s);
    case SEND_INIT: return run_once(&r, MPI_Send_init(at, n, from.type, peer, TAG, comm, &r), &s);
    default: return MPI_Sendrecv(at, n, from.type, peer, TAG, NULL, 0, MPI_INT, MPI_PROC_NULL, 0, comm, &s);
    }
}

static int receive_it(MPI_Message *m, MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    void *at = in.origin;
    int n = to.count, rc = MPI_SUCCESS, flag = 0;
    switch (recv_by) {
    case RECV: return MPI_Recv(at, n, to.type, peer, TAG, comm, s);
    case IRECV: return wait_for(&r, MPI_Irecv(at, n, to.type, peer, TAG, comm, &r), s);
    case RECV_INIT: return run_once(&r, MPI_Recv_init(at, n, to.type, peer, TAG, comm, &r), s);
    case MRECV:
        rc = MPI_Mprobe(peer, TAG, comm, m, s);
        return rc != MPI_SUCCESS ? rc : MPI_Mrecv(at, n, to.type, m, s);
    case IMRECV:
        while (!flag && rc == MPI_SUCCESS) rc = MPI_Improbe(MPI_ANY_SOURCE, TAG, comm, &flag, m, s);
        return rc != MPI_SUCCESS ? rc : wait_for(&r, MPI_Imrecv(at, n, to.type, m, &r), s);
    case PROBE: rc = MPI_Probe(peer, MPI_ANY_TAG, comm, s); break;
    default:
        while (!flag && rc == MPI_SUCCESS) rc = MPI_Iprobe(peer, TAG, comm, &flag, s);
    }
    return rc != MPI_SUCCESS ? rc : MPI_Recv(at, n, to.type, peer, TAG, comm, s);
}

static void check_received(const MPI_Status *s, const char *what)
{
    int bytes = -1;
    MPI_Get_count(s, MPI_BYTE, &bytes);
    expect(bytes == from.bytes, "%s to %s, fault %ld%s of rank %d: %d bytes received, not %d", send_name[send_by], recv_name[recv_by],
           fault.n, fault.later ? "+" : "", fault.rank, bytes, from.bytes);
    expect(s->MPI_SOURCE == peer && s->MPI_TAG == TAG, "%s: source %d, tag %d", what, s->MPI_SOURCE, s->MPI_TAG);
    buf_expect_from(&in, &to, &from, salt), buf_check(&in, what);
}

/* After a receive that failed: takes the message, if it is still there; it is where the receive has not begun. */
static void take_left(MPI_Message *m, int failed)
{
    int there = 0, done = 0;
    MPI_Status s;
    buf_fill(&in, salt + 1);
    if (*m != MPI_MESSAGE_NULL) {
        int rc = MPI_Mrecv(in.origin, to.count, to.type, m, &s);
        expect(rc == MPI_SUCCESS, "MPI_Mrecv again: %s", error_name(error_class(rc)));
        check_received(&s, "matched before");
        return;
    }
    while (!there && !done) {
        MPI_Iprobe(peer, TOLD, control, &done, MPI_STATUS_IGNORE);
        MPI_Iprobe(peer, TAG, comm, &there, MPI_STATUS_IGNORE);
    }
    expect(there || error_class(failed) != MPI_ERR_NO_MEM, "%s, fault %ld: the message is gone", recv_name[recv_by], fault.n);
    if (!there) return;
    int rc = MPI_Recv(in.origin, to.count, to.type, peer, TAG, comm, &s);
    expect(rc == MPI_SUCCESS, "MPI_Recv again: %s", error_name(error_class(rc)));
    check_received(&s, "left before");
}

/* A receive whose sender may fail: it hears of that. */
static void receive_or_hear(void)
{
    int came = 0, told = 0, theirs = MPI_SUCCESS, cancelled = 0;
    MPI_Request r;
    MPI_Status s;
    int rc = MPI_Irecv(in.origin, to.count, to.type, peer, TAG, comm, &r);
    expect(rc == MPI_SUCCESS, "MPI_Irecv, whose sender fails: %s", error_name(error_class(rc)));
    double since = 0;
    while (!came && rc == MPI_SUCCESS && theirs == MPI_SUCCESS) {
        rc = MPI_Test(&r, &came, &s);
        if (came || told) continue;
        MPI_Iprobe(peer, TOLD, control, &told, MPI_STATUS_IGNORE);
        if (told) MPI_Recv(&theirs, 1, MPI_INT, peer, TOLD, control, MPI_STATUS_IGNORE);
        if (!within(&since, 20)) fprintf(stderr, "%s, fault %ld: no message\n", send_name[send_by], fault.n), MPI_Abort(comm, 3);
    }
    if (!came && rc == MPI_SUCCESS) {
        MPI_Cancel(&r);
        rc = MPI_Wait(&r, &s);
        if (rc == MPI_SUCCESS) MPI_Test_cancelled(&s, &cancelled);
    }
    if (!told) MPI_Recv(&theirs, 1, MPI_INT, peer, TOLD, control, MPI_STATUS_IGNORE);
    expect(!cancelled || theirs != MPI_SUCCESS, "nothing comes of what was sent");
    if (rc == MPI_SUCCESS && !cancelled) check_received(&s, "from a rank with a fault");
    if (cancelled) buf_check(&in, "a receive that was cancelled");
}

static void receive_with_fault(void)
{
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status s;
    arm();
    int rc = receive_it(&m, &s), theirs;
    disarm();
    if (rc == MPI_SUCCESS) check_received(&s, recv_name[recv_by]);
    else take_left(&m, rc);
    MPI_Recv(&theirs, 1, MPI_INT, peer, TOLD, control, MPI_STATUS_IGNORE);
}

/* Every message is received once. The barriers: before, all has been sent; behind, nobody sends the next one yet. */
static void expect_nothing_left(void)
{
    int there = 0;
    MPI_Status s;
    MPI_Barrier(control);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &s);
    expect(!there, "%s to %s, fault %ld%s of rank %d: a message is left", send_name[send_by], recv_name[recv_by], fault.n,
           fault.later ? "+" : "", fault.rank);
    if (there) MPI_Recv(in.origin, to.count, to.type, s.MPI_SOURCE, s.MPI_TAG, comm, MPI_STATUS_IGNORE);
    MPI_Barrier(control);
}

/* From rank 0 to rank 1. */
static void round_message(void)
{
    if (my_rank == 0) {
        buf_fill(&out, salt);
        arm();
        int rc = send_it();
        disarm();
        expect_rc(rc, true, send_name[send_by]);
        MPI_Send(&rc, 1, MPI_INT, peer, TOLD, control);
    } else {
        buf_fill(&in, salt + 1);
        if (fails_here()) receive_with_fault();
        else receive_or_hear();
    }
    expect_nothing_left();
}

static void messages(int number_from, int number_to, int count)
{
    char what[80];
    layout_number(&from, number_from, count), layout_number(&to, number_to, count);
    buf_make(&out, kind, &from, 0, salt), buf_make(&in, kind, &to, 0, salt + 1);
    for (int i = 0; i < SENDS * RECVS; i++) {
        send_by = i % SENDS, recv_by = i / SENDS;
        if (!every && send_by && recv_by) continue;
        snprintf(what, sizeof what, "%s to %s, %d bytes", send_name[send_by], recv_name[recv_by], from.bytes);
        in_turn(round_message, what);
    }
    if (!fault.call) report("messages of %d bytes, layouts %d and %d", from.bytes, number_from, number_to);
    buf_free(&out), buf_free(&in);
    layout_free(&from), layout_free(&to);
}

/* ---- collectives ---- */

enum { BCAST, IBCAST, GATHER, ALLGATHER, IALLGATHER, ALLTOALL, IALLTOALL, ALLTOALL_INIT, ALLTOALLW, ALLREDUCE, COLLECTIVES };
static const char *const collective_name[] = {"Bcast", "Ibcast", "Gather", "Allgather", "Iallgather", "Alltoall", "Ialltoall",
                                              "Alltoall_init", "Alltoallw", "Allreduce"};
static int collective;
static bool begun;   /* the persistent request was made */

/* Every rank gives two elements of each layout, and gets two. */
static int call_collective(const struct layout *l)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int ones[2] = {1, 1}, at[2] = {0, 0};
    MPI_Aint low, extent;
    MPI_Type_get_extent(l->type, &low, &extent);
    at[1] = (int)extent;
    MPI_Datatype types[2] = {l->type, l->type};
    void *o = out.origin, *i = in.origin;
    switch (collective) {
    case BCAST: return MPI_Bcast(my_rank ? i : o, 2, l->type, 0, comm);
    case IBCAST: return wait_for(&r, MPI_Ibcast(my_rank ? i : o, 2, l->type, 0, comm, &r), MPI_STATUS_IGNORE);
    case GATHER: return MPI_Gather(o, 1, l->type, i, 1, l->type, 0, comm);
    case ALLGATHER: return MPI_Allgather(o, 1, l->type, i, 1, l->type, comm);
    case IALLGATHER: return wait_for(&r, MPI_Iallgather(o, 1, l->type, i, 1, l->type, comm, &r), MPI_STATUS_IGNORE);
    case ALLTOALL: return MPI_Alltoall(o, 1, l->type, i, 1, l->type, comm);
    case IALLTOALL: return wait_for(&r, MPI_Ialltoall(o, 1, l->type, i, 1, l->type, comm, &r), MPI_STATUS_IGNORE);
#if HAVE_PERSISTENT
    case ALLTOALL_INIT: {
        int rc = MPI_Alltoall_init(o, 1, l->type, i, 1, l->type, comm, MPI_INFO_NULL, &r);
        begun = rc == MPI_SUCCESS;
        return run_once(&r, rc, MPI_STATUS_IGNORE);
    }
#else
    case ALLTOALL_INIT: return MPI_Alltoall(o, 1, l->type, i, 1, l->type, comm);
#endif
    case ALLTOALLW: return MPI_Alltoallw(o, ones, at, types, i, ones, at, types, comm);
    default: return MPI_Allreduce(o, i, 2 * LAYOUT_DOUBLES, MPI_INT32_T, MPI_BXOR, comm);
    }
}

/* The packed bytes that this rank gets. */
static bool brings(const struct layout *l, unsigned char *packed)
{
    int half = l->bytes / 2;
    unsigned char *of[2] = {layout_packed(l, salt), layout_packed(l, salt + 1)};
    bool first = collective == BCAST || collective == IBCAST, all = collective >= ALLTOALL && collective != ALLREDUCE;
    for (int r = 0; r < 2; r++) {
        if (first) memcpy(packed + r * half, of[0] + r * half, (size_t)half);
        else memcpy(packed + r * half, of[r] + (all && my_rank ? half : 0), (size_t)half);
    }
    for (int k = 0; collective == ALLREDUCE && k < l->bytes; k++) packed[k] = of[0][k] ^ of[1][k];
    free(of[0]), free(of[1]);
    return first ? my_rank != 0 : collective != GATHER || my_rank == 0;
}

/* Calls that went zero-copy: those have taken part too. */
static long exchanges(void)
{
    static long (*count)(void);
    if (!count) *(void **)&count = dlsym(RTLD_DEFAULT, "stridec_exchanges");
    return count ? count() : 0;
}

static void round_collective(void)
{
    const struct layout *l = &from;
    unsigned char *packed = malloc((size_t)l->bytes);
    buf_fill(&out, salt + (uint64_t)my_rank), buf_fill(&in, salt + 5);
    long before = *memory_collectives, exchanged = exchanges();
    begun = false;
    arm();
    int rc = call_collective(l);
    disarm();
    exchanged = exchanges() - exchanged;
    bool took_part = *memory_collectives > before || exchanged || begun;
    /* A rank that takes part and fails tells the others. */
    expect_rc(rc, fails_here() || exchanged, collective_name[collective]);
    if (rc != MPI_SUCCESS && !took_part) rc = call_collective(l);   /* the other rank waits for it */
    if (rc == MPI_SUCCESS && brings(l, packed)) buf_expect(&in, l, packed, l->bytes);
    if (rc == MPI_SUCCESS) buf_check(&in, collective_name[collective]);
    free(packed);
    MPI_Barrier(comm);   /* ranks agree there how the next nonblocking ones go */
    MPI_Barrier(control);
}

/* Nonblocking ones have a communicator of their own: on a new one the first barriers let them go
 * zero-copy. */
static void collectives(void)
{
    MPI_Comm all = comm;
    for (collective = 0; collective < COLLECTIVES; collective++) {
        bool nonblocking = collective == IBCAST || collective == IALLGATHER || collective == IALLTOALL;
        long before = exchanges();
        layout_number(&from, collective == ALLREDUCE ? 0 : 2, collective == ALLREDUCE ? 1 : 2);
        buf_make(&out, kind, &from, 0, salt), buf_make(&in, kind, &from, 0, salt);
        if (nonblocking) MPI_Comm_dup(all, &comm);
        in_turn(round_collective, collective_name[collective]);
        bool asks = fault.rank >= 0 && !fault.call && !host_mode && collective != ALLREDUCE;
        expect(!asks || exchanges() > before, "%s: none goes zero-copy", collective_name[collective]);
        if (nonblocking) MPI_Comm_free(&comm);
        comm = all;
        buf_free(&out), buf_free(&in);
        layout_free(&from);
    }
}

/* ---- neighbours: who fails tells the others ---- */

static MPI_Comm ring;   /* of two, each the only neighbour of the other */
static bool later;

static void round_neighbors(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    unsigned char *theirs = layout_packed(&from, salt + (uint64_t)peer);
    void *o = out.origin, *i = in.origin;
    buf_fill(&out, salt + (uint64_t)my_rank), buf_fill(&in, salt + 5);
    arm();
    int rc = later ? MPI_Ineighbor_alltoall(o, 2, from.type, i, 2, from.type, ring, &r)
                   : MPI_Neighbor_alltoall(o, 2, from.type, i, 2, from.type, ring);
    if (later && rc == MPI_SUCCESS) rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
    disarm();
    if (later && rc == MPI_ERR_NO_MEM)   /* it has not begun */
        rc = wait_for(&r, MPI_Ineighbor_alltoall(o, 2, from.type, i, 2, from.type, ring, &r), MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS) buf_expect(&in, &from, theirs, from.bytes), buf_check(&in, "neighbours");
    free(theirs);
    MPI_Barrier(control);
}

static void make_ring(void)
{
    int weight = 1;
    MPI_Dist_graph_create_adjacent(comm, 1, &peer, &weight, 1, &peer, &weight, MPI_INFO_NULL, 0, &ring);
}

/* All ranks find out about a new communicator together. */
static void round_ring(void)
{
    int rank = fault.rank;
    MPI_Comm_free(&ring);
    arm();
    make_ring();
    disarm();
    fault.rank = -1;
    round_neighbors();
    fault.rank = rank;
}

static void neighbors(void)
{
    make_ring();
    layout_number(&from, 2, 2);
    buf_make(&out, kind, &from, 0, salt), buf_make(&in, kind, &from, 0, salt);
    in_turn(round_neighbors, "Neighbor_alltoall");
    in_turn(round_ring, "Dist_graph_create_adjacent");
    later = true;
    in_turn(round_neighbors, "Ineighbor_alltoall");
    later = false;
    buf_free(&out), buf_free(&in);
    layout_free(&from);
    MPI_Comm_free(&ring);
}

static void memory(void)
{
    for (shape = 0; shape < SHAPES; shape++) in_turn(round_pack, shape_name[shape]);
    report("types and packing");
    messages(1, 3, 1);
    messages(2, 1, 40);
    messages(0, 2, 40);
    collectives();
    report("collectives");
    neighbors();
    report("neighbours");
}

/* The driver's calls that stridec makes, without versions. */
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name),
static const char *const driver_calls[] = {DRIVER_CALLS(TEXT) DRIVER_GRAPH_CALLS(TEXT)};

static bool is_wanted(const char *name, char *const wanted[])
{
    bool is = !*wanted;
    for (; *wanted; wanted++) is |= !strcmp(*wanted, name);
    return is;
}

/* All of them, or those that are named. */
static void driver(char *const wanted[])
{
    char name[64];
    fault.call = name;
    for (size_t i = 0; i < sizeof driver_calls / sizeof *driver_calls; i++) {
        snprintf(name, sizeof name, "%s", driver_calls[i]);
        if (strstr(name, "_v")) *strstr(name, "_v") = '\0';
        if (!is_wanted(name, wanted)) continue;
        shape = (int)i % SHAPES;
        in_turn(round_pack, shape_name[shape]);
        messages(1, 3, 1);
        messages(2, 1, 40);
        collectives();
        neighbors();
        report("%s fails", name);
    }
}

/* ---- a context that is lost ---- */

static int held_stderr = -1;
static FILE *told;

/* Sends standard error to a file meanwhile, to be looked at. */
static void hold_stderr(void)
{
    fflush(stderr);
    held_stderr = dup(STDERR_FILENO), told = tmpfile();
    dup2(fileno(told), STDERR_FILENO);
}

/* The lines of stridec's; whether one holds `text`. */
static int release_stderr(const char *text, bool *holds)
{
    char line[1024];
    int lines = 0;
    fflush(stderr);
    dup2(held_stderr, STDERR_FILENO), close(held_stderr);
    rewind(told);
    *holds = false;
    while (fgets(line, sizeof line, told)) {
        lines += !strncmp(line, "stridec[", 8);
        *holds |= strstr(line, text) != NULL;
        fputs(line, stderr);
    }
    fclose(told);
    return lines;
}

/* A message that works. */
static void message(int sender)
{
    MPI_Message none = MPI_MESSAGE_NULL;
    MPI_Status s;
    salt += 10;
    buf_fill(&out, salt), buf_fill(&in, salt + 1);
    int rc = my_rank == sender ? send_it() : receive_it(&none, &s);
    expect(rc == MPI_SUCCESS, "a message: %s", error_name(error_class(rc)));
    if (my_rank != sender && rc == MPI_SUCCESS) check_received(&s, "a message");
}

/* Between buffers of host memory, large enough for malloc to map. */
static void host_messages(int number)
{
    layout_number(&from, number, 300), layout_number(&to, 1, 300);
    buf_make(&out, MEM_HOST, &from, 0, salt), buf_make(&in, MEM_HOST, &to, 0, salt + 1);
    for (send_by = 0; send_by < SENDS; send_by++) message(0), message(1);
    for (send_by = 0, recv_by = 0; recv_by < RECVS; recv_by++) message(0), message(1);
    recv_by = 0;
    buf_free(&out), buf_free(&in);
    layout_free(&from), layout_free(&to);
}

static void expect_other(int rc, const char *what)
{
    expect(error_class(rc) == MPI_ERR_OTHER, "%s: %s", what, error_name(error_class(rc)));
}

/* Rank 1's calls on device memory fail; rank 0 gets its messages or hears of that. */
static void device_messages(void)
{
    struct buf device = in;
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status s;
    salt += 10;
    if (my_rank == 1) {
        char packed[2048];
        int at = 0;
        expect_other(MPI_Pack(out.origin, 1, from.type, packed, sizeof packed, &at, comm), "MPI_Pack");
        int rc = MPI_Send(out.origin, from.count, from.type, peer, TAG, comm);
        expect_other(rc, "MPI_Send");
        MPI_Send(&rc, 1, MPI_INT, peer, TOLD, control);
        expect_other(receive_it(&m, &s), "MPI_Recv");
        buf_make(&in, MEM_HOST, &to, 0, salt + 1);
        take_left(&m, MPI_ERR_OTHER);
        MPI_Recv(&rc, 1, MPI_INT, peer, TOLD, control, MPI_STATUS_IGNORE);
        buf_free(&in);
        in = device;
        expect_other(MPI_Bcast(out.origin, 1, from.type, 0, MPI_COMM_SELF), "MPI_Bcast");
    } else {
        buf_fill(&in, salt + 1);
        receive_or_hear();
        buf_fill(&out, salt);
        int rc = MPI_Send(out.origin, from.count, from.type, peer, TAG, comm);
        MPI_Send(&rc, 1, MPI_INT, peer, TOLD, control);
    }
    MPI_Barrier(control);
}

/* Rank 1 alone has a fault; by rank 1's words of it, and no others. */
static void lose(const char *variable, const char *value, const char *word)
{
    bool holds = false;
    layout_number(&from, 2, 40), layout_number(&to, 1, 40);
    struct layout kept[2] = {from, to};
    buf_make(&out, MEM_DEVICE, &from, 0, salt), buf_make(&in, MEM_DEVICE, &to, 0, salt + 1);
    struct buf outs = out, ins = in;
    if (my_rank == 1) hold_stderr(), setenv(variable, value, 1);
    device_messages(), device_messages();
    host_messages(0), host_messages(2);
    if (my_rank == 1) {
        unsetenv(variable);
        int lines = release_stderr(word, &holds);
        expect(lines == 1 && holds, "%d lines, \"%s\" is %samong them", lines, word, holds ? "" : "not ");
    }
    report("device memory is lost: %s", word);
    from = kept[0], to = kept[1], out = outs, in = ins;
}

static void lost(void)
{
    char next[24];
    struct simgpu_counts c;
    fault.rank = -1;
    lose("SIMGPU_FAIL", "cuPointerGetAttributes,cuPointerGetAttribute", "does not tell where");
    buf_free(&out), buf_free(&in);
    layout_free(&from), layout_free(&to);
    counts(&c);
    snprintf(next, sizeof next, "%llu", (unsigned long long)c.launches + 1);
    lose("SIMGPU_FAULT", next, "context is lost");
    layout_free(&from), layout_free(&to);   /* the buffers went with the context */
}

/* ---- no faults of its own (tests/failures.sh): errors end the job ---- */

static void once(void)
{
    fault.rank = -1;
    for (shape = 0; shape < SHAPES; shape++) salt += 10, round_pack();
    layout_number(&from, 2, 40), layout_number(&to, 1, 40);
    buf_make(&out, kind, &from, 0, salt), buf_make(&in, kind, &to, 0, salt + 1);
    for (int i = 0; i < 2 * RECVS; i++) {
        send_by = i < RECVS ? 0 : i - RECVS, recv_by = i < RECVS ? i : 0;
        if (send_by < SENDS) message(0);
    }
    buf_free(&out), buf_free(&in);
    layout_free(&from), layout_free(&to);
    collectives(), neighbors();
    report("all once");
}

int main(int argc, char **argv)
{
    static char attached[1 << 20];
    check_start(&argc, &argv, -1);
    kind = host_mode ? MEM_HOST : MEM_DEVICE;
    peer = 1 - my_rank;
    find_tools();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_Comm_dup(MPI_COMM_WORLD, &control);
    MPI_Errhandler errors = strcmp(argv[argc - 1], "once") ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL;
    MPI_Comm_set_errhandler(comm, errors), MPI_Comm_set_errhandler(MPI_COMM_WORLD, errors);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, errors);
    MPI_Buffer_attach(attached, sizeof attached);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "every")) every = true;
        if (!strcmp(argv[i], "memory")) memory();
        if (!strcmp(argv[i], "driver")) driver(argv + i + 1);
        if (!strcmp(argv[i], "lost")) lost();
        if (!strcmp(argv[i], "once")) once();
    }
    void *at;
    int bytes;
    MPI_Buffer_detach(&at, &bytes);
    MPI_Comm_free(&comm), MPI_Comm_free(&control);
    return check_finish();
}
