/* memory.c: makes memory run out for stridec alone, as a library to be preloaded.
 *
 * A program sets memory_fails: while it is not 0, nothing that stridec asks for is there. Or it zeroes memory_asked and sets
 * memory_at to n: the n-th allocation fails, and where memory_later is set all after it too, until memory_at is 0 again.
 * Without a program's help:
 *   MEMORY_RANK=r      the rank that is concerned (0 by default)
 *   MEMORY_FAIL=n[+]   its n-th allocation fails; with a plus all later ones too
 *   MEMORY_SITES=FILE  appends the number of each allocation that comes by a new way (the calls that lead to it) */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int memory_fails, memory_later;
atomic_int memory_failures;
atomic_long memory_at, memory_asked;

static uintptr_t first, past;   /* the code of libstridec.so */
static int sites = -1;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static int find_stridec(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    if (!strstr(info->dlpi_name, "/libstridec.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && h->p_flags & PF_X) first = info->dlpi_addr + h->p_vaddr, past = first + h->p_memsz;
    }
    return 1;
}

static bool concerned(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *wanted = getenv("MEMORY_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    return rank && !strcmp(rank, wanted ? wanted : "0");
}

/* Takes the variables away: a compiler that the process starts is not concerned. */
__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("MEMORY_SITES"), *n = getenv("MEMORY_FAIL");
    void *frame[2];
    dl_iterate_phdr(find_stridec, NULL);
    if (!past) return;   /* what starts the program */
    if (concerned()) {
        if (file) backtrace(frame, 2), sites = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (n) atomic_store(&memory_at, atol(n));
        memory_later = n && strchr(n, '+');
    }
    unsetenv("MEMORY_SITES"), unsetenv("MEMORY_FAIL");
}

/* Tells of an allocation by a way that none took before. */
#define DEPTH 6
#define FILTER_BITS 16
static void note_site(long n)
{
    static _Atomic uint64_t seen[1 << FILTER_BITS];
    static _Thread_local bool inside;
    void *frame[DEPTH];
    char line[32];
    uint64_t hash = 1469598103934665603u;
    if (inside) return;
    inside = true;
    for (int i = 2, most = backtrace(frame, DEPTH); i < most; i++) hash = (hash ^ (uintptr_t)frame[i]) * 1099511628211u;
    inside = false;
    if (atomic_exchange(&seen[hash >> (64 - FILTER_BITS)], hash) == hash) return;
    if (write(sites, line, (size_t)snprintf(line, sizeof line, "%ld\n", n)) < 0) abort();
}

static bool fails(const void *caller)
{
    if ((uintptr_t)caller - first >= past - first) return false;
    long n = ++memory_asked, at = memory_at;
    if (sites >= 0) note_site(n);
    if (!memory_fails && (!at || n < at || (n > at && !memory_later))) return false;
    memory_failures++;
    errno = ENOMEM;
    return true;
}
#define FAILS fails(__builtin_return_address(0))

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

void *malloc(size_t bytes)
{
    return FAILS ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return FAILS ? NULL : __libc_calloc(n, bytes);
}

/* Lua takes it that a block can always be made smaller: so can malloc's. */
void *realloc(void *p, size_t bytes)
{
    return bytes && (!p || bytes > malloc_usable_size(p)) && FAILS ? NULL : __libc_realloc(p, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return FAILS ? NULL : __libc_memalign(alignment, bytes);
}

char *strndup(const char *text, size_t most)
{
    size_t bytes = strnlen(text, most);
    char *copy = FAILS ? NULL : __libc_malloc(bytes + 1);
    if (copy) memcpy(copy, text, bytes), copy[bytes] = '\0';
    return copy;
}

char *strdup(const char *text)
{
    char *copy = FAILS ? NULL : __libc_malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

int asprintf(char **text, const char *format, ...)
{
    va_list args;
    if (FAILS) return -1;
    va_start(args, format);
    int bytes = vasprintf(text, format, args);
    va_end(args);
    return bytes;
}

FILE *fopen(const char *file, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (!real) *(void **)&real = next("fopen");
    return FAILS ? NULL : real(file, mode);
}

FILE *fdopen(int fd, const char *mode)
{
    static FILE *(*real)(int, const char *);
    if (!real) *(void **)&real = next("fdopen");
    return FAILS ? NULL : real(fd, mode);
}

FILE *open_memstream(char **text, size_t *bytes)
{
    static FILE *(*real)(char **, size_t *);
    if (!real) *(void **)&real = next("open_memstream");
    return FAILS ? NULL : real(text, bytes);
}

ssize_t getline(char **line, size_t *bytes, FILE *f)
{
    static ssize_t (*real)(char **, size_t *, FILE *);
    if (!real) *(void **)&real = next("getline");
    return FAILS ? -1 : real(line, bytes, f);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return FAILS ? MAP_FAILED : (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

/* Counts the collectives that reach the MPI: a call that failed has taken part in one, or has not. */
atomic_int memory_collectives;
#define PASS(call, parameters, ...) \
    int MPI_##call parameters \
    { \
        memory_collectives++; \
        return PMPI_##call(__VA_ARGS__); \
    }
#define OUT const void *out, int n, MPI_Datatype sent
#define IN void *in, int m, MPI_Datatype got
#define EACH(what, sent) const void *what, const int n_##what[], const int at_##what[], const MPI_Datatype sent[]
PASS(Bcast, (IN, int root, MPI_Comm comm), in, m, got, root, comm)
PASS(Ibcast, (IN, int root, MPI_Comm comm, MPI_Request *r), in, m, got, root, comm, r)
PASS(Gather, (OUT, IN, int root, MPI_Comm comm), out, n, sent, in, m, got, root, comm)
PASS(Allgather, (OUT, IN, MPI_Comm comm), out, n, sent, in, m, got, comm)
PASS(Iallgather, (OUT, IN, MPI_Comm comm, MPI_Request *r), out, n, sent, in, m, got, comm, r)
PASS(Alltoall, (OUT, IN, MPI_Comm comm), out, n, sent, in, m, got, comm)
PASS(Ialltoall, (OUT, IN, MPI_Comm comm, MPI_Request *r), out, n, sent, in, m, got, comm, r)
PASS(Alltoallw, (EACH(out, sent), void *in, const int n_in[], const int at_in[], const MPI_Datatype got[], MPI_Comm comm), out,
     n_out, at_out, sent, in, n_in, at_in, got, comm)
PASS(Allreduce, (const void *out, void *in, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm), out, in, n, type, op, comm)
