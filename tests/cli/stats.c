/* stats.c: messages of two ranks in host memory, for stats.sh, in the user's locale.
 * usage: stats left | kinds | seldom | plain | reads | communicators | scarce */
#include <dlfcn.h>
#include <locale.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 20

static int rank;

static MPI_Datatype vector(int blocks, int length, int stride)
{
    MPI_Datatype t;
    MPI_Type_vector(blocks, length, stride, MPI_INT, &t);
    return t;
}

static void exchange(MPI_Datatype t, const int *out, int *in, int times)
{
    for (int i = 0; i < times; i++)
        MPI_Sendrecv(out, 1, t, 1 - rank, 0, in, 1, t, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Long messages of long runs that do not wait for their receiver: Open MPI keeps them. */
static void left(const int *out, int *in)
{
    MPI_Datatype t = vector(1 << 14, 64, 128);
    MPI_Type_commit(&t);
    for (int i = 0; i < 4; i++) {
        MPI_Request r[2];
        MPI_Irecv(in, 1, t, 1 - rank, 0, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, 1, t, 1 - rank, 0, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Type_free(&t);
}

/* Types that are named before and after they are read, freed or not; and a copy, which the program gives no name. */
static void kinds(const int *out, int *in)
{
    MPI_Datatype early = vector(1024, 1, 8), late = vector(1024, 2, 8), inner = vector(1024, 3, 8), copy;
    MPI_Type_set_name(early, "early\tand \"freed\" \\ \xff\xc3\xa9");
    MPI_Type_commit(&early);
    exchange(early, out, in, TIMES);
    MPI_Type_free(&early);
    MPI_Type_commit(&late);
    exchange(late, out, in, TIMES);
    MPI_Type_set_name(late, "late");
    MPI_Type_dup(inner, &copy);
    MPI_Type_set_name(inner, "inner");
    MPI_Type_commit(&copy);
    exchange(copy, out, in, TIMES);
    MPI_Type_free(&inner), MPI_Type_free(&copy);
}

static void seldom(const int *out, int *in)
{
    for (int i = 2; i <= 4; i++) {
        MPI_Datatype t = vector(1024, i, 8);
        MPI_Type_commit(&t);
        if (rank == 0) MPI_Send(out, 1, t, 1, 0, MPI_COMM_WORLD);
        else MPI_Recv(in, 1, t, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (i < 4) MPI_Type_free(&t);
    }
}

/* One type of each constructor, committed and not sent. */
static void reads(void)
{
    const int sizes[] = {8, 9, 10}, parts[] = {2, 3, 4}, starts[] = {1, 1, 1};
    const int lengths[] = {2, 5, 2}, at[] = {0, 10, 20};
    const int distributions[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, grid[] = {2, 1};
    const int whole[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    const MPI_Aint bytes[] = {0, 80, 160};
    const MPI_Datatype members[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
    MPI_Datatype t[12], inner = vector(4, 1, 2);
    int n = 0;
    MPI_Type_contiguous(3, inner, &t[n++]);
    MPI_Type_vector(1024, 1, 256, MPI_DOUBLE, &t[n++]);
    MPI_Type_create_hvector(3, 2, 100, MPI_INT, &t[n++]);
    MPI_Type_indexed(3, lengths, at, MPI_INT, &t[n++]);
    MPI_Type_create_hindexed(1, lengths, bytes + 1, MPI_FLOAT, &t[n++]);
    MPI_Type_create_indexed_block(3, 2, at, MPI_INT, &t[n++]);
    MPI_Type_create_hindexed_block(3, 1, bytes, MPI_INT, &t[n++]);
    MPI_Type_create_struct(3, lengths, bytes, members, &t[n++]);
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_FLOAT, &t[n++]);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &t[n++]);
    MPI_Type_create_darray(2, rank, 2, sizes, distributions, whole, grid, MPI_ORDER_C, MPI_INT, &t[n++]);
    MPI_Type_create_resized(inner, 0, 128, &t[n++]);
    MPI_Type_set_name(t[1], "a \"column\" of it");
    MPI_Type_set_name(t[2], "a 'column' of it");
    for (int i = 0; i < n; i++) MPI_Type_commit(&t[i]);
    for (int i = 0; i < n; i++) MPI_Type_free(&t[i]);
    MPI_Type_free(&inner);
}

/* Takes all communicators that the MPI gives, if it gives no more than a few thousand. */
static void communicators(void)
{
    MPI_Comm more;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 4096 && MPI_Comm_dup(MPI_COMM_WORLD, &more) == MPI_SUCCESS; i++) continue;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* From now on nothing that stridec asks for is there on rank 0 (tests/mpi/tool/memory.c). */
static void scarce(void)
{
    int *fails = dlsym(RTLD_DEFAULT, "memory_fails");
    if (rank == 0 && fails) *fails = 1;
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    const char *what = argc > 1 ? argv[1] : "";
    int *out = calloc(1 << 21, sizeof *out), *in = calloc(1 << 21, sizeof *in);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!out || !in) MPI_Abort(MPI_COMM_WORLD, 1);
    if (!strcmp(what, "left")) left(out, in);
    if (!strcmp(what, "kinds")) kinds(out, in);
    if (!strcmp(what, "seldom")) seldom(out, in);
    if (!strcmp(what, "reads")) reads();
    if (!strcmp(what, "plain")) exchange(MPI_INT, out, in, 1);
    if (!strcmp(what, "communicators")) communicators();
    if (!strcmp(what, "scarce")) kinds(out, in), scarce();
    MPI_Finalize();
    free(out), free(in);
    return 0;
}
