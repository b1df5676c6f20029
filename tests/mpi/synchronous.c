/* synchronous.c: synchronous sends go zero-copy, and end only after the match: a probe of the receiver's is
 * none, a posted receive is one, though nobody waits for it yet. `persistent`: by MPI_Ssend_init, the same request
 * again and again.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 threads
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: -n 2 --host
 * run: -n 2 threads --host
 * run: STRIDEC_TRANSPORT=oneshot -n 2 packed
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 persistent
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 persistent threads
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2 persistent
 * run: -n 2 persistent --host
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 persistent threads --host
 * run: STRIDEC_TRANSPORT=oneshot -n 2 persistent packed
 */
#include "../../runtime/base/mpi_workarounds.h"
#include "check.h"
#include "resources.h"
#include <dlfcn.h>
#include <string.h>

#define DOUBLES 8192   /* every second one of a vector: 64 KiB */
#define SECONDS 60
#define LOOKS 0.003    /* seconds of calls that must find nothing: longer than a sender's patience (rndv_send.c) */
enum { DATA = 1, OTHER, MORE };

static MPI_Comm comm;
static int peer;
static struct layout every_second, contiguous;
static const struct layout *sent = &every_second;
static struct buf buf, other;
static bool packed, persistent;
static MPI_Message found = MPI_MESSAGE_NULL;   /* by a matched probe */
static MPI_Request made[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};   /* by MPI_Ssend_init */
static uint64_t salt = 10;

/* One rank waits here until the other one calls it for the other direction. */
static void word(int from)
{
    if (my_rank == from) MPI_Send(NULL, 0, MPI_BYTE, peer, 0, check_comm);
    else MPI_Recv(NULL, 0, MPI_BYTE, peer, 0, check_comm, MPI_STATUS_IGNORE);
}

/* Rank 0 sends what rank 1 expects. */
static void fill(struct buf *b)
{
    salt++;
    buf_fill(b, my_rank ? salt + 1000 : salt);
    if (my_rank) buf_expect_from(b, sent, sent, salt);
}

/* Sends `buf` or, as the second one, `other`. */
static void issend_one(bool second, MPI_Request *r)
{
    static int starts;
    const struct buf *b = second ? &other : &buf;
    int tag = second ? OTHER : DATA;
    if (!persistent) {
        MPI_Issend(b->origin, sent->count, sent->type, peer, tag, comm, r);
        return;
    }
    if (made[second] == MPI_REQUEST_NULL)
        MPI_Ssend_init(b->origin, sent->count, sent->type, peer, tag, comm, &made[second]);
    *r = made[second];
    if (starts++ % 2) MPI_Start(r);
    else MPI_Startall(1, r);
    expect(*r == made[second], "a start changes its request");
}

static void issend(MPI_Request *r)
{
    issend_one(false, r);
}

/* Frees the requests while they are inactive. */
static void forget(void)
{
    for (int i = 0; i < 2; i++)
        if (made[i] != MPI_REQUEST_NULL) MPI_Request_free(&made[i]);
}

static void receive(void)
{
    if (found != MPI_MESSAGE_NULL) MPI_Mrecv(buf.origin, sent->count, sent->type, &found, MPI_STATUS_IGNORE);
    else MPI_Recv(buf.origin, sent->count, sent->type, peer, DATA, comm, MPI_STATUS_IGNORE);
}

/* ---- completion ---- */

/* Returns true if a call completes the first of two requests; it may complete the second one. */
static bool complete_by(int call, MPI_Request r[2])
{
    int flag = 0, which = MPI_UNDEFINED, n = 0, list[2];
    switch (call) {
    case 0: MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE); return flag;
    case 1: MPI_Testall(1, r, &flag, MPI_STATUSES_IGNORE); return flag;
    case 2: MPI_Testany(2, r, &which, &flag, MPI_STATUS_IGNORE); return which == 0;
    case 3: MPI_Testsome(2, r, &n, list, MPI_STATUSES_IGNORE); return n > 0 && (!list[0] || (n > 1 && !list[1]));
    case 4: MPI_Testany(1, r, &which, &flag, MPI_STATUS_IGNORE); return flag;
    case 5: MPI_Testsome(1, r, &n, list, MPI_STATUSES_IGNORE); return n > 0;
    case 6: MPI_Request_get_status(r[0], &flag, MPI_STATUS_IGNORE); return flag;
#if MPI_VERSION * 100 + MPI_SUBVERSION >= 401
    case 7: MPI_Request_get_status_any(2, r, &which, &flag, MPI_STATUS_IGNORE); return flag && which == 0;
    case 8: MPI_Request_get_status_all(1, r, &flag, MPI_STATUSES_IGNORE); return flag;
    case 9: MPI_Request_get_status_some(2, r, &n, list, MPI_STATUSES_IGNORE); return n > 0 && !list[0];
#endif
    default: return false;
    }
}
/* Calls from LOOKING on complete none. */
enum { LOOKING = 6, CALLS = MPI_VERSION * 100 + MPI_SUBVERSION >= 401 ? 10 : 7 };

