/* early.c: receives that are posted while the sender is still on its way through MPI_Init (tool/late.c), into host
 * memory as it is: RTS headers that come to them later are looked at. And receives of MPI_Isendrecv and its like, whose
 * requests may tell nothing. The number of ranks on this machine is not taken from another launcher's variable, which a
 * job inherits that is started from within another MPI's.
 *
 * run: LD_PRELOAD=@LATE LATE=@FILE -n 2
 * run: OMPI_COMM_WORLD_LOCAL_SIZE=1 MPI_LOCALNRANKS=1 LD_PRELOAD=@LATE LATE=@FILE -n 2
 * run: -n 2
 */
#include "check.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define N 8192
#define TAG 3
#define ROUNDS 10000

static MPI_Datatype column;
static double spaced[2 * N], dense[3][N];

static void fill(int round)
{
    for (int i = 0; i < N; i++) spaced[2 * i] = 10.0 * i + round;
}

static void check(const double *came, int round, const char *what)
{
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += came[i] != 10.0 * i + round;
    expect(!wrong, "%s: %d of %d values are wrong", what, wrong, N);
}

static long offered(void)
{
    long (*ask)(int) = NULL;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    return ask ? ask(0) + ask(1) : -1;
}

/* Until rank 1 has offered a message: both learn of each other while they talk. */
static void acquaint(void)
{
    int more = 1;
    for (int i = 0; i < ROUNDS && more; i++) {
        if (my_rank == 1) MPI_Send(spaced, 1, column, 0, TAG + 9, MPI_COMM_WORLD);
        else MPI_Recv(dense[2], N, MPI_DOUBLE, 1, TAG + 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        more = offered() == 0;
        MPI_Bcast(&more, 1, MPI_INT, 1, MPI_COMM_WORLD);
    }
    expect(!more, "nothing was offered");
}

static void send(int round, int tag)
{
    fill(round);
    MPI_Send(spaced, 1, column, 0, tag, MPI_COMM_WORLD);
}

static MPI_Request once, again;

enum { EARLY = 128, BROADCASTS = 3 };
static double early[EARLY];

static void broadcast(int rank)
{
    for (int i = 0; i < BROADCASTS; i++) {
        for (int k = 0; k < EARLY; k++) early[k] = rank ? 0 : i * EARLY + k;
        MPI_Bcast(early, EARLY, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        for (int k = 0; k < EARLY && rank; k++)
            expect(early[k] == i * EARLY + k, "double %d of broadcast %d is wrong", k, i);
    }
}

/* Nothing has been said to rank 1 yet. */
static void post(void)
{
    const char *file = getenv("LATE");
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank) return;
    MPI_Irecv(dense[0], N, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, &once);
    MPI_Recv_init(dense[1], N, MPI_DOUBLE, 1, TAG + 1, MPI_COMM_WORLD, &again);
    if (!file) return;
    close(open(file, O_CREAT | O_WRONLY, 0600));
    broadcast(0);   /* before rank 1 has its file */
}

static void posted_early(void)
{
    acquaint();
    long before = offered();
    if (my_rank == 1) send(1, TAG), send(2, TAG + 1), send(3, TAG + 1);
    else {
        MPI_Wait(&once, MPI_STATUS_IGNORE);
        check(dense[0], 1, "MPI_Irecv");
        for (int round = 2; round < 4; round++) {
            MPI_Start(&again);
            MPI_Wait(&again, MPI_STATUS_IGNORE);
            check(dense[1], round, "MPI_Recv_init");
        }
        MPI_Request_free(&again);
    }
    if (my_rank == 1) expect_equal(offered() - before, 3, "messages that were offered");
    report("receives posted early");
}

static void by_isendrecv(void)
{
#if MPI_VERSION >= 4
    MPI_Request q;
    MPI_Status status;
    int count;
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < N; i++) dense[0][i] = -i, dense[1][i] = 0;
        if (my_rank == 1) {
            send(5 + way, TAG);
            MPI_Recv(dense[1], N, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            if (way == 0) MPI_Isendrecv(dense[0], N, MPI_DOUBLE, 1, TAG, dense[1], N, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD, &q);
            else MPI_Isendrecv_replace(dense[0], N, MPI_DOUBLE, 1, TAG, 1, TAG, MPI_COMM_WORLD, &q);
            MPI_Wait(&q, &status);
            check(dense[1 - way], 5 + way, way ? "MPI_Isendrecv_replace" : "MPI_Isendrecv");
            MPI_Get_count(&status, MPI_DOUBLE, &count);
            expect_equal(count, N, "the count of the status");
        }
        for (int i = 0; my_rank == 1 && i < N; i++)
            if (dense[1][i] != -i) expect(0, "value %d that was sent back is wrong", i), i = N;
    }
    report("MPI_Isendrecv and MPI_Isendrecv_replace of what is offered");
#endif
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    post();
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank && getenv("LATE")) broadcast(rank);
    check_begin(argc, argv, MPI_COMM_WORLD);
    if (getenv("LATE")) report("broadcasts that begin before the others have left MPI_Init");
    MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    posted_early();
    by_isendrecv();
    MPI_Type_free(&column);
    return check_finish();
}
