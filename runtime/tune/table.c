/* table.c: reads, writes and queries tuned tables. */
#include "base/file.h"
#include "base/plain_locale.h"
#include "table_knobs.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const curve_names[TUNE_CURVES] = {
    "pack_device", "unpack_device", "pack_mapped", "unpack_mapped",
    "pack_staged", "unpack_staged", "message_host", "message_device",
    "zerocopy", "peer_read", "fused", "apart",
};
static const char *const method_names[TUNE_TRANSPORTS] = {"device", "oneshot", "staged"};
/* The three steps of each transport. */
static const enum tune_curve legs[TUNE_TRANSPORTS][3] = {
    {TUNE_PACK_DEVICE, TUNE_MESSAGE_DEVICE, TUNE_UNPACK_DEVICE},
    {TUNE_PACK_MAPPED, TUNE_MESSAGE_HOST, TUNE_UNPACK_MAPPED},
    {TUNE_PACK_STAGED, TUNE_MESSAGE_HOST, TUNE_UNPACK_STAGED},
};

/* Returns true if a curve's rows are numbers of layouts. */
static bool by_jobs(enum tune_curve c)
{
    return c == TUNE_FUSED || c == TUNE_APART;
}

const char *tune_transport_name(enum tune_transport w)
{
    return method_names[w];
}

/* --- reading --- */

struct parser {
    struct tune_table *table;
    struct tune_grid *grid;     /* of the curve being read */
    bool pipeline;              /* its line was read */
    const char *file;
    int line;
    struct reason *why;
};

static bool fail(struct parser *p, const char *what, const char *word)
{
    snprintf(p->why->text, sizeof p->why->text, "%s:%d: %s%s%.60s", p->file, p->line, what, *word ? " " : "", word);
    return false;
}

/* The largest number: microseconds or bytes. */
#define NUMBER_MAX 1e15

static bool sensible(double v)
{
    return v > 0 && v <= NUMBER_MAX;   /* false for NaN */
}

/* Reads a number with a decimal point in any locale. */
static double number(const char *s, char **end)
{
    struct plain_locale plain = plain_locale_enter();
    double v = strtod(s, end);
    plain_locale_leave(plain);
    return v;
}

/* Reads numbers to the end of the line. Returns how many, -1 if one is not valid. */
static int numbers(const char *s, double out[TUNE_POINTS_MAX])
{
    int n = 0;
    char *end;
    for (s += strspn(s, " \t"); *s; s = end + strspn(end, " \t")) {
        double v = number(s, &end);
        if (end == s || n == TUNE_POINTS_MAX || !sensible(v)) return -1;
        out[n++] = v;
    }
    return n;
}

static bool ascending(const double *v, int n)
{
    for (int i = 1; i < n; i++)
        if (v[i] <= v[i - 1]) return false;
    return true;
}

static bool read_curve(struct parser *p, const char *rest)
{
    for (int c = 0; c < TUNE_CURVES; c++) {
        if (strcmp(rest, curve_names[c])) continue;
        p->grid = &p->table->grid[c];
        return p->grid->sizes ? fail(p, "a second curve", rest) : true;
    }
    return fail(p, "unknown curve", rest);
}

static bool read_bytes(struct parser *p, const char *rest)
{
    if (!p->grid || p->grid->sizes) return fail(p, "`bytes` belongs once after each `curve`", "");
    int n = numbers(rest, p->grid->bytes);
    if (n < 1 || !ascending(p->grid->bytes, n)) return fail(p, "sizes must be positive, ascending, at most 24", "");
    p->grid->sizes = n;
    return true;
}

static bool add_row(struct parser *p, double block, const char *rest)
{
    struct tune_grid *g = p->grid;
    if (!g || !g->sizes) return fail(p, "a row before `curve` and `bytes`", "");
    if (g->blocks == TUNE_POINTS_MAX) return fail(p, "more than 24 rows", "");
    if (g->blocks && block <= g->block[g->blocks - 1]) return fail(p, "block lengths must ascend", "");
    if (numbers(rest, g->us[g->blocks]) != g->sizes) return fail(p, "a row needs one positive time for each size", "");
    g->block[g->blocks++] = block;
    return true;
}

static bool read_row(struct parser *p, const char *rest, bool jobs)
{
    char *end;
    double block = number(rest, &end);
    if (p->grid && by_jobs((enum tune_curve)(p->grid - p->table->grid)) != jobs)
        return fail(p, jobs ? "rows of this curve begin with `block`" : "rows of this curve begin with `jobs`", "");
    if (end == rest || !sensible(block)) return fail(p, "a row begins with a positive number", "");
    return add_row(p, block, end);
}

static bool read_block(struct parser *p, const char *rest)
{
    return read_row(p, rest, false);
}