/* Returns how many calls there are: some MPIs end a persistent request that is looked at. */
static int calls(void)
{
    return persistent && GET_STATUS_ENDS_PERSISTENT ? LOOKING : CALLS;
}

static void not_complete(MPI_Request r[2], const char *when)
{
    bool complete = false;
    int i = 0;
    for (double since = 0; !complete && within(&since, LOOKS); i++) complete = complete_by(i % calls(), r);
    expect(!complete, "%s, call %d finds the send complete", when, (i - 1) % calls());
}

enum { PROBES = 6 };
static void find(int way)
{
    MPI_Status s;
    int there = 0, n = 0;
    if (way == 4) MPI_Mprobe(peer, DATA, comm, &found, &s);
    else if (way == 5) while (!there) MPI_Improbe(MPI_ANY_SOURCE, DATA, comm, &there, &found, &s);
    else if (way % 2) MPI_Probe(way < 2 ? peer : MPI_ANY_SOURCE, DATA, comm, &s);
    else while (!there) MPI_Iprobe(peer, way < 2 ? DATA : MPI_ANY_TAG, comm, &there, &s);
    MPI_Get_count(&s, every_second.type, &n);
    expect_equal(n, 1, "the count that a probe tells");
}

/* The end: by a wait, or by polling with each call. */
static void end(int how, MPI_Request r[2])
{
    if (how == calls()) MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    else while (!complete_by(how, r)) continue;
    if (how >= LOOKING && how < calls()) MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    int which = 0;
    if (persistent) MPI_Waitany(1, r, &which, MPI_STATUS_IGNORE);
    expect(persistent ? which == MPI_UNDEFINED && r[0] == made[0] : r[0] == MPI_REQUEST_NULL,
           "call %d leaves the request active", how);
}

static void ends_after_match(bool probes)
{
    for (int how = 0; how <= calls(); how++) {
        MPI_Request r[2];
        fill(&buf);
        if (my_rank == 0) {
            MPI_Irecv(NULL, 0, MPI_BYTE, peer, OTHER, comm, &r[1]);
            issend(&r[0]);
            not_complete(r, "before the receiver begins");
            word(0), word(1);
            if (probes) not_complete(r, "after a probe");
            word(0);
            end(how, r);
            MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        } else {
            word(0);
            if (probes) find(how % PROBES);
            word(1), word(0);
            receive();
            MPI_Send(NULL, 0, MPI_BYTE, peer, OTHER, comm);
        }
        buf_check(&buf, "sent synchronously");
    }
    report("a synchronous send ends after the match%s", probes ? ", and a probe is none" : "");
}

/* The blocking send ends after the match too: what follows it is not there before. */
static void blocking(void)
{
    for (int way = 0; way < 4; way++) {
        int there = 0;
        fill(&buf);
        if (my_rank == 0) {
            MPI_Ssend(buf.origin, 1, every_second.type, peer, DATA, comm);
            MPI_Send(NULL, 0, MPI_BYTE, peer, OTHER, comm);
        } else {
            find(way % 2 ? 1 : 0);
            for (double since = 0; !there && within(&since, LOOKS);)
                MPI_Iprobe(peer, OTHER, comm, &there, MPI_STATUS_IGNORE);
            expect(!there, "MPI_Ssend ends after a probe");
            receive();
            MPI_Recv(NULL, 0, MPI_BYTE, peer, OTHER, comm, MPI_STATUS_IGNORE);
        }
        buf_check(&buf, "sent by MPI_Ssend");
    }
    report("MPI_Ssend ends after the match");
}

