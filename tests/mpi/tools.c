/* tools.c: another tool of the profiling interface (tool/count.c), behind stridec and before it: it sees each MPI_X
 * once, no PMPI_X, and derived types on device buffers arrive by either.
 *
 * run: LD_PRELOAD=@TOOL -n 2
 * run: LD_PRELOAD=@TOOL_FIRST -n 2
 */
#include "check.h"
#include <dlfcn.h>

#define TIMES 5
#define COUNT 3

static int counted(const char *name)
{
    const int *count = dlsym(RTLD_DEFAULT, name);
    expect(count != NULL, "%s: the tool is not loaded", name);
    return count ? *count : 0;
}

/* One message by either entry, between types committed by it. */
static void exchange(bool profiled, uint64_t salt)
{
    const int peer = my_rank ^ 1;
    MPI_Datatype t;
    MPI_Request r;
    struct layout l;
    struct buf in, out;
    MPI_Type_vector(5, 2, 4, MPI_FLOAT, &t);
    profiled ? PMPI_Type_commit(&t) : MPI_Type_commit(&t);
    layout_of(&l, t, COUNT, "vector");
    buf_make(&out, MEM_DEVICE, &l, 0, salt + (uint64_t)my_rank);
    buf_make(&in, MEM_DEVICE, &l, 0, salt + 2);
    if (profiled) {
        PMPI_Irecv(in.origin, COUNT, t, peer, 1, MPI_COMM_WORLD, &r);
        PMPI_Send(out.origin, COUNT, t, peer, 1, MPI_COMM_WORLD);
        PMPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(in.origin, COUNT, t, peer, 1, MPI_COMM_WORLD, &r);
        MPI_Send(out.origin, COUNT, t, peer, 1, MPI_COMM_WORLD);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    buf_expect_from(&in, &l, &l, salt + (uint64_t)peer);
    buf_check(&in, profiled ? "by PMPI_" : "by MPI_");
    buf_free(&in);
    buf_free(&out);
    layout_free(&l);
}

static void entries(bool profiled)
{
    static const char *const names[] = {"tool_sends", "tool_recvs", "tool_waits", "tool_commits"};
    int before[4];
    for (int i = 0; i < 4; i++) before[i] = counted(names[i]);
    for (int i = 0; i < TIMES; i++) exchange(profiled, 10 * (uint64_t)i);
    for (int i = 0; i < 4; i++)
        expect_equal(counted(names[i]) - before[i], profiled ? 0 : TIMES, names[i]);
    report("%sMPI_ calls beside another tool", profiled ? "P" : "");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    entries(false);
    entries(true);
    return check_finish();
}
