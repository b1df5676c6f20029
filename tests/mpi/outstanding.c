/* outstanding.c: many requests at a time: each is completed by the call that says so, and once warm a message takes no
 * memory from the system.
 *
 * run: STRIDEC_CACHE_DIR=@NEW STRIDEC_SPECIAL=0 -n 2
 * run: STRIDEC_CACHE_DIR=@NEW STRIDEC_SPECIAL=0 STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_CACHE_DIR=@NEW STRIDEC_SPECIAL=0 -n 2 threads
 */
#include "check.h"
#include "resources.h"
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/*
 * What the preloaded library takes: its calls of malloc, calloc and realloc, by where they return to.
 */

static struct { uintptr_t from, to; } library;
static _Thread_local bool watched;   /* this thread alone: the library's own thread compiles when it likes */
static long taken;

static void count(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    if (watched && at >= library.from && at < library.to) taken++;
}

/* Of the next library: the C library, or a sanitizer. */
#define NEXT(name, type) \
    static __typeof__(type) *next; \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, name); \
    count(__builtin_return_address(0))

void *malloc(size_t bytes)
{
    NEXT("malloc", void *(size_t));
    return next(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    NEXT("calloc", void *(size_t, size_t));
    return next(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    NEXT("realloc", void *(void *, size_t));
    return next(p, bytes);
}

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    if (!strstr(info->dlpi_name, "libstridec")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        library.from = info->dlpi_addr + p->p_vaddr;
        library.to = library.from + p->p_memsz;
    }
    return 1;
}

/*
 * Rounds of messages between the two ranks.
 */

#define N 40   /* more than a call on an array has room for by itself */

static int peer;
static struct layout layout;
static struct buf source, targets[N];
static MPI_Request requests[2 * N]; /* receives, then sends */

/* Every fourth message is the MPI's own; half of the sends wait for their receives. */
static void start(void)
{
    for (int i = 0; i < N; i++)
        MPI_Irecv(targets[i].origin, 1, layout.type, peer, i, MPI_COMM_WORLD, &requests[i]);
    for (int i = N - 1; i >= 0; i--)
        (i % 2 ? MPI_Isend : MPI_Issend)(source.origin, 1, layout.type, peer, i, MPI_COMM_WORLD, &requests[N + i]);
}

static bool done[2 * N];

static void completed(int i, const char *how)
{
    expect(i >= 0 && i < 2 * N && !done[i], "%s completes request %d, which is none, or was complete", how, i);
    if (i < 0 || i >= 2 * N) return;
    done[i] = true;
    expect(requests[i] == MPI_REQUEST_NULL, "%s leaves request %d set", how, i);
}

static int by_waitall(int *indices)
{
    (void)indices;
    MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2 * N; i++) completed(i, "MPI_Waitall");
    return 2 * N;
}

static int by_testall(int *indices)
{
    int flag = 0;
    (void)indices;
    MPI_Testall(2 * N, requests, &flag, MPI_STATUSES_IGNORE);
    for (int i = 0; flag && i < 2 * N; i++) completed(i, "MPI_Testall");
    return flag ? 2 * N : 0;
}

static int by_waitany(int *indices)
{
    MPI_Waitany(2 * N, requests, indices, MPI_STATUS_IGNORE);
    completed(*indices, "MPI_Waitany");
    return 1;
}

static int by_testany(int *indices)
{
    int flag = 0;
    MPI_Testany(2 * N, requests, indices, &flag, MPI_STATUS_IGNORE);
    if (flag) completed(*indices, "MPI_Testany");
    return flag;
}

static int by_waitsome(int *indices)
{
    int n = 0;
    MPI_Waitsome(2 * N, requests, &n, indices, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++) completed(indices[i], "MPI_Waitsome");
    return n;
}

static int by_testsome(int *indices)
{
    int n = 0;
    MPI_Testsome(2 * N, requests, &n, indices, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++) completed(indices[i], "MPI_Testsome");
    return n;
}

static const struct { int (*by)(int *indices); const char *name; } WAYS[] = {
    {by_waitall, "MPI_Waitall"}, {by_testall, "MPI_Testall"},   {by_waitany, "MPI_Waitany"},
    {by_testany, "MPI_Testany"}, {by_waitsome, "MPI_Waitsome"}, {by_testsome, "MPI_Testsome"}};

static void go_round(int way)
{
    int indices[2 * N];
    memset(done, 0, sizeof done);
    start();
    for (int left = 2 * N; left > 0;) left -= WAYS[way].by(indices);
}

/* What two rounds take, on both ranks. */
static long takes(int way)
{
    long all;
    taken = 0, watched = true;
    for (int k = 0; k < 2; k++) go_round(way);
    watched = false;
    MPI_Allreduce(&taken, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* As many messages are under way at a time as the system lets: warm is when a round has needed nothing new. */
#define WARM 30

static void check_way(int way)
{
    static uint64_t salt = 100;
    salt += 10;
    buf_fill(&source, salt + (uint64_t)my_rank);
    for (int i = 0; i < N; i++) buf_fill(&targets[i], salt + 5);
    MPI_Barrier(MPI_COMM_WORLD);
    go_round(way);
    for (int i = 0; i < N; i++) {
        buf_expect_from(&targets[i], &layout, &layout, salt + (uint64_t)peer);
        buf_check(&targets[i], WAYS[way].name);
    }
    long left = 1;
    for (int k = 0; left && k < WARM; k++) left = takes(way);
    expect_equal(left, 0, "the library's calls of malloc, once warm,");
    report("%d requests by %s", 2 * N, WAYS[way].name);
}

int main(int argc, char **argv)
{
    bool threads = argc > 1 && !strcmp(argv[argc - 1], "threads");
    check_start(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED);
    resources_watch_compiles();
    peer = 1 - my_rank;
    layout_number(&layout, 2, 1);
    buf_make(&source, MEM_DEVICE, &layout, 0, 1);
    for (int i = 0; i < N; i++) buf_make(&targets[i], i % 4 == 3 ? MEM_HOST : MEM_DEVICE, &layout, 0, 2);
    go_round(0);
    resources_wait_modules(2, layout.type, NULL); /* the interpreter's, and the type's own */
    dl_iterate_phdr(find_library, NULL);
    expect(host_mode || library.to, "the preloaded library is not found");
    for (int i = 0; i < (int)(sizeof WAYS / sizeof *WAYS); i++) check_way(i);
    for (int i = 0; i < N; i++) buf_free(&targets[i]);
    buf_free(&source);
    layout_free(&layout);
    return check_finish();
}
