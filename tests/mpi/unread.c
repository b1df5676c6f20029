/* unread.c: the receiver has posted receives and completes none of them, so that the sender's slots are all in use. A
 * persistent send starts again and again all the same: its payload goes by a file. Each start of MPI_Ssend_init ends
 * with its match, of such a file too, and a probe is no match.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 threads
 * run: STRIDEC_TRANSPORT=oneshot -n 2 packed
 * run: -n 2 --host
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 --host
 */
#include "../../runtime/node/segment.h"
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN 16                 /* doubles */
#define UNREAD (SLOTS + 50)
#define MESSAGES (UNREAD + 20)
#define LOOKS 0.003            /* seconds of calls that must find nothing */
#define FILES 100              /* without a slot, of both runs, at most */
enum { DATA = 1, OTHER };

static MPI_Comm comm;
static int peer, runs;           /* of a message: as many are left out */
static size_t extent;            /* of a message, doubles */
static bool packed;
static enum mem_kind kind;
static MPI_Datatype every_second;
static double *memory, *image;   /* of two messages, or of all that are received; on the host, of one */
static MPI_Request posted[MESSAGES], unread[UNREAD];
static int number;               /* of messages so far */

/* One rank waits here until the other one calls it for the other direction. */
static void word(int from)
{
    if (my_rank == from) MPI_Send(NULL, 0, MPI_BYTE, peer, 0, check_comm);
    else MPI_Recv(NULL, 0, MPI_BYTE, peer, 0, check_comm, MPI_STATUS_IGNORE);
}

static double value(int message, int at)
{
    return at / RUN % 2 ? 0 : 1000.0 * message + at;
}

static void write_message(int message)
{
    for (int i = 0; i < (int)extent; i++) image[i] = value(message, i);
    mem_write(kind, memory, image, extent * sizeof *image);
}

/* Starts the request with the next message. */
static void start(MPI_Request *r)
{
    write_message(number++);
    if (number % 2) MPI_Start(r);
    else MPI_Startall(1, r);
}

/* Posts the receive of the next message, which stays as it is until the end. */
static void post(int source, int tag)
{
    MPI_Irecv(memory + (size_t)number * extent, 1, every_second, source, tag, comm, &posted[number]);
    number++;
}

/* Returns the number of this rank's files without a slot. Each is there until it is received. */
static int files(void)
{
    char line[512], end[16], path[600];
    int n = 0;
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    snprintf(end, sizeof end, ".%d\n", my_rank);
    while (f && !found && fgets(line, sizeof line, f)) {
        char *name = strstr(line, "/dev/shm/stridec.");
        found = name && !strcmp(strrchr(name, '.'), end);
        if (found) name[strcspn(name, "\n")] = 0;
        for (int i = SLOTS; i < SLOTS + FILES && found; i++) {
            snprintf(path, sizeof path, "%s.%d", name, i);
            n += access(path, F_OK) == 0;
        }
    }
    if (f) fclose(f);
    return n;
}

/* ---- all slots in use ---- */

/* Takes all slots but the one of the request, and then that one. All messages but the last are the same. */
static void use_up(MPI_Request *r)
{
    if (my_rank) {
        for (int i = 0; i <= UNREAD; i++) post(i % 2 ? peer : MPI_ANY_SOURCE, DATA);
        word(1);
    } else {
        word(1);
        write_message(0);
        mem_write(kind, memory + extent, image, extent * sizeof *image);
        for (int i = 0; i < UNREAD; i++)
            MPI_Isend(memory + extent, 1, every_second, peer, DATA, comm, &unread[i]);
        number = UNREAD;
        start(&r[0]), MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    }
    report("%d messages whose receives are posted, and not completed", UNREAD + 1);
}

static bool complete_by(int call, MPI_Request *r)
{
    int flag = 0, which = MPI_UNDEFINED, n = 0;
    switch (call % 4) {
    case 0: MPI_Test(r, &flag, MPI_STATUS_IGNORE); return flag;
    case 1: MPI_Testany(1, r, &which, &flag, MPI_STATUS_IGNORE); return flag;
    case 2: MPI_Testsome(1, r, &n, &which, MPI_STATUSES_IGNORE); return n != 0;
    default: MPI_Testall(1, r, &flag, MPI_STATUSES_IGNORE); return flag;
    }
}

static void not_complete(MPI_Request *r, const char *when)
{
    bool complete = false;
    int i = 0;
    for (double since = 0; !complete && within(&since, LOOKS); i++) complete = complete_by(i, r);
    expect(!complete, "%s, call %d finds the send complete", when, (i - 1) % 4);
}

static void end(int how, MPI_Request *r)
{
    int which, n;
    if (how == 0) MPI_Wait(r, MPI_STATUS_IGNORE);
    else if (how == 1) MPI_Waitany(1, r, &which, MPI_STATUS_IGNORE);
    else if (how == 2) MPI_Waitsome(1, r, &n, &which, MPI_STATUSES_IGNORE);
    else while (!complete_by(how, r)) continue;
}

enum { PROBE, IPROBE, MPROBE, NO_PROBE, WAYS };

