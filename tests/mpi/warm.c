/* warm.c: what ranks and processes share of compiled kernels, and what becomes of the worker when they fork and end.
 *
 * `cold` begins with an empty cache folder: of the ranks one compiles, and the others have the modules from it. `warm`
 * finds it filled by others, and its first pack of a type meets the type's own kernel; one rank reads each file.
 * `gone` takes the folder's files away when rank 0 has loaded all modules. `fork` forks while a compile is on its way;
 * `end` finalizes then.
 * (To exit without MPI_Finalize then is test_kernel.c's.) A child has no use for a sanitizer's search for leaks, which
 * takes its parent's threads for its own.
 *
 * run: STRIDEC_CACHE_DIR=@KEEP -n 3 cold
 * run: STRIDEC_CACHE_DIR=@KEEP -n 3 warm
 * run: STRIDEC_CACHE_DIR=@KEEP -n 1 warm
 * run: STRIDEC_CACHE_DIR=@KEEP -n 3 gone
 * run: STRIDEC_CACHE_DIR=@NEW SIMGPU_NVRTC_DELAY_MS=300 LSAN_OPTIONS=detect_leaks=0 -n 1 fork
 * run: STRIDEC_CACHE_DIR=@NEW SIMGPU_NVRTC_DELAY_MS=300 -n 2 end
 */
#include "check.h"
#include "resources.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 24000 /* more than the copy engine is asked for, two and more at a time */

static struct buf user;
static atomic_int reads;   /* files of the cache folder that were opened, but locks and new ones */

/* The library's too: the program's functions come first. */
int open(const char *name, int flags, ...)
{
    const char *cache = getenv("STRIDEC_CACHE_DIR"), *end = strrchr(name, '.');
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    int fd = openat(AT_FDCWD, name, flags, mode);
    if (fd >= 0 && cache && !strncmp(name, cache, strlen(cache)) && !(end && !strcmp(end, ".lock"))) reads++;
    return fd;
}

