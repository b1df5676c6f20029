/* cpu_common.c: see cpu_common.h. */
#include "cpu_common.h"
#include "json.h"
#include "timing.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char *const method_names[WAYS] = { "stridec", "mpi", "hand" };
int (*stridec_ready)(MPI_Datatype, int);

void run_fail(const char *why)
{
    fprintf(stderr, "bench: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/*
 * Memory and times.
 */

void *room(size_t bytes)
{
    void *p = NULL;

    if (posix_memalign(&p, 4096, bytes + 4096))
        run_fail("out of memory");
    memset(p, 1, bytes);
    return p;
}

int way_of(int turn, int i)
{
    return turn / WAYS % 2 ? (turn + WAYS - i) % WAYS : (turn + i) % WAYS;
}

void times_of(double sample[WAYS][TURNS_MAX], int n, struct times t[WAYS])
{
    double ratio[TURNS_MAX];

    for (int way = 0; way < WAYS; way++) {
        for (int i = 0; i < n; i++)
            ratio[i] = sample[way][i] / sample[WAY_PROGRAM][i];
        t[way].ratio = median_of(ratio, n);
    }
    for (int way = 0; way < WAYS; way++)
        t[way].median = median_of(sample[way], n), t[way].least = sample[way][0];
}

void write_times(FILE *f, const char *prefix, const struct times t[WAYS])
{
    for (int way = 0; way < WAYS; way++)
        fprintf(f, ", \"%s%s_us\": %.3f, \"%s%s_least_us\": %.3f, \"%s%s_ratio\": %.3f", prefix, method_names[way],
                t[way].median, prefix, method_names[way], t[way].least, prefix, method_names[way], t[way].ratio);
}

/*
 * The run.
 */

static void read_arguments(struct wish *w, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--count"))
            w->count = true;
        else if (!strcmp(argv[i], "--self"))
            w->form = FORM_SELF;
        else if (!strcmp(argv[i], "--both"))
            w->form = FORM_BOTH;
        else if (!strcmp(argv[i], "--least") && i + 1 < argc)
            w->least = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--most") && i + 1 < argc)
            w->most = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
            w->us = atof(argv[++i]) * 1e3;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            w->only = argv[++i];
        else
            w->out = argv[i];
    }
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

static const char *const forms[] = { [FORM_TRIP] = "trip", [FORM_BOTH] = "both", [FORM_SELF] = "self" };

static void write_head(const struct run *r, int argc, char **argv)
{
    char cpu[200];

    processor(cpu, sizeof cpu);
    fprintf(r->f, "{\"benchmark\": \"%s\",\n\"machine\": {\"cpu\": ", r->benchmark);
    json_string(r->f, cpu);
    fprintf(r->f, "},\n\"versions\": {\"mpi\": ");
    json_mpi(r->f);
    fprintf(r->f, ", \"compiler\": \"%s\"},\n", __VERSION__);
    json_run(r->f, argc, argv);
    if (r->wish.form != FORM_NONE)
        fprintf(r->f, "\"form\": \"%s\",\n", forms[r->wish.form]);
    fprintf(r->f, "\"preloaded\": %s,\n\"cases\": [\n", stridec_ready ? "true" : "false");
}

void run_begin(struct run *r, int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    read_arguments(&r->wish, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank), MPI_Comm_size(MPI_COMM_WORLD, &r->ranks);
    *(void **)&stridec_ready = dlsym(RTLD_DEFAULT, "stridec_host_ready");
    r->f = r->rank == 0 && r->wish.out ? fopen(r->wish.out, "w") : stdout;
    if (!r->f)
        run_fail("the results can't be written");
    if (r->rank == 0 && !r->wish.count)
        write_head(r, argc, argv);
}

void run_kernels(struct run *r, bool (*one)(FILE *f, struct cpu_kernel *k, bool first))
{
    for (size_t i = 0; i < cpu_kernel_total(); i++)
        for (size_t bytes = r->wish.least; bytes <= r->wish.most; bytes *= 4) {
            struct cpu_kernel k = cpu_kernel_make(i, bytes);

            if (!r->wish.only || strstr(k.name, r->wish.only))
                r->wrong += !one(r->f, &k, r->done++ == 0);
            cpu_kernel_free(&k);
        }
}

int run_end(struct run *r)
{
    double load;   /* the processes that wanted to run in the last minute, on average */

    if (r->rank == 0 && !r->wish.count)
        fprintf(r->f, "\n],\n\"busy\": %.1f}\n", getloadavg(&load, 1) == 1 ? load : 0);
    if (r->rank == 0)
        fprintf(stderr, "%s: %d cases, %d wrong\n", r->benchmark, r->done, r->wrong);
    if (r->f != stdout)
        fclose(r->f);
    MPI_Finalize();
    return r->wrong != 0;
}