/* Probes for the message, if at all, and posts its receive only when the sender has looked. */
static void find_and_post(int way)
{
    MPI_Message found = MPI_MESSAGE_NULL;
    MPI_Status s;
    int there = 0, n = 1;
    if (way == PROBE) MPI_Probe(peer, OTHER, comm, &s);
    if (way == IPROBE) while (!there) MPI_Iprobe(MPI_ANY_SOURCE, OTHER, comm, &there, &s);
    if (way == MPROBE) MPI_Mprobe(peer, OTHER, comm, &found, &s);
    if (way != NO_PROBE) MPI_Get_count(&s, every_second, &n);
    expect_equal(n, 1, "the count that a probe tells");
    word(1), word(0);
    if (way != MPROBE) post(way == PROBE ? MPI_ANY_SOURCE : peer, way == PROBE ? MPI_ANY_TAG : OTHER);
    else MPI_Imrecv(memory + (size_t)number * extent, 1, every_second, &found, &posted[number]), number++;
    word(1);
}

/* Each start ends with the posted receive, though nobody completes that. */
static void each_ends(MPI_Request *r, bool synchronous)
{
    for (int i = 0; i < 2 * WAYS; i++) {
        if (my_rank == 0) {
            int before = files();
            start(r);
            expect_equal(files() - before, !packed, "the number of files of a start");
            if (synchronous) not_complete(r, "before the receive");
            word(1);
            if (synchronous) not_complete(r, "after a probe");
            word(0), word(1);
            end(i % 7, r);
            write_message(MESSAGES);   /* the buffer is this rank's again */
        } else {
            find_and_post(i % WAYS);
        }
    }
    report("%s sends without a slot, probed and not", synchronous ? "synchronous" : "other");
}

/* The last start is freed while it is active: its message comes all the same. */
static void freed(MPI_Request *r)
{
    if (my_rank == 0) {
        start(r);
        MPI_Request_free(r);
        word(0), word(1);
    } else {
        word(0);
        MPI_Probe(peer, OTHER, comm, MPI_STATUS_IGNORE);
        word(1);
        post(peer, OTHER);
    }
    report("a freed request without a slot");
}

static void check_received(void)
{
    int wrong = 0;
    MPI_Waitall(number, posted, MPI_STATUSES_IGNORE);
    for (int m = 0; m < number; m++) {
        mem_read(kind, image, memory + (size_t)m * extent, extent * sizeof *image);
        for (int i = 0; i < (int)extent; i++) wrong += image[i] != value(m < UNREAD ? 0 : m, i);
    }
    expect_equal(wrong, 0, "the number of wrong doubles");
}

static void run(bool synchronous)
{
    int (*make)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) =
        synchronous ? MPI_Ssend_init : MPI_Send_init;
    MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int messages = my_rank ? MESSAGES : 2;
    number = 0;
    memory = mem_alloc(kind, (size_t)messages * extent * sizeof *memory);
    memset(image, 0, extent * sizeof *image);
    for (int m = 0; m < messages; m++) mem_write(kind, memory + (size_t)m * extent, image, extent * sizeof *image);
    for (int i = 0; i < 2 && !my_rank; i++) make(memory, 1, every_second, peer, i ? OTHER : DATA, comm, &r[i]);
    MPI_Barrier(comm);
    use_up(r);
    if (!my_rank) start(&r[1]), MPI_Wait(&r[1], MPI_STATUS_IGNORE);   /* takes the last slot */
    else post(peer, OTHER);
    each_ends(&r[1], synchronous);
    freed(&r[1]);
    if (my_rank) check_received();
    else MPI_Waitall(UNREAD, unread, MPI_STATUSES_IGNORE), MPI_Request_free(&r[0]);
    report("what %s sends bring", synchronous ? "synchronous" : "other");
    mem_free(kind, memory);
}

/* Sends some messages each way: each rank learns that it can read the other's memory, and takes back its slots. */
static void warm(void)
{
    memory = mem_alloc(kind, 2 * extent * sizeof *memory);
    write_message(0);
    for (int i = 0; i < 20; i++)
        MPI_Sendrecv(memory, 1, every_second, peer, DATA, memory + extent, 1, every_second, peer, DATA, comm,
                     MPI_STATUS_IGNORE);
    mem_free(kind, memory);
}

int main(int argc, char **argv)
{
    bool threads = false;
    for (int i = 1; i < argc; i++) packed |= !strcmp(argv[i], "packed"), threads |= !strcmp(argv[i], "threads");
    check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : -1);
    peer = 1 - my_rank;
    kind = host_mode ? MEM_HOST : MEM_DEVICE;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    runs = host_mode ? 96 : 32;   /* 12 KiB, which every MPI's table lets go by shared memory, or 4 */
    extent = 2 * RUN * (size_t)runs;
    MPI_Type_vector(runs, RUN, 2 * RUN, MPI_DOUBLE, &every_second);
    type_commit(&every_second);
    image = malloc(extent * sizeof *image);
    warm(), run(true);
    warm(), run(false);
    free(image);
    MPI_Type_free(&every_second);
    MPI_Comm_free(&comm);
    return check_finish();
}
