/* trace.c: the program of trace.sh: messages of derived types in host memory, for the timeline of STRIDEC_TRACE. */
#include <fcntl.h>
#include <locale.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4096, STRIDE = 8, SENDS = 20, EXCHANGES = 5, PACKS = 9000 };

static int rank;
static MPI_Datatype named, unnamed;
static char *memory;   /* room for two of them */
#define SECOND (memory + COUNT * STRIDE * sizeof(int))

/* Rank 0 sends to rank 1; then both exchange. */
static void messages(void)
{
    for (int i = 0; i < SENDS; i++)
        if (rank == 0) MPI_Send(memory, 1, named, 1, 0, MPI_COMM_WORLD);
        else MPI_Recv(memory, 1, named, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < EXCHANGES; i++) {
        MPI_Request r[2];
        MPI_Isend(memory, 1, unnamed, 1 - rank, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Irecv(SECOND, 1, unnamed, 1 - rank, 1, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Sendrecv(memory, 1, named, 1 - rank, 2, SECOND, 1, named, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void packs(void)
{
    char *packed = malloc(COUNT * sizeof(double));
    for (int i = 0; i < PACKS; i++) {
        int at = 0;
        MPI_Pack(memory, 1, named, packed, COUNT * sizeof(double), &at, MPI_COMM_WORLD);
    }
    free(packed);
}

static bool exits;   /* where the timeline is written */

/* Stands before the C library's: a signal handler that ends the process while stridec publishes the timeline. */
int rename(const char *from, const char *to)
{
    if (exits) exit(0);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int main(int argc, char **argv)
{
    const char *what = argv[1];
    setlocale(LC_ALL, "");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_vector(COUNT, 2, STRIDE, MPI_INT, &named);
    MPI_Type_commit(&named);
    MPI_Type_set_name(named, "face \"z\"\\\303\251\377");
    MPI_Type_vector(COUNT, 3, STRIDE, MPI_INT, &unnamed);
    MPI_Type_commit(&unnamed);
    memory = calloc(2, COUNT * STRIDE * sizeof(int));
    if (!strcmp(what, "packs") || !strcmp(what, "within")) packs();
    else messages();
    if (!strcmp(what, "exit")) exit(0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(what, "abort")) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Type_free(&named), MPI_Type_free(&unnamed);
    free(memory);
    exits = !strcmp(what, "within");
    MPI_Finalize();
    return 0;
}
