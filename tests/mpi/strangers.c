/* strangers.c: peers that zero-copy messages can't be made with: a rank without stridec, one in another
 * container, and ranks that end while others wait for them.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 alone
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 container
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 exits => ends
 * run: STRIDEC_TRANSPORT=zerocopy OMPI_MCA_orte_enable_recovery=1 -n 2 killed
 * run: STRIDEC_TRANSPORT=zerocopy OMPI_MCA_orte_enable_recovery=1 -n 2 killed reading
 * run: STRIDEC_TRANSPORT=zerocopy OMPI_MCA_orte_enable_recovery=1 -n 2 killed packing
 * run: STRIDEC_TRANSPORT=zerocopy OMPI_MCA_orte_enable_recovery=1 -n 2 killed moving
 * run: STRIDEC_TRANSPORT=zerocopy OMPI_MCA_orte_enable_recovery=1 -n 2 killed neighbor
 * run: STRIDEC_TRANSPORT=zerocopy OMPI_MCA_orte_enable_recovery=1 -n 2 killed ineighbor
 */
#include "check.h"
#include "offers.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 2
#define TAG 7
#define SECONDS 30
#ifdef OPEN_MPI
#define SURVIVES 1   /* a job may be told to go on without one of its ranks; ranks may be in different process namespaces */
#else
#define SURVIVES 0
#endif

static int peer;

/* Rank 1 begins anew, as a stranger. */
static void become(const char *what, char **argv)
{
    char *in[16] = {"unshare", "-pf", "--mount-proc", "/proc/self/exe"}, exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (rank_given() != 1 || getenv("STRANGER") || n < 0) return;
    exe[n] = '\0', in[3] = exe;
    for (int i = 1; argv[i] && i < 11; i++) in[3 + i] = argv[i];
    setenv("STRANGER", "1", 1);
    if (!strcmp(what, "alone") && !unsetenv("LD_PRELOAD")) execv(exe, argv);
    if (!strcmp(what, "container") && SURVIVES && !system("unshare -pf --mount-proc true 2>/dev/null")) execvp(in[0], in);
    unsetenv("STRANGER");
}

/* Both ways, what was probed included. */
static void exchange(uint64_t salt)
{
    struct layout l, other;
    struct buf in, out;
    MPI_Request r;
    MPI_Status s;
    int n = -1;
    layout_number(&l, 1 + my_rank, COUNT), layout_number(&other, 2 - my_rank, COUNT);
    buf_make(&out, MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank), buf_make(&in, MEM_DEVICE, &l, 0, salt + 2);
    MPI_Isend(out.origin, COUNT, l.type, peer, TAG, MPI_COMM_WORLD, &r);
    if (salt % 3 == 0) MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
    MPI_Recv(in.origin, COUNT, l.type, peer, TAG, MPI_COMM_WORLD, &s);
    MPI_Get_count(&s, l.type, &n);
    expect_equal(n, COUNT, "elements");
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    buf_expect_from(&in, &l, &other, salt + (uint64_t)peer);
    buf_check(&in, "between strangers");
    buf_free(&in), buf_free(&out);
    layout_free(&l), layout_free(&other);
}

static void strangers(const char *what)
{
    int is = getenv("STRANGER") != NULL, any;
    MPI_Allreduce(&is, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!any) note("no stranger can be had here: %s", what);
    for (uint64_t i = 0; i < 40; i++) exchange(10 * i);
    expect(!any || !offers_used(), "a message was offered");
    report("a peer that is a stranger: %s", what);
}

/* Rank 1 offers, says so, and ends; rank 0 receives only then: an error, or the bytes that there were. */
static int ended(bool killed)
{
    struct layout l;
    struct buf b;
    double since = 0;
    int pid = (int)getpid(), rc;
    for (uint64_t i = 0; i < 10 || (!offers_used() && within(&since, SECONDS) && i < 100); i++) exchange(10 * i);
    layout_number(&l, 2, COUNT);
    buf_make(&b, MEM_DEVICE, &l, 0, 5 + (uint64_t)my_rank);
    if (my_rank == 1) {
        MPI_Request r;
        MPI_Isend(b.origin, COUNT, l.type, 0, TAG, MPI_COMM_WORLD, &r);
        MPI_Send(&pid, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD);
        if (!killed) _exit(3);
        raise(SIGKILL);
    }
    MPI_Recv(&pid, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!kill(pid, 0) || errno != ESRCH) {}
    rc = MPI_Recv(b.origin, COUNT, l.type, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS) buf_expect_from(&b, &l, &l, 6);
    bool right = buf_check(&b, "received");
    printf("%s a receive from a rank that has ended: %s\n# %d passed, %d failed\n", right ? "ok" : "not ok",
           error_name(error_class(rc)), right, !right);
    fflush(stdout);
    _exit(!right);   /* the MPI would wait for the other rank */
}

