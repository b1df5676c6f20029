/* check.c: start, finish and the reports of the multi-rank tests. */
#include "check.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WHY_MAX 400

int my_rank, num_ranks;
bool host_mode;
uint64_t test_seed;

MPI_Comm check_comm;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int failures; /* of the present check, on this rank */
static char first_why[WHY_MAX];
static int passed, failed; /* counted on rank 0 */
static uint64_t random_state;

static uint64_t pick_seed(void)
{
    const char *s = getenv("TEST_SEED");
    uint64_t seed = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, check_comm);
    return seed;
}

void check_begin(int argc, char **argv, MPI_Comm comm)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--host")) host_mode = true;
    MPI_Comm_rank(comm, &my_rank);
    MPI_Comm_size(comm, &num_ranks);
    MPI_Comm_dup(comm, &check_comm);
    test_seed = random_state = pick_seed();
    note("TEST_SEED=%llu, %d ranks, %s", (unsigned long long)test_seed, num_ranks,
         host_mode ? "host memory only" : "device memory");
}

int rank_given(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    return rank ? atoi(rank) : -1;
}

int check_start(int *argc, char ***argv, int level)
{
    int provided = MPI_THREAD_SINGLE;
    if (level < 0)
        MPI_Init(argc, argv);
    else
        MPI_Init_thread(argc, argv, level, &provided);
    check_begin(*argc, *argv, MPI_COMM_WORLD);
    return provided;
}

/* The MPI's library among what is loaded. */
static int find_mpi(struct dl_phdr_info *info, size_t size, void *name)
{
    const char *file = strrchr(info->dlpi_name, '/');
    (void)size;
    if (!file || (strncmp(file, "/libmpi.so", 10) && strncmp(file, "/libmpich.so", 12) &&
                  strncmp(file, "/libmpi_abi.so", 14)))
        return 0;
    snprintf(name, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

void *own_function(const char *name)
{
    static void *library;
    char file[PATH_MAX] = "";
    if (!library && dl_iterate_phdr(find_mpi, file)) library = dlopen(file, RTLD_NOLOAD | RTLD_LAZY);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "no library of the MPI with %s is loaded\n", name);
        exit(2);
    }
    return function;
}

pack_function *own_pack(void)
{
    static pack_function *function;
    if (!function) *(void **)&function = own_function("PMPI_Pack");
    return function;
}

unpack_function *own_unpack(void)
{
    static unpack_function *function;
    if (!function) *(void **)&function = own_function("PMPI_Unpack");
    return function;
}

int check_end(void)
{
    MPI_Bcast(&failed, 1, MPI_INT, 0, check_comm);
    if (my_rank == 0) {
        printf("# %d passed, %d failed\n", passed, failed);
        fflush(stdout);
    }
    MPI_Comm_free(&check_comm);
    return failed != 0;
}

int check_finish(void)
{
    int bad = check_end();
    MPI_Finalize();
    return bad;
}

int check_left_out(int *argc, char ***argv, const char *why)
{
    check_start(argc, argv, -1);
    report("left out: %s", why);
    return check_finish();
}

void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    if (failures++ == 0) vsnprintf(first_why, sizeof first_why, format, args);
    pthread_mutex_unlock(&lock);
    va_end(args);
}

void report(const char *format, ...)
{
    char name[256], *whys = NULL;
    int *counts = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    if (my_rank == 0) {
        counts = calloc((size_t)num_ranks, sizeof *counts);
        whys = calloc((size_t)num_ranks, WHY_MAX);
    }
    MPI_Gather(&failures, 1, MPI_INT, counts, 1, MPI_INT, 0, check_comm);
    MPI_Gather(first_why, WHY_MAX, MPI_CHAR, whys, WHY_MAX, MPI_CHAR, 0, check_comm);
    if (my_rank == 0) {
        int r = 0;
        while (r < num_ranks && counts[r] == 0) r++;
        if (r == num_ranks) {
            passed++;
            printf("ok %s\n", name);
        } else {
            failed++;
            printf("not ok %s: rank %d (failure 1 of %d): %s\n", name, r, counts[r], whys + (size_t)r * WHY_MAX);
        }
        fflush(stdout);
    }
    MPI_Barrier(check_comm); /* nobody's next message may meet a wildcard of this check */
    free(counts);
    free(whys);
    failures = 0;
    memset(first_why, 0, sizeof first_why);
}

void note(const char *format, ...)
{
    va_list args;
    if (my_rank != 0) return;
    printf("# ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

void in_threads(int n, void *work(void *comm))
{
    pthread_t thread[8];
    MPI_Comm comm[8];
    for (int i = 0; i < n; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    for (int i = 0; i < n; i++) pthread_create(&thread[i], NULL, work, &comm[i]);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < n; i++) MPI_Comm_free(&comm[i]);
}

bool cuda_aware(void)
{
    int (*query)(void);
    *(void **)&query = dlsym(RTLD_DEFAULT, "stridec_mpi_cuda_aware");
    if (!query) *(void **)&query = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    return query && query() == 1;
}

bool within(double *since, double seconds)
{
    double now = MPI_Wtime();
    if (*since == 0) *since = now;
    return now - *since < seconds;
}

int error_class(int code)
{
    int class = code;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    return class;
}

const char *error_name(int class)
{
    static const struct {
        int class;
        const char *name;
    } names[] = {{MPI_SUCCESS, "MPI_SUCCESS"},      {MPI_ERR_BUFFER, "MPI_ERR_BUFFER"},
                 {MPI_ERR_COUNT, "MPI_ERR_COUNT"},  {MPI_ERR_TYPE, "MPI_ERR_TYPE"},
                 {MPI_ERR_TAG, "MPI_ERR_TAG"},      {MPI_ERR_COMM, "MPI_ERR_COMM"},
                 {MPI_ERR_RANK, "MPI_ERR_RANK"},    {MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE"},
                 {MPI_ERR_ARG, "MPI_ERR_ARG"},      {MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS"},
                 {MPI_ERR_OTHER, "MPI_ERR_OTHER"},  {MPI_ERR_PENDING, "MPI_ERR_PENDING"},
                 {MPI_ERR_INTERN, "MPI_ERR_INTERN"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].class == class) return names[i].name;
    return "another class";
}

int nothing_to_tell(void *extra, MPI_Status *s)
{
    (void)extra;
    MPI_Status_set_elements(s, MPI_BYTE, 0);
    MPI_Status_set_cancelled(s, 0);
    s->MPI_SOURCE = s->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int nothing_to_free(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

int nothing_to_cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

uint32_t roll(uint32_t n)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) % n);
}

uint32_t below(struct chance *c, uint32_t n)
{
    c->state = c->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((c->state >> 33) % n);
}

void roll_apart(void)
{
    random_state += (uint64_t)my_rank << 48;
}
