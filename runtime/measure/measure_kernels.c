/* measure_kernels.c: searches kernels that are quicker than the model's, for `stridec tune`. Compiles all candidates
 * of a few layouts of each family in threads, verifies them, and times them in turns. */
#include "kernel/kernel_internal.h"
#include "kernel/kernel_knobs.h"
#include "progress.h"
#include "timing.h"
#include "tune/table_knobs.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A row needs a gain of this share of the model's time: medians of so many calls repeat to within that on a quiet
 * machine, and to within a quarter of the scatter (tune_scatter) on others. */
#define ROW_WORTH 0.03
#define ROW_SCATTER 0.25
#define FINALISTS 5
#define ROUNDS 3          /* of all candidates, then of the finalists */
#define CALLS 5           /* a round, after one that is not timed */
#define FINAL_CALLS 15
#define QUICK_CANDIDATES 2

static const int64_t blocks[] = {4, 8, 16, 32, 64, 128, 512};
static const int64_t sizes[] = {65536, 1048576, 4194304, 67108864};
static const int block_turns[] = {2, 0, 1, 4, 2, 5, 6}, size_turns[] = {2, 0, 1, 3};   /* their sum: a column's turn */

/* --- layouts: each function makes one of about `bytes` packed bytes --- */

/* Makes records {double, int, int, char} of 24 bytes, 17 of them used. */
static struct tree *records(int64_t unused, int64_t bytes, struct reason *why)
{
    (void)unused;
    struct tree *part[2] = {tree_dense(0, 12, why), tree_dense(16, 5, why)};
    return tree_stride(0, bytes / 17, 24, tree_seq(0, 2, part, why), why);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Makes single blocks whose starts are 1 to 4 block lengths apart. */
static struct tree *gather(int64_t block, int64_t bytes, struct reason *why)
{
    int64_t count = bytes / block, *at = malloc((size_t)count * sizeof *at), end = 0;
    uint64_t state = 1;
    for (int64_t i = 0; at && i < count; i++) at[i] = end, end += block * (1 + (int64_t)(next_random(&state) % 4));
    struct tree *t = at ? tree_index(0, count, at, tree_dense(0, block, why), why) : NULL;
    free(at);
    return t;
}

/* Makes blocks of 1 to 64 units, 32 on average. */
static struct tree *runs(int64_t unit, int64_t bytes, struct reason *why)
{
    int64_t count = bytes / unit / 32, end = 0;
    struct tree **part = malloc((size_t)count * sizeof *part);
    uint64_t state = 1;
    for (int64_t i = 0; part && i < count; i++) {
        int64_t length = unit * (1 + (int64_t)(next_random(&state) % 64));
        part[i] = tree_dense(end, length, why);
        end += length + unit * (1 + (int64_t)(next_random(&state) % 8));
    }
    struct tree *t = part ? tree_seq(0, count, part, why) : NULL;
    free(part);
    return t;
}

/* Makes a list of blocks and a column. */
static struct tree *beside(int64_t block, int64_t bytes, struct reason *why)
{
    struct tree *part[2] = {gather(block, bytes / 2, why), tune_column(4 * block, bytes / 2, why)};
    return tree_seq(0, 2, part, why);
}

struct spot {
    struct tree *(*make)(int64_t block, int64_t bytes, struct reason *why);
    int64_t block, bytes;
    int turn;   /* the most telling first */
};
struct row {
    struct spot spot;
    bool left_out;   /* no program has a kernel of its own for this layout */
    bool measured;
    struct tune_knobs best[2];   /* by gen_direction; of measured ones */
};

/* The layouts besides columns; in each family in the order that tune_knobs_add needs. */
static const struct spot others[] = {
    {records, 0, 65536, 4}, {records, 0, 1048576, 1}, {records, 0, 16777216, 5},
    {runs, 8, 65536, 4}, {runs, 8, 1048576, 2}, {runs, 8, 16777216, 5},
    {gather, 4, 65536, 5}, {gather, 4, 1048576, 3}, {gather, 4, 16777216, 6},
    {gather, 8, 65536, 4}, {gather, 8, 1048576, 1}, {gather, 8, 16777216, 5},
    {beside, 8, 65536, 6}, {beside, 8, 1048576, 4},
};
#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))

/* Returns true if moves of the layout are too short for a kernel of its own (kernel_special.c). */
static bool too_short(const struct spot *spot)
{
    struct reason why;
    struct tree *built = spot->make(spot->block, spot->bytes, &why), *t = built ? tree_canonical(built, &why) : NULL;
    struct kernel *k = t ? kernel_get(t, &why) : NULL;
    bool is = k && !kernel_special_for(k, t->size);
    kernel_put(k);
    tree_unref(t), tree_unref(built);
    return is;
}

/* Returns all rows, *n of them; the caller frees them. Those that are left out only get lines of the model's. */
static struct row *plan(bool quick, int *n)
{
    struct row *rows = calloc(1, (LENGTH(blocks) * LENGTH(sizes) + LENGTH(others)) * sizeof *rows);
    *n = 0;
    for (int i = 0; rows && i < LENGTH(blocks); i++)
        for (int j = 0; j < LENGTH(sizes); j++)
            if (!quick || (i == 1 && j == 1))
                rows[(*n)++] = (struct row){
                    .spot = {tune_column, blocks[i], sizes[j], block_turns[i] + size_turns[j]}};
    for (int i = 0; rows && i < LENGTH(others); i++)
        if (!quick || (others[i].bytes == sizes[0] && i % 2 == 0)) rows[(*n)++] = (struct row){.spot = others[i]};
    for (int i = 0; i < *n; i++)
        rows[i].left_out = rows[i].spot.make == tune_column && too_short(&rows[i].spot);
    return rows;
}

/* --- candidates of a layout --- */

/* Candidate 0 is the model's choice. The others have settings for one direction or both. */
struct candidate {
    const char *knobs[2];
    bool wrong;             /* does not compile, or moves other bytes */
    double us[2];
};
/* A candidate, and its last time in the direction at hand. */
struct timed {
    double us;
    int candidate;
};

struct contest {
    struct tune_call call;
    struct kernel *kernel;
    struct candidate *candidate;
    int n;
    char **list[2];
};

static bool list_candidates(struct contest *c, bool quick)
{
    struct reason why;
    int count[2];
    for (int i = 0; i < 2; i++) {
        count[i] = kernel_candidates(c->kernel, c->call.device, (enum kernel_direction)i, &c->list[i], &why);
        if (count[i] < 0) return false;
        if (quick && count[i] > QUICK_CANDIDATES) count[i] = QUICK_CANDIDATES;
        if (count[i] > c->n) c->n = count[i];
    }
    if (c->n < 1) c->n = 1;
    c->candidate = calloc((size_t)c->n, sizeof *c->candidate);
    for (int i = 1; c->candidate && i < c->n; i++)
        for (int way = 0; way < 2; way++) c->candidate[i].knobs[way] = i < count[way] ? c->list[way][i] : NULL;
    return c->candidate != NULL;
}

static void compile(struct contest *c)
{
    struct kernel_trial *trials = calloc((size_t)c->n, sizeof *trials);
    if (!trials) return;
    for (int i = 0; i < c->n; i++) {
        trials[i].kernel = c->kernel;
        memcpy(trials[i].knobs, c->candidate[i].knobs, sizeof trials[i].knobs);
    }
    kernel_prepare(trials, c->n, c->call.device, (int)sysconf(_SC_NPROCESSORS_ONLN));
    free(trials);
}

static const char *said(const char *knobs)
{
    return knobs ? knobs : "by the model";
}

static bool verify(struct contest *c)
{
    if (kernel_try(c->kernel, c->call.device, c->candidate[0].knobs)) return false;
    struct tune_reference *r = tune_reference(&c->call);
    for (int i = 1; r && i < c->n; i++) {
        struct candidate *one = &c->candidate[i];
        one->wrong = !tune_verify(r, one->knobs);
        if (one->wrong)
            progress_say("%s with pack %s, unpack %s: not compiled, or other bytes: left out",
                         kernel_signature(c->kernel), said(one->knobs[0]), said(one->knobs[1]));
    }
    tune_reference_free(r);
    return r != NULL;
}

/* --- timing --- */

/* Returns true if a candidate competes in a direction: it is right, and differs from the model's. */
static bool competes(const struct contest *c, int i, int way)
{
    return i == 0 || (!c->candidate[i].wrong && c->candidate[i].knobs[way]);
}

/* Finds the candidates' median times in a direction. They take turns, so that drift affects all alike. */
static bool time_some(struct contest *c, int way, struct timed some[], int n, int calls)
{
    double (*us)[ROUNDS * FINAL_CALLS] = malloc((size_t)n * sizeof *us);
    bool ok = us != NULL;
    c->call.pack = way == GEN_PACK;
    for (int round = 0; ok && round < ROUNDS; round++) {
        for (int i = 0; ok && i < n; i++) {
            const struct candidate *one = &c->candidate[some[i].candidate];
            ok = kernel_try(c->kernel, c->call.device, one->knobs) == 0 && tune_once(&c->call) >= 0;
            for (int call = 0; ok && call < calls; call++)
                ok = (us[i][round * calls + call] = tune_once(&c->call)) >= 0;
        }
    }
    for (int i = 0; ok && i < n; i++)
        c->candidate[some[i].candidate].us[way] = some[i].us = tune_median(us[i], ROUNDS * calls);
    free(us);
    return ok;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct timed *)a)->us, y = ((const struct timed *)b)->us;
    return (x > y) - (x < y);
}

