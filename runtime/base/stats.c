/* stats.c: rows of counters, and the table at the end. */
#include "stats.h"
#include "env.h"
#include "hash_table.h"
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
/* Reasons to leave a type to the MPI, and names of a row's types. */
#define STATS_REASONS 6
#define STATS_NAMES 4

struct told {
    char *line;
    struct told *next;
};

struct left {
    _Atomic(const char *) why;
    _Atomic int64_t calls, bytes;
};

struct stats_row {
    char *signature;
    const char *family;
    _Atomic int64_t calls, bytes, timed, launches, nanoseconds, compiled, cached;   /* timed: of the bytes */
    _Atomic(const char *) ways[STATS_WAYS];
    _Atomic(const char *) state;
    struct told *told;   /* the last one first */
    char *rule, *names[STATS_NAMES];
    struct left left[STATS_REASONS];
    UT_hash_handle hh;
};

static struct stats_row *rows;
static struct stats_row shared_row = {.signature = "(other)", .family = "-"};
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;

/* Signatures of long lists are shown by their beginning and a hash of the whole. */
#define RTS_SHORT_CHARS 120

static void brief(char *out, size_t size, const char *signature)
{
    size_t n = strlen(signature);
    if (n < size) memcpy(out, signature, n + 1);
    else snprintf(out, size, "%.*s...#%016llx", RTS_SHORT_CHARS, signature, (unsigned long long)XXH64(signature, n, 0));
}

struct stats_row *stats_row(const char *signature, const char *family)
{
    struct stats_row *row = NULL;
    char key[RTS_SHORT_CHARS + 24];
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

void stats_rule(struct stats_row *row, const char *line)
{
    if (row == &shared_row) return;
    pthread_mutex_lock(&rows_lock);
    if (!row->rule) row->rule = strdup(line);
    pthread_mutex_unlock(&rows_lock);
}

void stats_left(struct stats_row *row, const char *why, int64_t bytes)
{
    for (int i = 0; i < STATS_REASONS && row != &shared_row; i++) {
        struct left *l = &row->left[i];
        const char *seen = NULL;
        if (!atomic_compare_exchange_strong(&l->why, &seen, why) && seen != why) continue;
        atomic_fetch_add_explicit(&l->calls, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->bytes, bytes, memory_order_relaxed);
        return;
    }
}

/* Letters below a blank would end a field of what write_rows writes. */
static void plain_text(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ') *text = ' ';
}

void stats_name(struct stats_row *row, const char *name)
{
    int i = 0;
    if (row == &shared_row || !*name) return;
    pthread_mutex_lock(&rows_lock);
    while (i < STATS_NAMES && row->names[i] && strcmp(row->names[i], name) != 0) i++;
    if (i < STATS_NAMES && !row->names[i] && (row->names[i] = strdup(name))) plain_text(row->names[i]);
    pthread_mutex_unlock(&rows_lock);
}

/* One row as text for the wire: fields by tabs, a line each; then what belongs to it, in lines that begin with a tab
 * and a letter (merge_more). */
static void write_row(FILE *f, const struct stats_row *row)
{
    const char *state = row->state ? row->state : "";
    bool cached = !strcmp(state, "cache") || !strcmp(state, "aot");
    fprintf(f, "%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%d\t%d\t", row->signature, row->family, (long long)row->calls,
            (long long)row->bytes, (long long)row->timed, (long long)row->launches, (long long)row->nanoseconds,
            !strcmp(state, "compiled"), cached);
    for (int i = 0; i < STATS_WAYS && row->ways[i]; i++) fprintf(f, "%s%s", i ? "," : "", row->ways[i]);
    fputc('\n', f);
    for (int i = 0; i < STATS_NAMES && row->names[i]; i++) fprintf(f, "\tn%s\n", row->names[i]);
    for (int i = 0; i < STATS_REASONS && row->left[i].why; i++)
        fprintf(f, "\tl%lld\t%lld\t%s\n", (long long)row->left[i].calls, (long long)row->left[i].bytes,
                row->left[i].why);
    if (row->rule) fprintf(f, "\tr%s\n", row->rule);
    for (const struct told *t = row->told; t; t = t->next) fprintf(f, "\tt%s\n", t->line);
}

static bool worth_telling(const struct stats_row *row)
{
    return row->calls || row->left[0].why || row->rule || row->told;
}

static char *write_rows(int *length)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        for (struct stats_row *row = rows; row; row = row->hh.next)
            if (worth_telling(row)) write_row(f, row);
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
    char names[160];
    char *rule;
    struct told *told;
    struct {
        const char *why;
        long long calls, bytes;
    } left[STATS_REASONS];
    UT_hash_handle hh;
};

