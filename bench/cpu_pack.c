/* cpu_pack.c: MPI_Pack and MPI_Unpack in host memory: as the program gets them (by stridec where it is preloaded),
 * by the MPI's own library, and by hand-written loops. One rank.
 *
 * usage: stridec run -- cpu_pack [--least BYTES] [--most BYTES] [--ms MS] [--only NAME] [--count] [RESULTS.json]
 *
 * Every kernel of cpu_kernels.h at sizes from 1 KiB to 16 MiB by powers of 4. The ways take turns of some calls
 * each, so that they share the machine's mood; times are the median and the least of the turns, ratios the median of
 * those within each turn. All bytes are compared first. --count runs each way once between marks for callgrind
 * (bench/cpu.sh), and times nothing; calls that are left to the MPI are counted too. */
#include "cpu_common.h"
#include "library.h"
#include "timing.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION (void)0
#define CALLGRIND_STOP_INSTRUMENTATION (void)0
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

enum { WARM = 80, WARM_BYTES = 4 << 20 };
static const double TURN_US = 40;

typedef int pack_function(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
typedef int unpack_function(const void *, int, int *, void *, int, MPI_Datatype, MPI_Comm);

static struct {
    pack_function *pack;
    unpack_function *unpack;
    long (*served)(MPI_Datatype);
} mpi;

struct work {
    struct cpu_kernel *k;
    char *user, *packed, *other;   /* other: as large as the larger one */
};

static struct run run = { .benchmark = "cpu-pack", .wish = { .least = 1 << 10, .most = 16 << 20, .us = 12e3 } };

static void find_calls(void)
{
    void *library = mpi_library();

    *(void **)&mpi.pack = dlsym(library, "PMPI_Pack");
    *(void **)&mpi.unpack = dlsym(library, "PMPI_Unpack");
    *(void **)&mpi.served = dlsym(RTLD_DEFAULT, "stridec_host_served");
}

static void call(const struct work *w, int way, bool unpack)
{
    int position = 0, bytes = (int)w->k->packed_bytes;

    if (way == WAY_HAND)
        w->k->hand(w->k, unpack, w->packed, w->user);
    else if (unpack)
        (way == WAY_MPI ? mpi.unpack : MPI_Unpack)(w->packed, bytes, &position, w->user, 1, w->k->type, MPI_COMM_SELF);
    else
        (way == WAY_MPI ? mpi.pack : MPI_Pack)(w->user, 1, w->k->type, w->packed, bytes, &position, MPI_COMM_SELF);
}

/* Both directions of a way against the MPI's own. */
static bool same_bytes(const struct work *w, int way)
{
    size_t packed = w->k->packed_bytes, span = w->k->span_bytes;
    bool same;

    random_bytes(w->user, span, 1), random_bytes(w->packed, packed, 2);
    call(w, WAY_MPI, false);
    memcpy(w->other, w->packed, packed);
    random_bytes(w->packed, packed, 3);
    call(w, way, false);
    same = !memcmp(w->packed, w->other, packed);
    random_bytes(w->packed, packed, 4), random_bytes(w->user, span, 5);
    call(w, WAY_MPI, true);
    memcpy(w->other, w->user, span);
    random_bytes(w->user, span, 5);
    call(w, way, true);
    return same && !memcmp(w->user, w->other, span);
}

/* Calls enough that stridec knows the type and has chosen. */
static void warm(const struct work *w)
{
    int calls = WARM + WARM_BYTES / (int)w->k->packed_bytes;

    for (int i = 0; i < calls; i++) {
        call(w, WAY_PROGRAM, i & 1);
        if (i == calls / 2 && stridec_ready)
            stridec_ready(w->k->type, 1);
    }
}

static void measure(const struct work *w, bool unpack, struct times t[WAYS])
{
    static double sample[WAYS][TURNS_MAX];
    double end, start = now_us();
    int calls, n = 0;

    call(w, WAY_MPI, unpack);
    calls = 1 + (int)(TURN_US / (now_us() - start + 0.05));
    for (end = now_us() + run.wish.us; n < TURNS_MAX && (n < TURNS_MIN || now_us() < end); n++)
        for (int i = 0; i < WAYS; i++) {
            int way = way_of(n, i);

            start = now_us();
            for (int c = 0; c < calls; c++)
                call(w, way, unpack);
            sample[way][n] = (now_us() - start) / calls;
        }
    times_of(sample, n, t);
}

static void count(const struct work *w)
{
    char name[128];

    for (int unpack = 0; unpack < 2; unpack++)
        for (int way = 0; way < WAYS; way++) {
            call(w, way, unpack);
            snprintf(name, sizeof name, "%s|%zu|%s|%s", w->k->name, w->k->packed_bytes, unpack ? "unpack" : "pack",
                     method_names[way]);
            CALLGRIND_START_INSTRUMENTATION;
            CALLGRIND_ZERO_STATS;
            call(w, way, unpack);
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
    call(w, WAY_PROGRAM, false), call(w, WAY_PROGRAM, true);
    after = mpi.served ? mpi.served(w->k->type) : 0;
    fprintf(f, "{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s, \"served\": %ld", w->k->name, w->k->packed_bytes,
            ok ? "true" : "false", after - before);
    write_times(f, "pack_", t[0]), write_times(f, "unpack_", t[1]);
    fputs("}", f);
    fprintf(stderr, "%-15s %9zu B  pack %10.2f (MPI %10.2f, hand %10.2f)  unpack %10.2f (MPI %10.2f, hand %10.2f)%s\n",
            w->k->name, w->k->packed_bytes, t[0][0].median, t[0][1].median, t[0][2].median, t[1][0].median,
            t[1][1].median, t[1][2].median, ok ? "" : " WRONG BYTES");
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
    if (run.wish.count) {
        count(&w);
    } else {
        fputs(first ? "" : ",\n", f);
        write_row(f, &w, ok);
        fflush(f);
    }
    free(w.user), free(w.packed), free(w.other);
    return ok;
}

int main(int argc, char **argv)
{
    run_begin(&run, argc, argv);
    find_calls();
    run_kernels(&run, one);
    for (size_t i = 0; run.wish.count && !run.wish.only && i < cpu_down_total(); i++) {
        struct cpu_kernel k = cpu_down_make(i);

        run.wrong += !one(run.f, &k, false);
        cpu_kernel_free(&k);
    }
    return run_end(&run);
}
