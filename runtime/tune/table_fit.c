/* table_fit.c: see table_fit.h. */
#include "table_fit.h"
#include <stdlib.h>

#define MEASURED 90     /* the architecture of table_builtin.c */
#define EQUAL 1.5       /* ratios of makers' figures; measured ones of two GPUs of a kind differ by tenths */

/* How much slower a GPU's way is; 1 if equal. */
static double slower(int measured, int gpu)
{
    double ratio = (double)measured / gpu;
    return ratio > EQUAL || ratio < 1 / EQUAL ? ratio : 1;
}

static void stretch(struct tune_grid *g, double ratio)
{
    for (int i = 0; i < g->blocks && ratio != 1; i++) {
        double least = g->us[i][0];
        for (int j = 1; j < g->sizes; j++)
            if (g->us[i][j] < least) least = g->us[i][j];
        for (int j = 0; j < g->sizes; j++) g->us[i][j] = least + (g->us[i][j] - least) * ratio;
    }
}

void tune_fit(struct tune_table *t, const struct gen_gpu *gpu)
{
    const struct gen_gpu *measured = gen_gpu_row(MEASURED);
    double memory = slower(measured->memory, gpu->memory), link = slower(measured->link, gpu->link);
    double host = slower(measured->host, gpu->host);
    stretch(&t->grid[TUNE_PACK_DEVICE], memory), stretch(&t->grid[TUNE_UNPACK_DEVICE], memory);
    for (int c = TUNE_PACK_MAPPED; c <= TUNE_UNPACK_STAGED; c++) stretch(&t->grid[c], host);
    stretch(&t->grid[TUNE_MESSAGE_DEVICE], link);
}

static void append(struct tune_grid *g, double block, const struct tune_table *usual, enum tune_curve c)
{
    if (g->blocks == TUNE_POINTS_MAX || (g->blocks && block <= g->block[g->blocks - 1])) return;
    for (int j = 0; j < g->sizes; j++) g->us[g->blocks][j] = tune_time(usual, c, block, g->bytes[j]);
    g->block[g->blocks++] = block;
}

bool tune_fill(struct tune_table *t, const struct gen_gpu *gpu, const double *block, int blocks)
{
    struct reason why;
    struct tune_table *usual = tune_parse(tune_builtin, "built-in", &why);
    if (!usual) return false;
    tune_fit(usual, gpu);
    for (int c = TUNE_PACK_DEVICE; c <= TUNE_UNPACK_STAGED; c++)
        for (int i = 0; i < blocks && t->grid[c].sizes; i++)
            append(&t->grid[c], block[i], usual, (enum tune_curve)c);
    free(usual);
    return true;
}
