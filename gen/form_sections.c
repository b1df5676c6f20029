/* form_sections.c: see form_sections.h. */
#include "form_sections.h"
#include <stdlib.h>

/* ORDER host_list.lua's PIECES: the lengths that there is code for. */
static const int pieces[] = {4, 8, 12, 16, 20, 24, 32, 40, 48, 64};
#define BATCH 64           /* blocks that have one length of pieces: so many, ... */
#define BATCH_MIN 16       /* ... and fewer, in a new section, where it would get shorter */
#define ALIGNED (FORM_LINE / 4) /* entries: where a section's begin */

struct survey {
    const struct form_node *node;
    struct form_cut *cut;
    int64_t shared;            /* sections that were there before */
    int64_t low, high;         /* places of the blocks behind them, in units */
    int64_t blocks, bytes;     /* of the batch so far */
    int64_t common;            /* divisor of their lengths */
    bool whole;                /* some can't be cut, or there is no memory */
};

int64_t form_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

int64_t form_piece(int64_t common, int unit)
{
    int64_t piece = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (common % pieces[i] == 0 && pieces[i] % unit == 0) piece = pieces[i];
    return piece;
}

struct stridec_host_section *form_section_new(struct form_cut *c)
{
    int64_t n = c->sections;
    /* At powers of two there is no room left. */
    struct stridec_host_section *more = n & (n - 1) ? c->section : realloc(c->section, (size_t)(2 * n + 1) * sizeof *more);
    if (!more) return NULL;
    c->section = more, c->sections++;
    return &more[n];
}

/* The last section, if it is of such pieces and none that shares its entries; else NULL. */
static struct stridec_host_section *last_of(const struct survey *s, int64_t piece)
{
    struct stridec_host_section *last = s->cut->sections > s->shared ? &s->cut->section[s->cut->sections - 1] : NULL;
    return last && last->piece == piece ? last : NULL;
}

/* The batch goes into the last section, or a new one. */
static void cut_batch(struct survey *s)
{
    struct form_cut *c = s->cut;
    int64_t piece = form_piece(s->common, s->node->unit), n = piece ? s->bytes / piece : 0;
    if (!s->bytes || s->whole || (s->whole = !piece)) return;
    struct stridec_host_section *last = last_of(s, piece);
    if (!last) {
        if ((s->whole = !(last = form_section_new(c)))) return;
        c->entries = (c->entries + ALIGNED - 1) / ALIGNED * ALIGNED;
        *last = (struct stridec_host_section){.piece = piece, .first = c->entries, .start = c->bytes, .step = s->node->unit};
    }
    last->count += n, c->entries += n, c->pieces += n, c->bytes += s->bytes;
    s->blocks = s->bytes = s->common = 0;
}

/* The next block would make the pieces shorter, and those so far are worth a section or go on with the last one. */
static bool ends_batch(const struct survey *s, int64_t common)
{
    int64_t piece = form_piece(s->common, s->node->unit);
    return form_piece(common, s->node->unit) < piece && (s->blocks >= BATCH_MIN || (s->blocks && last_of(s, piece)));
}

static int survey_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct survey *s = arg;
    int64_t at = user - s->node->tree->off, past = at + len;
    (void)packed;
    if (at / s->node->unit < s->low) s->low = at / s->node->unit;
    if (past / s->node->unit > s->high) s->high = past / s->node->unit;
    int64_t common = form_divisor(s->common, len);
    if (common != s->common && ends_batch(s, common)) {
        cut_batch(s);
        common = len;
    }
    s->common = common, s->bytes += len;
    if (++s->blocks == BATCH) cut_batch(s);
    return s->whole;
}

bool form_sections(const struct form_node *n, bool narrow, struct form_cut *c)
{
    struct survey s = {.node = n, .cut = c};
    *c = (struct form_cut){0};
    form_share(n, narrow, c);
    s.shared = c->sections;
    tree_walk(n->tree, 1, 0, c->bytes, n->tree->size, survey_run, &s);
    cut_batch(&s);
    bool fits = !narrow || (s.low >= INT32_MIN && s.high <= INT32_MAX);
    if (c->section && fits && !s.whole && c->pieces <= FORM_PIECES_A_BLOCK * n->blocks) return true;
    free(c->section);
    return false;
}