/* Returns the part of the model's time that a row must stay below. */
static double worth(void)
{
    double scatter = ROW_SCATTER * tune_scatter();
    return 1 - (scatter > ROW_WORTH ? scatter : ROW_WORTH);
}

/* Returns the quickest in a direction, 0 if none is worth a row, or -1 on failure. */
static int winner(struct contest *c, int way)
{
    struct timed *some = malloc((size_t)c->n * sizeof *some);
    int n = 0;
    for (int i = 0; some && i < c->n; i++)
        if (competes(c, i, way)) some[n++] = (struct timed){0, i};
    bool ok = some && time_some(c, way, some, n, CALLS);
    if (ok) qsort(some + 1, (size_t)n - 1, sizeof *some, by_time);   /* the model's stays in front */
    n = n > FINALISTS + 1 ? FINALISTS + 1 : n;
    ok = ok && time_some(c, way, some, n, FINAL_CALLS);
    if (ok) qsort(some, (size_t)n, sizeof *some, by_time);
    int best = !ok ? -1 : some[0].us < worth() * c->candidate[0].us[way] ? some[0].candidate : 0;
    free(some);
    return best;
}

/* --- rows --- */

/* The row of a direction of a form, with the model's settings. */
static struct tune_knobs knobs_of(const struct form *f, int way)
{
    struct tune_knobs k = {.direction = (enum gen_direction)way, .family = form_family(f)};
    kernel_knobs_measure(f, &k.block, &k.bytes);
    return k;
}

