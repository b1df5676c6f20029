/* show.c: prints how messages travel by a tuned table. */
#include "show.h"
#include "datatype/layout.h"
#include "datatype/type_filter.h"
#include "node/segment.h"
#include "timing.h"
#include "tune/verdict.h"

static bool goes_direct(const struct tune_verdict *v, const struct tune_message *m, bool same_node)
{
    return same_node && v->direct && m->bytes >= RNDV_MIN;
}

static void show_grid(const struct tune_table *t, bool aware, bool same_node)
{
    const struct tune_points *points = tune_points(false);
    printf("\nchoice %swith an MPI that is %sCUDA-aware; columns: packed bytes, rows: block length\n%10s",
           same_node ? "between ranks of a node, " : "", aware ? "" : "not ", "");
    for (int j = 0; j < points->sizes; j++) printf(" %9.0f", points->bytes[j]);
    for (int i = 0; i < points->blocks; i++) {
        printf("\n%10.0f", points->block[i]);
        for (int j = 0; j < points->sizes; j++) {
            struct tune_message m = {.aware = aware, .block = points->block[i], .bytes = points->bytes[j]};
            struct tune_verdict v = tune_judge(t, &m);
            printf(" %9s", goes_direct(&v, &m, same_node) ? "zerocopy" : tune_transport_name(v.way));
        }
    }
    printf("\n");
}

void tune_show_table(const struct tune_shown *s)
{
    const struct tune_table *t = s->table;
    tune_write(t, stdout);
    printf("\nby %s:\n", s->file);
    for (int aware = 0; aware <= (t->grid[TUNE_MESSAGE_DEVICE].blocks > 0); aware++) {
        show_grid(t, aware, false);
        if (t->grid[TUNE_ZEROCOPY].blocks) show_grid(t, aware, true);
    }
}

static void show_peer(const struct tune_shown *s, const struct tune_message *m, bool same_node)
{
    char why[TUNE_WHY_MAX];
    struct tune_verdict v = tune_judge(s->table, m);
    bool direct = goes_direct(&v, m, same_node);
    if (!same_node || m->bytes < RNDV_MIN) v.zerocopy_us = -1;   /* zero-copy does not apply */
    tune_explain(&v, direct, s->file, why);
    printf("  %-12s %-16s %s: %s\n", same_node ? "on the node," : "elsewhere,",
           m->aware ? "CUDA-aware MPI:" : "other MPI:", direct ? "zerocopy" : tune_transport_name(v.way), why);
}

static void show_peers(const struct tune_shown *s, const struct layout *l, int64_t bytes, bool aware)
{
    struct tune_message m = {aware, layout_contiguous(l, s->count), false, (double)l->block, (double)bytes};
    if (aware && m.contiguous) {
        printf("  %-29s in one piece, which the MPI takes as it is\n", "anywhere,    CUDA-aware MPI:");
        return;
    }
    show_peer(s, &m, true);
    show_peer(s, &m, false);
}

static void show_layout(const struct tune_shown *s, const char *name, const struct layout *l, int64_t bytes)
{
    printf("\n%s x %lld: %lld bytes in blocks of %lld\n", name, (long long)s->count, (long long)bytes,
           (long long)(layout_contiguous(l, s->count) ? bytes : l->block));
    if (bytes && s->table->grid[TUNE_MESSAGE_DEVICE].blocks) show_peers(s, l, bytes, true);
    if (bytes) show_peers(s, l, bytes, false);
    else printf("  nothing to send\n");
}

int tune_show_type(const struct tune_shown *s, const char *name, const struct tree *t, int64_t extent,
                   struct reason *why)
{
    struct tree *c = tree_canonical(t, why);
    if (!c) return -1;
    struct layout l = {.tree = c, .size = c->size, .extent = extent, .low = c->low, .high = c->high};
    l.block = layout_block(c);
    int64_t bytes = layout_bytes(&l, s->count);
    if (bytes >= 0) show_layout(s, name, &l, bytes);
    else snprintf(why->text, sizeof why->text, "a message of %lld passes 2^63 bytes", (long long)s->count);
    tree_unref(c);
    return bytes < 0 ? -1 : 0;
}
