/* hurried.c: MPI_Finalize, and then the process's exit, while NVRTC is at a compile that does not end: neither waits
 * for it. A type that waits for its own is used before, and freed after. The compile runs on the processors of the job,
 * not only where the launcher has bound the rank.
 *
 * run: SIMGPU_NVRTC_DELAY_MS=1000000 STRIDEC_CACHE_DIR=@NEW -n 2
 */
#include "check.h"
#include "resources.h"
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 20   /* a second is meant, and this machine may be busy */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Binds the process to its first processor, as launchers do. Sets *job to those of the launcher. */
static void bind_self(cpu_set_t *job)
{
    cpu_set_t own, one;
    int first = 0;
    if (sched_getaffinity(getppid(), sizeof *job, job) || sched_getaffinity(0, sizeof own, &own)) abort();
    while (!CPU_ISSET(first, &own)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one)) abort();
}

/* True if a thread may use all these processors. */
static bool any_thread_on(const cpu_set_t *job)
{
    bool any = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *t; tasks && (t = readdir(tasks));) {
        cpu_set_t its, both;
        int id = atoi(t->d_name);
        if (!id || sched_getaffinity(id, sizeof its, &its)) continue;
        CPU_AND(&both, &its, job);
        any |= CPU_EQUAL(&both, job) != 0;
    }
    if (tasks) closedir(tasks);
    return any;
}

static MPI_Datatype column(int step)
{
    MPI_Datatype t;
    MPI_Type_vector(50, 1, step, MPI_INT, &t);
    type_commit(&t);
    return t;
}

/* Each process compiles for itself, or waits for the one that does. */
static void wait_for_compile(void)
{
    struct resources r;
    double begun = now();
    do {
        sched_yield();
        resources_now(&r);
    } while (r.simulated && r.compiles < 1 && now() < begun + 60);
    expect(!r.simulated || r.compiles > 0, "no compile has begun");
}

static void use(MPI_Datatype t)
{
    struct layout l;
    struct buf user;
    int position = 0;
    layout_of(&l, t, 1, "a column");
    buf_make(&user, MEM_DEVICE, &l, 0, 7);
    unsigned char *room = calloc(1, (size_t)l.bytes), *want = layout_packed(&l, 7);
    MPI_Pack(user.origin, 1, t, room, l.bytes, &position, MPI_COMM_WORLD);
    expect(position == l.bytes && !memcmp(room, want, (size_t)l.bytes), "other bytes were packed");
    free(room), free(want), free(l.map);
    buf_free(&user);
}

int main(int argc, char **argv)
{
    cpu_set_t job;
    bind_self(&job);
    check_start(&argc, &argv, MPI_THREAD_SINGLE);
    mem_free(MEM_DEVICE, mem_alloc(MEM_DEVICE, 1));   /* types are compiled for devices that are in use */
    resources_watch_compiles();
    MPI_Datatype first = column(7), second = column(9);
    wait_for_compile();
    expect(any_thread_on(&job), "the compile is bound to the rank's processor");
    use(second);
    MPI_Type_free(&second);
    use(first);
    report("types are used, and freed, while NVRTC hangs");
    int bad = check_end();
    double begun = now();
    MPI_Finalize();
    double took = now() - begun;
    if (took < PATIENCE_S) return bad;
    printf("not ok MPI_Finalize took %.1f s\n", took);
    return 1;
}