static int all_reads(void)
{
    int own = reads, all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Where block i lies: evenly spaced, the copy engine would move them at once. */
static int place(int i)
{
    return 24 * i + 8 * (int)((uint32_t)i * 2654435761u >> 30 & 1);
}

static MPI_Datatype blocks_of(MPI_Datatype item)
{
    static MPI_Aint at[BLOCKS];
    MPI_Datatype t;
    for (int i = 0; i < BLOCKS; i++) at[i] = place(i);
    MPI_Type_create_hindexed_block(BLOCKS, 1, at, item, &t);
    type_commit(&t);
    return t;
}

static MPI_Datatype blocks(void)
{
    return blocks_of(MPI_DOUBLE);
}

static void pack(MPI_Datatype t)
{
    struct buf out;
    int position = 0, bytes;
    MPI_Type_size(t, &bytes);
    buf_bytes(&out, MEM_DEVICE, (size_t)bytes, 0, 3);
    MPI_Pack(user.origin, 1, t, out.origin, bytes, &position, MPI_COMM_WORLD);
    for (int i = 0, item = bytes / BLOCKS; i < bytes; i++)
        out.shadow[out.lead + (size_t)i] = user.shadow[user.lead + (size_t)(place(i / item) + i % item)];
    buf_check(&out, "packed");
    buf_free(&out);
}

/* All ranks want the same modules at the same time: the interpreter, the type's own, and the one for messages. */
static void cold(void)
{
    struct resources r;
    MPI_Datatype t = blocks();
    resources_wait_modules(3, t, NULL);
    pack(t);
    MPI_Barrier(MPI_COMM_WORLD);
    resources_now(&r);
    if (r.simulated) expect_equal(r.compiles, 3, "compiles of all ranks");
    int all = all_reads();
    expect(all <= 3, "%d files were read by all ranks", all);   /* a rank may look just after a file has come */
    MPI_Type_free(&t);
    report("%d ranks compile a module once", num_ranks);
}

/* No module is compiled, and none is loaded but the type's own, the interpreter and that for messages; one launch, no
 * copy but the list's, and of a few bytes by which the ranks meet: the first pack is a kernel's. */
static void warm(void)
{
    struct resources before, after;
    struct buf out;
    int position = 0;
    buf_bytes(&out, MEM_DEVICE, 8 * BLOCKS, 0, 3);
    resources_now(&before);
    MPI_Datatype t = blocks();
    MPI_Pack(user.origin, 1, t, out.origin, 8 * BLOCKS, &position, MPI_COMM_WORLD);
    resources_now(&after);
    if (after.simulated) {
        expect_equal(after.compiles, 0, "compiles");
        int64_t loaded = after.modules - before.modules;
        expect(loaded >= 1 && loaded <= 3, "%lld modules loaded", (long long)loaded);
        expect_equal(after.launches - before.launches, 1, "launches");
        expect(after.copies - before.copies <= 1 + num_ranks, "%lld copies", (long long)(after.copies - before.copies));
    }
    pack(t);
    resources_wait_modules(3, t, NULL);
    int all = all_reads();
    if (after.simulated) expect_equal(all, 4, "modules and notes that all ranks read");
    MPI_Type_free(&t);
    buf_free(&out);
    report("the first pack after a warm start");
}

static void empty_cache(void)
{
    DIR *d = opendir(getenv("STRIDEC_CACHE_DIR"));
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (e->d_name[0] != '.') expect(!unlinkat(dirfd(d), e->d_name, 0), "%s can't be removed", e->d_name);
    expect(d != NULL, "no cache folder");
    if (d) closedir(d);
}

/* Rank 0 has read all for the others. */
static void gone(void)
{
    struct resources before, after;
    MPI_Datatype t = MPI_DATATYPE_NULL;
    resources_now(&before);
    for (int first = 1; first >= 0; first--) {
        if ((my_rank == 0) == first) {
            t = blocks();
            resources_wait_modules(3, t, NULL);
        }
        if (first && my_rank == 0) empty_cache();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    resources_now(&after);
    expect_equal(after.compiles - before.compiles, 0, "compiles");
    pack(t);
    MPI_Type_free(&t);
    report("modules of a cache folder that has been emptied");
}

/* In a child there is no GPU to use: it computes, commits types, and ends, in each way there is. */
static void child(int way)
{
    MPI_Datatype t;
    if (way == 2) execl("/bin/true", "true", (char *)NULL);
    MPI_Type_contiguous(5, MPI_INT, &t);
    MPI_Type_free(&t);
    if (way == 0) exit(0);
    _exit(0);
}

/* Until NVRTC has been called once more: it then sleeps, and holds no lock of an allocator that takes forks ill (a
 * sanitizer's). */
static void wait_compile(const struct resources *before)
{
    struct resources now;
    double start = 0;
    do resources_now(&now);
    while (now.simulated && now.compiles == before->compiles && within(&start, 60));
    if (now.simulated) expect(now.compiles > before->compiles, "no compile within 60 s");
}

/* A type of its own each time, so that each time there is something to compile. */
static void forks(void)
{
    const MPI_Datatype item[] = {MPI_DOUBLE, MPI_FLOAT, MPI_SHORT};
    MPI_Datatype t[3];
    for (int way = 0; way < 3; way++) {
        struct resources before;
        int status = -1;
        resources_now(&before);
        t[way] = blocks_of(item[way]);
        wait_compile(&before);
        pid_t pid = fork();
        if (pid == 0) child(way);
        expect(waitpid(pid, &status, 0) == pid && status == 0, "the child ends with status %d", status);
        pack(t[way]); /* the parent goes on */
    }
    resources_wait_modules(4, t[2], NULL);
    for (int way = 0; way < 3; way++) {
        pack(t[way]);
        MPI_Type_free(&t[way]);
    }
    report("fork, exit and exec while a kernel is compiled");
}

int main(int argc, char **argv)
{
    struct layout all = {.span = 24 * BLOCKS};
    const char *what = "";
    check_start(&argc, &argv, -1);
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-') what = argv[i];
    resources_watch_compiles();
    buf_make(&user, MEM_DEVICE, &all, 0, 1);
    if (!strcmp(what, "cold")) cold();
    if (!strcmp(what, "warm")) warm();
    if (!strcmp(what, "gone")) gone();
    if (!strcmp(what, "fork")) forks();
    if (!strcmp(what, "end")) pack(blocks()); /* its module is asked for, and not waited for */
    if (!strcmp(what, "end")) report("a compile is on its way at the end");
    buf_free(&user);
    return check_finish();
}