/* Adds the words of a list that commas part, those that are new. */
static void merge_words(char *into, size_t size, const char *more)
{
    for (size_t length; *more; more += length + (more[length] == ',')) {
        length = strcspn(more, ",");
        size_t n = strlen(into);
        bool known = false;
        for (const char *at = into; *at && !known; at += strcspn(at, ","), at += *at == ',')
            known = strcspn(at, ",") == length && !memcmp(at, more, length);
        if (!known) snprintf(into + n, size - n, "%s%.*s", n ? "," : "", (int)length, more);
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

/* "CALLS\tBYTES\tWHY" */
static void merge_left(struct total *t, const char *line)
{
    long long calls = 0, bytes = 0;
    int at = 0, i = 0;
    if (sscanf(line, "%lld\t%lld\t%n", &calls, &bytes, &at) < 2 || !at) return;
    while (i < STATS_REASONS && t->left[i].why && strcmp(t->left[i].why, line + at) != 0) i++;
    if (i == STATS_REASONS) return;
    t->left[i].why = line + at;
    t->left[i].calls += calls, t->left[i].bytes += bytes;
}

/* A line of write_row's that belongs to the row before it, without the tab. */
static void merge_more(struct total *t, char *line)
{
    switch (*line) {
    case 'n': merge_words(t->names, sizeof t->names, line + 1); break;
    case 'l': merge_left(t, line + 1); break;
    case 'r': t->rule = line + 1; break;
    default: merge_told(t, line + 1);
    }
}

/* A line that begins with a tab belongs to *last, the total of the row before it. */
static void merge_line(struct total **totals, struct total **last, char *line)
{
    struct total one = {.signature = line}, *t;
    char *rest = strchr(line, '\t'), ways[96] = "";
    if (rest == line && *last) merge_more(*last, line + 1);
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
    merge_words(t->ways, sizeof t->ways, ways);
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

/* The MPI's part; how it came to that is said where nothing at all was counted. */
static void print_left(const struct total *t)
{
    for (int i = 0; i < STATS_REASONS && t->left[i].why; i++)
        fprintf(stderr, "%10s left to the MPI: %lld call%s, %lld bytes: %s\n", "", t->left[i].calls,
                t->left[i].calls == 1 ? "" : "s", t->left[i].bytes, t->left[i].why);
    if (!t->calls && !t->left[0].why && t->rule) fprintf(stderr, "%10s left to the MPI, uncounted: %s\n", "", t->rule);
}

static long long weight(const struct total *t)
{
    long long bytes = t->bytes;
    for (int i = 0; i < STATS_REASONS; i++) bytes += t->left[i].bytes;
    return bytes;
}

static int by_bytes(const struct total *a, const struct total *b)
{
    return (weight(a) < weight(b)) - (weight(a) > weight(b));
}

static void print_total(struct total *t)
{
    char rate[16] = "-";
    if (t->nanoseconds) snprintf(rate, sizeof rate, "%.3g", (double)t->timed / (double)t->nanoseconds);
    fprintf(stderr, "%10lld %14lld %-10s %-16s %9lld %8d %6d %8s  %s%s%s\n", t->calls, t->bytes, t->family,
            *t->ways ? t->ways : "-", t->launches, t->compiled, t->cached, rate, t->names, *t->names ? ": " : "",
            t->signature);
    print_left(t);
    print_told(t->told);
}

static void print_table(char *text, int ranks, const struct stats_rest *rest, long unread)
{
    struct total *totals = NULL, *last = NULL, *t, *next;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        merge_line(&totals, &last, line);
    HASH_SORT(totals, by_bytes);
    fprintf(stderr, "stridec: %d rank%s, %u datatype%s, all ranks summed\n", ranks,
            ranks == 1 ? "" : "s", HASH_COUNT(totals), HASH_COUNT(totals) == 1 ? "" : "s");
    if (totals)
        fprintf(stderr, "%10s %14s %-10s %-16s %9s %8s %6s %8s  %s\n", "calls", "bytes", "family", "transport",
                "launches", "compiled", "cached", "GB/s", "signature");
    else
        fprintf(stderr, "%10s nothing was counted: %s\n", "", rest->empty);
    HASH_ITER(hh, totals, t, next) {
        print_total(t);
        HASH_DEL(totals, t);
        free(t);
    }
    if (unread)
        fprintf(stderr,
                "%10s left to the MPI, uncounted: %ld derived type%s in host memory, used too seldom to be read\n", "",
                unread, unread == 1 ? "" : "s");
}

void stats_report(MPI_Comm comm, const struct stats_rest *rest)
{
    int rank, ranks, length, *lengths = NULL, *starts = NULL, total = 0;
    char *mine = write_rows(&length), *all = NULL;
    long unread = 0;
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
    PMPI_Reduce(&rest->unread, &unread, 1, MPI_LONG, MPI_SUM, 0, comm);
    if (rank == 0) print_table(all, ranks, rest, unread);
    free(mine), free(all), free(lengths), free(starts);
}
