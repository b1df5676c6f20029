/* met.c: ranks whose devices are known before MPI_Init meet without a message (node/ipc_cache.h), so that their first
 * one goes zero-copy. Rank 0 sends from a new allocation.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 3
 * run: -n 2 commit
 *
 * "commit": devices are chosen after MPI_Init, and the first type makes them known.
 */
#include "check.h"
#include "offers.h"
#include <cuda_runtime.h>
#include <sched.h>
#include <string.h>

#define SECONDS 30
#define BLOCKS (9 << 12)   /* of 256 bytes: 9 MiB */

/* Returns true once this rank has opened a probe of each other one's. */
static bool met(void)
{
    const struct node_file *f = offers_file(my_rank);
    int many = 0;
    for (int i = 0; f && i < num_ranks; i++) many += offers_accepted(f, i);
    return many == num_ranks - 1;
}

int main(int argc, char **argv)
{
    bool commits = argc > 1 && !strcmp(argv[1], "commit");
    double since = 0;
    MPI_Datatype t;
    struct layout l;
    struct buf b;
    if (!commits && cudaFree(0) != cudaSuccess) return 1;
    check_start(&argc, &argv, -1);
    if (commits) cudaFree(0);
    MPI_Type_vector(BLOCKS, 32, 64, MPI_DOUBLE, &t);
    if (commits) type_commit(&t);
    while (!met() && within(&since, SECONDS)) sched_yield();
    expect(met(), "the ranks have not met");
    report("%d ranks meet without a message", num_ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!commits) type_commit(&t);
    layout_of(&l, t, 1, "9 MiB of rows");
    buf_make(&b, MEM_DEVICE, &l, 0, my_rank ? 1 : 7);
    if (my_rank == 0)
        for (int i = 1; i < num_ranks; i++) MPI_Send(b.origin, 1, t, i, 3, MPI_COMM_WORLD);
    else
        MPI_Recv(b.origin, 1, t, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (my_rank) buf_expect_from(&b, &l, &l, 7), buf_check(&b, "the first message");
    if (my_rank == 0) expect(offers_sized(l.bytes), "the first message went by the MPI");
    report("the first message goes zero-copy");
    buf_free(&b);
    layout_free(&l);
    return check_finish();
}
