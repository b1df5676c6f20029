/* stats.c: rows of counters of this rank. */
#include "stats.h"
#include "base/env.h"
#include "stats_job.h"
#define XXH_INLINE_ALL
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* Ways kept per row, in the order of first use: of so many sizes, then one of all other sizes for each transport. */
#define WAYS_SIZED 24
#define WAYS 40
/* Names kept per row. */
#define NAMES 4

struct passed {
    _Atomic(const char *) why;
    _Atomic int64_t calls, bytes;
};

struct way {
    const char *transport;
    int64_t message_bytes;   /* -1: of all other sizes */
    _Atomic int64_t calls, bytes;
    char *why;               /* under rows_lock */
};

struct stats_row {
    char *signature, *form, *reads, *whole;   /* the last three: NULL until stats_describe */
    const char *family;
    int64_t size, extent;
    _Atomic int64_t calls, bytes, timed, launches, nanoseconds;   /* timed: bytes of timed calls */
    atomic_bool described;
    _Atomic(const char *) state;
    struct way way[WAYS];
    atomic_int ways;   /* those are set; a new one under rows_lock */
    struct stats_line *lines;   /* latest first */
    char *rule, *names[NAMES];
    struct passed passed[STATS_REASONS];
    UT_hash_handle hh;
};

static struct stats_row *rows;
static struct stats_row shared_row = {.signature = "(other)", .family = "-", .described = true};
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t started;
static int sent_ranks;
_Atomic int64_t *stats_sent;

/* A longer signature is shown by its first characters and a hash. */
#define SIGNATURE_SHOWN_MAX 120
#define SIGNATURE_ROOM (SIGNATURE_SHOWN_MAX + 24)

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
    char key[SIGNATURE_ROOM];
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

/* Replaces control characters, which would end a field of stats_write_total. */
static char *plain_copy(const char *text)
{
    char *copy = strdup(text);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    return copy;
}

bool stats_described(const struct stats_row *row)
{
    return atomic_load(&row->described);
}

void stats_describe(struct stats_row *row, const struct stats_type *type)
{
    char form[SIGNATURE_ROOM];
    shorten_signature(form, sizeof form, type->form);
    pthread_mutex_lock(&rows_lock);
    if (!atomic_exchange(&row->described, true)) {
        row->form = strdup(form), row->reads = plain_copy(type->reads);
        row->whole = type->whole ? strdup(type->whole) : NULL;
        row->size = type->size, row->extent = type->extent;
    }
    pthread_mutex_unlock(&rows_lock);
}

int64_t stats_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct way *find_way(struct stats_row *row, const char *transport, int64_t bytes)
{
    int n = atomic_load_explicit(&row->ways, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        struct way *w = &row->way[i];
        if (w->message_bytes == bytes && (w->transport == transport || !strcmp(w->transport, transport))) return w;
    }
    return NULL;
}

