/* uneven.c: elements of several sizes, sent packed from a device to where they lie apart in host memory. An MPI may cut a long
 * message anywhere on its way, and refuse a part that ends within an element (MPICH before 5 does). "bare": the ranks that have
 * them in host memory load no CUDA driver. "touching": they have no gaps, which the MPI does not see.
 *
 * run: -n 2
 * run: -n 3
 * run: -n 2 bare
 * run: STRIDEC_HOST=off -n 2 bare
 * run: -n 2 touching
 */
#include "check.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1500 };   /* elements of 21 bytes: several parts on any wire */
static struct layout l;
static struct buf in, out;   /* COUNT elements for each rank; even ranks have them on a device */
static int from, to;         /* the ranks before and after */

static MPI_Datatype touching_type(void)
{
    int lengths[2] = {1, 3};
    MPI_Aint at[2] = {0, 1};
    MPI_Datatype types[2] = {MPI_CHAR, MPI_C_DOUBLE_COMPLEX}, record, t;
    MPI_Type_create_struct(2, lengths, at, types, &record);
    MPI_Type_create_resized(record, 0, 49, &t);
    MPI_Type_free(&record);
    type_commit(&t);
    return t;
}

static MPI_Datatype uneven_type(void)
{
    int lengths[3] = {1, 2, 1};
    MPI_Aint at[3] = {0, 8, 32};
    MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, t;
    MPI_Type_create_struct(3, lengths, at, types, &t);
    type_commit(&t);
    return t;
}

static void *element_of(const struct buf *b, int rank)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(l.type, &lb, &extent);
    return (char *)b->origin + rank * COUNT * extent;
}

