/* findings.c: see findings.h. */
#include "findings.h"
#include "timing.h"
#include "tune/table_fit.h"
#include "tune/verdict.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 128
#define BLOCK 64   /* bytes: of the lines that tell of one length of blocks */

struct line {
    char found[WORDS], assumed[WORDS];
};

static void print(const char *what, const struct line *l)
{
    printf("%-9s  found: %s; assumed: %s\n", what, l->found, l->assumed);
}

/* --- sizes from which on a way is better --- */

typedef bool is_better(const struct tune_table *t, double bytes);

static struct tune_message message_of(double bytes)
{
    return (struct tune_message){.aware = mpi_cuda_aware(), .block = BLOCK, .bytes = bytes};
}

static bool zerocopy_is(const struct tune_table *t, double bytes)
{
    struct tune_message m = message_of(bytes);
    return tune_judge(t, &m).direct;
}

static bool oneshot_is_not(const struct tune_table *t, double bytes)
{
    return tune_choose(t, mpi_cuda_aware(), BLOCK, bytes) != TUNE_ONESHOT;
}

/* Writes the least size, of those up to `most`, from which on all are better. */
static void from(const struct tune_table *t, double most, is_better *better, char text[32])
{
    const struct tune_points *points = tune_points(false);
    int all = points->sizes;
    while (all && points->bytes[all - 1] > most) all--;
    int i = all;
    while (i && better(t, points->bytes[i - 1])) i--;
    double bytes = i < all ? points->bytes[i] : 0;
    if (i == all) snprintf(text, 32, "never");
    else if (i == 0) snprintf(text, 32, "always");
    else if (bytes < 1024) snprintf(text, 32, "from %.0f B", bytes);
    else if (bytes < 1 << 20) snprintf(text, 32, "from %.0f KiB", bytes / 1024);
    else snprintf(text, 32, "from %.0f MiB", bytes / (1 << 20));
}

/* Tells of blocks of 64 B: within a node, and what takes the place of packing into host memory elsewhere. */
static void say_crossings(const struct tune_table *t, double most, char text[WORDS])
{
    char zerocopy[32], other[32];
    from(t, most, zerocopy_is, zerocopy), from(t, most, oneshot_is_not, other);
    snprintf(text, WORDS, "zero-copy on the node %s, %s elsewhere %s", zerocopy,
             mpi_cuda_aware() ? "device" : "staged", other);
}

/* --- figures --- */

static double least(const double *v, int n)
{
    double min = v[0];
    for (int i = 1; i < n; i++) min = fmin(min, v[i]);
    return min;
}

/* Microseconds of a kernel that moves next to nothing. */
static double launch_us(const struct tune_table *t, int rows)
{
    const struct tune_grid *g = &t->grid[TUNE_PACK_DEVICE];
    return rows ? least(g->us[rows - 1], g->sizes) : -1;
}

/* The largest size that both tables have. */
static double common_bytes(const struct tune_grid *a, const struct tune_grid *b)
{
    return a->sizes && b->sizes ? fmin(a->bytes[a->sizes - 1], b->bytes[b->sizes - 1]) : 0;
}

static double packing_rate(const struct tune_table *t, int rows, double bytes)
{
    bool there = rows && t->grid[TUNE_PACK_DEVICE].block[rows - 1] >= BLOCK;
    double us = there ? tune_time(t, TUNE_PACK_DEVICE, BLOCK, bytes) : -1;
    return us > 0 ? bytes / us / 1e3 : -1;
}

/* GB/s between the GPUs of ranks 0 and 1, by the two longest reads. */
static double link_rate(const struct tune_table *t)
{
    const struct tune_grid *g = &t->grid[TUNE_PEER_READ];
    int n = g->sizes, row = g->blocks - 1;
    if (!g->blocks) return -1;
    double bytes = g->bytes[n - 1], us = g->us[row][n - 1];
    if (n > 1 && us > g->us[row][n - 2]) bytes -= g->bytes[n - 2], us -= g->us[row][n - 2];
    return bytes / us / 1e3;
}

static void figure(char text[WORDS], const char *format, double value)
{
    if (value < 0) snprintf(text, WORDS, "not measured");
    else snprintf(text, WORDS, format, value);
}

static void say_kernels(const struct tune_gains *g, struct line *l)
{
    snprintf(l->assumed, sizeof l->assumed, "the model's everywhere");
    if (!g || !g->measured) snprintf(l->found, sizeof l->found, "not measured");
    else if (!g->better)
        snprintf(l->found, sizeof l->found, "none beats the model (%d of %d layouts)", g->measured, g->layouts);
    else
        snprintf(l->found, sizeof l->found, "%d of %d beat the model, by %.0f %%, at most %.0f %% (%d of %d layouts)",
                 g->better, 2 * g->measured, 100 * g->sum / g->better, 100 * g->most, g->measured, g->layouts);
}

void findings_print(const struct tune_table *t, int rows, const struct gen_gpu *gpu, const struct tune_gains *gains)
{
    struct reason why;
    struct line line[5] = {0};
    struct tune_table *assumed = tune_parse(tune_builtin, "built-in", &why);
    if (!assumed) return;
    tune_fit(assumed, gpu);
    int all = assumed->grid[TUNE_PACK_DEVICE].blocks;
    double bytes = common_bytes(&t->grid[TUNE_PACK_DEVICE], &assumed->grid[TUNE_PACK_DEVICE]);
    say_crossings(t, bytes, line[0].found), say_crossings(assumed, bytes, line[0].assumed);
    figure(line[1].found, "%.1f us a kernel, waited for", launch_us(t, rows));
    figure(line[1].assumed, "%.1f us", launch_us(assumed, all));
    figure(line[2].found, "%.3g GB/s between the GPUs of ranks 0 and 1", link_rate(t));
    figure(line[2].assumed, "%.3g GB/s", gpu->link);
    figure(line[3].found, "%.3g GB/s of 64 B blocks", packing_rate(t, rows, bytes));
    figure(line[3].assumed, "%.3g GB/s", packing_rate(assumed, all, bytes));
    say_kernels(gains, &line[4]);
    static const char *const names[] = {"crossover", "launch", "link", "packing", "kernels"};
    for (int i = 0; i < 5; i++) print(names[i], &line[i]);
    free(assumed);
}
