/* host.c: contiguous messages in host memory, beside a GPU in use: they arrive, and of what is surely the host's (the
 * program's data, the heap, the stacks) the driver is not asked once. Device buffers are seen all the same, wherever the
 * program's memory was before.
 *
 * run: -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 -n 2
 */
#include "check.h"
#include "../sim/simgpu.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { VALUES = 16, BYTES = VALUES * 4, MAPPED = 1 << 21, TURNS = 20 };

static int peer;
static int *heap;   /* from the break itself: a sanitizer's malloc maps all that it gives */

/* Questions about pointers so far, where the simulated GPU counts them. */
static uint64_t questions(void)
{
    static void (*counts)(struct simgpu_counts *);
    struct simgpu_counts c = {0};
    void *driver = counts ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) *(void **)&counts = dlsym(driver, "simgpu_counts");
    if (counts) counts(&c);
    return c.questions;
}

static void fill(int *p, int salt)
{
    for (int i = 0; i < VALUES; i++) p[i] = 1000 * salt + 100 * my_rank + i;
}

static void look(const int *p, int salt, int of, const char *what)
{
    for (int i = 0; i < VALUES; i++)
        expect(p[i] == 1000 * salt + 100 * of + i, "%s: value %d is %d", what, i, p[i]);
}

/* Two lists of VALUES in each of the ways. */
static void messages(int *out, int *in)
{
    MPI_Request request[2];
    int position = 0;
    fill(out, 1), memset(in, 0, BYTES);
    MPI_Sendrecv(out, VALUES, MPI_INT, peer, 1, in, VALUES, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    look(in, 1, peer, "MPI_Sendrecv");
    fill(out, 2), memset(in, 0, BYTES);
    MPI_Irecv(in, VALUES, MPI_INT, peer, 2, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(out, VALUES, MPI_INT, peer, 2, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    look(in, 2, peer, "MPI_Isend, MPI_Irecv");
    fill(out, 3), memset(in, 0, BYTES);
    if (my_rank == 0) MPI_Send(out, VALUES, MPI_INT, peer, 3, MPI_COMM_WORLD);
    MPI_Recv(in, VALUES, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (my_rank == 1) MPI_Send(out, VALUES, MPI_INT, peer, 3, MPI_COMM_WORLD);
    look(in, 3, peer, "MPI_Send, MPI_Recv");
    fill(out, 4), memset(in, 0, BYTES);
    MPI_Pack(out, VALUES, MPI_INT, in, BYTES, &position, MPI_COMM_WORLD);
    look(in, 4, my_rank, "MPI_Pack");
    fill(in, 5);
    MPI_Bcast(in, VALUES, MPI_INT, 1, MPI_COMM_WORLD);
    look(in, 5, 1, "MPI_Bcast");
    fill(in, 6);
    MPI_Allreduce(MPI_IN_PLACE, in, VALUES, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    look(in, 6, 1, "MPI_Allreduce in place");
}

static void unasked(int *out, int *in, const char *what)
{
    messages(out, in);   /* the first of a kind may ask */
    uint64_t before = questions();
    messages(out, in);
    expect_equal(questions() - before, 0, "the number of questions");
    report("%s: nothing is asked", what);
}

static void *in_thread(void *unused)
{
    int out[VALUES], in[VALUES];
    unasked(out, in, "a thread's stack");
    return unused;
}

static void host_memory(void)
{
    static int data_out[VALUES] = {1}, data_in[VALUES];
    int out[VALUES], in[VALUES];
    pthread_t thread;
    unasked(data_out, data_in, "the program's data");
    unasked(heap, heap + VALUES, "the heap");
    unasked(out, in, "the stack");
    if (pthread_create(&thread, NULL, in_thread, NULL) == 0) pthread_join(thread, NULL);
}

/* Memory that the program maps, gives back and lets a device have: what was told of an address before means nothing. */
static void reused(void)
{
    struct layout l;
    struct buf device;
    layout_of(&l, MPI_INT, VALUES, "integers");
    for (int i = 0; i < TURNS; i++) {
        int *p = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        messages(p, p + VALUES);
        munmap(p, MAPPED);
        buf_make(&device, host_mode ? MEM_HOST : MEM_DEVICE, &l, 0, (uint64_t)i + 1);
        MPI_Sendrecv_replace(device.origin, VALUES, MPI_INT, peer, 4, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buf_expect_from(&device, &l, &l, (uint64_t)i + 1);
        buf_check(&device, "a device buffer");
        buf_free(&device);
    }
    layout_free(&l);
    report("mapped memory, and a device's after it");
}

/* MPI_BOTTOM is no address of memory. */
static void bottom(void)
{
    int value = 7 + my_rank, got = 0, one = 1;
    MPI_Aint from, to;
    MPI_Datatype type[2];
    MPI_Get_address(&value, &from), MPI_Get_address(&got, &to);
    MPI_Type_create_hindexed(1, &one, &from, MPI_INT, &type[0]);
    MPI_Type_create_hindexed(1, &one, &to, MPI_INT, &type[1]);
    MPI_Type_commit(&type[0]), MPI_Type_commit(&type[1]);
    MPI_Sendrecv(MPI_BOTTOM, 1, type[0], peer, 5, MPI_BOTTOM, 1, type[1], peer, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect_equal(got, 7 + peer, "the value by MPI_BOTTOM");
    MPI_Type_free(&type[0]), MPI_Type_free(&type[1]);
    report("MPI_BOTTOM");
}

int main(int argc, char **argv)
{
    heap = sbrk(2 * BYTES);
    check_start(&argc, &argv, MPI_THREAD_SERIALIZED);
    peer = 1 - my_rank;
    void *gpu = host_mode ? NULL : mem_alloc(MEM_DEVICE, BYTES);
    host_memory();
    reused();
    bottom();
    if (gpu) mem_free(MEM_DEVICE, gpu);
    return check_finish();
}
