/* reads.c: reads from a window by requests, among threads: a thread waits for the request together with a receive whose
 * message comes only when another thread has flushed the window and looked at what was read. The flush brings the data,
 * and the wait ends well; by turns the wait comes first, and brings them. It shows most where the MPI's own read is not
 * complete when MPI_Rget returns.
 *
 * run: -n 2
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ROUNDS 10
#define INTS 3000
#define YIELDS 200   /* for the other thread to begin its wait; should it not, the round shows less */

static MPI_Request requests[2];
static atomic_bool begun;

static void *wait_for_both(void *unused)
{
    (void)unused;
    atomic_store(&begun, true);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    return NULL;
}

static void look(struct buf *b, const struct layout *l, const int *is, const char *what)
{
    buf_expect(b, l, (const unsigned char *)is, INTS * (int)sizeof *is);
    buf_check(b, what);
}

/* Rank 0 reads from rank 1's memory. */
static void one(MPI_Win win, int *memory, const struct layout *l, int round)
{
    int go = 0, *is = malloc(INTS * sizeof *is);
    for (int i = 0; i < INTS; i++) is[i] = round * INTS + i;
    MPI_Barrier(MPI_COMM_WORLD);
    if (my_rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        for (int i = 0; i < INTS; i++) memory[i] = is[i];
        MPI_Win_unlock(1, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&go, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        free(is);
        return;
    }
    struct buf b;
    pthread_t waiting;
    buf_make(&b, MEM_DEVICE, l, 0, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    MPI_Rget(b.origin, l->count, l->type, 1, 0, INTS, MPI_INT, win, &requests[0]);
    MPI_Irecv(&go, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[1]);
    atomic_store(&begun, false);
    pthread_create(&waiting, NULL, wait_for_both, NULL);
    for (int i = 0; i < YIELDS || !atomic_load(&begun); i++) sched_yield();
    if (round % 2) {
        MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        pthread_join(waiting, NULL);
        look(&b, l, is, "after the wait");
        MPI_Win_unlock(1, win);
        look(&b, l, is, "after the wait and an unlock");
    } else {
        MPI_Win_flush(1, win);
        look(&b, l, is, "after a flush");
        MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        pthread_join(waiting, NULL);
        look(&b, l, is, "after a flush and the wait");
        MPI_Win_unlock(1, win);
    }
    buf_free(&b);
    free(is);
}

int main(int argc, char **argv)
{
    struct layout l;
    MPI_Datatype t;
    MPI_Win win;
    int *memory;
    check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Type_vector(INTS, 1, 2, MPI_INT, &t);
    type_commit(&t);
    layout_of(&l, t, 1, "every other int");
    MPI_Win_allocate(INTS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (int round = 0; round < ROUNDS; round++) one(win, memory, &l, round);
    report("reads by requests, and flushes");
    MPI_Win_free(&win);
    layout_free(&l);
    return check_finish();
}
