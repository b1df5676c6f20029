/* sessions.c: a program that never calls MPI_Init: derived types on device buffers in communicators from two
 * sessions, of which one ends while messages go on in the other. "outlives": sessions of all ranks that
 * outlive the world; "one": of rank 0 alone. Open MPI 4.1 has no sessions, and says so here.
 *
 * run: -n 2
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_STATS=1 -n 2
 * run: STRIDEC_STATS=1 -n 2 outlives
 * run: STRIDEC_STATS=1 -n 2 one
 */
#include "check.h"

#if MPI_VERSION >= 4
#include <stdlib.h>
#include <string.h>

#define COUNT 3

static MPI_Comm comm;
static int peer;

static MPI_Comm comm_of(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm made;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
    MPI_Group_free(&group);
    return made;
}

/* Every layout, also those that the MPI itself must pack. */
static void messages(void)
{
    for (int from = 0; from < LAYOUTS; from++) {
        struct layout mine, theirs;
        struct buf in, out, replaced;
        MPI_Request r[2];
        layout_number(&mine, from, COUNT);
        layout_number(&theirs, (from + 3) % LAYOUT_FAMILY_B, COUNT);
        buf_make(&out, MEM_DEVICE, &mine, 0, 10 + (uint64_t)my_rank);
        buf_make(&in, MEM_DEVICE, &theirs, 0, 20);
        buf_make(&replaced, MEM_DEVICE, &mine, 0, 30);
        MPI_Irecv(in.origin, COUNT, theirs.type, peer, 1, comm, &r[0]);
        MPI_Isend(out.origin, COUNT, mine.type, peer, 1, comm, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        buf_expect_from(&in, &theirs, &mine, 10 + (uint64_t)peer);
        buf_check(&in, mine.text);
        MPI_Sendrecv(out.origin, COUNT, mine.type, peer, 2, replaced.origin, COUNT, mine.type, peer, 2, comm,
                     MPI_STATUS_IGNORE);
        buf_expect_from(&replaced, &mine, &mine, 10 + (uint64_t)peer);
        if (!mine.overlaps) buf_check(&replaced, mine.text);
        buf_free(&in), buf_free(&out), buf_free(&replaced);
        layout_free(&mine), layout_free(&theirs);
    }
    report("messages, and nobody called MPI_Init");
}

static void larger(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    for (int i = 0; i < *count; i++)
        for (int k = 0; k < 6; k++) {   /* of a vector of 3 blocks of 2, 4 apart */
            const int *a = (const int *)((char *)in + i * extent) + k / 2 * 4 + k % 2;
            int *b = (int *)((char *)inout + i * extent) + k / 2 * 4 + k % 2;
            *b = *a > *b ? *a : *b;
        }
}

/* A reduction sees the application's layout, which stridec lays out by MPI_Unpack: without a world, where? */
static void collectives(void)
{
    struct layout l, both;
    struct buf in, out, all;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Type_vector(3, 2, 4, MPI_INT, &type);
    type_commit(&type);
    layout_of(&l, type, COUNT, "vector");
    layout_of(&both, MPI_INT, 2 * COUNT * 6, "int");
    buf_make(&out, MEM_DEVICE, &l, 0, 40 + (uint64_t)my_rank);
    buf_make(&in, MEM_DEVICE, &l, 0, 50);
    buf_make(&all, MEM_DEVICE, &both, 0, 51);
    MPI_Allgather(out.origin, COUNT, type, all.origin, COUNT * 6, MPI_INT, comm);
    unsigned char *packed[2] = {layout_packed(&l, 40), layout_packed(&l, 41)};
    for (int i = 0; i < 2; i++) memcpy(all.shadow + all.lead + i * l.bytes, packed[i], (size_t)l.bytes);
    buf_check(&all, "MPI_Allgather");
    MPI_Op_create(larger, 1, &op);
    MPI_Allreduce(out.origin, in.origin, COUNT, type, op, comm);
    int *a = (int *)(void *)packed[0], *b = (int *)(void *)packed[1];
    for (int i = 0; i < COUNT * 6; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    buf_expect(&in, &l, packed[0], l.bytes);
    buf_check(&in, "MPI_Allreduce of a derived type");
    MPI_Op_free(&op);
    free(packed[0]), free(packed[1]);
    buf_free(&in), buf_free(&out), buf_free(&all);
    layout_free(&l), layout_free(&both);
    report("collectives, and nobody called MPI_Init");
}

static int outlives(int argc, char **argv, bool all)
{
    MPI_Session session = MPI_SESSION_NULL;
    check_start(&argc, &argv, -1);
    comm = MPI_COMM_WORLD, peer = my_rank ^ 1;
    if (all || my_rank == 0) MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    messages();
    int failed = check_finish();
    if (all) {
        comm = comm_of(session, "outlives");
        check_begin(argc, argv, comm);
        messages();
        failed |= check_end();
        MPI_Comm_free(&comm);
    }
    if (session != MPI_SESSION_NULL) MPI_Session_finalize(&session);
    return failed;
}

int main(int argc, char **argv)
{
    MPI_Session first, second;
    int initialized = -1;
    const char *what = argv[argc - 1];
    if (!strcmp(what, "outlives") || !strcmp(what, "one")) return outlives(argc, argv, !strcmp(what, "outlives"));
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first);
    comm = comm_of(first, "first");
    check_begin(argc, argv, comm);
    peer = my_rank ^ 1;
    messages();
    collectives();
    int failed = check_end();
    MPI_Comm_free(&comm);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second);
    MPI_Session_finalize(&first);
    comm = comm_of(second, "second");
    check_begin(argc, argv, comm);
    MPI_Initialized(&initialized);
    expect_equal(initialized, 0, "MPI_Initialized");
    messages();
    collectives();
    failed |= check_end();
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&second);
    return failed;
}
#else
int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    note("this MPI has no sessions");
    report("nothing");
    return check_finish();
}
#endif
