/* pingpong.c: half the round trip of MPI_Send and MPI_Recv between two ranks' GPU memory, layout by layout.
 *
 * usage: mpirun -n 2 stridec run -- pingpong [--check] [--span BYTES] [OUT.json]
 *
 * Before a layout is timed, what arrives is compared with what the MPI makes of the same bytes in host memory,
 * gaps included. Beside each layout: the contiguous message of the same bytes. Exit status 1 where a byte was
 * wrong. STRIDEC_TRANSPORT, where set, is noted in the results. */
#include "common.h"
#include "layouts.h"
#include <stdlib.h>
#include <string.h>

#define WARM_US 0.5e6
#define BUDGET_US 0.4e6
#define TAG 7

struct side {
    int rank;
    struct layout *l;
    char *user, *packed;      /* device: span_bytes, packed_bytes */
};

static void trip(const struct side *s, void *buffer, int count, MPI_Datatype type)
{
    int other = 1 - s->rank;

    if (s->rank == 0) {
        MPI_Send(buffer, count, type, other, TAG, MPI_COMM_WORLD);
        MPI_Recv(buffer, count, type, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffer, count, type, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, count, type, other, TAG, MPI_COMM_WORLD);
    }
}

static void derived(void *arg)
{
    struct side *s = arg;

    trip(s, s->user, s->l->count, s->l->type);
}

static void contiguous(void *arg)
{
    struct side *s = arg;

    trip(s, s->packed, (int)s->l->packed_bytes, MPI_BYTE);
}

/* The number of trips that fill `us`, the same on both ranks. */
static int trips_for(struct side *s, void (*run)(void *), double us)
{
    double t = now_us();
    int trips;

    run(s);
    trips = (int)(us / (now_us() - t + 1));
    trips = trips < 20 ? 20 : trips > 1000 ? 1000 : trips;
    MPI_Bcast(&trips, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return trips;
}

/* Batches of trips until WARM_US have passed on rank 0. */
static void warm(struct side *s, void (*run)(void *))
{
    double end = now_us() + WARM_US;
    int more = 1;

    while (more) {
        for (int i = 0; i < 10; i++)
            run(s);
        more = now_us() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

static double half_us(struct side *s, void (*run)(void *))
{
    warm(s, run);
    return median_us(run, s, 0, trips_for(s, run, BUDGET_US)) / 2;
}

/* What rank 1's buffer, random bytes of seed + 1, must hold once rank 0's, of `seed`, has arrived. */
static char *expected(const struct layout *l, uint64_t seed)
{
    char *host = host_new(l->span_bytes), *packed = host_new(l->packed_bytes);
    int position = 0;

    random_bytes(host, l->span_bytes, seed);
    MPI_Pack(host, l->count, l->type, packed, (int)l->packed_bytes, &position, MPI_COMM_WORLD);
    random_bytes(host, l->span_bytes, seed + 1);
    position = 0;
    MPI_Unpack(packed, (int)l->packed_bytes, &position, host, l->count, l->type, MPI_COMM_WORLD);
    free(packed);
    return host;
}

static bool check(struct side *s, uint64_t seed)
{
    char *host = host_new(s->l->span_bytes);
    bool right = true;

    random_bytes(host, s->l->span_bytes, seed + (uint64_t)s->rank);
    device_write(s->user, host, s->l->span_bytes);
    free(host);
    if (s->rank == 0) {
        MPI_Send(s->user, s->l->count, s->l->type, 1, TAG, MPI_COMM_WORLD);
    } else {
        MPI_Recv(s->user, s->l->count, s->l->type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        host = expected(s->l, seed);
        right = device_equals(s->user, host, s->l->span_bytes);
        free(host);
        if (!right)
            fprintf(stderr, "pingpong: %s: wrong bytes arrived\n", s->l->name);
    }
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    return right;
}

/* Measures one layout; rank 0 writes its row where f is not NULL. Returns whether all bytes were right. */
static bool measure(FILE *f, struct side *s, uint64_t seed, bool check_only, bool first)
{
    bool ok = check(s, seed);
    double derived_us, contiguous_us;

    if (check_only)
        return ok;
    warm(s, derived);
    ok = check(s, seed + 2) && ok;
    derived_us = half_us(s, derived);
    contiguous_us = half_us(s, contiguous);
    if (s->rank == 0) {
        fprintf(f, "%s{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s, \"half_us\": %.2f, \"contiguous_us\": %.2f}",
                first ? "" : ",\n", s->l->name, s->l->packed_bytes, ok ? "true" : "false", derived_us, contiguous_us);
        fprintf(stderr, "pingpong: %-24s %10.1f us, contiguous %10.1f us\n", s->l->name, derived_us, contiguous_us);
    }
    return ok;
}

static int run_all(FILE *f, int rank, size_t span_max, bool check_only)
{
    int wrong = 0, done = 0;

    for (size_t i = 0; i < layout_total(LAYOUTS_PINGPONG); i++) {
        struct layout l = layout_make(LAYOUTS_PINGPONG, i);
        struct side s = { .rank = rank, .l = &l };

        if (l.span_bytes <= span_max) {
            s.user = device_new(l.span_bytes);
            s.packed = device_new(l.packed_bytes);
            wrong += !measure(f, &s, 4 * i, check_only, done == 0);
            done++;
            CUDA(cudaFree(s.packed));
            CUDA(cudaFree(s.user));
        }
        layout_free(&l);
    }
    if (rank == 0)
        fprintf(stderr, "pingpong: %d layouts verified, %d wrong\n", done - wrong, wrong);
    return wrong;
}

static FILE *open_results(const char *out, int argc, char **argv)
{
    const char *transport = getenv("STRIDEC_TRANSPORT");
    FILE *f = out ? fopen(out, "w") : stdout;

    if (!f) {
        perror(out);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fprintf(f, "{\n");
    json_head(f, argc, argv);
    fprintf(f, "\"transport\": \"%s\",\n\"cases\": [\n", transport ? transport : "auto");
    return f;
}

int main(int argc, char **argv)
{
    const char *out = NULL;
    bool check_only = false;
    size_t span_max = SIZE_MAX;
    FILE *f = NULL;
    int rank, ranks, wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--check"))
            check_only = true;
        else if (!strcmp(argv[i], "--span") && i + 1 < argc)
            span_max = strtoull(argv[++i], NULL, 10);
        else
            out = argv[i];
    }
    if (ranks != 2 || !gpu_select(rank)) {
        if (rank == 0)
            printf("pingpong: %s\n", ranks != 2 ? "run it with two ranks" : "no GPU found: nothing to measure");
        MPI_Finalize();
        return ranks != 2;
    }
    if (rank == 0 && !check_only)
        f = open_results(out, argc, argv);
    wrong = run_all(f, rank, span_max, check_only);
    if (f) {
        fprintf(f, "\n]}\n");
        if (f != stdout)
            fclose(f);
    }
    MPI_Finalize();
    return wrong != 0;
}
