/* again.c: types in host memory that are made, committed, used once and freed, again and again: the layout is known by then,
 * and served as that of a type that is kept. Layouts that never come again are left to the MPI. A type that was not committed is
 * refused, though its layout is known. Every byte is compared.
 *
 * run: MPI_TEST_SIM=0 -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on -n 2 --host
 * run: -n 2 --host
 */
#include "check.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 3, ROWS = 64, COLUMNS = 256, MESSAGES = 40, CALLS = 60, TRIES = 400 };

static long (*offers)(int in_place);
static long (*served)(MPI_Datatype);

/* Rows of every other float. */
static MPI_Datatype rows_type(int step)
{
    MPI_Datatype row, rows;
    MPI_Type_vector(COLUMNS, 1, step, MPI_FLOAT, &row);
    MPI_Type_create_resized(row, 0, (MPI_Aint)sizeof(float) * step * COLUMNS, &rows);
    MPI_Type_free(&row);
    return rows;
}

static float *filled(int step, float first)
{
    float *all = malloc(sizeof *all * (size_t)(ROWS * COLUMNS * step));
    for (int i = 0; i < ROWS * COLUMNS * step; i++) all[i] = first + (float)(i % 4096);
    return all;
}

/* From rank 0 to rank 1, where it is received as plain floats, or by a type that is as fresh. Returns what of it was offered. */
static long message(int step, int number, bool typed)
{
    MPI_Datatype t = rows_type(step);
    float *all = filled(step, my_rank ? -1 : (float)number);
    long before = offers ? offers(0) + offers(1) : 0;
    MPI_Type_commit(&t);
    if (my_rank == 0) MPI_Send(all, ROWS, t, 1, TAG, MPI_COMM_WORLD);
    else if (typed) MPI_Recv(all, ROWS, t, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Recv(all, ROWS * COLUMNS, MPI_FLOAT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&t);
    int apart = typed ? step : 1, wrong = 0;
    for (int i = 0; my_rank == 1 && i < ROWS * COLUMNS; i++)
        wrong += all[i * apart] != (float)number + (float)(i * step % 4096);
    expect(!wrong, "%d floats of message %d are wrong", wrong, number);
    free(all);
    return offers ? offers(0) + offers(1) - before : 0;
}

/* The receiver needs a moment until it has found the sender's memory: what is offered is waited for. */
static void messages(void)
{
    long offered = 0;
    int tries = 0, go_on = 1;
    for (; go_on && tries < TRIES; tries++) {
        offered += message(2, tries, tries % 2);
        go_on = offered < MESSAGES;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    expect(my_rank || !offers || offered >= MESSAGES, "%ld of %d messages of one layout were offered", offered, tries);
    report("messages of types that are made anew");
    const char *host = getenv("STRIDEC_HOST");
    for (int i = offered = 0; i < MESSAGES; i++) offered += message(3 + i, i, i % 2);
    expect(my_rank || host || !offered, "%ld messages of layouts that were not known were offered", offered);
    report("messages of types that never come again");
}

static bool pack_and_unpack(int number)
{
    MPI_Datatype t = rows_type(2);
    float *all = filled(2, (float)number), *back = filled(2, -1), *packed = malloc(sizeof *packed * ROWS * COLUMNS);
    int position = 0, bytes = (int)sizeof *packed * ROWS * COLUMNS, wrong = 0;
    MPI_Type_commit(&t);
    MPI_Pack(all, ROWS, t, packed, bytes, &position, MPI_COMM_WORLD);
    expect(position == bytes, "position %d", position);
    position = 0;
    long ours = served ? served(t) : 0;
    MPI_Unpack(packed, bytes, &position, back, ROWS, t, MPI_COMM_WORLD);
    MPI_Type_free(&t);
    for (int i = 0; i < 2 * ROWS * COLUMNS; i++) {
        float there = (float)(number + i % 4096), gap = (float)(-1 + i % 4096);
        wrong += back[i] != (i % 2 ? gap : there);
    }
    expect(!wrong, "%d floats are wrong after call %d", wrong, number);
    free(all), free(back), free(packed);
    return ours > 0;
}

static void calls(void)
{
    int ours = 0;
    for (int i = 0; i < CALLS; i++) ours += pack_and_unpack(i);
    expect(!served || ours > 0, "none of %d calls was served", CALLS);
    report("packing by types that are made anew");
}

/* MPICH 4.0 takes such a type in some calls: what the MPI alone does is found out by a layout that is not known. */
static int send_uncommitted(int step)
{
    MPI_Datatype t = rows_type(step);
    float *all = filled(step, 0);
    int class = MPI_SUCCESS, rc = MPI_Send(all, ROWS, t, MPI_PROC_NULL, TAG, MPI_COMM_WORLD);
    if (rc != MPI_SUCCESS) MPI_Error_class(rc, &class);
    MPI_Type_free(&t);
    free(all);
    return class;
}

static int pack_uncommitted(int step)
{
    MPI_Datatype t = rows_type(step);
    float *all = filled(step, 0), *packed = malloc(sizeof *packed * ROWS * COLUMNS);
    int position = 0, class = MPI_SUCCESS;
    int rc = MPI_Pack(all, ROWS, t, packed, (int)sizeof *packed * ROWS * COLUMNS, &position, MPI_COMM_WORLD);
    if (rc != MPI_SUCCESS) MPI_Error_class(rc, &class);
    MPI_Type_free(&t);
    free(all), free(packed);
    return class;
}

static void uncommitted(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int send[2] = {send_uncommitted(100), send_uncommitted(2)}, pack[2] = {pack_uncommitted(100), pack_uncommitted(2)};
    expect(send[0] == send[1], "MPI_Send: error class %d, by a known layout %d", send[0], send[1]);
    expect(pack[0] == pack[1] || pack[1] == MPI_ERR_TYPE, "MPI_Pack: error class %d, by a known layout %d", pack[0], pack[1]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    report("types that were not committed");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, MPI_THREAD_SINGLE);
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    *(void **)&served = dlsym(RTLD_DEFAULT, "stridec_host_served");
    messages();
    calls();
    uncommitted();
    return check_finish();
}
