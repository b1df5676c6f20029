/* overhead.c: what stridec costs messages that are none of its business: contiguous ones in host memory. Two ranks.
 *
 * usage: mpirun -n 2 [stridec run --] overhead [--gpu] [--rounds N] [RESULTS.json]
 *
 * Round trips of 8 bytes, and windows of 64 of them sent at once, from the program's data, the heap, the stack and a block
 * that malloc maps. In turns, a thousand messages each, the calls go as the program's own do (through stridec where that is
 * preloaded) and straight to the MPI's library; so the two share a process, its memory and the machine's mood. --gpu makes
 * a GPU context first, and measures what the driver takes to tell where a pointer points; without it libcuda.so.1 is not
 * loaded. Threads and memory of rank 0 are those at the end, from /proc. Without preloading, the ratios show the noise. */
#include "common.h"
#include "library.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 8, WINDOW = 64, TRIPS = 1000, QUERIES = 1000, ROUNDS_MAX = 2000, MAPPED = 8 << 20 };

/* The calls that are measured. */
struct calls {
    int (*Send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    int (*Recv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
    int (*Isend)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*Irecv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int (*Waitall)(int, MPI_Request *, MPI_Status *);
};
static struct calls program, mpi;
static int rank;

static void read_calls(struct calls *c, void *library)
{
    *(void **)&c->Send = dlsym(library, "MPI_Send");
    *(void **)&c->Recv = dlsym(library, "MPI_Recv");
    *(void **)&c->Isend = dlsym(library, "MPI_Isend");
    *(void **)&c->Irecv = dlsym(library, "MPI_Irecv");
    *(void **)&c->Waitall = dlsym(library, "MPI_Waitall");
}

/* Half a round trip, in microseconds. */
static double trips(const struct calls *c, char *buf)
{
    double start = now_us();

    for (int i = 0; i < TRIPS; i++) {
        if (rank == 0)
            c->Send(buf, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        c->Recv(buf, BYTES, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            c->Send(buf, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    return (now_us() - start) / TRIPS / 2;
}

/* Time a message of windows that rank 0 sends and rank 1 answers when it has all. */
static double windows(const struct calls *c, char *buf)
{
    MPI_Request request[WINDOW];
    double start = now_us();

    for (int i = 0; i < TRIPS / WINDOW; i++) {
        for (int k = 0; k < WINDOW; k++)
            if (rank == 0)
                c->Isend(buf + BYTES * k, BYTES, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request[k]);
            else
                c->Irecv(buf + BYTES * k, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request[k]);
        c->Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
        if (rank == 0)
            c->Recv(buf, BYTES, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            c->Send(buf, BYTES, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
    return (now_us() - start) / (TRIPS / WINDOW * WINDOW);
}

static void measure(FILE *f, const char *memory, const char *test, double (*run)(const struct calls *, char *), char *buf,
                    int rounds)
{
    static double with[ROUNDS_MAX], alone[ROUNDS_MAX], ratio[ROUNDS_MAX];
    static bool any;

    run(&program, buf), run(&mpi, buf);
    for (int i = 0; i < rounds; i++) {
        if (i % 2)
            alone[i] = run(&mpi, buf);
        with[i] = run(&program, buf);
        if (i % 2 == 0)
            alone[i] = run(&mpi, buf);
        ratio[i] = with[i] / alone[i];
    }
    if (f)
        fprintf(f, "%s{\"memory\": \"%s\", \"test\": \"%s\", \"program_us\": %.4f, \"mpi_us\": %.4f, \"ratio\": %.4f}",
                any ? ",\n" : "", memory, test, median_of(with, rounds), median_of(alone, rounds), median_of(ratio, rounds));
    any = true;
}

static void measure_memory(FILE *f, const char *memory, char *buf, int rounds)
{
    memset(buf, rank, BYTES * WINDOW);
    measure(f, memory, "latency", trips, buf, rounds);
    measure(f, memory, "rate", windows, buf, rounds);
}

/*
 * What it takes to ask about a pointer.
 */

static CUresult (*attribute)(void *, CUpointer_attribute, CUdeviceptr);
static CUresult (*attributes)(unsigned, CUpointer_attribute *, void **, CUdeviceptr);
static CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr);

static void ask_type(CUdeviceptr p)
{
    unsigned type;

    attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
}

static void ask_context(CUdeviceptr p)
{
    CUcontext context;

    attribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p);
}

static void ask_one(CUdeviceptr p)
{
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type;
    void *where = &type;

    attributes(1, &what, &where, p);
}

static void ask_four(CUdeviceptr p)
{
    CUpointer_attribute what[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
    unsigned type, managed;
    CUcontext context;
    int ordinal;
    void *where[] = { &type, &managed, &context, &ordinal };

    attributes(4, what, where, p);
}

static void ask_range(CUdeviceptr p)
{
    CUdeviceptr start;
    size_t bytes;

    range(&start, &bytes, p);
}

/* An invalid request that reads a signal mask first: whether the host can read the address. */
static void ask_readable(CUdeviceptr p)
{
    syscall(SYS_rt_sigprocmask, ~0, (void *)(uintptr_t)p, NULL, 8);
}

static void ask_resident(CUdeviceptr p)
{
    unsigned char page;

    mincore((void *)(uintptr_t)(p & ~(CUdeviceptr)4095), 1, &page);
}

static double query_ns(void (*ask)(CUdeviceptr), const void *p)
{
    static double sample[ROUNDS_MAX];
    int n = 100;

    for (int i = 0; i < n; i++) {
        double start = now_us();

        for (int k = 0; k < QUERIES; k++)
            ask((CUdeviceptr)(uintptr_t)p);
        sample[i] = (now_us() - start) * 1000 / QUERIES;
    }
    return median_of(sample, n);
}

static void measure_queries(FILE *f, const void *heap, const void *mapped, const void *stack)
{
    static const struct {
        const char *name;
        void (*ask)(CUdeviceptr);
    } queries[] = {
        { "cuPointerGetAttribute, memory type", ask_type }, { "cuPointerGetAttribute, context", ask_context },
        { "cuPointerGetAttributes, memory type", ask_one }, { "cuPointerGetAttributes, four", ask_four },
        { "cuMemGetAddressRange", ask_range },              { "rt_sigprocmask, readable", ask_readable },
        { "mincore, resident", ask_resident },
    };
    struct {
        const char *name;
        const void *p;
    } memory[] = { { "heap", heap }, { "mapped", mapped }, { "stack", stack }, { "pinned", NULL }, { "managed", NULL },
                   { "device", NULL } };
    size_t total = sizeof(queries) / sizeof(*queries), kinds = sizeof(memory) / sizeof(*memory);

    *(void **)&attribute = driver_symbol("cuPointerGetAttribute");
    *(void **)&attributes = driver_symbol("cuPointerGetAttributes");
    *(void **)&range = driver_symbol("cuMemGetAddressRange_v2");
    CUDA(cudaMallocHost((void **)&memory[3].p, MAPPED));
    CUDA(cudaMallocManaged((void **)&memory[4].p, MAPPED, cudaMemAttachGlobal));
    memory[5].p = device_new(MAPPED);
    for (size_t i = 0; i < total; i++) {
        fprintf(f, "%s{\"query\": \"%s\"", i ? ",\n" : "", queries[i].name);
        for (size_t k = 0; k < kinds; k++)
            fprintf(f, ", \"%s_ns\": %.1f", memory[k].name, query_ns(queries[i].ask, memory[k].p));
        fprintf(f, "}");
    }
}

/*
 * Results.
 */

/* A number of /proc/self/status. */
static long status_of(const char *name)
{
    char line[256];
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
            value = strtol(line + strlen(name) + 1, NULL, 10);
    if (f)
        fclose(f);
    return value;
}

static FILE *open_results(const char *out, bool gpu)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING], date[32];
    time_t now = time(NULL);
    FILE *f = out ? fopen(out, "w") : stdout;
    int length;

    if (!f) {
        perror(out);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Get_library_version(version, &length);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(f, "{\"mpi\": \"%.*s\", \"date\": \"%s\", \"gpu\": %s, \"preloaded\": %s,\n\"cases\": [\n",
            (int)strcspn(version, ",\n\"\\"), version, date, gpu ? "true" : "false",
            program.Send != mpi.Send ? "true" : "false");
    return f;
}

static void run_all(FILE *f, bool gpu, int rounds)
{
    static char data[BYTES * WINDOW];
    char stack[BYTES * WINDOW], *heap = host_new(BYTES * WINDOW), *mapped = host_new(MAPPED);

    measure_memory(f, "data", data, rounds);
    measure_memory(f, "heap", heap, rounds);
    measure_memory(f, "stack", stack, rounds);
    measure_memory(f, "mapped", mapped + MAPPED / 2, rounds);
    if (f)
        fprintf(f, "],\n\"threads\": %ld, \"anonymous_kb\": %ld,\n\"queries\": [\n", status_of("Threads"),
                status_of("RssAnon"));
    if (f && gpu)
        measure_queries(f, heap, mapped, stack);
    if (f)
        fprintf(f, "]}\n");
    free(heap), free(mapped);
}

int main(int argc, char **argv)
{
    const char *out = NULL;
    bool gpu = false;
    int rounds = 400, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--gpu"))
            gpu = true;
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else
            out = argv[i];
    }
    if (rounds < 1 || rounds > ROUNDS_MAX || ranks != 2 || (gpu && !gpu_select(rank))) {
        if (rank == 0)
            fprintf(stderr, "overhead: needs two ranks, at most %d rounds and, with --gpu, a GPU\n", ROUNDS_MAX);
        MPI_Finalize();
        return 1;
    }
    if (gpu)
        CUDA(cudaFree(NULL));
    read_calls(&program, RTLD_DEFAULT), read_calls(&mpi, mpi_library());
    run_all(rank == 0 ? open_results(out, gpu) : NULL, gpu, rounds);
    MPI_Finalize();
    return 0;
}
