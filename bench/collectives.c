/* collectives.c: collective calls of derived types on device memory, beside the same calls of contiguous bytes.
 *
 * usage: mpirun -n RANKS [stridec run --] collectives [--n 512] [--warm SECONDS] [--limit SECONDS] [OUT.json]
 *
 * Transposes of n^3 double complex from slabs to pencils (MPI_Alltoallw of subarrays; n: a multiple of the ranks), and
 * Allgatherv, Gatherv, Scatterv and Bcast of rows of 256 bytes, 512 apart, 4 MiB and more a rank. Every byte is
 * compared with what the MPI below stridec moves in host memory. Without stridec only contiguous calls are timed, where
 * the MPI is CUDA-aware. No case is begun when --limit has passed. */
#include "collectives.h"
#include "common.h"
#include "together.h"
#include <stdlib.h>
#include <string.h>

#define BUDGET_US 0.5e6
#define LEAST 5
#define GAP 0xa5            /* what lies between what comes */

struct run {
    const struct collective *what;
    struct exchange e;
    void *in, *out;          /* device memory */
};

static void by_types(void *run)
{
    struct run *r = run;

    r->what->call(&r->e, r->in, r->out, false);
}

static void contiguous(void *run)
{
    struct run *r = run;

    r->what->contiguous(&r->e, r->in, r->out);
}

/* Fills the device buffers, makes the call there and, by the MPI alone, in host memory, and compares, on all ranks. */
static bool check(struct run *r)
{
    char *in = host_new(r->e.in_bytes), *out = host_new(r->e.out_bytes);
    bool same, all;

    random_bytes(in, r->e.in_bytes, (uint64_t)r->e.rank + 1);
    memset(out, GAP, r->e.out_bytes);
    device_write(r->in, in, r->e.in_bytes);
    device_set(r->out, GAP, r->e.out_bytes);
    same = r->what->call(&r->e, in, out, true) == MPI_SUCCESS;
    same = r->what->call(&r->e, r->in, r->out, false) == MPI_SUCCESS && same;
    same = device_equals(r->out, out, r->e.out_bytes) && same;
    MPI_Allreduce(&same, &all, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    free(in);
    free(out);
    return all;
}

static void ready(const struct run *r)
{
    MPI_Datatype types[2 * RANKS_MAX];
    int n = 0;

    for (int i = 0; i < RANKS_MAX; i++) {
        if (r->e.send[i] != MPI_DATATYPE_NULL)
            types[n++] = r->e.send[i];
        if (r->e.recv[i] != MPI_DATATYPE_NULL)
            types[n++] = r->e.recv[i];
    }
    together_ready(n, types, r->in);
}

static double timed(struct run *r, void (*run)(void *), double warm_us)
{
    together_warm(run, r, warm_us);
    return together_us(run, r, together_calls(run, r, BUDGET_US, LEAST));
}

/* Times one case and writes its row. Returns false where bytes were wrong. */
static bool measure(FILE *f, const struct collective *what, int n, double warm_us)
{
    struct run r = { .what = what, .e = { .n = n } };
    unsigned long long leaving;
    double us = 0, contiguous_us;
    bool ok = true;
    static bool any;

    MPI_Comm_rank(MPI_COMM_WORLD, &r.e.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.e.ranks);
    for (int i = 0; i < RANKS_MAX; i++)
        r.e.send[i] = r.e.recv[i] = MPI_DATATYPE_NULL;
    what->make(&r.e);
    r.in = device_new(r.e.in_bytes);
    r.out = device_new(r.e.out_bytes);
    if (stridec_loaded()) {
        ok = check(&r);
        ready(&r);
        us = timed(&r, by_types, warm_us);
        ok = check(&r) && ok;
    }
    contiguous_us = timed(&r, contiguous, warm_us);
    leaving = r.e.leaving_bytes;
    MPI_Allreduce(MPI_IN_PLACE, &leaving, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (f) {
        fprintf(f, "%s{\"how\": \"%s%s\", \"gpus\": %d, \"ranks\": %d, \"n\": %d, \"ok\": %s, \"us\": %.2f, "
                "\"contiguous_us\": %.2f, \"leaving_bytes\": %llu}", any ? ",\n" : "", what->name,
                stridec_loaded() ? "" : ", the MPI alone", gpus_used(r.e.ranks), r.e.ranks, n,
                ok ? "true" : "false", us, contiguous_us, leaving);
        fprintf(stderr, "collectives: %s, %d ranks: %.1f us, contiguous %.1f%s\n", what->name, r.e.ranks, us,
                contiguous_us, ok ? "" : ", wrong bytes");
        any = true;
    }
    CUDA(cudaFree(r.in));
    CUDA(cudaFree(r.out));
    exchange_free(&r.e);
    return ok;
}

int main(int argc, char **argv)
{
    const char *out = NULL;
    double end_us = 1e300, warm_us = 1e6;
    int rank, ranks, n = 512, wrong = 0;
    bool can;
    FILE *f = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--n") && i + 1 < argc)
            n = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--warm") && i + 1 < argc)
            warm_us = 1e6 * strtod(argv[++i], NULL);
        else if (!strcmp(argv[i], "--limit") && i + 1 < argc)
            end_us = now_us() + 1e6 * strtod(argv[++i], NULL);
        else
            out = argv[i];
    }
    can = n > 0 && n % ranks == 0 && ranks <= RANKS_MAX;
    if (!can || !gpu_select(rank) || !(stridec_loaded() || mpi_takes_device())) {
        if (rank == 0)
            printf("collectives: %s: nothing to measure\n",
                   can ? "no GPU found, or an MPI that takes no device memory" : "no such array");
        MPI_Finalize();
        return !can;
    }
    if (rank == 0)
        f = cases_open(out, argc, argv, "collectives");
    for (const struct collective *c = collectives; c->name && !together_past(end_us); c++)
        wrong += !measure(f, c, n, warm_us);
    if (f) {
        fprintf(f, "\n],\n\"peer_GB_s\": %.1f\n}\n", peer_rate() / 1000);
        results_close(f);
    }
    MPI_Finalize();
    return wrong != 0;
}