static bool read_jobs(struct parser *p, const char *rest)
{
    return read_row(p, rest, true);
}

static bool read_any_row(struct parser *p, const char *rest)
{
    return add_row(p, 1, rest);
}

#define READ_WORDS(field) \
    static bool read_##field(struct parser *p, const char *rest) \
    { \
        snprintf(p->table->field, sizeof p->table->field, "%s", rest); \
        return true; \
    }
READ_WORDS(machine)
READ_WORDS(mpi)
READ_WORDS(stridec)
READ_WORDS(cuda)
READ_WORDS(date)

static bool read_pipeline(struct parser *p, const char *rest)
{
    const char *wrong = p->pipeline ? "a second line `pipeline`" : chunk_settings_read(&p->table->pipeline, rest);
    p->pipeline = true;
    return wrong ? fail(p, wrong, "") : true;
}

static bool read_host(struct parser *p, const char *rest)
{
    double least[TUNE_POINTS_MAX];
    if (numbers(rest, least) != 1 || least[0] < 1) return fail(p, "`host` needs a number of bytes", "");
    p->table->host_least = (int64_t)least[0];
    return true;
}

static bool read_shm(struct parser *p, const char *rest)
{
    const char *wrong = tune_shm_read(&p->table->offers, rest);
    return wrong ? fail(p, wrong, "") : true;
}

static bool read_map(struct parser *p, const char *rest)
{
    (void)p, (void)rest;   /* a line of earlier versions of stridec, ignored */
    return true;
}

static bool read_knobs(struct parser *p, const char *rest)
{
    const char *wrong = tune_knobs_read(p->table, rest, p->line);
    return wrong ? fail(p, wrong, "") : true;
}

static const struct {
    const char *word;
    bool (*read)(struct parser *p, const char *rest);
} lines[] = {
    {"machine", read_machine}, {"mpi", read_mpi}, {"date", read_date}, {"curve", read_curve},
    {"bytes", read_bytes}, {"block", read_block}, {"any", read_any_row}, {"knobs", read_knobs},
    {"pipeline", read_pipeline}, {"host", read_host}, {"offer", read_shm},     {"map", read_map},
    {"stridec", read_stridec}, {"cuda", read_cuda}, {"jobs", read_jobs},
};

static bool read_line(struct parser *p, char *line)
{
    line += strspn(line, " \t");
    size_t n = strlen(line);
    while (n && strchr(" \t\r", line[n - 1])) line[--n] = 0;
    if (!*line || *line == '#') return true;
    size_t word = strcspn(line, " \t");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strlen(lines[i].word) == word && !strncmp(line, lines[i].word, word))
            return lines[i].read(p, line + word + strspn(line + word, " \t"));
    return fail(p, "unknown line:", line);
}

/* Copies the built-in curves into a table without any. Returns true if it did. */
static bool borrow_builtin(struct tune_table *t)
{
    struct reason why;
    for (int c = 0; c < TUNE_CURVES; c++)
        if (t->grid[c].sizes) return false;
    struct tune_table *usual = tune_parse(tune_builtin, "built-in", &why);
    if (usual) memcpy(t->grid, usual->grid, sizeof t->grid);
    free(usual);
    return t->borrowed = usual != NULL;
}

/* Checks the curves for host transports. A device curve without rows counts as not measured. */
static bool check_needed(struct parser *p)
{
    static const enum tune_curve needed[] = {TUNE_PACK_MAPPED, TUNE_UNPACK_MAPPED, TUNE_PACK_STAGED,
                                             TUNE_UNPACK_STAGED, TUNE_MESSAGE_HOST};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!p->table->grid[needed[i]].blocks) return fail(p, "no rows for curve", curve_names[needed[i]]);
    return true;
}

struct tune_table *tune_parse(const char *text, const char *file, struct reason *why)
{
    struct parser p = {.table = calloc(1, sizeof *p.table), .file = file, .line = 1, .why = why};
    char *copy = strdup(text), *at = copy, *line;
    bool ok = p.table && copy;
    if (!ok) snprintf(why->text, sizeof why->text, "%s: out of memory", file);
    else p.table->host_least = TUNE_HOST_LEAST, p.table->pipeline = CHUNK_SETTINGS_DEFAULT;
    if (ok && ((line = strsep(&at, "\n")), strcmp(line, "stridec tune 1")))
        ok = fail(&p, "the first line of a tuned table is `stridec tune 1`", "");
    for (p.line = 2; ok && (line = strsep(&at, "\n")); p.line++) ok = read_line(&p, line);
    ok = ok && (borrow_builtin(p.table) || check_needed(&p));
    free(copy);
    if (ok) return p.table;
    free(p.table);
    return NULL;
}

/* Tables have a few kilobytes; a longer file is something else. */
#define FILE_MAX ((size_t)1 << 20)

