/* commit.c: what MPI_Type_commit costs with stridec, beside the MPI's own in the same run, and how soon after it a call
 * is served by the type's own kernel.
 *
 * usage: mpirun -n 1 stridec run -- commit [--warm | --lists] [--blocks N] [OUT.json]
 *
 * Commits of regular types: each type is new, of a layout that no other has; then types of layouts that were committed
 * before. Commits of indexed types with n irregular blocks, n from 1,000 to N (default 10,000,000). The MPI's own is
 * called beside the one that stridec sees, on types of the same kind. No kernel need have been compiled for that.
 * First call: from before MPI_Type_commit to the end of the first MPI_Pack that the type's own kernel serves, as it
 * is found in the cache on disk; and the same for a second type of the same layout. --warm does only this, and so
 * fills the cache for the next process. --lists does only the rows of commit_lists.c, which come first otherwise. */
#include "commit_lists.h"
#include "common.h"
#include "../runtime/api/bench_hooks.h"
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define TYPES 101
#define WAIT_US 20e6

static commit_function *own;   /* past stridec */
static stridec_kernel_ready_function *ready;
static stridec_kernel_state_function *state;

/* --- the MPI's own commit --- */

static int look(struct dl_phdr_info *info, size_t size, void *unused)
{
    const char *file = strrchr(info->dlpi_name, '/');
    void *library;

    (void)size, (void)unused;
    if (!file || (strncmp(file, "/libmpi.so", 10) && strncmp(file, "/libmpich.so", 12) && strncmp(file, "/libmpi.", 8)))
        return 0;
    library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        *(void **)&own = dlsym(library, "MPI_Type_commit");
    return own != NULL;
}

static void find_functions(void)
{
    dl_iterate_phdr(look, NULL);
    *(void **)&ready = dlsym(RTLD_DEFAULT, "stridec_kernel_ready");
    *(void **)&state = dlsym(RTLD_DEFAULT, "stridec_kernel_state");
    if (own)
        return;
    fprintf(stderr, "commit: no libmpi among the loaded libraries\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double timed(commit_function *commit, MPI_Datatype *type)
{
    double begin = now_us();

    commit(type);
    return now_us() - begin;
}

/* --- regular types: the k-th of each kind is unlike all others --- */

static void make_vector(int k, MPI_Datatype *type)
{
    MPI_Type_vector(1000 + k, 2, 64 + k, MPI_DOUBLE, type);
}

static void make_subarray(int k, MPI_Datatype *type)
{
    const int sizes[3] = { 128 + k, 128, 130 }, subsizes[3] = { 100 + k, 2, 60 }, starts[3] = { 1, 3, 5 };

    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_FLOAT, type);
}

static void make_resized(int k, MPI_Datatype *type)
{
    MPI_Datatype element;

    MPI_Type_create_resized(MPI_DOUBLE, 0, 512 + 8 * k, &element);
    MPI_Type_contiguous(1000, element, type);
    MPI_Type_free(&element);
}

static void make_struct(int k, MPI_Datatype *type)
{
    const int lengths[3] = { 1, 2 + k, 1 };
    const MPI_Aint at[3] = { 0, 8, 24 + 4 * k };
    MPI_Datatype fields[3] = { MPI_DOUBLE, MPI_INT, MPI_CHAR }, record;

    MPI_Type_create_struct(3, lengths, at, fields, &record);
    MPI_Type_contiguous(4096, record, type);
    MPI_Type_free(&record);
}

static const struct {
    const char *name;
    void (*make)(int k, MPI_Datatype *type);
} regular[] = {
    { "vector", make_vector },
    { "subarray, 3-D", make_subarray },
    { "contiguous of resized", make_resized },
    { "contiguous of struct", make_struct },
};
#define REGULAR (int)(sizeof(regular) / sizeof(regular)[0])

/* The median of commits of types from the first-th on, each freed at once where `keep` is NULL. */
static double commits(int kind, commit_function *commit, int first, bool same)
{
    double us[TYPES];

    for (int i = 0; i < TYPES; i++) {
        MPI_Datatype type;

        regular[kind].make(same ? first : first + i, &type);
        us[i] = timed(commit, &type);
        MPI_Type_free(&type);
    }
    return median_of(us, TYPES);
}

static void regular_rows(FILE *f)
{
    fprintf(f, "\"commits\": [\n");
    for (int i = 0; i < REGULAR; i++) {
        double mine = commits(i, own, 0, false), fresh = commits(i, MPI_Type_commit, TYPES, false),
               again = commits(i, MPI_Type_commit, TYPES, true);

        fprintf(f, "%s{\"case\": \"%s\", \"own_us\": %.2f, \"stridec_us\": %.2f, \"again_us\": %.2f}", i ? ",\n" : "",
                regular[i].name, mine, fresh, again);
        fprintf(stderr, "commit: %-24s the MPI's own %6.2f us, with stridec %6.2f us, a known layout %6.2f us\n",
                regular[i].name, mine, fresh, again);
    }
    fprintf(f, "\n],\n");
}

/* --- indexed types --- */

/* n blocks of 1 to 8 doubles, 1 to 8 apart. */
static void make_indexed(int n, uint64_t seed, MPI_Datatype *type)
{
    int *length = host_new((size_t)n * sizeof(int)), *at = host_new((size_t)n * sizeof(int)), end = 0;
    unsigned char *random = host_new((size_t)n);

    random_bytes(random, (size_t)n, seed);
    for (int i = 0; i < n; i++) {
        length[i] = 1 + (random[i] & 7);
        at[i] = end;
        end += length[i] + 1 + (random[i] >> 4 & 7);
    }
    MPI_Type_indexed(n, length, at, MPI_DOUBLE, type);
    free(random);
    free(at);
    free(length);
}

static double indexed_commit(commit_function *commit, int n, int types)
{
    double us[TYPES];
    static uint64_t seed;

    for (int i = 0; i < types; i++) {
        MPI_Datatype type;

        make_indexed(n, ++seed, &type);
        us[i] = timed(commit, &type);
        MPI_Type_free(&type);
    }
    return median_of(us, types);
}

static void indexed_rows(FILE *f, int most)
{
    fprintf(f, "\"indexed\": [\n");
    for (int n = 1000; n <= most; n *= 10) {
        int types = n >= 1000000 ? 3 : n >= 100000 ? 9 : 31;
        double mine = indexed_commit(own, n, types), fresh = indexed_commit(MPI_Type_commit, n, types);

        fprintf(f, "%s{\"blocks\": %d, \"own_ns\": %.2f, \"stridec_ns\": %.2f}", n > 1000 ? ",\n" : "", n,
                1e3 * mine / n, 1e3 * fresh / n);
        fprintf(stderr, "commit: %9d blocks: the MPI's own %7.2f ns a block, with stridec %7.2f ns\n", n,
                1e3 * mine / n, 1e3 * fresh / n);
        if (n > most / 10)
            break;
    }
    fprintf(f, "\n],\n");
}

/* --- the first call --- */

/* From before the commit to the end of the first pack by the type's own kernel; 0 where that never comes. */
static double first_call(MPI_Datatype *type, char *user, char *packed, int room)
{
    double begin = now_us();
    int served = 0;

    MPI_Type_commit(type);
    while (served == 0 && now_us() - begin < WAIT_US) {
        int position = 0;

        served = ready(*type, user);
        MPI_Pack(user, 1, *type, packed, room, &position, MPI_COMM_WORLD);
    }
    return served > 0 ? now_us() - begin : 0;
}

static double first_call_of(void (*make)(int, MPI_Datatype *), const char **how)
{
    MPI_Datatype type;
    MPI_Aint lb, extent;
    int size;
    double us;
    char *user, *packed;

    make(TYPES * 10, &type);   /* unlike those above */
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lb, &extent);
    user = device_new((size_t)extent);
    packed = device_new((size_t)size);
    us = first_call(&type, user, packed, size);
    *how = state(type);
    MPI_Type_free(&type);
    CUDA(cudaFree(packed));
    CUDA(cudaFree(user));
    return us;
}