/* The receiver has probed the message, and takes it only after a word that the sender sends when a call for any of its
 * requests has completed the other one. */
static void other_first(void)
{
    for (int call = 0; call < 4; call++) {
        MPI_Request r[2];
        int which = -1, n = 0, list[2] = {-1, -1}, flag = 0;
        fill(&buf);
        if (my_rank == 0) {
            issend(&r[0]);
            MPI_Irecv(NULL, 0, MPI_BYTE, peer, OTHER, comm, &r[1]);
            word(1);
            if (call == 0) MPI_Waitany(2, r, &which, MPI_STATUS_IGNORE);
            else if (call == 1) MPI_Waitsome(2, r, &n, list, MPI_STATUSES_IGNORE), which = list[0];
            else if (call == 2) while (!flag) MPI_Testany(2, r, &which, &flag, MPI_STATUS_IGNORE);
            else while (!n) MPI_Testsome(2, r, &n, list, MPI_STATUSES_IGNORE), which = list[0];
            expect(which == 1 && n < 2, "call %d completes request %d first", call, which);
            MPI_Send(NULL, 0, MPI_BYTE, peer, MORE, comm);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        } else {
            find(1);
            word(1);
            MPI_Send(NULL, 0, MPI_BYTE, peer, OTHER, comm);
            MPI_Recv(NULL, 0, MPI_BYTE, peer, MORE, comm, MPI_STATUS_IGNORE);
            receive();
        }
        buf_check(&buf, "sent beside a receive");
    }
    report("calls for any of several requests leave a send that only a probe has found");
}

/* The receive is posted, and its request completed only after a message that follows the send. */
static void posted(void)
{
    for (int way = 0; way < 4; way++) {
        MPI_Request r;
        fill(&buf);
        if (my_rank == 0) {
            word(1);
            if (way % 2) MPI_Ssend(buf.origin, 1, every_second.type, peer, DATA, comm);
            else issend(&r), MPI_Wait(&r, MPI_STATUS_IGNORE);
            buf_fill(&buf, salt + 2000);   /* it is this rank's again */
            MPI_Send(NULL, 0, MPI_BYTE, peer, MORE, comm);
        } else {
            MPI_Irecv(buf.origin, 1, every_second.type, peer, DATA, comm, &r);
            word(1);
            MPI_Recv(NULL, 0, MPI_BYTE, peer, MORE, comm, MPI_STATUS_IGNORE);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        }
        buf_check(&buf, "received by a posted receive");
    }
    report("a posted receive is a match");
}

/* The request is freed, so nobody can ask for the match: no call may wait for it. */
static void freed(void)
{
    for (int way = 0; way < 2; way++) {
        MPI_Request r;
        fill(&buf), fill(&other);
        if (my_rank == 0) {
            issend(&r);
            MPI_Request_free(&r);
            made[0] = MPI_REQUEST_NULL;
            word(1);
            MPI_Send(other.origin, 1, every_second.type, peer, MORE, comm);
            word(1);
        } else {
            if (way) find(1);
            word(1);
            MPI_Recv(other.origin, 1, every_second.type, peer, MORE, comm, MPI_STATUS_IGNORE);
            receive();
            word(1);
        }
        buf_check(&buf, "of a freed request"), buf_check(&other, "sent after it");
    }
    report("a freed request of a synchronous send");
}

