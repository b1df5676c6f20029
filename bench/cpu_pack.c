/* cpu_pack.c: MPI_Pack and MPI_Unpack in host memory: as the program gets them (by stridec where it is preloaded),
 * by the MPI's own library, and by hand-written loops. One rank.
 *
 * usage: stridec run -- cpu_pack [--least BYTES] [--most BYTES] [--ms MS] [--only NAME] [--count] [RESULTS.json]
 *
 * Every kernel of cpu_kernels.h at sizes from 1 KiB to 16 MiB by powers of 4. The ways take turns of some calls
 * each, so that they share the machine's mood; times are the median and the least of the turns. All bytes are
 * compared first. --count runs each way once between marks for callgrind (bench/cpu.sh), and times nothing; calls that
 * are left to the MPI are counted too. */
#include "cpu_kernels.h"
#include "timing.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION (void)0
#define CALLGRIND_STOP_INSTRUMENTATION (void)0
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

enum { WAYS = 3, TURNS_MIN = 9, TURNS_MAX = 400, WARM = 80, WARM_BYTES = 4 << 20 };
static const char *const way_names[WAYS] = { "stridec", "mpi", "hand" };
static const double TURN_US = 40;

typedef int pack_function(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
typedef int unpack_function(const void *, int, int *, void *, int, MPI_Datatype, MPI_Comm);

static struct {
    pack_function *pack;
    unpack_function *unpack;
    int (*ready)(MPI_Datatype, int);
    long (*served)(MPI_Datatype);
} mpi;

struct work {
    struct cpu_kernel *k;
    char *user, *packed, *other;   /* other: as large as the larger one */
};

static struct {
    size_t least, most;
    double us;
    const char *only, *out;
    bool count;
} wish = { 1 << 10, 16 << 20, 12e3, NULL, NULL, false };

static int find_mpi(struct dl_phdr_info *info, size_t size, void *library)
{
    const char *name = strrchr(info->dlpi_name, '/');

    (void)size;
    if (!name || (strncmp(name, "/libmpi.so", 10) != 0 && strncmp(name, "/libmpich.so", 12) != 0))
        return 0;
    snprintf(library, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

static void find_calls(void)
{
    char name[PATH_MAX] = "";
    void *library = NULL;

    if (dl_iterate_phdr(find_mpi, name))
        library = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
    if (!library) {
        fprintf(stderr, "cpu_pack: no library of the MPI is loaded\n");
        exit(1);
    }
    *(void **)&mpi.pack = dlsym(library, "PMPI_Pack");
    *(void **)&mpi.unpack = dlsym(library, "PMPI_Unpack");
    *(void **)&mpi.ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    *(void **)&mpi.served = dlsym(RTLD_DEFAULT, "stridec_host_served");
}

static void run(const struct work *w, int way, bool unpack)
{
    int position = 0, bytes = (int)w->k->packed_bytes;

    if (way == 2)
        w->k->hand(w->k, unpack, w->packed, w->user);
    else if (unpack)
        (way ? mpi.unpack : MPI_Unpack)(w->packed, bytes, &position, w->user, 1, w->k->type, MPI_COMM_SELF);
    else
        (way ? mpi.pack : MPI_Pack)(w->user, 1, w->k->type, w->packed, bytes, &position, MPI_COMM_SELF);
}

static void fill(char *p, size_t bytes, unsigned seed)
{
    unsigned long long z = seed;

    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            z = z * 6364136223846793005u + 1442695040888963407u;
        p[i] = (char)(z >> (24 + i % 8));
    }
}

/* Both directions of a way against the MPI's own. */
static bool same_bytes(const struct work *w, int way)
{
    size_t packed = w->k->packed_bytes, span = w->k->span_bytes;
    bool same;

    fill(w->user, span, 1), fill(w->packed, packed, 2);
    run(w, 1, false);
    memcpy(w->other, w->packed, packed);
    fill(w->packed, packed, 3);
    run(w, way, false);
    same = !memcmp(w->packed, w->other, packed);
    fill(w->packed, packed, 4), fill(w->user, span, 5);
    run(w, 1, true);
    memcpy(w->other, w->user, span);
    fill(w->user, span, 5);
    run(w, way, true);
    return same && !memcmp(w->user, w->other, span);
}

/* Calls enough that stridec knows the type and has chosen. */
static void warm(const struct work *w)
{
    int calls = WARM + WARM_BYTES / (int)w->k->packed_bytes;

    for (int i = 0; i < calls; i++) {
        run(w, 0, i & 1);
        if (i == calls / 2 && mpi.ready)
            mpi.ready(w->k->type, 1);
    }
}

struct times {
    double median, least;
};

static void measure(const struct work *w, bool unpack, struct times t[WAYS])
{
    static double sample[WAYS][TURNS_MAX];
    double end, start = now_us();
    int calls, n = 0;

    run(w, 1, unpack);
    calls = 1 + (int)(TURN_US / (now_us() - start + 0.05));
    for (end = now_us() + wish.us; n < TURNS_MAX && (n < TURNS_MIN || now_us() < end); n++)
        for (int i = 0; i < WAYS; i++) {
            int way = (n + i) % WAYS;

            start = now_us();
            for (int c = 0; c < calls; c++)
                run(w, way, unpack);
            sample[way][n] = (now_us() - start) / calls;
        }
    for (int way = 0; way < WAYS; way++)
        t[way].median = median_of(sample[way], n), t[way].least = sample[way][0];
}

static void count(const struct work *w)
{
    char name[128];

    for (int unpack = 0; unpack < 2; unpack++)
        for (int way = 0; way < WAYS; way++) {
            run(w, way, unpack);
            snprintf(name, sizeof name, "%s|%zu|%s|%s", w->k->name, w->k->packed_bytes, unpack ? "unpack" : "pack",
                     way_names[way]);
            CALLGRIND_START_INSTRUMENTATION;
            CALLGRIND_ZERO_STATS;
            run(w, way, unpack);
            CALLGRIND_DUMP_STATS_AT(name);
            CALLGRIND_STOP_INSTRUMENTATION;
        }
}

static void write_row(FILE *f, const struct work *w, bool ok)
{
    struct times t[2][WAYS];
    long before, after;

    measure(w, false, t[0]);
    measure(w, true, t[1]);
    before = mpi.served ? mpi.served(w->k->type) : 0;
    run(w, 0, false), run(w, 0, true);
    after = mpi.served ? mpi.served(w->k->type) : 0;
    fprintf(f, "{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s, \"served\": %ld", w->k->name, w->k->packed_bytes,
            ok ? "true" : "false", after - before);
    for (int unpack = 0; unpack < 2; unpack++)
        for (int way = 0; way < WAYS; way++)
            fprintf(f, ", \"%s_%s_us\": %.3f, \"%s_%s_least_us\": %.3f", unpack ? "unpack" : "pack", way_names[way],
                    t[unpack][way].median, unpack ? "unpack" : "pack", way_names[way], t[unpack][way].least);
    fputs("}", f);
    fprintf(stderr, "%-15s %9zu B  pack %10.2f (MPI %10.2f, hand %10.2f)  unpack %10.2f (MPI %10.2f, hand %10.2f)%s\n",
            w->k->name, w->k->packed_bytes, t[0][0].median, t[0][1].median, t[0][2].median, t[1][0].median,
            t[1][1].median, t[1][2].median, ok ? "" : " WRONG BYTES");
}

static void *room(size_t bytes)
{
    void *p = NULL;

    if (posix_memalign(&p, 4096, bytes + 4096)) {
        fprintf(stderr, "cpu_pack: out of memory (%zu bytes)\n", bytes);
        exit(1);
    }
    memset(p, 1, bytes);
    return p;
}

/* One row; false where bytes were wrong. */
static bool one(FILE *f, struct cpu_kernel *k, bool first)
{
    size_t more = k->span_bytes > k->packed_bytes ? k->span_bytes : k->packed_bytes;
    struct work w = { k, room(k->span_bytes), room(k->packed_bytes), room(more) };
    bool ok = true;

    warm(&w);
    for (int way = 0; way < WAYS; way++)
        ok = same_bytes(&w, way) && ok;
    if (wish.count) {
        count(&w);
    } else {
        fputs(first ? "" : ",\n", f);
        write_row(f, &w, ok);
        fflush(f);
    }
    free(w.user), free(w.packed), free(w.other);
    return ok;
}

/* text as a JSON string, up to its first line's end. */
static void json_string(FILE *f, const char *name, const char *text)
{
    fprintf(f, "\"%s\": \"", name);
    for (; *text && *text != '\n'; text++)
        if (*text != '"' && *text != '\\' && (unsigned char)*text >= ' ')
            putc(*text, f);
    putc('"', f);
}

static void processor(char *name, size_t room)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");

    snprintf(name, room, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(name, room, "%s", strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
}

static void head(FILE *f, int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING], command[512] = "cpu_pack", cpu[200], date[32];
    time_t now = time(NULL);
    int length;

    for (int i = 1; i < argc; i++) {
        size_t used = strlen(command);
        snprintf(command + used, sizeof command - used, " %s", argv[i]);
    }
    processor(cpu, sizeof cpu);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(f, "{\"benchmark\": \"cpu-pack\",\n\"machine\": {");
    json_string(f, "cpu", cpu);
    fprintf(f, "},\n\"versions\": {");
    json_string(f, "mpi", version);
    fprintf(f, ", \"compiler\": \"%s\"},\n\"date\": \"%s\",\n", __VERSION__, date);
    json_string(f, "command", command);
    fprintf(f, ",\n\"preloaded\": %s,\n\"cases\": [\n", mpi.ready ? "true" : "false");
}

/* The processes that wanted to run in the last minute, on average. */
static double busy(void)
{
    double load[1];

    return getloadavg(load, 1) == 1 ? load[0] : 0;
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--count"))
            wish.count = true;
        else if (!strcmp(argv[i], "--least") && i + 1 < argc)
            wish.least = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--most") && i + 1 < argc)
            wish.most = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
            wish.us = atof(argv[++i]) * 1e3;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            wish.only = argv[++i];
        else
            wish.out = argv[i];
    }
}

int main(int argc, char **argv)
{
    int done = 0, wrong = 0;
    FILE *f;

    MPI_Init(&argc, &argv);
    read_arguments(argc, argv);
    find_calls();
    f = wish.out ? fopen(wish.out, "w") : stdout;
    if (!f) {
        perror(wish.out);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (!wish.count)
        head(f, argc, argv);
    for (size_t i = 0; i < cpu_kernel_total(); i++)
        for (size_t bytes = wish.least; bytes <= wish.most; bytes *= 4) {
            struct cpu_kernel k = cpu_kernel_make(i, bytes);

            if (!wish.only || strstr(k.name, wish.only))
                wrong += !one(f, &k, done++ == 0);
            cpu_kernel_free(&k);
        }
    for (size_t i = 0; wish.count && !wish.only && i < cpu_down_total(); i++) {
        struct cpu_kernel k = cpu_down_make(i);

        wrong += !one(f, &k, false);
        cpu_kernel_free(&k);
    }
    if (!wish.count)
        fprintf(f, "\n],\n\"busy\": %.1f}\n", busy());
    if (f != stdout)
        fclose(f);
    fprintf(stderr, "cpu_pack: %d cases, %d wrong\n", done, wrong);
    MPI_Finalize();
    return wrong != 0;
}
