/* pingpong.c: half the round trip of a message between two ranks' GPU memory, layout by layout.
 *
 * usage: mpirun -n 2 stridec run -- pingpong [--check] [--quick] [--send] [--cold] [--least BYTES] [--span BYTES]
 *                                               [--only NAME]... [--limit SECONDS] [OUT.json]
 *        mpirun -n 2 [stridec run --] pingpong --mixed|--first [--check] [OUT.json]: the rows of mixed.c instead; or
 *                                               their first messages in the process alone
 *
 * By MPI_Send and MPI_Recv, and by MPI_Isend, MPI_Irecv and MPI_Waitall, each from one buffer and into another; beside
 * each layout the contiguous message of the same bytes, and MPI_Pack and MPI_Unpack of it from device to device. All
 * four are compared with what the MPI makes of the same bytes in host memory, gaps included, when the type is new and
 * again when all kernels that it takes are there; only then is it timed. Exit status 1 where a byte was wrong.
 * --check stops before timing. --quick takes fewer layouts and less time for each, --send only the first of the two
 * forms; --cold has both ranks write COLD bytes of device memory before each round trip, so that nothing of it is in their
 * caches; --least leaves out layouts of fewer bytes, --span those that reach further; where --only is given, once or more
 * times, those are taken whose names hold a NAME, --quick or not; no layout is begun when --limit has passed. All layouts
 * use the same memory: an MPI keeps mappings of what it has sent from, and looks in vain for those of memory that was
 * freed. STRIDEC_TRANSPORT, where set, is noted in the results. */
#include "common.h"
#include "layouts.h"
#include "mixed.h"
#include "together.h"
#include <stdlib.h>
#include <string.h>

#define TAG 7
#define GAP 0xa5          /* what a buffer holds before a message arrives */
#define ONLY_MOST 16
#define TURNS 6
#define TRIPS_LEAST 10    /* of a turn, */
#define TRIPS_COLD 11     /* with --cold; */
#define TRIPS_FIRST 3     /* before it, not timed: they find what the other way left */
#define PACKS_LEAST 20
#define COLD ((size_t)256 << 20)

struct message {
    const void *from;
    void *to;
    int count;
    MPI_Datatype type;
};

/* A round trip; rank 1 answers when it has received. */
typedef void trip(const struct message *m, int rank);

struct side {
    int rank;
    struct layout *l;
    struct message typed, packed;    /* in device memory: span_bytes, packed_bytes */
    char *own, *other, *want;        /* what the MPI makes: both ranks' packed bytes, and what must arrive here */
    trip *trip;
};

