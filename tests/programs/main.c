/* main.c: runs programs one after another, each from a seed of its own, and prints what differs.
 *
 * usage: programs SEED [PROGRAMS] [--host] [--short] [--tell] [--only N,N...] [--depth N] [--most N] [--threads N]
 *                 [--repeat N] [--digest FILE] [--plant]
 * Runs the programs of the seeds from SEED on. --host takes all memory from malloc, so that the oracle itself can be proved right
 * on an MPI alone. --short draws also what MPICH may cut short (known.h). --only, --depth and --most make a program smaller (shrink.sh). --repeat runs each seed so many times.
 * --digest writes a line for each program to FILE.RANK: its seed, and a digest of all that it has brought: bytes, statuses, errors. --plant
 * spoils what operations ought to bring, and the digests: a run must then fail. The last line is "# programs: N without a difference". */
#include "programs.h"
#include <execinfo.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 4000, DIFFERENCES = 4, SECONDS = 60 };

struct setup setup = {.depth = 3, .threads = STRANDS};
int my_rank, ranks;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int differences;
static char said[DIFFERENCES][LINE];
static uint64_t seed;
static struct strand strands[STRANDS];
static struct comm comms[STRANDS][COMMS];

void differ(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    if (differences < DIFFERENCES) vsnprintf(said[differences], LINE, format, args);
    differences++;
    pthread_mutex_unlock(&lock);
    va_end(args);
}

void tell(const char *format, ...)
{
    va_list args;
    char line[LINE];
    if (!setup.tell) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("%s\n", line);
    fflush(stdout);
}

int error_class(int code)
{
    int class = code;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    return class;
}

/* A program that hangs or crashes says which it was, and where. A fault goes on to the handler that was there before. */
static const int signals[] = {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
static struct sigaction before[NSIG];

static void ended(int signal)
{
    char line[100];
    int n = snprintf(line, sizeof line, "not ok seed %llu: rank %d %s %d\n", (unsigned long long)seed, my_rank,
                     signal == SIGALRM ? "hangs:" : "ends by signal", signal);
    void *frames[24];
    if (write(STDOUT_FILENO, line, (size_t)n) < 0) n = 0;
    backtrace_symbols_fd(frames, backtrace(frames, 24), STDOUT_FILENO);
    if (signal == SIGALRM || signal == SIGABRT) _exit(9);
    sigaction(signal, &before[signal], NULL);   /* what faults does so again */
}

/* The MPI ends some programs by exit. */
static bool at_work;
static void left(void)
{
    if (at_work) printf("not ok seed %llu: rank %d is ended\n", (unsigned long long)seed, my_rank);
    fflush(stdout);
}

static void watch(void)
{
    struct sigaction a = {.sa_handler = ended, .sa_flags = SA_ONSTACK};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &a, &before[signals[i]]);
}

/* ---- one program ---- */

/* A CUDA-aware Open MPI needs a context in each thread that calls it: it moves others' messages there, too. */
static void *run_strand(void *s)
{
    if (!setup.host) cudaFree(NULL);
    strand_run(s);
    return NULL;
}

/* Under MPI_THREAD_MULTIPLE; else one strand after another. */
static void run_strands(int n, bool threads)
{
    pthread_t thread[STRANDS];
    for (int i = 1; i < n && threads; i++) pthread_create(&thread[i], NULL, run_strand, &strands[i]);
    strand_run(&strands[0]);
    for (int i = 1; i < n; i++)
        if (threads) pthread_join(thread[i], NULL);
        else strand_run(&strands[i]);
}

static int report(void)
{
    int all[RANKS], n = 0;
    MPI_Allgather(&differences, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) n += all[r];
    for (int i = 0; i < differences && i < DIFFERENCES; i++)
        printf("not ok seed %llu: rank %d: %s\n", (unsigned long long)seed, my_rank, said[i]);
    fflush(stdout);
    differences = 0;
    return n;
}

static int program(bool threads)
{
    struct chance c = chance_of(seed, 1);
    int n = once_in(&c, 3) ? draw_in(&c, 2, STRANDS) : 1;
    alarm(SECONDS);
    digest_numbers("strands", n, 0, 0);
    tell("program %llu: %d strands", (unsigned long long)seed, n);
    for (int i = 0; i < n; i++) strand_plan(&strands[i], seed, i, comms[i]);
    run_strands(n, threads && setup.threads > 1);
    digest_write(seed);
    return report();
}

/* ---- the process ---- */

static uint64_t read_setup(int argc, char **argv, int *programs, int *repeat)
{
    uint64_t first = 1;
    int given = 0;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(a, "--host")) setup.host = true;
        else if (!strcmp(a, "--short")) setup.may_be_short = true;
        else if (!strcmp(a, "--near")) setup.near = true;
        else if (!strcmp(a, "--tell")) setup.tell = true;
        else if (!strcmp(a, "--only")) setup.only = value, i++;
        else if (!strcmp(a, "--depth")) setup.depth = atoi(value), i++;
        else if (!strcmp(a, "--most")) setup.most = atoi(value), i++;
        else if (!strcmp(a, "--threads")) setup.threads = atoi(value), i++;
        else if (!strcmp(a, "--repeat")) *repeat = atoi(value), i++;
        else if (!strcmp(a, "--digest")) setup.digest = value, i++;
        else if (!strcmp(a, "--plant")) setup.plant = true;
        else if (given++ == 0) first = strtoull(a, NULL, 0);
        else *programs = atoi(a);
    }
    return first;
}

int main(int argc, char **argv)
{
    int programs = 1, repeat = 1, provided, good = 0, bad = 0;
    uint64_t first = read_setup(argc, argv, &programs, &repeat);
    static char buffer[32 << 20];
    setvbuf(stdout, NULL, _IOLBF, LINE);
    MPI_Init_thread(&argc, &argv, setup.threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > RANKS) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    kinds_make();
    memory_start();
    if (setup.digest) digest_open(setup.digest);
    MPI_Buffer_attach(buffer, sizeof buffer);
    for (int i = 0; i < STRANDS; i++) comms_open(comms[i], (uint64_t)i);
    watch();
    atexit(left);
    at_work = true;
    for (int i = 0; i < programs && bad < 3; i++)
        for (int k = 0; k < repeat; k++) {
            seed = first + (uint64_t)i;
            if (program(provided == MPI_THREAD_MULTIPLE)) bad++;
            else good++;
        }
    at_work = false;
    alarm(SECONDS);
    for (int i = 0; i < STRANDS; i++) comms_close(comms[i]);
    MPI_Buffer_detach(&(void *){NULL}, &(int){0});
    memory_stop();
    digest_close();
    if (my_rank == 0) printf("# programs: %d without a difference, %d with\n", good, bad);
    MPI_Finalize();
    return bad != 0;
}