/* Several at once, in the order of receipt that the receiver likes, probed or not. */
static void several(void)
{
    fill(&buf), fill(&other);
    if (my_rank == 0) {
        MPI_Request r[2];
        issend_one(false, &r[0]), issend_one(true, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    } else {
        MPI_Message message;
        MPI_Mprobe(peer, OTHER, comm, &message, MPI_STATUS_IGNORE);
        find(3);
        MPI_Mrecv(other.origin, 1, every_second.type, &message, MPI_STATUS_IGNORE);
        receive();
    }
    buf_check(&buf, "the first of two"), buf_check(&other, "the second of two");
    report("MPI_Mprobe of the second of two synchronous sends");
}

/* Two requests are started together, and end in the order of their receives, which take any message of any source. */
static void together(void)
{
    for (int call = 0; call < 4; call++) {
        int first = call / 2, which = -1, n = 0, list[2] = {-1, -1}, flag = 0;
        fill(&buf), fill(&other);
        if (my_rank == 0) {
            MPI_Request r[2];
            issend_one(false, &r[0]), issend_one(true, &r[1]);
            not_complete(r, "before any receive");
            word(0), word(1);
            if (call == 0) MPI_Waitany(2, r, &which, MPI_STATUS_IGNORE);
            else if (call == 1) MPI_Waitsome(2, r, &n, list, MPI_STATUSES_IGNORE), which = list[0];
            else if (call == 2) while (!flag) MPI_Testany(2, r, &which, &flag, MPI_STATUS_IGNORE);
            else while (!n) MPI_Testsome(2, r, &n, list, MPI_STATUSES_IGNORE), which = list[0];
            expect(which == first && n < 2, "call %d completes request %d, not %d", call, which, first);
            word(0);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        } else {
            const struct buf *b[] = {first ? &other : &buf, first ? &buf : &other};
            word(0);
            find(3);
            MPI_Recv(b[0]->origin, sent->count, sent->type, MPI_ANY_SOURCE, first ? OTHER : DATA, comm,
                     MPI_STATUS_IGNORE);
            word(1), word(0);
            MPI_Recv(b[1]->origin, sent->count, sent->type, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        }
        buf_check(&buf, "the first of two"), buf_check(&other, "the second of two");
    }
    report("two synchronous sends end in the order of their receives");
}

/* ---- how they go ---- */

static long host_offers(void)
{
    long (*ask)(int) = NULL;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    return ask ? ask(0) + ask(1) : -1;
}

/* Returns true if a synchronous send and its receive went zero-copy, on both ranks. */
static bool direct(bool blocks)
{
    struct resources before, after;
    MPI_Request r;
    fill(&buf);
    forget();   /* a persistent request is looked at once */
    MPI_Barrier(comm);
    resources_now(&before);
    long offers = host_offers();
    if (my_rank) receive();
    else if (blocks) MPI_Ssend(buf.origin, sent->count, sent->type, peer, DATA, comm);
    else issend(&r), MPI_Wait(&r, MPI_STATUS_IGNORE);
    resources_now(&after);
    int64_t work = after.launches - before.launches + after.copies - before.copies;
    int mine = host_mode ? my_rank || host_offers() > offers : work == my_rank, all = 0;
    buf_check(&buf, "sent zero-copy");
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
    return all;
}

static void goes(bool blocks)
{
    double since = 0;
    bool so = false, time = true;
    while (!so && time) {
        int mine = within(&since, SECONDS), all = 0;
        so = direct(blocks);
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
        time = all;
    }
    const char *name = blocks ? "MPI_Ssend" : persistent ? "MPI_Ssend_init" : "MPI_Issend";
    expect(so, "%s does not go zero-copy", name);
    report("%s of %s zero-copy: one launch, by the receiver", name, sent->text);
}

/* Contiguous data in host memory is the MPI's. */
static void goes_contiguous(void)
{
    sent = &contiguous;
    goes(true), goes(false);
    forget();
    sent = &every_second;
}

int main(int argc, char **argv)
{
    bool threads = false;
    MPI_Datatype type;
    for (int i = 1; i < argc; i++) {
        packed |= !strcmp(argv[i], "packed"), threads |= !strcmp(argv[i], "threads");
        persistent |= !strcmp(argv[i], "persistent");
    }
    check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : -1);
    peer = 1 - my_rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_vector(DOUBLES, 1, 2, MPI_DOUBLE, &type);
    type_commit(&type);
    layout_of(&every_second, type, 1, "every second double");
    layout_of(&contiguous, MPI_DOUBLE, DOUBLES, "doubles");
    buf_make(&buf, host_mode ? MEM_HOST : MEM_DEVICE, &every_second, 0, salt);
    buf_make(&other, host_mode ? MEM_HOST : MEM_DEVICE, &every_second, 0, salt);
    struct resources r;
    resources_now(&r);   /* hardware counts no launches */
    if (!packed && (host_mode || r.simulated)) goes(true), goes(false);
    if (!packed && !host_mode && r.simulated && !cuda_aware()) goes_contiguous();
    ends_after_match(false), ends_after_match(true);
    blocking();
    other_first();
    posted();
    freed();
    several();
    together();
    forget();
    buf_free(&buf), buf_free(&other), layout_free(&every_second), layout_free(&contiguous);
    MPI_Comm_free(&comm);
    return check_finish();
}
