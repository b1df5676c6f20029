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

/* Transports kept per row, in the order of first use. */
#define STATS_TRANSPORTS 8
/* Reasons to leave a type to the MPI, and type names, per row. */
#define STATS_REASONS 6
#define STATS_NAMES 4

struct added_line {
    char *line;
    struct added_line *next;
};

struct passed {
    _Atomic(const char *) why;
    _Atomic int64_t calls, bytes;
};

struct stats_row {
    char *signature;
    const char *family;
    _Atomic int64_t calls, bytes, timed, launches, nanoseconds;   /* timed: bytes of timed calls */
    _Atomic(const char *) transports[STATS_TRANSPORTS];
    _Atomic(const char *) state;
    struct added_line *lines;   /* latest first */
    char *rule, *names[STATS_NAMES];
    struct passed passed[STATS_REASONS];
    UT_hash_handle hh;
};

static struct stats_row *rows;
static struct stats_row shared_row = {.signature = "(other)", .family = "-"};
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;

/* A longer signature is shown by its first characters and a hash. */
#define SIGNATURE_SHOWN_MAX 120

static void shorten_signature(char *out, size_t size, const char *signature)
{
    size_t n = strlen(signature);
    if (n < size) memcpy(out, signature, n + 1);
    else
        snprintf(out, size, "%.*s...#%016llx", SIGNATURE_SHOWN_MAX, signature,
                 (unsigned long long)XXH64(signature, n, 0));
}

struct stats_row *stats_row(const char *signature, const char *family)
{
    struct stats_row *row = NULL;
    char key[SIGNATURE_SHOWN_MAX + 24];
    if (!signature || !env_get()->stats) return &shared_row;
    shorten_signature(key, sizeof key, signature);
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

static void note_transport(struct stats_row *row, const char *way)
{
    for (int i = 0; i < STATS_TRANSPORTS; i++) {
        const char *seen = NULL;
        if (atomic_load_explicit(&row->transports[i], memory_order_relaxed) == way) return;
        if (atomic_compare_exchange_strong(&row->transports[i], &seen, way) || seen == way) return;
    }
}

void stats_add(struct stats_row *row, const struct stats_sample *s)
{
    atomic_fetch_add_explicit(&row->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->bytes, s->bytes, memory_order_relaxed);
    if (s->nanoseconds) atomic_fetch_add_explicit(&row->timed, s->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->launches, s->launches, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->nanoseconds, s->nanoseconds, memory_order_relaxed);
    if (s->transport) note_transport(row, s->transport);
    if (s->state) atomic_store_explicit(&row->state, s->state, memory_order_relaxed);
}

void stats_add_line(struct stats_row *row, const char *line)
{
    struct added_line *t = row == &shared_row ? NULL : calloc(1, sizeof *t);
    if (!t || !(t->line = strdup(line))) {
        free(t);
        return;
    }
    pthread_mutex_lock(&rows_lock);
    t->next = row->lines;
    row->lines = t;
    pthread_mutex_unlock(&rows_lock);
}

void stats_set_rule(struct stats_row *row, const char *line)
{
    if (row == &shared_row) return;
    pthread_mutex_lock(&rows_lock);
    if (!row->rule) row->rule = strdup(line);
    pthread_mutex_unlock(&rows_lock);
}

void stats_add_passed(struct stats_row *row, const char *why, int64_t bytes)
{
    for (int i = 0; i < STATS_REASONS && row != &shared_row; i++) {
        struct passed *l = &row->passed[i];
        const char *seen = NULL;
        if (!atomic_compare_exchange_strong(&l->why, &seen, why) && seen != why) continue;
        atomic_fetch_add_explicit(&l->calls, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->bytes, bytes, memory_order_relaxed);
        return;
    }
}

/* Replaces control characters, which would end a field in write_row. */
static void plain_text(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ') *text = ' ';
}

void stats_add_name(struct stats_row *row, const char *name)
{
    int i = 0;
    if (row == &shared_row || !*name) return;
    pthread_mutex_lock(&rows_lock);
    while (i < STATS_NAMES && row->names[i] && strcmp(row->names[i], name) != 0) i++;
    if (i < STATS_NAMES && !row->names[i] && (row->names[i] = strdup(name))) plain_text(row->names[i]);
    pthread_mutex_unlock(&rows_lock);
}

/* Writes a row for the gather: a line of fields with tabs, then detail lines with a tab and a letter (merge_detail). */
static void write_row(FILE *f, const struct stats_row *row)
{
    const char *state = row->state ? row->state : "";
    bool cached = !strcmp(state, "cache") || !strcmp(state, "aot");
    fprintf(f, "%s\t%s\t%lld\t%lld\t%lld\t%lld\t%lld\t%d\t%d\t", row->signature, row->family, (long long)row->calls,
            (long long)row->bytes, (long long)row->timed, (long long)row->launches, (long long)row->nanoseconds,
            !strcmp(state, "compiled"), cached);
    for (int i = 0; i < STATS_TRANSPORTS && row->transports[i]; i++)
        fprintf(f, "%s%s", i ? "," : "", row->transports[i]);
    fputc('\n', f);
    for (int i = 0; i < STATS_NAMES && row->names[i]; i++) fprintf(f, "\tn%s\n", row->names[i]);
    for (int i = 0; i < STATS_REASONS && row->passed[i].why; i++)
        fprintf(f, "\tl%lld\t%lld\t%s\n", (long long)row->passed[i].calls, (long long)row->passed[i].bytes,
                row->passed[i].why);
    if (row->rule) fprintf(f, "\tr%s\n", row->rule);
    for (const struct added_line *t = row->lines; t; t = t->next) fprintf(f, "\tt%s\n", t->line);
}

static bool row_has_content(const struct stats_row *row)
{
    return row->calls || row->passed[0].why || row->rule || row->lines;
}

static char *write_rows(int *length)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        for (struct stats_row *row = rows; row; row = row->hh.next)
            if (row_has_content(row)) write_row(f, row);
        if (shared_row.calls) write_row(f, &shared_row);
        fclose(f);
    }
    *length = (int)size;
    return text;
}