static void make_list(int unused, MPI_Datatype *type)
{
    (void)unused;
    make_indexed(10000, 77, type);
}

/* f may be NULL. */
static void first_rows(FILE *f)
{
    if (f)
        fprintf(f, "\"first_calls\": [\n");
    for (int i = 0; ready && state && i <= REGULAR; i++) {
        const char *name = i < REGULAR ? regular[i].name : "indexed, 10,000 blocks", *how, *unused;
        void (*make)(int, MPI_Datatype *) = i < REGULAR ? regular[i].make : make_list;
        double first = first_call_of(make, &how), again = first_call_of(make, &unused);

        if (f)
            fprintf(f, "%s{\"case\": \"%s\", \"state\": \"%s\", \"first_us\": %.1f, \"again_us\": %.1f}", 
                    i ? ",\n" : "", name, how, first, again);
        fprintf(stderr, "commit: %-24s first call by its kernel (%s) after %.1f us, of a known layout %.1f us\n", name,
                how, first, again);
    }
    if (f)
        fprintf(f, "\n]}\n");
}

/* f may be NULL: first calls only. */
static void other_rows(FILE *f, int most)
{
    /* First calls first, while the worker has nothing else to do. */
    char *first = NULL;
    size_t bytes;
    FILE *memory = f ? open_memstream(&first, &bytes) : NULL;

    first_rows(memory);
    if (f) {
        fclose(memory);
        regular_rows(f);
        indexed_rows(f, most);
        fputs(first, f);
        free(first);
    }
}

int main(int argc, char **argv)
{
    const char *out = NULL;
    bool warm = false, lists = false;
    int most = 10000000;
    FILE *f;

    MPI_Init(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--warm"))
            warm = true;
        else if (!strcmp(argv[i], "--lists"))
            lists = true;
        else if (!strcmp(argv[i], "--blocks") && i + 1 < argc)
            most = atoi(argv[++i]);
        else
            out = argv[i];
    }
    if (!gpu_select(0)) {
        printf("commit: no GPU found: nothing to measure\n");
        MPI_Finalize();
        return 0;
    }
    find_functions();
    CUDA(cudaFree(NULL));   /* the GPU is in use from the start */
    f = warm ? NULL : out ? fopen(out, "w") : stdout;
    if (!warm && !f) {
        perror(out);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (f) {
        fprintf(f, "{\n");
        json_head(f, argc, argv);
    }
    if (f) {
        lists_rows(f, own, most);
        fputs(lists ? "}\n" : ",\n", f);
    }
    if (!lists)
        other_rows(f, most);
    if (f && f != stdout)
        fclose(f);
    MPI_Finalize();
    return 0;
}
