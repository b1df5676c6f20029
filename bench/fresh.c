/* fresh.c: the first calls of types that are new, as codes make them that build their types in each step.
 *
 * usage: mpirun -n 1 stridec run -- fresh [--types N] [OUT.json]     N is 1,000 by default
 *
 * N types, of layouts that no other has, by turns a vector, a subarray, irregular blocks, a struct and a gather. Of
 * each: the times of MPI_Type_commit, the first MPI_Pack and the first MPI_Unpack in GPU memory; then it is freed. Packed
 * bytes are compared with what the MPI packs in host memory, and the unpacked ones are packed again. In a fresh
 * STRIDEC_CACHE_DIR nothing has been compiled before. Exit status 1 where a byte was wrong. */
#include "common.h"
#include "layouts_make.h"
#include <stdlib.h>
#include <string.h>

#define KINDS 5
#define SPAN ((size_t)8 << 20)
#define BLOCKS_MOST 4096

static unsigned long long seed = 9;

/* From 1 to n. */
static int up_to(int n)
{
    return 1 + (int)(layouts_random(&seed) % (unsigned)n);
}

static void make_vector(MPI_Datatype *type)
{
    int length = up_to(64);

    MPI_Type_vector(up_to(2048), length, length + up_to(128), MPI_FLOAT, type);
}

static void make_subarray(MPI_Datatype *type)
{
    int sizes[3], subsizes[3], starts[3];

    for (int i = 0; i < 3; i++) {
        sizes[i] = 16 + up_to(48);
        subsizes[i] = up_to(sizes[i]);
        starts[i] = up_to(sizes[i] - subsizes[i] + 1) - 1;
    }
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, type);
}

static void make_blocks(MPI_Datatype *type)
{
    int n = 32 + up_to(BLOCKS_MOST - 32), lengths[BLOCKS_MOST], at[BLOCKS_MOST], end = 0;

    for (int i = 0; i < n; i++) {
        at[i] = end;
        lengths[i] = up_to(32);
        end += lengths[i] + up_to(32);
    }
    MPI_Type_indexed(n, lengths, at, MPI_DOUBLE, type);
}

static void make_struct(MPI_Datatype *type)
{
    MPI_Datatype fields[3];
    int lengths[3] = { 1, 1, 1 };
    MPI_Aint at[3] = { 0, (MPI_Aint)SPAN / 4, (MPI_Aint)SPAN / 2 };

    for (int i = 0; i < 3; i++)
        make_vector(&fields[i]);
    MPI_Type_create_struct(3, lengths, at, fields, type);
    for (int i = 0; i < 3; i++)
        MPI_Type_free(&fields[i]);
}

static void make_gather(MPI_Datatype *type)
{
    int n = 32 + up_to(BLOCKS_MOST - 32), at[BLOCKS_MOST];

    layouts_scatter(at, n, 64, layouts_random(&seed));
    MPI_Type_create_indexed_block(n, up_to(2), at, MPI_DOUBLE, type);
}

static void (*const make[KINDS])(MPI_Datatype *type) = {
    make_vector, make_subarray, make_blocks, make_struct, make_gather,
};

enum call { COMMIT, PACK, UNPACK, CALLS };
static const char *const calls[CALLS] = { "MPI_Type_commit", "first MPI_Pack", "first MPI_Unpack" };

struct buffers {
    char *host, *host_packed;
    char *user, *packed;          /* on the device */
};