/* Adds a way, unless another thread has. Returns NULL if the table is full. */
static struct way *add_way(struct stats_row *row, const char *transport, int64_t bytes)
{
    pthread_mutex_lock(&rows_lock);
    struct way *w = find_way(row, transport, bytes);
    int n = atomic_load(&row->ways);
    if (!w && n < (bytes >= 0 ? WAYS_SIZED : WAYS)) {
        w = &row->way[n];
        w->transport = transport, w->message_bytes = bytes;
        atomic_store_explicit(&row->ways, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&rows_lock);
    return w;
}

static struct way *way_of(struct stats_row *row, const char *transport, int64_t bytes)
{
    struct way *w = find_way(row, transport, bytes);
    if (!w) w = add_way(row, transport, bytes);
    if (!w) w = find_way(row, transport, -1);
    return w ? w : add_way(row, transport, -1);
}

void stats_add(struct stats_row *row, const struct stats_sample *s)
{
    atomic_fetch_add_explicit(&row->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->bytes, s->bytes, memory_order_relaxed);
    if (s->nanoseconds) atomic_fetch_add_explicit(&row->timed, s->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->launches, s->launches, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->nanoseconds, s->nanoseconds, memory_order_relaxed);
    if (s->state) atomic_store_explicit(&row->state, s->state, memory_order_relaxed);
    struct way *w = s->transport && row != &shared_row ? way_of(row, s->transport, s->bytes) : NULL;
    if (!w) return;
    atomic_fetch_add_explicit(&w->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->bytes, s->bytes, memory_order_relaxed);
}

void stats_set_why(struct stats_row *row, const char *transport, int64_t bytes, const char *why)
{
    struct way *w = row == &shared_row ? NULL : way_of(row, transport, bytes);
    pthread_mutex_lock(&rows_lock);
    if (w && !w->why) w->why = plain_copy(why);
    pthread_mutex_unlock(&rows_lock);
}

void stats_add_line(struct stats_row *row, const char *line)
{
    struct stats_line *t = row == &shared_row ? NULL : calloc(1, sizeof *t);
    if (!t || !(t->text = plain_copy(line))) {
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
    if (!row->rule) row->rule = plain_copy(line);
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

void stats_add_name(struct stats_row *row, const char *name)
{
    int i = 0;
    char *plain = row == &shared_row || !*name ? NULL : plain_copy(name);
    if (!plain) return;
    pthread_mutex_lock(&rows_lock);
    while (i < NAMES && row->names[i] && strcmp(row->names[i], plain) != 0) i++;
    if (i < NAMES && !row->names[i]) row->names[i] = plain, plain = NULL;
    pthread_mutex_unlock(&rows_lock);
    free(plain);
}

/*
 * The job.
 */

void stats_start(int ranks)
{
    started = stats_now();
    if (stats_sent || env_get()->stats_form != ENV_STATS_JSON || ranks <= 0 || world_rank_start()) return;
    stats_sent = calloc((size_t)ranks, sizeof *stats_sent);
    sent_ranks = stats_sent ? ranks : 0;
}

double stats_seconds(void)
{
    return started ? (double)(stats_now() - started) / 1e9 : 0;
}

void stats_add_sent_to(int rank, int64_t bytes)
{
    if (rank >= 0 && rank < sent_ranks) atomic_fetch_add_explicit(&stats_sent[rank], bytes, memory_order_relaxed);
}

static int state_index(const char *name)
{
    int i = 0;
    if (!strcmp(name, "aot")) name = stats_state_names[STATS_AHEAD];
    while (i < STATS_STATES && strcmp(stats_state_names[i], name) != 0) i++;
    return i;
}

static void write_row(FILE *f, const struct stats_row *row)
{
    struct stats_way ways[WAYS];
    struct stats_total t = {
        .signature = row->signature, .family = row->family, .form = row->form ? row->form : row->signature,
        .reads = row->reads, .whole = row->whole, .rule = row->rule, .size = row->size, .extent = row->extent,
        .calls = row->calls, .bytes = row->bytes, .timed = row->timed, .launches = row->launches,
        .nanoseconds = row->nanoseconds, .way = ways, .ways = row->ways, .lines = row->lines};
    int state = row->state ? state_index(row->state) : STATS_STATES;
    if (state < STATS_STATES) t.states[state] = 1;
    for (int i = 0; i < NAMES; i++) t.names[i] = row->names[i];
    for (int i = 0; i < STATS_REASONS; i++)
        t.left[i] = (struct stats_left){row->passed[i].why, row->passed[i].calls, row->passed[i].bytes};
    for (int i = 0; i < t.ways; i++) {
        const struct way *w = &row->way[i];
        ways[i] = (struct stats_way){w->transport, w->why ? w->why : "", w->message_bytes, w->calls, w->bytes};
    }
    stats_write_total(f, &t, true);
}

static bool row_has_content(const struct stats_row *row)
{
    return row->calls || row->passed[0].why || row->rule || row->lines || row->whole;
}

void stats_write_rows(FILE *f)
{
    int rank = 0;
    pthread_mutex_lock(&rows_lock);
    for (struct stats_row *row = rows; row; row = row->hh.next)
        if (row_has_content(row)) write_row(f, row);
    pthread_mutex_unlock(&rows_lock);
    if (shared_row.calls) write_row(f, &shared_row);
    if (sent_ranks) PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < sent_ranks; i++)
        if (stats_sent[i]) fprintf(f, "p\t%d\t%d\t%lld\n", rank, i, (long long)stats_sent[i]);
}
