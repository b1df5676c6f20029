/* asks.c: windows of sends: the MPI is asked about a handle only until it has said once that its request goes on. Each such
 * question makes the MPI look for messages, and the receiver waits for the rest of the window meanwhile.
 *
 * run: -n 2
 * run: -n 2 threads
 */
#include "check.h"
#include <dlfcn.h>
#include <string.h>

#define WINDOW 64
#define WINDOWS 40   /* the second half is counted */

static long told_nothing;   /* questions whose request was not complete */

int PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    static int (*next)(MPI_Request, int *, MPI_Status *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Request_get_status");
    int rc = next(request, flag, status);
    if (!*flag) told_nothing++;
    return rc;
}

static void window(const struct layout *l, struct buf b[WINDOW], MPI_Request r[WINDOW])
{
    for (int i = 0; i < WINDOW; i++)
        if (my_rank == 0) MPI_Isend(b[i].origin, l->count, l->type, 1, i, MPI_COMM_WORLD, &r[i]);
        else MPI_Irecv(b[i].origin, l->count, l->type, 0, i, MPI_COMM_WORLD, &r[i]);
    long asked = told_nothing;
    MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
    told_nothing = asked;   /* what waits may ask */
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct layout l;
    struct buf b[WINDOW];
    MPI_Request r[WINDOW];
    MPI_Datatype column;
    bool threads = argc > 1 && !strcmp(argv[argc - 1], "threads");
    check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : -1);
    MPI_Type_vector(128, 1, 3, MPI_DOUBLE, &column), type_commit(&column);
    layout_of(&l, column, 2, "a vector");
    for (int i = 0; i < WINDOW; i++) buf_make(&b[i], MEM_DEVICE, &l, 0, (uint64_t)(100 * my_rank + i));
    for (int n = 0; n < WINDOWS; n++) {
        if (n == WINDOWS / 2) told_nothing = 0;
        window(&l, b, r);
    }
    expect(told_nothing < WINDOW * WINDOWS / 2 / 4, "the MPI was asked %ld times in vain", told_nothing);
    for (int i = 0; i < WINDOW; i++) {
        if (my_rank == 1) buf_expect_from(&b[i], &l, &l, (uint64_t)i);
        buf_check(&b[i], my_rank == 1 ? "what came" : "what was sent");
        buf_free(&b[i]);
    }
    layout_free(&l);
    report("windows of sends ask the MPI seldom");
    return check_finish();
}
