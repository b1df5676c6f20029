/* cpu_pingpong.c: messages between two ranks of one node, from host memory to host memory: as the program sends them
 * (by stridec where it is preloaded), by the MPI's own library, and packed, sent and unpacked by hand-written loops.
 *
 * usage: mpirun -n 2 stridec run -- cpu_pingpong [--least BYTES] [--most BYTES] [--ms MS] [--only NAME] [RESULTS.json]
 *
 * Every kernel of cpu_kernels.h at sizes from 1 KiB to 16 MiB by powers of 4, its type at both ends. Times are of half
 * a round trip. The ways take turns of some round trips each, so that they share the machine's mood; told are the
 * median and the least of the turns. All bytes are compared first. */
#include "cpu_kernels.h"
#include "timing.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAYS = 3, TURNS_MIN = 9, TURNS_MAX = 400, WARM = 24, TAG = 3 };
static const char *const way_names[WAYS] = { "stridec", "mpi", "hand" };
static const double TURN_US = 100;

static struct {
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    int (*recv)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
    int (*pack)(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
    int (*ready)(MPI_Datatype, int);   /* NULL: stridec is not preloaded */
} mpi;

struct work {
    struct cpu_kernel *k;
    char *user, *packed, *other;
};

static struct {
    size_t least, most;
    double us;
    const char *only, *out;
} wish = { 1 << 10, 16 << 20, 30e3, NULL, NULL };
static int rank;

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
        fprintf(stderr, "cpu_pingpong: no library of the MPI is loaded\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    *(void **)&mpi.send = dlsym(library, "PMPI_Send");
    *(void **)&mpi.recv = dlsym(library, "PMPI_Recv");
    *(void **)&mpi.pack = dlsym(library, "PMPI_Pack");
    *(void **)&mpi.ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
}

static void send(const struct work *w, int way)
{
    if (way == 2) {
        w->k->hand(w->k, false, w->packed, w->user);
        mpi.send(w->packed, (int)w->k->packed_bytes, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD);
    } else {
        (way ? mpi.send : MPI_Send)(w->user, 1, w->k->type, !rank, TAG, MPI_COMM_WORLD);
    }
}

static void receive(const struct work *w, int way)
{
    if (way == 2) {
        mpi.recv(w->packed, (int)w->k->packed_bytes, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        w->k->hand(w->k, true, w->packed, w->user);
    } else {
        (way ? mpi.recv : MPI_Recv)(w->user, 1, w->k->type, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void bounce(const struct work *w, int way, int trips)
{
    for (int i = 0; i < trips; i++) {
        if (rank == 0) send(w, way), receive(w, way);
        else receive(w, way), send(w, way);
    }
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

/* Both ends see what the other one had: what is there after a trip is packed by the MPI and compared. */
static bool same_bytes(const struct work *w, int way)
{
    int position = 0, room = (int)w->k->packed_bytes;
    bool same = true;

    for (int from = 0; from < 2; from++) {
        fill(w->user, w->k->span_bytes, 7u + (unsigned)from);
        position = 0;
        mpi.pack(w->user, 1, w->k->type, w->other, room, &position, MPI_COMM_SELF);
        if (rank == from) {
            send(w, way);
            continue;
        }
        fill(w->user, w->k->span_bytes, 99);
        receive(w, way);
        position = 0;
        mpi.pack(w->user, 1, w->k->type, w->packed, room, &position, MPI_COMM_SELF);
        same = !memcmp(w->packed, w->other, w->k->packed_bytes);
    }
    return same;
}

/* Trips enough that stridec knows the type. */
static void warm(const struct work *w)
{
    bounce(w, 0, WARM);
    if (mpi.ready)
        mpi.ready(w->k->type, 1);
    bounce(w, 0, WARM);
}

struct times {
    double median, least;
};

static double turn(const struct work *w, int way, int trips)
{
    PMPI_Barrier(MPI_COMM_WORLD);
    double start = now_us();
    bounce(w, way, trips);
    return (now_us() - start) / trips / 2;
}

static void measure(const struct work *w, struct times t[WAYS])
{
    static double sample[WAYS][TURNS_MAX];
    double each = turn(w, 1, 2) * 2;
    int plan[2] = { 1 + (int)(TURN_US / each), 0 };

    plan[1] = (int)(wish.us / (plan[0] * each) / WAYS * 1.5);
    plan[1] = plan[1] < TURNS_MIN ? TURNS_MIN : plan[1] > TURNS_MAX ? TURNS_MAX : plan[1];
    PMPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
    for (int n = 0; n < plan[1]; n++)
        for (int i = 0; i < WAYS; i++) {
            int way = (n + i) % WAYS;

            bounce(w, way, 1);
            sample[way][n] = turn(w, way, plan[0]);
        }
    for (int way = 0; way < WAYS; way++)
        t[way].median = median_of(sample[way], plan[1]), t[way].least = sample[way][0];
}

static void *room(size_t bytes)
{
    void *p = NULL;

    if (posix_memalign(&p, 4096, bytes + 4096)) {
        fprintf(stderr, "cpu_pingpong: out of memory (%zu bytes)\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(p, 1, bytes);
    return p;
}

/* One row; false where bytes were wrong. */
static bool one(FILE *f, struct cpu_kernel *k, bool first)
{
    struct work w = { k, room(k->span_bytes), room(k->packed_bytes), room(k->packed_bytes) };
    struct times t[WAYS];
    int ok = 1, all;

    warm(&w);
    for (int way = 0; way < WAYS; way++)
        ok = same_bytes(&w, way) && ok;
    PMPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    measure(&w, t);
    free(w.user), free(w.packed), free(w.other);
    if (rank)
        return all;
    fprintf(f, "%s{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s", first ? "" : ",\n", k->name, k->packed_bytes,
            all ? "true" : "false");
    for (int way = 0; way < WAYS; way++)
        fprintf(f, ", \"%s_us\": %.3f, \"%s_least_us\": %.3f", way_names[way], t[way].median, way_names[way],
                t[way].least);
    fputs("}", f);
    fflush(f);
    fprintf(stderr, "%-15s %9zu B  %10.2f (MPI %10.2f, hand %10.2f)  least %10.2f %10.2f %10.2f  ratio %.2f%s\n", k->name,
            k->packed_bytes, t[0].median, t[1].median, t[2].median, t[0].least, t[1].least, t[2].least,
            t[1].least / t[0].least, all ? "" : " WRONG BYTES");
    return all;
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

static void processor(char *name, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");

    snprintf(name, size, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(name, size, "%s", strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
}

static void head(FILE *f, int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING], command[512] = "cpu_pingpong", cpu[200], date[32];
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
    fprintf(f, "{\"benchmark\": \"cpu-pingpong\",\n\"machine\": {");
    json_string(f, "cpu", cpu);
    fprintf(f, "},\n\"versions\": {");
    json_string(f, "mpi", version);
    fprintf(f, ", \"compiler\": \"%s\"},\n\"date\": \"%s\",\n", __VERSION__, date);
    json_string(f, "command", command);
    fprintf(f, ",\n\"preloaded\": %s,\n\"cases\": [\n", mpi.ready ? "true" : "false");
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--least") && i + 1 < argc)
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
    int done = 0, wrong = 0, ranks;
    double load[1] = { 0 };
    FILE *f = stdout;

    MPI_Init(&argc, &argv);
    read_arguments(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    find_calls();
    if (rank == 0 && wish.out)
        f = fopen(wish.out, "w");
    if (!f || ranks != 2) {
        fprintf(stderr, "cpu_pingpong: %s\n", f ? "wants two ranks" : "the results can't be written");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        head(f, argc, argv);
    for (size_t i = 0; i < cpu_kernel_total(); i++)
        for (size_t bytes = wish.least; bytes <= wish.most; bytes *= 4) {
            struct cpu_kernel k = cpu_kernel_make(i, bytes);

            if (!wish.only || strstr(k.name, wish.only))
                wrong += !one(f, &k, done++ == 0);
            cpu_kernel_free(&k);
        }
    if (rank == 0) {
        fprintf(f, "\n],\n\"busy\": %.1f}\n", getloadavg(load, 1) == 1 ? load[0] : 0);
        fprintf(stderr, "cpu_pingpong: %d cases, %d wrong\n", done, wrong);
    }
    if (f != stdout)
        fclose(f);
    MPI_Finalize();
    return wrong != 0;
}