static void send_recv(const struct message *m, int rank)
{
    if (rank == 0)
        MPI_Send(m->from, m->count, m->type, 1, TAG, MPI_COMM_WORLD);
    MPI_Recv(m->to, m->count, m->type, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(m->from, m->count, m->type, 0, TAG, MPI_COMM_WORLD);
}

static void isend_irecv(const struct message *m, int rank)
{
    MPI_Request request[2];

    MPI_Irecv(m->to, m->count, m->type, 1 - rank, TAG, MPI_COMM_WORLD, &request[0]);
    if (rank == 1)
        MPI_Waitall(1, request, MPI_STATUSES_IGNORE);
    MPI_Isend(m->from, m->count, m->type, 1 - rank, TAG, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
}

static const struct {
    const char *name;     /* follows the layout's */
    trip *trip;
} forms[] = {
    { "", send_recv },
    { ", Isend/Irecv/Waitall", isend_irecv },
};

static void typed(void *arg)
{
    struct side *s = arg;

    s->trip(&s->typed, s->rank);
}

static void contiguous(void *arg)
{
    struct side *s = arg;

    s->trip(&s->packed, s->rank);
}

static void pack(void *arg)
{
    struct side *s = arg;
    int position = 0;

    MPI_Pack(s->typed.from, s->typed.count, s->typed.type, (void *)s->packed.from, s->packed.count, &position,
             MPI_COMM_WORLD);
}

static void unpack(void *arg)
{
    struct side *s = arg;
    int position = 0;

    MPI_Unpack(s->packed.to, s->packed.count, &position, s->typed.to, s->typed.count, s->typed.type, MPI_COMM_WORLD);
}

static char *packed_of(const struct layout *l, const void *host)
{
    char *packed = host_new(l->packed_bytes);
    int position = 0;

    MPI_Pack(host, l->count, l->type, packed, (int)l->packed_bytes, &position, MPI_COMM_WORLD);
    return packed;
}

/* Of the typed and of the packed messages. */
struct memory {
    void *from, *to, *packed_from, *packed_to;
};

/* Rank r sends random bytes of seed + r. */
static struct side side_new(int rank, struct layout *l, const struct memory *m, uint64_t seed)
{
    struct side s = { .rank = rank, .l = l };
    int position = 0;

    s.typed = (struct message){ m->from, m->to, l->count, l->type };
    s.packed = (struct message){ m->packed_from, m->packed_to, (int)l->packed_bytes, MPI_BYTE };
    s.want = host_new(l->span_bytes);
    random_bytes(s.want, l->span_bytes, seed + (uint64_t)rank);
    device_write(m->from, s.want, l->span_bytes);
    s.own = packed_of(l, s.want);
    random_bytes(s.want, l->span_bytes, seed + (uint64_t)(1 - rank));
    s.other = packed_of(l, s.want);
    memset(s.want, GAP, l->span_bytes);
    MPI_Unpack(s.other, (int)l->packed_bytes, &position, s.want, l->count, l->type, MPI_COMM_WORLD);
    return s;
}

static void side_free(struct side *s)
{
    free(s->own);
    free(s->other);
    free(s->want);
}

/* Whether run(s) fills the device memory `at` with the bytes of `want`. */
static bool makes(struct side *s, void (*run)(void *), const char *what, const void *at, const char *want,
                  size_t bytes)
{
    device_set((void *)at, GAP, bytes);
    run(s);
    if (device_equals(at, want, bytes))
        return true;
    fprintf(stderr, "pingpong: %s: %s: rank %d has wrong bytes\n", s->l->name, what, s->rank);
    return false;
}

/* In this order: each finds what the one before has left. */
static bool check(struct side *s)
{
    size_t span = s->l->span_bytes, bytes = s->l->packed_bytes;
    bool right = makes(s, pack, "MPI_Pack", s->packed.from, s->own, bytes);

    right = makes(s, contiguous, "the contiguous message", s->packed.to, s->other, bytes) && right;
    right = makes(s, typed, "the message", s->typed.to, s->want, span) && right;
    right = makes(s, unpack, "MPI_Unpack", s->typed.to, s->want, span) && right;
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    return right;
}

/* What the command line asks for. */
struct wish {
    const char *out, *transport, *only[ONLY_MOST];
    int only_total;
    bool check_only, quick, send_only, cold, mixed, first;
    size_t least, span_max;
    double end_us;
};

/* Round trips; --cold: each after the caches of both ranks' GPUs have been filled with other data. */
static void time_trips(struct side *s, void (*run)(void *), const struct wish *wish, double *sample, int trips)
{
    static void *other;

    if (wish->cold && !other)
        other = device_new(COLD);
    for (int i = 0; i < trips; i++) {
        double begun;

        if (wish->cold) {
            device_set(other, i, COLD);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        begun = now_us();
        run(s);
        sample[i] = now_us() - begun;
    }
}

/* Half a round trip of the derived type and of the contiguous message, which take turns: what the machine does
 * meanwhile falls upon both. */
static void half_us(struct side *s, const struct wish *wish, double budget_us, double us[2])
{
    static void (*const run[2])(void *) = { typed, contiguous };
    double *sample[2];
    int trips[2];

    for (int w = 0; w < 2; w++) {
        together_warm(run[w], s, budget_us / 2);
        trips[w] = wish->cold ? TRIPS_COLD : together_calls(run[w], s, budget_us / TURNS, TRIPS_LEAST);
        sample[w] = host_new((size_t)(TURNS * trips[w]) * sizeof(double));
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < 2; i++) {
            int w = (turn + i) % 2;

            for (int j = 0; j < TRIPS_FIRST; j++)
                run[w](s);
            time_trips(s, run[w], wish, sample[w] + turn * trips[w], trips[w]);
        }
    }
    for (int w = 0; w < 2; w++) {
        us[w] = median_of(sample[w], TURNS * trips[w]) / 2;
        free(sample[w]);
    }
}

/* One row; rank 0 writes it. */
static void measure(FILE *f, struct side *s, const struct wish *wish, const char *form, const double alone_us[2],
                    bool ok)
{
    double budget_us = wish->quick ? 0.08e6 : 0.2e6;
    double us[2];
    static bool any;

    half_us(s, wish, budget_us, us);
    if (!f)
        return;
    fprintf(f, "%s{\"case\": \"%s%s\", \"bytes\": %zu, \"block\": %zu, \"ok\": %s, \"us\": %.2f, "
            "\"contiguous_us\": %.2f, \"pack_us\": %.2f, \"unpack_us\": %.2f, "
            "\"transport\": \"%s\"}", any ? ",\n" : "", s->l->name, form,
            s->l->packed_bytes, s->l->block_bytes, ok ? "true" : "false", us[0], us[1], alone_us[0], alone_us[1],
            wish->transport);
    fprintf(stderr, "pingpong: %s%s: %.1f us, contiguous %.1f us\n", s->l->name, form, us[0], us[1]);
    any = true;
}

/* One layout in each form. False where bytes were wrong. */
static bool run_one(FILE *f, struct side *s, const struct wish *wish)
{
    double warm_us = wish->quick ? 0.12e6 : 0.2e6, alone_us[2] = { 0, 0 };
    size_t total = wish->send_only ? 1 : sizeof(forms) / sizeof(forms)[0];
    bool ok = true;

    for (size_t i = 0; i < total; i++) {
        s->trip = forms[i].trip;
        ok = check(s) && ok;
        if (wish->check_only)
            continue;
        together_ready(1, &s->l->type, s->typed.from);
        together_warm(typed, s, warm_us);
        ok = check(s) && ok;
        if (i == 0 && s->rank == 0) {
            alone_us[0] = median_us(pack, s, warm_us / 2, PACKS_LEAST);
            alone_us[1] = median_us(unpack, s, warm_us / 2, PACKS_LEAST);
        }
        measure(f, s, wish, forms[i].name, alone_us, ok);
    }
    return ok;
}

static bool wanted(const struct layout *l, const struct wish *wish)
{
    bool named = !wish->only_total && (!wish->quick || l->quick);

    for (int i = 0; i < wish->only_total; i++)
        named = named || strstr(l->name, wish->only[i]);
    return named && l->packed_bytes >= wish->least && l->span_bytes <= wish->span_max;
}

static struct memory memory_new(const struct wish *wish)
{
    size_t span = 1, packed = 1;

    for (size_t i = 0; i < layout_total(LAYOUTS_PINGPONG); i++) {
        struct layout l = layout_make(LAYOUTS_PINGPONG, i);

        if (wanted(&l, wish)) {
            span = l.span_bytes > span ? l.span_bytes : span;
            packed = l.packed_bytes > packed ? l.packed_bytes : packed;
        }
        layout_free(&l);
    }
    return (struct memory){ device_new(span), device_new(span), device_new(packed), device_new(packed) };
}

static void memory_free(struct memory *m)
{
    CUDA(cudaFree(m->from));
    CUDA(cudaFree(m->to));
    CUDA(cudaFree(m->packed_from));
    CUDA(cudaFree(m->packed_to));
}

static int run_all(FILE *f, int rank, const struct wish *wish)
{
    struct memory memory = memory_new(wish);
    int wrong = 0, done = 0, late = 0;

    for (size_t i = 0; i < layout_total(LAYOUTS_PINGPONG); i++) {
        struct layout l = layout_make(LAYOUTS_PINGPONG, i);

        if (!wanted(&l, wish)) {
            ;
        } else if (together_past(wish->end_us)) {
            late++;
        } else {
            struct side s = side_new(rank, &l, &memory, 2 * i);

            wrong += !run_one(f, &s, wish);
            done++;
            side_free(&s);
        }
        layout_free(&l);
    }
    memory_free(&memory);
    if (rank == 0)
        fprintf(stderr, "pingpong: %d layouts verified, %d wrong, %d left out for want of time\n", done - wrong, wrong,
                late);
    return wrong;
}

static struct wish read_arguments(int argc, char **argv)
{
    const char *transport = getenv("STRIDEC_TRANSPORT");
    struct wish wish = { .transport = transport ? transport : "auto", .span_max = SIZE_MAX, .end_us = 1e300 };

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--check"))
            wish.check_only = true;
        else if (!strcmp(argv[i], "--quick"))
            wish.quick = true;
        else if (!strcmp(argv[i], "--send"))
            wish.send_only = true;
        else if (!strcmp(argv[i], "--cold"))
            wish.cold = true;
        else if (!strcmp(argv[i], "--mixed"))
            wish.mixed = true;
        else if (!strcmp(argv[i], "--first"))
            wish.first = true;
        else if (!strcmp(argv[i], "--least") && i + 1 < argc)
            wish.least = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--span") && i + 1 < argc)
            wish.span_max = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc && wish.only_total < ONLY_MOST)
            wish.only[wish.only_total++] = argv[++i];
        else if (!strcmp(argv[i], "--limit") && i + 1 < argc)
            wish.end_us = now_us() + 1e6 * strtod(argv[++i], NULL);
        else
            wish.out = argv[i];
    }
    return wish;
}

int main(int argc, char **argv)
{
    struct wish wish;
    FILE *f = NULL;
    int rank, ranks, wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || !gpu_select(rank)) {
        if (rank == 0)
            printf("pingpong: %s\n", ranks != 2 ? "run it with two ranks" : "no GPU found: nothing to measure");
        MPI_Finalize();
        return ranks != 2;
    }
    wish = read_arguments(argc, argv);
    if (rank == 0 && !wish.check_only)
        f = cases_open(wish.out, argc, argv, "pingpong");
    wrong = wish.first ? mixed_first(f, rank) : wish.mixed ? mixed_run(f, rank) : run_all(f, rank, &wish);
    cases_close(f);
    MPI_Finalize();
    return wrong != 0;
}
