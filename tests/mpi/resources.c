/* resources.c: counts what the process holds, from the kernel's tables, malloc, and the simulated GPU. */
#include "resources.h"
#include "../sim/simgpu.h"
#include "check.h"
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char compile_log[256];
static int64_t modules_before;

static int64_t entries(const char *folder)
{
    DIR *d = folder ? opendir(folder) : NULL;
    int64_t n = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static int64_t lines(const char *file)
{
    FILE *f = fopen(file, "r");
    int64_t n = 0;
    for (int c = f ? getc(f) : EOF; c != EOF; c = getc(f)) n += c == '\n';
    if (f) fclose(f);
    return n;
}

static int64_t resident(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*s %ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int64_t anonymous(void)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "RssAnon: %ld kB", &kb) != 1) continue;
    if (f) fclose(f);
    return (int64_t)kb << 10;
}

static bool simulated(struct simgpu_counts *c)
{
    void (*counts)(struct simgpu_counts *) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    if (driver) *(void **)&counts = dlsym(driver, "simgpu_counts");
    if (counts) counts(c);
    if (driver) dlclose(driver);
    return counts != NULL;
}

void resources_now(struct resources *r)
{
    struct simgpu_counts c = {0};
    size_t free_bytes = 0, total = 0;
    *r = (struct resources){.heap = (int64_t)(mallinfo2().uordblks + mallinfo2().hblkhd), .resident = resident()};
    r->anonymous = anonymous();
    r->descriptors = entries("/proc/self/fd"), r->threads = entries("/proc/self/task");
    r->files = entries(getenv("STRIDEC_CACHE_DIR"));
    r->simulated = simulated(&c);
    if (r->simulated) {
        r->device_bytes = (int64_t)c.bytes_live, r->modules = (int64_t)c.modules;
        r->launches = (int64_t)c.launches, r->copies = (int64_t)c.copies, r->syncs = (int64_t)c.syncs;
        r->calls = (int64_t)c.calls, r->questions = (int64_t)c.questions, r->failed = (int64_t)c.failed;
        r->early = (int64_t)c.early_launches;
        r->opens = (int64_t)c.ipc_opens, r->compiles = lines(compile_log);
    } else if (!host_mode && cudaMemGetInfo(&free_bytes, &total) == cudaSuccess) {
        r->device_bytes = (int64_t)(total - free_bytes);
        r->compiles = r->files;
    }
}

void resources_watch_compiles(void)
{
    struct resources r;
    int fd = -1;
    if (my_rank == 0) {
        const char *beside = getenv("STRIDEC_CACHE_DIR");   /* goes with it */
        snprintf(compile_log, sizeof compile_log, "%s-compiles-XXXXXX", beside ? beside : "/tmp/stridec");
        fd = mkstemp(compile_log);
        expect(fd >= 0, "no temporary file");
        if (fd >= 0) close(fd);
    }
    MPI_Bcast(compile_log, sizeof compile_log, MPI_CHAR, 0, MPI_COMM_WORLD);
    setenv("SIMGPU_NVRTC_LOG", compile_log, 1);
    resources_now(&r);
    modules_before = r.modules;
}

int64_t resources_compiled_again(int64_t first, int64_t since)
{
    enum { MOST = 16 };
    char known[MOST][64], line[64];
    FILE *f = fopen(compile_log, "r");
    int64_t n = 0;
    for (int64_t i = 0; f && fgets(line, sizeof line, f); i++) {
        if (i < first) expect(i < MOST, "more compiles than can be remembered");
        if (i < first && i < MOST) strcpy(known[i], line);
        for (int64_t k = 0; i >= since && k < first && k < MOST; k++) n += !strcmp(known[k], line);
    }
    if (f) fclose(f);
    return n;
}

void resources_wait_modules(int64_t modules, MPI_Datatype type, void (*use)(MPI_Datatype type))
{
    struct resources r;
    double start = 0;
    do {
        if (use) use(type);
        sched_yield(); /* compilers want the cores too */
        resources_now(&r);
    } while (within(&start, r.simulated ? 60 : 2) && !(r.simulated && r.modules >= modules_before + modules));
    if (r.simulated) expect(r.modules >= modules_before + modules, "%lld modules, not %lld, after 60 s",
                            (long long)(r.modules - modules_before), (long long)modules);
}