static void record(struct row *row, const struct contest *c, int way, int best, struct tune_gains *gains)
{
    const struct candidate *b = &c->candidate[best];
    struct tune_knobs *k = &row->best[way];
    double gain = 1 - b->us[way] / c->candidate[0].us[way];
    *k = knobs_of(kernel_code(c->kernel)->form, way);
    if (!best) return;
    snprintf(k->settings, sizeof k->settings, "%s", b->knobs[way]);
    gains->better++, gains->sum += gain;
    if (gain > gains->most) gains->most = gain;
    progress_say("%s %s: %.1f us by the model, %.1f us with %s", tune_direction_name(k->direction),
                 kernel_signature(c->kernel), c->candidate[0].us[way], b->us[way], k->settings);
}

static int compete(struct row *row, struct contest *c, bool quick, struct tune_gains *gains)
{
    if (!list_candidates(c, quick)) return -1;
    compile(c);
    if (!verify(c)) return -1;
    for (int way = 0; way < 2; way++) {
        int best = winner(c, way);
        if (best < 0) return -1;
        record(row, c, way, best, gains);
    }
    row->measured = true;
    return kernel_try(c->kernel, c->call.device, NULL);
}

static int measure(struct row *row, struct device *d, struct stream *s, bool quick, struct tune_gains *gains)
{
    struct reason why;
    struct layout *l = tune_layout(row->spot.make(row->spot.block, row->spot.bytes, &why));
    struct contest c = {.call = {.device = d, .stream = s}};
    struct typed_buffer *p = &c.call.buffer;
    struct pool_buffer *user = l ? mempool_get(d, BUFFER_DEVICE, (size_t)l->high) : NULL;
    int rc = -1;
    if (user) {
        c.kernel = l->kernel;
        *p = tune_buffer(&transport_device, l, d, user);
        if (p->transport->acquire(p)) rc = compete(row, &c, quick, gains);
    }
    for (int way = 0; way < 2; way++)
        if (c.list[way]) gen_knob_list_free(c.list[way]);
    free(c.candidate);
    mempool_put(p->wire);
    mempool_put(user);
    layout_unref(l);
    return rc;
}

/* Adds a row's two lines: the model's where it was not measured, so that shorter layouts' settings stay with those. */
static bool add_lines(struct tune_table *t, struct row *row)
{
    struct reason why;
    struct tree *built = row->measured ? NULL : row->spot.make(row->spot.block, row->spot.bytes, &why);
    struct tree *canonical = built ? tree_canonical(built, &why) : NULL;
    struct form *f = canonical ? form_of(canonical, &why) : NULL;
    bool ok = row->measured || f;
    for (int way = 0; way < 2 && ok; way++) {
        if (f) row->best[way] = knobs_of(f, way);
        ok = tune_knobs_add(t, &row->best[way]);
    }
    form_free(f), tree_unref(canonical), tree_unref(built);
    return ok;
}

/* Returns the row whose turn is next. */
static struct row *next_row(struct row *rows, int n)
{
    struct row *next = NULL;
    for (int i = 0; i < n; i++)
        if (!rows[i].measured && !rows[i].left_out && (!next || rows[i].spot.turn < next->spot.turn)) next = &rows[i];
    return next;
}

int tune_kernels(struct tune_table *t, struct device *d, bool quick, struct tune_gains *gains)
{
    int n;
    struct row *rows = plan(quick, &n);
    if (!rows || device_enter(d)) return free(rows), -1;
    struct stream *s = stream_get(d);
    int rc = s ? 0 : -1;
    for (int i = 0; i < n; i++) gains->layouts += !rows[i].left_out;
    while (rc == 0 && gains->measured < gains->layouts &&
           progress_time_for(gains->measured ? progress_mean(gains->measured) : 0)) {
        rc = measure(next_row(rows, n), d, s, quick, gains);
        progress_step(++gains->measured, gains->layouts);
    }
    for (int i = 0; rc == 0 && gains->measured && i < n; i++) rc = add_lines(t, &rows[i]) ? 0 : -1;
    if (s) stream_put(d, s);
    device_leave(d);
    free(rows);
    return rc;
}