struct tune_table *tune_read(const char *file, struct reason *why)
{
    size_t n;
    const char *reason;
    struct tune_table *t = NULL;
    char *text = file_read(file, FILE_INSTALLED, FILE_MAX, &n, &reason);
    bool other = text ? memchr(text, 0, n) != NULL : errno == EFBIG;
    if (other) snprintf(why->text, sizeof why->text, "%s:1: not a tuned table", file);
    else if (!text) snprintf(why->text, sizeof why->text, "%s: %s", file, reason);
    else t = tune_parse(text, file, why);
    free(text);
    return t;
}

/* --- writing --- */

static void write_grid(const struct tune_table *t, enum tune_curve c, FILE *f)
{
    const struct tune_grid *g = &t->grid[c];
    fprintf(f, "\ncurve %s\nbytes     ", curve_names[c]);
    for (int j = 0; j < g->sizes; j++) fprintf(f, " %9.0f", g->bytes[j]);
    for (int i = 0; i < g->blocks; i++) {
        if (by_jobs(c)) fprintf(f, "\njobs %-5.0f", g->block[i]);
        else if (g->blocks == 1 && g->block[i] == 1) fprintf(f, "\nany       ");
        else fprintf(f, "\nblock %-4.0f", g->block[i]);
        for (int j = 0; j < g->sizes; j++) fprintf(f, " %9.2f", g->us[i][j]);
    }
    fputc('\n', f);
}

void tune_write(const struct tune_table *t, FILE *f)
{
    fprintf(f, "stridec tune 1\nmachine %s\nmpi %s\n", t->machine, t->mpi);
    if (*t->stridec) fprintf(f, "stridec %s\n", t->stridec);
    if (*t->cuda) fprintf(f, "cuda %s\n", t->cuda);
    fprintf(f, "date %s\n", t->date);
    if (!t->borrowed)
        fprintf(f, "# Microseconds for one call, waited for; columns: packed bytes, rows: block length in bytes.\n");
    for (int c = 0; c < TUNE_CURVES; c++)
        if (t->grid[c].blocks && !t->borrowed) write_grid(t, (enum tune_curve)c, f);
    chunk_settings_write(&t->pipeline, f);
    fprintf(f, "\nhost %lld\n", (long long)(t->host_least ? t->host_least : TUNE_HOST_LEAST));
    tune_shm_write(&t->offers, f);
    tune_knobs_write(t, f);
}

/* --- queries --- */

/* Returns the interval of v that holds x, the first or last if x is outside; n >= 2. */
static int interval(const double *v, int n, double x)
{
    int i = 0;
    while (i < n - 2 && x >= v[i + 1]) i++;
    return i;
}

static double between(double x, double x0, double x1, double y0, double y1)
{
    return y0 + (y1 - y0) * (log2(x) - log2(x0)) / (log2(x1) - log2(x0));
}

/* Returns the logarithm of a row's time at `bytes`. Smaller sizes take the time of the smallest. */
static double row_time(const struct tune_grid *g, int row, double bytes)
{
    const double *us = g->us[row];
    if (g->sizes == 1 || bytes <= g->bytes[0]) return log2(us[0]);
    int j = interval(g->bytes, g->sizes, bytes);
    return between(bytes, g->bytes[j], g->bytes[j + 1], log2(us[j]), log2(us[j + 1]));
}

double tune_time(const struct tune_table *t, enum tune_curve c, double block, double bytes)
{
    const struct tune_grid *g = &t->grid[c];
    if (!g->blocks) return -1;
    int last = g->blocks - 1;
    if (last == 0 || block <= g->block[0]) return exp2(row_time(g, 0, bytes));
    if (block >= g->block[last]) return exp2(row_time(g, last, bytes));
    int i = interval(g->block, g->blocks, block);
    return exp2(between(block, g->block[i], g->block[i + 1], row_time(g, i, bytes), row_time(g, i + 1, bytes)));
}

double tune_transport_time(const struct tune_table *t, enum tune_transport w, double block, double bytes)
{
    double sum = 0;
    for (int leg = 0; leg < 3; leg++) {
        double us = tune_time(t, legs[w][leg], block, bytes);
        if (us < 0) return -1;
        sum += us;
    }
    return sum;
}

enum tune_transport tune_choose(const struct tune_table *t, bool aware, double block, double bytes)
{
    enum tune_transport best = TUNE_ONESHOT;
    double best_us = -1;
    for (int w = 0; w < TUNE_TRANSPORTS; w++) {
        double us = w == TUNE_DEVICE && !aware ? -1 : tune_transport_time(t, (enum tune_transport)w, block, bytes);
        if (us >= 0 && (best_us < 0 || us < best_us)) best_us = us, best = (enum tune_transport)w;
    }
    return best;
}
