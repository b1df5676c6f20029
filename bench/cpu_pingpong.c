/* cpu_pingpong.c: messages between two ranks of one node, from host memory to host memory: as the program sends them
 * (by stridec where it is preloaded), by the MPI's own library, and packed, sent and unpacked by hand-written loops.
 *
 * usage: mpirun -n 2 stridec run -- cpu_pingpong [--least BYTES] [--most BYTES] [--ms MS] [--only NAME] [--self | --both]
 *                                                   [RESULTS.json]
 *
 * Every kernel of cpu_kernels.h at sizes from 1 KiB to 16 MiB by powers of 4, its type at both ends. Times are of half
 * a round trip; with --self of an MPI_Sendrecv of each rank with itself, with --both of MPI_Irecv, MPI_Isend and MPI_Waitall
 * of both ranks at once. The ways take turns of some round trips each, so that they share the machine's mood; told are the
 * median and the least of the turns, and the median of the ratios within each. All bytes are compared first. */
#include "cpu_common.h"
#include "library.h"
#include "timing.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 24, TAG = 3 };
static const double TURN_US = 100;

static struct {
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    int (*recv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
    int (*sendrecv)(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
    int (*irecv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*waitall)(int, MPI_Request *, MPI_Status *);
    int (*pack)(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
} mpi;

struct work {
    struct cpu_kernel *k;
    char *user, *packed, *other;
    char *target;   /* of messages to itself, and both ways at once: where they go */
};

static struct run run = { .benchmark = "cpu-pingpong", .wish = { .form = FORM_TRIP, .least = 1 << 10, .most = 16 << 20, .us = 30e3 } };

static void find_calls(void)
{
    void *library = mpi_library();

    *(void **)&mpi.send = dlsym(library, "PMPI_Send");
    *(void **)&mpi.recv = dlsym(library, "PMPI_Recv");
    *(void **)&mpi.sendrecv = dlsym(library, "PMPI_Sendrecv");
    *(void **)&mpi.irecv = dlsym(library, "PMPI_Irecv");
    *(void **)&mpi.isend = dlsym(library, "PMPI_Isend");
    *(void **)&mpi.waitall = dlsym(library, "PMPI_Waitall");
    *(void **)&mpi.pack = dlsym(library, "PMPI_Pack");
}

static void send(const struct work *w, int way)
{
    if (way == WAY_HAND) {
        w->k->hand(w->k, false, w->packed, w->user);
        mpi.send(w->packed, (int)w->k->packed_bytes, MPI_BYTE, !run.rank, TAG, MPI_COMM_WORLD);
    } else {
        (way == WAY_MPI ? mpi.send : MPI_Send)(w->user, 1, w->k->type, !run.rank, TAG, MPI_COMM_WORLD);
    }
}

static void receive(const struct work *w, int way)
{
    if (way == WAY_HAND) {
        mpi.recv(w->packed, (int)w->k->packed_bytes, MPI_BYTE, !run.rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        w->k->hand(w->k, true, w->packed, w->user);
    } else {
        (way == WAY_MPI ? mpi.recv : MPI_Recv)(w->user, 1, w->k->type, !run.rank, TAG, MPI_COMM_WORLD,
                                                MPI_STATUS_IGNORE);
    }
}

/* Of each rank with itself, or both ways at once. */
static void exchange(const struct work *w, int way)
{
    bool own = way == WAY_PROGRAM, hand = way == WAY_HAND;
    const char *from = hand ? w->packed : w->user;
    char *to = hand ? w->other : w->target;
    int count = hand ? (int)w->k->packed_bytes : 1;
    MPI_Datatype type = hand ? MPI_BYTE : w->k->type;
    MPI_Request r[2];

    if (hand)
        w->k->hand(w->k, false, w->packed, w->user);
    if (run.wish.form == FORM_SELF) {
        (own ? MPI_Sendrecv : mpi.sendrecv)(from, count, type, run.rank, TAG, to, count, type, run.rank, TAG, MPI_COMM_WORLD,
                                            MPI_STATUS_IGNORE);
    } else {
        (own ? MPI_Irecv : mpi.irecv)(to, count, type, !run.rank, TAG, MPI_COMM_WORLD, &r[0]);
        (own ? MPI_Isend : mpi.isend)(from, count, type, !run.rank, TAG, MPI_COMM_WORLD, &r[1]);
        (own ? MPI_Waitall : mpi.waitall)(2, r, MPI_STATUSES_IGNORE);
    }
    if (hand)
        w->k->hand(w->k, true, w->other, w->target);
}

static void bounce(const struct work *w, int way, int trips)
{
    for (int i = 0; i < trips; i++) {
        if (w->target) exchange(w, way);
        else if (run.rank == 0) send(w, way), receive(w, way);
        else receive(w, way), send(w, way);
    }
}

/* By the MPI. */
static void pack(const struct work *w, const char *from, char *to)
{
    mpi.pack(from, 1, w->k->type, to, (int)w->k->packed_bytes, &(int){ 0 }, MPI_COMM_SELF);
}

/* Both ranks have the same. */
static bool same_bytes_here(const struct work *w, int way)
{
    random_bytes(w->user, w->k->span_bytes, 7);
    random_bytes(w->target, w->k->span_bytes, 99);
    exchange(w, way);
    pack(w, w->user, w->packed);
    pack(w, w->target, w->other);
    return !memcmp(w->packed, w->other, w->k->packed_bytes);
}

/* Both ends see what the other one had: what is there after a trip is packed by the MPI and compared. */
static bool same_bytes(const struct work *w, int way)
{
    bool same = true;

    for (int from = 0; from < 2; from++) {
        random_bytes(w->user, w->k->span_bytes, 7u + (unsigned)from);
        pack(w, w->user, w->other);
        if (run.rank == from) {
            send(w, way);
            continue;
        }
        random_bytes(w->user, w->k->span_bytes, 99);
        receive(w, way);
        pack(w, w->user, w->packed);
        same = !memcmp(w->packed, w->other, w->k->packed_bytes);
    }
    return same;
}

/* Trips enough that stridec knows the type. */
static void warm(const struct work *w)
{
    bounce(w, WAY_PROGRAM, WARM);
    if (stridec_ready)
        stridec_ready(w->k->type, 1);
    bounce(w, WAY_PROGRAM, WARM);
}

/* In one trip. */
static int messages(const struct work *w)
{
    return w->target ? 1 : 2;
}

static double turn(const struct work *w, int way, int trips)
{
    PMPI_Barrier(MPI_COMM_WORLD);
    double start = now_us();
    bounce(w, way, trips);
    return (now_us() - start) / trips / messages(w);
}

static void measure(const struct work *w, struct times t[WAYS])
{
    static double sample[WAYS][TURNS_MAX];
    double each = turn(w, WAY_MPI, 2) * messages(w);
    int plan[2] = { 1 + (int)(TURN_US / each), 0 };

    plan[1] = (int)(run.wish.us / (plan[0] * each) / WAYS * 1.5);
    plan[1] = plan[1] < TURNS_MIN ? TURNS_MIN : plan[1] > TURNS_MAX ? TURNS_MAX : plan[1];
    PMPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
    for (int n = 0; n < plan[1]; n++)
        for (int i = 0; i < WAYS; i++) {
            int way = way_of(n, i);

            bounce(w, way, 1);
            sample[way][n] = turn(w, way, plan[0]);
        }
    times_of(sample, plan[1], t);
}

/* One row; false where bytes were wrong. */
static bool one(FILE *f, struct cpu_kernel *k, bool first)
{
    struct work w = { k, room(k->span_bytes), room(k->packed_bytes), room(k->packed_bytes),
                      run.wish.form != FORM_TRIP ? room(k->span_bytes) : NULL };
    struct times t[WAYS];
    int ok = 1, all;

    warm(&w);
    for (int way = 0; way < WAYS; way++)
        ok = (w.target ? same_bytes_here : same_bytes)(&w, way) && ok;
    PMPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    measure(&w, t);
    free(w.user), free(w.packed), free(w.other), free(w.target);
    if (run.rank)
        return all;
    fprintf(f, "%s{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s", first ? "" : ",\n", k->name, k->packed_bytes,
            all ? "true" : "false");
    write_times(f, "", t);
    fputs("}", f);
    fflush(f);
    fprintf(stderr, "%-15s %9zu B  %10.2f (MPI %10.2f, hand %10.2f)  least %10.2f %10.2f %10.2f  ratio %.2f%s\n",
            k->name, k->packed_bytes, t[0].median, t[1].median, t[2].median, t[0].least, t[1].least, t[2].least,
            t[1].ratio, all ? "" : " WRONG BYTES");
    return all;
}

int main(int argc, char **argv)
{
    run_begin(&run, argc, argv);
    find_calls();
    if (run.ranks != 2)
        run_fail("cpu_pingpong wants two ranks");
    run_kernels(&run, one);
    return run_end(&run);
}
