/* form_host.c: a form's long lists for code in host memory (host.lua): plain arrays, of 4 or 8 bytes an entry as the
 * form's signature tells, in the form's units. An index is its offsets; a list of blocks is for each block where it
 * lies less its place in the packed stream, and that place, and at its end the place where the next block would be;
 * or its pieces' offsets, in sections of one length. */
#include "form.h"
#include "reason.h"
#include <stdlib.h>
#include <string.h>

#define PADDING 32   /* entries: host.lua fetches so many ahead */

/* By the rules of host_list.lua's at_type and start_type. */
static int at_bytes(const struct form_node *n)
{
    bool narrow = (n->code->base == 4 && n->code->entry == 2) || (!n->code->base && n->code->entry == 4);
    return narrow ? 4 : 8;
}

static int start_bytes(const struct form *f, const struct form_node *n)
{
    return f->plan_bytes / n->unit < (int64_t)1 << 29 ? 4 : 8;
}

static bool is_list(const struct form_node *n)
{
    return n->kind == FORM_TABLE || n->kind == FORM_BLOCKS;
}

/*
 * Blocks that are short, and multiples of one length, are cut into pieces of that: then every copy is of a constant
 * length. What that length is may change on the way: where a list goes on with another property of the same atoms, say.
 */

/* ORDER host_list.lua's PIECES: the lengths that there is code for. */
static const int pieces[] = {4, 8, 12, 16, 20, 24, 32, 40, 48, 64};
#define PIECES_A_BLOCK 6   /* on average, at most */
#define BATCH 64           /* blocks that have one length of pieces: so many, ... */
#define BATCH_MIN 16       /* ... and fewer, in a new section, where it would get shorter */

struct survey {
    const struct form_node *node;
    int64_t low, high;         /* places of blocks, in units */
    int64_t blocks, bytes;     /* of the batch so far */
    int64_t common;            /* divisor of their lengths */
    struct stridec_host_section *section;
    int64_t sections, start, first;   /* of what was cut so far: packed bytes, pieces */
    bool whole;                /* some can't be cut, or there is no memory */
};

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The longest piece for lengths of this divisor, or 0. */
static int64_t piece_of(int64_t common, int unit)
{
    int64_t piece = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (common % pieces[i] == 0 && pieces[i] % unit == 0) piece = pieces[i];
    return piece;
}

/* The batch goes into the last section, or a new one. */
static void cut_batch(struct survey *s)
{
    int64_t piece = piece_of(s->common, s->node->unit), n = s->sections;
    struct stridec_host_section *last = n ? &s->section[n - 1] : NULL;
    if (!s->bytes || s->whole || (s->whole = !piece)) return;
    if (!last || last->piece != piece) {
        /* At powers of two there is no room left. */
        struct stridec_host_section *more = n & (n - 1) ? s->section
                                                        : realloc(s->section, (size_t)(2 * n + 1) * sizeof *more);
        if ((s->whole = !more)) return;
        s->section = more, last = &more[s->sections++];
        *last = (struct stridec_host_section){.piece = piece, .first = s->first, .start = s->start};
    }
    last->count += s->bytes / piece;
    s->first += s->bytes / piece, s->start += s->bytes;
    s->blocks = s->bytes = s->common = 0;
}

/* The next block would make the pieces shorter, and those so far are worth a section or go on with the last one. */
static bool ends_batch(const struct survey *s, int64_t common)
{
    int64_t piece = piece_of(s->common, s->node->unit);
    bool goes_on = s->sections && s->section[s->sections - 1].piece == piece;
    return piece_of(common, s->node->unit) < piece && (s->blocks >= BATCH_MIN || (s->blocks && goes_on));
}

static int survey_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct survey *s = arg;
    int64_t at = user - s->node->tree->off, past = at + len;
    (void)packed;
    if (at / s->node->unit < s->low) s->low = at / s->node->unit;
    if (past / s->node->unit > s->high) s->high = past / s->node->unit;
    int64_t common = divisor(s->common, len);
    if (common != s->common && ends_batch(s, common)) {
        cut_batch(s);
        common = len;
    }
    s->common = common, s->bytes += len;
    if (++s->blocks == BATCH) cut_batch(s);
    return s->whole;
}

/* The sections of a list of blocks, malloc'd; NULL: they stay whole. */
static struct stridec_host_section *cut(const struct form_node *n, int64_t *sections)
{
    struct survey s = {.node = n};
    if (n->kind != FORM_BLOCKS) return NULL;
    tree_walk(n->tree, 1, 0, 0, n->tree->size, survey_run, &s);
    cut_batch(&s);
    bool fits = at_bytes(n) == 8 || (s.low >= INT32_MIN && s.high <= INT32_MAX);
    if (fits && !s.whole && s.first <= PIECES_A_BLOCK * n->blocks) {
        *sections = s.sections;
        return s.section;
    }
    free(s.section);
    return NULL;
}

