/* digest.c: a number for all that a program has brought, which another run of it must bring again (--digest).
 *
 * Each part is hashed by itself and the hashes are added up: so neither the order of threads nor that of completions matters. */
#include "known.h"
#include "programs.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static FILE *file;
static _Atomic uint64_t sum;

/* The pair of numbers becomes one. */
static uint64_t join(uint64_t a, uint64_t b)
{
    return chance_of(a, b).state;
}

void digest_open(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", name, my_rank);
    file = fopen(path, "w");
    if (!file) perror(path), MPI_Abort(MPI_COMM_WORLD, 2);
}

void digest_bytes(const char *what, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t all = n, word;
    if (!file) return;
    for (const char *at = what; *at; at++) all = all * 31 + (unsigned char)*at;
    all = join(all, n);
    for (; n >= sizeof word; p += sizeof word, n -= sizeof word) {
        memcpy(&word, p, sizeof word);
        all = (all ^ word) * 0x9e3779b97f4a7c15u, all ^= all >> 32;
    }
    for (; n > 0; n--) all = (all ^ *p++) * 0x9e3779b97f4a7c15u, all ^= all >> 32;
    tell("  digest of %s: %016llx", what, (unsigned long long)all);
    atomic_fetch_add(&sum, join(all, setup.plant));
}

void digest_numbers(const char *what, int a, int b, int c)
{
    int all[3] = {a, b, c};
    digest_bytes(what, all, sizeof all);
}

void digest_status(const char *what, const MPI_Status *s, MPI_Datatype type)
{
    int bytes = -1, count = -1, elements = -1, cancelled = -1;
    if (!file) return;
    MPI_Test_cancelled(s, &cancelled);
    MPI_Get_count(s, MPI_BYTE, &bytes);
    if (type != MPI_DATATYPE_NULL) MPI_Get_count(s, type, &count);
    if (type != MPI_DATATYPE_NULL && !KNOWN_ELEMENTS) MPI_Get_elements(s, type, &elements);
    digest_numbers(what, s->MPI_SOURCE, s->MPI_TAG, cancelled);
    digest_numbers(what, bytes, count, elements);
}

void digest_write(uint64_t seed)
{
    uint64_t all = atomic_exchange(&sum, 0);
    if (file) fprintf(file, "%llu %016llx\n", (unsigned long long)seed, (unsigned long long)all), fflush(file);
}

void digest_close(void)
{
    if (file) fclose(file);
    file = NULL;
}
