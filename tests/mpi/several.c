/* several.c: messages from several allocations, by absolute addresses: read where they lie, by one launch of the
 * receiver, none of the sender. Fields, particles, lists that jump between allocations; received into the like, into
 * one allocation, contiguously, cut elsewhere, into host memory; refused; too many parts.
 *
 * run: STRIDEC_TRANSPORT=zerocopy -n 2
 * run: STRIDEC_TRANSPORT=zerocopy -n 2 apart
 * run: STRIDEC_TRANSPORT=zerocopy LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 -n 2
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle:5+ -n 2 bytes
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_FAIL=cuIpcOpenMemHandle -n 2 bytes
 * run: STRIDEC_TRANSPORT=zerocopy SIMGPU_MEMORY=1 -n 2 bytes
 * run: -n 2 bytes
 * run: STRIDEC_TRANSPORT=oneshot -n 2 bytes
 */
#include "places.h"
#include "resources.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 60
#define TAG 7

static int peer;
static bool bytes_only, counts;   /* counts: the simulated GPU counts launches */

static bool everywhere(bool here)
{
    int mine = here, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* One message from rank 0. Returns true if it took the launches of the shape, none of the sender's. */
static bool pass(struct place *from, struct place *to, int round)
{
    struct resources before, after;
    place_clear(from), place_clear(to);
    place_fill(from, 100.0 * round, true);
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&before);
    if (my_rank == 0) MPI_Send(MPI_BOTTOM, 1, from->type, peer, TAG, MPI_COMM_WORLD);
    else MPI_Recv(MPI_BOTTOM, 1, to->type, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    resources_now(&after);
    if (my_rank) place_fill(to, 100.0 * round, false);
    place_check(from, "sent"), place_check(to, from->shape->name);
    int64_t launches = after.launches - before.launches;
    return everywhere(my_rank ? launches == to->shape->launches : launches == 0);
}

static void several(const struct shape *a, const struct shape *b)
{
    struct place from, to;
    double since = 0;
    bool so = false, counted = counts && a->launches >= 0 && b->launches >= 0;
    place_make(&from, a), place_make(&to, b);
    for (int round = 0; round < 3 || (counted && !so && everywhere(within(&since, SECONDS))); round++)
        so = pass(&from, &to, round);
    expect(so || !counted, "%s into %s takes other launches", a->name, b->name);
    report("%s into %s", a->name, b->name);
    place_free(&from), place_free(&to);
}

int main(int argc, char **argv)
{
    static struct shape from[4], flat, one, other, host;
    bool apart = false;
    for (int i = 1; i < argc; i++) bytes_only |= !strcmp(argv[i], "bytes"), apart |= !strcmp(argv[i], "apart");
    check_start(&argc, &argv, -1);
    struct resources r;
    resources_now(&r);
    counts = r.simulated && !bytes_only && !host_mode;
    peer = 1 - my_rank;
    if (apart && !host_mode) cudaSetDevice(my_rank);
    shapes_make(&from[0], &from[1], &from[2], &from[3]);
    flat = (struct shape){.name = "contiguous memory", .kind = MEM_DEVICE, .launches = 1};
    shape_add(&flat, 2, 100, 1500, 1);
    other = (struct shape){.name = "two arrays, cut elsewhere", .kind = MEM_DEVICE, .launches = 2};
    shape_add(&other, 1, 0, 700, 5), shape_add(&other, 0, 0, 800, 4);
    host = (struct shape){.name = "host memory", .kind = MEM_HOST, .launches = 1};
    shape_add(&host, 1, 0, 700, 5), shape_add(&host, 0, 0, 800, 4);
    for (int i = 0; i < 4; i++) {
        expect_equal(shape_doubles(&from[i]), 1500, from[i].name);
        one = from[i], one.name = "the same in one allocation", one.together = true;
        several(&from[i], &from[i]);
        several(&from[i], &one);
        several(&from[i], &flat);
        several(&from[i], &other);
        several(&from[i], &host);
    }
    return check_finish();
}
