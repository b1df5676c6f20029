/* stats.c: rows of counters, and the table at the end. */
#include "stats.h"
#include "dictionary.h"
#include "env.h"
#define XXH_INLINE_ALL
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* Transports seen with a type, in the order of the table. */
#define STATS_WAYS 8

struct told {
    char *line;
    struct told *next;
};

struct stats_row {
    char *signature;
    const char *family;
    _Atomic int64_t calls, bytes, timed, launches, nanoseconds, compiled, cached;   /* timed: of the bytes */
    _Atomic(const char *) ways[STATS_WAYS];
    _Atomic(const char *) state;
    struct told *told;   /* the last one first */
    UT_hash_handle hh;
};

static struct stats_row *rows;
static struct stats_row shared_row = {.signature = "(other)", .family = "-"};
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;

/* Signatures of long lists are shown by their beginning and a hash of the whole. */
#define BRIEF_CHARS 120

static void brief(char *out, size_t size, const char *signature)
{
    size_t n = strlen(signature);
    if (n < size) memcpy(out, signature, n + 1);
    else snprintf(out, size, "%.*s...#%016llx", BRIEF_CHARS, signature, (unsigned long long)XXH64(signature, n, 0));
}

struct stats_row *stats_row(const char *signature, const char *family)
{
    struct stats_row *row = NULL;
    char key[BRIEF_CHARS + 24];
    if (!signature || !env_get()->stats) return &shared_row;
    brief(key, sizeof key, signature);
    pthread_mutex_lock(&rows_lock);
    HASH_FIND_STR(rows, key, row);
    if (!row && (row = calloc(1, sizeof *row))) {
        row->signature = strdup(key);
        row->family = family;
        if (row->signature) HASH_ADD_KEYPTR(hh, rows, row->signature, strlen(row->signature), row);
        else free(row), row = NULL;
    }
    pthread_mutex_unlock(&rows_lock);
    return row ? row : &shared_row;
}

int64_t stats_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void note_way(struct stats_row *row, const char *way)
{
    for (int i = 0; i < STATS_WAYS; i++) {
        const char *seen = NULL;
        if (atomic_load_explicit(&row->ways[i], memory_order_relaxed) == way) return;
        if (atomic_compare_exchange_strong(&row->ways[i], &seen, way) || seen == way) return;
    }
}

void stats_add(struct stats_row *row, const struct stats_sample *s)
{
    atomic_fetch_add_explicit(&row->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->bytes, s->bytes, memory_order_relaxed);
    if (s->nanoseconds) atomic_fetch_add_explicit(&row->timed, s->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->launches, s->launches, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->nanoseconds, s->nanoseconds, memory_order_relaxed);
    if (s->transport) note_way(row, s->transport);
    if (s->state) atomic_store_explicit(&row->state, s->state, memory_order_relaxed);
}

void stats_tell(struct stats_row *row, const char *line)
{
    struct told *t = row == &shared_row ? NULL : calloc(1, sizeof *t);
    if (!t || !(t->line = strdup(line))) {
        free(t);
        return;
    }
    pthread_mutex_lock(&rows_lock);
    t->next = row->told;
    row->told = t;
    pthread_mutex_unlock(&rows_lock);
}

/* One row as text for the wire: fields by tabs, a line each; then what was told, in lines that begin with a tab. */
static void write_row(FILE *f, const struct stats_row *row)
{
    const char *state = row->state ? row->state : "";
    bool cached = !strcmp(state, "cache") || !strcmp(state, "aot");
    fprintf(f, "%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%d\t%d\t", row->signature, row->family, (long long)row->calls,
            (long long)row->bytes, (long long)row->timed, (long long)row->launches, (long long)row->nanoseconds,
            !strcmp(state, "compiled"), cached);
    for (int i = 0; i < STATS_WAYS && row->ways[i]; i++) fprintf(f, "%s%s", i ? "," : "", row->ways[i]);
    fputc('\n', f);
    for (const struct told *t = row->told; t; t = t->next) fprintf(f, "\t%s\n", t->line);
}

static char *write_rows(int *length)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        for (struct stats_row *row = rows; row; row = row->hh.next)
            if (row->calls) write_row(f, row);
        if (shared_row.calls) write_row(f, &shared_row);
        fclose(f);
    }
    *length = (int)size;
    return text;
}

struct total {
    char *signature, family[16], ways[96];
    long long calls, bytes, timed, launches, nanoseconds;
    int compiled, cached;
    struct told *told;
    UT_hash_handle hh;
};