struct total {
    char *signature, family[16], transports[96];
    long long calls, bytes, timed, launches, nanoseconds;
    int compiled, cached;
    char names[160];
    char *rule;
    struct added_line *lines;
    struct passed passed[STATS_REASONS];
    UT_hash_handle hh;
};

/* Adds the new words of a list with commas. */
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

/* Adds a line, once for all ranks. */
static void merge_added_line(struct total *t, char *line)
{
    for (const struct added_line *o = t->lines; o; o = o->next)
        if (!strcmp(o->line, line)) return;
    struct added_line *one = malloc(sizeof *one);
    if (!one) return;
    *one = (struct added_line){line, t->lines};
    t->lines = one;
}

/* Adds a line "CALLS\tBYTES\tWHY". */
static void merge_passed(struct total *t, const char *line)
{
    long long calls = 0, bytes = 0;
    int at = 0, i = 0;
    if (sscanf(line, "%lld\t%lld\t%n", &calls, &bytes, &at) < 2 || !at) return;
    while (i < STATS_REASONS && t->passed[i].why && strcmp(t->passed[i].why, line + at) != 0) i++;
    if (i == STATS_REASONS) return;
    t->passed[i].why = line + at;
    t->passed[i].calls += calls;
    t->passed[i].bytes += bytes;
}

/* Adds a detail line of write_row to its row; `line` begins after the tab. */
static void merge_detail(struct total *t, char *line)
{
    switch (*line) {
    case 'n': merge_words(t->names, sizeof t->names, line + 1); break;
    case 'l': merge_passed(t, line + 1); break;
    case 'r': t->rule = line + 1; break;
    default: merge_added_line(t, line + 1);
    }
}

/* Adds one line. A line that begins with a tab belongs to *last, the total of the row before. */
static void merge_line(struct total **totals, struct total **last, char *line)
{
    struct total one = {.signature = line}, *t;
    char *rest = strchr(line, '\t'), transports[96] = "";
    if (rest == line && *last) merge_detail(*last, line + 1);
    if (!rest || rest == line) return;
    *rest++ = 0;
    if (sscanf(rest, "%15[^\t]\t%lld\t%lld\t%lld\t%lld\t%lld\t%d\t%d\t%95s", one.family, &one.calls, &one.bytes,
               &one.timed, &one.launches, &one.nanoseconds, &one.compiled, &one.cached, transports) < 8) return;
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
    merge_words(t->transports, sizeof t->transports, transports);
    *last = t;
}

static void print_lines(struct added_line *t)
{
    for (struct added_line *next; t; t = next) {
        next = t->next;
        fprintf(stderr, "%10s %s\n", "", t->line);
        free(t);
    }
}

/* Prints what the MPI served; the reason alone if no call was counted. */
static void print_passed(const struct total *t)
{
    for (int i = 0; i < STATS_REASONS && t->passed[i].why; i++)
        fprintf(stderr, "%10s left to the MPI: %lld call%s, %lld bytes: %s\n", "", (long long)t->passed[i].calls,
                t->passed[i].calls == 1 ? "" : "s", (long long)t->passed[i].bytes, t->passed[i].why);
    if (!t->calls && !t->passed[0].why && t->rule)
        fprintf(stderr, "%10s left to the MPI, uncounted: %s\n", "", t->rule);
}

static long long weight(const struct total *t)
{
    long long bytes = t->bytes;
    for (int i = 0; i < STATS_REASONS; i++) bytes += t->passed[i].bytes;
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
            *t->transports ? t->transports : "-", t->launches, t->compiled, t->cached, rate, t->names,
            *t->names ? ": " : "", t->signature);
    print_passed(t);
    print_lines(t->lines);
}

static void print_table(char *text, int ranks, const struct stats_uncounted *rest, long unread)
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

void stats_report(MPI_Comm comm, const struct stats_uncounted *rest)
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
