/* starts.c: what starting persistent requests costs: all is looked up when they are made. An offered send asks the driver one
 * thing, whether the memory is still the same, and a packed one nothing: one launch, however many are started together. Other
 * sends and receives ask one thing each: what lies at their address.
 *
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_MEMORY=64 -n 2 offered
 * run: STRIDEC_TRANSPORT=oneshot SIMGPU_MEMORY=64 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle SIMGPU_MEMORY=64 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=staged SIMGPU_MEMORY=64 -n 2 copies
 * run: STRIDEC_TRANSPORT=device LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_MEMORY=64 SIMGPU_EAGER=1 -n 2
 */
#include "check.h"
#include "offers.h"
#include "resources.h"
#include <stdlib.h>
#include <string.h>

#define FACES 26
#define SIDE 12
#define RADIUS 4   /* a corner is long enough to be offered */
#define BYTES (SIDE * SIDE * SIDE * sizeof(double))
#define SECONDS 40
#define MANY 600   /* more than an offering rank has slots at first */

static struct layout faces[FACES];
static struct buf out, in, theirs;   /* theirs: what the peer sends from, on the host */
static int peer;
static bool offered, copies;
static uint64_t salt = 10;

static void faces_make(void)
{
    const int sides[3] = {SIDE, SIDE, SIDE};
    for (int n = 0; n < FACES; n++) {
        int d = n < FACES / 2 ? n : n + 1, size[3], at[3];
        MPI_Datatype t;
        for (int i = 0; i < 3; i++, d /= 3) {
            size[i] = d % 3 == 1 ? SIDE - 2 * RADIUS : RADIUS;
            at[i] = d % 3 == 0 ? 0 : d % 3 == 1 ? RADIUS : SIDE - RADIUS;
        }
        MPI_Type_create_subarray(3, sides, size, at, MPI_ORDER_C, MPI_DOUBLE, &t);
        type_commit(&t);
        layout_of(&faces[n], t, 1, "face");
    }
}

static struct resources since(const struct resources *before)
{
    struct resources now;
    resources_now(&now);
    now.calls -= before->calls, now.questions -= before->questions, now.launches -= before->launches;
    now.copies -= before->copies;
    return now;
}

static void make(MPI_Request send[FACES], MPI_Request recv[FACES])
{
    for (int i = 0; i < FACES; i++) {
        MPI_Send_init(out.origin, 1, faces[i].type, peer, i, MPI_COMM_WORLD, &send[i]);
        MPI_Recv_init(in.origin, 1, faces[i].type, peer, i, MPI_COMM_WORLD, &recv[i]);
    }
}

static void give_back(MPI_Request send[FACES], MPI_Request recv[FACES])
{
    for (int i = 0; i < FACES; i++) MPI_Request_free(&send[i]), MPI_Request_free(&recv[i]);
}

static void expect_face(int n)
{
    const struct layout *l = &faces[n];
    const unsigned char *from = theirs.shadow + theirs.lead + l->low;
    unsigned char *to = in.shadow + in.lead + l->low;
    for (int i = 0; i < l->bytes; i++) to[l->map[i]] = from[l->map[i]];
}

/* What starting the first n sends cost. */
static struct resources exchange(MPI_Request send[FACES], MPI_Request recv[FACES], int n)
{
    struct resources before, cost;
    salt += 10;
    buf_fill(&out, salt + (uint64_t)my_rank), buf_fill(&theirs, salt + (uint64_t)peer);
    MPI_Startall(n, recv);
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&before);
    if (n == 1) MPI_Start(send);
    else MPI_Startall(n, send);
    cost = since(&before);
    MPI_Waitall(n, send, MPI_STATUSES_IGNORE);
    MPI_Waitall(n, recv, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++) expect_face(i);
    buf_check(&in, "started together");
    return cost;
}