static bool use(struct buffers *b, int kind, double us[CALLS])
{
    MPI_Datatype type;
    int size, position = 0, at = 0;
    double begin;

    make[kind](&type);
    begin = now_us();
    MPI_Type_commit(&type);
    us[COMMIT] = now_us() - begin;
    MPI_Type_size(type, &size);
    MPI_Pack(b->host, 1, type, b->host_packed, size, &position, MPI_COMM_SELF);
    begin = now_us();
    MPI_Pack(b->user, 1, type, b->packed, size, &at, MPI_COMM_SELF);
    us[PACK] = now_us() - begin;
    bool right = device_equals(b->packed, b->host_packed, (size_t)size);
    for (int i = 0; i < size; i++)
        b->host_packed[i] = (char)~b->host_packed[i];
    device_write(b->packed, b->host_packed, (size_t)size);
    at = 0;
    begin = now_us();
    MPI_Unpack(b->packed, size, &at, b->user, 1, type, MPI_COMM_SELF);
    us[UNPACK] = now_us() - begin;
    device_set(b->packed, 0, (size_t)size);
    at = 0;
    MPI_Pack(b->user, 1, type, b->packed, size, &at, MPI_COMM_SELF);
    right = device_equals(b->packed, b->host_packed, (size_t)size) && right;
    position = 0;
    MPI_Unpack(b->host_packed, size, &position, b->host, 1, type, MPI_COMM_SELF);
    MPI_Type_free(&type);
    return right;
}

static const double bounds[] = { 10, 20, 50, 100, 200, 500, 1000, 1e300 };
#define BOUNDS (int)(sizeof(bounds) / sizeof(bounds[0]))

static void write_call(FILE *f, enum call call, double *us, int n)
{
    int count[BOUNDS] = { 0 };
    double first = us[0], median = median_of(us, n);   /* sorts them */

    for (int i = 0, k = 0; i < n; i++) {
        while (us[i] >= bounds[k])
            k++;
        count[k]++;
    }
    fprintf(f, "{\"call\": \"%s\", \"first_us\": %.1f, \"median_us\": %.1f, \"p99_us\": %.1f, \"most_us\": %.1f, "
            "\"counts\": [", calls[call], first, median, us[n - 1 - n / 100], us[n - 1]);
    fprintf(stderr, "fresh: %-16s median %.1f us, 99 %% below %.1f, most %.1f;", calls[call], median,
            us[n - 1 - n / 100], us[n - 1]);
    for (int k = 0; k < BOUNDS; k++) {
        fprintf(f, "%s%d", k ? ", " : "", count[k]);
        if (k < BOUNDS - 1)
            fprintf(stderr, " <%g: %d", bounds[k], count[k]);
    }
    fprintf(f, "]}%s", call < CALLS - 1 ? ",\n" : "");
    fprintf(stderr, ", more: %d\n", count[BOUNDS - 1]);
}

static int run(FILE *f, int types)
{
    struct buffers b = { host_new(SPAN), host_new(SPAN), device_new(SPAN), device_new(SPAN) };
    double *us[CALLS];
    int wrong = 0;

    random_bytes(b.host, SPAN, 1);
    device_write(b.user, b.host, SPAN);
    for (int c = 0; c < CALLS; c++)
        us[c] = host_new((size_t)types * sizeof(double));
    for (int i = 0; i < types; i++) {
        double took[CALLS];

        wrong += !use(&b, i % KINDS, took);
        for (int c = 0; c < CALLS; c++)
            us[c][i] = took[c];
    }
    fprintf(f, "\"benchmark\": \"fresh\",\n\"types\": %d,\n\"wrong\": %d,\n\"bounds_us\": [", types, wrong);
    for (int k = 0; k < BOUNDS - 1; k++)
        fprintf(f, "%s%g", k ? ", " : "", bounds[k]);
    fprintf(f, "],\n\"calls\": [\n");
    for (int c = 0; c < CALLS; c++) {
        write_call(f, (enum call)c, us[c], types);
        free(us[c]);
    }
    fprintf(f, "\n]}\n");
    fprintf(stderr, "fresh: %d types, %d with wrong bytes\n", types, wrong);
    CUDA(cudaFree(b.user));
    CUDA(cudaFree(b.packed));
    free(b.host);
    free(b.host_packed);
    return wrong;
}

int main(int argc, char **argv)
{
    const char *out = NULL;
    int types = 1000, wrong;

    MPI_Init(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--types") && i + 1 < argc)
            types = atoi(argv[++i]);
        else
            out = argv[i];
    }
    if (!gpu_select(0)) {
        printf("fresh: no GPU found: nothing to measure\n");
        MPI_Finalize();
        return 0;
    }
    FILE *f = results_open(out, argc, argv);
    wrong = run(f, types > 0 ? types : 1);
    results_close(f);
    MPI_Finalize();
    return wrong != 0;
}