static void merge_ways(char *into, size_t size, const char *more)
{
    char copy[96], *save = NULL;
    snprintf(copy, sizeof copy, "%s", more);
    for (char *way = strtok_r(copy, ",", &save); way; way = strtok_r(NULL, ",", &save)) {
        size_t n = strlen(into);
        if (!strstr(into, way)) snprintf(into + n, size - n, "%s%s", n ? "," : "", way);
    }
}

/* The same of several ranks is told once. */
static void merge_told(struct total *t, char *line)
{
    for (const struct told *o = t->told; o; o = o->next)
        if (!strcmp(o->line, line)) return;
    struct told *one = malloc(sizeof *one);
    if (!one) return;
    *one = (struct told){line, t->told};
    t->told = one;
}

/* A line that begins with a tab belongs to *last, the total of the row before it. */
static void merge_line(struct total **totals, struct total **last, char *line)
{
    struct total one = {.signature = line}, *t;
    char *rest = strchr(line, '\t'), ways[96] = "";
    if (rest == line && *last) merge_told(*last, line + 1);
    if (!rest || rest == line) return;
    *rest++ = 0;
    if (sscanf(rest, "%15[^\t]\t%lld\t%lld\t%lld\t%lld\t%lld\t%d\t%d\t%95s", one.family, &one.calls, &one.bytes,
               &one.timed, &one.launches, &one.nanoseconds, &one.compiled, &one.cached, ways) < 8) return;
    HASH_FIND_STR(*totals, line, t);
    if (!t) {
        if (!(t = calloc(1, sizeof *t))) return;
        t->signature = line;
        memcpy(t->family, one.family, sizeof t->family);
        HASH_ADD_KEYPTR(hh, *totals, t->signature, strlen(line), t);
    }
    t->calls += one.calls, t->bytes += one.bytes, t->launches += one.launches;
    t->timed += one.timed, t->nanoseconds += one.nanoseconds;
    t->compiled += one.compiled, t->cached += one.cached;
    merge_ways(t->ways, sizeof t->ways, ways);
    *last = t;
}

static void print_told(struct told *t)
{
    for (struct told *next; t; t = next) {
        next = t->next;
        fprintf(stderr, "%10s %s\n", "", t->line);
        free(t);
    }
}

static int by_bytes(const struct total *a, const struct total *b)
{
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static void print_table(char *text, int ranks)
{
    struct total *totals = NULL, *last = NULL, *t, *next;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        merge_line(&totals, &last, line);
    HASH_SORT(totals, by_bytes);
    fprintf(stderr, "stridec: %d rank%s, %u datatype%s, all ranks summed\n", ranks,
            ranks == 1 ? "" : "s", HASH_COUNT(totals), HASH_COUNT(totals) == 1 ? "" : "s");
    fprintf(stderr, "%10s %14s %-10s %-16s %9s %8s %6s %8s  %s\n", "calls", "bytes", "family", "transport", "launches",
            "compiled", "cached", "GB/s", "signature");
    HASH_ITER(hh, totals, t, next) {
        char rate[16] = "-";
        if (t->nanoseconds) snprintf(rate, sizeof rate, "%.3g", (double)t->timed / (double)t->nanoseconds);
        fprintf(stderr, "%10lld %14lld %-10s %-16s %9lld %8d %6d %8s  %s\n", t->calls, t->bytes, t->family, t->ways,
                t->launches, t->compiled, t->cached, rate, t->signature);
        print_told(t->told);
        HASH_DEL(totals, t);
        free(t);
    }
}

void stats_report(MPI_Comm comm)
{
    int rank, ranks, length, *lengths = NULL, *starts = NULL, total = 0;
    char *mine = write_rows(&length), *all = NULL;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    if (rank == 0) {
        lengths = calloc((size_t)ranks, sizeof *lengths);
        starts = calloc((size_t)ranks, sizeof *starts);
    }
    PMPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, comm);
    for (int i = 0; rank == 0 && i < ranks; i++) starts[i] = total, total += lengths[i];
    if (rank == 0) all = calloc(1, (size_t)total + 1);
    PMPI_Gatherv(mine, length, MPI_CHAR, all, lengths, starts, MPI_CHAR, 0, comm);
    if (rank == 0) print_table(all, ranks);
    free(mine), free(all), free(lengths), free(starts);
}
