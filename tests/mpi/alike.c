/* alike.c: messages from several allocations that come again and again: the sender tells that it describes one as
 * before, and the receiver reads it as before. Types take turns, several messages are on their way at once, and between
 * rounds allocations, and types, go and come again at the same places. `threads`: several do so in each rank.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 threads
 * run: STRIDEC_TRANSPORT=zerocopy -n 3 threads
 * run: -n 2 threads
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_REUSE=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle:9 -n 2
 */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ARRAYS 6
#define DOUBLES 2048   /* of an array; a row begins at every fourth */
#define TYPES 4
#define ROUNDS 120
#define THREADS 3
#define MOST 5         /* messages at once */

/* Holds what one thread of each rank sends and receives. */
struct work {
    double *array[2][ARRAYS], *image[2];   /* to send from, to receive into; on the host, all of one */
    MPI_Datatype types[2][TYPES];
    MPI_Request requests[2 * MOST];
    MPI_Comm comm;
    struct chance chance;   /* the same on all ranks */
};

/* Type t takes in t + 2 arrays from number t on; its rows are of one double in one array, of two in the next. */
static int row(int t, int i)
{
    return (t + i) % 2 ? 1 : 2;
}

static int arrays_of(int t)
{
    return t + 2 < ARRAYS ? t + 2 : ARRAYS;
}

static int array_of(int t, int i)
{
    return (t + i) % ARRAYS;
}

static MPI_Datatype type_make(struct work *w, int side, int t)
{
    int ones[ARRAYS], n = arrays_of(t);
    MPI_Aint at[ARRAYS];
    MPI_Datatype rows[ARRAYS], all;
    for (int i = 0; i < n; i++) {
        ones[i] = 1, at[i] = (MPI_Aint)w->array[side][array_of(t, i)];
        MPI_Type_vector(DOUBLES / 4, row(t, i), 4, MPI_DOUBLE, &rows[i]);
    }
    MPI_Type_create_struct(n, ones, at, rows, &all);
    for (int i = 0; i < n; i++) MPI_Type_free(&rows[i]);
    type_commit(&all);
    return all;
}

static void types_make(struct work *w, int side, int t)
{
    if (w->types[side][t] != MPI_DATATYPE_NULL) MPI_Type_free(&w->types[side][t]);
    w->types[side][t] = type_make(w, side, t);
}

static double value(int round, int rank, int a, int i)
{
    return round * 1e6 + rank * 1e5 + a * 1e4 + i;
}

static void write_arrays(struct work *w, int round)
{
    for (int a = 0; a < ARRAYS; a++)
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < DOUBLES; i++) w->image[side][i] = side ? -1 : value(round, my_rank, a, i);
            mem_write(MEM_DEVICE, w->array[side][a], w->image[side], DOUBLES * sizeof(double));
        }
}

/* Compares what was received by the types of a round, whose bits are in `came`. */
static void check_arrays(struct work *w, int round, int from, unsigned came)
{
    for (int a = 0; a < ARRAYS; a++) {
        int wide = 0, wrong = 0;
        for (int t = 0; t < TYPES; t++)
            for (int i = 0; i < arrays_of(t); i++)
                if (came >> t & 1 && array_of(t, i) == a && row(t, i) > wide) wide = row(t, i);
        mem_read(MEM_DEVICE, w->image[1], w->array[1][a], DOUBLES * sizeof(double));
        for (int i = 0; i < DOUBLES; i++)
            wrong += w->image[1][i] != (i % 4 < wide ? value(round, from, a, i) : -1);
        expect(wrong == 0, "round %d: %d doubles of array %d are wrong", round, wrong, a);
    }
}

/* An array goes and comes again, mostly at the same place; then its types are new, or stay where it is the same. */
static void change(struct work *w, int side, int a)
{
    double *before = w->array[side][a];
    mem_free(MEM_DEVICE, before);
    w->array[side][a] = mem_alloc(MEM_DEVICE, DOUBLES * sizeof(double));
    for (int t = 0; t < TYPES && w->array[side][a] != before; t++) types_make(w, side, t);
}

static void round_go(struct work *w, int round)
{
    int messages = (int)below(&w->chance, MOST) + 1, blocking = messages == 1, to = (my_rank + 1) % num_ranks,
        from = (my_rank + num_ranks - 1) % num_ranks;
    unsigned came = 0;
    int used[MOST];
    write_arrays(w, round);
    for (int m = 0; m < messages; m++) used[m] = (int)below(&w->chance, TYPES), came |= 1u << used[m];
    MPI_Barrier(w->comm);
    for (int m = 0; m < messages && !blocking; m++)
        MPI_Irecv(MPI_BOTTOM, 1, w->types[1][used[m]], from, m, w->comm, &w->requests[m]);
    for (int m = 0; m < messages && !blocking; m++)
        MPI_Isend(MPI_BOTTOM, 1, w->types[0][used[m]], to, m, w->comm, &w->requests[messages + m]);
    if (!blocking) MPI_Waitall(2 * messages, w->requests, MPI_STATUSES_IGNORE);
    for (int half = 0; half < 2 && blocking; half++) {   /* the even ranks send first */
        if (half == my_rank % 2) MPI_Send(MPI_BOTTOM, 1, w->types[0][used[0]], to, 0, w->comm);
        else MPI_Recv(MPI_BOTTOM, 1, w->types[1][used[0]], from, 0, w->comm, MPI_STATUS_IGNORE);
    }
    check_arrays(w, round, from, came);
}

static void *work(void *of)
{
    struct work *w = of;
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));   /* a context, in each thread */
    for (int side = 0; side < 2; side++) {
        w->image[side] = malloc(DOUBLES * sizeof(double));
        for (int a = 0; a < ARRAYS; a++) w->array[side][a] = mem_alloc(MEM_DEVICE, DOUBLES * sizeof(double));
        for (int t = 0; t < TYPES; t++) w->types[side][t] = MPI_DATATYPE_NULL, types_make(w, side, t);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int what = (int)below(&w->chance, 8), side = (int)below(&w->chance, 2), which = (int)below(&w->chance, TYPES);
        round_go(w, round);
        if (what == 0) change(w, side, which);
        if (what == 1) types_make(w, side, which);
    }
    for (int side = 0; side < 2; side++) {
        for (int t = 0; t < TYPES; t++) MPI_Type_free(&w->types[side][t]);
        for (int a = 0; a < ARRAYS; a++) mem_free(MEM_DEVICE, w->array[side][a]);
        free(w->image[side]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct work w[THREADS];
    pthread_t id[THREADS];
    int threads = argc > 1 && !strcmp(argv[1], "threads") ? THREADS : 1;
    check_start(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    for (int i = 0; i < threads; i++) MPI_Comm_dup(check_comm, &w[i].comm), w[i].chance.state = test_seed + (uint64_t)i;
    for (int i = 1; i < threads; i++) pthread_create(&id[i], NULL, work, &w[i]);
    work(&w[0]);
    for (int i = 1; i < threads; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < threads; i++) MPI_Comm_free(&w[i].comm);
    report("%d rounds, %d threads", ROUNDS, threads);
    return check_finish();
}