static void by_recv(void)
{
    MPI_Request r;
    MPI_Isend(out.origin, COUNT, l.type, to, 0, MPI_COMM_WORLD, &r);
    MPI_Recv(in.origin, COUNT, l.type, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}
static void by_irecv(void)
{
    MPI_Request r[2];
    MPI_Irecv(in.origin, COUNT, l.type, from, 0, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out.origin, COUNT, l.type, to, 0, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}
static void by_mrecv(void)
{
    MPI_Request r;
    MPI_Message m;
    MPI_Isend(out.origin, COUNT, l.type, to, 0, MPI_COMM_WORLD, &r);
    MPI_Mprobe(from, 0, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);
    MPI_Mrecv(in.origin, COUNT, l.type, &m, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}
static void by_imrecv(void)
{
    MPI_Request r[2];
    MPI_Message m;
    MPI_Isend(out.origin, COUNT, l.type, to, 0, MPI_COMM_WORLD, &r[0]);
    MPI_Mprobe(from, 0, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);
    MPI_Imrecv(in.origin, COUNT, l.type, &m, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}
static void by_sendrecv(void)
{
    MPI_Sendrecv(out.origin, COUNT, l.type, to, 0, in.origin, COUNT, l.type, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
#if MPI_VERSION >= 4
static void by_isendrecv(void)
{
    MPI_Request r;
    MPI_Isendrecv(out.origin, COUNT, l.type, to, 0, in.origin, COUNT, l.type, from, 0, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}
#endif
static void by_persistent(void)
{
    MPI_Request r[2];
    MPI_Recv_init(in.origin, COUNT, l.type, from, 0, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(out.origin, COUNT, l.type, to, 0, MPI_COMM_WORLD, &r[1]);
    MPI_Startall(2, r);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static const struct {
    const char *name;
    void (*exchange)(void);
} messages[] = {{"Recv", by_recv},     {"Irecv", by_irecv},       {"Mrecv", by_mrecv},
                {"Imrecv", by_imrecv}, {"Sendrecv", by_sendrecv}, {"Recv_init", by_persistent},
#if MPI_VERSION >= 4
                {"Isendrecv", by_isendrecv},
#endif
};

static void all_messages(void)
{
    unsigned char *sent = layout_packed(&l, (uint64_t)from);
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        buf_fill(&out, (uint64_t)my_rank);
        buf_fill(&in, 99);
        messages[i].exchange();
        buf_expect(&in, &l, sent, l.bytes / num_ranks);
        buf_check(&in, messages[i].name);
        report("uneven elements by %s", messages[i].name);
    }
    buf_fill(&in, (uint64_t)my_rank);
    MPI_Sendrecv_replace(in.origin, COUNT, l.type, to, 0, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    buf_expect(&in, &l, sent, l.bytes / num_ranks);
    buf_check(&in, "Sendrecv_replace");
    report("uneven elements by Sendrecv_replace");
#if MPI_VERSION >= 4
    MPI_Request r;
    buf_fill(&in, (uint64_t)my_rank);
    MPI_Isendrecv_replace(in.origin, COUNT, l.type, to, 0, from, 0, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    buf_expect(&in, &l, sent, l.bytes / num_ranks);
    buf_check(&in, "Isendrecv_replace");
    report("uneven elements by Isendrecv_replace");
#endif
    free(sent);
}

/* What rank 0 holds goes to all and, a share from each, comes back. */
static void bcast(void)
{
    buf_fill(&in, my_rank ? 99 : 7);
    MPI_Bcast(in.origin, l.count, l.type, 0, MPI_COMM_WORLD);
    buf_expect_from(&in, &l, &l, 7);
    buf_check(&in, "Bcast");
    report("uneven elements by Bcast");
}

static void gather(bool all)
{
    buf_fill(&out, 5);
    buf_fill(&in, 99);
    void *mine = element_of(&out, my_rank);
    for (int root = 0; root < (all ? 1 : num_ranks); root++) {
        if (all) MPI_Allgather(mine, COUNT, l.type, in.origin, COUNT, l.type, MPI_COMM_WORLD);
        else MPI_Gather(mine, COUNT, l.type, in.origin, COUNT, l.type, root, MPI_COMM_WORLD);
    }
    buf_expect_from(&in, &l, &l, 5);
    buf_check(&in, "gathered");
    report("uneven elements by %s", all ? "Allgather" : "Gather");
}

/* With a count for each: all shares, which MPICH cuts by the extent of each rank's type where they go round; and rank 0's. */
static void lists(void)
{
    int counts[16], displs[16];
    for (int i = 0; i < num_ranks; i++) counts[i] = COUNT, displs[i] = i * COUNT;
    buf_fill(&out, 5);
    buf_fill(&in, 99);
    MPI_Allgatherv(element_of(&out, my_rank), COUNT, l.type, in.origin, counts, displs, l.type, MPI_COMM_WORLD);
    buf_expect_from(&in, &l, &l, 5);
    buf_check(&in, "gathered");
    report("uneven elements by Allgatherv");
    buf_fill(&in, 99);
    MPI_Scatterv(out.origin, counts, displs, l.type, in.origin, COUNT, l.type, 0, MPI_COMM_WORLD);
    unsigned char *sent = layout_packed(&l, 5);
    size_t share = (size_t)(l.bytes / num_ranks);
    memmove(sent, sent + (size_t)my_rank * share, share);
    buf_expect(&in, &l, sent, (int)share);
    free(sent);
    buf_check(&in, "scattered");
    report("uneven elements by Scatterv");
}

/* Each rank's i-th share goes to rank i, its own type for each. */
static void alltoallw(bool later)
{
    int counts[16], displs[16];
    MPI_Datatype types[16];
    MPI_Request r = MPI_REQUEST_NULL;
    for (int i = 0; i < num_ranks; i++) {
        counts[i] = COUNT, types[i] = l.type;
        displs[i] = (int)((char *)element_of(&in, i) - (char *)in.origin);
    }
    buf_fill(&out, 5);
    buf_fill(&in, 99);
    if (later) MPI_Ialltoallw(out.origin, counts, displs, types, in.origin, counts, displs, types, MPI_COMM_WORLD, &r);
    else MPI_Alltoallw(out.origin, counts, displs, types, in.origin, counts, displs, types, MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    unsigned char *sent = layout_packed(&l, 5), *got = malloc((size_t)l.bytes);
    size_t share = (size_t)(l.bytes / num_ranks);
    for (int i = 0; i < num_ranks; i++) memcpy(got + (size_t)i * share, sent + (size_t)my_rank * share, share);
    buf_expect(&in, &l, got, l.bytes);
    buf_check(&in, "exchanged");
    free(sent), free(got);
    report("uneven elements by %s", later ? "Ialltoallw" : "Alltoallw");
}

/* This rank begins anew without what `stridec run --sim` has put first in the search for libraries: the simulated CUDA runtime
 * loads a driver at once, the real one at its first call. */
static void without_driver(char **argv)
{
    const char *folders = getenv("LD_LIBRARY_PATH");
    size_t first = folders ? strcspn(folders, ":") : 0;
    if (rank_given() % 2 != 1 || first < 4 || strncmp(folders + first - 4, "/sim", 4)) return;
    setenv("LD_LIBRARY_PATH", folders[first] ? folders + first + 1 : "", 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    bool bare = argc > 1 && !strcmp(argv[1], "bare");
    bool touches = argc > 1 && !strcmp(argv[1], "touching");
    if (bare) without_driver(argv);
    check_start(&argc, &argv, -1);
    enum mem_kind kind = my_rank % 2 ? MEM_HOST : MEM_DEVICE;
    from = (my_rank + num_ranks - 1) % num_ranks, to = (my_rank + 1) % num_ranks;
    layout_of(&l, touches ? touching_type() : uneven_type(), COUNT * num_ranks, "a struct of several sizes");
    buf_make(&in, kind, &l, 0, 0);
    buf_make(&out, kind, &l, 0, 0);
    all_messages();
    bcast();
    gather(false);
    gather(true);
    lists();
    alltoallw(false);
    alltoallw(true);
    if (bare && my_rank % 2) expect(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "one is loaded");
    if (bare) report("ranks without a driver");
    buf_free(&in);
    buf_free(&out);
    layout_free(&l);
    return check_finish();
}
