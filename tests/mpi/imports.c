/* imports.c: types without end, each sent once and read in the sender's memory: of the layouts that the receiver has read it
 * keeps some thousands, and what comes again is read again.
 *
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on STRIDEC_TRANSPORT=zerocopy STRIDEC_CC=false -n 2 --host
 */
#include "check.h"
#include "resources.h"
#include <stdlib.h>

enum { TYPES = 18000, SETTLED = 10000, TOGETHER = 50, BLOCK = 10, INTS = 1 << 16 };
#define SLACK_BYTES (4 << 20)   /* as in churn.c */

static int *out, *in[TOGETHER];

static int sent(int rank, int at)
{
    return at * 31 + rank;
}

static int count(int number)
{
    return 100 + number % 200;
}

/* No two numbers give the same layout. */
static int step(int number)
{
    return BLOCK + 1 + number / 200;
}

static void check(int *got, int number)
{
    int wrong = 0;
    for (int i = 0; i < count(number) * BLOCK; i++) {
        int at = i / BLOCK * step(number) + i % BLOCK;
        wrong += got[at] != sent(1 - my_rank, at), got[at] = 0;
    }
    expect_equal(wrong, 0, "ints that did not come");
}

static void exchange(int first)
{
    MPI_Datatype type;
    MPI_Request r[2 * TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        MPI_Type_vector(count(first + i), BLOCK, step(first + i), MPI_INT, &type);
        type_commit(&type);
        MPI_Irecv(in[i], 1, type, 1 - my_rank, i, MPI_COMM_WORLD, &r[2 * i]);
        MPI_Isend(out, 1, type, 1 - my_rank, i, MPI_COMM_WORLD, &r[2 * i + 1]);
        MPI_Type_free(&type);
    }
    MPI_Waitall(2 * TOGETHER, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < TOGETHER; i++) check(in[i], first + i);
}

int main(int argc, char **argv)
{
    struct resources half, end;
    check_start(&argc, &argv, -1);
    out = malloc(INTS * sizeof *out);
    for (int i = 0; i < INTS; i++) out[i] = sent(my_rank, i);
    for (int i = 0; i < TOGETHER; i++) in[i] = calloc(INTS, sizeof *in[i]);
    for (int i = 0; i < SETTLED; i += TOGETHER) exchange(i);
    resources_now(&half);
    for (int i = SETTLED; i < TYPES; i += TOGETHER) exchange(i);
    resources_now(&end);
    /* Beside CUDA on an H100 it grows by 23 MB without stridec too. */
    if (host_mode) expect(end.heap <= half.heap + SLACK_BYTES, "the heap has grown by %lld bytes", (long long)(end.heap - half.heap));
    report("%d types", TYPES);
    exchange(0);
    report("the first of them again");
    free(out);
    for (int i = 0; i < TOGETHER; i++) free(in[i]);
    return check_finish();
}