static bool everywhere(bool here)
{
    int in_all = here, all = 0;
    MPI_Allreduce(&in_all, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* The driver's calls for a packed send: one asks for the context, one launches a graph, and one more sets new
 * arguments. A copy signals no end: the context is asked for again, and the stream is waited for. */
enum { LAUNCH = 4, WAIT = 4 };   /* two of each are the thread's mode of capture and back */
static bool is_launch(int64_t calls)
{
    return calls == LAUNCH || calls == LAUNCH + 1;
}

static bool cheap(const struct resources *c, int n)
{
    if (offered) return c->calls == 1 && c->questions == 1 && c->launches == 0;
    int wait = copies ? WAIT : 0;
    return c->launches == 1 && c->questions == 0 && c->copies == (copies ? n : 0) &&
           is_launch(c->calls - c->copies - wait);
}

/* Kernels are compiled in the background, and peers learn of each other, meanwhile. */
static void costs(int n, const char *what)
{
    MPI_Request send[FACES], recv[FACES];
    struct resources cost;
    double begun = 0;
    bool done;
    do {
        make(send, recv);
        cost = exchange(send, recv, n);
        done = everywhere(!cost.simulated || cheap(&cost, n));
        give_back(send, recv);
    } while (!done && everywhere(within(&begun, SECONDS)));
    expect(done && (!cost.simulated || cheap(&cost, n)), "%lld calls of the driver, %lld questions, %lld launches, %lld copies", (long long)cost.calls,
           (long long)cost.questions, (long long)cost.launches, (long long)cost.copies);
    report("%s", what);
}

/* Counts the calls of the driver that a packed MPI_Isend makes: a question where its buffer lies, then those of a start. There are no
 * more where it might be offered, but for a peer that can't read the memory. */
static void isends(void)
{
    MPI_Request r[2];
    struct resources before, cost;
    double begun = 0;
    bool done;
    do {
        salt += 10;
        buf_fill(&out, salt + (uint64_t)my_rank), buf_fill(&theirs, salt + (uint64_t)peer);
        MPI_Irecv(in.origin, 1, faces[0].type, peer, 0, MPI_COMM_WORLD, &r[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        resources_now(&before);
        MPI_Isend(out.origin, 1, faces[0].type, peer, 0, MPI_COMM_WORLD, &r[1]);
        cost = since(&before);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        expect_face(0), buf_check(&in, "by MPI_Isend");
        done = !cost.simulated || (cost.questions == 1 && cost.launches == 1 && is_launch(cost.calls - 1));
    } while (!everywhere(done) && everywhere(within(&begun, SECONDS)));
    expect(done, "%lld calls of the driver, %lld questions, %lld launches", (long long)cost.calls, (long long)cost.questions,
           (long long)cost.launches);
    report("MPI_Isend");
}

/* All faces by MPI_Isend, MPI_Irecv and MPI_Waitall. */
static struct resources isend_all(void)
{
    MPI_Request r[2 * FACES];
    struct resources before, cost;
    salt += 10;
    buf_fill(&out, salt + (uint64_t)my_rank), buf_fill(&theirs, salt + (uint64_t)peer);
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&before);
    for (int i = 0; i < FACES; i++) MPI_Irecv(in.origin, 1, faces[i].type, peer, i, MPI_COMM_WORLD, &r[i]);
    for (int i = 0; i < FACES; i++) MPI_Isend(out.origin, 1, faces[i].type, peer, i, MPI_COMM_WORLD, &r[FACES + i]);
    MPI_Waitall(2 * FACES, r, MPI_STATUSES_IGNORE);
    cost = since(&before);
    for (int i = 0; i < FACES; i++) expect_face(i);
    buf_check(&in, "by MPI_Isend, all together");
    return cost;
}

static void questions(void)
{
    struct resources cost;
    double begun = 0;
    bool done;
    do {
        cost = isend_all();
        done = !cost.simulated || (cost.questions == 2 * FACES && cost.launches == 1);
    } while (!everywhere(done) && everywhere(within(&begun, SECONDS)));
    expect(done, "%lld questions, %lld launches", (long long)cost.questions, (long long)cost.launches);
    report("offered MPI_Isends and MPI_Irecvs ask one thing each");
}

/* Memory that is given back and had anew at the same address is other memory: the simulated GPU goes once round all that it
 * has. False where it comes back elsewhere. */
static bool have_anew(void)
{
    enum { TRIES = 20000 };
    unsigned char *before = out.base;
    mem_free(MEM_DEVICE, out.base);
    for (int i = 0; i < TRIES; i++) {
        out.base = mem_alloc(MEM_DEVICE, out.bytes);
        if (out.base == before) return true;
        if (i < TRIES - 1) mem_free(MEM_DEVICE, out.base);
    }
    return false;
}

static void memory_anew(void)
{
    MPI_Request send[FACES], recv[FACES];
    make(send, recv);
    exchange(send, recv, FACES);
    MPI_Barrier(MPI_COMM_WORLD);
    bool same = have_anew();
    expect(same, "memory does not come back at its address");
    if (!same) out.origin = out.base;
    if (everywhere(same)) exchange(send, recv, FACES);
    give_back(send, recv);
    isend_all();
    same = have_anew();
    if (!same) out.origin = out.base;
    isend_all();
    report("memory had anew between starts");
}

/* All starts come before the first receive: what is offered needs more slots than there are at first, and no start may fail or wait for another one's
 * receive. */
static void many(void)
{
    static MPI_Request r[MANY];
    const struct layout *l = &faces[0];
    salt += 10;
    buf_fill(&out, salt);
    for (int i = 0; i < MANY && my_rank == 0; i++) {
        MPI_Send_init(out.origin, 1, l->type, 1, i, MPI_COMM_WORLD, &r[i]);
        expect_equal(MPI_Start(&r[i]), MPI_SUCCESS, "MPI_Start");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = MANY - 1; i >= 0 && my_rank == 1; i--) {
        buf_fill(&in, salt + 5);
        MPI_Recv(in.origin, 1, l->type, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_fill(&theirs, salt), expect_face(0);
        buf_check(&in, "one of many");
    }
    if (my_rank == 0) MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY && my_rank == 0; i++) MPI_Request_free(&r[i]);
    report("%d active persistent sends", MANY);
}

/* One send, started and waited for again and again while its receiver sleeps: each send is through before it is
 * received. */
static void late(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    const struct layout *l = &faces[0];
    int ahead = 0;
    salt += 10;
    if (my_rank == 0) MPI_Send_init(out.origin, 1, l->type, 1, 0, MPI_COMM_WORLD, &r);
    for (int i = 0; i < MANY; i++) {
        if (my_rank == 0) {
            buf_fill(&out, salt + (uint64_t)i);
            expect_equal(MPI_Start(&r), MPI_SUCCESS, "MPI_Start");
            if (i == 100) MPI_Send(&ahead, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        } else {
            if (i == 0) MPI_Recv(&ahead, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            buf_fill(&in, salt + MANY);
            MPI_Recv(in.origin, 1, l->type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            buf_fill(&theirs, salt + (uint64_t)i), expect_face(0);
            buf_check(&in, "a late one");
        }
    }
    if (my_rank == 0) MPI_Request_free(&r);
    salt += MANY;
    report("%d starts of one send, its receiver behind", MANY);
}

enum { AHEAD = 2, BOTH = 300 };   /* more than half the first slots */
static MPI_Request awaited[AHEAD * BOTH];

/* Every send once; its sender looks at nothing else until it has ended. */
static void start_each(MPI_Request send[BOTH])
{
    expect_equal(MPI_Startall(BOTH, send), MPI_SUCCESS, "MPI_Startall");
    for (int i = 0, sent = 0; i < BOTH; i++, sent = 0) {
        if (i % 2) MPI_Wait(&send[i], MPI_STATUS_IGNORE);
        while (i % 2 == 0 && !sent) MPI_Test(&send[i], &sent, MPI_STATUS_IGNORE);
    }
}

/* Both ranks wait for their sends before they look at what they receive: that is awaited, AHEAD messages of each send, so that no
 * send may wait for its receiver to do more. More are under way than there are slots at first. */
static void sends_first(void)
{
    static MPI_Request send[BOTH];
    const struct layout *l = &faces[0];
    const size_t bytes = (size_t)l->bytes, all = AHEAD * BOTH * bytes;
    unsigned char *to = mem_alloc(host_mode ? MEM_HOST : MEM_DEVICE, all), *got = malloc(all);
    salt += 10;
    for (int i = 0; i < AHEAD * BOTH; i++)
        MPI_Irecv(to + (size_t)i * bytes, l->bytes / 8, MPI_DOUBLE, peer, i % BOTH, MPI_COMM_WORLD, &awaited[i]);
    for (int i = 0; i < BOTH; i++) MPI_Send_init(out.origin, 1, l->type, peer, i, MPI_COMM_WORLD, &send[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int turn = 0; turn < AHEAD; turn++) buf_fill(&out, salt + (uint64_t)turn), start_each(send);
    MPI_Waitall(AHEAD * BOTH, awaited, MPI_STATUSES_IGNORE);
    mem_read(host_mode ? MEM_HOST : MEM_DEVICE, got, to, all);
    for (int i = 0; i < AHEAD * BOTH; i++) {
        buf_fill(&theirs, salt + (uint64_t)(i / BOTH));
        const unsigned char *sent = theirs.shadow + theirs.lead + l->low;
        for (int b = 0; b < l->bytes; b++)
            expect(got[(size_t)i * bytes + (size_t)b] == sent[l->map[b]], "byte %d of message %d of send %d", b, i / BOTH, i % BOTH);
    }
    for (int i = 0; i < BOTH; i++) MPI_Request_free(&send[i]);
    mem_free(host_mode ? MEM_HOST : MEM_DEVICE, to), free(got);
    report("%d sends of both ranks, %d starts of each, before what they receive", BOTH, AHEAD);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) offered |= !strcmp(argv[i], "offered"), copies |= !strcmp(argv[i], "copies");
    check_start(&argc, &argv, -1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    peer = 1 - my_rank;
    faces_make();
    buf_bytes(&out, MEM_DEVICE, BYTES, 0, salt), buf_bytes(&in, MEM_DEVICE, BYTES, 0, salt);
    buf_bytes(&theirs, MEM_HOST, BYTES, 0, salt);
    costs(1, "a start of one");
    costs(FACES, "a start of 26 faces");
    if (!offered && !copies) isends();
    if (offered) questions();
    if (!host_mode) memory_anew();
    many(), late(), sends_first();
    if (!host_mode) expect(offers_used() == offered, "messages are %soffered", offered ? "not " : "");
    report("messages are %s", offered ? "offered" : "packed");
    buf_free(&out), buf_free(&in), buf_free(&theirs);
    for (int i = 0; i < FACES; i++) layout_free(&faces[i]);
    return check_finish();
}
