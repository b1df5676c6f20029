/* pack.c: MPI_Pack and MPI_Unpack on GPU memory, checked byte for byte and timed, layout by layout.
 *
 * usage: mpirun -n 1 stridec run -- pack [--check] [--span BYTES] [--only TEXT] [--best N | --no-best] [OUT.json]
 *
 * Each layout is packed and unpacked from device to device and compared with what the MPI makes of the same
 * bytes in host memory: all packed bytes, and after unpacking the whole span, gaps included. That is done right
 * after the commit and again when 0.5 s of calls have passed, so that a kernel compiled meanwhile is checked
 * too; only then it is timed, in turns with every other kernel that the generator can make of the layout (best.c).
 * --check stops before timing. --span leaves out layouts that reach further; --only takes those with TEXT in their
 * name. --best tries at most N kernels a direction, --no-best none. Exit status 1 where a byte was wrong. */
#include "pack.h"
#include <stdlib.h>
#include <string.h>

#define WARM_US 0.5e6
#define BUDGET_US 0.4e6
#define GRANULE 64        /* bytes of memory that move together */
#define KERNEL_LEAST_US 3 /* the shortest time a packing kernel is granted by the floor */

void pack(void *arg)
{
    struct work *w = arg;
    int position = 0;

    MPI_Pack(w->user, w->l->count, w->l->type, w->packed, (int)w->l->packed_bytes, &position, MPI_COMM_WORLD);
}

void unpack(void *arg)
{
    struct work *w = arg;
    int position = 0;

    MPI_Unpack(w->packed, (int)w->l->packed_bytes, &position, w->user, w->l->count, w->l->type, MPI_COMM_WORLD);
}

static void contiguous(void *arg)
{
    struct work *w = arg;

    CUDA(cudaMemcpyAsync(w->second, w->packed, w->l->packed_bytes, cudaMemcpyDeviceToDevice, w->stream));
    CUDA(cudaStreamSynchronize(w->stream));
}

static void host_pack(struct work *w)
{
    int position = 0;

    MPI_Pack(w->host, w->l->count, w->l->type, w->host_packed, (int)w->l->packed_bytes, &position, MPI_COMM_WORLD);
}

static void host_unpack(struct work *w)
{
    int position = 0;

    MPI_Unpack(w->host_packed, (int)w->l->packed_bytes, &position, w->host, w->l->count, w->l->type, MPI_COMM_WORLD);
}

/* The granules of the strided side: all that the layout touches, and those it covers only in part. Asks the
 * host MPI which bytes those are: 0xff unpacked into zeros. */
static void granules(struct work *w, size_t *touched, size_t *partial)
{
    memset(w->host, 0, w->l->span_bytes);
    memset(w->host_packed, 0xff, w->l->packed_bytes);
    host_unpack(w);
    *touched = *partial = 0;
    for (size_t at = 0; at < w->l->span_bytes; at += GRANULE) {
        size_t n = w->l->span_bytes - at < GRANULE ? w->l->span_bytes - at : GRANULE, set = 0;

        for (size_t i = 0; i < n; i++)
            set += w->host[at + i] != 0;
        *touched += set > 0;
        *partial += set > 0 && set < GRANULE;
    }
}

static bool check(struct work *w, uint64_t seed)
{
    bool right;
    struct layout *l = w->l;

    random_bytes(w->host, l->span_bytes, seed);
    device_write(w->user, w->host, l->span_bytes);
    device_set(w->packed, 0xa5, l->packed_bytes);
    host_pack(w);
    pack(w);
    right = device_equals(w->packed, w->host_packed, l->packed_bytes);
    if (!right)
        fprintf(stderr, "pack: %s: MPI_Pack made wrong bytes\n", l->name);

    random_bytes(w->host_packed, l->packed_bytes, seed + 1);
    device_write(w->packed, w->host_packed, l->packed_bytes);
    host_unpack(w);
    unpack(w);
    if (!device_equals(w->user, w->host, l->span_bytes)) {
        fprintf(stderr, "pack: %s: MPI_Unpack made wrong bytes\n", l->name);
        right = false;
    }
    return right;
}

static void warm(struct work *w)
{
    for (double end = now_us() + WARM_US; now_us() < end;) {
        pack(w);
        unpack(w);
    }
}

static struct work work_new(struct layout *l)
{
    struct work w = { .l = l };

    w.host = host_new(l->span_bytes);
    w.host_packed = host_new(l->packed_bytes);
    w.user = device_new(l->span_bytes);
    w.packed = device_new(l->packed_bytes);
    w.second = device_new(l->packed_bytes);
    CUDA(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking));
    return w;
}

static void work_free(struct work *w)
{
    CUDA(cudaStreamDestroy(w->stream));
    CUDA(cudaFree(w->second));
    CUDA(cudaFree(w->packed));
    CUDA(cudaFree(w->user));
    free(w->host_packed);
    free(w->host);
}

static double floor_us(const struct limits *m, size_t bytes_moved)
{
    double moving = (double)bytes_moved / m->bytes_per_us;

    return m->launch_us + (moving > KERNEL_LEAST_US ? moving : KERNEL_LEAST_US);
}

/* What the command line asks for. */
struct wish {
    const char *out;
    bool check_only;
    int most;             /* variants tried for each direction of a layout */
    size_t span_max;
    const char *only;     /* in the layout's name; "" is in all */
};

