/* parting.c: messages that are received only when their sender, whose sends have ended, is in MPI_Finalize: in host
 * memory, of short runs, each kind often enough that it is known; blocking, nonblocking and persistent, longer than a
 * block's ring too.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: STRIDEC_HOST=on -n 2 --host
 * run: STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy -n 2 --host
 */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { TAG = 7, LAST = 5, KNOWN = 3, WAIT_MS = 300 };
/* Doubles, each second of which is sent. The first go in a block of memory, which MPI_Finalize waits for by itself: they are
 * received before the others, which lie in shared memory, are left alone with it. */
static const int counts[LAST] = {400000, 600, 5000, 9000, 40000};
static MPI_Datatype types[LAST];
static double *memory[LAST];

static void fill(int i, double first)
{
    for (int k = 0; k < 2 * counts[i]; k++) memory[i][k] = first + k;
}

static void send(int i, MPI_Request *r)
{
    *r = MPI_REQUEST_NULL;
    if (i % 3 == 0) MPI_Isend(memory[i], 1, types[i], 1, TAG + i, MPI_COMM_WORLD, r);
    if (i % 3 == 1) MPI_Send(memory[i], 1, types[i], 1, TAG + i, MPI_COMM_WORLD);
    if (i % 3 == 2) MPI_Send_init(memory[i], 1, types[i], 1, TAG + i, MPI_COMM_WORLD, r), MPI_Start(r);
}

static void sent(MPI_Request *r)
{
    MPI_Wait(r, MPI_STATUS_IGNORE);
    if (*r != MPI_REQUEST_NULL) MPI_Request_free(r);
}

/* Of what came, and of what lies between. */
static int wrong(int i, double first)
{
    int n = 0;
    for (int k = 0; k < 2 * counts[i]; k++) n += memory[i][k] != (k % 2 ? -1.0 - k : first + k);
    return n;
}

static bool maps_rooms(int pid)
{
    char name[64], line[1024];
    bool found = false;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *f = fopen(name, "r");
    while (f && !found && fgets(line, sizeof line, f)) found = strstr(line, ".rooms") != NULL;
    if (f) fclose(f);
    return found;
}

/* Until the sender has given up what it had to give, which it must not, for so long. Its blocking sends may end meanwhile only
 * if the MPI looks for messages here. */
static void sender_goes(int pid)
{
    struct timeval start, now;
    int flag;
    gettimeofday(&start, NULL);
    do MPI_Iprobe(0, TAG + LAST, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE), gettimeofday(&now, NULL);
    while (maps_rooms(pid) && (now.tv_sec - start.tv_sec) * 1000 + (now.tv_usec - start.tv_usec) / 1000 < WAIT_MS);
}

static int receive_all(int pid)
{
    int bad = 0;
    for (int i = 0; i < LAST; i++) {
        if (i < 2) sender_goes(pid);
        for (int k = 0; k < 2 * counts[i]; k++) memory[i][k] = -1.0 - k;
        MPI_Recv(memory[i], 1, types[i], 0, TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int n = wrong(i, 100 + i);
        if (n) printf("not ok %d doubles from one that has parted: %d wrong\n", counts[i], n);
        bad += n > 0;
    }
    return bad;
}

int main(int argc, char **argv)
{
    MPI_Request r[LAST];
    int pid = (int)getpid(), bad = 0;
    check_start(&argc, &argv, -1);
    for (int i = 0; i < LAST; i++) {
        MPI_Type_vector(counts[i], 1, 2, MPI_DOUBLE, &types[i]);
        MPI_Type_commit(&types[i]);
        memory[i] = malloc((size_t)counts[i] * 2 * sizeof(double));
        fill(i, 1);
        for (int k = 0; k < KNOWN; k++) {
            if (my_rank == 0) send(i, &r[i]), sent(&r[i]);
            else MPI_Recv(memory[i], 1, types[i], 0, TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    report("messages before");
    if (my_rank == 0) MPI_Send(&pid, 1, MPI_INT, 1, TAG + LAST, MPI_COMM_WORLD);
    else MPI_Recv(&pid, 1, MPI_INT, 0, TAG + LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_end();
    if (my_rank == 0) {
        for (int i = 0; i < LAST; i++) fill(i, 100 + i), send(i, &r[i]);
        for (int i = 0; i < LAST; i++) sent(&r[i]), fill(i, 0);
    } else {
        bad = receive_all(pid);
    }
    MPI_Finalize();
    for (int i = 0; i < LAST; i++) free(memory[i]);
    return bad;
}