/*
 * Rank 1 ends in the middle of a transfer, while rank 0 waits for it inside stridec.
 */

static void die_at_work(void)
{
    if (my_rank == 1) setenv("SIMGPU_KILL", "cuLaunchKernel,cuGraphLaunch,cuMemcpyAsync,cuMemcpy2DAsync,cuMemcpy3DAsync,"
                                            "cuMemcpyDtoHAsync,cuMemcpyHtoDAsync", 1);
}

static MPI_Comm ring;
static MPI_Datatype blocks;   /* 2 MiB: of 8 bytes what is to be packed in pieces, else of 64, one block as far apart */
static struct buf from, to;

/* The receiver ends when it has taken the offer; or before, if it is slow, and then the send is over. */
static int while_reading(void)
{
    die_at_work();
    if (my_rank == 0) return MPI_Send(from.origin, 1, blocks, peer, TAG, MPI_COMM_WORLD);
    return MPI_Recv(to.origin, 1, blocks, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The sender ends between the pieces that it packs. */
static int while_packing(void)
{
    die_at_work();
    if (my_rank == 1) return MPI_Send(from.origin, 1, blocks, peer, TAG, MPI_COMM_WORLD);
    return MPI_Recv(to.origin, 1, blocks, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The sender ends while it moves the payload, since the receiver is late. */
static int while_moving(void)
{
    int pid = (int)getpid();
    if (my_rank == 1) {
        MPI_Request r;
        MPI_Send(&pid, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD);
        die_at_work();
        MPI_Isend(from.origin, 1, blocks, 0, TAG, MPI_COMM_WORLD, &r);
        return MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    MPI_Recv(&pid, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* The RTS header's send may want this process to go on with what it has: no message has this tag. */
    for (int there; !kill(pid, 0) || errno != ESRCH;) MPI_Iprobe(1, TAG + 2, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    return MPI_Recv(to.origin, 1, blocks, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int in_neighbor(void)
{
    die_at_work();
    return MPI_Neighbor_allgather(from.origin, 1, blocks, to.origin, 1, blocks, ring);
}

static int in_ineighbor(void)
{
    MPI_Request r;
    die_at_work();
    int rc = MPI_Ineighbor_allgather(from.origin, 1, blocks, to.origin, 1, blocks, ring, &r);
    return rc != MPI_SUCCESS ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    int (*go)(void);
    bool must;   /* rank 0 gets an error; else it may also have gone on before */
} MIDDLE[] = {{"reading", while_reading, false}, {"packing", while_packing, true}, {"moving", while_moving, true},
              {"neighbor", in_neighbor, true}, {"ineighbor", in_ineighbor, false}};

static int in_the_middle(const char *name)
{
    double since = 0;
    bool must = true;
    int rc = MPI_SUCCESS, length = strcmp(name, "packing") ? 8 : 1, n = (1 << 18) / length, first[200];
    MPI_Type_vector(n, length, 2 * length, MPI_DOUBLE, &blocks);
    type_commit(&blocks);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &num_ranks, &(int){0}, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    buf_bytes(&from, MEM_DEVICE, (size_t)4 << 20, 0, 1), buf_bytes(&to, MEM_DEVICE, (size_t)8 << 20, 0, 2);
    for (uint64_t i = 0; i < 10 || (!offers_used() && within(&since, SECONDS) && i < 100); i++) exchange(10 * i);
    /* The first message of an allocation is moved at once. */
    MPI_Sendrecv(from.origin, 200, MPI_INT, peer, TAG, first, 200, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < sizeof MIDDLE / sizeof *MIDDLE; i++)
        if (!strcmp(MIDDLE[i].name, name)) rc = MIDDLE[i].go(), must = MIDDLE[i].must;
    bool right = my_rank == 0 && (rc != MPI_SUCCESS || !must);
    printf("%s the other rank ends while %s: %s\n# %d passed, %d failed\n", right ? "ok" : "not ok", name,
           error_name(error_class(rc)), right, !right);
    fflush(stdout);
    _exit(!right);
}

int main(int argc, char **argv)
{
    const char *what = "alone";
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-' && i == 1) what = argv[i];
    become(what, argv);
    if (getenv("STRANGER") && !strcmp(what, "alone")) host_mode = true;
    check_start(&argc, &argv, -1);
    peer = 1 - my_rank;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 2 && SURVIVES && strcmp(argv[2], "--host")) return in_the_middle(argv[2]);
    if (!strcmp(what, "exits") || (!strcmp(what, "killed") && SURVIVES)) return ended(!strcmp(what, "killed"));
    strangers(what);
    return check_finish();
}
