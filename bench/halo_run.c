/* halo_run.c: the program around the exchanges: each is checked, timed, and becomes a row. */
#include "halo.h"
#include "together.h"
#include <stdlib.h>
#include <string.h>

#define BUDGET_US 0.5e6
#define SLOW_US 0.5e6        /* an exchange that takes so long is timed once, unwarmed */
#define LEAST 10

/* What the command line asks for. */
struct wish {
    const char *out;
    int n, radius;
    double end_us, warm_us;
};

/* Whether this way can be had here, on every rank. */
static bool begin(struct halo *h, const struct way *w)
{
    bool can = !w->device_buffers || stridec_loaded() || mpi_takes_device();
    bool begun = can && (!w->begin || w->begin(h)), all;

    MPI_Allreduce(&begun, &all, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    if (!all && h->rank == 0)
        fprintf(stderr, "halo: %s is left out: %s\n", w->name,
                can ? w->without : "no device buffers");
    if (begun && !all && w->end)
        w->end(h);
    return all;
}

/* The median of an exchange, and whether its bytes were right, new and warm. */
static double measure(struct halo *h, const struct way *w, double warm_us, bool *ok)
{
    double us = 0;

    *ok = w->apart || halo_check(h, w->exchange, &us);
    if (!w->apart && us >= SLOW_US)
        return together_us(w->exchange, h, 1);
    together_ready(NEIGHBOURS, h->send, h->block);
    together_ready(NEIGHBOURS, h->recv, h->block);
    together_warm(w->exchange, h, warm_us);
    *ok = *ok && (w->apart || halo_check(h, w->exchange, &us));
    return together_us(w->exchange, h, together_calls(w->exchange, h, BUDGET_US, LEAST));
}

static void write_row(FILE *f, const struct halo *h, const struct way *w, size_t leaving_bytes, double us, bool ok)
{
    const char *alone = stridec_loaded() ? "" : ", the MPI alone";
    static bool any;

    fprintf(f, "%s{\"how\": \"%s%s\", \"gpus\": %d, \"ranks\": %d, \"n\": %d, \"radius\": %d, \"ok\": %s, "
            "\"us\": %.2f, \"leaving_bytes\": %zu}", any ? ",\n" : "", w->name, alone, h->gpus, h->ranks, h->n, h->radius,
            ok ? "true" : "false", us, leaving_bytes);
    fprintf(stderr, "halo: %s%s, %d ranks, %d^3: %.1f us%s\n", w->name, alone, h->ranks, h->n, us,
            ok ? "" : ", wrong bytes");
    any = true;
}

/* Returns how many ways moved wrong bytes. */
static int run_all(FILE *f, struct halo *h, const struct way *const *ways, const struct wish *wish)
{
    unsigned long long leaving = h->leaving_bytes;
    int wrong = 0;

    MPI_Allreduce(MPI_IN_PLACE, &leaving, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    for (; *ways; ways++) {
        bool ok;
        double us;

        if (together_past(wish->end_us) || !begin(h, *ways))
            continue;
        us = measure(h, *ways, wish->warm_us, &ok);
        wrong += !ok;
        if (f)
            write_row(f, h, *ways, (*ways)->apart ? 0 : leaving, us, ok);
        if ((*ways)->end)
            (*ways)->end(h);
    }
    return wrong;
}

static struct wish read_arguments(int argc, char **argv, int n)
{
    struct wish wish = { .n = n, .radius = 2, .end_us = 1e300, .warm_us = 1e6 };

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--n") && i + 1 < argc)
            wish.n = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--radius") && i + 1 < argc)
            wish.radius = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--warm") && i + 1 < argc)
            wish.warm_us = 1e6 * strtod(argv[++i], NULL);
        else if (!strcmp(argv[i], "--limit") && i + 1 < argc)
            wish.end_us = now_us() + 1e6 * strtod(argv[++i], NULL);
        else
            wish.out = argv[i];
    }
    return wish;
}

/* Sides of up to 1600 cells: 32-bit indices of cells, and MPI's counts of bytes. */
static bool sensible(const struct wish *wish)
{
    return wish->radius > 0 && wish->n >= wish->radius && wish->radius < 100 && wish->n < 1400;
}

int halo_main(int argc, char **argv, const char *benchmark, int n, const struct way *const *ways)
{
    struct halo h;
    struct wish wish;
    FILE *f = NULL;
    int rank, wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wish = read_arguments(argc, argv, n);
    if (!sensible(&wish) || !gpu_select(rank)) {
        if (rank == 0)
            printf("%s: %s\n", benchmark,
                   sensible(&wish) ? "no GPU found: nothing to measure" : "no such blocks: see the program's comment");
        MPI_Finalize();
        return !sensible(&wish);
    }
    if (rank == 0)
        f = cases_open(wish.out, argc, argv, benchmark);
    halo_new(&h, wish.n, wish.radius);
    wrong = run_all(f, &h, ways, &wish);
    halo_free(&h);
    if (f) {
        fprintf(f, "\n],\n\"peer_GB_s\": %.1f\n}\n", peer_rate() / 1000);
        results_close(f);
    }
    MPI_Finalize();
    return wrong != 0;
}
