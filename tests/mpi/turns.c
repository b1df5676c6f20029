/* turns.c: threads of a rank take turns to send one layout of absolute addresses, while its allocations are freed and
 * come again at the same places: what one thread knows of an allocation may be of the one before.
 *
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_REUSE=1 -n 2
 * run: -n 2
 */
#include "check.h"
#include <pthread.h>

#define DOUBLES (1 << 19)   /* of an array, 4 MiB: shorter ones share an allocation; every second one is sent */
#define ROUNDS 12

static double *array[2], image[DOUBLES];
static pthread_barrier_t turn;
static MPI_Datatype row, both;

static MPI_Datatype both_make(void)
{
    MPI_Datatype t;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){(MPI_Aint)array[0], (MPI_Aint)array[1]},
                           (MPI_Datatype[]){row, row}, &t);
    type_commit(&t);
    return t;
}

static void write_array(int a, double value)
{
    for (int i = 0; i < DOUBLES; i++) image[i] = value + i;
    mem_write(MEM_DEVICE, array[a], image, sizeof image);
}

static void check_array(int a, double value)
{
    int wrong = 0;
    mem_read(MEM_DEVICE, image, array[a], sizeof image);
    for (int i = 0; i < DOUBLES; i += 2) wrong += image[i] != value + i;
    expect(wrong == 0, "%d doubles of array %d are wrong", wrong, a);
}

/* The array goes, and comes again with other contents. */
static void again(int a, double value)
{
    double *before = array[a];
    mem_free(MEM_DEVICE, array[a]);
    array[a] = mem_alloc(MEM_DEVICE, DOUBLES * sizeof(double));
    write_array(a, value);
    if (array[a] != before && both != MPI_DATATYPE_NULL) MPI_Type_free(&both), both = both_make();
}

/* The other thread: it sends the first array, and later both. */
static void *other(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&turn);
        MPI_Send(array[0], 1, row, 1, 0, check_comm);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        MPI_Send(MPI_BOTTOM, 1, both, 1, 2, check_comm);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

static void send_all(void)
{
    pthread_t id;
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&id, NULL, other, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        again(0, round * 10 + 1);
        both = both_make();
        MPI_Send(MPI_BOTTOM, 1, both, 1, 1, check_comm);
        again(1, round * 10 + 2);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        MPI_Type_free(&both);
        both = MPI_DATATYPE_NULL;
        write_array(0, round * 10 + 10), write_array(1, round * 10 + 10);
    }
    pthread_join(id, NULL);
}

static void receive_all(void)
{
    both = both_make();
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Recv(array[0], 1, row, 0, 0, check_comm, MPI_STATUS_IGNORE);
        check_array(0, round * 10);
        MPI_Recv(MPI_BOTTOM, 1, both, 0, 1, check_comm, MPI_STATUS_IGNORE);
        check_array(0, round * 10 + 1), check_array(1, round * 10);
        MPI_Recv(MPI_BOTTOM, 1, both, 0, 2, check_comm, MPI_STATUS_IGNORE);
        check_array(0, round * 10 + 1), check_array(1, round * 10 + 2);
    }
    MPI_Type_free(&both);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Type_vector(DOUBLES / 2, 1, 2, MPI_DOUBLE, &row), type_commit(&row);
    both = MPI_DATATYPE_NULL;
    for (int a = 0; a < 2; a++) array[a] = mem_alloc(MEM_DEVICE, DOUBLES * sizeof(double)), write_array(a, 0);
    if (my_rank == 0) send_all();
    else receive_all();
    report("%d rounds", ROUNDS);
    MPI_Type_free(&row);
    for (int a = 0; a < 2; a++) mem_free(MEM_DEVICE, array[a]);
    return check_finish();
}