/*
 * Filling.
 */

struct plan {
    const struct form_node *node;
    struct stridec_host_section *section;
    int64_t sections, count;
    int at, start;             /* bytes of an entry; start 0: no such array */
};

static struct plan plan_of(const struct form *f, const struct form_node *n)
{
    struct plan p = {.node = n, .at = at_bytes(n)};
    p.section = cut(n, &p.sections);
    const struct stridec_host_section *last = p.section ? &p.section[p.sections - 1] : NULL;
    p.count = n->kind == FORM_TABLE ? n->tree->count : last ? last->first + last->count : n->blocks;
    if (n->kind == FORM_BLOCKS && !p.section) p.start = start_bytes(f, n);
    return p;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static size_t array_bytes(const struct plan *p, int entry)
{
    return entry ? aligned((size_t)(p->count + PADDING) * (size_t)entry) : 0;
}

static void put(const void *array, int entry, int64_t i, int64_t value)
{
    form_put((unsigned char *)(uintptr_t)array + i * entry, entry, value);
}

struct run_fill {
    const struct plan *plan;
    const struct stridec_host_list *list;
    const struct stridec_host_section *section;   /* that entry i belongs to */
    int64_t i;
};

static int fill_run(void *arg, int64_t user, int64_t packed, int64_t len)
{
    struct run_fill *r = arg;
    const struct plan *p = r->plan;
    int64_t unit = p->node->unit, at = user - p->node->tree->off;
    if (p->section && r->i == r->section->first + r->section->count) r->section++;
    for (int64_t done = 0; p->section && done < len; done += r->section->piece)
        put(r->list->at, p->at, r->i++, (at + done) / unit);
    if (p->section) return 0;
    put(r->list->at, p->at, r->i, (at - packed) / unit);
    put(r->list->start, p->start, r->i++, packed / unit);
    return 0;
}

static void fill_list(const struct plan *p, const struct stridec_host_list *list)
{
    const struct tree *t = p->node->tree;
    struct run_fill r = {p, list, p->section, 0};
    if (p->node->kind == FORM_BLOCKS) tree_walk(t, 1, 0, 0, t->size, fill_run, &r);
    if (p->start) put(list->start, p->start, r.i, t->size / p->node->unit);
    for (int64_t i = 0; p->node->kind == FORM_TABLE && i < t->count; i++)
        put(list->at, p->at, i, t->at[i] / p->node->unit);
}

struct fill {
    const struct form *form;
    const struct stridec_host_list *first;
    struct stridec_host_list *list;   /* the next one; NULL: only counted */
    char *room;
    size_t lists, bytes;
};

/* One array for all properties of the same scattered atoms: what was read is near when it is read again. */
static void share(struct fill *l, size_t bytes)
{
    for (const struct stridec_host_list *o = l->first; o < l->list; o++)
        if (o->count == l->list->count && o->entry == l->list->entry && !memcmp(o->at, l->list->at, bytes)) {
            l->list->at = o->at;
            return;
        }
}

/* Parents before children, children in order: host.lua counts lists alike. */
static void visit(struct fill *l, const struct form_node *n)
{
    if (is_list(n)) {
        struct plan p = plan_of(l->form, n);
        size_t at = array_bytes(&p, p.at), start = array_bytes(&p, p.start);
        size_t sections = aligned((size_t)p.sections * sizeof *p.section);
        l->lists++;
        l->bytes += at + start + sections;
        if (l->list) {
            char *cuts = l->room + at + start;
            *l->list = (struct stridec_host_list){l->room, start ? l->room + at : NULL, p.count,
                                                  p.section ? (void *)cuts : NULL, p.sections, p.at};
            if (p.section) memcpy(cuts, p.section, (size_t)p.sections * sizeof *p.section);
            fill_list(&p, l->list);
            share(l, at);
            l->list++;
            l->room += at + start + sections;
        }
        free(p.section);
    }
    for (int i = 0; i < n->count; i++) visit(l, n->child[i]);
}

struct stridec_host_list *form_host_lists(const struct form *f, struct reason *why)
{
    struct fill l = {.form = f};
    why->text[0] = '\0';
    if (!f->root || !form_has_lists(f)) return NULL;
    visit(&l, f->root);
    size_t head = aligned(l.lists * sizeof *l.list);
    struct stridec_host_list *lists = calloc(1, head + l.bytes);
    if (!lists) return reason_memory(why);
    l.first = l.list = lists;
    l.room = (char *)lists + head;
    visit(&l, f->root);
    return lists;
}