static void json_us(FILE *f, const char *key, double us)
{
    fprintf(f, us > 0 ? ", \"%s\": %.2f" : ", \"%s\": null", key, us);
}

static void json_best(FILE *f, const struct best *b)
{
    json_us(f, "best_us", b->best_us[0]);
    json_us(f, "best_unpack_us", b->best_us[1]);
    if (b->variants)
        fprintf(f, ", \"variants\": %d, \"best\": \"%s\", \"best_unpack\": \"%s\"", b->variants, b->name[0],
                b->name[1]);
}

/* One row of "cases". False where a variant moved wrong bytes. */
static bool measure(FILE *f, struct work *w, const struct limits *m, const struct wish *wish, size_t touched,
                    size_t partial, bool ok)
{
    struct layout *l = w->l;
    struct best b = { 0 };
    bool right = best_find(&b, w, wish->most);

    if (!b.variants) {
        b.us[0] = median_us(pack, w, BUDGET_US, 20);
        b.us[1] = median_us(unpack, w, BUDGET_US, 20);
        for (int i = 0; i < 2 && wish->most > 0; i++)
            b.best_us[i] = b.us[i];
    }
    median_us(contiguous, w, BUDGET_US / 4, 20);
    fprintf(f, "{\"case\": \"%s\", \"bytes\": %zu, \"ok\": %s, \"pack_us\": %.2f, \"unpack_us\": %.2f, "
            "\"contiguous_us\": %.2f, \"floor_us\": %.2f, \"floor_unpack_us\": %.2f", l->name, l->packed_bytes,
            ok ? "true" : "false", b.us[0], b.us[1], median_us(contiguous, w, BUDGET_US, 20),
            floor_us(m, l->packed_bytes + l->list_bytes + GRANULE * touched),
            floor_us(m, l->packed_bytes + l->list_bytes + GRANULE * (touched + partial)));
    json_best(f, &b);
    fputs("}", f);
    fprintf(stderr, "pack: %-42s pack %8.1f us (best %8.1f), unpack %8.1f us (best %8.1f)\n", l->name, b.us[0],
            b.best_us[0], b.us[1], b.best_us[1]);
    return right;
}

/* The i-th layout: checked, and where f is not NULL a row of it. False where bytes were wrong. */
static bool run_one(FILE *f, struct layout *l, size_t i, const struct limits *m, const struct wish *wish)
{
    size_t touched = 0, partial = 0;
    struct work w = work_new(l);
    bool ok = check(&w, 4 * i);

    if (f)
        granules(&w, &touched, &partial);
    warm(&w);
    ok = check(&w, 4 * i + 2) && ok;
    if (f)
        ok = measure(f, &w, m, wish, touched, partial, ok) && ok;
    work_free(&w);
    return ok;
}

/* Returns the number of layouts with wrong bytes. Writes rows where f is not NULL. */
static int run_all(FILE *f, const struct limits *m, const struct wish *wish)
{
    int wrong = 0, done = 0, left_out = 0;

    for (size_t i = 0; i < layout_total(LAYOUTS_PACK); i++) {
        struct layout l = layout_make(LAYOUTS_PACK, i);

        if (l.span_bytes <= wish->span_max && strstr(l.name, wish->only)) {
            if (f && done)
                fputs(",\n", f);
            wrong += !run_one(f, &l, i, m, wish);
            done++;
        } else {
            left_out++;
        }
        layout_free(&l);
    }
    fprintf(stderr, "pack: %d layouts verified, %d wrong, %d left out\n", done - wrong, wrong, left_out);
    return wrong;
}

static struct wish read_arguments(int argc, char **argv)
{
    struct wish wish = { .most = 1000, .span_max = SIZE_MAX, .only = "" };

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--check"))
            wish.check_only = true;
        else if (!strcmp(argv[i], "--no-best"))
            wish.most = 0;
        else if (!strcmp(argv[i], "--best") && i + 1 < argc)
            wish.most = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--span") && i + 1 < argc)
            wish.span_max = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            wish.only = argv[++i];
        else
            wish.out = argv[i];
    }
    return wish;
}

static FILE *begin(const struct wish *wish, struct limits *m, int argc, char **argv)
{
    const size_t whole = (size_t)1 << 30;
    FILE *f = results_open(wish->out, argc, argv);

    *m = limits_measure(wish->span_max < whole ? wish->span_max : whole);
    fprintf(f, "\"launch_us\": %.2f,\n\"copy_GB_s\": %.0f,\n\"cases\": [\n", m->launch_us, m->bytes_per_us / 1000);
    return f;
}

int main(int argc, char **argv)
{
    struct limits m = { 0 };
    struct wish wish;
    FILE *f = NULL;
    int wrong;

    MPI_Init(&argc, &argv);
    wish = read_arguments(argc, argv);
    if (!gpu_select(0)) {
        printf("pack: no GPU found: nothing to measure\n");
        MPI_Finalize();
        return 0;
    }
    if (!wish.check_only)
        f = begin(&wish, &m, argc, argv);
    wrong = run_all(f, &m, &wish);
    if (f) {
        fprintf(f, "\n]}\n");
        results_close(f);
    }
    MPI_Finalize();
    return wrong != 0;
}
